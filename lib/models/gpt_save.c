/* gpt_save: writes a model for transformers. */
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "models/gpt.h"
#include "models/gpt_files.h"
#include "nn/positions/positions.h"

static const char call[] = "gpt_save";
static const char mark[] = "tg_gpt_save_config_default";

tg_gpt_save_config tg_gpt_save_config_default(void)
{
    return (tg_gpt_save_config){.mark = mark, .floats = TG_SAVE_FLOATS_KEEP, .end_token = -1};
}

static bool write_weights(const tg_gpt *model, const char *path, tg_save_floats floats, tg_error *error)
{
    static const char prefix[] = "transformer.";
    const tg_gpt_config *c = tg_gpt_get_config(model);
    tg_params *own = tg_gpt_params(model);
    tg_params *weights = tg_gpt_weights_new(own, c, TG_GPT_NAMES_TRANSFORMERS, prefix, error);
    tg_params_save_config config = tg_params_save_config_default();
    config.floats = floats;
    bool is_saved = weights &&
                    tg_gpt_weights_copy(call, weights, own, c, TG_GPT_NAMES_TRANSFORMERS, prefix, model, error) &&
                    tg_params_save(weights, path, &config, error);
    tg_params_free(weights);
    return is_saved;
}

bool tg_gpt_save(const tg_gpt *model, const char *folder, const tg_gpt_save_config *given, tg_error *error)
{
    if (!model || !folder) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, model ? "folder" : "model");
    }
    if (!tg_config_check(call, given, mark, error)) {
        return false;
    }
    tg_gpt_save_config config = given ? *given : tg_gpt_save_config_default();
    const tg_gpt_config *c = tg_gpt_get_config(model);
    if (c->position != TG_POSITION_LEARNED) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: the model has %s positions; GPT2LMHeadModel has only learned ones", call,
                            tg_position_name(c->position));
    }
    if (model->has_own_head) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: the head was replaced by one of %lld outputs with a bias, which GPT2LMHeadModel does "
                            "not have; tg_params_save writes such a model",
                            call, (long long)model->out_head.weight->shape[0]);
    }
    if (config.end_token < -1 || config.end_token >= c->vocabulary) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: end_token %d is outside [-1,%lld)", call, (int)config.end_token,
                            (long long)c->vocabulary);
    }
    size_t size = strlen(folder) + sizeof "/model.safetensors";
    char *path = tg_alloc(size, 1);
    if (!path) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    snprintf(path, size, "%s/model.safetensors", folder);
    bool is_saved = write_weights(model, path, config.floats, error);
    snprintf(path, size, "%s/config.json", folder);
    is_saved = is_saved && tg_gpt_json_write(call, path, c, config.end_token, error);
    tg_free(path);
    return is_saved;
}

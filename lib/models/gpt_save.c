/* gpt_save: writes a model for transformers, in the family from which it was opened, or else in the first one whose
 * models may have its config. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "models/family.h"
#include "nn/positions/positions.h"

static const char call[] = "gpt_save";
static const char mark[] = "tg_gpt_save_config_default";

tg_gpt_save_config tg_gpt_save_config_default(void)
{
    return (tg_gpt_save_config){.mark = mark, .floats = TG_SAVE_FLOATS_KEEP, .end_token = -1};
}

/* Returns the family of a model, and sets its settings there. NULL after an error. */
static const tg_family *find_family(const tg_gpt *model, tg_settings *settings, tg_error *error)
{
    char problem[TG_GPT_PROBLEM], first[TG_GPT_PROBLEM];
    const tg_family *f = model->family;
    if (f && tg_settings_from_config(f, &model->config, settings, first)) {
        return f;
    }
    for (int i = 0; (f = tg_family_at(i)); i++) {
        if (tg_settings_from_config(f, &model->config, settings, problem)) {
            return f;
        }
        /* what a family of the same positions cannot be says more than that GPT-2 is none */
        if (!model->family && (i == 0 || (f->position == model->config.position && f->norm == model->config.norm))) {
            memcpy(first, problem, sizeof first);
        }
    }
    tg_error_set(error, TG_ERROR_VALUE,
                 "%s: no family of published models has such a model: %s; tg_params_save writes every model", call,
                 first);
    return NULL;
}

/* Returns the dtype of the weights, as in torch. */
static const char *dtype_name(const tg_gpt *model, tg_save_floats floats)
{
    static const char *const names[] = {[TG_SAVE_FLOATS_F16] = "float16", [TG_SAVE_FLOATS_BF16] = "bfloat16"};
    return floats != TG_SAVE_FLOATS_KEEP ? names[floats] : tg_gpt_dtype(model) == TG_F64 ? "float64" : "float32";
}

static bool save(const tg_gpt *model, const char *folder, const tg_gpt_save_config *config, tg_error *error)
{
    tg_settings settings;
    tg_gpt_config there;
    char problem[TG_GPT_PROBLEM];
    const tg_family *family = find_family(model, &settings, error);
    if (!family) {
        return false;
    }
    tg_settings_to_config(family, &settings, &there, problem); /* it has just succeeded */
    const tg_token_list end = {.count = 1, .ids = {config->end_token}};
    settings.begin_tokens = config->end_token >= 0 ? end : model->begin_tokens;
    settings.end_tokens = config->end_token >= 0 ? end : model->end_tokens;
    settings.padding_tokens = model->padding_tokens;
    char *weights = tg_path_join(folder, strlen(folder), "/model.safetensors");
    char *json = tg_path_join(folder, strlen(folder), "/config.json");
    bool is_saved =
        weights && json
            ? tg_weights_write(call, weights, (tg_gpt *)(uintptr_t)model, family, &there, config->floats, error) &&
                  tg_config_json_write(call, json, family, &settings, dtype_name(model, config->floats), error)
            : tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
    tg_free(weights);
    tg_free(json);
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
    if ((unsigned)config.floats > TG_SAVE_FLOATS_BF16) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: floats %d; they must be a tg_save_floats", call,
                            (int)config.floats);
    }
    if (model->has_own_head) {
        return tg_error_set(
            error, TG_ERROR_VALUE,
            "%s: the head was replaced by one of %lld outputs with a bias, which no published model has; "
            "tg_params_save writes such a model",
            call, (long long)model->out_head.weight->shape[0]);
    }
    if (config.end_token < -1 || config.end_token >= model->config.vocabulary) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: end_token %d is outside [-1,%lld)", call, (int)config.end_token,
                            (long long)model->config.vocabulary);
    }
    return save(model, folder, &config, error);
}

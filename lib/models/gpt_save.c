/* gpt_save: writes a model for transformers. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "models/family.h"
#include "tensor/tensor.h"

static const char call[] = "gpt_save";

TG_CONFIG(tg_gpt_save_config, tg_gpt_save_config_default, mark, .mark = mark, .floats = TG_SAVE_FLOATS_KEEP,
          .end_token = -1);

/* Returns the dtype of the weights, as in torch. */
static const char *dtype_name(const tg_gpt *model, tg_save_floats floats)
{
    static const char *const names[] = {[TG_SAVE_FLOATS_F16] = "float16", [TG_SAVE_FLOATS_BF16] = "bfloat16"};
    bool is_bf16 = tg_dtype_of(model->tok_emb.weight) == TG_BF16;
    return floats != TG_SAVE_FLOATS_KEEP   ? names[floats]
           : is_bf16                       ? names[TG_SAVE_FLOATS_BF16]
           : tg_gpt_dtype(model) == TG_F64 ? "float64"
                                           : "float32";
}

static bool save(const tg_gpt *model, const char *folder, const tg_gpt_save_config *config, tg_error *error)
{
    tg_settings settings;
    tg_gpt_config there;
    char problem[TG_GPT_PROBLEM];
    const tg_family *family = tg_family_of(call, model, &settings, error);
    if (!family) {
        return false;
    }
    tg_settings_to_config(family, &settings, &there, problem); /* it has just succeeded */
    const tg_special_ids end = {.count = 1, .ids = {config->end_token}};
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

#include "models.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad_text.h>

#include "fuzz.h"

tg_gpt *fuzz_gpt_new(tg_params *params, int family)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 5;
    config.context = 8;
    config.width = 4;
    config.heads = config.layers = 2;
    config.tied_head = family % 2;
    if (family == 0) {
        config.qkv_bias = true;
    } else {
        config.hidden = 6;
        config.key_heads = 1;
        config.norm = TG_NORM_RMS;
        config.feed_forward = TG_FEED_FORWARD_SWIGLU;
        config.position = TG_POSITION_ROTARY;
        config.out_bias = false;
        config.qkv_bias = family == 3;
        config.query_key_norm = family >= 4;
        config.layers_of_period[0].window = family == 2 ? 3 : 0;
    }
    if (family == 5) {
        config.head_width = 4;
        config.norm = TG_NORM_RMS_PLUS_ONE;
        config.feed_forward = TG_FEED_FORWARD_GEGLU;
        config.norm_after = true;
        config.embedding_scale = 2;
        config.period = 2;
        config.layers_of_period[0].window = 2;
    }
    return tg_gpt_new(params, &config);
}

tg_tensor *fuzz_gpt_logits(tg_run *run, const tg_gpt *model, bool is_finite)
{
    const tg_gpt_config *config = tg_gpt_get_config(model);
    int32_t values[] = {0, 1, 2};
    for (int i = 0; i < 3; i++) {
        values[i] %= (int32_t)config->vocabulary;
    }
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tape_set_training(t, false);
    tg_tape_set_recording(t, false);
    tg_tensor *ids = tg_tensor_new_from(TG_I32, TG_SHAPE(1, config->context < 3 ? config->context : 3), values, NULL);
    tg_tensor *logits = tg_gpt_forward(t, model, ids, NULL);
    fuzz_require(logits != NULL, "forward: %s", tg_tape_error(t)->text);
    for (int64_t i = 0; is_finite && i < tg_tensor_count(logits); i++) {
        fuzz_require(isfinite(tg_tensor_value_at(logits, i)), "a logit is %g", tg_tensor_value_at(logits, i));
    }
    tg_tensor *copy = tg_tensor_new_copy(logits, NULL);
    tg_release(ids);
    tg_tape_free(t);
    return copy;
}

void fuzz_require_same(tg_tensor *a, tg_tensor *b, const char *what)
{
    fuzz_require(tg_shape_equal(tg_tensor_shape(a), tg_tensor_shape(b)) &&
                     memcmp(tg_tensor_data(a), tg_tensor_data(b),
                            (size_t)tg_tensor_count(a) * tg_dtype_size(tg_tensor_dtype(a))) == 0,
                 "%s", what);
    tg_release(a);
    tg_release(b);
}

void fuzz_require_error(const tg_error *error, const char *path, bool fails)
{
    fuzz_require(fuzz_is_utf8((const uint8_t *)error->text, strlen(error->text)), "not UTF-8: %s", error->text);
    if (error->code == TG_ERROR_MEMORY) {
        fuzz_require(fails, "%s", error->text);
        return;
    }
    fuzz_require(error->code == TG_ERROR_VALUE || error->code == TG_ERROR_SHAPE || error->code == TG_ERROR_DTYPE ||
                     error->code == TG_ERROR_FORMAT || error->code == TG_ERROR_FILE || error->code == TG_ERROR_RANGE,
                 "code %d, \"%s\"", (int)error->code, error->text);
    fuzz_require(strstr(error->text, path) != NULL, "no file in \"%s\"", error->text);
}

/* Returns the config.json of a folder; yours to tg_text_free. */
static char *read_config(int folder)
{
    char path[200];
    size_t length;
    snprintf(path, sizeof path, "%s/config.json", fuzz_folder(folder));
    return tg_text_read(path, &length, NULL);
}

void fuzz_gpt_open(int from, int to, uint64_t fail_at, bool is_finite)
{
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32), *again = tg_params_new(run, TG_F32);
    tg_params_add(params, "own", TG_SHAPE(2));
    fuzz_memory_fail(fail_at, false);
    tg_gpt *model = tg_gpt_open(params, fuzz_folder(from), NULL), *saved = NULL;
    fuzz_memory_fail(0, false);
    fuzz_require(tg_rng_position(tg_run_rng(run)) == 0, "the generator has drawn");
    if (!model) {
        fuzz_require_error(tg_params_error(params), fuzz_folder(from), fail_at > 0);
        fuzz_require(tg_params_count(params) == 1, "%lld params", (long long)tg_params_count(params));
    } else {
        fuzz_require(tg_params_error(params)->code == TG_OK, "%s", tg_params_error(params)->text);
        fuzz_require(tg_gpt_save(model, fuzz_folder(to), NULL, &error), "save: %s", error.text);
        saved = tg_gpt_open(again, fuzz_folder(to), NULL);
        fuzz_require(saved != NULL, "open what was saved: %s", tg_params_error(again)->text);
        fuzz_require_same(fuzz_gpt_logits(run, model, is_finite), fuzz_gpt_logits(run, saved, is_finite),
                          "what was saved has other logits");
        char *first = read_config(to);
        fuzz_require(tg_gpt_save(saved, fuzz_folder(to), NULL, &error), "save again: %s", error.text);
        char *second = read_config(to);
        fuzz_require(strcmp(first, second) == 0, "config.json is saved as\n%sand then as\n%s", first, second);
        tg_text_free(first);
        tg_text_free(second);
    }
    tg_gpt_free(saved);
    tg_gpt_free(model);
    tg_params_free(again);
    tg_params_free(params);
    tg_run_free(run);
}

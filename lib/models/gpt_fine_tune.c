/* gpt_fine_tune: another head, and LoRA on the layers of a model. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "models/gpt.h"
#include "models/lora.h"

/* Returns the params of a model if it exists and their run has no error, else NULL. */
static tg_params *params_of(const tg_gpt *model)
{
    return model && tg_params_is_usable(model->params) ? model->params : NULL;
}

/* ---- head ---- */

/* Returns a tensor with the draws of a Linear's parameter. NULL with the error set. */
static tg_tensor *new_drawn(const tg_params *params, tg_shape shape, double bound, tg_error *error)
{
    tg_tensor *x = tg_tensor_new(tg_params_dtype(params), shape, error);
    if (x && !tg_tensor_fill_uniform(x, tg_params_rng(params), -bound, bound, error)) {
        tg_release(x);
        return NULL;
    }
    return x;
}

bool tg_gpt_replace_head(tg_gpt *model, int64_t outputs)
{
    static const char call[] = "gpt_replace_head";
    tg_params *params = params_of(model);
    if (!params) {
        return false;
    }
    if (outputs < 1 || outputs > INT32_MAX) {
        return tg_params_fail(params, TG_ERROR_SHAPE, "%s: %lld outputs; it must be 1 to %d", call, (long long)outputs,
                              INT32_MAX);
    }
    if (!tg_params_rng(params)) {
        return tg_params_fail(params, TG_ERROR_STATE, "%s: the params have no generator; they need a run (tg_run_new)",
                              call);
    }
    tg_error *error = tg_params_run(params)->error;
    tg_params_point point = tg_params_save_point(params);
    int64_t in = model->config.width;
    tg_tensor *weight = new_drawn(params, TG_SHAPE(outputs, in), tg_linear_bound(in), error);
    tg_tensor *bias = weight ? new_drawn(params, TG_SHAPE(outputs), 1 / sqrt((double)in), error) : NULL;
    int64_t number = tg_params_number(params, "out_head.bias");
    if (bias && number < 0) {
        tg_params_add_existing(params, "out_head.bias", bias);
        tg_release(bias); /* the params hold it */
    } else if (bias) {
        tg_params_replace(params, number, bias);
    }
    if (error->code != TG_OK) {
        tg_release(weight);
        tg_params_return_to(params, &point);
        return false;
    }
    tg_lora_remove(params, &model->out_head);
    tg_params_replace(params, tg_params_number(params, "out_head.weight"), weight);
    model->out_head = (tg_nn_linear){.module = {params, true}, .weight = weight, .bias = bias};
    model->config.tied_head = false;
    model->has_own_head = true;
    return true;
}

/* ---- LoRA ---- */

/* Returns the next of several patterns, which have spaces between them, and its length: 0 after the last one. */
static const char *next_pattern(const char *rest, size_t *length)
{
    rest += strspn(rest, " ");
    *length = strcspn(rest, " ");
    return rest;
}

/* Returns whether a name matches one of the patterns. */
static bool matches(const char *patterns, const char *name)
{
    size_t length;
    const char *one = next_pattern(patterns, &length);
    while (length > 0 && !tg_name_matches_bytes(one, length, name)) {
        one = next_pattern(one + length, &length);
    }
    return length > 0;
}

/* Returns a pattern that no layer matches; the end of the patterns if they are empty; else NULL. */
static const char *find_idle(tg_gpt *model, const char *patterns)
{
    size_t length;
    const char *one = next_pattern(patterns, &length);
    bool is_idle = length == 0;
    while (length > 0 && !is_idle) {
        tg_gpt_part part = {.next = 0};
        tg_nn_linear *layer;
        is_idle = true;
        while (is_idle && tg_gpt_next_layer(model, &part, &layer)) {
            is_idle = !tg_name_matches_bytes(one, length, part.name);
        }
        one = is_idle ? one : next_pattern(one + length, &length);
    }
    return is_idle ? one : NULL;
}

/* Adds LoRA to the layers that match; an error is in the run. */
static void add_to_layers(tg_gpt *model, const char *call, const char *patterns, const tg_lora_config *config)
{
    tg_gpt_part part = {.next = 0};
    tg_nn_linear *layer;
    bool is_good = true;
    while (is_good && tg_gpt_next_layer(model, &part, &layer)) {
        is_good = !matches(patterns, part.name) || tg_lora_add(model->params, call, layer, config);
    }
}

int64_t tg_gpt_count_lora(const char *patterns, int64_t rank, const tg_gpt_config *given)
{
    char problem[TG_GPT_PROBLEM];
    tg_gpt_config config = given ? *given : tg_gpt_config_default();
    tg_gpt_part part = {.next = 0};
    int64_t count = 0, added;
    bool is_good = rank >= 1 && patterns && tg_gpt_config_complete(&config, problem);
    while (is_good && tg_gpt_next_part(&config, &part)) {
        bool is_layer = part.layer > 0 || strcmp(part.name, "out_head") == 0;
        is_good = !is_layer || !matches(patterns, part.name) ||
                  !(__builtin_add_overflow(part.shape.size[0], part.shape.size[1], &added) ||
                    __builtin_mul_overflow(added, rank, &added) || __builtin_add_overflow(count, added, &count));
    }
    return is_good ? count : 0;
}

void tg_gpt_return_to(tg_gpt *model, const tg_params_point *point)
{
    tg_gpt_part part = {.next = 0};
    tg_nn_linear *layer;
    while (tg_gpt_next_layer(model, &part, &layer)) {
        if (layer->lora_a && tg_params_number_of(model->params, layer->lora_a) >= point->count) {
            layer->lora_a = layer->lora_b = NULL;
            layer->lora_scale = 0;
        }
    }
    tg_params_return_to(model->params, point);
}

bool tg_gpt_add_lora(tg_gpt *model, const char *patterns, const tg_lora_config *given)
{
    static const char call[] = "gpt_add_lora";
    tg_params *params = params_of(model);
    if (!params) {
        return false;
    }
    if (!patterns) {
        return tg_params_fail(params, TG_ERROR_STATE, "%s: the patterns are NULL", call);
    }
    tg_lora_config config;
    if (!tg_lora_check_config(params, call, given, &config)) {
        return false;
    }
    const char *idle = find_idle(model, patterns);
    if (idle) {
        return tg_params_fail(params, TG_ERROR_RANGE,
                              "%s: no layer matches '%.*s'; the layers are trf_blocks.N.att.W_query, W_key, W_value "
                              "and out_proj, trf_blocks.N.ff.%s%s",
                              call, (int)(strcspn(idle, " ") < 60 ? strcspn(idle, " ") : 60), idle,
                              model->config.feed_forward == TG_FEED_FORWARD_GELU ? "layers.0 and layers.2"
                                                                                 : "fc1, fc2 and fc3",
                              model->config.tied_head ? "" : ", and out_head");
    }
    tg_params_point point = tg_params_save_point(params);
    add_to_layers(model, call, patterns, &config);
    bool is_added = tg_params_error(params)->code == TG_OK;
    if (!is_added) {
        tg_gpt_return_to(model, &point);
    }
    return is_added;
}

bool tg_gpt_merge_lora(tg_gpt *model)
{
    static const char call[] = "gpt_merge_lora";
    tg_params *params = params_of(model);
    tg_gpt_part part = {.next = 0};
    tg_nn_linear *layer;
    bool is_ready = params != NULL;
    uint64_t scratch = 0;
    while (is_ready && tg_gpt_next_layer(model, &part, &layer)) {
        if (layer->lora_a) {
            is_ready = tg_lora_check(call, layer, tg_params_run(params)->error);
            scratch = tg_lora_scratch(layer) > scratch ? tg_lora_scratch(layer) : scratch;
        }
    }
    if (!is_ready || scratch == 0) {
        return is_ready;
    }
    double *memory = tg_alloc(scratch, sizeof *memory);
    if (!memory) {
        return tg_params_fail(params, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    part = (tg_gpt_part){.next = 0};
    while (tg_gpt_next_layer(model, &part, &layer)) {
        if (layer->lora_a) {
            tg_lora_merge(params, layer, memory);
        }
    }
    tg_free(memory);
    return true;
}

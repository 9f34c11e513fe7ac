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

/* Adds LoRA to the layers that match, and returns their number; an error is in the run. */
static int64_t add_to_layers(tg_gpt *model, const char *call, const char *pattern, const tg_lora_config *config)
{
    tg_gpt_part part = {.next = 0};
    tg_nn_linear *layer;
    int64_t matching = 0;
    while (tg_gpt_next_layer(model, &part, &layer)) {
        if (tg_name_matches(pattern, part.name)) {
            matching++;
            if (!tg_lora_add(model->params, call, layer, config)) {
                break;
            }
        }
    }
    return matching;
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

bool tg_gpt_add_lora(tg_gpt *model, const char *pattern, const tg_lora_config *given)
{
    static const char call[] = "gpt_add_lora";
    tg_params *params = params_of(model);
    if (!params) {
        return false;
    }
    if (!pattern) {
        return tg_params_fail(params, TG_ERROR_STATE, "%s: the pattern is NULL", call);
    }
    tg_lora_config config;
    if (!tg_lora_check_config(params, call, given, &config)) {
        return false;
    }
    tg_params_point point = tg_params_save_point(params);
    int64_t matching = add_to_layers(model, call, pattern, &config);
    if (tg_params_error(params)->code != TG_OK) {
        tg_gpt_return_to(model, &point);
        return false;
    }
    return matching > 0 ||
           tg_params_fail(params, TG_ERROR_RANGE,
                          "%s: no layer matches '%.*s'; the layers are trf_blocks.N.att.W_query, W_key, W_value and "
                          "out_proj, trf_blocks.N.ff.%s%s",
                          call, TG_CUT(pattern, 60),
                          model->config.feed_forward == TG_FEED_FORWARD_GELU ? "layers.0 and layers.2"
                                                                             : "fc1, fc2 and fc3",
                          model->config.tied_head ? "" : ", and out_head");
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

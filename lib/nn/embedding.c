/* embedding: a trained table as a module. lib/ops/embedding/embedding.c computes the lookup and its gradient.
 *
 * As in PyTorch, the padding row is drawn with the other rows and then set to zero, so it takes as many random numbers
 * as any row. It is also frozen, so a tied output head or weight decay does not change it either.
 */
#include "nn/embedding.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

/* ---- tables ---- */

static bool check_table(tg_params *params, const char *call, const char *name, tg_shape shape,
                        const tg_table_options *o)
{
    long long rows = shape.size[0], width = shape.size[1];
    if (rows < 1 || width < 1 || rows > INT32_MAX) {
        return tg_params_fail(
            params, TG_ERROR_SHAPE,
            "%s: '%s' has %lld rows of width %lld; it must have 1 to %d rows, and a width of at least 1", call, name,
            rows, width, INT32_MAX);
    }
    if (o->padding_index != TG_NO_PADDING && (o->padding_index < -rows || o->padding_index >= rows)) {
        return tg_params_fail(params, TG_ERROR_RANGE, "%s: '%s' has padding_index %lld, outside [%lld,%lld)", call,
                              name, (long long)o->padding_index, -rows, rows);
    }
    if (!isfinite(o->mean) || !isfinite(o->std) || o->std < 0) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: '%s' has mean %g and std %g; both must be finite, and std at least 0", call, name,
                              o->mean, o->std);
    }
    if (!(o->max_norm >= 0) || !(o->norm_type > 0)) {
        return tg_params_fail(
            params, TG_ERROR_VALUE,
            "%s: '%s' has max_norm %g and norm_type %g; max_norm must be at least 0 (0: no limit), norm_type above 0",
            call, name, o->max_norm, o->norm_type);
    }
    if (o->from && !o->frozen && tg_tensor_dtype(o->from) == TG_BF16) {
        return tg_params_fail(params, TG_ERROR_DTYPE,
                              "%s: '%s' is given a table of bf16, which is never trained; set config.frozen", call,
                              name);
    }
    if (o->from && !tg_shape_equal(tg_tensor_shape(o->from), shape)) {
        return tg_params_fail(params, TG_ERROR_SHAPE, "%s: '%s' is given a table of shape %s; it must be %s", call,
                              name, tg_shape_text(tg_tensor_shape(o->from)).text, tg_shape_text(shape).text);
    }
    return true;
}

static tg_tensor *add_table(tg_params *params, const char *name, tg_shape shape, const tg_table_options *o)
{
    const char *full = TG_MODULE_NAME(params, name, "weight");
    tg_tensor *weight = o->from ? tg_params_add_existing(params, full, o->from)
                                : tg_params_add_normal(params, full, shape, o->mean, o->std);
    if (weight && o->padding_index != TG_NO_PADDING) {
        bool is_frozen = tg_tensor_set_rows_frozen(weight, o->padding_index, 1, true, tg_params_run(params)->error);
        if (is_frozen && !o->from) {
            size_t row = (size_t)shape.size[1] * tg_size_of(weight->dtype);
            memset((char *)tg_values(weight) + (size_t)o->padding_index * row, 0, row);
        }
    }
    if (weight && o->frozen) {
        tg_tensor_set_requires_grad(weight, false, NULL); /* a leaf of floats: cannot fail */
    }
    return weight;
}

tg_tensor *tg_make_table(tg_params *params, const char *call, const char *name, int64_t rows, int64_t width,
                         tg_table_options *options)
{
    tg_shape shape = tg_shape_make(2, (int64_t[]){rows, width});
    if (!check_table(params, call, name, shape, options)) {
        return NULL;
    }
    if (options->padding_index < 0 && options->padding_index != TG_NO_PADDING) {
        options->padding_index += rows;
    }
    return add_table(params, name, shape, options);
}

/* ---- the module ---- */

TG_CONFIG(tg_nn_embedding_config, tg_nn_embedding_config_default, mark, .mark = mark, .padding_index = TG_NO_PADDING,
          .std = 1, .norm_type = 2);

tg_nn_embedding tg_nn_embedding_make(tg_params *params, const char *name, int64_t rows, int64_t width,
                                     const tg_nn_embedding_config *given)
{
    static const char call[] = "nn_embedding_make";
    tg_nn_embedding none = {.module = {params, false}}, made = {.lookup = tg_embedding_config_default()};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, given, mark, &point)) {
        return none;
    }
    tg_nn_embedding_config config = given ? *given : tg_nn_embedding_config_default();
    tg_table_options options = {config.padding_index, config.mean,     config.std,      config.from,
                                config.frozen,        config.max_norm, config.norm_type};
    made.weight = tg_make_table(params, call, name, rows, width, &options);
    made.mean = config.mean;
    made.std = config.std;
    made.lookup.padding_index = options.padding_index;
    made.lookup.max_norm = config.max_norm;
    made.lookup.norm_type = config.norm_type;
    made.lookup.scale_by_frequency = config.scale_by_frequency;
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : none;
}

bool tg_nn_embedding_resize(tg_nn_embedding *embedding, int64_t rows)
{
    static const char call[] = "nn_embedding_resize";
    if (!tg_module_error(call, embedding)) {
        return false;
    }
    tg_new_rows table = {embedding->weight, tg_tensor_fill_normal, embedding->mean, embedding->std};
    return tg_resize_and_draw(call, &table, 1, rows, embedding->module.params);
}

tg_tensor *tg_nn_embedding_forward(tg_tape *t, const tg_nn_embedding *embedding, tg_tensor *ids)
{
    return tg_module_is_ready(t, "nn_embedding_forward", embedding)
               ? tg_embedding(t, ids, embedding->weight, &embedding->lookup)
               : NULL;
}

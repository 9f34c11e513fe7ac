/* embedding: a table as a module. The lookup and its gradient are lib/ops/embedding.c.
 *
 * As in PyTorch the padding row is drawn with the others and then set to zero, so that it costs the stream the same
 * numbers as any row. It is frozen besides, which keeps it a padding row whatever else trains the table.
 */
#include "nn/module.h"

#include <tapegrad/rows.h>

#include <math.h>
#include <string.h>

tg_embedding_config tg_embedding_config_default(void)
{
    return (tg_embedding_config){.padding_index = TG_NO_PADDING, .mean = 0, .std = 1, .norm_type = 2};
}

static bool check(tg_params *params, const char *name, int64_t rows, int64_t width, const tg_embedding_config *config)
{
    if (rows < 1 || width < 1 || rows > INT32_MAX) {
        return tg_params_fail(
            params, TG_ERROR_SHAPE,
            "embedding %s: a table of %lld x %lld; allowed are 1 to %d rows and a width of at least 1", name,
            (long long)rows, (long long)width, INT32_MAX);
    }
    if (config->padding_index != TG_NO_PADDING && (config->padding_index < -rows || config->padding_index >= rows)) {
        return tg_params_fail(params, TG_ERROR_RANGE, "embedding %s: padding index %lld is outside [%lld,%lld)", name,
                              (long long)config->padding_index, (long long)-rows, (long long)rows);
    }
    if (!isfinite(config->mean) || !isfinite(config->std) || config->std < 0) {
        return tg_params_fail(
            params, TG_ERROR_VALUE,
            "embedding %s: mean %g and standard deviation %g; allowed are finite numbers, the latter >= 0", name,
            config->mean, config->std);
    }
    if (!(config->max_norm >= 0) || !(config->norm_type > 0)) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "embedding %s: max_norm %g and norm type %g; allowed are at least 0 (none) and above 0",
                              name, config->max_norm, config->norm_type);
    }
    tg_shape shape = tg_shape_make(2, (int64_t[]){rows, width});
    if (config->from && !tg_shape_equal(tg_shape_of(config->from), shape)) {
        char found[TG_SHAPE_TEXT], wanted[TG_SHAPE_TEXT];
        return tg_params_fail(params, TG_ERROR_SHAPE, "embedding %s: the existing table has shape %s, not %s", name,
                              tg_shape_format(tg_shape_of(config->from), found), tg_shape_format(shape, wanted));
    }
    return true;
}

tg_embedding tg_embedding_make(tg_params *params, const char *name, int64_t rows, int64_t width,
                               const tg_embedding_config *given)
{
    tg_embedding_config config = given ? *given : tg_embedding_config_default();
    int64_t padding = config.padding_index < 0 && config.padding_index != TG_NO_PADDING ? config.padding_index + rows
                                                                                        : config.padding_index;
    tg_embedding made = {.params = params, .mean = config.mean, .std = config.std};
    made.max_norm = config.max_norm;
    made.norm_type = config.norm_type;
    made.lookup = (tg_lookup_config){padding, config.scale_by_frequency};
    char full[TG_NAME_SIZE];
    tg_error error = TG_NO_ERROR;
    if (!tg_module_name(params, name, "weight", full) || !check(params, name, rows, width, &config)) {
        return made;
    }
    if (config.from) {
        made.weight = tg_params_add_existing(params, full, config.from);
    } else {
        tg_shape shape = tg_shape_make(2, (int64_t[]){rows, width});
        made.weight = tg_params_add_normal(params, full, shape, config.mean, config.std);
        if (made.weight && config.padding_index != TG_NO_PADDING) {
            size_t row = (size_t)width * tg_dtype_size(tg_dtype_of(made.weight));
            memset((char *)tg_data_mut(made.weight) + (size_t)padding * row, 0, row);
        }
    }
    if (made.weight && config.padding_index != TG_NO_PADDING &&
        !tg_set_rows_frozen(made.weight, padding, 1, true, &error)) {
        tg_params_fail(params, error.code, "embedding %s: %s", name, error.text);
        made.weight = NULL;
    }
    if (made.weight && config.frozen) {
        tg_params_set_frozen(params, full, true);
    }
    return made;
}

bool tg_embedding_resize(tg_embedding *embedding, int64_t rows, tg_error *error)
{
    if (!embedding || !embedding->weight) {
        return tg_error_set(error, TG_ERROR_STATE, "embedding_resize: the embedding has no table");
    }
    tg_new_rows table = {embedding->weight, tg_fill_normal, embedding->mean, embedding->std};
    return tg_resize_and_draw(&table, 1, rows, tg_params_rng(embedding->params), error);
}

/* Rows that the ids name are cut to max_norm, where there is one. */
static bool prepare(tg_tape *t, const tg_embedding *embedding, tg_tensor *ids)
{
    return tg_module_ready(t, "embedding", embedding->params, embedding->weight) &&
           (embedding->max_norm == 0 ||
            tg_embedding_renorm(t, embedding->weight, ids, embedding->max_norm, embedding->norm_type));
}

tg_tensor *tg_embedding_forward(tg_tape *t, const tg_embedding *embedding, tg_tensor *ids)
{
    return prepare(t, embedding, ids) ? tg_embedding_lookup_with(t, embedding->weight, ids, &embedding->lookup) : NULL;
}

tg_tensor *tg_embedding_bag_forward(tg_tape *t, const tg_embedding *embedding, tg_tensor *ids,
                                    const tg_embedding_bag_config *given)
{
    tg_embedding_bag_config config = given ? *given : tg_embedding_bag_config_default();
    config.padding_index = embedding->lookup.padding_index;
    config.scale_by_frequency = embedding->lookup.scale_by_frequency;
    return prepare(t, embedding, ids) ? tg_embedding_bag(t, embedding->weight, ids, &config) : NULL;
}

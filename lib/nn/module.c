/* module: the names, parameters and errors of modules, and the resizing of their tables. */
#include "nn/module.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tensor/tensor.h"

bool tg_module_begin(tg_params *params, const char *call, const char *name, const void *config, const char *mark,
                     tg_params_point *point)
{
    if (!tg_params_expect_config(params, call, config, mark)) {
        return false;
    }
    if (!name) {
        return tg_params_fail(params, TG_ERROR_STATE, "%s: the name is NULL", call);
    }
    *point = tg_params_save_point(params);
    return true;
}

const char *tg_module_name(tg_params *params, const char *name, const char *part, char text[TG_NAME_SIZE])
{
    int length = snprintf(text, TG_NAME_SIZE, "%s.%s", name, part);
    if (length < 0 || length >= TG_NAME_SIZE) {
        tg_params_fail(params, TG_ERROR_VALUE, "params: the name '%.*s...' has %d characters; it must have at most %d",
                       TG_CUT(name, 40), length, TG_NAME_SIZE - 1);
        return NULL;
    }
    return text;
}

tg_tensor *tg_module_add(tg_params *params, const char *name, const char *part, tg_shape shape, double value)
{
    tg_tensor *x = tg_params_add(params, TG_MODULE_NAME(params, name, part), shape);
    if (!tg_params_has_source(params)) {
        tg_tensor_fill(x, value, NULL);
    }
    return x;
}

tg_tensor *tg_module_add_normal(tg_params *params, const char *name, const char *part, tg_shape shape, double mean,
                                double std)
{
    return tg_params_add_normal(params, TG_MODULE_NAME(params, name, part), shape, mean, std);
}

tg_tensor *tg_module_add_uniform(tg_params *params, const char *name, const char *part, tg_shape shape, double bound)
{
    return tg_params_add_uniform(params, TG_MODULE_NAME(params, name, part), shape, -bound, bound);
}

bool tg_module_multiply(tg_params *params, const char *call, const char *name, const char *what, int64_t size,
                        int64_t factor, int64_t *product)
{
    return !__builtin_mul_overflow(size, factor, product) ||
           tg_params_fail(params, TG_ERROR_SHAPE, "%s: '%s' has %s %lld; %lld times that is more than 2^63 - 1", call,
                          name, what, (long long)size, (long long)factor);
}

tg_nn_module tg_module_end(tg_params *params, const tg_params_point *point)
{
    bool is_made = tg_params_is_usable(params);
    if (!is_made) {
        tg_params_return_to(params, point);
    }
    return (tg_nn_module){params, is_made};
}

bool tg_module_is_ready(tg_tape *t, const char *call, const void *module)
{
    const tg_nn_module *head = module;
    if (head && head->is_made) {
        return true;
    }
    const tg_error *error = head && head->params ? tg_params_error(head->params) : NULL;
    if (error && error->code != TG_OK) {
        return tg_tape_fail(t, error->code, call, "%s", error->text);
    }
    return tg_tape_fail(t, TG_ERROR_STATE, call, "the module is NULL, or was not made");
}

tg_error *tg_module_error(const char *call, const void *module)
{
    const tg_nn_module *head = module;
    if (!head || !tg_params_is_usable(head->params)) {
        return NULL;
    }
    tg_error *error = tg_params_run(head->params)->error;
    if (!head->is_made) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the module was not made", call);
        return NULL;
    }
    return error;
}

/* Creates a tensor for the rows that are added, which are drawn later; *added stays NULL if no row is added. */
static bool new_rows(const char *call, const tg_new_rows *table, int64_t rows, tg_rng *rng, tg_tensor **added,
                     tg_error *error)
{
    tg_shape shape = tg_shape_of(table->table);
    if (!table->fill || rows <= shape.size[0]) {
        return true;
    }
    if (!rng) {
        return tg_error_set(error, TG_ERROR_STATE,
                            "%s: new rows are drawn, but the params have no generator; they need a run (tg_run_new)",
                            call);
    }
    shape.size[0] = rows - shape.size[0];
    *added = tg_tensor_new(tg_dtype_of(table->table), shape, error);
    return *added != NULL;
}

bool tg_resize_and_draw(const char *call, const tg_new_rows *tables, int count, int64_t rows, const tg_params *params)
{
    tg_rng *rng = tg_params_rng(params);
    tg_error *error = tg_params_run(params)->error;
    tg_resize resizes[TG_MAX_TABLES];
    tg_tensor *added[TG_MAX_TABLES] = {NULL};
    int prepared = 0;
    bool is_ready = true;
    while (is_ready && prepared < count) {
        is_ready = tg_resize_prepare(&resizes[prepared], tables[prepared].table, rows, error) &&
                   new_rows(call, &tables[prepared], rows, rng, &added[prepared], error);
        prepared++;
    }
    for (int i = 0; i < prepared; i++) {
        if (!is_ready) {
            tg_resize_abandon(&resizes[i]);
        } else {
            tg_resize_commit(&resizes[i]);
        }
        if (is_ready && added[i]) {
            tables[i].fill(added[i], rng, tables[i].a, tables[i].b, NULL);
            size_t bytes = tg_bytes_of(added[i]);
            char *end = (char *)tg_values(tables[i].table) + tg_bytes_of(tables[i].table);
            memcpy(end - bytes, tg_values(added[i]), bytes);
        }
        tg_release(added[i]);
    }
    return is_ready;
}

#include "nn/module.h"

#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

bool tg_module_name(tg_params *params, const char *name, const char *part, char text[TG_NAME_SIZE])
{
    if (!name) {
        return tg_params_fail(params, TG_ERROR_STATE, "a module's name is NULL");
    }
    int length = snprintf(text, TG_NAME_SIZE, "%s.%s", name, part);
    if (length < 0 || length >= TG_NAME_SIZE) {
        return tg_params_fail(params, TG_ERROR_VALUE, "the name \"%.40s...\" has %d characters; at most %d", name,
                              length, TG_NAME_SIZE - 1);
    }
    return true;
}

bool tg_module_ready(tg_tape *t, const char *call, const tg_params *params, const tg_tensor *tensor)
{
    if (!tensor) {
        tg_code code = tg_params_error_code(params);
        tg_tape_fail(t, code == TG_OK ? TG_ERROR_STATE : code, call, "%s",
                     code == TG_OK ? "the module was not made" : tg_params_error(params));
    }
    return tensor != NULL;
}

bool tg_resize_and_draw(const tg_new_rows *tables, int count, int64_t rows, tg_rng *rng, tg_error *error)
{
    tg_tensor *added[TG_MAX_TABLES] = {NULL}, *targets[TG_MAX_TABLES] = {NULL};
    bool ready = true;
    for (int i = 0; ready && i < count; i++) {
        targets[i] = tables[i].table;
        tg_shape shape = tg_shape_of(targets[i]);
        ready = tg_resize_check(targets[i], rows, error);
        if (ready && rows > shape.size[0]) {
            shape.size[0] = rows - shape.size[0];
            ready = (rng || tg_error_set(error, TG_ERROR_STATE,
                                         "resize: new rows need the params' generator; they have none")) &&
                    (added[i] = tg_tensor_new(tg_dtype_of(targets[i]), shape, error));
        }
    }
    ready = ready && tg_resize_tables(targets, count, rows, error);
    for (int i = 0; i < count; i++) {
        if (ready && added[i]) {
            tables[i].fill(added[i], rng, tables[i].a, tables[i].b, NULL);
            size_t bytes = tg_bytes_of(added[i]);
            char *end = (char *)tg_data_mut(targets[i]) + tg_bytes_of(targets[i]);
            memcpy(end - bytes, tg_data(added[i]), bytes);
        }
        tg_release(added[i]);
    }
    return ready;
}

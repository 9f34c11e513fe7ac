/* positional: what tells a model where a token stands.
 *
 *   learned      y[..,t,:] = x[..,t,:] + W[start + t,:]       W is trained; its gradient sums over the batch
 *   sinusoidal   the same with W[p,2i] = sin(p / 10000^(2i/C)),  W[p,2i+1] = cos(p / 10000^(2i/C)), fixed
 *
 * Both read a slice of the table, a view, and add it with broadcasting.
 */
#include "nn/module.h"

#include <math.h>

static void fill_sinusoidal(tg_tensor *table)
{
    int64_t context = tg_size(table, 0), width = tg_size(table, 1);
    void *values = tg_data_mut(table);
    for (int64_t p = 0; p < context; p++) {
        for (int64_t c = 0; c < width; c++) {
            double angle = (double)p / pow(10000, (double)(c - c % 2) / (double)width);
            double value = c % 2 == 0 ? sin(angle) : cos(angle);
            if (tg_dtype_of(table) == TG_F32) {
                ((float *)values)[p * width + c] = (float)value;
            } else {
                ((double *)values)[p * width + c] = value;
            }
        }
    }
}

tg_positional tg_positional_make(tg_params *params, const char *name, tg_position kind, int64_t context, int64_t width)
{
    tg_positional made = {.params = params, .kind = kind};
    char full[TG_NAME_SIZE];
    if (!tg_module_name(params, name, "weight", full)) {
        return made;
    }
    if (context < 1 || width < 1) {
        tg_params_fail(params, TG_ERROR_SHAPE,
                       "positional %s: a context of %lld and a width of %lld; both must be at least 1", name,
                       (long long)context, (long long)width);
        return made;
    }
    tg_shape shape = tg_shape_make(2, (int64_t[]){context, width});
    switch (kind) {
    case TG_POSITION_LEARNED: made.weight = tg_params_add_normal(params, full, shape, 0, 1); break;
    case TG_POSITION_SINUSOIDAL:
        made.weight = tg_params_add_buffer(params, full, shape);
        if (made.weight) {
            fill_sinusoidal(made.weight);
        }
        break;
    default: tg_params_fail(params, TG_ERROR_VALUE, "positional %s: %d is not a kind of position", name, (int)kind);
    }
    return made;
}

tg_tensor *tg_positional_forward(tg_tape *t, const tg_positional *positional, tg_tensor *x)
{
    return tg_positional_forward_at(t, positional, x, 0);
}

tg_tensor *tg_positional_forward_at(tg_tape *t, const tg_positional *positional, tg_tensor *x, int64_t start)
{
    if (!tg_module_ready(t, "positional", positional->params, positional->weight)) {
        return NULL;
    }
    if (!x) {
        return tg_tape_fail(t, TG_ERROR_STATE, "positional", "the input is NULL");
    }
    int64_t context = tg_size(positional->weight, 0), width = tg_size(positional->weight, 1);
    if (tg_rank(x) < 2 || tg_size(x, -1) != width) {
        char text[TG_SHAPE_TEXT];
        return tg_tape_fail(t, TG_ERROR_SHAPE, "positional", "the input has shape %s; it must be (..,T,%lld)",
                            tg_shape_format(tg_shape_of(x), text), (long long)width);
    }
    int64_t positions = tg_size(x, -2);
    if (start < 0 || start > context || positions > context - start) {
        return tg_tape_fail(t, TG_ERROR_RANGE, "positional",
                            "%lld positions from %lld on; the table has %lld (the context length)",
                            (long long)positions, (long long)start, (long long)context);
    }
    return tg_add(t, x, tg_slice(t, positional->weight, 0, start, start + positions, 1));
}

/* absolute: a vector per position, added to the tokens' vectors.
 *
 *   learned      y[..,t,:] = x[..,t,:] + W[start + t,:]       W is trained; its gradient is summed over the batch
 *   sinusoidal   the same with W[p,2i] = sin(p / 10000^(2i/C)),  W[p,2i+1] = cos(p / 10000^(2i/C)), fixed
 *
 * Both add a slice of the table, a view, with broadcasting. For transformer_xl.c the same numbers are in halves: first
 * the sines of all i, then the cosines.
 */
#include <math.h>

#include "nn/positions/positions.h"

#include "math/power.h"
#include "math/trigonometry.h"

/* From row to row an angle grows by the same step, so (sine, cosine) is rotated by this step. Every 64 rows both are
 * computed again, which keeps the rounding errors below 2e-14. */
void tg_fill_sinusoidal(tg_tensor *table, double first, double step, double amplitude, tg_sinusoidal_layout layout)
{
    int64_t rows = table->shape[0], width = table->shape[1];
    for (int64_t c = 0; c < width; c += 2) {
        int64_t to_sine = layout == TG_SINUSOIDAL_HALVES ? c / 2 : c;
        int64_t to_cosine = layout == TG_SINUSOIDAL_HALVES ? (width + c + 1) / 2 : c + 1;
        double frequency = tg_pow_f64(10000, -(double)c / (double)width), sine = 0, cosine = 1;
        double step_sine = tg_sin_f64(step * frequency), step_cosine = tg_cos_f64(step * frequency);
        for (int64_t p = 0; p < rows; p++) {
            if (p % 64 == 0) {
                double angle = (first + step * (double)p) * frequency;
                sine = tg_sin_f64(angle);
                cosine = tg_cos_f64(angle);
            }
            tg_put(table, p * width + to_sine, amplitude * sine);
            if (c + 1 < width) {
                tg_put(table, p * width + to_cosine, amplitude * cosine);
            }
            double next = sine * step_cosine + cosine * step_sine;
            cosine = cosine * step_cosine - sine * step_sine;
            sine = next;
        }
    }
    tg_touch(table);
}

static void make_learned(tg_params *params, const char *name, int64_t context, tg_nn_positional *made)
{
    tg_shape shape = tg_shape_make(2, (int64_t[]){context, made->width});
    bool is_drawn = !made->config.sinusoidal_start;
    made->weight = is_drawn ? tg_module_add_normal(params, name, "weight", shape, 0, 1)
                            : tg_module_add(params, name, "weight", shape, 0);
    if (made->weight && !is_drawn) {
        tg_fill_sinusoidal(made->weight, 0, 1, 1, TG_SINUSOIDAL_PAIRS);
    }
}

static void make_sinusoidal(tg_params *params, const char *name, int64_t context, tg_nn_positional *made)
{
    tg_shape shape = tg_shape_make(2, (int64_t[]){context, made->width});
    made->weight = tg_params_add_buffer(params, TG_MODULE_NAME(params, name, "weight"), shape);
    if (made->weight) {
        tg_fill_sinusoidal(made->weight, 0, 1, 1, TG_SINUSOIDAL_PAIRS);
    }
}

/* Adds the rows start .. start + T - 1 of the table to x (..,T,width). */
static tg_tensor *add(tg_tape *t, const tg_nn_positional *p, tg_tensor *x, int64_t start)
{
    static const char call[] = "nn_positional_forward";
    int64_t context = p->weight->shape[0], width = p->weight->shape[1];
    if (x->rank < 2 || x->shape[x->rank - 1] != width) {
        tg_tape_fail(t, TG_ERROR_SHAPE, call, "the input has shape %s; it must be (..,T,%lld)",
                     tg_shape_text_of(x).text, (long long)width);
        return NULL;
    }
    int64_t positions = x->shape[x->rank - 2];
    if (start < 0 || start > context || positions > context - start) {
        tg_tape_fail(t, TG_ERROR_RANGE, call, "%lld positions from %lld on; the context is %lld", (long long)positions,
                     (long long)start, (long long)context);
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    return tg_tape_end(t, &point, tg_add(t, x, tg_slice(t, p->weight, 0, start, start + positions, 1)));
}

/* ---- a longer context ---- */

static bool check_extension(const tg_nn_positional *p, int64_t context, tg_error *error)
{
    static const char call[] = "nn_positional_extend";
    int64_t rows = p->weight->shape[0];
    if (!tg_tensor_check(call, "table", p->weight, error)) {
        return false;
    }
    if (context < rows) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: %lld positions; the context is %lld and cannot shrink", call,
                            (long long)context, (long long)rows);
    }
    return context == rows || !tg_has_frozen_rows(p->weight) ||
           tg_error_set(error, TG_ERROR_STATE,
                        "%s: rows of the table are frozen, and every row would get new values; unfreeze them", call);
}

/* Returns a longer table: row p of `positions` is the linear interpolation at p (rows - 1) / (positions - 1). */
static tg_tensor *interpolate(const tg_tensor *table, int64_t positions, tg_error *error)
{
    int64_t rows = table->shape[0], width = table->shape[1];
    tg_tensor *longer = tg_tensor_new(tg_dtype_of(table), tg_shape_make(2, (int64_t[]){positions, width}), error);
    for (int64_t p = 0; longer && p < positions; p++) {
        double position = (double)p * (double)(rows - 1) / (double)(positions - 1);
        int64_t row = (int64_t)position, next = row + 1 < rows ? row + 1 : row;
        for (int64_t c = 0; c < width; c++) {
            double a = tg_get(table, row * width + c), b = tg_get(table, next * width + c);
            tg_put(longer, p * width + c, a + (b - a) * (position - (double)row));
        }
    }
    return longer;
}

static bool extend_learned(tg_nn_positional *p, int64_t context, tg_error *error)
{
    if (!check_extension(p, context, error)) {
        return false;
    }
    if (context == p->weight->shape[0]) {
        return true;
    }
    tg_tensor *longer = interpolate(p->weight, context, error);
    bool is_extended =
        longer && tg_tensor_resize_rows(p->weight, context, error) && tg_tensor_copy_from(p->weight, longer, error);
    tg_release(longer);
    return is_extended;
}

static bool extend_sinusoidal(tg_nn_positional *p, int64_t context, tg_error *error)
{
    if (!check_extension(p, context, error)) {
        return false;
    }
    if (context == p->weight->shape[0]) {
        return true;
    }
    if (!tg_tensor_resize_rows(p->weight, context, error)) {
        return false;
    }
    tg_fill_sinusoidal(p->weight, 0, 1, 1, TG_SINUSOIDAL_PAIRS);
    return true;
}

const tg_position_kind tg_learned_positions = {
    .name = "learned",
    .make = make_learned,
    .add = add,
    .extend = extend_learned,
};

const tg_position_kind tg_sinusoidal_positions = {
    .name = "sinusoidal",
    .make = make_sinusoidal,
    .add = add,
    .extend = extend_sinusoidal,
};

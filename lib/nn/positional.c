/* positional: what tells a model where a token stands. Absolute kinds, which are added to the tokens:
 *
 *   learned      y[..,t,:] = x[..,t,:] + W[start + t,:]       W is trained; its gradient sums over the batch
 *   sinusoidal   the same with W[p,2i] = sin(p / 10000^(2i/C)),  W[p,2i+1] = cos(p / 10000^(2i/C)), fixed
 *
 * Both read a slice of the table, a view, and add it with broadcasting. The relative kinds, which attention asks for,
 * are made here too; what they compute is in relative_position.c.
 */
#include "nn/positional.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

tg_positional_config tg_positional_config_default(void)
{
    return (tg_positional_config){.heads = 1,
                                  .buckets = 32,
                                  .max_distance = 128,
                                  .clip = 16,
                                  .sinusoidal_start = false,
                                  .rotary = tg_rotary_config_default()};
}

/* Row p of a table of sines and cosines, times `amplitude`, of position `first` + p times `step`. From row to row an
 * angle grows by the same step, so (sine, cosine) is turned by it: a fresh start every 64 rows keeps what that rounds
 * below 2e-14. */
void tg_fill_sinusoidal(tg_tensor *table, double first, double step, double amplitude)
{
    int64_t rows = table->shape[0], width = table->shape[1];
    for (int64_t c = 0; c < width; c += 2) {
        double frequency = pow(10000, -(double)c / (double)width), sine = 0, cosine = 1;
        double turn_sine = sin(step * frequency), turn_cosine = cos(step * frequency);
        for (int64_t p = 0; p < rows; p++) {
            if (p % 64 == 0) {
                double angle = (first + step * (double)p) * frequency;
                sine = sin(angle);
                cosine = cos(angle);
            }
            tg_put(table, p * width + c, amplitude * sine);
            if (c + 1 < width) {
                tg_put(table, p * width + c + 1, amplitude * cosine);
            }
            double turned = sine * turn_cosine + cosine * turn_sine;
            cosine = cosine * turn_cosine - sine * turn_sine;
            sine = turned;
        }
    }
    tg_touch(table);
}

static bool check(tg_params *params, const char *name, tg_position kind, int64_t context, int64_t width,
                  const tg_positional_config *c)
{
    if ((unsigned)kind > TG_POSITION_NONE) {
        return tg_params_fail(params, TG_ERROR_VALUE, "positional %s: %d is not a kind of position", name, (int)kind);
    }
    if (context < 1 || width < 1) {
        return tg_params_fail(params, TG_ERROR_SHAPE,
                              "positional %s: a context of %lld and a width of %lld; both must be at least 1", name,
                              (long long)context, (long long)width);
    }
    bool relative = kind != TG_POSITION_LEARNED && kind != TG_POSITION_SINUSOIDAL && kind != TG_POSITION_NONE;
    if (relative && (c->heads < 1 || width % c->heads != 0)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "positional %s: %lld heads do not divide a width of %lld", name,
                              (long long)c->heads, (long long)width);
    }
    if (kind == TG_POSITION_ROTARY && width / c->heads % 2 != 0) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "positional %s: rotary heads are %lld wide; an even width is wanted", name,
                              (long long)(width / c->heads));
    }
    if (kind == TG_POSITION_T5 && (c->buckets < 4 || c->buckets % 4 != 0 || c->max_distance <= c->buckets / 2)) {
        return tg_params_fail(
            params, TG_ERROR_VALUE,
            "positional %s: %lld buckets up to distance %lld; the buckets are a multiple of 4, at least "
            "4, and the distance is more than half of them",
            name, (long long)c->buckets, (long long)c->max_distance);
    }
    if (kind == TG_POSITION_SHAW && (c->clip < 1 || c->clip > INT32_MAX / 2)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "positional %s: distances clipped at %lld; at least 1 is wanted",
                              name, (long long)c->clip);
    }
    return true;
}

static tg_tensor *add_normal(tg_params *params, const char *name, const char *part, int64_t rows, int64_t columns,
                             double std)
{
    char full[TG_NAME_SIZE];
    tg_shape shape = tg_shape_make(2, (int64_t[]){rows, columns});
    return tg_module_name(params, name, part, full) ? tg_params_add_normal(params, full, shape, 0, std) : NULL;
}

tg_positional tg_positional_make_with(tg_params *params, const char *name, tg_position kind, int64_t context,
                                      int64_t width, const tg_positional_config *given)
{
    tg_positional made = {.params = params, .kind = kind, .width = width};
    made.config = given ? *given : tg_positional_config_default();
    char full[TG_NAME_SIZE];
    if (!tg_module_name(params, name, "weight", full) || !check(params, name, kind, context, width, &made.config)) {
        return made;
    }
    int64_t heads = made.config.heads, head_width = width / (heads > 0 ? heads : 1);
    double scale = 1 / sqrt((double)head_width);
    tg_shape table = tg_shape_make(2, (int64_t[]){context, width});
    switch (kind) {
    case TG_POSITION_LEARNED:
        made.weight = made.config.sinusoidal_start ? tg_params_add(params, full, table)
                                                   : tg_params_add_normal(params, full, table, 0, 1);
        break;
    case TG_POSITION_SINUSOIDAL: made.weight = tg_params_add_buffer(params, full, table); break;
    case TG_POSITION_T5:
        made.weight = add_normal(params, name, "weight", made.config.buckets, heads, 1 / sqrt((double)width));
        break;
    case TG_POSITION_SHAW:
        made.weight = add_normal(params, name, "keys", 2 * made.config.clip + 1, head_width, scale);
        made.values = add_normal(params, name, "values", 2 * made.config.clip + 1, head_width, scale);
        break;
    case TG_POSITION_TRANSFORMER_XL:
        made.weight = add_normal(params, name, "r_net.weight", width, width, 1 / sqrt((double)width));
        made.content_bias = add_normal(params, name, "r_w_bias", heads, head_width, 0.02);
        made.position_bias = add_normal(params, name, "r_r_bias", heads, head_width, 0.02);
        break;
    case TG_POSITION_ROTARY:
    case TG_POSITION_ALIBI:
    case TG_POSITION_NONE: break; /* nothing to keep */
    }
    if (made.weight &&
        (kind == TG_POSITION_SINUSOIDAL || (kind == TG_POSITION_LEARNED && made.config.sinusoidal_start))) {
        tg_fill_sinusoidal(made.weight, 0, 1, 1);
    }
    made.made = tg_params_error_code(params) == TG_OK;
    return made;
}

tg_positional tg_positional_make(tg_params *params, const char *name, tg_position kind, int64_t context, int64_t width)
{
    return tg_positional_make_with(params, name, kind, context, width, NULL);
}

tg_tensor *tg_positional_forward(tg_tape *t, const tg_positional *positional, tg_tensor *x)
{
    return tg_positional_forward_at(t, positional, x, 0);
}

tg_tensor *tg_positional_forward_at(tg_tape *t, const tg_positional *positional, tg_tensor *x, int64_t start)
{
    if (!positional->made) {
        tg_module_ready(t, "positional", positional->params, NULL);
        return NULL;
    }
    if (!x) {
        return tg_tape_fail(t, TG_ERROR_STATE, "positional", "the input is NULL");
    }
    if (positional->kind != TG_POSITION_LEARNED && positional->kind != TG_POSITION_SINUSOIDAL) {
        return x;
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

tg_tensor *tg_positional_interpolate(const tg_tensor *table, int64_t positions, tg_error *error)
{
    int64_t rows = table && tg_rank(table) == 2 ? tg_size(table, 0) : 0;
    if (rows < 1 || positions < 2 || !tg_dtype_is_float(tg_dtype_of(table))) {
        tg_error_set(error, TG_ERROR_SHAPE,
                     "positional_interpolate: a float table (rows,width) with a row at least, to %lld positions; at "
                     "least 2 are wanted",
                     (long long)positions);
        return NULL;
    }
    int64_t width = tg_size(table, 1);
    tg_tensor *made = tg_tensor_new(tg_dtype_of(table), tg_shape_make(2, (int64_t[]){positions, width}), error);
    for (int64_t p = 0; made && p < positions; p++) {
        double place = (double)p * (double)(rows - 1) / (double)(positions - 1);
        int64_t row = (int64_t)place, next = row + 1 < rows ? row + 1 : row;
        for (int64_t c = 0; c < width; c++) {
            double a = tg_value_at(table, row * width + c), b = tg_value_at(table, next * width + c);
            double value = a + (b - a) * (place - (double)row);
            tg_put(made, p * width + c, value);
        }
    }
    return made;
}

bool tg_positional_extend(tg_positional *positional, int64_t context, tg_error *error)
{
    if (!positional || !positional->made) {
        return tg_error_set(error, TG_ERROR_STATE, "positional_extend: the positions are NULL, or were not made");
    }
    tg_tensor *table = positional->weight;
    if (positional->kind != TG_POSITION_LEARNED && positional->kind != TG_POSITION_SINUSOIDAL) {
        return true;
    }
    int64_t rows = table->shape[0];
    if (context < rows) {
        return tg_error_set(error, TG_ERROR_RANGE,
                            "positional_extend: %lld positions; the table has %lld and cannot shrink",
                            (long long)context, (long long)rows);
    }
    if (context == rows) {
        return true;
    }
    if (tg_has_frozen_rows(table)) {
        return tg_error_set(error, TG_ERROR_STATE,
                            "positional_extend: rows of the table are frozen, and every row gets new values");
    }
    bool learned = positional->kind == TG_POSITION_LEARNED;
    tg_tensor *longer = learned ? tg_positional_interpolate(table, context, error) : NULL;
    bool extended = (longer || !learned) && tg_resize_rows(table, context, error);
    if (extended && learned) {
        tg_fill_copy(table, longer, NULL);
    } else if (extended) {
        tg_fill_sinusoidal(table, 0, 1, 1);
    }
    tg_release(longer);
    return extended;
}

static const char *const position_names[] = {"learned", "sinusoidal", "rotary",         "alibi",
                                             "t5",      "shaw",       "transformer-xl", "none"};

const char *tg_position_name(tg_position kind)
{
    return (unsigned)kind <= TG_POSITION_NONE ? position_names[kind] : NULL;
}

bool tg_position_named(const char *name, tg_position *kind)
{
    for (int i = 0; name && i <= TG_POSITION_NONE; i++) {
        if (strcmp(name, position_names[i]) == 0) {
            *kind = (tg_position)i;
            return true;
        }
    }
    return false;
}

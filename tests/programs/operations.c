/* The operations that an instruction can call: elementwise ops and reductions. The lists of shapes.c and layers.c
 * follow. An operation may be more than one op. It reads its options from numbers that were drawn once, so it does the
 * same in each run. */
#include <stdarg.h>
#include <string.h>

#include "programs.h"

/* ---- for all operations ---- */

void describe(call *c, const char *format, ...)
{
    if (c->detail) {
        size_t length = strlen(c->detail);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(c->detail + length, DETAIL - length, format, arguments);
        va_end(arguments);
    }
}

int draw_axis(call *c, uint32_t option, const tg_tensor *x)
{
    int rank = tg_tensor_rank(x), axis = rank > 0 ? (int)(option % (2 * (unsigned)rank)) - rank : 0;
    describe(c, ", axis %d", axis);
    return axis;
}

static int64_t count_of(tg_shape shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++) {
        count *= shape.size[i];
    }
    return count;
}

tg_tensor *constant(call *c, tg_shape shape, uint32_t seed, double low, double high)
{
    static double f64[MOST_COUNT];
    static float f32[MOST_COUNT];
    int64_t count = count_of(shape);
    if (count > MOST_COUNT) {
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        f64[i] = low + (high - low) * (number_of(seed, (uint64_t)i) + 1) / 2;
        f32[i] = (float)f64[i];
    }
    bool is_f32 = c->run->s.dtype == TG_F32;
    return tg_constant(c->tape, c->run->s.dtype, shape, is_f32 ? (void *)f32 : (void *)f64);
}

tg_tensor *constant_ids(call *c, tg_shape shape, uint32_t seed, int64_t bound)
{
    static int32_t ids[MOST_COUNT];
    int64_t count = count_of(shape);
    if (count > MOST_COUNT || bound < 1) {
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (int32_t)((number_of(seed, (uint64_t)i) + 1) / 2 * (double)bound);
    }
    return tg_constant(c->tape, TG_I32, shape, ids);
}

tg_tensor *constant_mask(call *c, tg_shape shape, uint32_t seed)
{
    static uint8_t mask[MOST_COUNT];
    int64_t count = count_of(shape);
    if (count > MOST_COUNT) {
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) {
        mask[i] = number_of(seed, (uint64_t)i) > 0;
    }
    return tg_constant(c->tape, TG_U8, shape, mask);
}

/* ---- elementwise ---- */

#define UNARY(name)                         \
    static tg_tensor *call_##name(call *c)  \
    {                                       \
        return tg_##name(c->tape, c->x[0]); \
    }

#define BINARY(name)                                 \
    static tg_tensor *call_##name(call *c)           \
    {                                                \
        return tg_##name(c->tape, c->x[0], c->x[1]); \
    }

UNARY(neg)
UNARY(exp)
UNARY(tanh)
UNARY(sigmoid)
UNARY(relu)
UNARY(gelu)
UNARY(gelu_tanh)
UNARY(silu)
UNARY(abs)
UNARY(sin)
UNARY(cos)
UNARY(log_sigmoid)
UNARY(bernoulli)
BINARY(add)
BINARY(sub)
BINARY(mul)
BINARY(maximum)
BINARY(minimum)

tg_tensor *positive(call *c, tg_tensor *x)
{
    return tg_add_scalar(c->tape, tg_mul(c->tape, x, x), 0.5);
}

static tg_tensor *call_log(call *c)
{
    return tg_log(c->tape, positive(c, c->x[0]));
}

static tg_tensor *call_sqrt(call *c)
{
    return tg_sqrt(c->tape, positive(c, c->x[0]));
}

static tg_tensor *call_div(call *c)
{
    return tg_div(c->tape, c->x[0], positive(c, c->x[1]));
}

static tg_tensor *call_pow(call *c)
{
    return tg_pow(c->tape, positive(c, c->x[0]), c->x[1]);
}

static tg_tensor *scalar(call *c)
{
    double value = number_of(c->option[1], 0) * 2 + 0.0625;
    describe(c, ", %g", value);
    switch (c->option[0] % 7) {
    case 0: describe(c, " added"); return tg_add_scalar(c->tape, c->x[0], value);
    case 1: describe(c, " times"); return tg_mul_scalar(c->tape, c->x[0], value);
    case 2: describe(c, " divides"); return tg_div_scalar(c->tape, c->x[0], value);
    case 3: describe(c, " leaky_relu"); return tg_leaky_relu(c->tape, c->x[0], value);
    case 4: describe(c, " elu"); return tg_elu(c->tape, c->x[0], value);
    case 5: describe(c, " softplus"); return tg_softplus(c->tape, c->x[0], 0.5 + value * value, 20);
    default: describe(c, " power"); return tg_pow_scalar(c->tape, positive(c, c->x[0]), value);
    }
}

static tg_tensor *clamp(call *c)
{
    return tg_clamp(c->tape, c->x[0], -0.6, 0.7);
}

static tg_tensor *clamp_tensor(call *c)
{
    /* At a bound that is equal to x, or to the other one, the function has a kink, and only one of its inputs has the
     * gradient. The summands keep copies of x and of each other away from that. */
    tg_tensor *low = tg_add_scalar(c->tape, c->x[1], -0.28125);
    tg_tensor *high = c->option[0] % 2 ? tg_add_scalar(c->tape, c->x[2], 0.3125) : NULL;
    return tg_clamp_tensor(c->tape, c->x[0], low, high);
}

static tg_tensor *where(call *c)
{
    return tg_where(c->tape, constant_mask(c, tg_tensor_shape(c->x[0]), c->option[0]), c->x[0], c->x[1]);
}

static tg_tensor *masked_fill(call *c)
{
    return tg_masked_fill(c->tape, c->x[0], constant_mask(c, tg_tensor_shape(c->x[0]), c->option[0]), 0.25);
}

static tg_tensor *triangle(call *c)
{
    int64_t diagonal = (int64_t)(c->option[0] % 5) - 2;
    describe(c, ", diagonal %lld %s", (long long)diagonal, c->option[1] % 2 ? "tril" : "triu");
    return (c->option[1] % 2 ? tg_tril : tg_triu)(c->tape, c->x[0], diagonal);
}

/* ---- reductions ---- */

tg_axes draw_axes(call *c, const tg_tensor *x)
{
    switch (c->option[0] % 4) {
    case 0: describe(c, ", all axes"); return TG_ALL_AXES;
    case 1:
        if (tg_tensor_rank(x) > 1) {
            describe(c, ", axes 0 -1");
            return TG_AXES(0, -1);
        }
        /* fallthrough */
    default: return TG_AXES(draw_axis(c, c->option[2], x));
    }
}

static tg_keep_axes draw_keep(call *c)
{
    describe(c, c->option[3] % 2 ? " kept" : "");
    return c->option[3] % 2 ? TG_KEEP_AXES : TG_DROP_AXES;
}

static tg_tensor *reduce(call *c)
{
    tg_tape *t = c->tape;
    tg_tensor *x = c->x[0];
    tg_axes axes = draw_axes(c, x);
    tg_keep_axes keep = draw_keep(c);
    switch (c->option[1] % 9) {
    case 0: describe(c, " sum"); return tg_sum(t, x, axes, keep);
    case 1: describe(c, " mean"); return tg_mean(t, x, axes, keep);
    case 2: describe(c, " amax"); return tg_amax(t, x, axes, keep);
    case 3: describe(c, " amin"); return tg_amin(t, x, axes, keep);
    case 4: describe(c, " logsumexp"); return tg_logsumexp(t, x, axes, keep);
    case 5: describe(c, " norm 2"); return tg_norm(t, x, 2, axes, keep);
    case 6: describe(c, " norm 3"); return tg_norm(t, x, 3, axes, keep);
    case 7: describe(c, " var"); return tg_var(t, x, axes, (int)(c->option[2] % 2), keep);
    default: break;
    }
    /* equal values would have the deviation 0, whose slope is not defined */
    describe(c, " std");
    tg_tensor *different = tg_add(t, x, constant(c, tg_tensor_shape(x), c->option[1], -1, 1));
    return tg_std(t, different, axes, 0, keep);
}

static tg_tensor *cumsum(call *c)
{
    return tg_cumsum(c->tape, c->x[0], draw_axis(c, c->option[0], c->x[0]));
}

/* The selected values, times the values of a gather with the same indices. */
static tg_tensor *topk(call *c)
{
    tg_tensor *indices = NULL;
    int axis = draw_axis(c, c->option[0], c->x[0]);
    int64_t k = (int64_t)c->option[1] % (tg_tensor_size(c->x[0], axis) + 1);
    tg_order order = c->option[2] % 2 ? TG_LARGEST_FIRST : TG_SMALLEST_FIRST;
    describe(c, ", k %lld", (long long)k);
    tg_tensor *top = c->option[3] % 2 ? tg_sort(c->tape, c->x[0], axis, order, &indices)
                                      : tg_topk(c->tape, c->x[0], k, axis, order, &indices);
    return tg_mul(c->tape, top, tg_gather(c->tape, tg_tanh(c->tape, c->x[0]), axis, indices));
}

const operation elementwise[] = {
    {.name = "neg", .inputs = 1, .weight = 1, .call = call_neg},
    {.name = "exp", .inputs = 1, .weight = 2, .call = call_exp},
    {.name = "tanh", .inputs = 1, .weight = 4, .call = call_tanh},
    {.name = "sigmoid", .inputs = 1, .weight = 3, .call = call_sigmoid},
    {.name = "relu", .inputs = 1, .weight = 2, .call = call_relu},
    {.name = "gelu", .inputs = 1, .weight = 2, .call = call_gelu},
    {.name = "gelu_tanh", .inputs = 1, .weight = 1, .call = call_gelu_tanh},
    {.name = "silu", .inputs = 1, .weight = 1, .call = call_silu},
    {.name = "abs", .inputs = 1, .weight = 1, .call = call_abs},
    {.name = "sin", .inputs = 1, .weight = 2, .call = call_sin},
    {.name = "cos", .inputs = 1, .weight = 1, .call = call_cos},
    {.name = "log_sigmoid", .inputs = 1, .weight = 1, .call = call_log_sigmoid},
    {.name = "bernoulli", .inputs = 1, .weight = 1, .call = call_bernoulli},
    {.name = "add", .inputs = 2, .weight = 8, .call = call_add},
    {.name = "sub", .inputs = 2, .weight = 4, .call = call_sub},
    {.name = "mul", .inputs = 2, .weight = 8, .call = call_mul},
    {.name = "maximum", .inputs = 2, .weight = 1, .call = call_maximum},
    {.name = "minimum", .inputs = 2, .weight = 1, .call = call_minimum},
    {.name = "log", .inputs = 1, .weight = 1, .call = call_log},
    {.name = "sqrt", .inputs = 1, .weight = 1, .call = call_sqrt},
    {.name = "div", .inputs = 2, .weight = 2, .call = call_div},
    {.name = "pow", .inputs = 2, .weight = 1, .call = call_pow},
    {.name = "scalar", .inputs = 1, .weight = 4, .call = scalar},
    {.name = "clamp", .inputs = 1, .weight = 1, .call = clamp},
    {.name = "clamp_tensor", .inputs = 3, .weight = 1, .call = clamp_tensor},
    {.name = "where", .inputs = 2, .weight = 2, .call = where},
    {.name = "masked_fill", .inputs = 1, .weight = 2, .call = masked_fill},
    {.name = "triangle", .inputs = 1, .weight = 1, .call = triangle},
    {.name = "reduce", .inputs = 1, .weight = 5, .call = reduce},
    {.name = "cumsum", .inputs = 1, .weight = 1, .call = cumsum},
    {.name = "topk", .inputs = 1, .weight = 2, .call = topk},
    {.name = NULL},
};

/* ---- all of them ---- */

static int length_of(const operation *list)
{
    int length = 0;
    while (list[length].name) {
        length++;
    }
    return length;
}

const operation *operation_at(int index)
{
    int first = length_of(elementwise), second = length_of(shapes);
    return index < first            ? &elementwise[index]
           : index < first + second ? &shapes[index - first]
                                    : &layers[index - first - second];
}

int operation_count(void)
{
    return length_of(elementwise) + length_of(shapes) + length_of(layers);
}

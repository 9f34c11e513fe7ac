/* The rows of arithmetic of which one input is smaller, or laid out differently, and of tensors that are constant or
 * drawn. */
#include "bench/op_row.h"

static tg_tensor *clamp_tensor(tg_tape *t, tg_tensor *const *x)
{
    return tg_clamp_tensor(t, x[0], x[1], x[2]);
}

static tg_tensor *mul_transposed(tg_tape *t, tg_tensor *const *x)
{
    return tg_mul(t, x[0], tg_transpose(t, x[1], 0, 1));
}

static tg_tensor *add_same(tg_tape *t, tg_tensor *const *x)
{
    return tg_add(t, x[0], x[0]);
}

static tg_tensor *multinomial(tg_tape *t, tg_tensor *const *x)
{
    return tg_multinomial(t, x[0], 8, true);
}

static tg_tensor *multinomial_without(tg_tape *t, tg_tensor *const *x)
{
    return tg_multinomial(t, x[0], 8, false);
}

static tg_tensor *full(tg_tape *t, tg_tensor *const *x)
{
    return tg_full(t, tg_tensor_dtype(x[0]), tg_tensor_shape(x[0]), 0.5);
}

static tg_tensor *constant(tg_tape *t, tg_tensor *const *x)
{
    return tg_constant(t, TG_I32, tg_tensor_shape(x[0]), tg_tensor_data(x[0]));
}

const op_row op_arithmetic[] = {
    {"tg_add", "row", "real S; real L", .binary = tg_add},
    {"tg_add", "column", "real S; real P,1", .binary = tg_add},
    {"tg_add", "middle axis", "real 8,256,768; real 8,1,768", .binary = tg_add},
    {"tg_add", "first axis", "real 256,8,768; real 1,8,768", .binary = tg_add},
    {"tg_add", "x x", "real S", .call = add_same},
    {"tg_sub", "row", "real S; real L", .binary = tg_sub},
    {"tg_sub", "column", "real S; real P,1", .binary = tg_sub},
    {"tg_mul", "row", "real S; real L", .binary = tg_mul},
    {"tg_mul", "column", "real S; real P,1", .binary = tg_mul},
    {"tg_mul", "transposed", "real 1024,1024; real 1024,1024", .call = mul_transposed},
    {"tg_div", "row", "positive S; positive L", .binary = tg_div},
    {"tg_div", "column", "positive S; positive P,1", .binary = tg_div},
    {"tg_clamp_tensor", "", "real S; real S; real S", .call = clamp_tensor},
    {"tg_clamp_tensor", "rows", "real S; real L; real L", .call = clamp_tensor},
    {"tg_bernoulli", "", "probability S", .unary = tg_bernoulli},
    {"tg_multinomial", "", "probability F,L", .call = multinomial},
    {"tg_multinomial", "without replacement", "probability F,L", .call = multinomial_without},
    {"tg_full", "", "model S", .call = full},
    {"tg_constant", "", "ids<L S", .call = constant},
    {.op = NULL},
};

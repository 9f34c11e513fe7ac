/* The rows of functions of one value. */
#include "bench/op_row.h"

static tg_tensor *softplus(tg_tape *t, tg_tensor *const *x)
{
    return tg_softplus(t, x[0], 1, 20);
}

static tg_tensor *clamp(tg_tape *t, tg_tensor *const *x)
{
    return tg_clamp(t, x[0], -0.5, 0.5);
}

const op_row op_functions[] = {
    {"tg_neg", "", "real S", .unary = tg_neg},
    {"tg_exp", "", "real S", .unary = tg_exp},
    {"tg_log", "", "positive S", .unary = tg_log},
    {"tg_sqrt", "", "positive S", .unary = tg_sqrt},
    {"tg_tanh", "", "real S", .unary = tg_tanh},
    {"tg_sigmoid", "", "real S", .unary = tg_sigmoid},
    {"tg_relu", "", "real S", .unary = tg_relu},
    {"tg_gelu", "", "real S", .unary = tg_gelu},
    {"tg_gelu_tanh", "", "real S", .unary = tg_gelu_tanh},
    {"tg_silu", "", "real S", .unary = tg_silu},
    {"tg_abs", "", "real S", .unary = tg_abs},
    {"tg_sin", "", "real S", .unary = tg_sin},
    {"tg_cos", "", "real S", .unary = tg_cos},
    {"tg_sign", "", "real S", .unary = tg_sign},
    {"tg_round", "", "real S", .unary = tg_round},
    {"tg_floor", "", "real S", .unary = tg_floor},
    {"tg_leaky_relu", "", "real S", .scalar = tg_leaky_relu, .value = 0.01},
    {"tg_elu", "", "real S", .scalar = tg_elu, .value = 1},
    {"tg_softplus", "", "real S", .call = softplus},
    {"tg_log_sigmoid", "", "real S", .unary = tg_log_sigmoid},
    {"tg_clamp", "", "real S", .call = clamp},
    {.op = NULL},
};

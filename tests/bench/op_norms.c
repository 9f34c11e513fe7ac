/* The rows of softmax, norms and dropout. */
#include "bench/op_row.h"

static tg_tensor *layer_norm(tg_tape *t, tg_tensor *const *x)
{
    return tg_layer_norm(t, x[0], x[1], x[2], 1e-5);
}

static tg_tensor *layer_norm_plain(tg_tape *t, tg_tensor *const *x)
{
    return tg_layer_norm(t, x[0], NULL, NULL, 1e-5);
}

static tg_tensor *rms_norm(tg_tape *t, tg_tensor *const *x)
{
    return tg_rms_norm(t, x[0], x[1], 1e-5);
}

const op_row op_norms[] = {
    {"tg_softmax", "first axis", "real S", .along = tg_softmax, .axis = 0},
    {"tg_softmax", "last axis", "real S", .along = tg_softmax, .axis = -1},
    {"tg_log_softmax", "first axis", "real S", .along = tg_log_softmax, .axis = 0},
    {"tg_log_softmax", "last axis", "real S", .along = tg_log_softmax, .axis = -1},
    {"tg_layer_norm", "", "real S; real L; real L", .call = layer_norm},
    {"tg_layer_norm", "without weights", "real S", .call = layer_norm_plain},
    {"tg_rms_norm", "", "real S; real L", .call = rms_norm},
    {"tg_dropout", "0.1", "real S", .scalar = tg_dropout, .value = 0.1},
    {"tg_dropout", "0.5", "real S", .scalar = tg_dropout, .value = 0.5},
    {.op = NULL},
};

/* one_hot: y[s,k] = 1 if k = id[s], else 0. No gradient, because ids are integers. Follows
 * torch.nn.functional.one_hot. */
#include <tapegrad/ops.h>

#include "tape/tape.h"
#include "tensor/strided.h"

typedef struct one_hot_attributes {
    int64_t classes;
    tg_dtype dtype;
} one_hot_attributes;

static void one_hot_forward(const tg_op_call *call)
{
    const tg_tensor *ids = call->inputs[0], *y = call->outputs[0];
    int64_t classes = ((const one_hot_attributes *)call->attributes)->classes;
    double one = 1;
    size_t size = tg_size_of(y->dtype);
    tg_zero_values(tg_values(y), y->count, size);
    for (int64_t s = 0; s < ids->count; s++) {
        int64_t at = s * classes + ((const int32_t *)tg_values(ids))[s];
        tg_convert((char *)tg_values(y) + (size_t)at * size, (tg_dtype)y->dtype, &one, TG_F64, 1);
    }
}

static bool one_hot_shape(tg_op_call *call)
{
    const one_hot_attributes *a = call->attributes;
    tg_shape shape = tg_shape_of(call->inputs[0]);
    if (a->classes < 1 || shape.rank == TG_MAX_RANK) {
        return tg_op_fail(call, TG_ERROR_VALUE,
                          "%lld classes for ids of rank %d; classes must be at least 1, and the rank at most %d",
                          (long long)a->classes, shape.rank, TG_MAX_RANK - 1);
    }
    if (!tg_op_expect_ids_below(call, 0, a->classes)) {
        return false;
    }
    shape.size[shape.rank++] = a->classes;
    return tg_op_output(call, 0, a->dtype, shape);
}

static const tg_op one_hot_op = {
    .name = "one_hot",
    .shape = one_hot_shape,
    .f32 = {one_hot_forward, NULL},
    .f64 = {one_hot_forward, NULL},
    .input_names = {"ids"},
};

tg_tensor *tg_one_hot(tg_tape *t, tg_tensor *ids, int64_t classes, tg_dtype dtype)
{
    one_hot_attributes attributes = {classes, dtype};
    return tg_apply(t, &one_hot_op, &ids, 1, &attributes, sizeof attributes, NULL);
}

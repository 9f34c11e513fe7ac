/* integers: where and masked_fill of i32 and u8 values. Values are copied as bytes, so every value is exact. No
 * gradient. Follows torch.where and torch.Tensor.masked_fill. */
#include "ops/elementwise/integers.h"

#include <string.h>

/* Copies the values of x that the mask selects: those where it is true, or those where it is false. */
static void copy_where(const tg_tensor *x, const tg_tensor *mask, bool selected, tg_tensor *y)
{
    tg_shape shape = tg_shape_of(y);
    size_t size = tg_size_of(y->dtype);
    tg_walk values = tg_walk_broadcast(x, &shape), masks = tg_walk_broadcast(mask, &shape);
    tg_cursor at = tg_walk_begin(&values, 0), mask_at = tg_walk_begin(&masks, 0);
    for (int64_t i = 0; i < y->count; i++) {
        if ((((const uint8_t *)tg_values(mask))[mask_at.offset] != 0) == selected) {
            memcpy((char *)tg_values(y) + (size_t)i * size, (const char *)tg_values(x) + at.offset * (int64_t)size,
                   size);
        }
        tg_walk_advance(&values, &at, 1);
        tg_walk_advance(&masks, &mask_at, 1);
    }
}

static void where_integers(const tg_op_call *call)
{
    copy_where(call->inputs[1], call->inputs[0], true, call->outputs[0]);
    copy_where(call->inputs[2], call->inputs[0], false, call->outputs[0]);
}

static void masked_fill_integers(const tg_op_call *call)
{
    tg_tensor *y = call->outputs[0];
    size_t size = tg_size_of(y->dtype);
    for (int64_t i = 0; i < y->count; i++) {
        tg_convert((char *)tg_values(y) + (size_t)i * size, tg_dtype_of(y), call->attributes, TG_F64, 1);
    }
    copy_where(call->inputs[0], call->inputs[1], false, y);
}

static bool where_shape(tg_op_call *call)
{
    const tg_tensor *a = call->inputs[1];
    tg_shape mask = tg_shape_of(call->inputs[0]), a_shape = tg_shape_of(a), b = tg_shape_of(call->inputs[2]), both,
             joined;
    char mask_text[TG_SHAPE_TEXT], a_text[TG_SHAPE_TEXT], b_text[TG_SHAPE_TEXT];
    if (!tg_op_expect_dtype(call, 0, TG_U8) || !tg_op_expect_dtype(call, 2, tg_dtype_of(a))) {
        return false;
    }
    if (!tg_shape_broadcast(&mask, &a_shape, &both) || !tg_shape_broadcast(&both, &b, &joined)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "shapes %s, %s and %s do not broadcast: sizes must be equal or 1",
                          tg_shape_format(mask, mask_text), tg_shape_format(a_shape, a_text),
                          tg_shape_format(b, b_text));
    }
    return tg_op_output(call, 0, tg_dtype_of(a), joined);
}

static bool masked_fill_shape(tg_op_call *call)
{
    return tg_masked_fill_check(call) && tg_op_output_like(call, tg_dtype_of(call->inputs[0]), 0);
}

const tg_op tg_where_integers_op = {
    .name = "where",
    .shape = where_shape,
    .input_names = {"mask", "a", "b"},
    .f32 = {where_integers, NULL},
    .f64 = {where_integers, NULL},
    .accepts_layout = tg_any_layout,
};

const tg_op tg_masked_fill_integers_op = {
    .name = "masked_fill",
    .shape = masked_fill_shape,
    .input_names = {"x", "mask"},
    .f32 = {masked_fill_integers, NULL},
    .f64 = {masked_fill_integers, NULL},
    .accepts_layout = tg_any_layout,
};

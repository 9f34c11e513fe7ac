/* integers: where and masked_fill of i32 and u8 values. Values are copied as they are, so every value is exact. No
 * gradient. Follows torch.where and torch.Tensor.masked_fill. */
#include "ops/elementwise/integers.h"

#include "base/parallel.h"

/* Values of y that are replaced by those of x where the mask is true. */
typedef struct replacement {
    tg_walk x_walk, mask_walk;
    const void *x;
    const uint8_t *mask;
    void *y;
    size_t size; /* of a value */
} replacement;

/* Replaces a run of values. */
static inline void replace(const int32_t *x, int64_t x_stride, const uint8_t *mask, int64_t stride, int64_t n,
                           int32_t *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        int32_t value = x[i * x_stride], old = y[i];
        y[i] = mask[i * stride] ? value : old;
    }
}

static inline void replace_bytes(const uint8_t *x, int64_t x_stride, const uint8_t *mask, int64_t stride, int64_t n,
                                 uint8_t *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t value = x[i * x_stride], old = y[i];
        y[i] = mask[i * stride] ? value : old;
    }
}

static void replace_part(void *context, int64_t begin, int64_t end)
{
    const replacement *r = context;
    const int64_t x_stride = tg_walk_stride(&r->x_walk), stride = tg_walk_stride(&r->mask_walk);
    tg_cursor x_at = tg_walk_begin(&r->x_walk, begin), mask_at = tg_walk_begin(&r->mask_walk, begin);
    for (int64_t i = begin, run; i < end; i += run) {
        run = tg_walk_run(&r->mask_walk, &mask_at, tg_walk_run(&r->x_walk, &x_at, end - i));
        const uint8_t *mask = r->mask + mask_at.offset;
        const int32_t *x = (const int32_t *)r->x + x_at.offset;
        if (r->size == 1) {
            replace_bytes((const uint8_t *)r->x + x_at.offset, x_stride, mask, stride, run, (uint8_t *)r->y + i);
        } else {
            replace(x, x_stride, mask, stride, run, (int32_t *)r->y + i);
        }
        tg_walk_advance(&r->x_walk, &x_at, run);
        tg_walk_advance(&r->mask_walk, &mask_at, run);
    }
}

/* Writes y = x where the mask is true, and y = other elsewhere; x_walk is that of x, broadcast to y. */
static void choose(const tg_tensor *mask, tg_walk x_walk, const void *x, const tg_tensor *other, tg_tensor *y)
{
    const tg_shape shape = tg_shape_of(y);
    replacement r = {x_walk, tg_walk_broadcast(mask, &shape), x, tg_values(mask), tg_values(y), tg_size_of(y->dtype)};
    tg_copy_broadcast(y, other);
    tg_parallel_for(y->count, TG_GRAIN, replace_part, &r);
}

static void where_integers(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[1];
    const tg_shape shape = tg_shape_of(call->outputs[0]);
    choose(call->inputs[0], tg_walk_broadcast(x, &shape), tg_values(x), call->inputs[2], call->outputs[0]);
}

static void masked_fill_integers(const tg_op_call *call)
{
    tg_tensor *y = call->outputs[0];
    double value; /* as wide as any */
    tg_walk repeated = tg_walk_new();
    tg_walk_add_axis(&repeated, y->count, 0, 0);
    tg_convert(&value, tg_dtype_of(y), call->attributes, TG_F64, 1);
    choose(call->inputs[1], repeated, &value, call->inputs[0], y);
}

static bool where_shape(tg_op_call *call)
{
    const tg_tensor *a = call->inputs[1];
    tg_shape mask = tg_shape_of(call->inputs[0]), a_shape = tg_shape_of(a), b = tg_shape_of(call->inputs[2]), both,
             joined;
    if (!tg_op_expect_dtype(call, 0, TG_U8) || !tg_op_expect_dtype(call, 2, tg_dtype_of(a))) {
        return false;
    }
    if (!tg_shape_broadcast(&mask, &a_shape, &both) || !tg_shape_broadcast(&both, &b, &joined)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "shapes %s, %s and %s do not broadcast: sizes must be equal or 1",
                          tg_shape_text(mask).text, tg_shape_text(a_shape).text, tg_shape_text(b).text);
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

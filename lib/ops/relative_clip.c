/* relative_clip: scores by clipped distance, moved to the pairs, and weights of the pairs, summed by clipped distance.
 *
 * Let query i of T stand at position S - T + i, and key j of S at j. Beyond k, distances count as k: place p of 2 k +
 * 1 means a key p - k positions ahead of its query, or, at both ends, more.
 *
 *   spread      y[i][j] = x[i][p(i,j)]                          x (..,T,2 k + 1)  ->  y (..,T,S)
 *               p(i,j) = k + clip(j - (S - T + i), -k, k)
 *   collect     y[i][p] = sum of x[i][j] with p(i,j) = p        x (..,T,S)  ->  y (..,T,2 k + 1)
 *
 * Each is the other's gradient. Shaw, Uszkoreit and Vaswani 2018, section 3.2, have the clip; that few vectors then
 * serve all pairs makes their products small ones.
 */
#include "ops/rows.h"

#include <tapegrad/ops.h>

TG_DECLARE_KERNEL(tg_relative_spread_forward);
TG_DECLARE_KERNEL(tg_relative_spread_backward);
TG_DECLARE_KERNEL(tg_relative_collect_forward);
TG_DECLARE_KERNEL(tg_relative_collect_backward);

/* Rows by place (`narrow`, 2 k + 1 values) and by key (`square`, S values). */
typedef struct KERNEL(rows) {
    real *narrow, *square;
    int64_t queries, keys, clip; /* T, S, k */
    bool fresh;                  /* the values are written, not added */
} KERNEL(rows);

static KERNEL(rows) KERNEL(rows_of)(const tg_tensor *narrow, const tg_tensor *square)
{
    return (KERNEL(rows)){.queries = square->shape[square->rank - 2],
                          .keys = square->shape[square->rank - 1],
                          .clip = narrow->shape[narrow->rank - 1] / 2};
}

static int64_t KERNEL(within)(int64_t key, int64_t keys)
{
    return key < 0 ? 0 : key < keys ? key : keys;
}

/* Keys before `*near` have the first place, keys from `*far` on the last; returns the place of key *near. */
static int64_t KERNEL(cut)(const KERNEL(rows) * r, int64_t row, int64_t *near, int64_t *far)
{
    int64_t own = r->keys - r->queries + row % r->queries;
    *near = KERNEL(within)(own - r->clip + 1, r->keys);
    *far = KERNEL(within)(own + r->clip, r->keys);
    *far = *far < *near ? *near : *far; /* a clip of 0 */
    return *near - own + r->clip;
}

static void KERNEL(spread)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(rows) *r = context;
    for (int64_t row = begin; row < end; row++) {
        const real *from = r->narrow + row * (2 * r->clip + 1), last = from[2 * r->clip];
        real *to = r->square + row * r->keys;
        int64_t near, far, place = KERNEL(cut)(r, row, &near, &far);
        for (int64_t j = 0; j < near; j++) {
            to[j] = r->fresh ? from[0] : to[j] + from[0];
        }
        for (int64_t j = near; j < far; j++) {
            real value = from[place + j - near];
            to[j] = r->fresh ? value : to[j] + value;
        }
        for (int64_t j = far; j < r->keys; j++) {
            to[j] = r->fresh ? last : to[j] + last;
        }
    }
}

static void KERNEL(collect)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(rows) *r = context;
    for (int64_t row = begin; row < end; row++) {
        real *to = r->narrow + row * (2 * r->clip + 1);
        const real *from = r->square + row * r->keys;
        int64_t near, far, place = KERNEL(cut)(r, row, &near, &far);
        if (r->fresh) {
            memset(to, 0, (size_t)(2 * r->clip + 1) * sizeof(real));
        }
        to[0] += (real)KERNEL(row_sum)(from, near);
        for (int64_t j = near; j < far; j++) {
            to[place + j - near] += from[j];
        }
        to[2 * r->clip] += (real)KERNEL(row_sum)(from + far, r->keys - far);
    }
}

static void KERNEL(run)(KERNEL(rows) * r, int64_t narrow, void (*body)(void *, int64_t, int64_t))
{
    if (narrow > 0) {
        tg_parallel_for(narrow / (2 * r->clip + 1), 1 + TG_GRAIN / (r->keys + 1), body, r);
    }
}

void KERNEL(tg_relative_spread_forward)(const tg_op_call *call)
{
    KERNEL(rows) r = KERNEL(rows_of)(call->inputs[0], call->outputs[0]);
    r.narrow = tg_values(call->inputs[0]);
    r.square = tg_values(call->outputs[0]);
    r.fresh = true;
    KERNEL(run)(&r, call->inputs[0]->count, KERNEL(spread));
}

/* In the forward pass this was: y[i][j] = x[i][p(i,j)]. */
void KERNEL(tg_relative_spread_backward)(const tg_op_call *call)
{
    KERNEL(rows) r = KERNEL(rows_of)(call->inputs[0], call->outputs[0]);
    r.narrow = call->input_gradients[0];
    r.square = (real *)call->output_gradients[0];
    r.fresh = call->fresh[0];
    KERNEL(run)(&r, call->inputs[0]->count, KERNEL(collect));
}

void KERNEL(tg_relative_collect_forward)(const tg_op_call *call)
{
    KERNEL(rows) r = KERNEL(rows_of)(call->outputs[0], call->inputs[0]);
    r.narrow = tg_values(call->outputs[0]);
    r.square = tg_values(call->inputs[0]);
    r.fresh = true;
    KERNEL(run)(&r, call->outputs[0]->count, KERNEL(collect));
}

/* In the forward pass this was: y[i][p] = sum of x[i][j] with p(i,j) = p. */
void KERNEL(tg_relative_collect_backward)(const tg_op_call *call)
{
    KERNEL(rows) r = KERNEL(rows_of)(call->outputs[0], call->inputs[0]);
    r.narrow = (real *)call->output_gradients[0];
    r.square = call->input_gradients[0];
    r.fresh = call->fresh[0];
    KERNEL(run)(&r, call->outputs[0]->count, KERNEL(spread));
}

#ifdef TG_ONCE

/* The attribute is the number of columns to come. */
static bool clip_shape(tg_op_call *call, bool narrow_input)
{
    int64_t columns = *(const int64_t *)call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape shape = tg_shape_of(x);
    char text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (shape.rank < 2 || (narrow_input && shape.size[shape.rank - 1] % 2 == 0)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s; it must be (..,T,%s)", tg_shape_format(shape, text),
                          narrow_input ? "2 clip + 1" : "S");
    }
    shape.size[shape.rank - 1] = columns;
    return tg_op_output(call, 0, tg_dtype_of(x), shape);
}

static bool spread_shape(tg_op_call *call)
{
    return clip_shape(call, true);
}

static bool collect_shape(tg_op_call *call)
{
    return clip_shape(call, false);
}

static const tg_op spread_op = {
    .name = "relative_spread",
    .shape = spread_shape,
    .f32 = {tg_relative_spread_forward_f32, tg_relative_spread_backward_f32},
    .f64 = {tg_relative_spread_forward_f64, tg_relative_spread_backward_f64},
    .overwrites_fresh = true,
};

static const tg_op collect_op = {
    .name = "relative_collect",
    .shape = collect_shape,
    .f32 = {tg_relative_collect_forward_f32, tg_relative_collect_backward_f32},
    .f64 = {tg_relative_collect_forward_f64, tg_relative_collect_backward_f64},
    .overwrites_fresh = true,
};

tg_tensor *tg_relative_spread(tg_tape *t, tg_tensor *x, int64_t keys)
{
    if (keys < 0) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "relative_spread", "%lld keys; allowed are 0 or more", (long long)keys);
    }
    return tg_apply(t, &spread_op, &x, 1, &keys, sizeof keys);
}

tg_tensor *tg_relative_collect(tg_tape *t, tg_tensor *x, int64_t clip)
{
    if (clip < 0 || clip > INT32_MAX) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "relative_collect", "a clip of %lld; allowed are 0 to %d",
                            (long long)clip, INT32_MAX);
    }
    int64_t places = 2 * clip + 1;
    return tg_apply(t, &collect_op, &x, 1, &places, sizeof places);
}

#endif

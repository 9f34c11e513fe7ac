/* relative: scores by distance, moved to where the tokens are.
 *
 * Let query i of T stand at position S - T + i, and key j of S at j. Scores that depend on the distance are computed
 * in the order of the distances, x (..,T,L), where place l means the distance S - 1 - l; so key j's is at l = T - 1 -
 * i + j.
 *
 *   shift       y[i][j] = x[i][T - 1 - i + j]           x (..,T,L), or (..,1,L) for all queries alike  ->  y (..,T,S)
 *   gradient    dx[i][T - 1 - i + j] += dy[i][j]
 *
 * L is T + S - 1 for all distances, and then y is a view of x: from row to row of y its place in x moves back by one.
 * L is S for those that are not negative; what lies beyond L counts as 0, and a causal mask hides it anyway. Dai et al. 2019 (Transformer-XL), appendix B, calls this "relative shift".
 */
#include "ops/real.h"

#include <tapegrad/ops.h>

TG_DECLARE_KERNEL(tg_relative_shift_forward);
TG_DECLARE_KERNEL(tg_relative_shift_backward);

/* Rows by distance (`wide`, L values, one a query or one a matrix) and by key (`square`, S values). */
typedef struct KERNEL(rows) {
    real *wide, *square;
    int64_t queries, keys, distances; /* T, S, L */
    bool shared;                      /* one wide row for all queries of a matrix */
    bool fresh;                       /* the values are written, not added */
} KERNEL(rows);

static KERNEL(rows) KERNEL(rows_of)(const tg_tensor *wide, const tg_tensor *square)
{
    int rank = square->rank;
    return (KERNEL(rows)){.queries = square->shape[rank - 2],
                          .keys = square->shape[rank - 1],
                          .distances = wide->shape[rank - 1],
                          .shared = wide->shape[rank - 2] == 1};
}

/* Where query number `row` of all matrices has its first key's place, and how many of its keys have one. */
static real *KERNEL(place)(const KERNEL(rows) * r, int64_t row, int64_t *count)
{
    int64_t first = r->queries - 1 - row % r->queries, left = r->distances - first;
    *count = left < r->keys ? left : r->keys;
    return r->wide + (r->shared ? row / r->queries : row) * r->distances + first;
}

static void KERNEL(to_square)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(rows) *r = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t count;
        const real *from = KERNEL(place)(r, row, &count);
        real *to = r->square + row * r->keys;
        for (int64_t j = 0; j < count; j++) {
            to[j] = r->fresh ? from[j] : to[j] + from[j];
        }
        for (int64_t j = count; r->fresh && j < r->keys; j++) {
            to[j] = 0;
        }
    }
}

/* A wide row for each query: written, or added to. */
static void KERNEL(to_own_rows)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(rows) *r = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t count;
        real *to = KERNEL(place)(r, row, &count), *first = r->wide + row * r->distances;
        const real *from = r->square + row * r->keys;
        for (int64_t j = 0; j < count; j++) {
            to[j] = r->fresh ? from[j] : to[j] + from[j];
        }
        if (r->fresh) {
            int64_t before = count > 0 ? to - first : 0, after = before + (count > 0 ? count : 0);
            memset(first, 0, (size_t)before * sizeof(real));
            memset(first + after, 0, (size_t)(r->distances - after) * sizeof(real));
        }
    }
}

/* A wide row for each matrix: threads divide the matrices. */
static void KERNEL(to_shared_rows)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(rows) *r = context;
    for (int64_t row = begin * r->queries; row < end * r->queries; row++) {
        int64_t count;
        real *to = KERNEL(place)(r, row, &count);
        const real *from = r->square + row * r->keys;
        for (int64_t j = 0; j < count; j++) {
            to[j] += from[j];
        }
    }
}

static void KERNEL(run_to_square)(KERNEL(rows) * r, int64_t count)
{
    if (count > 0) {
        tg_parallel_for(count / r->keys, 1 + TG_GRAIN / (r->keys + 1), KERNEL(to_square), r);
    }
}

/* `wide`: how many values all wide rows have. */
static void KERNEL(run_to_wide)(KERNEL(rows) * r, int64_t wide)
{
    if (wide == 0) {
        return;
    }
    int64_t rows = wide / r->distances;
    if (!r->shared) {
        tg_parallel_for(rows, 1 + TG_GRAIN / (r->distances + 1), KERNEL(to_own_rows), r);
        return;
    }
    if (r->fresh) {
        memset(r->wide, 0, (size_t)wide * sizeof(real));
    }
    if (r->keys > 0 && r->queries > 0) {
        tg_parallel_for(rows, 1 + TG_GRAIN / (r->queries * r->keys + 1), KERNEL(to_shared_rows), r);
    }
}

void KERNEL(tg_relative_shift_forward)(const tg_op_call *call)
{
    if (call->outputs[0]->storage == call->inputs[0]->storage) {
        return; /* a view */
    }
    KERNEL(rows) r = KERNEL(rows_of)(call->inputs[0], call->outputs[0]);
    r.wide = tg_values(call->inputs[0]);
    r.square = tg_values(call->outputs[0]);
    r.fresh = true;
    KERNEL(run_to_square)(&r, call->outputs[0]->count);
}

/* In the forward pass this was: y[i][j] = x[i][T - 1 - i + j]. */
void KERNEL(tg_relative_shift_backward)(const tg_op_call *call)
{
    KERNEL(rows) r = KERNEL(rows_of)(call->inputs[0], call->outputs[0]);
    r.wide = call->input_gradients[0];
    r.square = (real *)call->output_gradients[0];
    r.fresh = call->fresh[0];
    KERNEL(run_to_wide)(&r, call->inputs[0]->count);
}

#ifdef TG_ONCE

typedef struct relative_sizes {
    int64_t rows, columns; /* of the output */
} relative_sizes;

static bool relative_shape(tg_op_call *call)
{
    const relative_sizes *sizes = call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape shape = tg_shape_of(x);
    char text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (sizes->rows < 0 || sizes->columns < 0) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%lld queries and %lld keys; allowed are 0 or more",
                          (long long)sizes->rows, (long long)sizes->columns);
    }
    if (x->rank < 2 || (x->shape[x->rank - 2] != sizes->rows && x->shape[x->rank - 2] != 1)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s; for %lld queries it must be (..,%lld,L) or (..,1,L)",
                          tg_shape_format(shape, text), (long long)sizes->rows, (long long)sizes->rows);
    }
    int64_t distances = x->shape[x->rank - 1], strides[TG_MAX_RANK];
    shape.size[shape.rank - 2] = sizes->rows;
    shape.size[shape.rank - 1] = sizes->columns;
    if (sizes->rows < 1 || sizes->columns < 1 || distances - sizes->rows < sizes->columns - 1) {
        return tg_op_output(call, 0, tg_dtype_of(x), shape);
    }
    memcpy(strides, x->strides, sizeof strides);
    strides[x->rank - 2] = (x->shape[x->rank - 2] == 1 ? 0 : distances) - 1;
    strides[x->rank - 1] = 1;
    return tg_op_output_view(call, 0, 0, shape, strides, sizes->rows - 1);
}

static const tg_op relative_shift_op = {
    .name = "relative_shift",
    .shape = relative_shape,
    .f32 = {tg_relative_shift_forward_f32, tg_relative_shift_backward_f32},
    .f64 = {tg_relative_shift_forward_f64, tg_relative_shift_backward_f64},
    .overwrites_fresh = true,
};

tg_tensor *tg_relative_shift(tg_tape *t, tg_tensor *x, int64_t queries, int64_t keys)
{
    relative_sizes sizes = {queries, keys};
    return tg_apply(t, &relative_shift_op, &x, 1, &sizes, sizeof sizes);
}

#endif

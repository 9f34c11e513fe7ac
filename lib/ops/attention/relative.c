/* relative: moves scores by distance to the pairs of queries and keys (relative.h explains the indices).
 *
 *   shift       y[i][j] = x[i][T - 1 - i + j]           x (..,T,L), or (..,1,L) for all queries  ->  y (..,T,S)
 *   gradient    dx[i][T - 1 - i + j] += dy[i][j]
 *
 * With L >= T + S - 1 every distance exists, and y is a view of x: the row of the next query begins one value earlier.
 * With fewer, the missing scores are 0. Dai et al. 2019 (Transformer-XL), appendix B, calls this "relative shift".
 */
#include "ops/attention/relative.h"
#include "ops/kernel_real.h"

TG_DECLARE_KERNELS(tg_relative_shift_forward, tg_relative_shift_backward);

/* Rows by distance (`wide`, L values, one per query or one per matrix) and by key (`square`, S values). */
typedef struct shift {
    real *wide, *square;
    int64_t queries, keys, distances; /* T, S, L */
    bool shared;                      /* one wide row for all queries of a matrix */
    bool overwrite;
} shift;

static shift shift_of(const tg_tensor *wide, const tg_tensor *square)
{
    int rank = square->rank;
    return (shift){.queries = square->shape[rank - 2],
                   .keys = square->shape[rank - 1],
                   .distances = wide->shape[rank - 1],
                   .shared = wide->shape[rank - 2] == 1};
}

/* Returns the index of key 0's score in the wide row of a query, at most L, and sets *count to the number of keys that
 * have a score. `row` numbers the queries of all matrices. */
static int64_t first_score(const shift *r, int64_t row, int64_t *count)
{
    int64_t first = r->queries - 1 - row % r->queries;
    first = first < r->distances ? first : r->distances;
    int64_t left = r->distances - first;
    *count = left < r->keys ? left : r->keys;
    return first;
}

static real *wide_row(const shift *r, int64_t row)
{
    return r->wide + (r->shared ? row / r->queries : row) * r->distances;
}

static void to_square(void *context, int64_t begin, int64_t end)
{
    const shift *r = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t count, first = first_score(r, row, &count);
        const real *from = wide_row(r, row) + first;
        real *to = r->square + row * r->keys;
        memcpy(to, from, (size_t)count * sizeof(real));
        memset(to + count, 0, (size_t)(r->keys - count) * sizeof(real));
    }
}

static void to_own_rows(void *context, int64_t begin, int64_t end)
{
    const shift *r = context;
    for (int64_t row = begin; row < end; row++) {
        int64_t count, first = first_score(r, row, &count);
        real *to = wide_row(r, row);
        const real *from = r->square + row * r->keys;
        for (int64_t j = 0; j < count; j++) {
            to[first + j] = accumulated(r->overwrite, to[first + j], from[j]);
        }
        if (r->overwrite) {
            memset(to, 0, (size_t)first * sizeof(real));
            memset(to + first + count, 0, (size_t)(r->distances - first - count) * sizeof(real));
        }
    }
}

/* One wide row per matrix: threads divide the matrices. */
static void to_shared_rows(void *context, int64_t begin, int64_t end)
{
    const shift *r = context;
    for (int64_t row = begin * r->queries; row < end * r->queries; row++) {
        int64_t count, first = first_score(r, row, &count);
        real *to = wide_row(r, row) + first;
        const real *from = r->square + row * r->keys;
        for (int64_t j = 0; j < count; j++) {
            to[j] += from[j];
        }
    }
}

static void run_to_square(shift *r, int64_t count)
{
    if (count > 0) {
        tg_parallel_for(count / r->keys, 1 + TG_GRAIN / (r->keys + 1), to_square, r);
    }
}

/* `wide` is the number of values of all wide rows. */
static void run_to_wide(shift *r, int64_t wide)
{
    if (wide == 0) {
        return;
    }
    int64_t rows = wide / r->distances;
    if (!r->shared) {
        tg_parallel_for(rows, 1 + TG_GRAIN / (r->distances + 1), to_own_rows, r);
        return;
    }
    if (r->overwrite) {
        memset(r->wide, 0, (size_t)wide * sizeof(real));
    }
    if (r->keys > 0 && r->queries > 0) {
        tg_parallel_for(rows, 1 + TG_GRAIN / (r->queries * r->keys + 1), to_shared_rows, r);
    }
}

void KERNEL(tg_relative_shift_forward)(const tg_op_call *call)
{
    if (call->outputs[0]->storage == call->inputs[0]->storage) {
        return; /* y is a view of x */
    }
    shift r = shift_of(call->inputs[0], call->outputs[0]);
    r.wide = tg_values(call->inputs[0]);
    r.square = tg_values(call->outputs[0]);
    run_to_square(&r, call->outputs[0]->count);
}

/* The forward pass computed y[i][j] = x[i][T - 1 - i + j]. */
void KERNEL(tg_relative_shift_backward)(const tg_op_call *call)
{
    shift r = shift_of(call->inputs[0], call->outputs[0]);
    r.wide = call->input_gradients[0];
    r.square = (real *)call->output_gradients[0];
    r.overwrite = writes_gradient(call, 0);
    run_to_wide(&r, call->inputs[0]->count);
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
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (sizes->rows < 0 || sizes->columns < 0) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "%lld queries and %lld keys; they must be 0 or more",
                          (long long)sizes->rows, (long long)sizes->columns);
    }
    if (x->rank < 2 || (x->shape[x->rank - 2] != sizes->rows && x->shape[x->rank - 2] != 1)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s; for %lld queries it must be (..,%lld,L) or (..,1,L)",
                          tg_shape_text(shape).text, (long long)sizes->rows, (long long)sizes->rows);
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
    .input_names = {"x"},
    TG_KERNELS(tg_relative_shift_forward, tg_relative_shift_backward),
    TG_IGNORES_VALUES,
    .can_overwrite = true,
};

tg_tensor *tg_relative_shift(tg_tape *t, tg_tensor *x, int64_t queries, int64_t keys)
{
    relative_sizes sizes = {queries, keys};
    return tg_apply(t, &relative_shift_op, &x, 1, &sizes, sizeof sizes, NULL);
}

#endif

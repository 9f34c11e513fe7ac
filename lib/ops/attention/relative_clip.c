/* relative_clip: spreads scores by clipped distance to the pairs of queries and keys, and collects weights of the pairs
 * by clipped distance.
 *
 * Query i of T is at position S - T + i, and key j of S at position j. Index p of the 2 k + 1 means a key p - k
 * positions after its query. The first and the last index also stand for all larger distances.
 *
 *   spread      y[i][j] = x[i][p(i,j)]                          x (..,T,2 k + 1)  ->  y (..,T,S)
 *               p(i,j) = k + clip(j - (S - T + i), -k, k)
 *   collect     y[i][p] = sum of x[i][j] with p(i,j) = p        x (..,T,S)  ->  y (..,T,2 k + 1)
 *
 * Each is the gradient of the other. With clipped distances all pairs share 2 k + 1 vectors, so the product with these
 * is small (Shaw, Uszkoreit and Vaswani 2018, section 3.2).
 */
#include "ops/attention/relative.h"
#include "ops/lanes.h"

TG_DECLARE_KERNELS(tg_relative_spread_forward, tg_relative_spread_backward);
TG_DECLARE_KERNELS(tg_relative_collect_forward, tg_relative_collect_backward);

/* Rows by clipped distance (`narrow`, 2 k + 1 values) and by key (`square`, S values). */
typedef struct clipped {
    real *narrow, *square;
    int64_t queries, keys, clip; /* T, S, k */
    bool overwrite;
} clipped;

static int64_t within(int64_t key, int64_t keys)
{
    return key < 0 ? 0 : key < keys ? key : keys;
}

/* Finds the keys whose distance is clipped: p is 0 for keys before *near, and 2 k for keys from *far on. Returns p of
 * key *near. */
static int64_t find_bounds(const clipped *r, int64_t row, int64_t *near, int64_t *far)
{
    int64_t own = r->keys - r->queries + row % r->queries;
    *near = within(own - r->clip + 1, r->keys);
    *far = within(own + r->clip, r->keys);
    *far = *far < *near ? *near : *far; /* a clip of 0 gives far < near */
    return *near - own + r->clip;
}

static void spread(void *context, int64_t begin, int64_t end)
{
    const clipped *r = context;
    for (int64_t row = begin; row < end; row++) {
        const real *from = r->narrow + row * (2 * r->clip + 1), last = from[2 * r->clip];
        real *to = r->square + row * r->keys;
        int64_t near, far, index = find_bounds(r, row, &near, &far);
        for (int64_t j = 0; j < near; j++) {
            to[j] = accumulated(r->overwrite, to[j], from[0]);
        }
        for (int64_t j = near; j < far; j++) {
            real value = from[index + j - near];
            to[j] = accumulated(r->overwrite, to[j], value);
        }
        for (int64_t j = far; j < r->keys; j++) {
            to[j] = accumulated(r->overwrite, to[j], last);
        }
    }
}

static void collect(void *context, int64_t begin, int64_t end)
{
    const clipped *r = context;
    for (int64_t row = begin; row < end; row++) {
        real *to = r->narrow + row * (2 * r->clip + 1);
        const real *from = r->square + row * r->keys;
        int64_t near, far, index = find_bounds(r, row, &near, &far);
        if (r->overwrite) {
            memset(to, 0, (size_t)(2 * r->clip + 1) * sizeof(real));
        }
        to[0] += (real)row_sum(from, near);
        for (int64_t j = near; j < far; j++) {
            to[index + j - near] += from[j];
        }
        to[2 * r->clip] += (real)row_sum(from + far, r->keys - far);
    }
}

/* Runs a loop over the rows of two tensors, or of their gradients. */
static void run_clipped(loop_body *body, clipped r, const tg_tensor *narrow, const tg_tensor *square)
{
    r.queries = square->shape[square->rank - 2];
    r.keys = square->shape[square->rank - 1];
    r.clip = narrow->shape[narrow->rank - 1] / 2;
    if (narrow->count > 0) {
        tg_parallel_for(narrow->count / (2 * r.clip + 1), 1 + TG_GRAIN / (r.keys + 1), body, &r);
    }
}

void KERNEL(tg_relative_spread_forward)(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    run_clipped(spread, (clipped){tg_values(x), tg_values(y), .overwrite = true}, x, y);
}

/* The forward pass computed y[i][j] = x[i][p(i,j)]. */
void KERNEL(tg_relative_spread_backward)(const tg_op_call *call)
{
    real *dx = call->input_gradients[0], *dy = (real *)call->output_gradients[0];
    run_clipped(collect, (clipped){dx, dy, .overwrite = writes_gradient(call, 0)}, call->inputs[0], call->outputs[0]);
}

void KERNEL(tg_relative_collect_forward)(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    run_clipped(collect, (clipped){tg_values(y), tg_values(x), .overwrite = true}, y, x);
}

/* The forward pass computed y[i][p] = sum of x[i][j] with p(i,j) = p. */
void KERNEL(tg_relative_collect_backward)(const tg_op_call *call)
{
    real *dx = call->input_gradients[0], *dy = (real *)call->output_gradients[0];
    run_clipped(spread, (clipped){dy, dx, .overwrite = writes_gradient(call, 0)}, call->outputs[0], call->inputs[0]);
}

#ifdef TG_ONCE

/* The attribute is the number of columns of the result. */
static bool clip_shape(tg_op_call *call, bool narrow_input)
{
    int64_t columns = *(const int64_t *)call->attributes;
    const tg_tensor *x = call->inputs[0];
    tg_shape shape = tg_shape_of(x);
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (shape.rank < 2 || columns < 0 || (narrow_input && shape.size[shape.rank - 1] % 2 == 0)) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "x is %s, for a result of %lld columns; x must be (..,T,%s), columns 0 or more",
                          tg_shape_text(shape).text, (long long)columns, narrow_input ? "2 clip + 1" : "S");
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
    .input_names = {"x"},
    TG_KERNELS(tg_relative_spread_forward, tg_relative_spread_backward),
    TG_IGNORES_VALUES,
    .can_overwrite = true,
};

static const tg_op collect_op = {
    .name = "relative_collect",
    .shape = collect_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_relative_collect_forward, tg_relative_collect_backward),
    TG_IGNORES_VALUES,
    .can_overwrite = true,
};

tg_tensor *tg_relative_spread(tg_tape *t, tg_tensor *x, int64_t keys)
{
    return tg_apply(t, &spread_op, &x, 1, &keys, sizeof keys, NULL);
}

tg_tensor *tg_relative_collect(tg_tape *t, tg_tensor *x, int64_t clip)
{
    if (clip < 0 || clip > INT32_MAX) {
        tg_tape_fail(t, TG_ERROR_VALUE, "relative_collect", "clip %lld; it must be 0 to %d", (long long)clip,
                     INT32_MAX);
        return NULL;
    }
    int64_t columns = 2 * clip + 1;
    return tg_apply(t, &collect_op, &x, 1, &columns, sizeof columns, NULL);
}

#endif

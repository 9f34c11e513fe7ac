/* compare: comparisons, which give masks, and selection by a mask.
 *
 *   eq ne lt le gt ge   y = 1 where a == b, a != b, ..., else 0; u8, no gradient
 *   logical_and or not  y = 1 where a and b are not 0, ...; u8, no gradient
 *   where               y = mask ? a : b              da += dy where mask, db += dy elsewhere
 *   masked_fill         y = mask ? value : x          dx += dy where not mask
 *
 * The elementwise loop converts masks and ids to `real`. If no input is a float, `real` is double, which holds every id
 * exactly. Follows torch.eq, ne, lt, le, gt, ge, logical_and,
 * logical_or, logical_not and where, and torch.Tensor.masked_fill.
 */
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/integers.h"

enum { EQ, NE, LT, LE, GT, GE, AND, OR, NOT, WHERE, MASKED_FILL };

static void equal(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] == b[i];
    }
}

static void not_equal(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] != b[i];
    }
}

static void less(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] < b[i];
    }
}

static void less_or_equal(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] <= b[i];
    }
}

static void greater(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] > b[i];
    }
}

static void greater_or_equal(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] >= b[i];
    }
}

/* A NaN is not 0, so it is true. */
static void logical_and(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] != 0 && b[i] != 0;
    }
}

static void logical_or(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] != 0 || b[i] != 0;
    }
}

static void logical_not(const tg_chunk *k)
{
    const real *a = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] == 0;
    }
}

static void where(const tg_chunk *k)
{
    const real *mask = k->in[0], *a = k->in[1], *b = k->in[2];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = mask[i] != 0 ? a[i] : b[i];
    }
}

static void where_gradient_a(const tg_chunk *k)
{
    const real *mask = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = mask[i] != 0 ? dy[i] : 0;
    }
}

static void where_gradient_b(const tg_chunk *k)
{
    const real *mask = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = mask[i] != 0 ? 0 : dy[i];
    }
}

static void masked_fill(const tg_chunk *k)
{
    const real *x = k->in[0], *mask = k->in[1];
    real *out = k->out;
    const real value = (real) * (const double *)k->attributes;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = mask[i] != 0 ? value : x[i];
    }
}

static void masked_fill_gradient(const tg_chunk *k)
{
    const real *mask = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = mask[i] != 0 ? 0 : dy[i];
    }
}

TG_DECLARE_ELEMENTWISE(tg_compare);

const tg_elementwise_kernels KERNEL(tg_compare)[] = {
    [EQ] = {equal, {NULL}},
    [NE] = {not_equal, {NULL}},
    [LT] = {less, {NULL}},
    [LE] = {less_or_equal, {NULL}},
    [GT] = {greater, {NULL}},
    [GE] = {greater_or_equal, {NULL}},
    [AND] = {logical_and, {NULL}},
    [OR] = {logical_or, {NULL}},
    [NOT] = {logical_not, {NULL}},
    [WHERE] = {where, {NULL, where_gradient_a, where_gradient_b}},
    [MASKED_FILL] = {masked_fill, {masked_fill_gradient, NULL}},
};

#ifdef TG_ONCE

static bool comparison_shape(tg_op_call *call)
{
    return tg_elementwise_output(call, TG_U8);
}

static bool where_shape(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_U8) && tg_elementwise_shape(call);
}

bool tg_masked_fill_check(tg_op_call *call)
{
    tg_shape x = tg_shape_of(call->inputs[0]), mask = tg_shape_of(call->inputs[1]), joined;
    char x_text[TG_SHAPE_TEXT], mask_text[TG_SHAPE_TEXT];
    if (!tg_op_expect_dtype(call, 1, TG_U8)) {
        return false;
    }
    if (!tg_shape_broadcast(&x, &mask, &joined) || !tg_shape_equal(joined, x)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "a mask of shape %s does not broadcast to %s",
                          tg_shape_format(mask, mask_text), tg_shape_format(x, x_text));
    }
    return true;
}

static bool masked_fill_shape(tg_op_call *call)
{
    return tg_masked_fill_check(call) && tg_elementwise_shape(call);
}

#define COMPARISON(name, index) \
    TG_ELEMENTWISE_WITH_RULE(name, comparison_shape, tg_compare, index, TG_OP_ALL, TG_OP_ALL)

static const tg_elementwise ops[] = {
    [EQ] = COMPARISON("eq", EQ),
    [NE] = COMPARISON("ne", NE),
    [LT] = COMPARISON("lt", LT),
    [LE] = COMPARISON("le", LE),
    [GT] = COMPARISON("gt", GT),
    [GE] = COMPARISON("ge", GE),
    [AND] = COMPARISON("logical_and", AND),
    [OR] = COMPARISON("logical_or", OR),
    [NOT] = COMPARISON("logical_not", NOT),
    /* backward reads only the mask */
    [WHERE] = TG_ELEMENTWISE_WITH_RULE("where", where_shape, tg_compare, WHERE, 2 | 4, TG_OP_ALL),
    [MASKED_FILL] = TG_ELEMENTWISE_WITH_RULE("masked_fill", masked_fill_shape, tg_compare, MASKED_FILL, 1, TG_OP_ALL),
};

static tg_tensor *compare(tg_tape *t, const tg_elementwise *op, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {a, b};
    return tg_apply(t, &op->op, inputs, 2, NULL, 0, NULL);
}

tg_tensor *tg_eq(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ops[EQ], a, b);
}

tg_tensor *tg_ne(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ops[NE], a, b);
}

tg_tensor *tg_lt(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ops[LT], a, b);
}

tg_tensor *tg_le(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ops[LE], a, b);
}

tg_tensor *tg_gt(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ops[GT], a, b);
}

tg_tensor *tg_ge(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ops[GE], a, b);
}

tg_tensor *tg_logical_and(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ops[AND], a, b);
}

tg_tensor *tg_logical_or(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ops[OR], a, b);
}

tg_tensor *tg_logical_not(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &ops[NOT].op, &x, 1, NULL, 0, NULL);
}

static bool is_integer(const tg_tensor *x)
{
    return tg_is_tensor(x) && !tg_dtype_is_float(x->dtype);
}

tg_tensor *tg_where(tg_tape *t, tg_tensor *mask, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {mask, a, b};
    const tg_op *op = is_integer(a) ? &tg_where_integers_op : &ops[WHERE].op;
    return tg_apply(t, op, inputs, 3, NULL, 0, NULL);
}

tg_tensor *tg_masked_fill(tg_tape *t, tg_tensor *x, tg_tensor *mask, double value)
{
    tg_tensor *inputs[] = {x, mask};
    const tg_op *op = is_integer(x) ? &tg_masked_fill_integers_op : &ops[MASKED_FILL].op;
    return tg_apply(t, op, inputs, 2, &value, sizeof value, NULL);
}

#endif

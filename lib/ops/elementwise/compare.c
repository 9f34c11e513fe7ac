/* compare: comparisons, which give masks, and selection by a mask.
 *
 * The elementwise loop converts masks and ids to `real`. If no input is a float, `real` is double, which holds every id
 * exactly. Follows torch.eq, ne, lt, le, gt, ge, logical_and, logical_or, logical_not and where, and
 * torch.Tensor.masked_fill.
 */
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/integers.h"

/* ---- comparisons: y is u8, and has no gradient ---- */

#ifdef TG_ONCE
static bool comparison_shape(tg_op_call *call)
{
    return tg_elementwise_output(call, TG_U8);
}

static tg_tensor *compare(tg_tape *t, const tg_elementwise *op, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {a, b};
    return tg_apply(t, &op->op, inputs, 2, NULL, 0, NULL);
}
#define COMPARISON_OP(op, name, ...)   \
    static const tg_elementwise op = { \
        TG_ELEMENTWISE_WITH_RULE(name, op, comparison_shape, TG_OP_ALL, TG_OP_ALL, __VA_ARGS__)}
#else
#define COMPARISON_OP(op, name, ...) TG_DECLARE_ELEMENTWISE(op)
#endif

/* Defines an op and its kernels: `value` is y of a and b, `masks_kernel` computes masks of masks (or is NULL). */
#define COMPARISON(op, name, value, masks_kernel)    \
    TG_MASK_LOOP_2(value, in[0], in[1]);             \
    TG_MASK_KERNELS(op, value##_loop, masks_kernel); \
    COMPARISON_OP(op, name, "a", "b")

static inline bool eq_value(real a, real b)
{
    return a == b;
}

COMPARISON(eq_op, "eq", eq_value, NULL);

#ifdef TG_ONCE
tg_tensor *tg_eq(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &eq_op, a, b);
}
#endif

static inline bool ne_value(real a, real b)
{
    return a != b;
}

COMPARISON(ne_op, "ne", ne_value, NULL);

#ifdef TG_ONCE
tg_tensor *tg_ne(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ne_op, a, b);
}
#endif

static inline bool lt_value(real a, real b)
{
    return a < b;
}

COMPARISON(lt_op, "lt", lt_value, NULL);

#ifdef TG_ONCE
tg_tensor *tg_lt(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &lt_op, a, b);
}
#endif

static inline bool le_value(real a, real b)
{
    return a <= b;
}

COMPARISON(le_op, "le", le_value, NULL);

#ifdef TG_ONCE
tg_tensor *tg_le(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &le_op, a, b);
}
#endif

static inline bool gt_value(real a, real b)
{
    return a > b;
}

COMPARISON(gt_op, "gt", gt_value, NULL);

#ifdef TG_ONCE
tg_tensor *tg_gt(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &gt_op, a, b);
}
#endif

static inline bool ge_value(real a, real b)
{
    return a >= b;
}

COMPARISON(ge_op, "ge", ge_value, NULL);

#ifdef TG_ONCE
tg_tensor *tg_ge(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &ge_op, a, b);
}
#endif

/* ---- logical ops: a NaN is not 0, so it is true ---- */

static void and_masks(const tg_chunk *k)
{
    const uint8_t *a = k->in[0], *b = k->in[1];
    uint8_t *out = k->out;
    int64_t n = k->n; /* a copy: a byte of out could be a part of k */
    for (int64_t i = 0; i < n; i++) {
        out[i] = (a[i] != 0) & (b[i] != 0);
    }
}

static void or_masks(const tg_chunk *k)
{
    const uint8_t *a = k->in[0], *b = k->in[1];
    uint8_t *out = k->out;
    int64_t n = k->n; /* a copy: a byte of out could be a part of k */
    for (int64_t i = 0; i < n; i++) {
        out[i] = (a[i] | b[i]) != 0;
    }
}

static void not_mask(const tg_chunk *k)
{
    const uint8_t *x = k->in[0];
    uint8_t *out = k->out;
    int64_t n = k->n; /* a copy: a byte of out could be a part of k */
    for (int64_t i = 0; i < n; i++) {
        out[i] = x[i] == 0;
    }
}

static inline bool logical_and_value(real a, real b)
{
    return a != 0 && b != 0;
}

COMPARISON(logical_and_op, "logical_and", logical_and_value, and_masks);

#ifdef TG_ONCE
tg_tensor *tg_logical_and(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &logical_and_op, a, b);
}
#endif

static inline bool logical_or_value(real a, real b)
{
    return a != 0 || b != 0;
}

COMPARISON(logical_or_op, "logical_or", logical_or_value, or_masks);

#ifdef TG_ONCE
tg_tensor *tg_logical_or(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return compare(t, &logical_or_op, a, b);
}
#endif

static inline bool logical_not_value(real x)
{
    return x == 0;
}

TG_MASK_LOOP_1(logical_not_value, in[0]);
TG_MASK_KERNELS(logical_not_op, logical_not_value_loop, not_mask);
COMPARISON_OP(logical_not_op, "logical_not", "x");

#ifdef TG_ONCE
tg_tensor *tg_logical_not(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &logical_not_op.op, &x, 1, NULL, 0, NULL);
}
#endif

/* ---- selection ---- */

#ifdef TG_ONCE
static bool is_integer(const tg_tensor *x)
{
    return x && !x->is_freed && !tg_dtype_is_float(x->dtype);
}
#endif

/* y = mask ? a : b, da += dy where mask, db += dy elsewhere */
static inline real where_value(real mask, real a, real b)
{
    return mask != 0 ? a : b;
}

static inline real where_gradient_a(real mask, real dy)
{
    return mask != 0 ? dy : 0;
}

static inline real where_gradient_b(real mask, real dy)
{
    return mask != 0 ? 0 : dy;
}

TG_LOOP_3(where_value, in[0], in[1], in[2]);
TG_LOOP_2(where_gradient_a, in[0], dy);
TG_LOOP_2(where_gradient_b, in[0], dy);
TG_ELEMENTWISE_KERNELS(where_op, where_value_loop, NULL, where_gradient_a_loop, where_gradient_b_loop);

#ifdef TG_ONCE
static bool where_shape(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_U8) && tg_elementwise_shape(call);
}

/* backward reads only the mask */
static const tg_elementwise where_op = {
    TG_ELEMENTWISE_WITH_RULE("where", where_op, where_shape, 2 | 4, TG_OP_ALL, "mask", "a", "b")};

tg_tensor *tg_where(tg_tape *t, tg_tensor *mask, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {mask, a, b};
    const tg_op *op = is_integer(a) ? &tg_where_integers_op : &where_op.op;
    return tg_apply(t, op, inputs, 3, NULL, 0, NULL);
}
#endif

/* y = mask ? value : x, dx += dy where not mask */
static inline real masked_fill_value(real x, real mask, double value)
{
    return mask != 0 ? (real)value : x;
}

static inline real masked_fill_gradient(real mask, real dy)
{
    return mask != 0 ? 0 : dy;
}

TG_LOOP_2_WITH(double, masked_fill_value, in[0], in[1]);
TG_LOOP_2(masked_fill_gradient, in[1], dy);
TG_ELEMENTWISE_KERNELS(masked_fill_op, masked_fill_value_loop, masked_fill_gradient_loop, NULL);

#ifdef TG_ONCE
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

static const tg_elementwise masked_fill_op = {
    TG_ELEMENTWISE_WITH_RULE("masked_fill", masked_fill_op, masked_fill_shape, 1, TG_OP_ALL, "x", "mask")};

tg_tensor *tg_masked_fill(tg_tape *t, tg_tensor *x, tg_tensor *mask, double value)
{
    tg_tensor *inputs[] = {x, mask};
    const tg_op *op = is_integer(x) ? &tg_masked_fill_integers_op : &masked_fill_op.op;
    return tg_apply(t, op, inputs, 2, &value, sizeof value, NULL);
}
#endif

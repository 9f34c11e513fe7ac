/* compare: comparisons, which give masks, and selection by a mask.
 *
 * Comparisons read masks and ids as reals. If no input is a float, `real` is double, which holds every id exactly.
 * Logical ops read all inputs as masks. Follows torch.eq, ne, lt, le, gt, ge, logical_and, logical_or, logical_not and
 * where, and torch.Tensor.masked_fill.
 */
#include "ops/elementwise/elementwise_real.h"
#include "ops/elementwise/integers.h"

#ifdef TG_ONCE
static bool comparison_shape(tg_op_call *call)
{
    return tg_elementwise_output(call, TG_U8);
}
#endif

/* Defines a public function of two inputs whose y is u8, and has no gradient. The chunks of its inputs are reals, or
 * masks. */
#define COMPARISON(function, variable, text, forward_kernel, masks)                                             \
    TG_OP_OF_TWO(function, variable, forward_kernel, NULL, NULL, .op.name = text, .op.shape = comparison_shape, \
                 .op.backward_ignores_inputs = TG_OP_ALL, .op.backward_ignores_outputs = TG_OP_ALL,             \
                 .reads_masks = masks)

static inline bool eq_value(real a, real b)
{
    return a == b;
}

TG_LOOP_OF(real, uint8_t, eq_value_loop, eq_value(a[i], b[i]));
COMPARISON(tg_eq, tg_eq_op, "eq", eq_value_loop, false);

static inline bool ne_value(real a, real b)
{
    return a != b;
}

TG_LOOP_OF(real, uint8_t, ne_value_loop, ne_value(a[i], b[i]));
COMPARISON(tg_ne, tg_ne_op, "ne", ne_value_loop, false);

static inline bool lt_value(real a, real b)
{
    return a < b;
}

TG_LOOP_OF(real, uint8_t, lt_value_loop, lt_value(a[i], b[i]));
COMPARISON(tg_lt, tg_lt_op, "lt", lt_value_loop, false);

static inline bool le_value(real a, real b)
{
    return a <= b;
}

TG_LOOP_OF(real, uint8_t, le_value_loop, le_value(a[i], b[i]));
COMPARISON(tg_le, tg_le_op, "le", le_value_loop, false);

static inline bool gt_value(real a, real b)
{
    return a > b;
}

TG_LOOP_OF(real, uint8_t, gt_value_loop, gt_value(a[i], b[i]));
COMPARISON(tg_gt, tg_gt_op, "gt", gt_value_loop, false);

static inline bool ge_value(real a, real b)
{
    return a >= b;
}

TG_LOOP_OF(real, uint8_t, ge_value_loop, ge_value(a[i], b[i]));
COMPARISON(tg_ge, tg_ge_op, "ge", ge_value_loop, false);

/* ---- logical ops: chunks of masks; a NaN is not 0, so it is true ---- */

static inline uint8_t logical_and_value(uint8_t a, uint8_t b)
{
    return (a != 0) & (b != 0);
}

TG_LOOP_OF(uint8_t, uint8_t, logical_and_value_loop, logical_and_value(a[i], b[i]));
COMPARISON(tg_logical_and, tg_logical_and_op, "logical_and", logical_and_value_loop, true);

static inline uint8_t logical_or_value(uint8_t a, uint8_t b)
{
    return (a | b) != 0;
}

TG_LOOP_OF(uint8_t, uint8_t, logical_or_value_loop, logical_or_value(a[i], b[i]));
COMPARISON(tg_logical_or, tg_logical_or_op, "logical_or", logical_or_value_loop, true);

static inline uint8_t logical_not_value(uint8_t x)
{
    return x == 0;
}

TG_LOOP_OF(uint8_t, uint8_t, logical_not_value_loop, logical_not_value(a[i]));
TG_ELEMENTWISE(tg_logical_not_op, tg_elementwise_forward, tg_elementwise_backward, logical_not_value_loop, NULL, NULL,
               NULL, .op.name = "logical_not", .op.shape = comparison_shape, .op.input_names = {"x"},
               .op.backward_ignores_inputs = TG_OP_ALL, .op.backward_ignores_outputs = TG_OP_ALL, .reads_masks = true);

#ifdef TG_ONCE
tg_tensor *tg_logical_not(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &tg_logical_not_op.op, &x, 1, NULL, 0, NULL);
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

TG_LOOP(where_value_loop, where_value(a[i], b[i], c[i]));
TG_LOOP(where_gradient_a_loop, where_gradient_a(a[i], dy[i]));
TG_LOOP(where_gradient_b_loop, where_gradient_b(a[i], dy[i]));

#ifdef TG_ONCE
static bool where_shape(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_U8) && tg_elementwise_shape(call);
}
#endif

TG_ELEMENTWISE(tg_where_op, tg_elementwise_forward, tg_elementwise_backward, where_value_loop, NULL,
               where_gradient_a_loop, where_gradient_b_loop, .op.name = "where", .op.shape = where_shape,
               .op.input_names = {"mask", "a", "b"}, .op.backward_ignores_inputs = 2 | 4,
               .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_where(tg_tape *t, tg_tensor *mask, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {mask, a, b};
    const tg_op *op = is_integer(a) ? &tg_where_integers_op : &tg_where_op.op;
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

TG_LOOP(masked_fill_value_loop, masked_fill_value(a[i], b[i], p));
TG_LOOP(masked_fill_gradient_loop, masked_fill_gradient(b[i], dy[i]));

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
#endif

TG_ELEMENTWISE(tg_masked_fill_op, tg_elementwise_forward, tg_elementwise_backward, masked_fill_value_loop,
               masked_fill_gradient_loop, NULL, NULL, .op.name = "masked_fill", .op.shape = masked_fill_shape,
               .op.input_names = {"x", "mask"}, .op.backward_ignores_inputs = 1,
               .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_masked_fill(tg_tape *t, tg_tensor *x, tg_tensor *mask, double value)
{
    tg_tensor *inputs[] = {x, mask};
    const tg_op *op = is_integer(x) ? &tg_masked_fill_integers_op : &tg_masked_fill_op.op;
    const tg_numbers numbers = {.p = value};
    return tg_apply(t, op, inputs, 2, &numbers, sizeof numbers, NULL);
}
#endif

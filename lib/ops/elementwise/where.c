/* where: selection by a mask. Follows torch.where and torch.Tensor.masked_fill. */
#include "ops/elementwise/elementwise_real.h"
#include "ops/elementwise/integers.h"

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops: of a broadcast input in the shape of y (tg_op.differentiate) ---- */

static void differentiate_where(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[1] = tg_wants(call, 1) ? tg_where_true(t, call->inputs[0], dy[0]) : NULL;
    dx[2] = tg_wants(call, 2) ? tg_masked_fill(t, dy[0], call->inputs[0], 0) : NULL;
}

static void differentiate_masked_fill(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_masked_fill(t, dy[0], call->inputs[1], 0);
}

/* ---- the ops ---- */

static bool is_integer(const tg_tensor *x)
{
    return x && !x->is_freed && !tg_dtype_is_float(x->dtype);
}
#endif

/* y = mask ? a : b, da += dy where mask, db += dy elsewhere */
TG_LOOP(where_value_loop, a != 0 ? b : c);
TG_LOOP(where_gradient_a_loop, a != 0 ? dy : 0);
TG_LOOP(where_gradient_b_loop, a != 0 ? 0 : dy);

#ifdef TG_ONCE
static bool where_shape(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_U8) && tg_elementwise_shape(call);
}
#endif

TG_ELEMENTWISE(tg_where_op, tg_elementwise_levels, where_value_loop, NULL, where_gradient_a_loop, where_gradient_b_loop,
               .op.name = "where", .op.differentiate = differentiate_where, .op.shape = where_shape,
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
TG_LOOP(masked_fill_value_loop, b != 0 ? (real)p : a);
TG_LOOP(masked_fill_gradient_loop, b != 0 ? 0 : dy);

#ifdef TG_ONCE
bool tg_masked_fill_check(tg_op_call *call)
{
    tg_shape x = tg_shape_of(call->inputs[0]), mask = tg_shape_of(call->inputs[1]), joined;
    if (!tg_op_expect_dtype(call, 1, TG_U8)) {
        return false;
    }
    if (!tg_shape_broadcast(&x, &mask, &joined) || !tg_shape_equal(joined, x)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "a mask of shape %s does not broadcast to %s", tg_shape_text(mask).text,
                          tg_shape_text(x).text);
    }
    return true;
}

static bool masked_fill_shape(tg_op_call *call)
{
    return tg_masked_fill_check(call) && tg_elementwise_shape(call);
}
#endif

TG_ELEMENTWISE(tg_masked_fill_op, tg_elementwise_levels, masked_fill_value_loop, masked_fill_gradient_loop, NULL, NULL,
               .op.name = "masked_fill", .op.differentiate = differentiate_masked_fill, .op.shape = masked_fill_shape,
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

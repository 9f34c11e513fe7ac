/* arithmetic: elementwise operations of two or three inputs, with broadcasting, and clamp.
 *
 * Follows torch.add, sub, mul, div, pow, maximum, minimum, remainder and clamp, also in the special cases.
 */
#include "math/power.h"
#include "ops/elementwise/remainder.h"
#include "ops/elementwise/elementwise_real.h"

#ifdef TG_ONCE
#include "ops/differentiate.h"

/* ---- gradients in ops: of a broadcast input in the shape of y (tg_op.differentiate) ---- */

static void differentiate_add(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    (void)t;
    (void)call;
    dx[0] = dx[1] = dy[0];
}

static void differentiate_sub(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = dy[0];
    dx[1] = tg_wants(call, 1) ? tg_neg(t, dy[0]) : NULL;
}

static void differentiate_mul(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = tg_wants(call, 0) ? tg_mul(t, dy[0], call->inputs[1]) : NULL;
    dx[1] = tg_wants(call, 1) ? tg_mul(t, dy[0], call->inputs[0]) : NULL;
}

static void differentiate_div(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *b = call->inputs[1], *da = tg_div(t, dy[0], b);
    dx[0] = da;
    dx[1] = tg_wants(call, 1) ? tg_neg(t, tg_mul(t, da, call->outputs[0])) : NULL;
}

/* The exponent 0, and the base 0 where y is flat, are replaced before their powers and logarithms are infinite. */
static void differentiate_pow(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    tg_tensor *zero = tg_full(t, tg_dtype_of(a), TG_SCALAR, 0), *one = tg_full(t, tg_dtype_of(a), TG_SCALAR, 1);
    if (tg_wants(call, 0)) {
        tg_tensor *is_zero = tg_eq(t, b, zero), *power = tg_add_scalar(t, tg_where(t, is_zero, one, b), -1);
        dx[0] = tg_where(t, is_zero, zero, tg_mul(t, dy[0], tg_mul(t, b, tg_pow(t, a, power))));
    }
    if (tg_wants(call, 1)) {
        tg_tensor *is_flat = tg_logical_and(t, tg_eq(t, a, zero), tg_ge(t, b, zero));
        tg_tensor *slope = tg_mul(t, call->outputs[0], tg_log(t, tg_where(t, is_flat, one, a)));
        dx[1] = tg_where(t, is_flat, zero, tg_mul(t, dy[0], slope));
    }
}

static void differentiate_pow_scalar(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    const double b = ((const tg_numbers *)call->attributes)->p;
    if (b != 0) {
        dx[0] = tg_mul(t, dy[0], tg_mul_scalar(t, tg_pow_scalar(t, call->inputs[0], b - 1), b));
    }
}

/* Returns the part of dy that `value` gets in a maximum with `other` (share, below). */
static tg_tensor *share_in_ops(tg_tape *t, tg_tensor *dy, tg_tensor *value, tg_tensor *other)
{
    tg_tensor *half = tg_where(t, tg_eq(t, value, other), tg_mul_scalar(t, dy, 0.5), dy);
    return tg_where_true(t, tg_logical_not(t, tg_lt(t, value, other)), half);
}

static void differentiate_maximum(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    dx[0] = tg_wants(call, 0) ? share_in_ops(t, dy[0], a, b) : NULL;
    dx[1] = tg_wants(call, 1) ? share_in_ops(t, dy[0], b, a) : NULL;
}

static void differentiate_minimum(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    dx[0] = tg_wants(call, 0) ? share_in_ops(t, dy[0], b, a) : NULL;
    dx[1] = tg_wants(call, 1) ? share_in_ops(t, dy[0], a, b) : NULL;
}

static void differentiate_remainder(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    dx[0] = dy[0];
    if (tg_wants(call, 1)) {
        dx[1] = tg_neg(t, tg_mul(t, dy[0], tg_floor(t, tg_div(t, call->inputs[0], call->inputs[1]))));
    }
}

static void differentiate_clamp_tensor(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    tg_tensor *x = call->inputs[0], *low = call->inputs[1], *high = call->inputs[2];
    const bool has_high = ((const tg_numbers *)call->attributes)->p != 0;
    dx[0] = tg_where_true(t, tg_logical_and(t, tg_ge(t, x, low), tg_le(t, x, high)), dy[0]);
    if (tg_wants(call, 1)) {
        tg_tensor *below = tg_lt(t, x, low);
        dx[1] = tg_where_true(t, has_high ? tg_logical_and(t, below, tg_lt(t, low, high)) : below, dy[0]);
    }
    if (tg_wants(call, 2)) {
        dx[2] = tg_where_true(t, tg_logical_or(t, tg_gt(t, x, high), tg_lt(t, high, low)), dy[0]);
    }
}
#endif

/* The gradient kernel of an input that is added to others. */
static void pass_gradient(const tg_chunk *k)
{
    memcpy(k->out, k->dy, (size_t)k->n * sizeof(real));
}

/* y = a + b, da += dy, db += dy */
TG_LOOP(add_value_loop, a + b);
TG_FUNCTION_OF_TWO(tg_add, tg_add_op, add_value_loop, pass_gradient, pass_gradient, .op.name = "add",
                   .op.differentiate = differentiate_add, .op.shape = tg_elementwise_shape,
                   .op.backward_ignores_inputs = TG_OP_ALL, .op.backward_ignores_outputs = TG_OP_ALL);

/* y = a - b, da += dy, db += -dy */
TG_LOOP(sub_value_loop, a - b);
TG_LOOP(sub_gradient_b_loop, -dy);
TG_FUNCTION_OF_TWO(tg_sub, tg_sub_op, sub_value_loop, pass_gradient, sub_gradient_b_loop, .op.name = "sub",
                   .op.differentiate = differentiate_sub, .op.shape = tg_elementwise_shape,
                   .op.backward_ignores_inputs = TG_OP_ALL, .op.backward_ignores_outputs = TG_OP_ALL);

/* y = a b, da += dy b, db += dy a */
TG_LOOP(mul_value_loop, a * b);
TG_LOOP(mul_gradient_a_loop, dy * b);
TG_LOOP(mul_gradient_b_loop, dy * a);
TG_FUNCTION_OF_TWO(tg_mul, tg_mul_op, mul_value_loop, mul_gradient_a_loop, mul_gradient_b_loop, .op.name = "mul",
                   .op.differentiate = differentiate_mul, .op.shape = tg_elementwise_shape,
                   .op.backward_ignores_outputs = TG_OP_ALL);

/* y = a / b, da += dy / b, db += -dy y / b */
TG_LOOP(div_value_loop, a / b);
TG_LOOP(div_gradient_a_loop, dy / b);
TG_LOOP(div_gradient_b_loop, -dy * y / b);
TG_FUNCTION_OF_TWO(tg_div, tg_div_op, div_value_loop, div_gradient_a_loop, div_gradient_b_loop, .op.name = "div",
                   .op.differentiate = differentiate_div, .op.shape = tg_elementwise_shape,
                   .op.backward_ignores_inputs = 1);

/* y = a^b, da += dy (b a^(b-1)), db += dy (y log a). As in torch, da is 0 where b = 0, and db where a = 0 and
 * b >= 0. */
TG_LOOP(pow_value_loop, TYPED(tg_pow)(a, b));
TG_LOOP(pow_gradient_a_loop, b == 0 ? 0 : dy * (b * TYPED(tg_pow)(a, b - 1)));
TG_LOOP(pow_gradient_b_loop, a == 0 && b >= 0 ? 0 : dy * (y * real_log(a)));
TG_FUNCTION_OF_TWO(tg_pow, tg_pow_op, pow_value_loop, pow_gradient_a_loop, pow_gradient_b_loop, .op.name = "pow",
                   .op.differentiate = differentiate_pow, .op.shape = tg_elementwise_shape);

/* The same if b is a number: the powers that torch computes by multiplication or a square root, which differs from pow
 * for -inf and -0. */
static void powers(const real *x, int64_t n, real b, real *out)
{
    const real size = real_fabs(b);
    if (b == 0 || size == 1 || size == 2 || b == 3) {
        for (int64_t i = 0; i < n; i++) { /* a product with 1 changes nothing */
            real power = (size >= 1 ? x[i] : 1) * (size >= 2 ? x[i] : 1) * (size >= 3 ? x[i] : 1);
            out[i] = b < 0 ? 1 / power : power;
        }
    } else if (size == (real)0.5) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = b < 0 ? 1 / real_sqrt(x[i]) : real_sqrt(x[i]);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            out[i] = TYPED(tg_pow)(x[i], b);
        }
    }
}

static void pow_scalar_value_loop(const tg_chunk *k)
{
    powers(k->in[0], k->n, (real)k->numbers.p, k->out);
}

static void pow_scalar_gradient_loop(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy, b = (real)k->numbers.p;
    real *out = k->out, part[TG_ELEMENTWISE_CHUNK];
    for (int64_t i = 0, n; i < k->n; i += n) {
        n = k->n - i < TG_ELEMENTWISE_CHUNK ? k->n - i : TG_ELEMENTWISE_CHUNK;
        powers(x + i, n, b - 1, part);
        for (int64_t j = 0; j < n; j++) {
            out[i + j] = b == 0 ? 0 : dy[i + j] * (b * part[j]);
        }
    }
}

TG_ELEMENTWISE(tg_pow_scalar_op, tg_elementwise_levels, pow_scalar_value_loop, pow_scalar_gradient_loop, NULL, NULL,
               .op.name = "pow_scalar", .op.differentiate = differentiate_pow_scalar, .op.shape = tg_elementwise_shape,
               .op.input_names = {"x"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_pow_scalar(tg_tape *t, tg_tensor *x, double value)
{
    const tg_numbers numbers = {.p = value};
    return tg_apply(t, &tg_pow_scalar_op.op, &x, 1, &numbers, sizeof numbers, NULL);
}
#endif

/* ---- maximum and minimum: NaN where an input is NaN ---- */

/* Returns the part of dy that `value` gets in a maximum with `other`: dy if it is larger, half on a tie, 0 if it is
 * smaller. If one of them is NaN, neither is smaller, and both get dy, as in torch. */
static inline real share(real dy, real value, real other)
{
    return value == other ? dy / 2 : value < other ? 0 : dy;
}

TG_LOOP(maximum_gradient_a_loop, share(dy, a, b));
TG_LOOP(maximum_gradient_b_loop, share(dy, b, a));

/* y = max(a, b) */
TG_LOOP(maximum_value_loop, a != a || a > b ? a : b);
TG_FUNCTION_OF_TWO(tg_maximum, tg_maximum_op, maximum_value_loop, maximum_gradient_a_loop, maximum_gradient_b_loop,
                   .op.name = "maximum", .op.differentiate = differentiate_maximum, .op.shape = tg_elementwise_shape,
                   .op.backward_ignores_outputs = TG_OP_ALL);

/* y = min(a, b). dy goes to the smaller input: the gradients of maximum, exchanged. */
TG_LOOP(minimum_value_loop, a != a || a < b ? a : b);
TG_FUNCTION_OF_TWO(tg_minimum, tg_minimum_op, minimum_value_loop, maximum_gradient_b_loop, maximum_gradient_a_loop,
                   .op.name = "minimum", .op.differentiate = differentiate_minimum, .op.shape = tg_elementwise_shape,
                   .op.backward_ignores_outputs = TG_OP_ALL);

/* y = a - b floor(a/b), da += dy, db += -dy floor(a/b). The sign is that of b, as in Python. */
static void remainder_value_loop(const tg_chunk *k)
{
    remainders(k->in[0], k->in[1], k->n, k->out);
}

/* (a - y) / b is floor(a/b), except for its rounding. An infinite b is the remainder of an a of the other sign, and
 * floor(a/b) is -1; for b = 0 torch takes a/b. */
static inline real remainder_gradient_b(real a, real b, real y, real dy)
{
    real quotient = b == 0 ? a / b : real_nearbyint((a - y) / b);
    return -dy * (y == b && b - b != 0 ? -1 : quotient);
}

TG_LOOP(remainder_gradient_b_loop, remainder_gradient_b(a, b, y, dy));
TG_FUNCTION_OF_TWO(tg_remainder, tg_remainder_op, remainder_value_loop, pass_gradient, remainder_gradient_b_loop,
                   .op.name = "remainder", .op.differentiate = differentiate_remainder,
                   .op.shape = tg_elementwise_shape);

/* ---- clamp ---- */

/* y = min(max(x, low), high), dx += dy where low <= x <= high */
static inline real clamp_value(real x, double lowest, double highest)
{
    const real low = (real)lowest, high = (real)highest;
    const real raised = x < low ? low : x; /* one instruction: a maximum that keeps a NaN of x */
    return raised > high ? high : raised;
}

#ifdef TG_ONCE
static bool clamp_shape(tg_op_call *call)
{
    const tg_numbers *options = call->attributes;
    const double low = options->p, high = options->q;
    return (low <= high ||
            tg_op_fail(call, TG_ERROR_VALUE, "low %g and high %g; low must be at most high", low, high)) &&
           tg_elementwise_shape(call);
}
#endif

TG_LOOP(clamp_value_loop, clamp_value(a, p, q));
TG_LOOP(clamp_gradient_loop, a >= (real)p && a <= (real)q ? dy : 0);
TG_ELEMENTWISE(tg_clamp_op, tg_elementwise_levels, clamp_value_loop, clamp_gradient_loop, NULL, NULL,
               .op.name = "clamp", .op.differentiate = tg_differentiate_linear, .op.shape = clamp_shape,
               .op.input_names = {"x"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_clamp(tg_tape *t, tg_tensor *x, double low, double high)
{
    const tg_numbers bounds = {low, high};
    return tg_apply(t, &tg_clamp_op.op, &x, 1, &bounds, sizeof bounds, NULL);
}
#endif

/* The same with tensors as bounds: dx += dy where low <= x <= high, dlow += dy where x < low < high, and dhigh += dy
 * where x > high or low > high; without a high bound, dlow += dy where x < low. A NaN of any input stays. */
static inline real clamp_tensor_value(real x, real low, real high)
{
    const real raised = x < low ? low : x, above = low != low ? low : raised;
    const real lowered = above > high ? high : above;
    return high != high ? high : lowered;
}

TG_LOOP(clamp_tensor_value_loop, clamp_tensor_value(a, b, c));
TG_LOOP(clamp_tensor_gradient_x_loop, a >= b && a <= c ? dy : 0);
TG_LOOP(clamp_tensor_gradient_low_loop, a < b && (b < c || p == 0) ? dy : 0);
TG_LOOP(clamp_tensor_gradient_high_loop, a > c || c < b ? dy : 0);
TG_ELEMENTWISE(tg_clamp_tensor_op, tg_elementwise_levels, clamp_tensor_value_loop, clamp_tensor_gradient_x_loop,
               clamp_tensor_gradient_low_loop, clamp_tensor_gradient_high_loop, .op.name = "clamp_tensor",
               .op.differentiate = differentiate_clamp_tensor, .op.shape = tg_elementwise_shape,
               .op.input_names = {"x", "low", "high"}, .op.backward_ignores_outputs = TG_OP_ALL);

#ifdef TG_ONCE
tg_tensor *tg_clamp_tensor(tg_tape *t, tg_tensor *x, tg_tensor *low, tg_tensor *high)
{
    const char *name = tg_clamp_tensor_op.op.name;
    if (!tg_tape_expect_input(t, name, "x", x)) {
        return NULL;
    }
    if (!low && !high) {
        tg_tape_fail(t, TG_ERROR_STATE, name, "arguments 'low' and 'high' are NULL; one of them is needed");
        return NULL;
    }
    tg_dtype dtype = tg_dtype_of(x);
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *inputs[] = {x, low ? low : tg_full(t, dtype, TG_SCALAR, -(double)INFINITY),
                           high ? high : tg_full(t, dtype, TG_SCALAR, (double)INFINITY)};
    const tg_numbers has_high = {.p = high != NULL};
    return tg_tape_end(t, &point, tg_apply(t, &tg_clamp_tensor_op.op, inputs, 3, &has_high, sizeof has_high, NULL));
}
#endif

/* arithmetic: elementwise operations of two or three inputs, with broadcasting, and clamp.
 *
 * Follows torch.add, sub, mul, div, pow, maximum, minimum, remainder and clamp, also in the special cases.
 */
#include "math/power.h"
#include "math/remainder.h"
#include "ops/elementwise/elementwise.h"

#ifdef TG_ONCE
static tg_tensor *apply_to_two(tg_tape *t, const tg_elementwise *op, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {a, b};
    return tg_apply(t, &op->op, inputs, 2, NULL, 0, NULL);
}
#endif

/* The gradient kernel of an input that is added to others. */
static void pass_gradient(const tg_chunk *k)
{
    memcpy(k->out, k->dy, (size_t)k->n * sizeof(real));
}

/* y = a + b, da += dy, db += dy */
static inline real add_value(real a, real b)
{
    return a + b;
}

TG_LOOP_PAIR(add_value);
TG_PAIR_KERNELS(add_op, add_value_loop, pass_gradient, pass_gradient);

#ifdef TG_ONCE
static const tg_elementwise add_op = {TG_ELEMENTWISE("add", add_op, TG_OP_ALL, TG_OP_ALL, "a", "b"),
                                      .op.passes_gradient = 3};

tg_tensor *tg_add(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply_to_two(t, &add_op, a, b);
}
#endif

/* y = a - b, da += dy, db += -dy */
static inline real sub_value(real a, real b)
{
    return a - b;
}

static inline real sub_gradient_b(real dy)
{
    return -dy;
}

TG_LOOP_PAIR(sub_value);
TG_LOOP_1(sub_gradient_b, dy);
TG_PAIR_KERNELS(sub_op, sub_value_loop, pass_gradient, sub_gradient_b_loop);

#ifdef TG_ONCE
static const tg_elementwise sub_op = {TG_ELEMENTWISE("sub", sub_op, TG_OP_ALL, TG_OP_ALL, "a", "b"),
                                      .op.passes_gradient = 1};

tg_tensor *tg_sub(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply_to_two(t, &sub_op, a, b);
}
#endif

/* y = a b, da += dy b, db += dy a */
static inline real mul_value(real a, real b)
{
    return a * b;
}

static inline real mul_gradient_a(real b, real dy)
{
    return dy * b;
}

static inline real mul_gradient_b(real a, real dy)
{
    return dy * a;
}

TG_LOOP_PAIR(mul_value);
TG_LOOP_2(mul_gradient_a, in[1], dy);
TG_LOOP_2(mul_gradient_b, in[0], dy);
TG_LINEAR_KERNELS(mul_op, mul_value_loop, mul_gradient_a_loop, mul_gradient_b_loop);

#ifdef TG_ONCE
static const tg_elementwise mul_op = {TG_ELEMENTWISE("mul", mul_op, 0, TG_OP_ALL, "a", "b")};

tg_tensor *tg_mul(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply_to_two(t, &mul_op, a, b);
}
#endif

/* y = a / b, da += dy / b, db += -dy y / b */
static inline real div_value(real a, real b)
{
    return a / b;
}

static inline real div_gradient_a(real b, real dy)
{
    return dy / b;
}

static inline real div_gradient_b(real b, real y, real dy)
{
    return -dy * y / b;
}

TG_LOOP_PAIR(div_value);
TG_LOOP_2(div_gradient_a, in[1], dy);
TG_LOOP_3(div_gradient_b, in[1], y, dy);
TG_PAIR_KERNELS(div_op, div_value_loop, div_gradient_a_loop, div_gradient_b_loop);

#ifdef TG_ONCE
static const tg_elementwise div_op = {TG_ELEMENTWISE("div", div_op, 1, 0, "a", "b")};

tg_tensor *tg_div(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply_to_two(t, &div_op, a, b);
}
#endif

/* y = a^b, da += dy (b a^(b-1)), db += dy (y log a). As in torch, da is 0 where b = 0, and db where a = 0 and
 * b >= 0. */
static inline real pow_value(real a, real b)
{
    return TYPED(tg_pow)(a, b);
}

static inline real pow_gradient_a(real a, real b, real dy)
{
    return b == 0 ? 0 : dy * (b * TYPED(tg_pow)(a, b - 1));
}

static inline real pow_gradient_b(real a, real b, real y, real dy)
{
    return a == 0 && b >= 0 ? 0 : dy * (y * LOG(a));
}

TG_LOOP_2(pow_value, in[0], in[1]);
TG_LOOP_3(pow_gradient_a, in[0], in[1], dy);
TG_LOOP_4(pow_gradient_b, in[0], in[1], y, dy);
TG_ELEMENTWISE_KERNELS(pow_op, pow_value_loop, pow_gradient_a_loop, pow_gradient_b_loop);

#ifdef TG_ONCE
static const tg_elementwise pow_op = {TG_ELEMENTWISE("pow", pow_op, 0, 0, "a", "b")};

tg_tensor *tg_pow(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply_to_two(t, &pow_op, a, b);
}
#endif

/* The same if b is a number: the powers that torch computes by multiplication or a square root, which differs from pow
 * for -inf and -0. */
static void powers(const real *x, int64_t n, real b, real *out)
{
    const real size = REAL(fabs)(b);
    if (b == 0 || size == 1 || size == 2 || b == 3) {
        for (int64_t i = 0; i < n; i++) { /* a product with 1 changes nothing */
            real power = (size >= 1 ? x[i] : 1) * (size >= 2 ? x[i] : 1) * (size >= 3 ? x[i] : 1);
            out[i] = b < 0 ? 1 / power : power;
        }
    } else if (size == (real)0.5) {
        for (int64_t i = 0; i < n; i++) {
            out[i] = b < 0 ? 1 / REAL(sqrt)(x[i]) : REAL(sqrt)(x[i]);
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            out[i] = TYPED(tg_pow)(x[i], b);
        }
    }
}

static void pow_scalar_value_loop(const tg_chunk *k)
{
    powers(k->in[0], k->n, (real)(*(const double *)k->attributes), k->out);
}

static void pow_scalar_gradient_loop(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy, b = (real)(*(const double *)k->attributes);
    real *out = k->out, part[TG_ELEMENTWISE_CHUNK];
    for (int64_t i = 0, n; i < k->n; i += n) {
        n = k->n - i < TG_ELEMENTWISE_CHUNK ? k->n - i : TG_ELEMENTWISE_CHUNK;
        powers(x + i, n, b - 1, part);
        for (int64_t j = 0; j < n; j++) {
            out[i + j] = b == 0 ? 0 : dy[i + j] * (b * part[j]);
        }
    }
}

TG_ELEMENTWISE_KERNELS(pow_scalar_op, pow_scalar_value_loop, pow_scalar_gradient_loop);

#ifdef TG_ONCE
static const tg_elementwise pow_scalar_op = {TG_ELEMENTWISE("pow_scalar", pow_scalar_op, 0, TG_OP_ALL, "x")};

tg_tensor *tg_pow_scalar(tg_tape *t, tg_tensor *x, double value)
{
    return tg_apply(t, &pow_scalar_op.op, &x, 1, &value, sizeof value, NULL);
}
#endif

/* ---- maximum and minimum: NaN where an input is NaN ---- */

/* Returns the part of dy that `value` gets in a maximum with `other`: dy if it is larger, half on a tie, 0 if it is
 * smaller. If one of them is NaN, neither is smaller, and both get dy, as in torch. */
static inline real share(real dy, real value, real other)
{
    return value == other ? dy / 2 : value < other ? 0 : dy;
}

static inline real maximum_gradient_a(real a, real b, real dy)
{
    return share(dy, a, b);
}

static inline real maximum_gradient_b(real a, real b, real dy)
{
    return share(dy, b, a);
}

TG_LOOP_3(maximum_gradient_a, in[0], in[1], dy);
TG_LOOP_3(maximum_gradient_b, in[0], in[1], dy);

/* y = max(a, b) */
static inline real maximum_value(real a, real b)
{
    return a != a || a > b ? a : b;
}

TG_LOOP_PAIR(maximum_value);
TG_PAIR_KERNELS(maximum_op, maximum_value_loop, maximum_gradient_a_loop, maximum_gradient_b_loop);

#ifdef TG_ONCE
static const tg_elementwise maximum_op = {TG_ELEMENTWISE("maximum", maximum_op, 0, TG_OP_ALL, "a", "b")};

tg_tensor *tg_maximum(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply_to_two(t, &maximum_op, a, b);
}
#endif

/* y = min(a, b). dy goes to the smaller input: the gradients of maximum, exchanged. */
static inline real minimum_value(real a, real b)
{
    return a != a || a < b ? a : b;
}

TG_LOOP_PAIR(minimum_value);
TG_PAIR_KERNELS(minimum_op, minimum_value_loop, maximum_gradient_b_loop, maximum_gradient_a_loop);

#ifdef TG_ONCE
static const tg_elementwise minimum_op = {TG_ELEMENTWISE("minimum", minimum_op, 0, TG_OP_ALL, "a", "b")};

tg_tensor *tg_minimum(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply_to_two(t, &minimum_op, a, b);
}
#endif

/* y = a - b floor(a/b), da += dy, db += -dy floor(a/b). The sign is that of b, as in Python. */
static void remainder_value_loop(const tg_chunk *k)
{
    TYPED(tg_remainders)(k->in[0], k->in[1], k->n, k->out);
}

/* (a - y) / b is floor(a/b), except for its rounding. An infinite b is the remainder of an a of the other sign, and
 * floor(a/b) is -1; for b = 0 torch takes a/b. */
static inline real remainder_gradient_b(real a, real b, real y, real dy)
{
    real quotient = b == 0 ? a / b : REAL(nearbyint)((a - y) / b);
    return -dy * (y == b && b - b != 0 ? -1 : quotient);
}

TG_LOOP_4(remainder_gradient_b, in[0], in[1], y, dy);
TG_ELEMENTWISE_KERNELS(remainder_op, remainder_value_loop, pass_gradient, remainder_gradient_b_loop);

#ifdef TG_ONCE
static const tg_elementwise remainder_op = {TG_ELEMENTWISE("remainder", remainder_op, 0, 0, "a", "b"),
                                            .op.passes_gradient = 1};

tg_tensor *tg_remainder(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply_to_two(t, &remainder_op, a, b);
}
#endif

/* ---- clamp ---- */

typedef struct clamp_bounds {
    double low, high;
} clamp_bounds;

/* y = min(max(x, low), high), dx += dy where low <= x <= high */
static inline real clamp_value(real x, clamp_bounds bounds)
{
    const real low = (real)bounds.low, high = (real)bounds.high;
    const real raised = x < low ? low : x; /* one instruction: a maximum that keeps a NaN of x */
    return raised > high ? high : raised;
}

static inline real clamp_gradient(real x, real dy, clamp_bounds bounds)
{
    return x >= (real)bounds.low && x <= (real)bounds.high ? dy : 0;
}

TG_LOOP_1_WITH(clamp_bounds, clamp_value, in[0]);
TG_LOOP_2_WITH(clamp_bounds, clamp_gradient, in[0], dy);
TG_ELEMENTWISE_KERNELS(clamp_op, clamp_value_loop, clamp_gradient_loop);

#ifdef TG_ONCE
static bool clamp_shape(tg_op_call *call)
{
    const clamp_bounds *b = call->attributes;
    return (b->low <= b->high ||
            tg_op_fail(call, TG_ERROR_VALUE, "low %g and high %g; low must be at most high", b->low, b->high)) &&
           tg_elementwise_shape(call);
}

static const tg_elementwise clamp_op = {TG_ELEMENTWISE_WITH_RULE("clamp", clamp_op, clamp_shape, 0, TG_OP_ALL, "x")};

tg_tensor *tg_clamp(tg_tape *t, tg_tensor *x, double low, double high)
{
    clamp_bounds bounds = {low, high};
    return tg_apply(t, &clamp_op.op, &x, 1, &bounds, sizeof bounds, NULL);
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

static inline real clamp_tensor_gradient_x(real x, real low, real high, real dy)
{
    return x >= low && x <= high ? dy : 0;
}

static inline real clamp_tensor_gradient_low(real x, real low, real high, real dy, bool has_high)
{
    return x < low && (low < high || !has_high) ? dy : 0;
}

static inline real clamp_tensor_gradient_high(real x, real low, real high, real dy)
{
    return x > high || high < low ? dy : 0;
}

TG_LOOP_3(clamp_tensor_value, in[0], in[1], in[2]);
TG_LOOP_4(clamp_tensor_gradient_x, in[0], in[1], in[2], dy);
TG_LOOP_4_WITH(bool, clamp_tensor_gradient_low, in[0], in[1], in[2], dy);
TG_LOOP_4(clamp_tensor_gradient_high, in[0], in[1], in[2], dy);
TG_ELEMENTWISE_KERNELS(clamp_tensor_op, clamp_tensor_value_loop, clamp_tensor_gradient_x_loop,
                       clamp_tensor_gradient_low_loop, clamp_tensor_gradient_high_loop);

#ifdef TG_ONCE
static const tg_elementwise clamp_tensor_op = {
    TG_ELEMENTWISE("clamp_tensor", clamp_tensor_op, 0, TG_OP_ALL, "x", "low", "high")};

tg_tensor *tg_clamp_tensor(tg_tape *t, tg_tensor *x, tg_tensor *low, tg_tensor *high)
{
    const char *name = clamp_tensor_op.op.name;
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
    const bool has_high = high;
    return tg_tape_end(t, &point, tg_apply(t, &clamp_tensor_op.op, inputs, 3, &has_high, sizeof has_high, NULL));
}
#endif

/* arithmetic: elementwise operations of two or three inputs, with broadcasting.
 *
 *   add       y = a + b             da += dy               db += dy
 *   sub       y = a - b             da += dy               db -= dy
 *   mul       y = a b               da += dy b             db += dy a
 *   div       y = a / b             da += dy / b           db -= dy y / b
 *   pow       y = a^b               da += dy b a^(b-1)     db += dy y log a
 *   maximum   y = max(a, b)         the larger input gets dy; on a tie each gets half
 *   minimum   y = min(a, b)         the smaller input gets dy; on a tie each gets half
 *   remainder y = a - b floor(a/b)  da += dy               db -= dy floor(a/b)
 *   clamp     y = min(max(x, l), h) dx += dy where l <= x <= h, dl += dy where x < l < h, dh += dy where x > h or l > h
 *             y = max(x, l)         dl += dy where x < l
 *
 * Follows torch.add, sub, mul, div, pow, maximum, minimum, remainder and clamp, also in the special cases. The gradient
 * da of pow is 0 where b = 0; db is 0 where a = 0 and b >= 0. If b is a number, as in torch's x ** 0.5, the powers 0.5
 * and -0.5 are computed with a square root, which differs from pow for -inf and -0. maximum and minimum are NaN where
 * an input is NaN.
 */
#include "ops/elementwise/elementwise.h"

enum { ADD, SUB, MUL, DIV, POW, POW_NUMBER, MAXIMUM, MINIMUM, REMAINDER, CLAMP };

static void add(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] + b[i];
    }
}

static void pass_gradient(const tg_chunk *k)
{
    memcpy(k->out, k->dy, (size_t)k->n * sizeof(real));
}

static void sub(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] - b[i];
    }
}

static void negative_gradient(const tg_chunk *k)
{
    const real *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = -dy[i];
    }
}

static void mul(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] * b[i];
    }
}

static void mul_gradient_a(const tg_chunk *k)
{
    const real *b = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = dy[i] * b[i];
    }
}

static void mul_gradient_b(const tg_chunk *k)
{
    const real *a = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = dy[i] * a[i];
    }
}

static void divide(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] / b[i];
    }
}

static void divide_gradient_a(const tg_chunk *k)
{
    const real *b = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = dy[i] / b[i];
    }
}

static void divide_gradient_b(const tg_chunk *k)
{
    const real *b = k->in[1], *y = k->y, *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = -dy[i] * y[i] / b[i];
    }
}

static void power(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = REAL(pow)(a[i], b[i]);
    }
}

static void power_gradient_a(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = b[i] == 0 ? 0 : dy[i] * b[i] * REAL(pow)(a[i], b[i] - 1);
    }
}

static void power_gradient_b(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *y = k->y, *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] == 0 && b[i] >= 0 ? 0 : dy[i] * y[i] * LOG(a[i]);
    }
}

static real power_of_number(real x, real exponent)
{
    return exponent == (real)0.5 ? REAL(sqrt)(x) : exponent == (real)-0.5 ? 1 / REAL(sqrt)(x) : REAL(pow)(x, exponent);
}

static void number_power(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = power_of_number(a[i], b[i]);
    }
}

static void number_power_gradient(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = b[i] == 0 ? 0 : dy[i] * b[i] * power_of_number(a[i], b[i] - 1);
    }
}

static void maximum(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] != a[i] || a[i] > b[i] ? a[i] : b[i];
    }
}

static void minimum(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = a[i] != a[i] || a[i] < b[i] ? a[i] : b[i];
    }
}

/* Returns the part of dy that `value` gets in a maximum with `other`: dy if it is larger, half on a tie, 0 if it is
 * smaller. If one of them is NaN, neither is smaller, and both get dy, as in torch. */
static real share(real dy, real value, real other)
{
    return value == other ? dy / 2 : value < other ? 0 : dy;
}

static void maximum_gradient_a(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = share(dy[i], a[i], b[i]);
    }
}

static void maximum_gradient_b(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = share(dy[i], b[i], a[i]);
    }
}

/* The sign is that of b, as in Python. */
static void remainder_of(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real rest = REAL(fmod)(a[i], b[i]);
        out[i] = rest != 0 && (rest < 0) != (b[i] < 0) ? rest + b[i] : rest;
    }
}

/* (a - y) / b is floor(a/b), except for its rounding. An infinite b is the remainder of an a of the other sign, and
 * floor(a/b) is -1; for b = 0 torch takes a/b. */
static void remainder_gradient_b(const tg_chunk *k)
{
    const real *a = k->in[0], *b = k->in[1], *y = k->y, *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real quotient = b[i] == 0 ? a[i] / b[i] : REAL(nearbyint)((a[i] - y[i]) / b[i]);
        out[i] = -dy[i] * (y[i] == b[i] && b[i] - b[i] != 0 ? -1 : quotient);
    }
}

/* A NaN of any input stays. */
static void clamp(const tg_chunk *k)
{
    const real *x = k->in[0], *low = k->in[1], *high = k->in[2];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        real raised = x[i] < low[i] || low[i] != low[i] ? low[i] : x[i];
        out[i] = raised > high[i] || high[i] != high[i] ? high[i] : raised;
    }
}

static void clamp_gradient_x(const tg_chunk *k)
{
    const real *x = k->in[0], *low = k->in[1], *high = k->in[2], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] >= low[i] && x[i] <= high[i] ? dy[i] : 0;
    }
}

static void clamp_gradient_low(const tg_chunk *k)
{
    const real *x = k->in[0], *low = k->in[1], *high = k->in[2], *dy = k->dy;
    real *out = k->out;
    const bool has_high = *(const bool *)k->attributes;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] < low[i] && (low[i] < high[i] || !has_high) ? dy[i] : 0;
    }
}

static void clamp_gradient_high(const tg_chunk *k)
{
    const real *x = k->in[0], *low = k->in[1], *high = k->in[2], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] > high[i] || high[i] < low[i] ? dy[i] : 0;
    }
}

TG_DECLARE_ELEMENTWISE(tg_arithmetic);

const tg_elementwise_kernels KERNEL(tg_arithmetic)[] = {
    [ADD] = {add, {pass_gradient, pass_gradient}},
    [SUB] = {sub, {pass_gradient, negative_gradient}},
    [MUL] = {mul, {mul_gradient_a, mul_gradient_b}},
    [DIV] = {divide, {divide_gradient_a, divide_gradient_b}},
    [POW] = {power, {power_gradient_a, power_gradient_b}},
    [POW_NUMBER] = {number_power, {number_power_gradient, NULL}},
    [MAXIMUM] = {maximum, {maximum_gradient_a, maximum_gradient_b}},
    /* dy goes to the smaller input: the gradients of maximum, exchanged */
    [MINIMUM] = {minimum, {maximum_gradient_b, maximum_gradient_a}},
    [REMAINDER] = {remainder_of, {pass_gradient, remainder_gradient_b}},
    [CLAMP] = {clamp, {clamp_gradient_x, clamp_gradient_low, clamp_gradient_high}},
};

#ifdef TG_ONCE

static const tg_elementwise ops[] = {
    [ADD] = TG_ELEMENTWISE("add", tg_arithmetic, ADD, TG_OP_ALL, TG_OP_ALL),
    [ADD].op.passes_gradient = 3,
    [SUB] = TG_ELEMENTWISE("sub", tg_arithmetic, SUB, TG_OP_ALL, TG_OP_ALL),
    [SUB].op.passes_gradient = 1,
    [MUL] = TG_ELEMENTWISE("mul", tg_arithmetic, MUL, 0, TG_OP_ALL),
    [DIV] = TG_ELEMENTWISE("div", tg_arithmetic, DIV, 1, 0), /* reads b and y */
    [POW] = TG_ELEMENTWISE("pow", tg_arithmetic, POW, 0, 0),
    [POW_NUMBER] = TG_ELEMENTWISE("pow", tg_arithmetic, POW_NUMBER, 0, TG_OP_ALL),
    [MAXIMUM] = TG_ELEMENTWISE("maximum", tg_arithmetic, MAXIMUM, 0, TG_OP_ALL),
    [MINIMUM] = TG_ELEMENTWISE("minimum", tg_arithmetic, MINIMUM, 0, TG_OP_ALL),
    [REMAINDER] = TG_ELEMENTWISE("remainder", tg_arithmetic, REMAINDER, 0, 0),
    [REMAINDER].op.passes_gradient = 1,
    [CLAMP] = TG_ELEMENTWISE("clamp_tensor", tg_arithmetic, CLAMP, 0, TG_OP_ALL),
};

static tg_tensor *apply(tg_tape *t, const tg_elementwise *op, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {a, b};
    return tg_apply(t, &op->op, inputs, 2, NULL, 0, NULL);
}

tg_tensor *tg_add(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply(t, &ops[ADD], a, b);
}

tg_tensor *tg_sub(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply(t, &ops[SUB], a, b);
}

tg_tensor *tg_mul(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply(t, &ops[MUL], a, b);
}

tg_tensor *tg_div(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply(t, &ops[DIV], a, b);
}

tg_tensor *tg_pow(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply(t, &ops[POW], a, b);
}

tg_tensor *tg_pow_number(tg_tape *t, tg_tensor *x, tg_tensor *number)
{
    return apply(t, &ops[POW_NUMBER], x, number);
}

tg_tensor *tg_maximum(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply(t, &ops[MAXIMUM], a, b);
}

tg_tensor *tg_minimum(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply(t, &ops[MINIMUM], a, b);
}

tg_tensor *tg_remainder(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return apply(t, &ops[REMAINDER], a, b);
}

tg_tensor *tg_clamp_tensor(tg_tape *t, tg_tensor *x, tg_tensor *low, tg_tensor *high)
{
    const char *name = ops[CLAMP].op.name;
    if (!tg_tape_expect_tensor(t, name, "input", x)) {
        return NULL;
    }
    if (!low && !high) {
        tg_tape_fail(t, TG_ERROR_STATE, name, "both bounds are NULL; one of them is needed");
        return NULL;
    }
    tg_dtype dtype = tg_dtype_of(x);
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *inputs[] = {x, low ? low : tg_full(t, dtype, TG_SCALAR, -(double)INFINITY),
                           high ? high : tg_full(t, dtype, TG_SCALAR, (double)INFINITY)};
    const bool has_high = high;
    return tg_tape_end(t, &point, tg_apply(t, &ops[CLAMP].op, inputs, 3, &has_high, sizeof has_high, NULL));
}

#endif

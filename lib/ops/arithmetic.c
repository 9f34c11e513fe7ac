/* arithmetic: + - * / and their friends, value by value with broadcasting.
 *
 *   add       y = a + b             da += dy               db += dy
 *   sub       y = a - b             da += dy               db -= dy
 *   mul       y = a b               da += dy b             db += dy a
 *   div       y = a / b             da += dy / b           db -= dy y / b
 *   pow       y = a^b               da += dy b a^(b-1)     db += dy y log a
 *   maximum   y = max(a, b)         the larger one gets dy; on a tie half each
 *   minimum   y = min(a, b)         the smaller one gets dy; on a tie half each
 *
 * Follows torch.add, sub, mul, div, pow, maximum, minimum, ties and zeros included: da of pow is 0 where b is 0, db
 * is 0 where a is 0 and b >= 0; a NaN in either input makes maximum and minimum NaN.
 */
#include "ops/elementwise.h"

#include <tapegrad/ops.h>

static void KERNEL(add)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] + k->in[1][i];
    }
}

static void KERNEL(pass_gradient)(const KERNEL(chunk) * k)
{
    memcpy(k->out, k->dy, (size_t)k->n * sizeof(real));
}

static void KERNEL(sub)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] - k->in[1][i];
    }
}

static void KERNEL(negative_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = -k->dy[i];
    }
}

static void KERNEL(mul)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] * k->in[1][i];
    }
}

static void KERNEL(mul_gradient_a)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->dy[i] * k->in[1][i];
    }
}

static void KERNEL(mul_gradient_b)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->dy[i] * k->in[0][i];
    }
}

static void KERNEL(div)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] / k->in[1][i];
    }
}

static void KERNEL(div_gradient_a)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->dy[i] / k->in[1][i];
    }
}

static void KERNEL(div_gradient_b)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = -k->dy[i] * k->y[i] / k->in[1][i];
    }
}

static void KERNEL(pow)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = REAL(pow)(k->in[0][i], k->in[1][i]);
    }
}

static void KERNEL(pow_gradient_a)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real a = k->in[0][i], b = k->in[1][i];
        k->out[i] = b == 0 ? 0 : k->dy[i] * b * REAL(pow)(a, b - 1);
    }
}

static void KERNEL(pow_gradient_b)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real a = k->in[0][i], b = k->in[1][i];
        k->out[i] = a == 0 && b >= 0 ? 0 : k->dy[i] * k->y[i] * REAL(log)(a);
    }
}

static void KERNEL(maximum)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real a = k->in[0][i], b = k->in[1][i];
        k->out[i] = a != a || a > b ? a : b;
    }
}

static void KERNEL(minimum)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        real a = k->in[0][i], b = k->in[1][i];
        k->out[i] = a != a || a < b ? a : b;
    }
}

/* The share of a value against the other: all when it was chosen, half on a tie, none when not. Beside a NaN neither is
 * smaller, and both get all, as in torch. */
static real KERNEL(share)(real dy, real chosen, real other)
{
    return chosen == other ? dy / 2 : chosen < other ? 0 : dy;
}

static void KERNEL(maximum_gradient_a)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = KERNEL(share)(k->dy[i], k->in[0][i], k->in[1][i]);
    }
}

static void KERNEL(maximum_gradient_b)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = KERNEL(share)(k->dy[i], k->in[1][i], k->in[0][i]);
    }
}

TG_DECLARE_FUNCTIONS(tg_add_functions);
TG_DECLARE_FUNCTIONS(tg_sub_functions);
TG_DECLARE_FUNCTIONS(tg_mul_functions);
TG_DECLARE_FUNCTIONS(tg_div_functions);
TG_DECLARE_FUNCTIONS(tg_pow_functions);
TG_DECLARE_FUNCTIONS(tg_maximum_functions);
TG_DECLARE_FUNCTIONS(tg_minimum_functions);

#define FUNCTIONS const KERNEL(tg_elementwise_functions)

FUNCTIONS KERNEL(tg_add_functions) = {KERNEL(add), {KERNEL(pass_gradient), KERNEL(pass_gradient)}};
FUNCTIONS KERNEL(tg_sub_functions) = {KERNEL(sub), {KERNEL(pass_gradient), KERNEL(negative_gradient)}};
FUNCTIONS KERNEL(tg_mul_functions) = {KERNEL(mul), {KERNEL(mul_gradient_a), KERNEL(mul_gradient_b)}};
FUNCTIONS KERNEL(tg_div_functions) = {KERNEL(div), {KERNEL(div_gradient_a), KERNEL(div_gradient_b)}};
FUNCTIONS KERNEL(tg_pow_functions) = {KERNEL(pow), {KERNEL(pow_gradient_a), KERNEL(pow_gradient_b)}};
FUNCTIONS KERNEL(tg_maximum_functions) = {KERNEL(maximum), {KERNEL(maximum_gradient_a), KERNEL(maximum_gradient_b)}};
/* what maximum gives to one input, minimum gives to the other */
FUNCTIONS KERNEL(tg_minimum_functions) = {KERNEL(minimum), {KERNEL(maximum_gradient_b), KERNEL(maximum_gradient_a)}};

#ifdef TG_ONCE

static const tg_elementwise add_op = {TG_ELEMENTWISE("add", tg_add_functions, 0, 0)};
static const tg_elementwise sub_op = {TG_ELEMENTWISE("sub", tg_sub_functions, 0, 0)};
static const tg_elementwise mul_op = {TG_ELEMENTWISE("mul", tg_mul_functions, 3, 0)};
static const tg_elementwise div_op = {TG_ELEMENTWISE("div", tg_div_functions, 2, 1)};
static const tg_elementwise pow_op = {TG_ELEMENTWISE("pow", tg_pow_functions, 3, 1)};
static const tg_elementwise maximum_op = {TG_ELEMENTWISE("maximum", tg_maximum_functions, 3, 0)};
static const tg_elementwise minimum_op = {TG_ELEMENTWISE("minimum", tg_minimum_functions, 3, 0)};

static tg_tensor *binary(tg_tape *t, const tg_elementwise *op, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {a, b};
    return tg_apply(t, &op->op, inputs, 2, NULL, 0);
}

tg_tensor *tg_add(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return binary(t, &add_op, a, b);
}

tg_tensor *tg_sub(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return binary(t, &sub_op, a, b);
}

tg_tensor *tg_mul(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return binary(t, &mul_op, a, b);
}

tg_tensor *tg_div(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return binary(t, &div_op, a, b);
}

tg_tensor *tg_pow(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return binary(t, &pow_op, a, b);
}

tg_tensor *tg_maximum(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return binary(t, &maximum_op, a, b);
}

tg_tensor *tg_minimum(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    return binary(t, &minimum_op, a, b);
}

#endif

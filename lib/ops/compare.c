/* compare: masks, and choosing by them.
 *
 *   eq ne lt le gt ge   y = 1 where it holds, else 0; u8, no gradient
 *   where               y = mask ? a : b              da += dy where mask, db += dy elsewhere
 *   masked_fill         y = mask ? value : x          dx += dy where not mask
 *
 * Masks and ids reach the loop as numbers; with no float among the inputs the numbers are doubles, which hold every id
 * exactly. Follows torch.eq and so on, torch.where, torch.Tensor.masked_fill.
 */
#include "ops/elementwise.h"

#include <tapegrad/ops.h>

static void KERNEL(eq)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] == k->in[1][i];
    }
}

static void KERNEL(ne)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] != k->in[1][i];
    }
}

static void KERNEL(lt)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] < k->in[1][i];
    }
}

static void KERNEL(le)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] <= k->in[1][i];
    }
}

static void KERNEL(gt)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] > k->in[1][i];
    }
}

static void KERNEL(ge)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] >= k->in[1][i];
    }
}

static void KERNEL(where)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] != 0 ? k->in[1][i] : k->in[2][i];
    }
}

static void KERNEL(where_gradient_a)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] != 0 ? k->dy[i] : 0;
    }
}

static void KERNEL(where_gradient_b)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[0][i] != 0 ? 0 : k->dy[i];
    }
}

static void KERNEL(masked_fill)(const KERNEL(chunk) * k)
{
    real value = (real) * (const double *)k->attributes;
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[1][i] != 0 ? value : k->in[0][i];
    }
}

static void KERNEL(masked_fill_gradient)(const KERNEL(chunk) * k)
{
    for (int64_t i = 0; i < k->n; i++) {
        k->out[i] = k->in[1][i] != 0 ? 0 : k->dy[i];
    }
}

#define FUNCTIONS(name, ...)                     \
    TG_DECLARE_FUNCTIONS(tg_##name##_functions); \
    const KERNEL(tg_elementwise_functions) KERNEL(tg_##name##_functions) = {KERNEL(name), {__VA_ARGS__}}

FUNCTIONS(eq, NULL);
FUNCTIONS(ne, NULL);
FUNCTIONS(lt, NULL);
FUNCTIONS(le, NULL);
FUNCTIONS(gt, NULL);
FUNCTIONS(ge, NULL);
FUNCTIONS(where, NULL, KERNEL(where_gradient_a), KERNEL(where_gradient_b));
FUNCTIONS(masked_fill, KERNEL(masked_fill_gradient), NULL);

#ifdef TG_ONCE

static bool comparison_shape(tg_op_call *call)
{
    return tg_elementwise_output(call, TG_U8);
}

#define COMPARISON(name)                                                            \
    static const tg_elementwise name##_op = {                                       \
        TG_ELEMENTWISE_RULE(#name, comparison_shape, tg_##name##_functions, 0, 0)}; \
    tg_tensor *tg_##name(tg_tape *t, tg_tensor *a, tg_tensor *b)                    \
    {                                                                               \
        tg_tensor *inputs[] = {a, b};                                               \
        return tg_apply(t, &name##_op.op, inputs, 2, NULL, 0);                      \
    }

COMPARISON(eq)
COMPARISON(ne)
COMPARISON(lt)
COMPARISON(le)
COMPARISON(gt)
COMPARISON(ge)

static bool where_shape(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_U8) && tg_elementwise_shape(call);
}

static bool masked_fill_shape(tg_op_call *call)
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
    return tg_elementwise_shape(call);
}

static const tg_elementwise where_op = {TG_ELEMENTWISE_RULE("where", where_shape, tg_where_functions, 1, 0)};
static const tg_elementwise masked_fill_op = {
    TG_ELEMENTWISE_RULE("masked_fill", masked_fill_shape, tg_masked_fill_functions, 2, 0)};

tg_tensor *tg_where(tg_tape *t, tg_tensor *mask, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {mask, a, b};
    return tg_apply(t, &where_op.op, inputs, 3, NULL, 0);
}

tg_tensor *tg_masked_fill(tg_tape *t, tg_tensor *x, tg_tensor *mask, double value)
{
    tg_tensor *inputs[] = {x, mask};
    return tg_apply(t, &masked_fill_op.op, inputs, 2, &value, sizeof value);
}

#endif

/* compare: comparisons and logical ops, which give masks.
 *
 * Comparisons read masks and ids as reals. If no input is a float, `real` is double, which holds every id exactly.
 * Logical ops read all inputs as masks. Follows torch.eq, ne, lt, le, gt, ge, logical_and, logical_or and logical_not.
 */
#include "ops/elementwise/elementwise_real.h"

#ifdef TG_ONCE
static bool comparison_shape(tg_op_call *call)
{
    return tg_elementwise_output(call, TG_U8);
}
#endif

/* Defines a kernel that writes an expression of the inputs a[i] and b[i] for each value of a chunk. */
#define MASK_LOOP(type, kernel, expression)                                                     \
    static void kernel(const tg_chunk *k)                                                       \
    {                                                                                           \
        const type *a = k->in[0], *b = k->in[1];                                                \
        uint8_t *out = k->out;                                                                  \
        const int64_t n = k->n; /* a copy, because a byte of the result could be a part of k */ \
        for (int64_t i = 0; i < n; i++) {                                                       \
            out[i] = expression;                                                                \
        }                                                                                       \
        (void)b;                                                                                \
    }                                                                                           \
    static tg_chunk_kernel kernel

/* Defines a public function of two inputs whose y is u8, and has no gradient. The chunks of its inputs are reals, or
 * masks. */
#define COMPARISON(function, variable, text, forward, masks)                                                   \
    TG_FUNCTION_OF_TWO(function, variable, forward, NULL, NULL, .op.name = text, .op.shape = comparison_shape, \
                       .op.backward_ignores_inputs = TG_OP_ALL, .op.backward_ignores_outputs = TG_OP_ALL,      \
                       .reads_masks = masks)

MASK_LOOP(real, eq_value_loop, a[i] == b[i]);
COMPARISON(tg_eq, tg_eq_op, "eq", eq_value_loop, false);

MASK_LOOP(real, ne_value_loop, a[i] != b[i]);
COMPARISON(tg_ne, tg_ne_op, "ne", ne_value_loop, false);

MASK_LOOP(real, lt_value_loop, a[i] < b[i]);
COMPARISON(tg_lt, tg_lt_op, "lt", lt_value_loop, false);

MASK_LOOP(real, le_value_loop, a[i] <= b[i]);
COMPARISON(tg_le, tg_le_op, "le", le_value_loop, false);

MASK_LOOP(real, gt_value_loop, a[i] > b[i]);
COMPARISON(tg_gt, tg_gt_op, "gt", gt_value_loop, false);

MASK_LOOP(real, ge_value_loop, a[i] >= b[i]);
COMPARISON(tg_ge, tg_ge_op, "ge", ge_value_loop, false);

/* ---- logical ops: chunks of masks; a NaN is not 0, so it is true ---- */

MASK_LOOP(uint8_t, logical_and_value_loop, (a[i] != 0) & (b[i] != 0));
COMPARISON(tg_logical_and, tg_logical_and_op, "logical_and", logical_and_value_loop, true);

MASK_LOOP(uint8_t, logical_or_value_loop, (a[i] | b[i]) != 0);
COMPARISON(tg_logical_or, tg_logical_or_op, "logical_or", logical_or_value_loop, true);

MASK_LOOP(uint8_t, logical_not_value_loop, a[i] == 0);
TG_ELEMENTWISE(tg_logical_not_op, tg_elementwise_levels, logical_not_value_loop, NULL, NULL, NULL,
               .op.name = "logical_not", .op.shape = comparison_shape, .op.input_names = {"x"},
               .op.backward_ignores_inputs = TG_OP_ALL, .op.backward_ignores_outputs = TG_OP_ALL, .reads_masks = true);

#ifdef TG_ONCE
tg_tensor *tg_logical_not(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &tg_logical_not_op.op, &x, 1, NULL, 0, NULL);
}
#endif

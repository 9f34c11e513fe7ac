/* grad_rows: what a backward kernel gets of a gradient by rows. Only the kernel knows the ids, so it asks for the rows
 * itself; the plan has reserved the memory (tape/plan.c). */
#include <string.h>

#include "tape/tape.h"
#include "tensor/gradient.h"

void *tg_find_grad_rows(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int32_t *slots,
                        int32_t *first_new)
{
    tg_tensor *leaf = call && input >= 0 && input < call->input_count ? call->inputs[input] : NULL;
    if (!leaf || !ids || !slots || call->gradient_modes[input] == TG_GRADIENT_NONE) {
        return NULL;
    }
    int32_t first = INT32_MAX; /* of a dense gradient: above all slots */
    if (call->gradient_modes[input] == TG_GRADIENT_ROWS) {
        first = tg_gradient_rows(leaf, ids, count, slots, !first_new);
    } else if (count > 0) {
        memcpy(slots, ids, (size_t)count * sizeof *slots);
    }
    if (first_new) {
        *first_new = first;
    }
    return first < INT32_MAX ? leaf->gradient->values : call->input_gradients[input];
}

void *tg_op_grad_rows(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int32_t *slots)
{
    return tg_find_grad_rows(call, input, ids, count, slots, NULL);
}

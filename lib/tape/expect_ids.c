/* expect_ids: the check of ids in a shape rule. It runs on threads, because a gather has one id for each value. */
#include <stdatomic.h>

#include "base/parallel.h"
#include "base/text.h"
#include "tape/declare.h"

typedef struct ids_check {
    const int32_t *ids;
    uint32_t bound;
    atomic_bool outside;
} ids_check;

static void check_ids(void *context, int64_t begin, int64_t end)
{
    ids_check *c = context;
    const int32_t *ids = c->ids;
    const uint32_t bound = c->bound;
    uint32_t outside = 0;
    for (int64_t i = begin; i < end; i++) {
        outside |= (uint32_t)ids[i] >= bound;
    }
    if (outside) {
        atomic_store_explicit(&c->outside, true, memory_order_relaxed);
    }
}

bool tg_op_expect_ids_below(tg_op_call *call, int input, int64_t bound)
{
    if (!tg_op_expect_dtype(call, input, TG_I32)) {
        return false;
    }
    const tg_tensor *x = call->inputs[input];
    const int32_t *ids = tg_values(x);
    /* A negative id is above each bound as an unsigned number. */
    const uint32_t above = (uint32_t)INT32_MAX + 1;
    ids_check c = {.ids = ids, .bound = bound < 0 ? 0 : bound < above ? (uint32_t)bound : above};
    tg_parallel_for(x->count, TG_GRAIN, check_ids, &c);
    for (int64_t i = 0; c.outside && i < x->count; i++) {
        if (ids[i] < 0 || ids[i] >= bound) {
            tg_shape shape = tg_shape_of(x);
            char text[TG_SHAPE_TEXT];
            return tg_op_fail(call, TG_ERROR_RANGE, "id %d at %s is outside [0,%lld)", ids[i],
                              tg_index_format(&shape, i, text), (long long)bound);
        }
    }
    return true;
}

/* detach and contiguous: the same values, without a history or without gaps. */
#include <tapegrad/ops.h>

#include "tape/tape.h"

tg_tensor *tg_contiguous(tg_tape *t, tg_tensor *x)
{
    int axis = 0;
    if (!tg_tape_axis(t, "contiguous", x, &axis)) {
        return NULL;
    }
    return x->contiguous ? x : tg_make_contiguous(t, x);
}

/* Not an op: an op's result would be recorded, and being unrecorded is the point. */
tg_tensor *tg_detach(tg_tape *t, tg_tensor *x)
{
    int axis = 0;
    if (!tg_tape_axis(t, "detach", x, &axis)) {
        return NULL;
    }
    tg_shape shape = tg_shape_of(x);
    tg_tensor *y = tg_tape_reserve_results(t, 1) ? tg_tensor_make_view(t->pool, x, &shape, x->strides, 0) : NULL;
    if (!y) {
        return tg_tape_fail(t, TG_ERROR_MEMORY, "detach", "out of memory");
    }
    tg_tape_adopt(t, y);
    return y;
}

/* detach: the same values without their history. contiguous: the same values in row-major order without gaps. */
#include <tapegrad/ops.h>

#include "tape/tape.h"

tg_tensor *tg_contiguous(tg_tape *t, tg_tensor *x)
{
    if (!tg_tape_expect_input(t, "contiguous", "x", x)) {
        return NULL;
    }
    return x->contiguous ? x : tg_make_contiguous(t, x);
}

/* Not an op, because the result of an op would be recorded. */
tg_tensor *tg_detach(tg_tape *t, tg_tensor *x)
{
    if (!tg_tape_expect_input(t, "detach", "x", x)) {
        return NULL;
    }
    tg_shape shape = tg_shape_of(x);
    tg_tensor *y = tg_tape_reserve_results(t, 1) ? tg_tensor_make_view(t->pool, x, &shape, x->strides, 0) : NULL;
    if (!y) {
        tg_tape_fail(t, TG_ERROR_MEMORY, "detach", "out of memory");
        return NULL;
    }
    tg_tape_adopt(t, y, "detach");
    return y;
}

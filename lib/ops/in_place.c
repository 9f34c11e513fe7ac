/* in_place: writing into a tensor that exists, and reading one number out of it. Neither is recorded. */
#include <math.h>

#include <tapegrad/ops.h>

#include "tape/tape.h"

tg_tensor *tg_copy_into(tg_tape *t, tg_tensor *dst, tg_tensor *src)
{
    int axis = 0;
    if (!tg_tape_axis(t, "copy_into", dst, &axis)) {
        return NULL;
    }
    axis = 0;
    if (!tg_tape_axis(t, "copy_into", src, &axis)) {
        return NULL;
    }
    if (dst->node >= 0 || (dst->requires_grad && t->recording)) {
        return tg_tape_fail(t, TG_ERROR_STATE, "copy_into",
                            dst->node >= 0 ? "the target is the result of a recorded op"
                                           : "the target requires a gradient; switch recording off, or detach it");
    }
    tg_error error = TG_NO_ERROR;
    tg_tensor *same = tg_same_shape(dst, src) ? src : tg_expand(t, src, tg_shape_of(dst));
    if (!same || !tg_fill_copy(dst, same, &error)) {
        return same ? tg_tape_fail(t, error.code, "copy_into", "%s", error.text) : NULL;
    }
    return dst;
}

double tg_item(tg_tape *t, const tg_tensor *x)
{
    int axis = 0;
    if (!tg_tape_axis(t, "item", x, &axis)) {
        return (double)NAN;
    }
    if (x->count != 1) {
        char text[TG_SHAPE_TEXT];
        tg_tape_fail(t, TG_ERROR_SHAPE, "item", "a tensor of shape %s has %lld values; it must have one",
                     tg_shape_format(tg_shape_of(x), text), (long long)x->count);
        return (double)NAN;
    }
    return tg_value_at(x, 0);
}

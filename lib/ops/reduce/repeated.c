/* repeated: the sums that repeated.h describes, as a reduction of a contiguous tensor. Few outputs are cut into a fixed
 * number of blocks, so that threads divide them and no scratch is needed. */
#include "ops/reduce/repeated.h"

#include "ops/reduce/fold.h"

enum { SHARES = 8, FEW = 256 };

static void project_repeated(const tg_outputs *o)
{
    real *dx = (real *)o->r->y + o->begin;
    for (int64_t c = 0; c < o->count; c++) {
        dx[c] = accumulated(!o->r->add, dx[c], (real)o->sum[c]);
    }
}

static const tg_reducer repeated_reducer = {.reduce = reduce_sum, .combine = combine_sums, .project = project_repeated};

void KERNEL(tg_sum_repeated)(const tg_shape *shape, const int64_t *strides, tg_gradient_part *part, const void *context,
                             bool overwrite, void *dx)
{
    tg_partial partials[SHARES * FEW];
    const tg_reduce_attributes no_attributes = {.keep = false};
    tg_reduce_call r = {.attributes = &no_attributes,
                        .x = context,
                        .dtype = real_dtype,
                        .part = part,
                        .y = dx,
                        .add = !overwrite,
                        .kept = tg_walk_new(),
                        .reduced = tg_walk_new(),
                        .blocks = 1,
                        .partials = partials};
    int64_t own[TG_MAX_RANK];
    tg_contiguous_strides(shape, own);
    for (int axis = 0; axis < shape->rank; axis++) {
        tg_walk_add_axis(strides[axis] == 0 ? &r.reduced : &r.kept, shape->size[axis], own[axis], 0);
    }
    int64_t outputs = r.kept.count, count = r.reduced.count;
    if (outputs > 0 && outputs <= FEW && count >= 64 * SHARES && outputs * count >= 2 * TG_GRAIN) {
        r.blocks = SHARES;
    }
    r.block = (count - 1) / r.blocks + 1;
    KERNEL(tg_reduce_walks)(&r, &repeated_reducer);
}

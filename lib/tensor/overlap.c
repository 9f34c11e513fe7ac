#include "tensor/overlap.h"

#include <stdlib.h>

void tg_memory_extent(const tg_tensor *x, int64_t *low, int64_t *high)
{
    *low = *high = 0;
    for (int axis = 0; x->count > 0 && axis < x->rank; axis++) {
        int64_t last = (x->shape[axis] - 1) * x->strides[axis];
        *low += last < 0 ? last : 0;
        *high += last > 0 ? last : 0;
    }
}

/* The indices have different addresses if, in ascending order, each stride exceeds the extent of the axes with smaller
 * strides. */
int tg_overlapping_axis(const tg_tensor *x)
{
    int64_t reach = 0;
    unsigned done = 0;
    for (int round = 0; !x->contiguous && x->count > 1 && round < x->rank; round++) {
        int next = -1;
        for (int axis = 0; axis < x->rank; axis++) {
            bool smaller = next < 0 || llabs(x->strides[axis]) < llabs(x->strides[next]);
            next = !(done >> axis & 1) && smaller ? axis : next;
        }
        done |= 1u << next;
        if (x->shape[next] > 1) {
            if (llabs(x->strides[next]) <= reach) {
                return next;
            }
            reach += (x->shape[next] - 1) * llabs(x->strides[next]);
        }
    }
    return -1;
}

bool tg_tensor_check_target(const char *call, const char *name, const tg_tensor *x, tg_error *error)
{
    if (!tg_tensor_check(call, name, x, error)) {
        return false;
    }
    int axis = tg_overlapping_axis(x);
    return axis < 0 ||
           tg_error_set(error, TG_ERROR_STATE,
                        "%s: values of the %s share memory: axis %d of size %lld has the stride %lld; write to a copy "
                        "(tg_tensor_new_copy), or to the tensor that was expanded",
                        call, name, axis, (long long)x->shape[axis], (long long)x->strides[axis]);
}

bool tg_overlaps_memory(const tg_tensor *x, const void *begin, uint64_t bytes)
{
    int64_t low, high;
    tg_memory_extent(x, &low, &high);
    int64_t size = (int64_t)tg_size_of(x->dtype);
    uint64_t own = x->count > 0 ? (uint64_t)((high - low + 1) * size) : 0;
    return tg_ranges_meet((const char *)tg_values(x) + low * size, own, begin, bytes);
}

bool tg_overlaps(const tg_tensor *a, const tg_tensor *b)
{
    int64_t low, high, size = (int64_t)tg_size_of(b->dtype);
    if (a->storage != b->storage || b->count == 0) {
        return false;
    }
    tg_memory_extent(b, &low, &high);
    return tg_overlaps_memory(a, (const char *)tg_values(b) + low * size, (uint64_t)((high - low + 1) * size));
}

/* shape: counts, bytes, strides, broadcasting and texts of shapes. Products of sizes are checked for overflow here.
 *
 * A tensor without values has sizes, too: those other than 0 multiply to at most 2^62 - 1, so that loops and shape
 * rules can add lengths and double them.
 */
#include <stdio.h>
#include <string.h>

#include "tensor/tensor.h"

tg_shape tg_shape_make(int rank, const int64_t *sizes)
{
    tg_shape shape = {.rank = sizes || rank <= 0 ? rank : -1};
    for (int axis = 0; axis < shape.rank && axis < TG_MAX_RANK; axis++) {
        shape.size[axis] = sizes[axis];
    }
    return shape;
}

bool tg_shape_equal(tg_shape a, tg_shape b)
{
    if (a.rank != b.rank) {
        return false;
    }
    for (int axis = 0; axis < a.rank && axis < TG_MAX_RANK; axis++) {
        if (a.size[axis] != b.size[axis]) {
            return false;
        }
    }
    return true;
}

/* The most that sizes other than 0 multiply to. Kernels add to such a product, double it, and take the sum of two, also
 * for a tensor without values: none of these overflows. */
#define MOST_VALUES (INT64_MAX / 2)

/* If a size is 0, the count is 0, but the product of the other sizes must fit too: (2^40,2^40,0) is refused. */
int64_t tg_shape_count(tg_shape shape)
{
    if (shape.rank < 0 || shape.rank > TG_MAX_RANK) {
        return -1;
    }
    int64_t nonzero = 1;
    bool empty = false;
    for (int axis = 0; axis < shape.rank; axis++) {
        if (shape.size[axis] < 0) {
            return -1;
        }
        if (shape.size[axis] == 0) {
            empty = true;
        } else if (__builtin_mul_overflow(nonzero, shape.size[axis], &nonzero) || nonzero > MOST_VALUES) {
            return -1;
        }
    }
    return empty ? 0 : nonzero;
}

/* Writes numbers between two texts. */
static const char *write_list(char text[TG_SHAPE_TEXT], const char *begin, int count, const int64_t *numbers,
                              const char *end)
{
    size_t used = (size_t)snprintf(text, TG_SHAPE_TEXT, "%s", begin);
    for (int i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, TG_SHAPE_TEXT - used, i ? ",%lld" : "%lld", (long long)numbers[i]);
    }
    snprintf(text + used, TG_SHAPE_TEXT - used, "%s", end);
    return text;
}

const char *tg_shape_format(tg_shape shape, char text[TG_SHAPE_TEXT])
{
    int rank = shape.rank < 0 ? 0 : shape.rank > TG_MAX_RANK ? TG_MAX_RANK : shape.rank;
    return text ? write_list(text, "(", rank, shape.size, rank == 1 ? ",)" : ")") : "";
}

tg_shape_string tg_shape_text(tg_shape shape)
{
    tg_shape_string string;
    tg_shape_format(shape, string.text);
    return string;
}

tg_shape_string tg_shape_text_of(const tg_tensor *x)
{
    return tg_shape_text(tg_shape_of(x));
}

bool tg_shape_bytes(const char *name, tg_dtype dtype, const tg_shape *shape, size_t *bytes, tg_error *error)
{
    if (shape->rank < 0 || shape->rank > TG_MAX_RANK) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: rank %d is outside [0,%d]", name, shape->rank, TG_MAX_RANK);
    }
    for (int axis = 0; axis < shape->rank; axis++) {
        if (shape->size[axis] < 0) {
            return tg_error_set(error, TG_ERROR_SHAPE, "%s: size %lld of axis %d in %s is negative", name,
                                (long long)shape->size[axis], axis, tg_shape_text(*shape).text);
        }
    }
    int64_t count = tg_shape_count(*shape);
    if (count < 0 || !tg_checked_mul((uint64_t)count, tg_dtype_size(dtype), bytes) || *bytes > PTRDIFF_MAX / 2) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: %s has more values than memory can hold", name,
                            tg_shape_text(*shape).text);
    }
    return true;
}

void tg_contiguous_strides(const tg_shape *shape, int64_t strides[TG_MAX_RANK])
{
    int64_t stride = 1;
    for (int axis = shape->rank - 1; axis >= 0; axis--) {
        strides[axis] = stride;
        stride *= shape->size[axis] > 1 ? shape->size[axis] : 1;
    }
}

bool tg_shape_broadcast(const tg_shape *a, const tg_shape *b, tg_shape *result)
{
    const tg_shape *longer = a->rank >= b->rank ? a : b, *shorter = a->rank >= b->rank ? b : a;
    int ahead = longer->rank - shorter->rank;
    *result = *longer;
    for (int axis = 0; axis < shorter->rank; axis++) {
        int64_t one = longer->size[ahead + axis], other = shorter->size[axis];
        if (one != other && one != 1 && other != 1) {
            return false;
        }
        result->size[ahead + axis] = one == 1 ? other : one;
    }
    return true;
}

const char *tg_index_format(const tg_shape *shape, int64_t position, char *text)
{
    int64_t index[TG_MAX_RANK];
    for (int axis = shape->rank - 1; axis >= 0; axis--) {
        index[axis] = position % shape->size[axis];
        position /= shape->size[axis];
    }
    return write_list(text, "[", shape->rank, index, "]");
}

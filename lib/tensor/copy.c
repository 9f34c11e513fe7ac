/* copy: copies values from one layout to another, and converts them from one dtype to another. */
#include <string.h>

#include "tensor/strided.h"

void tg_copy_to_contiguous(const tg_tensor *x, void *out)
{
    tg_shape shape = tg_shape_of(x);
    int64_t strides[TG_MAX_RANK];
    tg_contiguous_strides(&shape, strides);
    tg_strided s = tg_strided_of(&shape, strides, x->strides);
    tg_strided_copy(&s, tg_size_of(x->dtype), out, tg_values(x));
}

void tg_copy_from_contiguous(tg_tensor *x, const void *in)
{
    tg_shape shape = tg_shape_of(x);
    int64_t strides[TG_MAX_RANK];
    tg_contiguous_strides(&shape, strides);
    tg_strided s = tg_strided_of(&shape, x->strides, strides);
    tg_strided_copy(&s, tg_size_of(x->dtype), tg_values(x), in);
}

void tg_copy_in_memory_order(tg_tensor *x, const void *in)
{
    tg_shape shape = {.rank = x->rank};
    int64_t own[TG_MAX_RANK], strides[TG_MAX_RANK];
    int order[TG_MAX_RANK];
    tg_memory_order(x, order);
    for (int i = 0; i < x->rank; i++) {
        shape.size[i] = x->shape[order[i]];
        own[i] = x->strides[order[i]];
    }
    tg_contiguous_strides(&shape, strides);
    tg_strided s = tg_strided_of(&shape, own, strides);
    tg_strided_copy(&s, tg_size_of(x->dtype), tg_values(x), in);
}

void tg_copy_broadcast(tg_tensor *x, const tg_tensor *from)
{
    tg_shape shape = tg_shape_of(x);
    int64_t strides[TG_MAX_RANK];
    for (int axis = 0; axis < x->rank; axis++) {
        int other = axis - (x->rank - from->rank);
        bool repeats = other < 0 || from->shape[other] == 1;
        strides[axis] = repeats ? 0 : from->strides[other];
    }
    tg_strided s = tg_strided_of(&shape, x->strides, strides);
    tg_strided_copy(&s, tg_size_of(x->dtype), tg_values(x), tg_values(from));
}

/* Returns a value clamped to [low,high], and 0 for NaN: in C the conversion of a float that does not fit an integer is
 * undefined. */
static double clamped(double value, double low, double high)
{
    return value != value ? 0 : value < low ? low : value > high ? high : value;
}

static double load(const void *in, tg_dtype from, int64_t i)
{
    switch (from) {
    case TG_F32: return (double)((const float *)in)[i];
    case TG_F64: return ((const double *)in)[i];
    case TG_I32: return (double)((const int32_t *)in)[i];
    default: return (double)((const uint8_t *)in)[i];
    }
}

void tg_convert(void *out, tg_dtype to, const void *in, tg_dtype from, int64_t count)
{
    if (to == from) {
        if (count > 0) {
            memcpy(out, in, (size_t)count * tg_size_of(to));
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double value = load(in, from, i);
        switch (to) {
        case TG_F32: ((float *)out)[i] = (float)value; break;
        case TG_F64: ((double *)out)[i] = value; break;
        case TG_I32: ((int32_t *)out)[i] = (int32_t)clamped(value, INT32_MIN, INT32_MAX); break;
        default: ((uint8_t *)out)[i] = (uint8_t)clamped(value, 0, UINT8_MAX);
        }
    }
}

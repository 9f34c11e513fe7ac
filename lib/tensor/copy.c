/* copy: values from one layout to another, and from one dtype to another.
 *
 * A strided walk goes over all axes but the last by an odometer, and over the last in a plain loop. Strides may be 0 or
 * negative.
 */
#include <string.h>

#include "tensor/tensor.h"

/* Moves `count` values of `size` bytes; strides in bytes. */
static void copy_line(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t count, size_t size)
{
    if (to_stride == (int64_t)size && from_stride == (int64_t)size) {
        memcpy(to, from, (size_t)count * size);
        return;
    }
    switch (size) {
    case 8:
        for (int64_t i = 0; i < count; i++) {
            *(uint64_t *)(void *)(to + i * to_stride) = *(const uint64_t *)(const void *)(from + i * from_stride);
        }
        return;
    case 4:
        for (int64_t i = 0; i < count; i++) {
            *(uint32_t *)(void *)(to + i * to_stride) = *(const uint32_t *)(const void *)(from + i * from_stride);
        }
        return;
    default:
        for (int64_t i = 0; i < count; i++) {
            to[i * to_stride] = from[i * from_stride];
        }
    }
}

/* Between x's layout and the packed one; `pack` tells which way. */
static void copy_strided(const tg_tensor *x, char *packed, bool pack)
{
    size_t size = tg_dtype_size((tg_dtype)x->dtype);
    char *values = tg_values(x);
    if (x->count == 0) {
        return;
    }
    if (x->contiguous) {
        memcpy(pack ? packed : values, pack ? values : packed, (size_t)x->count * size);
        return;
    }
    int last = x->rank - 1; /* a tensor that is not contiguous has an axis */
    int64_t line = x->shape[last], stride = x->strides[last] * (int64_t)size;
    int64_t index[TG_MAX_RANK] = {0};
    int64_t place = 0;
    for (int64_t done = 0; done < x->count; done += line) {
        char *strided = values + place * (int64_t)size, *flat = packed + (size_t)done * size;
        if (pack) {
            copy_line(flat, (int64_t)size, strided, stride, line, size);
        } else {
            copy_line(strided, stride, flat, (int64_t)size, line, size);
        }
        for (int axis = last - 1; axis >= 0; axis--) {
            place += x->strides[axis];
            if (++index[axis] < x->shape[axis]) {
                break;
            }
            place -= x->strides[axis] * x->shape[axis];
            index[axis] = 0;
        }
    }
}

void tg_copy_to_contiguous(const tg_tensor *x, void *out)
{
    copy_strided(x, out, true);
}

void tg_copy_from_contiguous(tg_tensor *x, const void *in)
{
    copy_strided(x, (char *)(uintptr_t)in, false); /* read only in this direction */
}

/* C leaves a float that does not fit an integer undefined; here it is clamped, and NaN is 0. */
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
            memcpy(out, in, (size_t)count * tg_dtype_size(to));
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

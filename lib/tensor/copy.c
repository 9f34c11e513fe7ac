/* copy: copies values from one layout to another, and converts them from one dtype to another. */
#include <string.h>

#include "tensor/walk.h"

/* Copies `count` values of `size` bytes; strides in bytes. */
static void copy_run(char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t count, size_t size)
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

void tg_copy_to_contiguous(const tg_tensor *x, void *out)
{
    size_t size = tg_size_of(x->dtype);
    tg_walk walk = tg_walk_of(x);
    tg_cursor at = tg_walk_begin(&walk, 0);
    for (int64_t done = 0, run; done < x->count; done += run) {
        run = tg_walk_run(&walk, &at, x->count);
        copy_run((char *)out + (size_t)done * size, (int64_t)size,
                 (const char *)tg_values(x) + at.offset * (int64_t)size, tg_walk_stride(&walk) * (int64_t)size, run,
                 size);
        tg_walk_advance(&walk, &at, run);
    }
}

static void copy_along(tg_tensor *x, const tg_walk *walk, const void *in)
{
    size_t size = tg_size_of(x->dtype);
    tg_cursor at = tg_walk_begin(walk, 0);
    for (int64_t done = 0, run; done < x->count; done += run) {
        run = tg_walk_run(walk, &at, x->count);
        copy_run((char *)tg_values(x) + at.offset * (int64_t)size, tg_walk_stride(walk) * (int64_t)size,
                 (const char *)in + (size_t)done * size, (int64_t)size, run, size);
        tg_walk_advance(walk, &at, run);
    }
}

void tg_copy_from_contiguous(tg_tensor *x, const void *in)
{
    tg_walk walk = tg_walk_of(x);
    copy_along(x, &walk, in);
}

void tg_copy_in_memory_order(tg_tensor *x, const void *in)
{
    tg_walk walk = tg_walk_in_memory_order(x);
    copy_along(x, &walk, in);
}

void tg_copy_broadcast(tg_tensor *x, const tg_tensor *from)
{
    size_t size = tg_size_of(x->dtype);
    tg_walk walk = tg_walk_new();
    for (int axis = 0; axis < x->rank; axis++) {
        int other = axis - (x->rank - from->rank);
        bool repeats = other < 0 || from->shape[other] == 1;
        tg_walk_add_axis(&walk, x->shape[axis], x->strides[axis], repeats ? 0 : from->strides[other]);
    }
    tg_cursor at = tg_walk_begin(&walk, 0);
    for (int64_t done = 0, run; done < x->count; done += run) {
        run = tg_walk_run(&walk, &at, x->count);
        copy_run((char *)tg_values(x) + at.offset * (int64_t)size, tg_walk_stride(&walk) * (int64_t)size,
                 (const char *)tg_values(from) + at.other_offset * (int64_t)size,
                 tg_walk_other_stride(&walk) * (int64_t)size, run, size);
        tg_walk_advance(&walk, &at, run);
    }
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

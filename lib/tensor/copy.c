/* copy: copies values from one layout to another, and converts them from one dtype to another. */
#include <string.h>

#include "math/half.h"
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

/* A copy of one value, which has the stride 0 on every axis. */
void tg_fill_values(tg_tensor *x, double value)
{
    const int64_t repeated[TG_MAX_RANK] = {0};
    const tg_shape shape = tg_shape_of(x);
    double one; /* as wide as any value */
    tg_convert(&one, tg_dtype_of(x), &value, TG_F64, 1);
    tg_strided s = tg_strided_of(&shape, x->strides, repeated);
    tg_strided_copy(&s, tg_size_of(x->dtype), tg_values(x), &one);
}

/* ---- dtypes: parts of the values pass through double, which holds each of them exactly ---- */

enum { COPY_PART = 256 };

/* Returns a value clamped to [low,high], and 0 for NaN: in C the conversion of a float that does not fit an integer is
 * undefined. */
static inline double clamped(double value, double low, double high)
{
    return value != value ? 0 : value < low ? low : value > high ? high : value;
}

static void load(double *restrict values, const void *in, tg_dtype from, int64_t begin, int n)
{
    const float *floats = in;
    const double *doubles = in;
    const int32_t *ids = in;
    const uint8_t *bytes = in;
    const uint16_t *halves = in;
    switch (from) {
    case TG_F32:
        for (int i = 0; i < n; i++) {
            values[i] = (double)floats[begin + i];
        }
        break;
    case TG_F64: memcpy(values, doubles + begin, (size_t)n * sizeof *values); break;
    case TG_I32:
        for (int i = 0; i < n; i++) {
            values[i] = ids[begin + i];
        }
        break;
    case TG_BF16:
        for (int i = 0; i < n; i++) {
            values[i] = (double)tg_from_bf16(halves[begin + i]);
        }
        break;
    default:
        for (int i = 0; i < n; i++) {
            values[i] = bytes[begin + i];
        }
    }
}

static void store(void *out, tg_dtype to, const double *restrict values, int64_t begin, int n)
{
    float *floats = out;
    int32_t *ids = out;
    uint8_t *bytes = out;
    uint16_t *halves = out;
    switch (to) {
    case TG_F32:
        for (int i = 0; i < n; i++) {
            floats[begin + i] = (float)values[i];
        }
        break;
    case TG_I32:
        for (int i = 0; i < n; i++) {
            ids[begin + i] = (int32_t)clamped(values[i], INT32_MIN, INT32_MAX);
        }
        break;
    case TG_BF16:
        for (int i = 0; i < n; i++) {
            halves[begin + i] = tg_to_bf16((float)values[i]);
        }
        break;
    default:
        for (int i = 0; i < n; i++) {
            bytes[begin + i] = (uint8_t)clamped(values[i], 0, UINT8_MAX);
        }
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
    for (int64_t i = 0; i < count; i += COPY_PART) {
        double part[COPY_PART];
        double *values = to == TG_F64 ? (double *)out + i : part;
        int n = count - i < COPY_PART ? (int)(count - i) : COPY_PART;
        load(values, in, from, i, n);
        if (to != TG_F64) {
            store(out, to, values, i, n);
        }
    }
}

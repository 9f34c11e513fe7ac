/* fill: writes all values of a tensor in place: constants, copies and random numbers.
 *
 * The random fills use the distributions of base/random.h. A contiguous tensor is filled directly. Any other layout is
 * filled from a buffer, in the order of its memory, as in PyTorch. PyTorch draws the normal values of a tensor that is
 * not contiguous one at a time, and so does tg_tensor_fill_normal.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "tensor/overlap.h"
#include "tensor/walk.h"

/* ---- constants and copies ---- */

bool tg_tensor_fill(tg_tensor *x, double value, tg_error *error)
{
    if (!tg_tensor_check("tensor_fill", "tensor", x, error)) {
        return false;
    }
    tg_fill_values(x, value);
    tg_touch(x);
    return true;
}

bool tg_tensor_fill_from(tg_tensor *x, const void *values, tg_error *error)
{
    static const char call[] = "tensor_fill_from";
    if (!tg_tensor_check_target(call, "tensor", x, error)) {
        return false;
    }
    if (!values && x->count > 0) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the values are NULL", call);
    }
    void *copy = NULL;
    if (tg_overlaps_memory(x, values, tg_bytes_of(x))) {
        copy = tg_alloc((uint64_t)x->count, tg_size_of(x->dtype));
        if (!copy) {
            return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld values", call, (long long)x->count);
        }
        memcpy(copy, values, tg_bytes_of(x));
    }
    tg_copy_from_contiguous(x, copy ? copy : values);
    tg_free(copy);
    tg_touch(x);
    return true;
}

bool tg_tensor_copy_from(tg_tensor *x, const tg_tensor *from, tg_error *error)
{
    static const char call[] = "tensor_copy_from";
    if (!tg_tensor_check_target(call, "target", x, error) || !tg_tensor_check(call, "source", from, error)) {
        return false;
    }
    if (x->dtype != from->dtype) {
        return tg_error_set(error, TG_ERROR_DTYPE,
                            "%s: the tensor is %s and the source %s; tg_tensor_new_cast converts", call,
                            tg_dtype_name(tg_dtype_of(x)), tg_dtype_name(tg_dtype_of(from)));
    }
    tg_shape own = tg_shape_of(x), source = tg_shape_of(from), both;
    if (!tg_shape_broadcast(&own, &source, &both) || !tg_shape_equal(own, both)) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: shape %s does not broadcast to %s", call,
                            tg_shape_text(source).text, tg_shape_text(own).text);
    }
    bool is_same = tg_values(x) == tg_values(from) && x->contiguous && from->contiguous && tg_same_shape(x, from);
    bool overlaps = !is_same && tg_overlaps(x, from);
    tg_tensor *copy = overlaps ? tg_tensor_new_copy(from, NULL) : NULL;
    if (overlaps && !copy) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for a copy of the source, which shares memory",
                            call);
    }
    if (!is_same) {
        tg_copy_broadcast(x, copy ? copy : from);
    }
    tg_release(copy);
    tg_touch(x);
    return true;
}

/* ---- random numbers ---- */

/* Draws `count` values of x's dtype into `out`; a and b are the distribution's parameters. */
typedef void draw_function(tg_rng *rng, const tg_tensor *x, void *out, int64_t count, double a, double b);

static bool check(const char *call, const tg_tensor *x, const tg_rng *rng, tg_error *error)
{
    return tg_tensor_check_target(call, "tensor", x, error) && tg_rng_check(call, rng, error);
}

static bool check_float(const char *call, const tg_tensor *x, const tg_rng *rng, tg_error *error)
{
    return check(call, x, rng, error) &&
           (tg_dtype_is_float(x->dtype) ||
            tg_error_set(error, TG_ERROR_DTYPE, "%s: the tensor is %s; it must be f32 or f64", call,
                         tg_dtype_name(tg_dtype_of(x))));
}

static bool fill(const char *call, tg_tensor *x, tg_rng *rng, draw_function *draw, double a, double b, tg_error *error)
{
    void *buffer = x->contiguous ? tg_values(x) : tg_alloc((uint64_t)x->count, tg_size_of(x->dtype));
    if (!buffer) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld values", call, (long long)x->count);
    }
    draw(rng, x, buffer, x->count, a, b);
    if (!x->contiguous) {
        tg_copy_in_memory_order(x, buffer);
        tg_free(buffer);
    }
    tg_touch(x);
    return true;
}

static void draw_uniform(tg_rng *rng, const tg_tensor *x, void *out, int64_t count, double low, double high)
{
    if (x->dtype == TG_F32) {
        tg_rng_uniform_f32(rng, out, count, low, high);
    } else {
        tg_rng_uniform_f64(rng, out, count, low, high);
    }
}

bool tg_tensor_fill_uniform(tg_tensor *x, tg_rng *rng, double low, double high, tg_error *error)
{
    static const char call[] = "tensor_fill_uniform";
    return check_float(call, x, rng, error) && tg_rng_check_uniform(call, low, high, error) &&
           fill(call, x, rng, draw_uniform, low, high, error);
}

static void draw_normal(tg_rng *rng, const tg_tensor *x, void *out, int64_t count, double mean, double std)
{
    int64_t portion = x->contiguous ? count : 1;
    for (int64_t done = 0; done < count; done += portion) {
        if (x->dtype == TG_F32) {
            tg_rng_normal_f32(rng, (float *)out + done, portion, mean, std);
        } else {
            tg_rng_normal_f64(rng, (double *)out + done, portion, mean, std);
        }
    }
}

bool tg_tensor_fill_normal(tg_tensor *x, tg_rng *rng, double mean, double std, tg_error *error)
{
    static const char call[] = "tensor_fill_normal";
    return check_float(call, x, rng, error) && tg_rng_check_normal(call, mean, std, error) &&
           fill(call, x, rng, draw_normal, mean, std, error);
}

static void draw_bernoulli(tg_rng *rng, const tg_tensor *x, void *out, int64_t count, double p, double unused)
{
    uint8_t drawn[512];
    (void)unused;
    for (int64_t done = 0; done < count; done += (int64_t)sizeof drawn) {
        int64_t portion = count - done < (int64_t)sizeof drawn ? count - done : (int64_t)sizeof drawn;
        tg_rng_bernoulli(rng, drawn, portion, p);
        tg_convert((char *)out + (size_t)done * tg_size_of(x->dtype), tg_dtype_of(x), drawn, TG_U8, portion);
    }
}

bool tg_tensor_fill_bernoulli(tg_tensor *x, tg_rng *rng, double p, tg_error *error)
{
    static const char call[] = "tensor_fill_bernoulli";
    if (!check(call, x, rng, error)) {
        return false;
    }
    if (!(p >= 0 && p <= 1)) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: probability %g is outside [0,1]", call, p);
    }
    return fill(call, x, rng, draw_bernoulli, p, 0, error);
}

/* Converts the integers by way of double, in which they are exact up to 2^53. */
static void draw_integers(tg_rng *rng, const tg_tensor *x, void *out, int64_t count, double low, double high)
{
    int64_t drawn[64];
    double values[64];
    for (int64_t done = 0; done < count; done += 64) {
        int64_t portion = count - done < 64 ? count - done : 64;
        tg_rng_integers(rng, drawn, portion, (int64_t)low, (int64_t)high);
        for (int64_t i = 0; i < portion; i++) {
            values[i] = (double)drawn[i];
        }
        tg_convert((char *)out + (size_t)done * tg_size_of(x->dtype), tg_dtype_of(x), values, TG_F64, portion);
    }
}

bool tg_tensor_fill_randint(tg_tensor *x, tg_rng *rng, int64_t low, int64_t high, tg_error *error)
{
    static const char call[] = "tensor_fill_randint";
    if (!check(call, x, rng, error)) {
        return false;
    }
    const int digits = x->dtype == TG_F32 ? 24 : x->dtype == TG_F64 ? 53 : 8; /* those of a float's mantissa */
    int64_t least = x->dtype == TG_I32 ? INT32_MIN : x->dtype == TG_U8 ? 0 : -((int64_t)1 << digits);
    int64_t most = x->dtype == TG_I32 ? INT32_MAX : x->dtype == TG_U8 ? UINT8_MAX : -least;
    if (low >= high || low < least || high - 1 > most) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: [%lld,%lld); a %s tensor allows low < high within [%lld,%lld]",
                            call, (long long)low, (long long)high, tg_dtype_name(tg_dtype_of(x)), (long long)least,
                            (long long)most);
    }
    return fill(call, x, rng, draw_integers, (double)low, (double)high, error);
}

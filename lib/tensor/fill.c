/* fill: writing all values of a tensor in place, constants and random numbers.
 *
 * The random fills are the streams of tapegrad/random.h with arguments checked. A contiguous tensor is filled
 * directly; any other layout through a row-major buffer, so the order of the draws is that of the tensor's own shape.
 * PyTorch draws the normals of a tensor that is not contiguous one by one; so does tg_fill_normal, by asking for
 * fewer than 16 at a time.
 */
#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

static bool check(const char *name, const tg_tensor *x, const tg_rng *rng, tg_error *error)
{
    if (!x || !rng) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", name, x ? "generator" : "tensor");
    }
    return true;
}

static bool check_float(const char *name, const tg_tensor *x, const tg_rng *rng, tg_error *error)
{
    if (!check(name, x, rng, error)) {
        return false;
    }
    if (!tg_dtype_is_float((tg_dtype)x->dtype)) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: a %s tensor; allowed are f32 and f64", name,
                            tg_dtype_name((tg_dtype)x->dtype));
    }
    return true;
}

/* Room for count values: the tensor's own when it is contiguous. `give_back` copies it in and frees it. */
static void *borrow(const char *name, tg_tensor *x, size_t size, bool direct, tg_error *error)
{
    if (direct) {
        return tg_values(x);
    }
    void *buffer = tg_alloc((size_t)x->count, size);
    if (!buffer) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld values", name, (long long)x->count);
    }
    return buffer;
}

static void give_back(tg_tensor *x, void *buffer, bool direct)
{
    if (!direct) {
        tg_copy_from_contiguous(x, buffer);
        tg_free(buffer);
    }
    tg_touch(x);
}

bool tg_fill(tg_tensor *x, double value, tg_error *error)
{
    if (!x) {
        return tg_error_set(error, TG_ERROR_STATE, "fill: the tensor is NULL");
    }
    unsigned char one[sizeof(double)];
    size_t size = tg_dtype_size((tg_dtype)x->dtype);
    tg_convert(one, (tg_dtype)x->dtype, &value, TG_F64, 1);
    char *values = tg_values(x);
    int64_t index[TG_MAX_RANK] = {0}, place = 0;
    for (int64_t i = 0; i < x->count; i++) {
        memcpy(values + (x->contiguous ? i : place) * (int64_t)size, one, size);
        for (int axis = x->rank - 1; !x->contiguous && axis >= 0; axis--) {
            place += x->strides[axis];
            if (++index[axis] < x->shape[axis]) {
                break;
            }
            place -= x->strides[axis] * x->shape[axis];
            index[axis] = 0;
        }
    }
    tg_touch(x);
    return true;
}

bool tg_fill_from(tg_tensor *x, const void *values, tg_error *error)
{
    if (!x || (!values && x->count > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "fill_from: the %s NULL", x ? "values are" : "tensor is");
    }
    tg_copy_from_contiguous(x, values);
    tg_touch(x);
    return true;
}

bool tg_fill_copy(tg_tensor *to, const tg_tensor *from, tg_error *error)
{
    if (!to || !from) {
        return tg_error_set(error, TG_ERROR_STATE, "fill_copy: the %s tensor is NULL", to ? "source" : "target");
    }
    if (to->dtype != from->dtype) {
        return tg_error_set(error, TG_ERROR_DTYPE, "fill_copy: a %s tensor into a %s one; tg_tensor_new_cast converts",
                            tg_dtype_name((tg_dtype)from->dtype), tg_dtype_name((tg_dtype)to->dtype));
    }
    tg_shape to_shape = tg_shape_of(to), from_shape = tg_shape_of(from);
    if (!tg_shape_equal(to_shape, from_shape)) {
        char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
        return tg_error_set(error, TG_ERROR_SHAPE, "fill_copy: shape %s into shape %s; they must be equal",
                            tg_shape_format(from_shape, a), tg_shape_format(to_shape, b));
    }
    if (to->contiguous) {
        if (tg_values(to) != tg_values(from) || !from->contiguous) {
            tg_copy_to_contiguous(from, tg_values(to));
        }
    } else if (from->contiguous) {
        tg_copy_from_contiguous(to, tg_values(from));
    } else {
        void *buffer = borrow("fill_copy", to, tg_dtype_size((tg_dtype)to->dtype), to->count == 0, error);
        if (!buffer) {
            return false;
        }
        tg_copy_to_contiguous(from, buffer);
        give_back(to, buffer, to->count == 0);
        return true;
    }
    tg_touch(to);
    return true;
}

bool tg_fill_uniform(tg_tensor *x, tg_rng *rng, double low, double high, tg_error *error)
{
    if (!check_float("fill_uniform", x, rng, error)) {
        return false;
    }
    if (!isfinite(low) || !isfinite(high) || low > high) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "fill_uniform: from %g to %g; allowed are finite bounds, low <= high", low, high);
    }
    bool direct = x->contiguous;
    void *buffer = borrow("fill_uniform", x, tg_dtype_size((tg_dtype)x->dtype), direct, error);
    if (!buffer) {
        return false;
    }
    if (x->dtype == TG_F32) {
        tg_rng_uniform_f32(rng, buffer, x->count, low, high);
    } else {
        tg_rng_uniform_f64(rng, buffer, x->count, low, high);
    }
    give_back(x, buffer, direct);
    return true;
}

bool tg_fill_normal(tg_tensor *x, tg_rng *rng, double mean, double std, tg_error *error)
{
    if (!check_float("fill_normal", x, rng, error)) {
        return false;
    }
    if (!isfinite(mean) || !isfinite(std) || std < 0) {
        return tg_error_set(
            error, TG_ERROR_VALUE,
            "fill_normal: mean %g and standard deviation %g; allowed are finite numbers, the latter >= 0", mean, std);
    }
    bool direct = x->contiguous;
    void *buffer = borrow("fill_normal", x, tg_dtype_size((tg_dtype)x->dtype), direct, error);
    if (!buffer) {
        return false;
    }
    int64_t portion = direct ? x->count : 1;
    for (int64_t done = 0; done < x->count; done += portion) {
        if (x->dtype == TG_F32) {
            tg_rng_normal_f32(rng, (float *)buffer + done, portion, mean, std);
        } else {
            tg_rng_normal_f64(rng, (double *)buffer + done, portion, mean, std);
        }
    }
    give_back(x, buffer, direct);
    return true;
}

bool tg_fill_exponential(tg_tensor *x, tg_rng *rng, double lambda, tg_error *error)
{
    if (!check_float("fill_exponential", x, rng, error)) {
        return false;
    }
    if (!(lambda > 0) || !isfinite(lambda)) {
        return tg_error_set(error, TG_ERROR_VALUE, "fill_exponential: rate %g; allowed are finite numbers above 0",
                            lambda);
    }
    bool direct = x->contiguous;
    void *buffer = borrow("fill_exponential", x, tg_dtype_size((tg_dtype)x->dtype), direct, error);
    if (!buffer) {
        return false;
    }
    if (x->dtype == TG_F32) {
        tg_rng_exponential_f32(rng, buffer, x->count, lambda);
    } else {
        tg_rng_exponential_f64(rng, buffer, x->count, lambda);
    }
    give_back(x, buffer, direct);
    return true;
}

static void store_integers(tg_tensor *x, char *out, const int64_t *drawn, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        switch (x->dtype) {
        case TG_F32: ((float *)(void *)out)[i] = (float)drawn[i]; break;
        case TG_F64: ((double *)(void *)out)[i] = (double)drawn[i]; break;
        case TG_I32: ((int32_t *)(void *)out)[i] = (int32_t)drawn[i]; break;
        default: ((uint8_t *)out)[i] = (uint8_t)drawn[i];
        }
    }
}

bool tg_fill_bernoulli(tg_tensor *x, tg_rng *rng, double p, tg_error *error)
{
    if (!check("fill_bernoulli", x, rng, error)) {
        return false;
    }
    if (!(p >= 0 && p <= 1)) {
        return tg_error_set(error, TG_ERROR_VALUE, "fill_bernoulli: probability %g is outside [0,1]", p);
    }
    size_t size = tg_dtype_size((tg_dtype)x->dtype);
    bool direct = x->contiguous;
    char *buffer = borrow("fill_bernoulli", x, size, direct, error);
    if (!buffer) {
        return false;
    }
    uint8_t drawn[512];
    for (int64_t done = 0; done < x->count; done += (int64_t)sizeof drawn) {
        int64_t portion = x->count - done < (int64_t)sizeof drawn ? x->count - done : (int64_t)sizeof drawn;
        tg_rng_bernoulli(rng, drawn, portion, p);
        tg_convert(buffer + (size_t)done * size, (tg_dtype)x->dtype, drawn, TG_U8, portion);
    }
    give_back(x, buffer, direct);
    return true;
}

bool tg_fill_randint(tg_tensor *x, tg_rng *rng, int64_t low, int64_t high, tg_error *error)
{
    if (!check("fill_randint", x, rng, error)) {
        return false;
    }
    int64_t least = x->dtype == TG_I32  ? INT32_MIN
                    : x->dtype == TG_U8 ? 0
                                        : -((int64_t)1 << (x->dtype == TG_F32 ? 24 : 53));
    int64_t most = x->dtype == TG_I32 ? INT32_MAX : x->dtype == TG_U8 ? UINT8_MAX : -least;
    if (low >= high || low < least || high - 1 > most) {
        return tg_error_set(
            error, TG_ERROR_VALUE, "fill_randint: [%lld,%lld); a %s tensor allows low < high within [%lld,%lld]",
            (long long)low, (long long)high, tg_dtype_name((tg_dtype)x->dtype), (long long)least, (long long)most);
    }
    size_t size = tg_dtype_size((tg_dtype)x->dtype);
    bool direct = x->contiguous;
    char *buffer = borrow("fill_randint", x, size, direct, error);
    if (!buffer) {
        return false;
    }
    int64_t drawn[64];
    for (int64_t done = 0; done < x->count; done += 64) {
        int64_t portion = x->count - done < 64 ? x->count - done : 64;
        tg_rng_randint(rng, drawn, portion, low, high);
        store_integers(x, buffer + (size_t)done * size, drawn, portion);
    }
    give_back(x, buffer, direct);
    return true;
}

bool tg_fill_randperm(tg_tensor *x, tg_rng *rng, tg_error *error)
{
    if (!check("fill_randperm", x, rng, error)) {
        return false;
    }
    if (x->dtype != TG_I32 || x->rank != 1 || x->count > INT32_MAX) {
        return tg_error_set(error, TG_ERROR_SHAPE, "fill_randperm: a %s tensor of rank %d; allowed is i32 of rank 1",
                            tg_dtype_name((tg_dtype)x->dtype), x->rank);
    }
    if (x->count == 0) {
        return true;
    }
    int64_t *drawn = borrow("fill_randperm", x, sizeof *drawn, false, error);
    if (!drawn) {
        return false;
    }
    tg_rng_randperm(rng, drawn, x->count);
    int32_t *values = tg_values(x);
    for (int64_t i = 0; i < x->count; i++) {
        values[i * x->strides[0]] = (int32_t)drawn[i];
    }
    tg_free(drawn);
    tg_touch(x);
    return true;
}

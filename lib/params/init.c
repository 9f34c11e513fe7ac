/* init: initial values of weights. Follows torch/nn/init.py, with the same formulas and the same draws.
 *
 *   xavier    std = gain sqrt(2 / (fan_in + fan_out))                      (Glorot and Bengio 2010)
 *   kaiming   std = gain / sqrt(fan),  gain = sqrt(2 / (1 + a^2))          (He et al. 2015)
 *   uniform   between -sqrt(3) std and sqrt(3) std
 *   trunc     If more than 0.3 of the distribution is inside [low,high]: normal values, drawn again while they are
 *             outside. Else uniform values, accepted with probability density / peak density (PyTorch 2.13).
 */
#include <math.h>
#include <string.h>

#include <tapegrad/params.h>

#include "base/alloc.h"
#include "math/normal_tail.h"
#include "tensor/overlap.h"

/* Computes fan_in and fan_out. For an empty tensor both are 1. */
static bool fans_of(const char *call, const tg_tensor *x, double *fan_in, double *fan_out, tg_error *error)
{
    if (!tg_tensor_check_target(call, "tensor", x, error)) {
        return false;
    }
    if (x->rank < 2) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: a tensor of rank %d has no fans; it must have rank 2 or more",
                            call, x->rank);
    }
    double field = 1;
    for (int axis = 2; axis < x->rank; axis++) {
        field *= (double)x->shape[axis];
    }
    *fan_in = x->count > 0 ? (double)x->shape[1] * field : 1;
    *fan_out = x->count > 0 ? (double)x->shape[0] * field : 1;
    return true;
}

static bool xavier_std(const char *call, const tg_tensor *x, double gain, double *std, tg_error *error)
{
    double fan_in = 0, fan_out = 0;
    if (!fans_of(call, x, &fan_in, &fan_out, error)) {
        return false;
    }
    if (!(gain >= 0) || !isfinite(gain)) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: gain %g; it must be finite and at least 0", call, gain);
    }
    *std = gain * sqrt(2.0 / (fan_in + fan_out));
    return true;
}

static bool kaiming_std(const char *call, const tg_tensor *x, double a, tg_fan fan, double *std, tg_error *error)
{
    double fan_in = 0, fan_out = 0;
    if (!fans_of(call, x, &fan_in, &fan_out, error)) {
        return false;
    }
    if (!isfinite(a)) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: a negative slope of %g; it must be finite", call, a);
    }
    *std = sqrt(2.0 / (1 + a * a)) / sqrt(fan == TG_FAN_IN ? fan_in : fan_out);
    return true;
}

bool tg_init_xavier_uniform(tg_tensor *x, tg_rng *rng, double gain, tg_error *error)
{
    double std = 0;
    return xavier_std("init_xavier_uniform", x, gain, &std, error) &&
           tg_tensor_fill_uniform(x, rng, -sqrt(3.0) * std, sqrt(3.0) * std, error);
}

bool tg_init_xavier_normal(tg_tensor *x, tg_rng *rng, double gain, tg_error *error)
{
    double std = 0;
    return xavier_std("init_xavier_normal", x, gain, &std, error) && tg_tensor_fill_normal(x, rng, 0, std, error);
}

bool tg_init_kaiming_uniform(tg_tensor *x, tg_rng *rng, double a, tg_fan fan, tg_error *error)
{
    double std = 0;
    return kaiming_std("init_kaiming_uniform", x, a, fan, &std, error) &&
           tg_tensor_fill_uniform(x, rng, -sqrt(3.0) * std, sqrt(3.0) * std, error);
}

bool tg_init_kaiming_normal(tg_tensor *x, tg_rng *rng, double a, tg_fan fan, tg_error *error)
{
    double std = 0;
    return kaiming_std("init_kaiming_normal", x, a, fan, &std, error) && tg_tensor_fill_normal(x, rng, 0, std, error);
}

/* The arguments of trunc_normal_. PyTorch rounds each operation to the tensor's dtype. */
typedef struct truncated {
    bool f32;
    double mean, std, low, high;
    double log_peak; /* the largest log density in [low,high], without the normalizing constant */
} truncated;

static double rounded(const truncated *cut, double x)
{
    return cut->f32 ? (double)(float)x : x;
}

/* Draws normal values, and draws those outside of [low,high] again until none is outside. Each round draws x->count
 * values. */
static void redraw_outside(tg_tensor *x, tg_tensor *drawn, tg_rng *rng, const truncated *cut)
{
    double low = rounded(cut, cut->low), high = rounded(cut, cut->high);
    bool is_drawn;
    tg_tensor_fill_normal(x, rng, cut->mean, cut->std, NULL);
    do {
        is_drawn = false;
        for (int64_t i = 0; i < x->count; i++) {
            if (tg_get(x, i) < low || tg_get(x, i) > high) {
                is_drawn = is_drawn || tg_tensor_fill_normal(drawn, rng, cut->mean, cut->std, NULL);
                tg_put(x, i, tg_get(drawn, i));
            }
        }
    } while (is_drawn);
}

/* Returns the logarithm of density / peak density. */
static double log_density(const truncated *cut, double x)
{
    double z = rounded(cut, rounded(cut, x - rounded(cut, cut->mean)) / rounded(cut, cut->std));
    return rounded(cut, rounded(cut, z * z) * -0.5 - rounded(cut, cut->log_peak));
}

/* Draws uniform candidates, each accepted with probability density / peak density. waiting[i] is 1 until value i is
 * accepted. */
static void accept_by_density(tg_tensor *x, tg_tensor *drawn, uint8_t *waiting, tg_rng *rng, const truncated *cut)
{
    memset(waiting, 1, (size_t)x->count);
    for (int64_t left = x->count; left > 0;) {
        tg_tensor_fill_uniform(drawn, rng, cut->low, cut->high, NULL);
        for (int64_t i = 0; i < x->count; i++) {
            if (waiting[i]) {
                tg_put(x, i, tg_get(drawn, i));
            }
        }
        tg_tensor_fill_uniform(drawn, rng, 0, 1, NULL);
        for (int64_t i = 0; i < x->count; i++) {
            if (waiting[i] && !(rounded(cut, tg_log_f64(tg_get(drawn, i))) > log_density(cut, tg_get(x, i)))) {
                waiting[i] = 0;
                left--;
            }
        }
    }
}

static double normal_cdf(double x)
{
    double density, tail = tg_normal_tail_f64(fabs(x), &density);
    return x < 0 ? tail : 1 - tail;
}

bool tg_init_trunc_normal(tg_tensor *x, tg_rng *rng, double mean, double std, double low, double high, tg_error *error)
{
    static const char call[] = "init_trunc_normal";
    if (!tg_tensor_check_target(call, "tensor", x, error)) {
        return false;
    }
    if (!rng) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the generator is NULL", call);
    }
    if (!tg_dtype_is_float(x->dtype) || !x->contiguous) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: a %s tensor%s; it must be contiguous f32 or f64", call,
                            tg_dtype_name(tg_dtype_of(x)), x->contiguous ? "" : " with gaps");
    }
    const double most = x->dtype == TG_F32 ? FLT_MAX / 2 : DBL_MAX / 2; /* so that high - low is finite */
    if (!(std > 0) || !(low < high) || !(fabs(mean) <= most) || !(std <= most) || !(-low <= most) || !(high <= most)) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: mean %g, standard deviation %g, cut at %g and %g; all must lie in [%g,%g], the "
                            "deviation above 0, and low < high",
                            call, mean, std, low, high, -most, most);
    }
    double mode = fmax(low, fmin(mean, high)), z = (mode - mean) / std;
    truncated cut = {x->dtype == TG_F32, mean, std, low, high, -0.5 * (z * z)};
    if (!isfinite(rounded(&cut, z * z))) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: cut at %g and %g, which is %g standard deviations %g away from the mean %g; that has "
                            "no density",
                            call, low, high, fabs(z), std, mean);
    }
    tg_tensor *drawn = tg_tensor_new(tg_dtype_of(x), tg_shape_of(x), error);
    uint8_t *waiting = drawn ? tg_alloc((uint64_t)x->count + 1, 1) : NULL;
    if (!waiting) {
        tg_release(drawn);
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld values", call, (long long)x->count);
    }
    if (normal_cdf((high - mean) / std) - normal_cdf((low - mean) / std) > 0.3) {
        redraw_outside(x, drawn, rng, &cut);
    } else {
        accept_by_density(x, drawn, waiting, rng, &cut);
    }
    tg_touch(x);
    tg_free(waiting);
    tg_release(drawn);
    return true;
}

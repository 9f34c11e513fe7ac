/* init: what weights start as. Follows torch/nn/init.py, formula by formula and draw by draw.
 *
 *   xavier    std = gain sqrt(2 / (fan_in + fan_out))                      (Glorot and Bengio 2010)
 *   kaiming   std = gain / sqrt(fan),  gain = sqrt(2 / (1 + a^2))          (He et al. 2015)
 *   uniform   in +- sqrt(3) std
 *   trunc     mean + std sqrt(2) erfinv(u),  u uniform in (2 Phi(low) - 1, 2 Phi(high) - 1), then clamped
 */
#include <math.h>

#include <tapegrad/params.h>

#include "tensor/tensor.h"

static bool fans_of(const char *name, const tg_tensor *x, double *fan_in, double *fan_out, tg_error *error)
{
    if (!x) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the tensor is NULL", name);
    }
    if (x->rank < 2) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: a tensor of rank %d has no fans; it must have rank 2 or more", name,
                            x->rank);
    }
    double field = 1;
    for (int axis = 2; axis < x->rank; axis++) {
        field *= (double)x->shape[axis];
    }
    *fan_in = (double)x->shape[1] * field;
    *fan_out = (double)x->shape[0] * field;
    return true;
}

static bool xavier_std(const char *name, const tg_tensor *x, double gain, double *std, tg_error *error)
{
    double fan_in = 0, fan_out = 0;
    if (!fans_of(name, x, &fan_in, &fan_out, error)) {
        return false;
    }
    *std = gain * sqrt(2.0 / (fan_in + fan_out));
    return true;
}

static bool kaiming_std(const char *name, const tg_tensor *x, double a, tg_fan fan, double *std, tg_error *error)
{
    double fan_in = 0, fan_out = 0;
    if (!fans_of(name, x, &fan_in, &fan_out, error)) {
        return false;
    }
    *std = sqrt(2.0 / (1 + a * a)) / sqrt(fan == TG_FAN_IN ? fan_in : fan_out);
    return true;
}

bool tg_init_xavier_uniform(tg_tensor *x, tg_rng *rng, double gain, tg_error *error)
{
    double std;
    return xavier_std("init_xavier_uniform", x, gain, &std, error) &&
           tg_fill_uniform(x, rng, -sqrt(3.0) * std, sqrt(3.0) * std, error);
}

bool tg_init_xavier_normal(tg_tensor *x, tg_rng *rng, double gain, tg_error *error)
{
    double std;
    return xavier_std("init_xavier_normal", x, gain, &std, error) && tg_fill_normal(x, rng, 0, std, error);
}

bool tg_init_kaiming_uniform(tg_tensor *x, tg_rng *rng, double a, tg_fan fan, tg_error *error)
{
    double std;
    return kaiming_std("init_kaiming_uniform", x, a, fan, &std, error) &&
           tg_fill_uniform(x, rng, -sqrt(3.0) * std, sqrt(3.0) * std, error);
}

bool tg_init_kaiming_normal(tg_tensor *x, tg_rng *rng, double a, tg_fan fan, tg_error *error)
{
    double std;
    return kaiming_std("init_kaiming_normal", x, a, fan, &std, error) && tg_fill_normal(x, rng, 0, std, error);
}

/* The inverse of erf: a rational start (Winitzki 2008), then Newton's steps with Halley's correction until it stands. */
static double erfinv(double y)
{
    if (y <= -1 || y >= 1) {
        return y <= -1 ? -INFINITY : INFINITY;
    }
    double l = log1p(-y * y), b = 2 / (3.14159265358979323846 * 0.147) + l / 2;
    double x = copysign(sqrt(sqrt(b * b - l / 0.147) - b), y);
    for (int i = 0; i < 4; i++) {
        double error = y < 0 ? erfc(-x) - (1 + y) : (1 - y) - erfc(x); /* erf(x) - y without cancellation near 1 */
        double step = error / (1.12837916709551257390 * exp(-x * x));
        x -= step / (1 + x * step);
    }
    return x;
}

bool tg_init_trunc_normal(tg_tensor *x, tg_rng *rng, double mean, double std, double low, double high, tg_error *error)
{
    if (!(std > 0) || !(low < high) || !isfinite(mean) || !isfinite(std)) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "init_trunc_normal: mean %g, standard deviation %g, cut at %g and %g; allowed are a deviation "
                            "above 0 and low < high",
                            mean, std, low, high);
    }
    double from = (1 + erf((low - mean) / std / sqrt(2.0))) / 2, to = (1 + erf((high - mean) / std / sqrt(2.0))) / 2;
    if (x && !x->contiguous) {
        return tg_error_set(error, TG_ERROR_STATE, "init_trunc_normal: the tensor must be contiguous");
    }
    if (!tg_fill_uniform(x, rng, 2 * from - 1, 2 * to - 1, error)) {
        return false;
    }
    for (int64_t i = 0; i < x->count; i++) {
        if (x->dtype == TG_F32) {
            float *value = (float *)tg_values(x) + i;
            *value = (float)erfinv((double)*value) * (float)(std * sqrt(2.0)) + (float)mean;
            *value = fminf(fmaxf(*value, (float)low), (float)high);
        } else {
            double *value = (double *)tg_values(x) + i;
            *value = fmin(fmax(erfinv(*value) * (std * sqrt(2.0)) + mean, low), high);
        }
    }
    return true;
}

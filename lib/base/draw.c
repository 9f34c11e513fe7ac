/* draw: one number of a distribution, and the checks of its parameters, which the fills of tensors share. */
#include <math.h>

#include <tapegrad/extend.h>

#include "base/random.h"

bool tg_rng_check(const char *call, const tg_rng *rng, tg_error *error)
{
    return rng || tg_error_set(error, TG_ERROR_STATE, "%s: the generator is NULL", call);
}

bool tg_rng_check_uniform(const char *call, double low, double high, tg_error *error)
{
    return (isfinite(low) && isfinite(high) && low <= high) ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: from %g to %g; the bounds must be finite, and low <= high", call,
                        low, high);
}

bool tg_rng_check_normal(const char *call, double mean, double std, tg_error *error)
{
    return (isfinite(mean) && isfinite(std) && std >= 0) ||
           tg_error_set(error, TG_ERROR_VALUE,
                        "%s: mean %g and standard deviation %g; both must be finite, and the deviation at least 0",
                        call, mean, std);
}

double tg_rng_uniform(tg_rng *rng, double low, double high, tg_error *error)
{
    float value = NAN;
    if (tg_rng_check("rng_uniform", rng, error) && tg_rng_check_uniform("rng_uniform", low, high, error)) {
        tg_rng_uniform_f32(rng, &value, 1, low, high);
    }
    return (double)value;
}

double tg_rng_normal(tg_rng *rng, double mean, double std, tg_error *error)
{
    float value = NAN;
    if (tg_rng_check("rng_normal", rng, error) && tg_rng_check_normal("rng_normal", mean, std, error)) {
        tg_rng_normal_f32(rng, &value, 1, mean, std);
    }
    return (double)value;
}

int64_t tg_rng_randint(tg_rng *rng, int64_t low, int64_t high, tg_error *error)
{
    int64_t value = 0;
    if (!tg_rng_check("rng_randint", rng, error)) {
        return value;
    }
    if (low >= high) {
        tg_error_set(error, TG_ERROR_VALUE, "rng_randint: [%lld,%lld) is empty; low must be below high", (long long)low,
                     (long long)high);
        return value;
    }
    tg_rng_integers(rng, &value, 1, low, high);
    return value;
}

#include <math.h>
#include <string.h>

#include "tools/event.h"

/* The number of limits above 0. */
#define POSITIVE ((TG_HISTOGRAM_LIMITS - 1) / 2)

static void set_limits(double *limits)
{
    double limit = 1e-12;
    limits[POSITIVE] = 0;
    for (int i = 1; i <= POSITIVE; i++, limit *= 1.1) {
        limits[POSITIVE + i] = limit;
        limits[POSITIVE - i] = -limit;
    }
}

/* Returns the index of the bin of x, which is within the limits. */
static int bin_of(const double *limits, double x)
{
    int low = 0, high = TG_HISTOGRAM_LIMITS - 1;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (x < limits[middle]) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return low;
}

bool tg_histogram_make(tg_histogram *h, const tg_tensor *x)
{
    memset(h, 0, sizeof *h);
    set_limits(h->limits);
    h->min = INFINITY;
    h->max = -INFINITY;
    bool is_f32 = tg_tensor_dtype(x) == TG_F32, is_contiguous = tg_tensor_is_contiguous(x), has_bin = false;
    const void *data = tg_tensor_data(x);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double value = !is_contiguous ? tg_tensor_value_at(x, i)
                       : is_f32       ? (double)((const float *)data)[i]
                                      : ((const double *)data)[i];
        if (!isfinite(value)) {
            continue;
        }
        h->min = fmin(h->min, value);
        h->max = fmax(h->max, value);
        h->num++;
        h->sum += value;
        h->sum_squares += value * value;
        if (fabs(value) <= h->limits[TG_HISTOGRAM_LIMITS - 1]) {
            h->counts[bin_of(h->limits, value)]++;
            has_bin = true;
        }
    }
    return has_bin;
}

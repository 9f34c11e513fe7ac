/* clip: gradients that are too large. Rows are clipped as they are; those that do not exist are zero and stay so.
 *
 *   by norm    g = g min(1, max_norm / (norm + 1e-6)),  norm = sqrt(sum over all gradients of g^2)
 *   by value   g = min(max(g, -limit), limit)
 *
 * The sum is kept in double, parameter by parameter in order. Follows torch/nn/utils/clip_grad.py.
 */
#include <tapegrad/optim.h>

#include "base/real.h"
#include "tensor/tensor.h"

/* Where a parameter's gradient values are, dense or rows. */
typedef struct gradient_values {
    void *values;
    int64_t count;
} gradient_values;

double tg_sum_of_squares_f32(const void *values, int64_t count);
double tg_sum_of_squares_f64(const void *values, int64_t count);
void tg_scale_values_f32(void *values, int64_t count, double factor);
void tg_scale_values_f64(void *values, int64_t count, double factor);
void tg_clamp_values_f32(void *values, int64_t count, double limit);
void tg_clamp_values_f64(void *values, int64_t count, double limit);

double KERNEL(tg_sum_of_squares)(const void *values, int64_t count)
{
    const real *g = values;
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        sum += (double)g[i] * (double)g[i];
    }
    return sum;
}

void KERNEL(tg_scale_values)(void *values, int64_t count, double factor)
{
    real *g = values;
    for (int64_t i = 0; i < count; i++) {
        g[i] *= (real)factor;
    }
}

void KERNEL(tg_clamp_values)(void *values, int64_t count, double limit)
{
    real *g = values, most = (real)limit;
    for (int64_t i = 0; i < count; i++) {
        g[i] = g[i] > most ? most : g[i] < -most ? -most : g[i];
    }
}

#ifdef TG_ONCE

/* The gradient of entry i; count 0 when it has none, or is an alias. */
static gradient_values values_of(const tg_params *params, int64_t i)
{
    tg_entry entry = tg_params_at(params, i);
    if (entry.kind != TG_ENTRY_PARAMETER || tg_gradient_kind_of(entry.tensor) == TG_GRADIENT_NONE) {
        return (gradient_values){NULL, 0};
    }
    const tg_gradient *gradient = entry.tensor->gradient;
    return gradient->kind == TG_GRADIENT_DENSE
               ? (gradient_values){tg_values(gradient->dense), entry.tensor->count}
               : (gradient_values){gradient->values, gradient->count * entry.tensor->shape[1]};
}

double tg_clip_grad_norm(tg_params *params, double max_norm)
{
    if (!params || !(max_norm >= 0)) {
        return (double)NAN;
    }
    bool f32 = tg_params_dtype(params) == TG_F32;
    double squares = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        gradient_values g = values_of(params, i);
        squares += (f32 ? tg_sum_of_squares_f32 : tg_sum_of_squares_f64)(g.values, g.count);
    }
    double norm = sqrt(squares), factor = max_norm / (norm + 1e-6);
    for (int64_t i = 0; !(factor >= 1) && i < tg_params_count(params); i++) {
        gradient_values g = values_of(params, i);
        (f32 ? tg_scale_values_f32 : tg_scale_values_f64)(g.values, g.count, factor);
    }
    return norm;
}

bool tg_clip_grad_value(tg_params *params, double limit)
{
    if (!params || !(limit >= 0)) {
        return false;
    }
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        gradient_values g = values_of(params, i);
        (tg_params_dtype(params) == TG_F32 ? tg_clamp_values_f32 : tg_clamp_values_f64)(g.values, g.count, limit);
    }
    return true;
}

#endif

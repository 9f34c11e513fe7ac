/* adam: Adam, AMSGrad and AdamW, which differ in a maximum and in where weight decay enters.
 *
 *   x = x (1 - lr weight_decay)                 AdamW
 *   g = g + weight_decay x                      Adam, if there is any
 *   m = m + (1 - beta1) (g - m)
 *   v = beta2 v + (1 - beta2) g g
 *   r = v, or AMSGrad's largest v so far, which is kept without the correction by 1 - beta2^t
 *   x = x - (lr / (1 - beta1^t)) m / (sqrt(r) / sqrt(1 - beta2^t) + eps)
 *
 * Follows torch/optim/adam.py (single tensor, PyTorch 2.13), operation by operation; PyTorch's vector code fuses some
 * multiplications with additions, this one rounds both. Every step reads four arrays and writes three: large models are
 * bound by memory, but only with vectors of 32 bytes, since a root and two divisions take their time. So the loop is
 * compiled a second time for processors that have them; nothing is fused, so the bits are the same.
 */
#include "base/fma.h"
#include "base/real.h"
#include "optim/optim.h"
#include "params/params.h"

tg_optim_kernel tg_adam_update_f32, tg_adam_update_f64;

enum { SHRINK, DECAY, TO_MEAN, KEEP_SQUARE, TO_SQUARE, ROOT_CORRECTION, EPS, STEP_SIZE };

TG_FMA_BODY void KERNEL(update_run)(const double *factors, void *theta, const void *gradient, void *const *state,
                                    int64_t count)
{
    real *restrict x = theta;
    const real *restrict g = gradient;
    real *restrict m = state[0], *restrict v = state[1], *restrict largest = state[2];
    const real shrink = (real)factors[SHRINK], decay = (real)factors[DECAY], to_mean = (real)factors[TO_MEAN];
    const real keep_square = (real)factors[KEEP_SQUARE], to_square = (real)factors[TO_SQUARE];
    const real correction = (real)factors[ROOT_CORRECTION], eps = (real)factors[EPS], step = (real)factors[STEP_SIZE];
    for (int64_t i = 0; i < count; i++) {
        real before = x[i] * shrink;
        real slope = decay != 0 ? g[i] + decay * before : g[i];
        real mean = m[i] + to_mean * (slope - m[i]);
        real square = keep_square * v[i] + to_square * slope * slope;
        m[i] = mean;
        v[i] = square;
        if (largest) {
            square = largest[i] = square < largest[i] ? largest[i] : square;
        }
        x[i] = before - step * mean / (REAL(sqrt)(square) / correction + eps);
    }
}

void KERNEL(tg_adam_update_portable)(const double *factors, void *theta, const void *gradient, void *const *state,
                                     int64_t count)
{
    KERNEL(update_run)(factors, theta, gradient, state, count);
}

TG_FMA_VERSION
void KERNEL(tg_adam_update_wide)(const double *factors, void *theta, const void *gradient, void *const *state,
                                 int64_t count)
{
    KERNEL(update_run)(factors, theta, gradient, state, count);
}

void KERNEL(tg_adam_update)(const double *factors, void *theta, const void *gradient, void *const *state, int64_t count)
{
    (tg_has_fma() ? KERNEL(tg_adam_update_wide) : KERNEL(tg_adam_update_portable))(factors, theta, gradient, state,
                                                                                   count);
}

#ifdef TG_ONCE

static void prepare_moments(const tg_adam_config *adam, double lr, int64_t step, double *factors)
{
    double t = (double)step;
    factors[TO_MEAN] = 1 - adam->beta1;
    factors[KEEP_SQUARE] = adam->beta2;
    factors[TO_SQUARE] = 1 - adam->beta2;
    factors[ROOT_CORRECTION] = sqrt(1 - pow(adam->beta2, t));
    factors[EPS] = adam->eps;
    factors[STEP_SIZE] = lr / (1 - pow(adam->beta1, t));
}

static void prepare_adam(const tg_optim_config *config, double lr, double weight_decay, int64_t step, double *factors)
{
    prepare_moments(&config->adam, lr, step, factors);
    factors[SHRINK] = 1;
    factors[DECAY] = weight_decay;
}

static void prepare_adamw(const tg_optim_config *config, double lr, double weight_decay, int64_t step, double *factors)
{
    prepare_moments(&config->adam, lr, step, factors);
    factors[SHRINK] = 1 - lr * weight_decay;
    factors[DECAY] = 0;
}

static const tg_optim_method adam_method = {
    .name = "adam",
    .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .prepare = prepare_adam,
    .update_f32 = tg_adam_update_f32,
    .update_f64 = tg_adam_update_f64,
};

static const tg_optim_method adamw_method = {
    .name = "adamw",
    .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .prepare = prepare_adamw,
    .update_f32 = tg_adam_update_f32,
    .update_f64 = tg_adam_update_f64,
};

tg_adam_config tg_adam_config_default(void)
{
    return (tg_adam_config){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

tg_adamw_config tg_adamw_config_default(void)
{
    tg_adamw_config config = tg_adam_config_default();
    config.weight_decay = 1e-2;
    return config;
}

static tg_optim *make(tg_params *params, const tg_optim_method *method, const tg_adam_config *config)
{
    if (!tg_optim_check_option(params, method->name, "learning rate", config->lr) ||
        !tg_optim_check_beta(params, method->name, 1, config->beta1) ||
        !tg_optim_check_beta(params, method->name, 2, config->beta2) ||
        !tg_optim_check_option(params, method->name, "eps", config->eps) ||
        !tg_optim_check_option(params, method->name, "weight decay", config->weight_decay)) {
        return NULL;
    }
    tg_optim_config common = {.adam = *config};
    return tg_optim_new(params, method, &common, config->amsgrad ? 3 : 2, config->lr, config->weight_decay);
}

tg_optim *tg_adam_new(tg_params *params, const tg_adam_config *config)
{
    tg_adam_config standard = tg_adam_config_default();
    return make(params, &adam_method, config ? config : &standard);
}

tg_optim *tg_adamw_new(tg_params *params, const tg_adamw_config *config)
{
    tg_adamw_config standard = tg_adamw_config_default();
    return make(params, &adamw_method, config ? config : &standard);
}

#endif

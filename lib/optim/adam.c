/* adam: Adam, AMSGrad and AdamW. AMSGrad differs in r, AdamW in the weight decay.
 *
 *   x = x (1 - lr weight_decay)                 AdamW
 *   g = g + weight_decay x                      Adam, if weight_decay is not 0
 *   m = m + (1 - beta1) (g - m)
 *   v = beta2 v + (1 - beta2) g g
 *   r = v; AMSGrad: the largest v so far, before the correction by 1 - beta2^t
 *   x = x - (lr / (1 - beta1^t)) m / (sqrt(r) / sqrt(1 - beta2^t) + eps)
 *
 * Follows torch/optim/adam.py (single tensor, PyTorch 2.13), operation by operation. PyTorch's vector code fuses some
 * multiplications with additions; here both are rounded.
 *
 * A step reads four arrays and writes three. For large models the time is bound by memory if the root and the two
 * divisions are computed in vectors.
 */
#include "base/quotient.h"
#include "math/power.h"
#include "optim/deferred.h"

/* `largest` is NULL but for AMSGrad, a constant in each call. */
static inline __attribute__((always_inline)) void update(const tg_optim_factors *factors, real *restrict x,
                                                         const real *restrict g, real *restrict m, real *restrict v,
                                                         real *restrict largest, int64_t count)
{
    const tg_adam_config *config = &factors->config->adam;
    const real decay_factor = (real)factors->decay_factor, weight_decay = (real)factors->weight_decay;
    const real one_minus_beta1 = (real)(1 - config->beta1), beta2 = (real)config->beta2;
    const real one_minus_beta2 = (real)(1 - config->beta2);
    const divisor correction = tg_divisor_of((real)factors->root_correction);
    const real eps = (real)config->eps, step_size = (real)factors->step_size;
    for (int64_t i = 0; i < count; i++) {
        real before = x[i] * decay_factor;
        real total = weight_decay != 0 ? g[i] + weight_decay * before : g[i];
        real mean = m[i] + one_minus_beta1 * (total - m[i]);
        real square = beta2 * v[i] + one_minus_beta2 * total * total;
        m[i] = mean;
        v[i] = square;
        if (largest) {
            square = largest[i] = square < largest[i] ? largest[i] : square;
        }
        x[i] = before - step_size * mean / (quotient(real_sqrt(square), &correction) + eps);
    }
}

void KERNEL(tg_adam_update)(const tg_optim_factors *factors, void *theta, const void *gradient, void *const *state,
                            int64_t count)
{
    if (state[2]) {
        update(factors, theta, gradient, state[0], state[1], state[2], count);
    } else {
        update(factors, theta, gradient, state[0], state[1], NULL, count);
    }
}

#ifdef TG_ONCE

static void prepare(tg_optim_factors *factors, int64_t step)
{
    const tg_adam_config *config = &factors->config->adam;
    double t = (double)step;
    factors->root_correction = sqrt(1 - tg_pow_f64(config->beta2, t));
    factors->step_size = factors->lr / (1 - tg_pow_f64(config->beta1, t));
    factors->decay_factor = config->decoupled ? 1 - factors->lr * factors->weight_decay : 1;
    factors->weight_decay = config->decoupled ? 0 : factors->weight_decay;
}

static bool defer(tg_optim *optim, tg_slot *slot)
{
    return !optim->config.adam.deferred || tg_deferred_new(optim, slot, &tg_deferred_adam);
}

static const tg_optim_method adam_method = {
    .name = "adam",
    .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .prepare = prepare,
    .defer = defer,
    TG_UPDATES(tg_adam_update),
};

static const tg_optim_method adamw_method = {
    .name = "adamw",
    .states = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .prepare = prepare,
    .defer = defer,
    TG_UPDATES(tg_adam_update),
};

TG_CONFIG(tg_adam_config, tg_adam_config_default, adam_mark, .mark = adam_mark, .lr = 1e-3, .beta1 = 0.9,
          .beta2 = 0.999, .eps = 1e-8);
TG_CONFIG(tg_adamw_config, tg_adamw_config_default, adamw_mark, .mark = adamw_mark, .lr = 1e-3, .beta1 = 0.9,
          .beta2 = 0.999, .eps = 1e-8, .decoupled = true, .weight_decay = 1e-2);

static tg_optim *new_adam(tg_params *params, const char *call, const char *mark, const tg_adam_config *given,
                          tg_adam_config defaults)
{
    if (!tg_params_expect_config(params, call, given, mark)) {
        return NULL;
    }
    const tg_adam_config *config = given ? given : &defaults;
    const tg_optim_method *method = config->decoupled ? &adamw_method : &adam_method;
    if (!tg_optim_check_option(params, call, "learning rate", config->lr) ||
        !tg_optim_check_fraction(params, call, "beta1", config->beta1) ||
        !tg_optim_check_fraction(params, call, "beta2", config->beta2) ||
        !tg_optim_check_option(params, call, "eps", config->eps) ||
        !tg_optim_check_option(params, call, "weight decay", config->weight_decay)) {
        return NULL;
    }
    if (config->deferred &&
        (!tg_deferred_check_adam(params, call, config) || !tg_deferred_check_tables(params, call))) {
        return NULL;
    }
    tg_optim_config copy = {.adam = *config};
    return tg_optim_new(params, method, &copy, config->amsgrad ? 3 : 2, config->lr, config->weight_decay);
}

tg_optim *tg_adam_new(tg_params *params, const tg_adam_config *config)
{
    return new_adam(params, "adam", adam_mark, config, tg_adam_config_default());
}

tg_optim *tg_adamw_new(tg_params *params, const tg_adamw_config *config)
{
    return new_adam(params, "adamw", adamw_mark, config, tg_adamw_config_default());
}

#endif

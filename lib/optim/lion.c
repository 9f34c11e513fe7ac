/* lion: steps of one size, in the direction of a sign.
 *
 *   x = x (1 - lr weight_decay)
 *   x = x - lr sign(beta1 m + (1 - beta1) g)
 *   m = beta2 m + (1 - beta2) g
 *
 * Chen et al. 2023, "Symbolic discovery of optimization algorithms", program 1. The sign of 0 is 0.
 */
#include "base/real.h"
#include "optim/optim.h"
#include "params/params.h"

tg_optim_kernel tg_lion_update_f32, tg_lion_update_f64;

enum { LR, SHRINK, KEEP_NOW, TAKE_NOW, KEEP, TAKE };

void KERNEL(tg_lion_update)(const double *factors, void *theta, const void *gradient, void *const *state, int64_t count)
{
    real *restrict x = theta, *restrict m = state[0];
    const real *restrict g = gradient;
    const real lr = (real)factors[LR], shrink = (real)factors[SHRINK], keep = (real)factors[KEEP];
    const real take = (real)factors[TAKE], keep_now = (real)factors[KEEP_NOW], take_now = (real)factors[TAKE_NOW];
    for (int64_t i = 0; i < count; i++) {
        real direction = keep_now * m[i] + take_now * g[i];
        x[i] = x[i] * shrink - lr * (real)((direction > 0) - (direction < 0));
        m[i] = keep * m[i] + take * g[i];
    }
}

#ifdef TG_ONCE

static void prepare(const tg_optim_config *config, double lr, double weight_decay, int64_t step, double *factors)
{
    (void)step;
    factors[LR] = lr;
    factors[SHRINK] = 1 - lr * weight_decay;
    factors[KEEP_NOW] = config->lion.beta1;
    factors[TAKE_NOW] = 1 - config->lion.beta1;
    factors[KEEP] = config->lion.beta2;
    factors[TAKE] = 1 - config->lion.beta2;
}

static const tg_optim_method lion_method = {
    .name = "lion",
    .states = {"exp_avg"},
    .prepare = prepare,
    .update_f32 = tg_lion_update_f32,
    .update_f64 = tg_lion_update_f64,
};

tg_lion_config tg_lion_config_default(void)
{
    return (tg_lion_config){.lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99};
}

tg_optim *tg_lion_new(tg_params *params, const tg_lion_config *given)
{
    tg_lion_config config = given ? *given : tg_lion_config_default();
    if (!tg_optim_check_option(params, "lion", "learning rate", config.lr) ||
        !tg_optim_check_option(params, "lion", "weight decay", config.weight_decay) ||
        !tg_optim_check_beta(params, "lion", 1, config.beta1) ||
        !tg_optim_check_beta(params, "lion", 2, config.beta2)) {
        return NULL;
    }
    tg_optim_config common = {.lion = config};
    return tg_optim_new(params, &lion_method, &common, 1, config.lr, config.weight_decay);
}

#endif

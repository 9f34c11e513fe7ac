/* lion: Lion. All steps have the same size; the sign of a mean of gradients gives their direction.
 *
 *   x = x (1 - lr weight_decay)
 *   x = x - lr sign(beta1 m + (1 - beta1) g)
 *   m = beta2 m + (1 - beta2) g
 *
 * Chen et al. 2023, "Symbolic discovery of optimization algorithms", program 1. The sign of 0 is 0.
 */
#include "base/real.h"
#include "optim/optim.h"

TG_DECLARE_UPDATE(tg_lion_update);

void KERNEL(tg_lion_update)(const tg_optim_factors *factors, void *theta, const void *gradient, void *const *state,
                            int64_t count)
{
    real *restrict x = theta, *restrict m = state[0];
    const real *restrict g = gradient;
    const tg_lion_config *config = &factors->config->lion;
    const real lr = (real)factors->lr, decay_factor = (real)(1 - factors->lr * factors->weight_decay);
    const real beta1 = (real)config->beta1, one_minus_beta1 = (real)(1 - config->beta1);
    const real beta2 = (real)config->beta2, one_minus_beta2 = (real)(1 - config->beta2);
    for (int64_t i = 0; i < count; i++) {
        real direction = beta1 * m[i] + one_minus_beta1 * g[i];
        x[i] = x[i] * decay_factor - lr * (real)((direction > 0) - (direction < 0));
        m[i] = beta2 * m[i] + one_minus_beta2 * g[i];
    }
}

#ifdef TG_ONCE

static const tg_optim_method lion_method = {
    .name = "lion",
    .states = {"exp_avg"},
    TG_UPDATES(tg_lion_update),
};

TG_CONFIG(tg_lion_config, tg_lion_config_default, mark, .mark = mark, .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99);

tg_optim *tg_lion_new(tg_params *params, const tg_lion_config *given)
{
    if (!tg_params_expect_config(params, "lion", given, mark)) {
        return NULL;
    }
    tg_lion_config config = given ? *given : tg_lion_config_default();
    if (!tg_optim_check_option(params, "lion", "learning rate", config.lr) ||
        !tg_optim_check_option(params, "lion", "weight decay", config.weight_decay) ||
        !tg_optim_check_fraction(params, "lion", "beta1", config.beta1) ||
        !tg_optim_check_fraction(params, "lion", "beta2", config.beta2)) {
        return NULL;
    }
    tg_optim_config common = {.lion = config};
    return tg_optim_new(params, &lion_method, &common, 1, config.lr, config.weight_decay);
}

#endif

/* sgd: stochastic gradient descent with momentum.
 *
 *   g = g + weight_decay x                                  if weight_decay is not 0
 *   b = momentum b + (1 - dampening) g                      in a parameter's first step b = g
 *   x = x - lr g,  x - lr b,  or nesterov's  x - lr (g + momentum b)
 *
 * Follows torch/optim/sgd.py (single tensor), operation by operation. b is initialized with zeros, so the first step
 * uses the same formula with the factor 1 instead of 1 - dampening.
 */
#include "base/real.h"
#include "optim/deferred.h"

TG_DECLARE_UPDATE(tg_sgd_update);

void KERNEL(tg_sgd_update)(const tg_optim_factors *factors, void *theta, const void *gradient, void *const *state,
                           int64_t count)
{
    real *restrict x = theta;
    const real *restrict g = gradient;
    const tg_sgd_config *config = &factors->config->sgd;
    const real lr = (real)factors->lr, weight_decay = (real)factors->weight_decay;
    if (!state[0]) {
        for (int64_t i = 0; i < count; i++) {
            real direction = weight_decay != 0 ? g[i] + weight_decay * x[i] : g[i];
            x[i] -= lr * direction;
        }
        return;
    }
    real *restrict b = state[0];
    const real momentum = (real)config->momentum, gradient_factor = (real)factors->gradient_factor;
    const real nesterov = config->nesterov ? momentum : 0;
    for (int64_t i = 0; i < count; i++) {
        real direction = weight_decay != 0 ? g[i] + weight_decay * x[i] : g[i];
        b[i] = momentum * b[i] + gradient_factor * direction;
        x[i] -= lr * (nesterov != 0 ? direction + nesterov * b[i] : b[i]);
    }
}

#ifdef TG_ONCE

static void prepare(tg_optim_factors *factors, int64_t step)
{
    const tg_sgd_config *config = &factors->config->sgd;
    factors->gradient_factor = step == 1 || config->momentum == 0 ? 1 : 1 - config->dampening;
}

static bool defer(tg_optim *optim, tg_slot *slot)
{
    return !optim->config.sgd.deferred || tg_deferred_new(optim, slot, &tg_deferred_sgd);
}

static const tg_optim_method sgd_method = {
    .name = "sgd",
    .states = {"momentum_buffer"},
    .prepare = prepare,
    .defer = defer,
    TG_UPDATES(tg_sgd_update),
};

TG_CONFIG(tg_sgd_config, tg_sgd_config_default, mark, .mark = mark, .lr = 1e-3);

tg_optim *tg_sgd_new(tg_params *params, const tg_sgd_config *given)
{
    if (!tg_params_expect_config(params, "sgd", given, mark)) {
        return NULL;
    }
    tg_sgd_config config = given ? *given : tg_sgd_config_default();
    if (!tg_optim_check_option(params, "sgd", "learning rate", config.lr) ||
        !tg_optim_check_option(params, "sgd", "momentum", config.momentum) ||
        !tg_optim_check_option(params, "sgd", "weight decay", config.weight_decay)) {
        return NULL;
    }
    if (!isfinite(config.dampening)) {
        tg_params_fail(params, TG_ERROR_VALUE, "sgd: dampening %g; it must be finite", config.dampening);
        return NULL;
    }
    if (config.nesterov && (config.momentum == 0 || config.dampening != 0)) {
        tg_params_fail(params, TG_ERROR_VALUE,
                       "sgd: nesterov with momentum %g and dampening %g; it needs a momentum above 0 and no dampening",
                       config.momentum, config.dampening);
        return NULL;
    }
    if (config.deferred &&
        (!tg_deferred_check_sgd(params, "sgd", &config) || !tg_deferred_check_tables(params, "sgd"))) {
        return NULL;
    }
    tg_optim_config common = {.sgd = config};
    return tg_optim_new(params, &sgd_method, &common, config.momentum != 0, config.lr, config.weight_decay);
}

#endif

/* rmsprop: RMSprop. Steps are divided by the square root of a running mean of squared gradients.
 *
 *   g = g + weight_decay x                           if weight_decay is not 0
 *   s = alpha s + (1 - alpha) g g
 *   a = a + (1 - alpha) (g - a)                      centered
 *   r = sqrt(s) + eps                                centered: sqrt(s - a a) + eps, with the variance s - a a
 *   x = x - lr g / r,    or with momentum  b = momentum b + g / r,  x = x - lr b
 *
 * Tieleman and Hinton 2012; centered: Graves 2013. Follows torch/optim/rmsprop.py (single tensor), operation by
 * operation.
 */
#include "base/real.h"
#include "optim/optim.h"

TG_DECLARE_UPDATE(tg_rmsprop_update);

void KERNEL(tg_rmsprop_update)(const tg_optim_factors *factors, void *theta, const void *gradient, void *const *state,
                               int64_t count)
{
    real *restrict x = theta, *restrict s = state[0], *restrict b = state[1], *restrict a = state[2];
    const real *restrict g = gradient;
    const tg_rmsprop_config *config = &factors->config->rmsprop;
    const real lr = (real)factors->lr, weight_decay = (real)factors->weight_decay, alpha = (real)config->alpha;
    const real one_minus_alpha = (real)(1 - config->alpha), eps = (real)config->eps;
    const real momentum = (real)config->momentum;
    for (int64_t i = 0; i < count; i++) {
        real total = weight_decay != 0 ? g[i] + weight_decay * x[i] : g[i];
        s[i] = alpha * s[i] + one_minus_alpha * total * total;
        real square = s[i];
        if (a) {
            a[i] += one_minus_alpha * (total - a[i]);
            square -= a[i] * a[i];
        }
        real direction = total / (real_sqrt(square) + eps);
        if (b) {
            direction = b[i] = momentum * b[i] + direction;
        }
        x[i] -= lr * direction;
    }
}

#ifdef TG_ONCE

/* The centered variant has all three states, even without momentum. With momentum 0 the buffer b is multiplied by 0, so
 * the step is the same as without it. */
static const tg_optim_method rmsprop_method = {
    .name = "rmsprop",
    .states = {"square_avg", "momentum_buffer", "grad_avg"},
    TG_UPDATES(tg_rmsprop_update),
};

TG_CONFIG(tg_rmsprop_config, tg_rmsprop_config_default, mark, .mark = mark, .lr = 1e-2, .alpha = 0.99, .eps = 1e-8);

tg_optim *tg_rmsprop_new(tg_params *params, const tg_rmsprop_config *given)
{
    if (!tg_params_expect_config(params, "rmsprop", given, mark)) {
        return NULL;
    }
    tg_rmsprop_config config = given ? *given : tg_rmsprop_config_default();
    if (!tg_optim_check_option(params, "rmsprop", "learning rate", config.lr) ||
        !tg_optim_check_option(params, "rmsprop", "momentum", config.momentum) ||
        !tg_optim_check_option(params, "rmsprop", "weight decay", config.weight_decay) ||
        !tg_optim_check_option(params, "rmsprop", "eps", config.eps) ||
        !tg_optim_check_fraction(params, "rmsprop", "alpha", config.alpha)) {
        return NULL;
    }
    tg_optim_config common = {.rmsprop = config};
    int states = config.centered ? 3 : config.momentum > 0 ? 2 : 1;
    return tg_optim_new(params, &rmsprop_method, &common, states, config.lr, config.weight_decay);
}

#endif

/* rmsprop: steps divided by the root of a running mean of squared gradients.
 *
 *   g = g + weight_decay x                           if there is any
 *   s = alpha s + (1 - alpha) g g
 *   a = a + (1 - alpha) (g - a)                      centered: the variance s - a a takes the place of s
 *   r = sqrt(s) + eps
 *   x = x - lr g / r,    or with momentum  b = momentum b + g / r,  x = x - lr b
 *
 * Tieleman and Hinton 2012; centered: Graves 2013. Follows torch/optim/rmsprop.py (single tensor), operation by
 * operation.
 */
#include "base/real.h"
#include "optim/optim.h"
#include "params/params.h"

tg_optim_kernel tg_rmsprop_update_f32, tg_rmsprop_update_f64;

enum { LR, DECAY, KEEP, TAKE, EPS, MOMENTUM };

void KERNEL(tg_rmsprop_update)(const double *factors, void *theta, const void *gradient, void *const *state,
                               int64_t count)
{
    real *restrict x = theta, *restrict s = state[0], *restrict b = state[1], *restrict a = state[2];
    const real *restrict g = gradient;
    const real lr = (real)factors[LR], decay = (real)factors[DECAY], keep = (real)factors[KEEP];
    const real take = (real)factors[TAKE], eps = (real)factors[EPS], momentum = (real)factors[MOMENTUM];
    for (int64_t i = 0; i < count; i++) {
        real slope = decay != 0 ? g[i] + decay * x[i] : g[i];
        s[i] = keep * s[i] + take * slope * slope;
        real square = s[i];
        if (a) {
            a[i] += take * (slope - a[i]);
            square -= a[i] * a[i];
        }
        real direction = slope / (REAL(sqrt)(square) + eps);
        if (b) {
            direction = b[i] = momentum * b[i] + direction;
        }
        x[i] -= lr * direction;
    }
}

#ifdef TG_ONCE

static void prepare(const tg_optim_config *config, double lr, double weight_decay, int64_t step, double *factors)
{
    (void)step;
    factors[LR] = lr;
    factors[DECAY] = weight_decay;
    factors[KEEP] = config->rmsprop.alpha;
    factors[TAKE] = 1 - config->rmsprop.alpha;
    factors[EPS] = config->rmsprop.eps;
    factors[MOMENTUM] = config->rmsprop.momentum;
}

/* A centered one keeps all three, also without momentum: a buffer of zeros times 0 changes nothing. */
static const tg_optim_method rmsprop_method = {
    .name = "rmsprop",
    .states = {"square_avg", "momentum_buffer", "grad_avg"},
    .prepare = prepare,
    .update_f32 = tg_rmsprop_update_f32,
    .update_f64 = tg_rmsprop_update_f64,
};

tg_rmsprop_config tg_rmsprop_config_default(void)
{
    return (tg_rmsprop_config){.lr = 1e-2, .alpha = 0.99, .eps = 1e-8};
}

tg_optim *tg_rmsprop_new(tg_params *params, const tg_rmsprop_config *given)
{
    tg_rmsprop_config config = given ? *given : tg_rmsprop_config_default();
    if (!tg_optim_check_option(params, "rmsprop", "learning rate", config.lr) ||
        !tg_optim_check_option(params, "rmsprop", "momentum", config.momentum) ||
        !tg_optim_check_option(params, "rmsprop", "weight decay", config.weight_decay) ||
        !tg_optim_check_option(params, "rmsprop", "eps", config.eps)) {
        return NULL;
    }
    if (!(config.alpha >= 0 && config.alpha < 1)) {
        tg_params_fail(params, TG_ERROR_VALUE, "rmsprop: alpha %g is outside [0,1)", config.alpha);
        return NULL;
    }
    tg_optim_config common = {.rmsprop = config};
    int states = config.centered ? 3 : config.momentum > 0 ? 2 : 1;
    return tg_optim_new(params, &rmsprop_method, &common, states, config.lr, config.weight_decay);
}

#endif

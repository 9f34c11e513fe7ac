/* sgd: steps against the gradient.
 *
 *   g     = dtheta + decay theta
 *   b     = g the first time, then momentum b + (1 - dampening) g          with momentum
 *   theta = theta - lr b;   nesterov: theta - lr (g + momentum b)
 *
 * "The first time" is each parameter's own: when its first gradient comes. Without momentum nothing is kept, and a gradient
 * of zero changes nothing, so a table costs the rows that were touched. Follows torch/optim/sgd.py.
 */
#include "optim/optim.h"

#include "base/real.h"

TG_DECLARE_UPDATE(tg_sgd_update);

void KERNEL(tg_sgd_update)(const tg_update *u)
{
    real *theta = u->theta, *buffer = u->state[0];
    const real *gradient = u->gradient;
    const tg_options *o = u->options;
    real lr = (real)o->lr, decay = (real)o->weight_decay, momentum = (real)o->momentum, fresh = (real)(1 - o->dampening);
    if (!buffer) {
        for (int64_t i = 0; i < u->count; i++) {
            theta[i] -= lr * (gradient[i] + decay * theta[i]);
        }
        return;
    }
    for (int64_t i = 0; i < u->count; i++) {
        real g = gradient[i] + decay * theta[i];
        buffer[i] = u->step == 1 ? g : momentum * buffer[i] + fresh * g;
        theta[i] -= lr * (o->nesterov ? g + momentum * buffer[i] : buffer[i]);
    }
}

#ifdef TG_ONCE

static const tg_method sgd = {"sgd", tg_sgd_update_f32, tg_sgd_update_f64};

tg_sgd_config tg_sgd_config_default(void)
{
    return (tg_sgd_config){.lr = 1e-3};
}

tg_optim *tg_sgd_new(tg_params *params, const tg_sgd_config *given)
{
    tg_sgd_config c = given ? *given : tg_sgd_config_default();
    const char *least = "at least 0";
    if (!tg_optim_check(params, "sgd", "lr", c.lr, c.lr >= 0, least) ||
        !tg_optim_check(params, "sgd", "momentum", c.momentum, c.momentum >= 0, least) ||
        !tg_optim_check(params, "sgd", "dampening", c.dampening, isfinite(c.dampening), "a finite number") ||
        !tg_optim_check(params, "sgd", "weight_decay", c.weight_decay, c.weight_decay >= 0, least) ||
        !tg_optim_check(params, "sgd", "nesterov", c.nesterov, !c.nesterov || (c.momentum > 0 && c.dampening == 0),
                        "true only with momentum above 0 and dampening 0")) {
        return NULL;
    }
    tg_options options = {.lr = c.lr, .weight_decay = c.weight_decay, .momentum = c.momentum, .dampening = c.dampening,
                          .nesterov = c.nesterov};
    return tg_optim_make(params, &sgd, &options, c.momentum > 0 ? 1 : 0, c.momentum == 0);
}

#endif

/* adam: steps scaled by the running size of the gradient. Adam, AdamW and AMSGrad.
 *
 *   Adam: g = dtheta + decay theta;   AdamW: theta = theta (1 - lr decay), g = dtheta
 *   m = m + (1 - beta1) (g - m)       v = beta2 v + (1 - beta2) g^2
 *   theta = theta - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * AMSGrad puts the largest v so far in v's place. The corrections are computed in double, the rest in the parameter's
 * dtype, in the order of torch/optim/adam.py's single-tensor loop.
 */
#include "optim/optim.h"

#include "base/real.h"

TG_DECLARE_UPDATE(tg_adam_update);

void KERNEL(tg_adam_update)(const tg_update *u)
{
    real *theta = u->theta, *m = u->state[0], *v = u->state[1], *largest = u->state[2];
    const real *gradient = u->gradient;
    const tg_options *o = u->options;
    double correction1 = 1 - pow(o->beta1, (double)u->step), correction2 = 1 - pow(o->beta2, (double)u->step);
    real towards = (real)(1 - o->beta1), beta2 = (real)o->beta2, fresh = (real)(1 - o->beta2), eps = (real)o->eps;
    real step_size = (real)(o->lr / correction1), root = (real)sqrt(correction2);
    real shrink = o->decoupled ? (real)(1 - o->lr * o->weight_decay) : 1;
    real decay = o->decoupled ? 0 : (real)o->weight_decay;
    for (int64_t i = 0; i < u->count; i++) {
        real start = theta[i] * shrink, g = gradient[i] + decay * start;
        m[i] += towards * (g - m[i]);
        v[i] = v[i] * beta2 + fresh * g * g;
        real size = v[i];
        if (largest) {
            largest[i] = largest[i] > size ? largest[i] : size;
            size = largest[i];
        }
        theta[i] = start - step_size * m[i] / (REAL(sqrt)(size) / root + eps);
    }
}

#ifdef TG_ONCE

static const tg_method adam = {"adam", tg_adam_update_f32, tg_adam_update_f64};
static const tg_method adamw = {"adamw", tg_adam_update_f32, tg_adam_update_f64};

tg_adam_config tg_adam_config_default(void)
{
    return (tg_adam_config){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

tg_adamw_config tg_adamw_config_default(void)
{
    tg_adamw_config config = tg_adam_config_default();
    config.weight_decay = 0.01;
    return config;
}

static tg_optim *make(tg_params *params, const tg_method *method, const tg_adam_config *c, bool decoupled)
{
    const char *least = "at least 0", *share = "in [0,1)";
    if (!tg_optim_check(params, method->name, "lr", c->lr, c->lr >= 0, least) ||
        !tg_optim_check(params, method->name, "beta1", c->beta1, c->beta1 >= 0 && c->beta1 < 1, share) ||
        !tg_optim_check(params, method->name, "beta2", c->beta2, c->beta2 >= 0 && c->beta2 < 1, share) ||
        !tg_optim_check(params, method->name, "eps", c->eps, c->eps >= 0, least) ||
        !tg_optim_check(params, method->name, "weight_decay", c->weight_decay, c->weight_decay >= 0, least)) {
        return NULL;
    }
    tg_options options = {.lr = c->lr, .weight_decay = c->weight_decay, .beta1 = c->beta1, .beta2 = c->beta2, .eps = c->eps,
                          .amsgrad = c->amsgrad, .decoupled = decoupled};
    return tg_optim_make(params, method, &options, c->amsgrad ? 3 : 2, false);
}

tg_optim *tg_adam_new(tg_params *params, const tg_adam_config *given)
{
    tg_adam_config config = given ? *given : tg_adam_config_default();
    return make(params, &adam, &config, false);
}

tg_optim *tg_adamw_new(tg_params *params, const tg_adamw_config *given)
{
    tg_adamw_config config = given ? *given : tg_adamw_config_default();
    return make(params, &adamw, &config, true);
}

#endif

/* sparse_adam: Adam for tables of which a step uses few rows. A row without a gradient keeps its value and its moments;
 * in Adam both change.
 *
 *   m = m + (1 - beta1) (g - m)
 *   v = v + (1 - beta2) (g g - v)
 *   x = x - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps)   t: steps of the parameter, not of the row
 *
 * Unlike in Adam, eps is added before the correction by sqrt(1 - beta2^t). A dense gradient updates all rows. Follows
 * torch/optim/sparse_adam.py, operation by operation.
 */
#include "base/real.h"
#include "math/power.h"
#include "optim/optim.h"

TG_DECLARE_UPDATE(tg_sparse_adam_update);

void KERNEL(tg_sparse_adam_update)(const tg_optim_factors *factors, void *theta, const void *gradient,
                                   void *const *state, int64_t count)
{
    real *restrict x = theta, *restrict m = state[0], *restrict v = state[1];
    const real *restrict g = gradient;
    const tg_sparse_adam_config *config = &factors->config->sparse_adam;
    const real step = (real)factors->step_size, eps = (real)config->eps;
    const real one_minus_beta1 = (real)(1 - config->beta1), one_minus_beta2 = (real)(1 - config->beta2);
    for (int64_t i = 0; i < count; i++) {
        m[i] += (g[i] - m[i]) * one_minus_beta1;
        v[i] += (g[i] * g[i] - v[i]) * one_minus_beta2;
        x[i] -= step * (m[i] / (real_sqrt(v[i]) + eps));
    }
}

#ifdef TG_ONCE

static void prepare(tg_optim_factors *factors, int64_t step)
{
    const tg_sparse_adam_config *config = &factors->config->sparse_adam;
    double t = (double)step, root = sqrt(1 - tg_pow_f64(config->beta2, t));
    factors->step_size = factors->lr * root / (1 - tg_pow_f64(config->beta1, t));
}

static const tg_optim_method sparse_adam_method = {
    .name = "sparse_adam",
    .states = {"exp_avg", "exp_avg_sq"},
    .prepare = prepare,
    TG_UPDATES(tg_sparse_adam_update),
    .unlisted = TG_UNLISTED_SKIP,
};

TG_CONFIG(tg_sparse_adam_config, tg_sparse_adam_config_default, mark, .mark = mark, .lr = 1e-3, .beta1 = 0.9,
          .beta2 = 0.999, .eps = 1e-8);

tg_optim *tg_sparse_adam_new(tg_params *params, const tg_sparse_adam_config *given)
{
    if (!tg_params_expect_config(params, "sparse_adam", given, mark)) {
        return NULL;
    }
    tg_sparse_adam_config config = given ? *given : tg_sparse_adam_config_default();
    if (!tg_optim_check_option(params, "sparse_adam", "learning rate", config.lr) ||
        !tg_optim_check_fraction(params, "sparse_adam", "beta1", config.beta1) ||
        !tg_optim_check_fraction(params, "sparse_adam", "beta2", config.beta2) ||
        !tg_optim_check_option(params, "sparse_adam", "eps", config.eps)) {
        return NULL;
    }
    tg_optim_config common = {.sparse_adam = config};
    return tg_optim_new(params, &sparse_adam_method, &common, 2, config.lr, 0);
}

#endif

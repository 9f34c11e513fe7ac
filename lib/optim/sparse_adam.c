/* sparse_adam: Adam for tables of which a step touches few rows. Rows without a gradient keep their moments and do
 * not move, which is another method than Adam, where both go on; it costs what the batch touched.
 *
 *   m = m + (1 - beta1) (g - m)
 *   v = v + (1 - beta2) (g g - v)
 *   x = x - lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps)   t counts the parameter's steps, not the row's
 *
 * eps is not divided by the correction, as it is in Adam. Follows torch/optim/sparse_adam.py, operation by operation.
 * Where the gradient is dense, all rows are touched.
 */
#include "base/real.h"
#include "optim/optim.h"
#include "params/params.h"

tg_optim_kernel tg_sparse_adam_update_f32, tg_sparse_adam_update_f64;

enum { STEP_SIZE, TO_MEAN, TO_SQUARE, EPS };

void KERNEL(tg_sparse_adam_update)(const double *factors, void *theta, const void *gradient, void *const *state,
                                   int64_t count)
{
    real *restrict x = theta, *restrict m = state[0], *restrict v = state[1];
    const real *restrict g = gradient;
    const real step = (real)factors[STEP_SIZE], to_mean = (real)factors[TO_MEAN];
    const real to_square = (real)factors[TO_SQUARE], eps = (real)factors[EPS];
    for (int64_t i = 0; i < count; i++) {
        m[i] += (g[i] - m[i]) * to_mean;
        v[i] += (g[i] * g[i] - v[i]) * to_square;
        x[i] -= step * (m[i] / (REAL(sqrt)(v[i]) + eps));
    }
}

#ifdef TG_ONCE

static void prepare(const tg_optim_config *config, double lr, double weight_decay, int64_t step, double *factors)
{
    const tg_sparse_adam_config *adam = &config->sparse_adam;
    double t = (double)step;
    (void)weight_decay;
    factors[STEP_SIZE] = lr * sqrt(1 - pow(adam->beta2, t)) / (1 - pow(adam->beta1, t));
    factors[TO_MEAN] = 1 - adam->beta1;
    factors[TO_SQUARE] = 1 - adam->beta2;
    factors[EPS] = adam->eps;
}

static const tg_optim_method sparse_adam_method = {
    .name = "sparse_adam",
    .states = {"exp_avg", "exp_avg_sq"},
    .prepare = prepare,
    .update_f32 = tg_sparse_adam_update_f32,
    .update_f64 = tg_sparse_adam_update_f64,
    .unlisted = TG_UNLISTED_ARE_LEFT,
};

tg_sparse_adam_config tg_sparse_adam_config_default(void)
{
    return (tg_sparse_adam_config){.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

tg_optim *tg_sparse_adam_new(tg_params *params, const tg_sparse_adam_config *given)
{
    tg_sparse_adam_config config = given ? *given : tg_sparse_adam_config_default();
    if (!tg_optim_check_option(params, "sparse_adam", "learning rate", config.lr) ||
        !tg_optim_check_beta(params, "sparse_adam", 1, config.beta1) ||
        !tg_optim_check_beta(params, "sparse_adam", 2, config.beta2) ||
        !tg_optim_check_option(params, "sparse_adam", "eps", config.eps)) {
        return NULL;
    }
    tg_optim_config common = {.sparse_adam = config};
    return tg_optim_new(params, &sparse_adam_method, &common, 2, config.lr, 0);
}

#endif

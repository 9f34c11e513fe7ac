/* adagrad: Adagrad. Steps are divided by the square root of the sum of all squared gradients so far.
 *
 *   g = g + weight_decay x                           if weight_decay is not 0
 *   s = s + g g
 *   x = x - lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)
 *
 * With `by_rows` a row of C values, one index on axis 0, has one s:
 *
 *   s = s + sum of g g over the row / C
 *
 * This is FBGEMM's EXACT_ROWWISE_ADAGRAD, which adds the squares in float, and in another order. Its weight decay, like
 * here, is that of the rows with a gradient alone.
 *
 * Without weight decay a gradient of zero changes neither x nor s, so only the listed rows of a gradient by rows are
 * visited. Duchi, Hazan and Singer 2011. Follows torch/optim/adagrad.py (single tensor), operation by operation.
 */
#include "base/real.h"
#include "optim/optim.h"

TG_DECLARE_UPDATE(tg_adagrad_update);
TG_DECLARE_UPDATE(tg_adagrad_update_rows);

void KERNEL(tg_adagrad_update)(const tg_optim_factors *factors, void *theta, const void *gradient, void *const *state,
                               int64_t count)
{
    real *restrict x = theta, *restrict s = state[0];
    const real *restrict g = gradient;
    const real step = (real)factors->step_size, weight_decay = (real)factors->weight_decay;
    const real eps = (real)factors->config->adagrad.eps;
    for (int64_t i = 0; i < count; i++) {
        real total = weight_decay != 0 ? g[i] + weight_decay * x[i] : g[i];
        s[i] += total * total;
        x[i] -= step * (total / (real_sqrt(s[i]) + eps));
    }
}

/* The number of independent sums, so that the loop can run in vector registers. */
#define SUMS 8

void KERNEL(tg_adagrad_update_rows)(const tg_optim_factors *factors, void *theta, const void *gradient,
                                    void *const *state, int64_t count)
{
    real *restrict x = theta, *restrict s = state[0];
    const real *restrict g = gradient;
    const real weight_decay = (real)factors->weight_decay, eps = (real)factors->config->adagrad.eps;
    const int64_t width = factors->width;
    for (const real *end = x + count; x < end; x += width, g += width, s++) {
        double sums[SUMS] = {0}, sum = 0;
        int64_t at = 0;
        for (; at + SUMS <= width; at += SUMS) {
            for (int k = 0; k < SUMS; k++) {
                const double total = (double)(g[at + k] + weight_decay * x[at + k]);
                sums[k] += total * total;
            }
        }
        for (; at < width; at++) {
            const double total = (double)(g[at] + weight_decay * x[at]);
            sum += total * total;
        }
        for (int k = 0; k < SUMS; k++) {
            sum += sums[k];
        }
        *s += (real)(sum / (double)width);
        const real step = (real)factors->step_size / (real_sqrt(*s) + eps);
        for (int64_t i = 0; i < width; i++) {
            x[i] -= step * (g[i] + weight_decay * x[i]);
        }
    }
}

#ifdef TG_ONCE

static void prepare(tg_optim_factors *factors, int64_t step)
{
    factors->step_size = factors->lr / (1 + (double)(step - 1) * factors->config->adagrad.lr_decay);
}

static double initial(const tg_optim_config *config)
{
    return config->adagrad.initial_accumulator;
}

static const tg_optim_method adagrad_method = {
    .name = "adagrad",
    .states = {"sum"},
    .prepare = prepare,
    TG_UPDATES(tg_adagrad_update),
    .unlisted = TG_UNLISTED_REST,
    .initial = initial,
};

static const tg_optim_method by_rows_method = {
    .name = "adagrad",
    .states = {"sum"},
    .states_by_rows = true,
    .prepare = prepare,
    TG_UPDATES(tg_adagrad_update_rows),
    .unlisted = TG_UNLISTED_SKIP,
    .initial = initial,
};

TG_CONFIG(tg_adagrad_config, tg_adagrad_config_default, mark, .mark = mark, .lr = 1e-2, .eps = 1e-10);

tg_optim *tg_adagrad_new(tg_params *params, const tg_adagrad_config *given)
{
    if (!tg_params_expect_config(params, "adagrad", given, mark)) {
        return NULL;
    }
    tg_adagrad_config config = given ? *given : tg_adagrad_config_default();
    if (!tg_optim_check_option(params, "adagrad", "learning rate", config.lr) ||
        !tg_optim_check_option(params, "adagrad", "learning rate decay", config.lr_decay) ||
        !tg_optim_check_option(params, "adagrad", "weight decay", config.weight_decay) ||
        !tg_optim_check_option(params, "adagrad", "initial accumulator", config.initial_accumulator) ||
        !tg_optim_check_option(params, "adagrad", "eps", config.eps)) {
        return NULL;
    }
    tg_optim_config common = {.adagrad = config};
    return tg_optim_new(params, config.by_rows ? &by_rows_method : &adagrad_method, &common, 1, config.lr,
                        config.weight_decay);
}

#endif

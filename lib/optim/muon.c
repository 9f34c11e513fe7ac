/* muon: Muon. A matrix moves by its momentum with all singular values brought near 1.
 *
 *   b = b + (1 - momentum) (g - b)
 *   u = g + momentum (b - g)                                with nesterov, else b
 *   u = u / max(|u|, eps), then `iterations` times
 *   u = a u + (b G + c G^2) u,  G = u u^T                   u^T u behind u if u has more rows than columns
 *   x = x (1 - lr weight_decay)
 *   x = x - lr max(1, rows / columns)^(1/2) u               or lr 0.2 max(rows, columns)^(1/2) u
 *
 * Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks"; the second rate is Liu et al. 2025's.
 * Follows torch/optim/_muon.py, operation by operation. That computes the iterations in bf16, whose products add in
 * f32: here u, G and the factor of u are rounded to bf16 after each line, and products are those of floats.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/real.h"
#include "math/half.h"
#include "optim/optim.h"
#include "products/gemm.h"
#include "tensor/gradient.h"

TG_DECLARE_UPDATE(tg_muon_direction);
TG_DECLARE_UPDATE(tg_muon_update);

/* Returns the point between a and b, torch.lerp: near its end it is counted from there. */
static real between(real a, real b, real weight)
{
    return weight < (real)0.5 ? a + weight * (b - a) : b - (b - a) * (1 - weight);
}

void KERNEL(tg_muon_direction)(const tg_optim_factors *factors, void *direction, const void *gradient,
                               void *const *state, int64_t count)
{
    real *restrict u = direction, *restrict b = state[0];
    const real *restrict g = gradient;
    const tg_muon_config *config = &factors->config->muon;
    const real rest = (real)(1 - config->momentum), momentum = config->nesterov ? (real)config->momentum : 1;
    for (int64_t i = 0; i < count; i++) {
        b[i] = between(b[i], g[i], rest);
        u[i] = between(g[i], b[i], momentum);
    }
}

void KERNEL(tg_muon_update)(const tg_optim_factors *factors, void *theta, const void *direction, void *const *state,
                            int64_t count)
{
    (void)state;
    real *restrict x = theta;
    const real *restrict u = direction;
    const real decay_factor = (real)(1 - factors->lr * factors->weight_decay), step = (real)factors->step_size;
    for (int64_t i = 0; i < count; i++) {
        x[i] = x[i] * decay_factor - step * u[i];
    }
}

#ifdef TG_ONCE

static float rounded(float x)
{
    return tg_from_bf16(tg_to_bf16(x));
}

/* Rounds a x + b y to bf16, value by value. */
static void combine(float *result, float a, const float *x, float b, const float *y, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        result[i] = rounded(a * x[i] + b * y[i]);
    }
}

/* Rounds u, and divides it by its norm. */
static void normalize(float *u, int64_t count, double eps)
{
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        u[i] = rounded(u[i]);
        squares += (double)u[i] * u[i];
    }
    float norm = rounded((float)sqrt(squares)), least = rounded((float)eps);
    for (int64_t i = 0; i < count; i++) {
        u[i] = rounded(u[i] / (norm < least ? least : norm));
    }
}

static void orthogonalize(const tg_muon_config *config, float *u, int64_t rows, int64_t columns)
{
    const bool is_tall = rows > columns;
    const int64_t count = rows * columns, side = is_tall ? columns : rows, length = is_tall ? rows : columns;
    float *product = u + count, *gram = product + count, *factor = gram + side * side;
    const float a = (float)config->coefficients[0], b = (float)config->coefficients[1],
                c = (float)config->coefficients[2];
    const tg_gemm squared = {
        side,           side,           length,     is_tall, is_tall ? TG_ROW_MAJOR : TG_TRANSPOSED,
        .lda = columns, .ldb = columns, .ldc = side};
    const tg_gemm square = {side, side, side, false, TG_ROW_MAJOR, .lda = side, .ldb = side, .ldc = side};
    const tg_gemm applied = {rows, columns, side, false, TG_ROW_MAJOR, .lda = side, .ldb = columns, .ldc = columns};
    normalize(u, count, config->eps);
    for (int64_t i = 0; i < config->iterations; i++) {
        tg_gemm_f32(&squared, u, u, gram);
        combine(gram, 1, gram, 0, gram, side * side);
        tg_gemm_f32(&square, gram, gram, factor);
        combine(factor, b, gram, c, factor, side * side);
        tg_gemm_f32(&applied, is_tall ? u : factor, is_tall ? factor : u, product);
        combine(u, a, u, 1, product, count);
    }
}

/* Refuses gradients by rows, and reserves the working memory of the largest matrix with a gradient: its direction, and
 * as floats u and its product, G and a function of it. */
static bool begin(tg_optim *optim)
{
    size_t most = 0;
    for (int64_t i = 0; i < optim->count; i++) {
        const tg_slot *slot = &optim->slots[i];
        const tg_gradient *gradient = slot->tensor->gradient;
        if (!gradient || gradient->kind == TG_GRAD_NONE) {
            continue;
        }
        if (gradient->kind == TG_GRAD_ROWS) {
            return tg_error_set(optim->run->error, TG_ERROR_STATE,
                                "optim_step: the gradient of '%s' is by rows, which muon cannot use; give the table to "
                                "another optimizer, or make its gradient dense",
                                slot->name);
        }
        const int64_t *shape = slot->tensor->shape, side = shape[0] < shape[1] ? shape[0] : shape[1];
        size_t bytes = (size_t)slot->tensor->count * (optim->value_size + 2 * sizeof(float)) +
                       (size_t)(side * side) * 2 * sizeof(float);
        most = bytes > most ? bytes : most;
    }
    return tg_grow(&optim->working_memory, &optim->working_bytes, 0, most, 1) ||
           tg_error_set(optim->run->error, TG_ERROR_MEMORY, "optim_step: out of memory for %zu bytes of muon", most);
}

/* Replaces the direction of a matrix, the first values of the working memory. */
static void redirect(tg_optim *optim, const tg_slot *slot, tg_optim_factors *factors)
{
    const tg_muon_config *config = &optim->config.muon;
    const tg_dtype dtype = tg_dtype_of(slot->tensor);
    const int64_t rows = slot->tensor->shape[0], columns = slot->tensor->shape[1], count = slot->tensor->count;
    const double by_rms = (double)(rows > columns ? rows : columns);
    const double by_shape = rows > columns ? (double)rows / (double)columns : 1;
    factors->step_size =
        factors->lr * (config->adjust_lr == TG_MUON_ADJUST_MATCH_RMS_ADAMW ? 0.2 * sqrt(by_rms) : sqrt(by_shape));
    float *u = (float *)((char *)optim->working_memory + (size_t)count * optim->value_size);
    tg_convert(u, TG_F32, optim->working_memory, dtype, count);
    orthogonalize(config, u, rows, columns);
    tg_convert(optim->working_memory, dtype, u, TG_F32, count);
}

static const tg_optim_method muon_method = {
    .name = "muon",
    .states = {"momentum_buffer"},
    .begin = begin,
    .redirect = redirect,
    .direction_f32 = {TG_EACH_LEVEL(avx512, tg_muon_direction_f32)},
    .direction_f64 = {TG_EACH_LEVEL(avx2, tg_muon_direction_f64)},
    TG_UPDATES(tg_muon_update),
};

TG_CONFIG(tg_muon_config, tg_muon_config_default, mark, .mark = mark, .lr = 1e-3, .weight_decay = 0.1, .momentum = 0.95,
          .nesterov = true, .coefficients = {3.4445, -4.7750, 2.0315}, .eps = 1e-7, .iterations = 5);

static bool check_config(tg_params *params, const tg_muon_config *config)
{
    if (!tg_optim_check_option(params, "muon", "learning rate", config->lr) ||
        !tg_optim_check_option(params, "muon", "weight decay", config->weight_decay) ||
        !tg_optim_check_option(params, "muon", "momentum", config->momentum) ||
        !tg_optim_check_option(params, "muon", "eps", config->eps)) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if (!isfinite(config->coefficients[i])) {
            return tg_params_fail(params, TG_ERROR_VALUE, "muon: coefficient %d is %g; it must be finite", i,
                                  config->coefficients[i]);
        }
    }
    if (config->iterations < 0 || config->iterations >= 100) {
        return tg_params_fail(params, TG_ERROR_VALUE, "muon: %lld iterations; 0 to 99 are allowed",
                              (long long)config->iterations);
    }
    return (unsigned)config->adjust_lr <= TG_MUON_ADJUST_MATCH_RMS_ADAMW ||
           tg_params_fail(params, TG_ERROR_VALUE,
                          "muon: adjust_lr %d does not exist; it must be 0 (original) or 1 (match_rms_adamw)",
                          (int)config->adjust_lr);
}

/* Only matrices have singular values. */
static bool check_matrices(tg_params *params)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind == TG_ENTRY_PARAMETER && entry.tensor->rank != 2) {
            return tg_params_fail(params, TG_ERROR_SHAPE,
                                  "muon: the parameter '%s' has %d axes, and must have 2; tg_params_new_part takes "
                                  "matrices out of the params",
                                  entry.name, entry.tensor->rank);
        }
    }
    return true;
}

tg_optim *tg_muon_new(tg_params *params, const tg_muon_config *given)
{
    if (!tg_params_expect_config(params, "muon", given, mark)) {
        return NULL;
    }
    tg_muon_config config = given ? *given : tg_muon_config_default();
    if (!check_config(params, &config) || !check_matrices(params)) {
        return NULL;
    }
    tg_optim_config common = {.muon = config};
    return tg_optim_new(params, &muon_method, &common, 1, config.lr, config.weight_decay);
}

#endif

/* activations: elementwise functions of one input, with a parameter, between the layers of a network.
 *
 *   leaky_relu    x where x > 0, else slope x              dx += dy where x > 0, else slope dy
 *   elu           x where x > 0, else alpha (e^x - 1)      dx += dy alpha e^x where x <= 0, else dy
 *   softplus      log(1 + e^(beta x)) / beta               dx += dy sigmoid(beta x)
 *                 x where beta x > threshold               dx += dy
 *   log_sigmoid   -log(1 + e^-x)                           dx += dy sigmoid(-x)
 *
 * Follows torch.nn.functional.leaky_relu, elu (Clevert et al. 2016), softplus and logsigmoid. Results of softplus and
 * log_sigmoid, and gradients of both and of elu, that are not normal numbers are 0 (base/exp.h).
 */
#include "ops/elementwise/elementwise.h"

enum { LEAKY_RELU, ELU, SOFTPLUS, LOG_SIGMOID };

typedef struct softplus_attributes {
    double beta, threshold;
} softplus_attributes;

static real number_of(const tg_chunk *k)
{
    return (real) * (const double *)k->attributes;
}

static void leaky_relu(const tg_chunk *k)
{
    const real *x = k->in[0], slope = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] > 0 ? x[i] : slope * x[i];
    }
}

static void leaky_relu_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy, slope = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] > 0 ? dy[i] : slope * dy[i];
    }
}

static void elu(const tg_chunk *k)
{
    const real *x = k->in[0], alpha = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] > 0 ? x[i] : alpha * REAL(expm1)(x[i]);
    }
}

static void elu_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy, alpha = number_of(k);
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] <= 0 ? normal_or_zero(dy[i] * alpha * EXP(x[i])) : dy[i]; /* dy passes at a NaN */
    }
}

static void softplus(const tg_chunk *k)
{
    const softplus_attributes *a = k->attributes;
    const real *x = k->in[0], beta = (real)a->beta, threshold = (real)a->threshold;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] * beta > threshold ? x[i] : normal_or_zero(LOG1P(EXP(x[i] * beta)) / beta);
    }
}

static void softplus_gradient(const tg_chunk *k)
{
    const softplus_attributes *a = k->attributes;
    const real *x = k->in[0], *dy = k->dy, beta = (real)a->beta, threshold = (real)a->threshold;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = x[i] * beta > threshold ? dy[i] : normal_or_zero(dy[i] / (1 + EXP(-x[i] * beta)));
    }
}

static void log_sigmoid(const tg_chunk *k)
{
    const real *x = k->in[0];
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = (x[i] > 0 ? 0 : x[i]) - LOG1P(EXP_OR_ZERO(-REAL(fabs)(x[i]))); /* NaN stays NaN */
    }
}

static void log_sigmoid_gradient(const tg_chunk *k)
{
    const real *x = k->in[0], *dy = k->dy;
    real *out = k->out;
    for (int64_t i = 0; i < k->n; i++) {
        out[i] = normal_or_zero(dy[i] / (1 + EXP(x[i])));
    }
}

TG_DECLARE_ELEMENTWISE(tg_activations);

const tg_elementwise_kernels KERNEL(tg_activations)[] = {
    [LEAKY_RELU] = {leaky_relu, {leaky_relu_gradient}},
    [ELU] = {elu, {elu_gradient}},
    [SOFTPLUS] = {softplus, {softplus_gradient}},
    [LOG_SIGMOID] = {log_sigmoid, {log_sigmoid_gradient}},
};

#ifdef TG_ONCE

static bool softplus_shape(tg_op_call *call)
{
    const softplus_attributes *a = call->attributes;
    return ((a->beta > 0 && a->threshold == a->threshold) ||
            tg_op_fail(call, TG_ERROR_VALUE, "beta %g and threshold %g; beta must be above 0, threshold a number",
                       a->beta, a->threshold)) &&
           tg_elementwise_shape(call);
}

static const tg_elementwise ops[] = {
    [LEAKY_RELU] = TG_ELEMENTWISE("leaky_relu", tg_activations, LEAKY_RELU, 0, TG_OP_ALL),
    [ELU] = TG_ELEMENTWISE("elu", tg_activations, ELU, 0, TG_OP_ALL),
    [SOFTPLUS] = TG_ELEMENTWISE_WITH_RULE("softplus", softplus_shape, tg_activations, SOFTPLUS, 0, TG_OP_ALL),
    [LOG_SIGMOID] = TG_ELEMENTWISE("log_sigmoid", tg_activations, LOG_SIGMOID, 0, TG_OP_ALL),
};

tg_tensor *tg_leaky_relu(tg_tape *t, tg_tensor *x, double slope)
{
    return tg_apply(t, &ops[LEAKY_RELU].op, &x, 1, &slope, sizeof slope, NULL);
}

tg_tensor *tg_elu(tg_tape *t, tg_tensor *x, double alpha)
{
    return tg_apply(t, &ops[ELU].op, &x, 1, &alpha, sizeof alpha, NULL);
}

tg_tensor *tg_softplus(tg_tape *t, tg_tensor *x, double beta, double threshold)
{
    softplus_attributes a = {beta, threshold};
    return tg_apply(t, &ops[SOFTPLUS].op, &x, 1, &a, sizeof a, NULL);
}

tg_tensor *tg_log_sigmoid(tg_tape *t, tg_tensor *x)
{
    return tg_apply(t, &ops[LOG_SIGMOID].op, &x, 1, NULL, 0, NULL);
}

#endif

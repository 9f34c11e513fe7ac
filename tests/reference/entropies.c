/* entropies: tg_kl_div and tg_binary_cross_entropy_with_logits, value by value. */
#include "distances.h"

/* ---- tg_kl_div ---- */

static tg_tensor *call_kl_div(trial *t)
{
    const loss_options *o = OPTIONS(t, loss_options);
    tg_kl_div_config config = tg_kl_div_config_default();
    config.log_target = o->is_log;
    config.reduction = o->reduction;
    return tg_kl_div(ARGUMENTS, o->has_config ? &config : NULL);
}

/* exp(x), where numbers below the normal ones count as 0 (math/exp.h). */
static double normal_exp(const trial *t, double x)
{
    return exp(x) < smallest_of(t->dtype) ? 0 : exp(x);
}

static quantity kl_value(const trial *t, const double *in)
{
    double log_probs = in[0], target = in[1];
    if (OPTIONS(t, loss_options)->is_log) {
        double p = normal_exp(t, target);
        return (quantity){p * (target - log_probs),
                          p * (1 + fabs(target)) * (fabs(target) + fabs(log_probs)) + overflow_of(t, p)};
    }
    double entropy = target == 0 ? 0 : target * log(target);
    return (quantity){entropy - target * log_probs, fabs(entropy) + fabs(target * log_probs)};
}

static quantity kl_slope(const trial *t, int k, const double *in)
{
    double log_probs = in[0], target = in[1];
    if (OPTIONS(t, loss_options)->is_log) {
        double p = normal_exp(t, target), terms = p * (1 + fabs(target)) + overflow_of(t, p);
        return k == 0 ? (quantity){-p, terms}
                      : (quantity){p * (target - log_probs) + p, terms * (fabs(target) + fabs(log_probs) + 1)};
    }
    double logarithm = target == 0 ? 0 : log(target);
    return k == 0 ? plain(-target)
                  : (quantity){logarithm + target / target - log_probs, fabs(logarithm) + 1 + fabs(log_probs)};
}

const loss kl_div = {2, call_kl_div, kl_value, kl_slope, NULL, 0};

/* ---- tg_binary_cross_entropy_with_logits ---- */

static tg_tensor *call_binary_cross_entropy_with_logits(trial *t)
{
    const loss_options *o = OPTIONS(t, loss_options);
    tg_binary_cross_entropy_with_logits_config config = tg_binary_cross_entropy_with_logits_config_default();
    config.weight = t->inputs[2].tensor;
    config.pos_weight = t->inputs[3].tensor;
    config.reduction = o->reduction;
    return tg_binary_cross_entropy_with_logits(ARGUMENTS, o->has_config ? &config : NULL);
}

static double log_sigmoid(double x)
{
    return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x));
}

static quantity bce_value(const trial *t, const double *in)
{
    double x = in[0], target = in[1], weight = in[2], pos_weight = in[3];
    double factor = t->inputs[3].is_present ? (pos_weight - 1) * target + 1 : 1;
    double factor_terms = t->inputs[3].is_present ? (fabs(pos_weight) + 1) * fabs(target) + 1 : 1;
    double first = (1 - target) * x, second = factor * log_sigmoid(x);
    double terms = (1 + fabs(target)) * fabs(x) + factor_terms * (fabs(x) + 1);
    return (quantity){weight * (first - second), fabs(weight) * terms + overflow_of(t, terms)};
}

static quantity bce_slope(const trial *t, int k, const double *in)
{
    double x = in[0], target = in[1], weight = in[2], pos_weight = in[3], sigmoid = 1 / (1 + exp(-x));
    double positive = t->inputs[3].is_present ? pos_weight * target : target;
    double sum = t->inputs[3].is_present ? positive + 1 - target : 1;
    double terms = fabs(positive) + 1 + fabs(target);
    if (k == 0) {
        return (quantity){weight * (sum * sigmoid - positive), fabs(weight) * terms + overflow_of(t, terms)};
    }
    double slope = t->inputs[3].is_present ? log_sigmoid(-x) - pos_weight * log_sigmoid(x) : -x;
    terms = (fabs(x) + 1) * (1 + fabs(pos_weight));
    return (quantity){weight * slope, fabs(weight) * terms + overflow_of(t, terms)};
}

const loss binary_cross_entropy_with_logits = {2, call_binary_cross_entropy_with_logits, bce_value, bce_slope, NULL, 0};

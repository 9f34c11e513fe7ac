/* sample: the next token from its logits.
 *
 *   1. top_k   logits below the k-th largest become -inf; what ties with it stays
 *   2. softmax of logits / temperature
 *   3. top_p   the smallest set of likeliest tokens that reaches p keeps its weights, the others become 0
 *   4. one draw, torch.multinomial's
 *
 * 1, 2 and 4 in this order are the `generate` of the course's chapter 5; 3 is Holtzman et al. 2020. All numbers are rounded
 * to the dtype of the logits, as in PyTorch and in tg_softmax, so that the same seed draws the same token.
 */
#include <tapegrad/gpt.h>

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/exp.h"
#include "tensor/tensor.h"

typedef struct choice {
    double weight; /* a logit, then a probability */
    int32_t id;
} choice;

static bool check(const tg_tensor *logits, const tg_sampling_config *config, const tg_rng *rng, tg_error *error)
{
    if (!logits || logits->rank != 1 || logits->count < 1 || !tg_dtype_is_float(tg_dtype_of(logits))) {
        return tg_error_set(error, TG_ERROR_SHAPE, "sample: the logits must be f32 or f64 of shape (V) with V >= 1");
    }
    if (config->greedy) {
        return true;
    }
    if (!(config->temperature > 0) || !isfinite(config->temperature)) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "sample: temperature %g; it must be finite and above 0 (greedy takes the likeliest token)",
                            config->temperature);
    }
    if (config->top_k != TG_NO_TOP_K && (config->top_k < 1 || config->top_k > logits->count)) {
        return tg_error_set(error, TG_ERROR_RANGE, "sample: top_k %lld is outside [1,%lld]", (long long)config->top_k,
                            (long long)logits->count);
    }
    if (!(config->top_p > 0 && config->top_p <= 1)) {
        return tg_error_set(error, TG_ERROR_RANGE, "sample: top_p %g is outside (0,1]", config->top_p);
    }
    return rng || tg_error_set(error, TG_ERROR_STATE, "sample: there is no generator; only greedy needs none");
}

/* The first of the largest; -1, with the error set, when the logits are no logits. */
static int64_t likeliest(const tg_tensor *logits, tg_error *error)
{
    int64_t best = 0;
    double most = -INFINITY;
    for (int64_t i = 0; i < logits->count; i++) {
        double value = tg_value_at(logits, i);
        if (isnan(value) || value == INFINITY) {
            tg_error_set(error, TG_ERROR_VALUE, "sample: logit %g of token %lld; none may be NaN or inf", value,
                         (long long)i);
            return -1;
        }
        if (value > most) {
            most = value;
            best = i;
        }
    }
    if (most == -INFINITY) {
        tg_error_set(error, TG_ERROR_VALUE, "sample: all logits are -inf; one must be finite");
        return -1;
    }
    return best;
}

/* Likeliest first, equal ones in the order of their ids. */
static int by_weight(const void *a, const void *b)
{
    const choice *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight ? 1 : -1) : (x->id > y->id) - (x->id < y->id);
}

static double rounded(bool single, double value)
{
    return single ? (double)(float)value : value;
}

/* Choices, sorted, become probabilities; those that top_k or top_p leaves out become 0. */
static void weigh(choice *choices, int64_t count, const tg_sampling_config *config, bool single)
{
    double most = choices[0].weight / rounded(single, config->temperature), sum = 0, reached = 0;
    most = rounded(single, most);
    double least = config->top_k == TG_NO_TOP_K ? -INFINITY : choices[config->top_k - 1].weight;
    for (int64_t i = 0; i < count; i++) {
        double scaled = rounded(single, choices[i].weight / rounded(single, config->temperature));
        double power = rounded(single, scaled - most);
        bool kept = choices[i].weight >= least;
        choices[i].weight = !kept ? 0 : single ? (double)tg_exp_f32((float)power) : exp(power);
        sum += choices[i].weight;
    }
    double inverse = rounded(single, 1 / sum);
    for (int64_t i = 0; i < count; i++) {
        choices[i].weight = reached < config->top_p ? rounded(single, choices[i].weight * inverse) : 0;
        reached += config->top_p < 1 ? choices[i].weight : 0;
    }
}

int32_t tg_sample(const tg_tensor *logits, const tg_sampling_config *config, tg_rng *rng, tg_error *error)
{
    if (!check(logits, config, rng, error)) {
        return -1;
    }
    int64_t best = likeliest(logits, error);
    if (best < 0 || config->greedy) {
        return (int32_t)best;
    }
    int64_t count = logits->count, drawn = -1;
    bool single = tg_dtype_of(logits) == TG_F32;
    choice *choices = tg_alloc((size_t)count, sizeof *choices);
    void *weights = tg_alloc((size_t)count, sizeof(double));
    if (!choices || !weights) {
        tg_error_set(error, TG_ERROR_MEMORY, "sample: out of memory");
    } else {
        for (int64_t i = 0; i < count; i++) {
            choices[i] = (choice){tg_value_at(logits, i), (int32_t)i};
        }
        qsort(choices, (size_t)count, sizeof *choices, by_weight);
        weigh(choices, count, config, single);
        for (int64_t i = 0; i < count; i++) {
            if (single) {
                ((float *)weights)[choices[i].id] = (float)choices[i].weight;
            } else {
                ((double *)weights)[choices[i].id] = choices[i].weight;
            }
        }
        bool good = single ? tg_rng_multinomial_f32(rng, &drawn, 1, weights, count, false, error)
                           : tg_rng_multinomial_f64(rng, &drawn, 1, weights, count, false, error);
        drawn = good ? drawn : -1;
    }
    tg_free(choices);
    tg_free(weights);
    return (int32_t)drawn;
}

tg_sampling_config tg_sampling_config_default(void)
{
    return (tg_sampling_config){.greedy = true, .temperature = 1, .top_k = TG_NO_TOP_K, .top_p = 1};
}

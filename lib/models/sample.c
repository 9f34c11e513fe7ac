/* sample: the next token from its logits.
 *
 *   1. repetition_penalty   positive logits of tokens in the text are divided by it, negative ones multiplied
 *   2. top_k   logits below the k-th largest become -inf; those equal to it stay
 *   3. softmax of logits / temperature
 *   4. top_p   the most probable tokens that together reach p keep their weights; all other weights become 0
 *   5. min_p   weights below min_p times the largest one become 0
 *   6. one draw, as torch.multinomial draws
 *
 * 2, 3 and 6 in this order are the `generate` of the book's chapter 5; 1 is Keskar et al. 2019, 4 Holtzman et al. 2020,
 * 5 Nguyen et al. 2024. The order is that of transformers' processors, but for the temperature, which comes before
 * top_k there: a division by a positive number keeps the order of the logits, so the same tokens are left. Greedy
 * takes the largest logit after 1.
 *
 * Each operation is computed in double and rounded to the dtype of the logits. For floats the result is that of float
 * arithmetic (see base/multinomial.c). So the weights are those of tg_softmax, and the same seed draws PyTorch's token.
 *
 * A vocabulary is large, and few of its tokens matter, so it is not sorted. A heap returns the most probable tokens,
 * one after the other, until top_k or top_p has enough.
 */
#include <math.h>

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "base/random.h"
#include "math/doubles.h"
#include "math/exp.h"
#include "models/generate.h"
#include "tensor/tensor.h"

static const char call[] = "sample";
const char tg_sample_config_mark[] = "tg_sample_config_default";

tg_sample_config tg_sample_config_default(void)
{
    return (tg_sample_config){.mark = tg_sample_config_mark,
                              .greedy = true,
                              .temperature = 1,
                              .top_k = TG_NO_TOP_K,
                              .top_p = 1,
                              .repetition_penalty = 1};
}

static double rounded(bool single, double value)
{
    return single ? (double)(float)value : value;
}

static double logit_at(const tg_tensor *logits, int64_t i)
{
    int64_t offset = i * logits->strides[0];
    if (logits->dtype == TG_F32) {
        return (double)((const float *)tg_values(logits))[offset];
    }
    return ((const double *)tg_values(logits))[offset];
}

/* Checks that no option is set that greedy would ignore: the program has forgotten greedy, which is the default. */
static bool takes_no_option(const tg_sample_config *config, tg_error *error)
{
    static const char format[] = "%s: greedy ignores %s %g; set greedy to false, or leave the option at its default";
    if (config->temperature != 1) {
        return tg_error_set(error, TG_ERROR_VALUE, format, call, "temperature", config->temperature);
    }
    if (config->top_k != TG_NO_TOP_K) {
        return tg_error_set(error, TG_ERROR_VALUE, format, call, "top_k", (double)config->top_k);
    }
    if (config->top_p != 1) {
        return tg_error_set(error, TG_ERROR_VALUE, format, call, "top_p", config->top_p);
    }
    return config->min_p == 0 || tg_error_set(error, TG_ERROR_VALUE, format, call, "min_p", config->min_p);
}

static bool check_penalty(const tg_tensor *logits, const tg_sample_config *config, tg_error *error)
{
    double penalty = config->repetition_penalty;
    if (!(penalty > 0) || !isfinite(penalty)) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: repetition_penalty %g; it must be finite and above 0", call,
                            penalty);
    }
    if (penalty != 1 && !config->text) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: repetition_penalty %g needs the text so far; set text", call,
                            penalty);
    }
    for (int64_t i = 0; i < config->text_count; i++) {
        if (config->text[i] < 0 || config->text[i] >= logits->count) {
            return tg_error_set(error, TG_ERROR_RANGE, "%s: id %d at [%lld] of the text is outside [0,%lld)", call,
                                (int)config->text[i], (long long)i, (long long)logits->count);
        }
    }
    return true;
}

static bool check_sample_arguments(const tg_tensor *logits, const tg_rng *rng, const tg_sample_config *config,
                                   tg_error *error)
{
    if (!tg_config_check_list(call, "text", config->text, "text_count", config->text_count, error) ||
        !tg_tensor_check(call, "logits tensor", logits, error)) {
        return false;
    }
    if (logits->rank != 1 || logits->count < 1 || logits->count > INT32_MAX || !tg_dtype_is_float(logits->dtype)) {
        return tg_error_set(error, TG_ERROR_SHAPE,
                            "%s: the logits are %s %s; they must be f32 or f64 (V), V at least 1", call,
                            tg_dtype_name(tg_dtype_of(logits)), tg_shape_text_of(logits).text);
    }
    if (!check_penalty(logits, config, error)) {
        return false;
    }
    if (config->greedy) {
        return takes_no_option(config, error);
    }
    if (!(config->temperature > 0) || !isfinite(config->temperature)) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: temperature %g; it must be finite and above 0 (greedy takes the most probable token)",
                            call, config->temperature);
    }
    if (config->top_k != TG_NO_TOP_K && (config->top_k < 1 || config->top_k > logits->count)) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: top_k %lld is outside [1,%lld]", call, (long long)config->top_k,
                            (long long)logits->count);
    }
    if (!(config->top_p > 0 && config->top_p <= 1)) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: top_p %g is outside (0,1]", call, config->top_p);
    }
    if (!(config->min_p >= 0 && config->min_p <= 1)) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: min_p %g is outside [0,1]", call, config->min_p);
    }
    return rng ||
           tg_error_set(error, TG_ERROR_STATE, "%s: the generator is NULL; it is optional only with greedy", call);
}

/* Applies the penalty once to the logit of each token in the text. False, with the error set, if one becomes inf. */
static bool penalize(const tg_tensor *x, const tg_sample_config *config, double *logits, tg_error *error)
{
    bool single = x->dtype == TG_F32;
    double penalty = rounded(single, config->repetition_penalty);
    for (int64_t i = 0; i < config->text_count; i++) {
        int32_t id = config->text[i];
        double logit = logit_at(x, id);
        logits[id] = rounded(single, logit < 0 ? logit * penalty : logit / penalty);
        if (isfinite(logit) && !(logits[id] < INFINITY)) {
            return tg_error_set(error, TG_ERROR_VALUE,
                                "%s: repetition_penalty %g takes logit %g of token %d out of the range of %s", call,
                                config->repetition_penalty, logit, (int)id, tg_dtype_name(tg_dtype_of(x)));
        }
    }
    return true;
}

/* Returns the index of the first maximum; -1, with the error set, for a NaN or inf, or if all are -inf. */
static int64_t argmax(const double *logits, int64_t count, tg_error *error)
{
    int64_t best = 0;
    double most = -INFINITY;
    for (int64_t i = 0; i < count; i++) {
        double value = logits[i];
        if (isnan(value) || value == INFINITY) {
            tg_error_set(error, TG_ERROR_VALUE, "%s: logit %g of token %lld; none may be NaN or inf", call, value,
                         (long long)i);
            return -1;
        }
        if (value > most) {
            most = value;
            best = i;
        }
    }
    if (most == -INFINITY) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: all logits are -inf; one must be finite", call);
        return -1;
    }
    return best;
}

/* ---- the most probable tokens ---- */

/* ids[0 .. count - ranked) is a heap with the most probable token on top. After it come the tokens that were taken from
 * it: the token of rank r is at ids[count - 1 - r]. */
typedef struct ranking {
    const double *logits;
    int32_t *ids;
    int64_t count, ranked;
} ranking;

/* Returns whether token a is more probable than token b. */
static bool is_more_probable(const void *context, const void *a, const void *b)
{
    const double *logits = context;
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return logits[x] > logits[y] || (logits[x] == logits[y] && x < y);
}

static ranking ranking_of(const double *logits, int32_t *ids, int64_t count)
{
    ranking r = {logits, ids, count, 0};
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (int32_t)i;
    }
    for (int64_t i = count / 2 - 1; i >= 0; i--) {
        tg_heap_down(ids, sizeof *ids, (size_t)count, (size_t)i, is_more_probable, logits);
    }
    return r;
}

/* Returns the token of a rank; 0 is the most probable one. */
static int32_t id_of_rank(ranking *r, int64_t rank)
{
    while (r->ranked <= rank) {
        int64_t last = r->count - 1 - r->ranked++;
        int32_t taken = r->ids[0];
        r->ids[0] = r->ids[last];
        r->ids[last] = taken;
        tg_heap_down(r->ids, sizeof *r->ids, (size_t)last, 0, is_more_probable, r->logits);
    }
    return r->ids[r->count - 1 - rank];
}

/* ---- the draw ---- */

/* Computes the softmax of logits / temperature. Logits below `least` count as -inf; `most` is the largest logit. */
static void weigh(const double *logits, int64_t count, double most, double least, double temperature, bool single,
                  double *weights)
{
    double shift = rounded(single, most / temperature), sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double power = rounded(single, rounded(single, logits[i] / temperature) - shift);
        if (logits[i] < least) {
            weights[i] = 0;
        } else {
            weights[i] = single ? (double)tg_exp_f32((float)power) : tg_exp_f64(power);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        sum += weights[i];
    }
    double scale = rounded(single, 1 / sum);
    for (int64_t i = 0; i < count; i++) {
        weights[i] = rounded(single, weights[i] * scale);
    }
}

/* Sets the weights to 0, except those of the most probable tokens that together reach top_p. */
static void keep_nucleus(ranking *r, double top_p, bool single, double *weights)
{
    int64_t kept = 0;
    double reached = 0;
    do {
        reached += weights[id_of_rank(r, kept++)];
    } while (kept < r->count && rounded(single, reached) < rounded(single, top_p));
    for (int64_t i = 0; i < r->count - kept; i++) {
        weights[r->ids[i]] = 0;
    }
}

/* Sets the weights to 0 that are below min_p times the largest one. */
static void drop_below(double min_p, bool single, double *weights, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        most = weights[i] > most ? weights[i] : most;
    }
    double least = rounded(single, min_p * most);
    for (int64_t i = 0; i < count; i++) {
        weights[i] = weights[i] < least ? 0 : weights[i];
    }
}

/* Draws from the logits, which are values of the dtype. Behind the weights is the memory for floats and ids. */
static int32_t draw_token(const double *logits, int64_t count, tg_dtype dtype, double most,
                          const tg_sample_config *config, tg_rng *rng, double *weights, tg_error *error)
{
    int64_t id;
    bool single = dtype == TG_F32;
    double temperature = rounded(single, config->temperature), least = -INFINITY;
    if (!isfinite(temperature) || !isfinite(rounded(single, most / temperature))) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: temperature %g takes logit %g out of the range of %s", call,
                     config->temperature, most, tg_dtype_name(dtype));
        return -1;
    }
    float *floats = (float *)(weights + count);
    bool by_rank = config->top_k != TG_NO_TOP_K || config->top_p < 1;
    ranking r = by_rank ? ranking_of(logits, (int32_t *)(floats + count), count) : (ranking){0};
    if (config->top_k != TG_NO_TOP_K) {
        least = logits[id_of_rank(&r, config->top_k - 1)];
    }
    weigh(logits, count, most, least, temperature, single, weights);
    if (config->top_p < 1) {
        keep_nucleus(&r, config->top_p, single, weights);
    }
    drop_below(rounded(single, config->min_p), single, weights, count);
    bool is_drawn;
    if (single) {
        tg_convert(floats, TG_F32, weights, TG_F64, count);
        is_drawn = tg_rng_multinomial_f32(rng, &id, 1, floats, count, false, error);
    } else {
        is_drawn = tg_rng_multinomial_f64(rng, &id, 1, weights, count, false, error);
    }
    return is_drawn ? (int32_t)id : -1;
}

int32_t tg_sample_with(tg_pool *pool, const tg_tensor *x, tg_rng *rng, const tg_sample_config *given, tg_error *error)
{
    if (!tg_config_check(call, given, tg_sample_config_mark, error)) {
        return -1;
    }
    tg_sample_config config = given ? *given : tg_sample_config_default();
    if (!check_sample_arguments(x, rng, &config, error)) {
        return -1;
    }
    int64_t count = x->count, id = -1;
    size_t bytes;
    /* of each logit its value, its weight, its weight as a float, and an id */
    bool fits = tg_checked_mul((size_t)count, 2 * sizeof(double) + sizeof(float) + sizeof(int32_t), &bytes);
    double *logits = fits ? tg_pool_take(pool, bytes) : NULL;
    if (!logits) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld logits", call, (long long)count);
        return -1;
    }
    for (int64_t i = 0; i < count; i++) {
        logits[i] = logit_at(x, i);
    }
    if (penalize(x, &config, logits, error)) {
        id = argmax(logits, count, error);
    }
    if (id >= 0 && !config.greedy) {
        id = draw_token(logits, count, tg_dtype_of(x), logits[id], &config, rng, logits + count, error);
    }
    tg_pool_give(pool, logits);
    return (int32_t)id;
}

int32_t tg_sample(const tg_tensor *logits, tg_rng *rng, const tg_sample_config *config, tg_error *error)
{
    return tg_sample_with(NULL, logits, rng, config, error);
}

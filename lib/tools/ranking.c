/* ranking: metrics of a search, and Spearman's rank correlation. */
#include <tapegrad/metrics.h>

#include <math.h>
#include <stdlib.h>

#include <tapegrad/extend.h>

/* ---- a search ---- */

static bool is_relevant(int64_t row, const int64_t *relevant, int64_t relevant_count)
{
    int64_t i = 0;
    while (i < relevant_count && relevant[i] != row) {
        i++;
    }
    return row >= 0 && i < relevant_count;
}

bool tg_ranking_add(tg_ranking *ranking, const tg_row_neighbor *results, int64_t k, const int64_t *relevant,
                    int64_t relevant_count, tg_error *error)
{
    static const char call[] = "ranking_add";
    if (!ranking || !results || !relevant) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call,
                            !ranking   ? "ranking is"
                            : !results ? "results are"
                                       : "relevant rows are");
    }
    if (k < 1 || relevant_count < 1) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %lld results and %lld relevant rows; both must be 1 or more",
                            call, (long long)k, (long long)relevant_count);
    }
    int64_t found = 0, first = 0;
    double gain = 0, best = 0;
    for (int64_t place = 1; place <= k; place++) {
        double discounted = 1 / log2((double)place + 1);
        best += place <= relevant_count ? discounted : 0;
        if (is_relevant(results[place - 1].row, relevant, relevant_count)) {
            first = found == 0 ? place : first;
            found++;
            gain += discounted;
        }
    }
    ranking->count++;
    ranking->recall += (double)found / (double)relevant_count;
    ranking->reciprocal_rank += found > 0 ? 1 / (double)first : 0;
    ranking->ndcg += gain / best;
    return true;
}

/* ---- Spearman's correlation ---- */

typedef struct ranked {
    double value;
    int64_t index;
} ranked;

static int compare(const void *a, const void *b)
{
    double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x > y) - (x < y);
}

/* Writes twice the ranks of the values, less their mean, to `ranks`. Returns the sum of their squares, or NaN if a
 * value is NaN. */
static double rank(const tg_tensor *x, ranked *sorted, double *ranks)
{
    int64_t count = tg_tensor_count(x);
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        sorted[i] = (ranked){tg_tensor_value_at(x, i), i};
        if (isnan(sorted[i].value)) {
            return (double)NAN; /* which has no place in an order */
        }
    }
    qsort(sorted, (size_t)count, sizeof *sorted, compare);
    for (int64_t begin = 0, end; begin < count; begin = end) {
        for (end = begin + 1; end < count && sorted[end].value == sorted[begin].value; end++) {
        }
        for (int64_t i = begin; i < end; i++) {
            ranks[sorted[i].index] = (double)(begin + end - count);
        }
        squares += (double)(end - begin) * (double)(begin + end - count) * (double)(begin + end - count);
    }
    return squares;
}

double tg_spearman(const tg_tensor *a, const tg_tensor *b, tg_error *error)
{
    static const char call[] = "spearman";
    char a_text[TG_SHAPE_TEXT], b_text[TG_SHAPE_TEXT];
    if (!tg_tensor_check(call, "first tensor", a, error) || !tg_tensor_check(call, "second tensor", b, error)) {
        return (double)NAN;
    }
    if (!tg_shape_equal(tg_tensor_shape(a), tg_tensor_shape(b))) {
        tg_error_set(error, TG_ERROR_SHAPE, "%s: tensors %s and %s; they must have one shape", call,
                     tg_shape_format(tg_tensor_shape(a), a_text), tg_shape_format(tg_tensor_shape(b), b_text));
        return (double)NAN;
    }
    const size_t count = (size_t)tg_tensor_count(a);
    ranked *sorted = tg_alloc(count + 1, sizeof *sorted);
    double *a_ranks = tg_alloc(count + 1, sizeof *a_ranks), *b_ranks = tg_alloc(count + 1, sizeof *b_ranks);
    double correlation = (double)NAN;
    if (!sorted || !a_ranks || !b_ranks) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld values", call, (long long)count);
    } else {
        double squares = sqrt(rank(a, sorted, a_ranks)) * sqrt(rank(b, sorted, b_ranks)), products = 0;
        for (size_t i = 0; i < count; i++) {
            products += a_ranks[i] * b_ranks[i];
        }
        if (squares > 0) {
            correlation = fmax(-1, fmin(products / squares, 1));
        } else {
            tg_error_set(error, TG_ERROR_VALUE, "%s: %s; the ranks have no correlation", call,
                         isnan(squares) ? "a value is NaN" : "all values of a tensor are equal");
        }
    }
    tg_free(sorted);
    tg_free(a_ranks);
    tg_free(b_ranks);
    return correlation;
}

/* multinomial: torch.multinomial, as in PyTorch 2.13 on CPU (ATen/native/Distributions.cpp and
 * native/cpu/MultinomialKernel.cpp).
 *
 * Without replacement, and for a single draw: an exponential race. Let e[i] be exponential with rate 1. Runner i
 * arrives at the time e[i] / w[i], which is exponential with rate w[i]. So i arrives first with probability
 * w[i] / sum(w). The second to arrive is a draw from the remaining categories, and so on. PyTorch sorts by the inverse,
 * w[i] / e[i], in descending order. Of two equal quotients the smaller category comes first here; PyTorch leaves their
 * order to C++'s std::sort. Equal quotients occur among tens of thousands of floats, but hardly ever among doubles.
 *
 * With replacement: each draw takes a uniform u. The category is the first whose cumulative sum of weights, divided by
 * sum(w), is at least u. Both sums are computed by the same additions, so the last quotient is exactly 1.
 *
 * Every operation is done in the dtype of the weights. One implementation serves both dtypes: the sum or quotient of
 * two floats, computed in double and rounded to float, equals that of float arithmetic, because 53 >= 2 * 24 + 2
 * (S. Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995).
 */
#include "base/random.h"

#include <tapegrad/extend.h>

#include "base/alloc.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

typedef struct weight_row {
    const void *weights;
    int64_t count;
    bool single; /* floats, not doubles */
} weight_row;

typedef struct runner {
    /* weight / exponential; -1 if the weight is 0, so that the runner comes last */
    double quotient;
    int64_t category;
} runner;

static double weight_at(const weight_row *row, int64_t i)
{
    return row->single ? (double)((const float *)row->weights)[i] : ((const double *)row->weights)[i];
}

static double rounded(const weight_row *row, double value)
{
    return row->single ? (double)(float)value : value;
}

/* Returns whether runner a arrives after runner b. */
static bool is_after(const void *context, const void *a, const void *b)
{
    const runner *x = a, *y = b;
    (void)context;
    return x->quotient < y->quotient || (x->quotient == y->quotient && x->category > y->category);
}

/* Lets all categories run. Keeps the first `draws` of them in a heap with the last of these on top. */
static void run_race(tg_rng *rng, const weight_row *row, runner *heap, int64_t draws)
{
    double exponentials[TG_RNG_CHUNK / 2];
    int64_t arrived = 0;
    for (int64_t begin = 0, portion; begin < row->count; begin += portion) {
        portion = tg_rng_portion(row->count - begin, TG_RNG_CHUNK / 2);
        tg_rng_exponential_f64(rng, exponentials, portion, 1.0);
        for (int64_t i = 0; i < portion; i++) {
            double weight = weight_at(row, begin + i);
            double quotient = rounded(row, weight / rounded(row, exponentials[i]));
            runner next = {weight > 0 ? quotient : -1.0, begin + i};
            if (arrived < draws) {
                heap[arrived++] = next;
                for (int64_t top = draws / 2 - 1; arrived == draws && top >= 0; top--) {
                    tg_heap_down(heap, sizeof *heap, (size_t)draws, (size_t)top, is_after, NULL);
                }
            } else if (is_after(NULL, &heap[0], &next)) {
                heap[0] = next;
                tg_heap_down(heap, sizeof *heap, (size_t)draws, 0, is_after, NULL);
            }
        }
    }
}

static void draw_race(tg_rng *rng, int64_t *out, int64_t draws, const weight_row *row, runner *heap)
{
    run_race(rng, row, heap, draws);
    for (int64_t left = draws; left > 0;) {
        out[left - 1] = heap[0].category;
        heap[0] = heap[--left];
        tg_heap_down(heap, sizeof *heap, (size_t)left, 0, is_after, NULL);
    }
}

/* The uniforms that are drawn at once. */
enum { UNIFORMS = 64 };

/* Writes the running sums of the weights. */
static void add_weights(const weight_row *row, double *cumulative)
{
    const float *floats = row->weights;
    const double *doubles = row->weights;
    float float_sum = 0;
    double sum = 0;
    for (int64_t i = 0; row->single && i < row->count; i++) {
        float_sum += floats[i];
        cumulative[i] = (double)float_sum;
    }
    for (int64_t i = 0; !row->single && i < row->count; i++) {
        sum += doubles[i];
        cumulative[i] = sum;
    }
}

/* Returns the first category whose share of the sum of the weights, with those before it, is at least u. */
static int64_t category_of(const weight_row *row, const double *cumulative, double u)
{
    int64_t low = 0, high = row->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        bool is_below = rounded(row, cumulative[middle] / cumulative[row->count - 1]) < u;
        low = is_below ? middle + 1 : low;
        high = is_below ? high : middle;
    }
    return low;
}

static void draw_independent(tg_rng *rng, int64_t *out, int64_t draws, const weight_row *row, double *cumulative)
{
    double u[UNIFORMS];
    add_weights(row, cumulative);
    for (int64_t begin = 0, portion; begin < draws; begin += portion) {
        portion = tg_rng_portion(draws - begin, UNIFORMS);
        tg_rng_uniform_f64(rng, u, portion, 0.0, 1.0);
        for (int64_t i = 0; i < portion; i++) {
            out[begin + i] = category_of(row, cumulative, u[i]);
        }
    }
}

/* Checks a row, which a message calls `name`: "" or "row 2: ". `sums` has room for the running sums, or is NULL. */
static bool check(const weight_row *row, const char *name, int64_t draws, bool replacement, double *sums,
                  tg_error *error)
{
    int64_t positive = 0;
    for (int64_t i = 0; i < row->count; i++) {
        double weight = weight_at(row, i);
        if (!(weight >= 0 && weight <= DBL_MAX)) {
            return tg_error_set(error, TG_ERROR_VALUE, "multinomial: %sweight %g at [%lld] is not a finite number >= 0",
                                name, weight, (long long)i);
        }
        positive += weight > 0;
    }
    if (positive == 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "multinomial: %snone of the %lld weights is above 0", name,
                            (long long)row->count);
    }
    if (draws < 1 || (!replacement && draws > positive)) {
        return tg_error_set(
            error, TG_ERROR_VALUE,
            "multinomial: %s%lld draws %s replacement from %lld weights above 0; it must be at least 1%s", name,
            (long long)draws, replacement ? "with" : "without", (long long)positive,
            replacement ? "" : " and at most one per weight");
    }
    if (sums) {
        add_weights(row, sums);
    }
    return !sums || isfinite(sums[row->count - 1]) ||
           tg_error_set(error, TG_ERROR_VALUE, "multinomial: %sthe sum of the %lld weights overflows", name,
                        (long long)row->count);
}

/* Draws from `rows` rows, the first of which is given; a single one has no number in a message. */
static bool multinomial(tg_rng *rng, int64_t *out, int64_t draws, weight_row row, int64_t rows, bool is_numbered,
                        bool replacement, tg_error *error)
{
    const char *weights = row.weights;
    const size_t stride = (size_t)row.count * (row.single ? sizeof(float) : sizeof(double));
    const bool is_independent = replacement && draws > 1;
    runner single;
    void *scratch = draws <= 1 || row.count == 0 ? &single
                    : replacement                ? tg_alloc((uint64_t)row.count, sizeof(double))
                                  : tg_alloc((uint64_t)(draws < row.count ? draws : row.count), sizeof(runner));
    bool is_valid = scratch || tg_error_set(error, TG_ERROR_MEMORY, "multinomial: out of memory for %lld categories",
                                            (long long)row.count);
    for (int64_t i = 0; is_valid && i < rows; i++) {
        char name[40] = "";
        if (is_numbered) {
            snprintf(name, sizeof name, "row %lld: ", (long long)i);
        }
        row.weights = weights + (size_t)i * stride;
        is_valid = check(&row, name, draws, replacement, is_independent ? scratch : NULL, error);
    }
    for (int64_t i = 0; is_valid && i < rows; i++) {
        row.weights = weights + (size_t)i * stride;
        if (is_independent) {
            draw_independent(rng, out + i * draws, draws, &row, scratch);
        } else {
            draw_race(rng, out + i * draws, draws, &row, scratch);
        }
    }
    if (scratch != &single) {
        tg_free(scratch);
    }
    return is_valid;
}

bool tg_rng_multinomial_f32(tg_rng *rng, int64_t *out, int64_t draws, const float *weights, int64_t categories,
                            bool replacement, tg_error *error)
{
    return multinomial(rng, out, draws, (weight_row){weights, categories, true}, 1, false, replacement, error);
}

bool tg_rng_multinomial_f64(tg_rng *rng, int64_t *out, int64_t draws, const double *weights, int64_t categories,
                            bool replacement, tg_error *error)
{
    return multinomial(rng, out, draws, (weight_row){weights, categories, false}, 1, false, replacement, error);
}

bool tg_rng_multinomial_rows(tg_rng *rng, int64_t *out, int64_t draws, const void *weights, bool single, int64_t rows,
                             int64_t categories, bool replacement, tg_error *error)
{
    return multinomial(rng, out, draws, (weight_row){weights, categories, single}, rows, true, replacement, error);
}

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

/* The rows whose weights are added side by side, because in a row each addition waits for the one before it; and the
 * uniforms that are drawn at once. */
enum { ROWS_TOGETHER = 4, UNIFORMS = 64 };

/* Writes the running sums of some rows, which follow each other. The number is a constant in each call. */
static inline void add_weights(const weight_row *first, int rows, double *cumulative)
{
    const float *floats = first->weights;
    const double *doubles = first->weights;
    float float_sums[ROWS_TOGETHER] = {0};
    double sums[ROWS_TOGETHER] = {0};
    for (int64_t i = 0; first->single && i < first->count; i++) {
        for (int row = 0; row < rows; row++) {
            float_sums[row] += floats[row * first->count + i];
            cumulative[row * first->count + i] = (double)float_sums[row];
        }
    }
    for (int64_t i = 0; !first->single && i < first->count; i++) {
        for (int row = 0; row < rows; row++) {
            sums[row] += doubles[row * first->count + i];
            cumulative[row * first->count + i] = sums[row];
        }
    }
}

/* Returns the first category whose share of the sum of the weights, with those before it, is at least u. Only a share
 * that is near u is divided: all others are so far from it that the quotient's rounding cannot matter. */
static int64_t category_of(const weight_row *row, const double *cumulative, double u)
{
    const double sum = cumulative[row->count - 1], at = u * sum, near = 1e-6 * at;
    int64_t low = 0, high = row->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        bool is_below = cumulative[middle] < at;
        if (fabs(cumulative[middle] - at) <= near) {
            is_below = rounded(row, cumulative[middle] / sum) < u;
        }
        low = is_below ? middle + 1 : low;
        high = is_below ? high : middle;
    }
    return low;
}

static void draw_independent(tg_rng *rng, int64_t *out, int64_t draws, const weight_row *row, const double *cumulative)
{
    double u[UNIFORMS];
    for (int64_t begin = 0, portion; begin < draws; begin += portion) {
        portion = tg_rng_portion(draws - begin, UNIFORMS);
        tg_rng_uniform_f64(rng, u, portion, 0.0, 1.0);
        for (int64_t i = 0; i < portion; i++) {
            out[begin + i] = category_of(row, cumulative, u[i]);
        }
    }
}

/* What the check of a row needs to know of its weights. */
typedef struct weight_facts {
    bool is_valid; /* whether all are finite, and 0 or more */
    bool is_large; /* whether one is so large that the sum may overflow */
    int64_t positive;
} weight_facts;

/* A running sum of rounded additions is at most twice as large as the number of weights times the largest. */
static weight_facts facts_of(const weight_row *row)
{
    const float *floats = row->weights, large_float = FLT_MAX / 4 / (float)row->count;
    const double *doubles = row->weights, large = DBL_MAX / 4 / (double)row->count;
    weight_facts facts = {true, false, 0};
    for (int64_t begin = 0, end; begin < row->count; begin = end) {
        end = begin + tg_rng_portion(row->count - begin, TG_RNG_CHUNK);
        int32_t invalid = 0, too_large = 0, positive = 0;
        for (int64_t i = begin; row->single && i < end; i++) {
            invalid |= !((floats[i] >= 0) & (floats[i] <= FLT_MAX));
            too_large |= floats[i] > large_float;
            positive += floats[i] > 0;
        }
        for (int64_t i = begin; !row->single && i < end; i++) {
            invalid |= !((doubles[i] >= 0) & (doubles[i] <= DBL_MAX));
            too_large |= doubles[i] > large;
            positive += doubles[i] > 0;
        }
        facts = (weight_facts){facts.is_valid && !invalid, facts.is_large || too_large, facts.positive + positive};
    }
    return facts;
}

static bool has_finite_sum(const weight_row *row)
{
    double sum = 0;
    for (int64_t i = 0; i < row->count; i++) {
        sum = rounded(row, sum + weight_at(row, i));
    }
    return isfinite(sum);
}

/* Checks a row, which a message calls `name`: "" or "row 2: ". */
static bool check(const weight_row *row, const char *name, int64_t draws, bool replacement, tg_error *error)
{
    const weight_facts facts = facts_of(row);
    for (int64_t i = 0; !facts.is_valid && i < row->count; i++) {
        double weight = weight_at(row, i);
        if (weight < 0 || !isfinite(weight)) {
            return tg_error_set(error, TG_ERROR_VALUE, "multinomial: %sweight %g at [%lld] is not a finite number >= 0",
                                name, weight, (long long)i);
        }
    }
    const int64_t positive = facts.positive;
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
    return draws == 1 || !replacement || !facts.is_large || has_finite_sum(row) ||
           tg_error_set(error, TG_ERROR_VALUE, "multinomial: %sthe sum of the %lld weights overflows", name,
                        (long long)row->count);
}

/* Draws from rows that are valid and follow each other, at most ROWS_TOGETHER. `scratch` has a double per category of
 * each row, or a runner per draw, unless there is one. */
static void draw(tg_rng *rng, int64_t *out, int64_t draws, const weight_row *first, int64_t rows, bool replacement,
                 void *scratch)
{
    const bool is_independent = replacement && draws > 1;
    const size_t stride = (size_t)first->count * (first->single ? sizeof(float) : sizeof(double));
    weight_row row = *first;
    runner single;
    if (is_independent && rows == ROWS_TOGETHER) {
        add_weights(first, ROWS_TOGETHER, scratch);
    }
    for (int64_t i = 0; i < rows; i++) {
        row.weights = (const char *)first->weights + (size_t)i * stride;
        if (!is_independent) {
            draw_race(rng, out + i * draws, draws, &row, draws > 1 ? scratch : &single);
            continue;
        }
        double *cumulative = (double *)scratch + i * row.count;
        if (rows < ROWS_TOGETHER) {
            add_weights(&row, 1, cumulative);
        }
        draw_independent(rng, out + i * draws, draws, &row, cumulative);
    }
}

/* Draws from `rows` rows, the first of which is given; a single one has no number in a message. */
static bool multinomial(tg_rng *rng, int64_t *out, int64_t draws, weight_row row, int64_t rows, bool is_numbered,
                        bool replacement, tg_error *error)
{
    const weight_row first = row;
    size_t stride = (size_t)row.count * (row.single ? sizeof(float) : sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        row.weights = (const char *)first.weights + (size_t)i * stride;
        if (!check(&row, "", draws, replacement, NULL)) { /* only a message needs the text of its number */
            char name[40] = "";
            if (is_numbered) {
                snprintf(name, sizeof name, "row %lld: ", (long long)i);
            }
            return check(&row, name, draws, replacement, error);
        }
    }
    void *scratch = NULL;
    const int64_t together = rows < ROWS_TOGETHER ? rows : ROWS_TOGETHER;
    if (draws > 1 && rows > 0 &&
        !(scratch = replacement ? tg_alloc((uint64_t)row.count, (size_t)together * sizeof(double))
                                : tg_alloc((uint64_t)draws, sizeof(runner)))) {
        return tg_error_set(error, TG_ERROR_MEMORY, "multinomial: out of memory for %lld categories",
                            (long long)row.count);
    }
    for (int64_t i = 0; i < rows; i += together) {
        row.weights = (const char *)first.weights + (size_t)i * stride;
        draw(rng, out + i * draws, draws, &row, tg_rng_portion(rows - i, together), replacement, scratch);
    }
    tg_free(scratch);
    return true;
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

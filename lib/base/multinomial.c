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

static bool before(runner a, runner b)
{
    return a.quotient > b.quotient || (a.quotient == b.quotient && a.category < b.category);
}

/* Restores the heap order (a parent comes before its children) below `top`. */
static void sift_down(runner *heap, int64_t count, int64_t top)
{
    runner moved = heap[top];
    int64_t child;
    while ((child = 2 * top + 1) < count) {
        if (child + 1 < count && before(heap[child + 1], heap[child])) {
            child++;
        }
        if (!before(heap[child], moved)) {
            break;
        }
        heap[top] = heap[child];
        top = child;
    }
    heap[top] = moved;
}

/* Lets all categories run. Returns the winner, and keeps the runners in `all`, which may be NULL. */
static runner run_race(tg_rng *rng, const weight_row *row, runner *all)
{
    double exponentials[TG_RNG_CHUNK / 2];
    runner first = {-2, 0};
    for (int64_t begin = 0, portion; begin < row->count; begin += portion) {
        portion = tg_rng_portion(row->count - begin, TG_RNG_CHUNK / 2);
        tg_rng_exponential_f64(rng, exponentials, portion, 1.0);
        for (int64_t i = 0; i < portion; i++) {
            double weight = weight_at(row, begin + i);
            double quotient = rounded(row, weight / rounded(row, exponentials[i]));
            runner arrived = {weight > 0 ? quotient : -1.0, begin + i};
            first = before(arrived, first) ? arrived : first;
            if (all) {
                all[begin + i] = arrived;
            }
        }
    }
    return first;
}

static void draw_race(tg_rng *rng, int64_t *out, int64_t draws, const weight_row *row, runner *heap)
{
    run_race(rng, row, heap);
    for (int64_t i = row->count / 2 - 1; i >= 0; i--) {
        sift_down(heap, row->count, i);
    }
    for (int64_t i = 0, left = row->count; i < draws; i++) {
        out[i] = heap[0].category;
        heap[0] = heap[--left];
        sift_down(heap, left, 0);
    }
}

static void draw_independent(tg_rng *rng, int64_t *out, int64_t draws, const weight_row *row, double *cumulative)
{
    double so_far = 0, sum = 0;
    for (int64_t i = 0; i < row->count; i++) {
        sum = rounded(row, sum + weight_at(row, i));
    }
    for (int64_t i = 0; i < row->count; i++) {
        so_far = rounded(row, so_far + weight_at(row, i));
        cumulative[i] = rounded(row, so_far / sum);
    }
    for (int64_t i = 0; i < draws; i++) {
        double u;
        tg_rng_uniform_f64(rng, &u, 1, 0.0, 1.0);
        int64_t low = 0, high = row->count;
        while (low < high) {
            int64_t middle = low + (high - low) / 2;
            if (cumulative[middle] < u) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        out[i] = low;
    }
}

/* Checks a row, which a message calls `name`: "" or "row 2: ". */
static bool check(const weight_row *row, const char *name, int64_t draws, bool replacement, tg_error *error)
{
    int64_t positive = 0;
    double sum = 0;
    for (int64_t i = 0; i < row->count; i++) {
        double weight = weight_at(row, i);
        if (weight < 0 || !isfinite(weight)) {
            return tg_error_set(error, TG_ERROR_VALUE, "multinomial: %sweight %g at [%lld] is not a finite number >= 0",
                                name, weight, (long long)i);
        }
        positive += weight > 0;
        sum = rounded(row, sum + weight);
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
    return draws == 1 || !replacement || isfinite(sum) ||
           tg_error_set(error, TG_ERROR_VALUE, "multinomial: %sthe sum of the %lld weights overflows", name,
                        (long long)row->count);
}

/* Draws from a row that is valid. `scratch` has a double or a runner per category, unless there is one draw. */
static void draw(tg_rng *rng, int64_t *out, int64_t draws, const weight_row *row, bool replacement, void *scratch)
{
    if (draws == 1) {
        out[0] = run_race(rng, row, NULL).category;
    } else if (replacement) {
        draw_independent(rng, out, draws, row, scratch);
    } else {
        draw_race(rng, out, draws, row, scratch);
    }
}

/* Draws from `rows` rows, the first of which is given; a single one has no number in a message. */
static bool multinomial(tg_rng *rng, int64_t *out, int64_t draws, weight_row row, int64_t rows, bool is_numbered,
                        bool replacement, tg_error *error)
{
    const weight_row first = row;
    size_t stride = (size_t)row.count * (row.single ? sizeof(float) : sizeof(double));
    for (int64_t i = 0; i < rows; i++) {
        char name[40] = "";
        if (is_numbered) {
            snprintf(name, sizeof name, "row %lld: ", (long long)i);
        }
        row.weights = (const char *)first.weights + (size_t)i * stride;
        if (!check(&row, name, draws, replacement, error)) {
            return false;
        }
    }
    void *scratch = NULL;
    if (draws > 1 && rows > 0 &&
        !(scratch = tg_alloc((uint64_t)row.count, replacement ? sizeof(double) : sizeof(runner)))) {
        return tg_error_set(error, TG_ERROR_MEMORY, "multinomial: out of memory for %lld categories",
                            (long long)row.count);
    }
    for (int64_t i = 0; i < rows; i++) {
        row.weights = (const char *)first.weights + (size_t)i * stride;
        draw(rng, out + i * draws, draws, &row, replacement, scratch);
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

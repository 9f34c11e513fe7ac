/* Reductions of long and strided tensors: the values are those of the formulas, and the bits are the same at each level
 * and for any number of threads. Short ones are in tests/reference. */
#include "base/level.h"
#include "base/random.h"
#include "ops/calls.h"
#include "support.h"
#include "tensor/tensor.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the formulas, in double ---- */

typedef enum reduction_kind {
    SUM,
    MEAN,
    AMAX,
    AMIN,
    VAR,
    STD,
    LOGSUMEXP,
    NORM_1,
    NORM_2,
    NORM_3,
    NORM_INF,
    ANY,
    ALL,
    ARGMAX,
    ARGMIN,
    KINDS
} reduction_kind;

static bool has_gradient(reduction_kind kind)
{
    return kind < ANY;
}

static double power_of(reduction_kind kind)
{
    return kind == NORM_1 ? 1 : kind == NORM_2 ? 2 : kind == NORM_3 ? 3 : (double)INFINITY;
}

static tg_tensor *call(reduction_kind kind, tg_tape *t, tg_tensor *x, tg_axes axes)
{
    switch (kind) {
    case SUM: return tg_sum(t, x, axes, TG_DROP_AXES);
    case MEAN: return tg_mean(t, x, axes, TG_DROP_AXES);
    case AMAX: return tg_amax(t, x, axes, TG_DROP_AXES);
    case AMIN: return tg_amin(t, x, axes, TG_DROP_AXES);
    case VAR: return tg_var(t, x, axes, 1, TG_DROP_AXES);
    case STD: return tg_std(t, x, axes, 1, TG_DROP_AXES);
    case LOGSUMEXP: return tg_logsumexp(t, x, axes, TG_DROP_AXES);
    case ANY: return tg_any(t, x, axes, TG_DROP_AXES);
    case ALL: return tg_all(t, x, axes, TG_DROP_AXES);
    case ARGMAX: return tg_argmax(t, x, axes.axis[0], TG_DROP_AXES);
    case ARGMIN: return tg_argmin(t, x, axes.axis[0], TG_DROP_AXES);
    default: return tg_norm(t, x, power_of(kind), axes, TG_DROP_AXES);
    }
}

/* Returns the position of the first maximum of sign * v; a NaN counts as one. */
static int64_t position_of(double sign, const double *v, int64_t n)
{
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++) {
        if (!isnan(v[best]) && (isnan(v[k]) || sign * v[k] > sign * v[best])) {
            best = k;
        }
    }
    return best;
}

static double mean_of(const double *v, int64_t n)
{
    double sum = 0;
    for (int64_t k = 0; k < n; k++) {
        sum += v[k];
    }
    return sum / (double)n;
}

static double value_of(reduction_kind kind, const double *v, int64_t n)
{
    double sum = 0, mean = mean_of(v, n), most = v[position_of(1, v, n)], p = power_of(kind);
    int64_t truths = 0;
    for (int64_t k = 0; k < n; k++) {
        truths += v[k] != 0;
        sum += kind == VAR || kind == STD ? (v[k] - mean) * (v[k] - mean)
               : kind == LOGSUMEXP        ? exp(v[k] - most)
                                          : pow(fabs(v[k]), p);
    }
    switch (kind) {
    case SUM: return mean * (double)n;
    case MEAN: return mean;
    case AMAX: return most;
    case AMIN: return v[position_of(-1, v, n)];
    case VAR: return sum / (double)(n - 1);
    case STD: return sqrt(sum / (double)(n - 1));
    case LOGSUMEXP: return isfinite(most) ? most + log(sum) : most;
    case ANY: return truths > 0;
    case ALL: return truths == n;
    case ARGMAX: return (double)position_of(1, v, n);
    case ARGMIN: return (double)position_of(-1, v, n);
    case NORM_INF: return fmax(fabs(most), fabs(v[position_of(-1, v, n)]));
    default: return pow(sum, 1 / p);
    }
}

/* Writes d y / d v. */
static void slopes_of(reduction_kind kind, const double *v, int64_t n, double *slope)
{
    double y = value_of(kind, v, n), mean = mean_of(v, n), ties = 0;
    for (int64_t k = 0; k < n; k++) {
        ties += (kind == NORM_INF ? fabs(v[k]) : v[k]) == y;
    }
    for (int64_t k = 0; k < n; k++) {
        double sign = (v[k] > 0) - (v[k] < 0);
        switch (kind) {
        case SUM: slope[k] = 1; break;
        case MEAN: slope[k] = 1 / (double)n; break;
        case VAR: slope[k] = 2 * (v[k] - mean) / (double)(n - 1); break;
        case STD: slope[k] = (v[k] - mean) / (y * (double)(n - 1)); break;
        case LOGSUMEXP: slope[k] = exp(v[k] - y); break;
        case AMAX:
        case AMIN: slope[k] = v[k] == y ? 1 / ties : 0; break;
        case NORM_INF: slope[k] = fabs(v[k]) == y ? sign / ties : 0; break;
        default: slope[k] = sign * pow(fabs(v[k]) / y, power_of(kind) - 1);
        }
    }
}

/* ---- layouts ---- */

typedef struct layout {
    const char *name;
    tg_shape base;
    int64_t step;   /* of the last axis; 0: 1; negative: flipped */
    int transposed; /* whether the first and the last axis are exchanged */
    int64_t repeat; /* the last axis, of size 1, is expanded to this size */
    int axes[4];    /* the reduced ones, up to -1 */
} layout;

#define BASE(count, ...) .base = {.rank = count, .size = {__VA_ARGS__}}

static const layout layouts[] = {
    {"rows", BASE(2, 61, 1021), .axes = {1, -1}},
    {"columns", BASE(2, 61, 1021), .axes = {0, -1}},
    {"all values", BASE(2, 61, 1021), .axes = {0, 1, -1}},
    {"long rows", BASE(2, 3, 40011), .axes = {1, -1}},
    {"long columns", BASE(2, 20003, 18), .axes = {0, -1}},
    {"long narrow columns", BASE(2, 33001, 3), .axes = {0, -1}},
    {"middle axes", BASE(4, 4, 9, 6, 33), .axes = {1, 2, -1}},
    {"axes in turn, short rows", BASE(4, 4, 9, 6, 33), .axes = {1, 3, -1}},
    {"axes in turn, rows of whole lanes", BASE(4, 4, 9, 6, 64), .axes = {1, 3, -1}},
    {"axes in turn, columns", BASE(4, 9, 4, 40, 33), .axes = {0, 2, -1}},
    {"columns side by side", BASE(2, 701, 100), .axes = {0, -1}},
    {"middle columns side by side", BASE(4, 2, 7001, 1, 3), .axes = {1, -1}},
    {"runs of columns side by side", BASE(4, 7, 5, 90, 4), .axes = {0, 2, -1}},
    {"few values", BASE(2, 700, 5), .axes = {1, -1}},
    {"rows of whole lanes", BASE(2, 61, 192), .axes = {1, -1}},
    {"few long columns", BASE(2, 9, 1100), .axes = {0, -1}},
    {"one value", BASE(2, 700, 1), .axes = {1, -1}},
    {"one output of few values", BASE(1, 19), .axes = {0, -1}},
    {"every second column, rows", BASE(2, 21, 1402), .step = 2, .axes = {1, -1}},
    {"every second column, rows with a short rest", BASE(2, 61, 266), .step = 2, .axes = {1, -1}},
    {"every second column, all values", BASE(2, 61, 702), .step = 2, .axes = {0, 1, -1}},
    {"every second column, columns", BASE(2, 61, 702), .step = 2, .axes = {0, -1}},
    {"every third column", BASE(2, 61, 702), .step = 3, .axes = {0, -1}},
    {"backwards, rows", BASE(2, 21, 702), .step = -1, .axes = {1, -1}},
    {"backwards, columns", BASE(2, 61, 702), .step = -1, .axes = {0, -1}},
    {"transposed, rows", BASE(2, 603, 45), .transposed = 1, .axes = {1, -1}},
    {"transposed, columns", BASE(2, 603, 45), .transposed = 1, .axes = {0, -1}},
    {"repeated columns", BASE(2, 70, 1), .repeat = 50, .axes = {0, -1}},
    {"repeated rows", BASE(2, 70, 1), .repeat = 50, .axes = {1, -1}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static tg_axes axes_of(const layout *l)
{
    tg_axes axes = {.count = 0};
    while (l->axes[axes.count] >= 0) {
        axes.axis[axes.count] = l->axes[axes.count];
        axes.count++;
    }
    return axes;
}

static tg_tensor *view_of(tg_tape *t, tg_tensor *base, const layout *l)
{
    tg_shape shape = tg_tensor_shape(base);
    tg_tensor *x = l->step < 0 ? tg_flip(t, base, TG_AXES(-1)) : base;
    if (llabs(l->step) > 1) {
        x = tg_slice(t, x, -1, 0, INT64_MAX, llabs(l->step));
    }
    if (l->repeat > 0) {
        shape.size[shape.rank - 1] = l->repeat;
        x = tg_expand(t, x, shape);
    }
    return l->transposed ? tg_transpose(t, x, 0, -1) : x;
}

/* Few values are different, so that there are ties. `special` values are NaN, infinite, subnormal or 0. */
static tg_tensor *base_of(tg_dtype dtype, tg_shape shape, bool special)
{
    static const double strange[] = {NAN, INFINITY, -INFINITY, 1e-42, -0.0, 0};
    tg_rng *rng = tg_rng_new(11);
    tg_tensor *base = tg_tensor_new(dtype, shape, NULL);
    for (int64_t i = 0; i < tg_tensor_count(base); i++) {
        int64_t number, kind;
        tg_rng_integers(rng, &number, 1, -2000, 2001);
        tg_rng_integers(rng, &kind, 1, 0, special ? 1800 : 1);
        double value = kind > 0 && kind < 7 ? strange[kind - 1] : (double)number / 512;
        if (dtype == TG_U8) {
            value = number > -1900;
        } else if (dtype == TG_I32) {
            value = (double)number;
        }
        switch (dtype) {
        case TG_F32: ((float *)tg_values(base))[i] = (float)value; break;
        case TG_F64: ((double *)tg_values(base))[i] = value; break;
        case TG_I32: ((int32_t *)tg_values(base))[i] = (int32_t)value; break;
        default: ((uint8_t *)tg_values(base))[i] = (uint8_t)value;
        }
    }
    tg_rng_free(rng);
    return base;
}

/* ---- one call ---- */

typedef struct results {
    tg_tensor *view, *y, *dx; /* dx is the gradient of the view; NULL without one */
} results;

/* Runs forward and backward; with `twice` a second gradient is added to the first. */
static results run(reduction_kind kind, tg_tensor *base, const layout *l, bool twice)
{
    tg_tape *t = tg_tape_new(NULL, NULL);
    bool differentiable = has_gradient(kind) && tg_dtype_is_float(base->dtype);
    results r = {tg_tensor_new_copy(view_of(t, base, l), NULL), NULL, NULL};
    tg_tensor *leaf_of = differentiable ? leaf(tg_tensor_new_copy(base, NULL)) : NULL;
    tg_tensor *x = view_of(t, differentiable ? leaf_of : base, l);
    if (differentiable) {
        assert_true(x == leaf_of || tg_retain_grad(t, x));
    }
    tg_tensor *y = call(kind, t, x, axes_of(l));
    if (!y) {
        fail_msg("%s", tg_tape_error(t)->text);
    }
    r.y = tg_tensor_new_copy(y, NULL);
    if (differentiable) {
        tg_tensor *seed = tg_tensor_new_full(base->dtype, tg_tensor_shape(y), 1.25, NULL);
        tg_tensor *both = twice ? tg_add(t, y, call(kind, t, x, axes_of(l))) : y;
        assert_true(backward_from(t, both, seed));
        r.dx = tg_tensor_new_dense_grad(x, NULL);
        assert_non_null(r.dx);
        tg_release(seed);
        tg_release(leaf_of);
    }
    tg_tape_free(t);
    return r;
}

static void release(results *r)
{
    tg_release(r->view);
    tg_release(r->y);
    tg_release(r->dx);
}

static bool same_values(const tg_tensor *a, const tg_tensor *b)
{
    size_t size = tg_bytes_of(a) / (size_t)tg_tensor_count(a);
    for (int64_t i = 0; i < tg_tensor_count(a); i++) {
        const char *p = (const char *)tg_values(a) + (size_t)i * size,
                   *q = (const char *)tg_values(b) + (size_t)i * size;
        bool nan = isnan(tg_tensor_value_at(a, i)) && isnan(tg_tensor_value_at(b, i));
        if (!nan && memcmp(p, q, size) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- tests ---- */

/* Writes the index of the output of each value of x in row-major order. */
static void outputs_of(const layout *l, tg_shape shape, int64_t *output)
{
    tg_axes axes = axes_of(l);
    int64_t index[TG_MAX_RANK] = {0}, count = 1;
    for (int i = 0; i < shape.rank; i++) {
        count *= shape.size[i];
    }
    for (int64_t at = 0; at < count; at++) {
        output[at] = 0;
        for (int i = 0; i < shape.rank; i++) {
            bool reduced = false;
            for (int k = 0; k < axes.count; k++) {
                reduced = reduced || axes.axis[k] == i;
            }
            output[at] = reduced ? output[at] : output[at] * shape.size[i] + index[i];
        }
        for (int i = shape.rank - 1; i >= 0 && ++index[i] == shape.size[i]; i--) {
            index[i] = 0;
        }
    }
}

static void expect_near(double found, double expected, double scale, double tolerance, const char *what,
                        reduction_kind kind, const layout *l, int64_t at)
{
    bool equal = found == expected || (isnan(found) && isnan(expected));
    if (!equal && !(fabs(found - expected) <= tolerance * (fabs(expected) + scale))) {
        fail_msg("reduction %d, %s: %s %lld is %.17g, expected %.17g", (int)kind, l->name, what, (long long)at, found,
                 expected);
    }
}

static void expect_formulas(const results *r, reduction_kind kind, const layout *l, double tolerance, bool slopes)
{
    int64_t count = tg_tensor_count(r->view), outputs = tg_tensor_count(r->y), n = count / outputs;
    int64_t *output = malloc((size_t)count * sizeof *output), *place = malloc((size_t)count * sizeof *place);
    double *v = malloc((size_t)n * sizeof *v), *slope = malloc((size_t)n * sizeof *slope);
    assert_true(output && place && v && slope);
    outputs_of(l, tg_tensor_shape(r->view), output);
    for (int64_t o = 0; o < outputs; o++) {
        int64_t k = 0;
        for (int64_t at = 0; at < count; at++) {
            if (output[at] == o) {
                place[k] = at;
                v[k++] = tg_tensor_value_at(r->view, at);
            }
        }
        assert_int_equal(k, n);
        bool exact = kind == AMAX || kind == AMIN || kind == NORM_INF || kind >= ANY;
        double scale = kind == SUM ? (double)n : 1;
        expect_near(tg_tensor_value_at(r->y, o), value_of(kind, v, n), scale, exact ? 0 : tolerance, "value", kind, l,
                    o);
        if (r->dx && slopes) {
            slopes_of(kind, v, n, slope);
            for (k = 0; k < n; k++) {
                expect_near(tg_tensor_value_at(r->dx, place[k]), 1.25 * slope[k], 1e-3, 16 * tolerance, "gradient",
                            kind, l, place[k]);
            }
        }
        if (outputs > 40) {
            o += outputs / 40; /* some of many */
        }
    }
    free(output);
    free(place);
    free(v);
    free(slope);
}

static bool is_called(reduction_kind kind, const layout *l)
{
    return (kind != ARGMAX && kind != ARGMIN) || l->axes[1] < 0;
}

static void test_values_are_those_of_the_formulas(void **state)
{
    (void)state;
    static const tg_dtype dtypes[] = {TG_F32, TG_F64, TG_I32, TG_U8};
    for (int d = 0; d < 4; d++) {
        for (int k = 0; k < LAYOUTS; k++) {
            tg_tensor *base = base_of(dtypes[d], layouts[k].base, false);
            for (reduction_kind kind = 0; kind < KINDS; kind++) {
                bool no_float = d >= 2;
                if (!is_called(kind, &layouts[k]) || (no_float && kind != SUM && kind < ANY)) {
                    continue;
                }
                results r = run(kind, base, &layouts[k], false);
                bool defined = !(kind == VAR || kind == STD) || layouts[k].base.size[1] != 1 || layouts[k].repeat > 0;
                if (defined) {
                    expect_formulas(&r, kind, &layouts[k], d == 0 ? 1e-6 : 1e-12,
                                    layouts[k].repeat == 0 || kind != STD);
                }
                release(&r);
            }
            tg_release(base);
        }
    }
}

/* NaN and infinities go where the formulas send them, in lanes, columns and blocks. */
static void test_special_values(void **state)
{
    (void)state;
    static const reduction_kind kinds[] = {SUM, MEAN, AMAX, AMIN, LOGSUMEXP, ANY, ALL, ARGMAX, ARGMIN};
    for (int d = 0; d < 2; d++) {
        for (int k = 0; k < LAYOUTS; k++) {
            tg_tensor *base = base_of(d == 0 ? TG_F32 : TG_F64, layouts[k].base, true);
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
                if (is_called(kinds[i], &layouts[k])) {
                    results r = run(kinds[i], base, &layouts[k], false);
                    expect_formulas(&r, kinds[i], &layouts[k], 1e-6, false);
                    release(&r);
                }
            }
            tg_release(base);
        }
    }
}

/* The largest of negative zeros is one of them, as in torch. */
static void test_negative_zeros(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = tg_tensor_new_full(TG_F32, TG_SHAPE(3, 70), -0.0, NULL);
    const tg_tensor *y = tg_amax(t, x, TG_AXES(1), TG_DROP_AXES);
    for (int i = 0; i < 3; i++) {
        assert_true(signbit(((const float *)tg_tensor_data(y))[i]));
    }
    tg_release(x);
    tg_tape_free(t);
}

static void test_levels_and_threads_change_no_bit(void **state)
{
    (void)state;
    tg_cpu_level first = tg_get_cpu_level();
    int threads = tg_threads();
    for (int d = 0; d < 4; d++) {
        for (int k = 0; k < LAYOUTS; k++) {
            tg_tensor *base = base_of(d < 2 ? TG_F32 : TG_F64, layouts[k].base, d % 2 == 1);
            for (reduction_kind kind = 0; kind < KINDS; kind++) {
                if (!is_called(kind, &layouts[k])) {
                    continue;
                }
                assert_true(tg_set_cpu_level(TG_CPU_BASELINE, NULL) && tg_set_threads(1, NULL));
                results expected = run(kind, base, &layouts[k], false);
                for (int level = 0; level <= tg_level_highest(); level++) {
                    assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL) &&
                                tg_set_threads(3 - 2 * (level % 2), NULL));
                    results r = run(kind, base, &layouts[k], false);
                    if (!same_values(expected.y, r.y) || (r.dx && !same_values(expected.dx, r.dx))) {
                        fail_msg("reduction %d, %s: level %d differs", (int)kind, layouts[k].name, level);
                    }
                    release(&r);
                }
                release(&expected);
            }
            tg_release(base);
        }
    }
    assert_true(tg_set_cpu_level(first, NULL) && tg_set_threads(threads, NULL));
}

/* A second contribution is added to the first, which was written. */
static void test_gradients_accumulate(void **state)
{
    (void)state;
    for (int k = 0; k < LAYOUTS; k++) {
        tg_tensor *base = base_of(TG_F64, layouts[k].base, false);
        for (reduction_kind kind = 0; kind < KINDS; kind++) {
            if (!has_gradient(kind)) {
                continue;
            }
            results once = run(kind, base, &layouts[k], false), twice = run(kind, base, &layouts[k], true);
            for (int64_t i = 0; i < tg_tensor_count(once.dx); i++) {
                double expected = 2 * tg_tensor_value_at(once.dx, i);
                expect_near(tg_tensor_value_at(twice.dx, i), expected, 0, 0, "gradient", kind, &layouts[k], i);
            }
            release(&once);
            release(&twice);
        }
        tg_release(base);
    }
}

/* 16,000 times 0.1: the errors of so many additions, one after the other, go the same way. */
static void test_errors_of_long_sums(void **state)
{
    (void)state;
    enum { ROWS = 16000, COLUMNS = 20 };
    tg_tape *t = tg_tape_new(NULL, NULL);
    for (int axis = 0; axis < 2; axis++) {
        tg_tensor *x = tg_full(t, TG_F64, axis ? TG_SHAPE(COLUMNS, ROWS) : TG_SHAPE(ROWS, COLUMNS), 0.1);
        tg_tensor *sums[] = {tg_sum(t, x, TG_AXES(axis), TG_DROP_AXES), tg_sum_all(t, x)};
        for (int k = 0; k < 2; k++) {
            const double expected = 1600 * (k ? COLUMNS : 1);
            for (int64_t i = 0; i < tg_tensor_count(sums[k]); i++) {
                double error = fabs(tg_tensor_value_at(sums[k], i) - expected) / (DBL_EPSILON * expected);
                if (error > 64) { /* of additions one after the other: 253 */
                    fail_msg("sum %d along axis %d: an error of %g units", k, axis, error);
                }
            }
        }
    }
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_values_are_those_of_the_formulas),
                                       cmocka_unit_test(test_errors_of_long_sums),
                                       cmocka_unit_test(test_special_values),
                                       cmocka_unit_test(test_negative_zeros),
                                       cmocka_unit_test(test_levels_and_threads_change_no_bit),
                                       cmocka_unit_test(test_gradients_accumulate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* gradcheck_modes: compares the gradients of backward with central differences.
 *
 *   numeric     n = (f(x + h d) - f(x - h d)) / 2h     slow mode: d = e_j, a column of the Jacobian J; fast mode: J d
 *   analytic    a = v^T J                              slow mode: v = e_i, a row of J; fast mode: v random
 *   passes      |a - n| <= atol + rtol |n|             slow mode: for each entry of J
 *               |a.d - v.n| <= |v| atol + rtol s       fast mode, with s the root of sum_i (v_i n_i)^2, or |v.n|
 *
 * h d is computed from the values that were written, after rounding, so that the step has no rounding error.
 *
 * Follows torch/autograd/gradcheck.py, but not its fast mode. There d and v are not negative and have length 1, and the
 * tolerance is atol sum(d) sum(v): n wrong derivatives of n^2 are below it. Here each value of d and v is 1/2 to 1, and
 * there are two of each: without signs for an error that all derivatives share, and with signs for one that few have,
 * because the others' terms then cancel to the root of their number. The tolerance is what the differences of the
 * single outputs allow: their errors have random signs, and the sum of m of them grows as the root of m.
 */
#include <math.h>
#include <stdio.h>

#include "gradcheck/gradcheck.h"

/* ---- numeric ---- */

double tg_check_put(tg_tensor *x, int64_t index, double value)
{
    int64_t offset = 0;
    if (!tg_has_values(x) || index >= x->count) {
        return value;
    }
    for (int axis = x->rank - 1; axis >= 0; axis--) {
        offset += index % x->shape[axis] * x->strides[axis];
        index /= x->shape[axis];
    }
    char *at = (char *)tg_tensor_data_mut(x) + offset * (int64_t)tg_size_of(x->dtype);
    tg_convert(at, tg_dtype_of(x), &value, TG_F64, 1);
    tg_convert(&value, TG_F64, at, tg_dtype_of(x), 1);
    return value;
}

void tg_check_read(const tg_check *c, int k)
{
    const tg_tensor *x = c->moved[k];
    const tg_variable *v = &c->variables[k];
    if (tg_has_values(x) && x->count == v->count) {
        tg_copy_to_contiguous(x, v->raw);
        tg_convert(v->before, TG_F64, v->raw, tg_dtype_of(x), v->count);
    }
}

void tg_check_write(const tg_check *c, int k, double *values)
{
    tg_tensor *x = c->moved[k];
    const tg_variable *v = &c->variables[k];
    if (tg_has_values(x) && x->count == v->count) {
        tg_convert(v->raw, tg_dtype_of(x), values, TG_F64, v->count);
        tg_convert(values, TG_F64, v->raw, tg_dtype_of(x), v->count);
        tg_copy_from_contiguous(x, v->raw);
        tg_touch(x);
    }
}

/* Compares the analytic derivative a with the numeric one, n: of value i of the output with respect to value j of input
 * k. In the fast mode j and i are -1, and n is a sum of terms of the given size. As in torch.allclose, an infinite
 * derivative agrees only with itself, and a NaN with nothing. */
static void compare(tg_check *c, int k, int64_t j, int64_t i, double a, double n, double atol, double size)
{
    tg_gradcheck_report *report = c->report;
    tg_variable *v = &c->variables[k];
    bool finite = isfinite(a) && isfinite(n);
    double error = a == n ? 0 : finite ? fabs(a - n) : (double)INFINITY;
    double tolerance = finite ? atol + c->config.rtol * fmax(fabs(n), size) : 0;
    report->compared++;
    c->anything |= a != 0 || n != 0;
    v->max_error = fmax(v->max_error, error);
    v->max_value = fmax(v->max_value, fmax(fabs(a), fabs(n)));
    if (error > tolerance && (!c->mismatch || error - tolerance > c->excess)) {
        c->mismatch = true;
        c->excess = error - tolerance;
        report->input = k;
        report->input_index = j;
        report->output_index = i;
        report->analytic = a;
        report->numeric = n;
        report->tolerance = tolerance;
    }
}

static bool step_is_lost(tg_check *c, int k, double value)
{
    char name[TG_CHECK_NAME];
    return tg_check_fail(c, TG_ERROR_VALUE, "eps %g does not move the value %g of %s%s", c->config.eps, value,
                         tg_check_name(c, k, name), tg_check_differs_floats(c) ? tg_check_floats_remark(c) : "");
}

/* Moves value j of input k by a step forward and back, and measures the result. *above and *below become the values to
 * which it was moved. */
static bool measure_sides(tg_check *c, int k, int64_t j, double step, double *above, double *below)
{
    tg_tensor *x = c->moved[k];
    double value = tg_tensor_value_at(x, j);
    *above = tg_check_put(x, j, value + step);
    bool measured = tg_check_measure(c, c->plus);
    *below = tg_check_put(x, j, value - step);
    measured = measured && tg_check_measure(c, c->minus);
    tg_check_put(x, j, value);
    return measured;
}

static bool is_near(const tg_check *c, double a, double n)
{
    return a == n || fabs(a - n) <= c->config.atol + c->config.rtol * fabs(n);
}

/* What an entry is whose difference disagrees, until smaller steps tell. */
enum { UNDECIDED = TG_GRADCHECK_KINK + 1 };

/* Finds kinks among the entries of a column that disagree, after a step was measured to both sides. At a kink the
 * slopes on both sides differ for each step. Beside one they agree as soon as the step is short enough; then that
 * difference counts. The slopes of a smooth function come nearer to each other as the step does. */
static bool find_kinks(tg_check *c, int k, int64_t j, double above, double below)
{
    tg_variable *v = &c->variables[k];
    double value = tg_tensor_value_at(c->moved[k], j), step = tg_check_step(c, value);
    if (tg_check_differs_floats(c) || !tg_check_measure(c, c->center)) {
        return tg_check_differs_floats(c);
    }
    for (int level = 0; level <= 3; level++, step /= 4) {
        if (level > 0 && !measure_sides(c, k, j, step, &above, &below)) {
            return false;
        }
        for (int64_t i = 0; i < c->outputs && value < above && below < value; i++) {
            int64_t at = j * c->outputs + i;
            double left = (c->center[i] - c->minus[i]) / (value - below), gap;
            double right = (c->plus[i] - c->center[i]) / (above - value), a = v->jacobian[i * v->count + j];
            double n = (c->plus[i] - c->minus[i]) / (above - below),
                   tolerance = c->config.atol + c->config.rtol * fabs(n);
            gap = fabs(right - left);
            c->gaps[i] = level == 0 ? gap : c->gaps[i];
            if (v->verdicts[at] != UNDECIDED) {
                continue;
            }
            if (gap <= tolerance || (level == 3 && !(gap > c->gaps[i] / 8))) {
                v->numeric[at] = n;
                v->verdicts[at] = is_near(c, a, n) ? TG_GRADCHECK_RIGHT : TG_GRADCHECK_WRONG;
            } else if (level == 3 && a >= fmin(left, right) - tolerance && a <= fmax(left, right) + tolerance) {
                v->verdicts[at] = TG_GRADCHECK_KINK;
            }
        }
    }
    return true;
}

static bool slow_column(tg_check *c, int k, int64_t j)
{
    tg_variable *v = &c->variables[k];
    double value = tg_tensor_value_at(c->moved[k], j), above, below;
    if (!measure_sides(c, k, j, tg_check_step(c, value), &above, &below)) {
        return false;
    }
    if (!(above - below > 0)) {
        return step_is_lost(c, k, value);
    }
    bool any = false;
    for (int64_t i = 0; i < c->outputs; i++) {
        int64_t at = j * c->outputs + i;
        v->numeric[at] = (c->plus[i] - c->minus[i]) / (above - below);
        bool is_right = is_near(c, v->jacobian[i * v->count + j], v->numeric[at]);
        v->verdicts[at] = is_right ? TG_GRADCHECK_RIGHT : UNDECIDED;
        any |= !is_right;
    }
    if (any && !find_kinks(c, k, j, above, below)) {
        return false;
    }
    for (int64_t i = 0; i < c->outputs; i++) {
        int64_t at = j * c->outputs + i;
        const double analytic = v->jacobian[i * v->count + j];
        tg_gradcheck_verdict verdict = v->verdicts[at] == UNDECIDED ? TG_GRADCHECK_WRONG : v->verdicts[at];
        v->verdicts[at] = (uint8_t)verdict;
        c->report->wrong += verdict == TG_GRADCHECK_WRONG;
        c->report->kinks += verdict == TG_GRADCHECK_KINK;
        if (verdict != TG_GRADCHECK_KINK || !c->config.skip_kinks) {
            compare(c, k, j, i, analytic, v->numeric[at], c->config.atol, 0);
        }
        if (c->config.on_pair) {
            const tg_gradcheck_pair pair = {k, j, i, analytic, v->numeric[at], verdict};
            c->config.on_pair(c->config.pair_context, &pair);
        }
    }
    return true;
}

/* ---- kinks ---- */

/* Returns the index of a value of input k that value j meets within a step; of several, one that differs from j on the
 * fewest axes. -1 if there is none. */
static int64_t find_tie(const tg_check *c, int k, int64_t j)
{
    const tg_tensor *x = c->moved[k];
    double value = tg_tensor_value_at(x, j), step = tg_check_step(c, value);
    int64_t found = -1;
    int fewest = TG_MAX_RANK + 1;
    for (int64_t i = 0; i < x->count; i++) {
        int axes = 0;
        int64_t a = i, b = j;
        for (int axis = x->rank - 1; axis >= 0; axis--) {
            axes += a % x->shape[axis] != b % x->shape[axis];
            a /= x->shape[axis];
            b /= x->shape[axis];
        }
        if (i != j && axes < fewest && fabs(tg_tensor_value_at(x, i) - value) <= step) {
            found = i;
            fewest = axes;
        }
    }
    return found;
}

const char *tg_check_describe_kink(tg_check *c, char text[TG_CHECK_KINK])
{
    const tg_gradcheck_report *report = c->report;
    const int64_t i = report->output_index, j = report->input_index;
    text[0] = '\0';
    if (j < 0) {
        return text;
    }
    const tg_variable *v = &c->variables[report->input];
    const double value = tg_tensor_value_at(c->moved[report->input], j);
    double high, low;
    if (v->verdicts[j * c->outputs + i] != TG_GRADCHECK_KINK || !tg_check_measure(c, c->center) ||
        !measure_sides(c, report->input, j, tg_check_step(c, value), &high, &low)) {
        return text;
    }
    double below = (c->center[i] - c->minus[i]) / (value - low), above = (c->plus[i] - c->center[i]) / (high - value);
    int64_t tie = find_tie(c, report->input, j);
    char index[TG_SHAPE_TEXT];
    size_t used = (size_t)snprintf(text, TG_CHECK_KINK,
                                   "; the slope is %.6g below the value %.9g and %.6g above it, so the function has no "
                                   "derivative there",
                                   below, value, above);
    if (tie >= 0) {
        snprintf(text + used, TG_CHECK_KINK - used, ": the value is also at %s, a tie",
                 tg_index_format(&c->variables[report->input].shape, tie, index));
    }
    return text;
}

/* ---- the two modes ---- */

bool tg_check_make_jacobians(tg_check *c)
{
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        tg_free(v->jacobian);
        v->jacobian = v->checked ? tg_check_numbers(c->rows, v->count) : NULL;
        v->max_error = v->max_value = 0;
        if (v->checked && !v->jacobian) {
            return tg_check_out_of_memory(c);
        }
    }
    return true;
}

/* Allocates what the slow mode finds for each entry. */
static bool make_verdicts(tg_check *c)
{
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        v->numeric = v->checked ? tg_check_numbers(c->rows, v->count) : NULL;
        v->verdicts = v->checked ? tg_alloc_zeroed((uint64_t)(c->rows * v->count) + 1, 1) : NULL;
        if (v->checked && (!v->numeric || !v->verdicts)) {
            return tg_check_out_of_memory(c);
        }
    }
    return true;
}

bool tg_check_slow(tg_check *c)
{
    c->rows = c->outputs;
    c->is_projected = false;
    if (!tg_check_make_jacobians(c) || !make_verdicts(c) || !tg_check_analytic(c)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        for (int64_t j = 0; c->variables[k].checked && j < c->variables[k].count; j++) {
            if (!tg_check_without_gradient(c, k, j) && !slow_column(c, k, j)) {
                return false;
            }
        }
    }
    return c->mismatch || tg_check_linear(c);
}

/* Compares v^T J d for the direction d of input k, which is in `direction`, and each v. */
static void compare_projections(tg_check *c, int k)
{
    const tg_variable *v = &c->variables[k];
    for (int64_t row = 0; row < c->rows; row++) {
        const double *projection = c->projections + row * c->outputs;
        double a = 0, n = 0, squares = 0, norm = 0;
        for (int64_t j = 0; j < v->count; j++) {
            a += v->jacobian[row * v->count + j] * v->direction[j];
        }
        for (int64_t i = 0; i < c->outputs; i++) {
            double term = projection[i] * ((c->plus[i] - c->minus[i]) / (2 * c->config.eps));
            n += term;
            squares += term * term;
            norm += projection[i] * projection[i];
        }
        compare(c, k, -1, -1, a, n, c->config.atol * sqrt(norm), sqrt(squares));
    }
}

/* Moves input k forward and back in a random direction, and compares the derivatives. `direction` becomes the direction
 * of the actual move, after rounding. */
static bool fast_direction(tg_check *c, int k, tg_rng *rng, bool is_signed)
{
    tg_variable *v = &c->variables[k];
    double *value = v->before, *above = v->again, *u = v->direction;
    tg_check_read(c, k);
    for (int64_t j = 0; j < v->count; j++) {
        double drawn = tg_check_draw(rng, is_signed);
        u[j] = tg_check_without_gradient(c, k, j) ? 0 : drawn * tg_check_step(c, value[j]);
        above[j] = value[j] + u[j];
        u[j] = value[j] - u[j];
    }
    tg_check_write(c, k, above);
    bool measured = tg_check_measure(c, c->plus);
    tg_check_write(c, k, u);
    measured = measured && tg_check_measure(c, c->minus);
    tg_check_write(c, k, value);
    for (int64_t j = 0; measured && j < v->count; j++) {
        u[j] = (above[j] - u[j]) / (2 * c->config.eps);
        if (u[j] == 0 && !tg_check_without_gradient(c, k, j)) {
            return step_is_lost(c, k, value[j]);
        }
    }
    if (!measured) {
        return false;
    }
    compare_projections(c, k);
    return true;
}

bool tg_check_fast(tg_check *c)
{
    tg_rng rng;
    tg_rng_seed(&rng, c->config.projection_seed);
    c->rows = TG_CHECK_DRAWS;
    c->is_projected = true;
    for (int64_t i = 0; i < c->rows * c->outputs; i++) {
        c->projections[i] = tg_check_draw(&rng, i >= c->outputs);
    }
    if (!tg_check_make_jacobians(c) || !tg_check_analytic(c)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        for (int draw = 0; draw < TG_CHECK_DRAWS && v->checked && v->count > 0 && c->outputs > 0; draw++) {
            if (!fast_direction(c, k, &rng, draw > 0)) {
                return false;
            }
        }
    }
    return c->mismatch || tg_check_linear(c);
}

/* gradcheck: compares the gradients of backward with central differences.
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
 *
 * gradcheck_analytic.c has the checks that need no differences.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "check/gradcheck.h"

static const char mark[] = "tg_gradcheck_config_default";

tg_gradcheck_config tg_gradcheck_config_default(void)
{
    return (tg_gradcheck_config){.mark = mark,
                                 .name = "gradcheck",
                                 .mode = TG_GRADCHECK_SLOW,
                                 .dtype = TG_F64,
                                 .eps = 1e-6,
                                 .atol = 1e-5,
                                 .rtol = 1e-3,
                                 .training = true,
                                 .projection_seed = 67280421310721};
}

/* ---- numeric ---- */

/* Writes x[index]. Returns the value that it has in x's dtype. */
static double put(tg_tensor *x, int64_t index, double value)
{
    int64_t offset = 0;
    for (int axis = x->rank - 1; axis >= 0; axis--) {
        offset += index % x->shape[axis] * x->strides[axis];
        index /= x->shape[axis];
    }
    char *at = (char *)tg_tensor_data_mut(x) + offset * (int64_t)tg_size_of(x->dtype);
    tg_convert(at, tg_dtype_of(x), &value, TG_F64, 1);
    tg_convert(&value, TG_F64, at, tg_dtype_of(x), 1);
    return value;
}

static double step_at(const tg_check *c, double x)
{
    return c->config.eps * (c->config.relative_eps && fabs(x) > 1 ? fabs(x) : 1);
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
    return tg_check_fail(c, TG_ERROR_VALUE, "eps %g does not move the value %g of %s", c->config.eps, value,
                         tg_check_name(c, k, name));
}

static bool slow_column(tg_check *c, int k, int64_t j)
{
    tg_tensor *x = c->moved[k];
    double value = tg_tensor_value_at(x, j), step = step_at(c, value);
    double above = put(x, j, value + step);
    bool measured = tg_check_measure(c, c->plus);
    double below = put(x, j, value - step);
    measured = measured && tg_check_measure(c, c->minus);
    put(x, j, value);
    if (!measured) {
        return false;
    }
    if (!(above - below > 0)) {
        return step_is_lost(c, k, value);
    }
    const tg_variable *v = &c->variables[k];
    for (int64_t i = 0; i < c->outputs; i++) {
        double n = (c->plus[i] - c->minus[i]) / (above - below);
        compare(c, k, j, i, v->jacobian[i * v->count + j], n, c->config.atol, 0);
    }
    return true;
}

/* ---- the two modes ---- */

static double *numbers(int64_t rows, int64_t columns)
{
    size_t count;
    bool fits = tg_checked_mul((uint64_t)rows, (uint64_t)columns, &count) && tg_checked_add(count, 1, &count);
    return fits ? tg_alloc(count, sizeof(double)) : NULL;
}

/* Allocates the rows of every Jacobian, and frees the old ones. */
static bool make_jacobians(tg_check *c)
{
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        tg_free(v->jacobian);
        v->jacobian = v->checked ? numbers(c->rows, v->count) : NULL;
        v->max_error = v->max_value = 0;
        if (v->checked && !v->jacobian) {
            return tg_check_out_of_memory(c);
        }
    }
    return true;
}

static bool slow(tg_check *c)
{
    c->rows = c->outputs;
    c->is_projected = false;
    if (!make_jacobians(c) || !tg_check_analytic(c)) {
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
    tg_tensor *x = c->moved[k];
    double *value = v->before, *u = v->direction;
    for (int64_t j = 0; j < v->count; j++) {
        double drawn = tg_check_draw(rng, is_signed);
        value[j] = tg_tensor_value_at(x, j);
        u[j] = tg_check_without_gradient(c, k, j) ? 0 : drawn * step_at(c, value[j]);
        v->again[j] = put(x, j, value[j] + u[j]);
    }
    bool measured = tg_check_measure(c, c->plus), lost = false;
    int64_t lost_at = 0;
    for (int64_t j = 0; j < v->count; j++) {
        double move = v->again[j] - put(x, j, value[j] - u[j]);
        lost_at = !lost && u[j] != 0 && move == 0 ? j : lost_at;
        lost |= u[j] != 0 && move == 0;
        u[j] = move / (2 * c->config.eps);
    }
    measured = measured && tg_check_measure(c, c->minus);
    for (int64_t j = 0; j < v->count; j++) {
        put(x, j, value[j]);
    }
    if (!measured || lost) {
        return measured && step_is_lost(c, k, value[lost_at]);
    }
    compare_projections(c, k);
    return true;
}

static bool fast(tg_check *c)
{
    tg_rng rng;
    tg_rng_seed(&rng, c->config.projection_seed);
    c->rows = TG_CHECK_DRAWS;
    c->is_projected = true;
    for (int64_t i = 0; i < c->rows * c->outputs; i++) {
        c->projections[i] = tg_check_draw(&rng, i >= c->outputs);
    }
    if (!make_jacobians(c) || !tg_check_analytic(c)) {
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

/* ---- the result ---- */

static void describe_mismatch(tg_check *c, const char *remark)
{
    tg_gradcheck_report *report = c->report;
    char in[TG_SHAPE_TEXT], out[TG_SHAPE_TEXT], name[TG_CHECK_NAME], where[2 * TG_SHAPE_TEXT + TG_CHECK_NAME];
    char allowed[100];
    tg_check_name(c, report->input, name);
    if (report->input_index < 0) {
        snprintf(where, sizeof where, "along a random direction of %s", name);
    } else {
        snprintf(where, sizeof where, "d output %s / d %s %s",
                 tg_index_format(&c->output_shape, report->output_index, out), name,
                 tg_index_format(&c->variables[report->input].shape, report->input_index, in));
    }
    snprintf(allowed, sizeof allowed, "they may differ by %.3g", report->tolerance);
    tg_check_fail(c, TG_ERROR_VALUE, "%s: analytic %.9g, numeric %.9g; %s%s", where, tg_check_shown(report->analytic),
                  tg_check_shown(report->numeric),
                  !isfinite(report->numeric)
                      ? "the difference must be finite: use inputs and an eps at which the function's values are"
                  : !isfinite(report->analytic) ? "the gradient must be finite"
                                                : allowed,
                  remark);
}

static void sum_up(tg_check *c)
{
    tg_gradcheck_report *report = c->report;
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        bool finite = isfinite(v->max_error);
        double relative = finite && v->max_error > 0 ? v->max_error / v->max_value : v->max_error;
        report->max_absolute_error = fmax(report->max_absolute_error, v->max_error);
        report->max_relative_error = fmax(report->max_relative_error, relative);
    }
    if (report->input >= 0 && report->input_index >= 0) {
        tg_index_format(&c->variables[report->input].shape, report->input_index, report->input_position);
    }
    if (c->error->code != TG_OK) {
        return;
    }
    if (report->compared == 0 && !c->config.allow_empty) {
        tg_check_fail(c, TG_ERROR_SHAPE,
                      "nothing to compare: the result or every input is empty; config.allow_empty accepts this");
    } else if (report->compared > 0 && !c->anything) {
        tg_check_fail(c, TG_ERROR_VALUE,
                      "all derivatives are zero, analytic and numeric: this check cannot fail; use other inputs");
    } else {
        report->passed = true;
        snprintf(report->text, sizeof report->text, "%.80s: passed, %lld compared, largest relative error %.2g",
                 c->config.name, (long long)report->compared, report->max_relative_error);
    }
}

static void run(tg_check *c)
{
    if (c->config.mode == TG_GRADCHECK_SLOW) {
        if (slow(c) && c->mismatch) {
            describe_mismatch(c, "");
        }
    } else if (fast(c) && c->mismatch) {
        tg_gradcheck_report projected = *c->report;
        c->mismatch = false;
        if (slow(c) && c->mismatch) {
            describe_mismatch(c, "");
        } else if (c->error->code == TG_OK) {
            *c->report = projected;
            describe_mismatch(c, "; the comparison of single entries (slow mode) passes");
        }
    }
    sum_up(c);
}

/* Compares the result with that of the reference. */
static bool agrees_with_reference(tg_check *c, const tg_tensor *y)
{
    if (!tg_check_measure(c, c->plus)) {
        return false;
    }
    for (int64_t i = 0; i < c->outputs; i++) {
        double found = tg_tensor_value_at(y, i), expected = c->plus[i];
        if (found != expected && !(fabs(found - expected) <= c->config.atol + c->config.rtol * fabs(expected))) {
            char index[TG_SHAPE_TEXT];
            return tg_check_fail(c, TG_ERROR_VALUE, "the result at %s is %.9g, and %.9g by the reference",
                                 tg_index_format(&c->output_shape, i, index), tg_check_shown(found),
                                 tg_check_shown(expected));
        }
    }
    return true;
}

static bool prepare(tg_check *c)
{
    size_t inputs = (size_t)c->input_count;
    c->rng = tg_rng_new(0);
    c->tape = c->rng ? tg_tape_new(c->rng, NULL) : NULL;
    c->variables = tg_alloc_zeroed(inputs + 1, sizeof *c->variables);
    c->inputs = tg_alloc_zeroed(inputs + 1, sizeof *c->inputs);
    c->moved = tg_alloc_zeroed(inputs + 1, sizeof *c->moved);
    c->values = tg_alloc_zeroed(inputs + 1, sizeof *c->values);
    if (!c->tape || !c->variables || !c->inputs || !c->moved || !c->values) {
        return tg_check_out_of_memory(c);
    }
    bool any = false;
    for (int k = 0; k < c->input_count; k++) {
        if (!tg_check_copy_input(c, k)) {
            return false;
        }
        tg_variable *v = &c->variables[k];
        any |= v->checked;
        v->before = numbers(1, v->count);
        v->again = numbers(1, v->count);
        v->direction = numbers(1, v->count);
        if (!v->before || !v->again || !v->direction) {
            return tg_check_out_of_memory(c);
        }
        c->values[k] = tg_values(c->moved[k]);
    }
    if (!any) {
        return tg_check_fail(c, TG_ERROR_STATE, "no input requires a gradient: there is nothing to check");
    }
    tg_tensor *y = tg_check_rows(c) ? tg_check_record(c, false) : NULL;
    if (!y) {
        return false;
    }
    c->output_shape = tg_shape_of(y);
    c->outputs = y->count;
    c->raw = numbers(1, c->outputs);
    c->first = numbers(1, c->outputs);
    c->plus = numbers(1, c->outputs);
    c->minus = numbers(1, c->outputs);
    c->projections = numbers(TG_CHECK_DRAWS, c->outputs);
    tg_tensor *seed = tg_tensor_new(tg_dtype_of(y), c->output_shape, NULL);
    if (!c->raw || !c->first || !c->plus || !c->minus || !c->projections || !seed) {
        tg_release(seed);
        return tg_check_out_of_memory(c);
    }
    c->seed = seed;
    tg_copy_to_contiguous(y, c->first);
    return !c->config.reference || agrees_with_reference(c, y);
}

static void release(tg_check *c)
{
    tg_tape_free(c->tape);
    tg_rng_free(c->rng);
    for (int k = 0; c->variables && k < c->input_count; k++) {
        tg_free(c->variables[k].jacobian);
        tg_free(c->variables[k].before);
        tg_free(c->variables[k].again);
        tg_free(c->variables[k].direction);
        tg_release(c->inputs ? c->inputs[k] : NULL);
        tg_release(c->moved ? c->moved[k] : NULL);
    }
    tg_free(c->variables);
    tg_free(c->inputs);
    tg_free(c->moved);
    tg_free(c->values);
    tg_free(c->raw);
    tg_free(c->first);
    tg_free(c->plus);
    tg_free(c->minus);
    tg_free(c->projections);
    tg_release(c->seed);
}

static bool check_arguments(const tg_check *c, const tg_gradcheck_config *config, tg_error *error)
{
    if (!tg_config_check("gradcheck", config, mark, error)) {
        return false;
    }
    if (!c->function || c->input_count < 0 || (!c->given && c->input_count > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "gradcheck: the %s",
                            !c->function ? "function is NULL" : "inputs are NULL");
    }
    return !config ||
           (config->eps > 0 && isfinite(config->eps) && (config->rows_without_gradient || !config->row_count)) ||
           tg_error_set(error, TG_ERROR_VALUE,
                        "gradcheck: eps %g, %d rows_without_gradient at %s; eps must be above 0, and the rows not NULL",
                        config->eps, config->row_count, config->rows_without_gradient ? "an address" : "NULL");
}

bool tg_check_run(tg_check *c, const tg_gradcheck_config *config, tg_error *error)
{
    tg_gradcheck_report own_report;
    tg_error own_error = TG_NO_ERROR;
    c->report = c->report ? c->report : &own_report;
    *c->report = (tg_gradcheck_report){.input = -1, .input_index = -1, .output_index = -1};
    if (check_arguments(c, config, &own_error)) {
        c->error = &own_error;
        c->config = config ? *config : tg_gradcheck_config_default();
        c->config.name = c->config.name ? c->config.name : "gradcheck";
        c->guard.fill = TG_GUARD_NAN;
        if (prepare(c)) {
            run(c);
        }
        release(c);
    }
    if (!c->report->passed) {
        snprintf(c->report->text, sizeof c->report->text, "%s", own_error.text);
        tg_error_set(error, own_error.code, "%s", own_error.text);
    }
    return c->report->passed;
}

bool tg_gradcheck(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                  const tg_gradcheck_config *config, tg_gradcheck_report *report, tg_error *error)
{
    tg_check c = {
        .function = function, .context = context, .given = inputs, .input_count = input_count, .report = report};
    return tg_check_run(&c, config, error);
}

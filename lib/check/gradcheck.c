/* gradcheck: compares the gradients of backward with central differences.
 *
 *   numeric     n = (f(x + h d) - f(x - h d)) / 2h     slow mode: d = e_j, a column of the Jacobian J; fast mode: J d
 *   analytic    a = v^T J                              slow mode: v = e_i, a row of J; fast mode: v random
 *   passes      |a - n| <= atol + rtol |n|             slow mode: for each entry of J
 *               |a.d - v.n| <= T + rtol |v.n|          fast mode: T = atol sum(d) sum(v)
 *
 * h d is computed from the values that were written, after rounding, so that the step has no rounding error.
 *
 * Backward runs three times for each v. The first two runs start from zeroed gradients and must agree to the last bit.
 * The third run adds to the gradients of the second and must double them: only this finds a kernel that assigns where
 * it must add. A v of zeros must give zeros.
 *
 * Follows torch/autograd/gradcheck.py. The fast mode takes the same draws: float32 uniforms divided by their norm,
 * first for the inputs and then for the output.
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

/* Writes x[index]. Returns the value that it has in x's dtype. Writes nothing if the function has resized x, or trains
 * it with deferred steps: then the check has failed. */
static double put(tg_tensor *x, int64_t index, double value)
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

static double step_at(const tg_check *c, double x)
{
    return c->config.eps * (c->config.relative_eps && fabs(x) > 1 ? fabs(x) : 1);
}

/* Compares the analytic derivative a with the numeric one, n: of value i of the output with respect to value j of input
 * k. In the fast mode j and i are -1. */
static void compare(tg_check *c, int k, int64_t j, int64_t i, double a, double n, double atol)
{
    tg_gradcheck_report *report = c->report;
    tg_variable *v = &c->variables[k];
    double error = fabs(a - n), tolerance = atol + c->config.rtol * fabs(n);
    report->compared++;
    c->anything |= a != 0 || n != 0;
    v->max_error = !(error <= v->max_error) ? error : v->max_error;
    v->max_value = fmax(v->max_value, fmax(fabs(a), fabs(n)));
    bool worse = !c->mismatch || error - tolerance > fabs(report->analytic - report->numeric) - report->tolerance;
    if (!(error <= tolerance) && worse) {
        c->mismatch = true;
        report->input = k;
        report->input_index = j;
        report->output_index = i;
        report->analytic = a;
        report->numeric = n;
        report->tolerance = tolerance;
    }
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
        char name[TG_CHECK_NAME];
        return tg_check_fail(c, TG_ERROR_VALUE, "eps %g does not move the value %g of %s", c->config.eps, value,
                             tg_check_name(c, k, name));
    }
    const tg_variable *v = &c->variables[k];
    for (int64_t i = 0; i < c->outputs; i++) {
        compare(c, k, j, i, v->jacobian[i * v->count + j], (c->plus[i] - c->minus[i]) / (above - below),
                c->config.atol);
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

/* Allocates `rows` rows for every Jacobian, and frees the old rows. */
static bool make_jacobians(tg_check *c, int64_t rows)
{
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        tg_free(v->jacobian);
        v->jacobian = v->checked ? numbers(rows, v->count) : NULL;
        v->max_error = v->max_value = 0;
        if (v->checked && !v->jacobian) {
            return tg_check_out_of_memory(c);
        }
    }
    return true;
}

/* Evaluates the function for the inputs. Returns the recorded result, or NULL after an error. */
static tg_tensor *record(tg_check *c)
{
    tg_tensor *y = tg_check_evaluate(c, c->inputs);
    return y;
}

static bool slow(tg_check *c)
{
    tg_tensor *y = make_jacobians(c, c->outputs) ? record(c) : NULL;
    if (!y) {
        return false;
    }
    for (int64_t i = 0; i < c->outputs; i++) {
        tg_tensor_fill(c->seed, 0, NULL);
        put(c->seed, i, 1);
        if (!tg_check_analytic_row(c, y, i)) {
            return false;
        }
    }
    if (!tg_check_silent_rows(c, c->outputs)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        for (int64_t j = 0; c->variables[k].checked && j < c->variables[k].count; j++) {
            if (!tg_check_without_gradient(c, k, j) && !slow_column(c, k, j)) {
                return false;
            }
        }
    }
    return true;
}

/* Draws float32 uniforms and divides them by their norm. Returns their sum. */
static double draw_unit(tg_rng *rng, double *out, int64_t count)
{
    double squares = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        float uniform;
        tg_rng_uniform_f32(rng, &uniform, 1, 0, 1);
        out[i] = (double)uniform;
        squares += out[i] * out[i];
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] /= squares > 0 ? sqrt(squares) : 1;
        sum += out[i];
    }
    return sum;
}

/* Moves input k forward and back along its direction u, and compares the derivatives along u. u becomes the direction
 * of the actual move, after rounding. */
static bool fast_input(tg_check *c, int k, double atol)
{
    tg_variable *v = &c->variables[k];
    tg_tensor *x = c->moved[k];
    double a = 0, n = 0, largest = 0;
    double *value = v->again, *u = v->direction;
    for (int64_t j = 0; j < v->count; j++) {
        value[j] = tg_tensor_value_at(x, j);
        largest = fmax(largest, fabs(value[j]));
        u[j] = tg_check_without_gradient(c, k, j) ? 0 : u[j];
    }
    double step = step_at(c, largest);
    for (int64_t j = 0; j < v->count; j++) {
        put(x, j, value[j] + step * u[j]);
    }
    bool measured = tg_check_measure(c, c->plus);
    for (int64_t j = 0; j < v->count; j++) {
        double above = tg_tensor_value_at(x, j);
        u[j] = (above - put(x, j, value[j] - step * u[j])) / (2 * step);
    }
    measured = measured && tg_check_measure(c, c->minus);
    for (int64_t j = 0; j < v->count; j++) {
        put(x, j, value[j]);
        a += v->jacobian[j] * u[j];
    }
    for (int64_t i = 0; i < c->outputs; i++) {
        n += c->projection[i] * ((c->plus[i] - c->minus[i]) / (2 * step));
    }
    if (measured && v->count > 0) {
        compare(c, k, -1, -1, a, n, atol);
    }
    return measured;
}

static bool fast(tg_check *c)
{
    if (!make_jacobians(c, 1)) {
        return false;
    }
    tg_rng_seed(c->rng, c->config.projection_seed);
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        if (v->checked) {
            v->direction_sum = draw_unit(c->rng, v->direction, v->count);
        }
    }
    double v_sum = draw_unit(c->rng, c->projection, c->outputs);
    for (int64_t i = 0; i < c->outputs; i++) {
        put(c->seed, i, c->projection[i]);
    }
    tg_tensor *y = record(c);
    if (!y || !tg_check_analytic_row(c, y, 0) || !tg_check_silent_rows(c, 1)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        if (v->checked && c->outputs > 0 && !fast_input(c, k, c->config.atol * v->direction_sum * v_sum)) {
            return false;
        }
    }
    return true;
}

/* ---- the result ---- */

static void describe_mismatch(tg_check *c, const char *remark)
{
    tg_gradcheck_report *report = c->report;
    char in[TG_SHAPE_TEXT], out[TG_SHAPE_TEXT], name[TG_CHECK_NAME];
    tg_check_name(c, report->input, name);
    if (report->input_index < 0) {
        tg_check_fail(c, TG_ERROR_VALUE,
                      "along a random direction of %s: analytic %.9g, numeric %.9g; they may differ by %.3g%s", name,
                      report->analytic, report->numeric, report->tolerance, remark);
        return;
    }
    tg_check_fail(c, TG_ERROR_VALUE, "d output %s / d %s %s: analytic %.9g, numeric %.9g; they may differ by %.3g%s",
                  tg_index_format(&c->output_shape, report->output_index, out), name,
                  tg_index_format(&c->variables[report->input].shape, report->input_index, in), report->analytic,
                  report->numeric, report->tolerance, remark);
}

static void sum_up(tg_check *c)
{
    tg_gradcheck_report *report = c->report;
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        double relative = v->max_error > 0 ? v->max_error / v->max_value : v->max_error;
        report->max_absolute_error =
            !(v->max_error <= report->max_absolute_error) ? v->max_error : report->max_absolute_error;
        report->max_relative_error = !(relative <= report->max_relative_error) ? relative : report->max_relative_error;
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

static bool prepare(tg_check *c)
{
    size_t inputs = (size_t)c->input_count;
    c->rng = tg_rng_new(0);
    c->tape = c->rng ? tg_tape_new(c->rng, NULL) : NULL;
    c->variables = tg_alloc_zeroed(inputs + 1, sizeof *c->variables);
    c->inputs = tg_alloc_zeroed(inputs + 1, sizeof *c->inputs);
    c->moved = tg_alloc_zeroed(inputs + 1, sizeof *c->moved);
    if (!c->tape || !c->variables || !c->inputs || !c->moved) {
        return tg_check_out_of_memory(c);
    }
    bool any = false;
    for (int k = 0; k < c->input_count; k++) {
        if (!tg_check_copy_input(c, k)) {
            return false;
        }
        tg_variable *v = &c->variables[k];
        any |= v->checked;
        v->again = numbers(1, v->count);
        v->direction = numbers(1, v->count);
        if (!v->again || !v->direction) {
            return tg_check_out_of_memory(c);
        }
    }
    if (!any) {
        return tg_check_fail(c, TG_ERROR_STATE, "no input requires a gradient: there is nothing to check");
    }
    tg_tensor *y = tg_check_rows(c) ? record(c) : NULL;
    if (!y) {
        return false;
    }
    c->output_shape = tg_shape_of(y);
    c->outputs = y->count;
    c->raw = numbers(1, c->outputs);
    c->plus = numbers(1, c->outputs);
    c->minus = numbers(1, c->outputs);
    c->projection = numbers(1, c->outputs);
    c->seed = tg_tensor_new(tg_dtype_of(y), c->output_shape, NULL);
    if (!c->raw || !c->plus || !c->minus || !c->projection || !c->seed) {
        return tg_check_out_of_memory(c);
    }
    return tg_check_zeros_give_zeros(c, y);
}

static void release(tg_check *c)
{
    tg_tape_free(c->tape);
    tg_rng_free(c->rng);
    for (int k = 0; c->variables && k < c->input_count; k++) {
        tg_free(c->variables[k].jacobian);
        tg_free(c->variables[k].again);
        tg_free(c->variables[k].direction);
        tg_release(c->inputs ? c->inputs[k] : NULL);
        tg_release(c->moved ? c->moved[k] : NULL);
    }
    tg_free(c->variables);
    tg_free(c->inputs);
    tg_free(c->moved);
    tg_free(c->raw);
    tg_free(c->plus);
    tg_free(c->minus);
    tg_free(c->projection);
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

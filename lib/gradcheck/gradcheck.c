/* gradcheck: a check from its arguments to its report.
 *
 * Follows torch/autograd/gradcheck.py. gradcheck_modes.c computes the differences and compares, gradcheck_analytic.c
 * has the checks that need no differences, and guard.c those of memory.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/text.h"
#include "gradcheck/gradcheck.h"

TG_CONFIG(tg_gradcheck_config, tg_gradcheck_config_default, mark, .mark = mark, .name = "gradcheck",
          .mode = TG_GRADCHECK_SLOW, .dtype = TG_F64, .eps = 1e-6, .atol = 1e-5, .rtol = 1e-3, .training = true,
          .projection_seed = 67280421310721);

double *tg_check_numbers(int64_t rows, int64_t columns)
{
    size_t count;
    bool fits = tg_checked_mul((uint64_t)rows, (uint64_t)columns, &count) && tg_checked_add(count, 1, &count);
    return fits ? tg_alloc(count, sizeof(double)) : NULL;
}

/* ---- the result ---- */

/* Returns whether the rounding of floats explains the mismatch: f(x + h) and f(x - h) are rounded, and the difference
 * divides these errors by 2h. */
static bool is_rounding(const tg_check *c)
{
    const tg_gradcheck_report *report = c->report;
    if (!tg_check_differs_floats(c) || tg_dtype_of(c->seed) != TG_F32 || report->input_index < 0) {
        return false;
    }
    double step = tg_check_step(c, tg_tensor_value_at(c->moved[report->input], report->input_index));
    double value = fabs((double)((const float *)(const void *)c->first)[report->output_index]);
    return fabs(report->analytic - report->numeric) <= 4 * (double)FLT_EPSILON * value / step;
}

static void describe_mismatch(tg_check *c, const char *remark)
{
    tg_gradcheck_report *report = c->report;
    char in[TG_SHAPE_TEXT], out[TG_SHAPE_TEXT], name[TG_CHECK_NAME], where[2 * TG_SHAPE_TEXT + TG_CHECK_NAME];
    char allowed[100], kink[TG_CHECK_KINK];
    tg_check_name(c, report->input, name);
    remark = is_rounding(c) ? tg_check_floats_remark(c) : *remark ? remark : tg_check_describe_kink(c, kink);
    char verdict[200] = "";
    tg_check_describe_inputs(c, report->wrong > 1 ? report->input : -1, verdict, sizeof verdict);
    if (report->input_index < 0) {
        snprintf(where, sizeof where, "along a random direction of %s", name);
    } else {
        snprintf(where, sizeof where, "d output %s / d %s %s",
                 tg_index_format(&c->output_shape, report->output_index, out), name,
                 tg_index_format(&c->variables[report->input].shape, report->input_index, in));
    }
    snprintf(allowed, sizeof allowed, "; they may differ by %.3g", report->tolerance);
    tg_check_fail(c, TG_ERROR_VALUE, "%s: analytic %.9g, numeric %.9g%s%s%s", where, report->analytic, report->numeric,
                  remark == kink && *kink ? "" /* what it says is enough */
                  : !isfinite(report->numeric)
                      ? "; the difference must be finite: use inputs and an eps at which the function's values are"
                  : !isfinite(report->analytic) ? "; the gradient must be finite"
                                                : allowed,
                  remark, verdict);
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
    if (report->compared == 0 && report->kinks > 0) {
        tg_check_fail(c, TG_ERROR_VALUE, "all %lld entries are at kinks, and were skipped; use other inputs",
                      (long long)report->kinks);
    } else if (report->compared == 0 && !c->config.allow_empty) {
        tg_check_fail(c, TG_ERROR_SHAPE,
                      "nothing to compare: the result or every input is empty; config.allow_empty accepts this");
    } else if (report->compared > 0 && !c->anything) {
        tg_check_fail(c, TG_ERROR_VALUE,
                      "all derivatives are zero, analytic and numeric: this check cannot fail; use other inputs");
    } else {
        report->passed = true;
        tg_check_describe_inputs(c, -1, NULL, 0);
        tg_format_line(report->text, sizeof report->text, "%.*s: passed, %lld compared, largest relative error %.2g",
                       TG_CUT(c->config.name, 80), (long long)report->compared, report->max_relative_error);
    }
}

static void run(tg_check *c)
{
    if (c->config.mode == TG_GRADCHECK_TAYLOR) {
        tg_check_taylor(c);
    } else if (c->config.mode == TG_GRADCHECK_SLOW) {
        if (tg_check_slow(c) && c->mismatch) {
            describe_mismatch(c, "");
        }
    } else if (tg_check_fast(c) && c->mismatch) {
        tg_gradcheck_report projected = *c->report;
        c->mismatch = false;
        *c->report = (tg_gradcheck_report){.input = -1, .input_index = -1, .output_index = -1};
        if (tg_check_slow(c) && c->mismatch) {
            describe_mismatch(c, "");
        } else if (c->error->code == TG_OK && c->report->kinks == 0) {
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
                                 tg_index_format(&c->output_shape, i, index), found, expected);
        }
    }
    return true;
}

static bool prepare(tg_check *c)
{
    size_t inputs = (size_t)c->input_count;
    c->run = tg_run_new(0);
    c->rng = tg_run_rng(c->run);
    c->tape = c->run ? tg_tape_new(c->run, NULL) : NULL;
    c->variables = tg_alloc_zeroed(inputs + 1, sizeof *c->variables);
    c->inputs = tg_alloc_zeroed(inputs + 1, sizeof *c->inputs);
    c->moved = tg_alloc_zeroed(inputs + 1, sizeof *c->moved);
    c->values = tg_alloc_zeroed(inputs + 1, sizeof *c->values);
    if (!c->tape || !c->variables || !c->inputs || !c->moved || !c->values) {
        return tg_check_out_of_memory(c);
    }
    c->start = c->config.rng ? *c->config.rng : *c->rng;
    bool any = false;
    for (int k = 0; k < c->input_count; k++) {
        if (!tg_check_copy_input(c, k)) {
            return false;
        }
        tg_variable *v = &c->variables[k];
        any |= v->checked;
        v->before = tg_check_numbers(4, v->count);
        if (!v->before) {
            return tg_check_out_of_memory(c);
        }
        v->again = v->before + v->count;
        v->direction = v->again + v->count;
        v->raw = v->direction + v->count;
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
    c->raw = tg_check_numbers(6 + TG_CHECK_DRAWS, c->outputs);
    tg_tensor *seed = c->raw ? tg_tensor_new(tg_dtype_of(y), c->output_shape, NULL) : NULL;
    if (!seed) {
        return tg_check_out_of_memory(c);
    }
    c->seed = seed;
    c->first = c->raw + c->outputs;
    c->plus = c->first + c->outputs;
    c->minus = c->plus + c->outputs;
    c->center = c->minus + c->outputs;
    c->gaps = c->center + c->outputs;
    c->projections = c->gaps + c->outputs;
    tg_copy_to_contiguous(y, c->first);
    return !c->config.reference || agrees_with_reference(c, y);
}

static void release(tg_check *c)
{
    tg_tape_free(c->tape);
    tg_run_free(c->run);
    for (int k = 0; c->variables && k < c->input_count; k++) {
        tg_free(c->variables[k].jacobian);
        tg_free(c->variables[k].numeric);
        tg_free(c->variables[k].verdicts);
        tg_free(c->variables[k].before);
        tg_release(c->inputs ? c->inputs[k] : NULL);
        tg_release(c->moved ? c->moved[k] : NULL);
    }
    tg_free(c->variables);
    tg_free(c->inputs);
    tg_free(c->moved);
    tg_free(c->values);
    tg_free(c->raw);
    tg_release(c->seed);
}

bool tg_check_arguments(const char *call, const tg_check *c, const tg_gradcheck_config *config, tg_error *error)
{
    if (!tg_config_check(call, config, mark, error)) {
        return false;
    }
    if (!c->function || c->input_count < 0 || (!c->given && c->input_count > 0)) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s", call,
                            !c->function ? "function is NULL" : "inputs are NULL");
    }
    if (config && !(config->eps > 0 && isfinite(config->eps))) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: eps %g; it must be finite and above 0", call, config->eps);
    }
    if (config && config->numeric_in_f64 && c->f64_refusal) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: numeric_in_f64 %s", call, c->f64_refusal);
    }
    return !config || (tg_config_check_list(call, "rows_without_gradient", config->rows_without_gradient, "row_count",
                                            config->row_count, error) &&
                       tg_config_check_list(call, "input_names", config->input_names, "input_name_count",
                                            config->input_name_count, error));
}

bool tg_check_run(tg_check *c, const tg_gradcheck_config *config, tg_error *error)
{
    tg_gradcheck_report own_report;
    tg_error own_error = TG_NO_ERROR;
    c->report = c->report ? c->report : &own_report;
    *c->report = (tg_gradcheck_report){.input = -1, .input_index = -1, .output_index = -1};
    if (tg_check_arguments("gradcheck", c, config, &own_error)) {
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
        tg_error_copy(error, &own_error);
    }
    return c->report->passed;
}

bool tg_gradcheck(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                  const tg_gradcheck_config *config, tg_gradcheck_report *report, tg_error *error)
{
    tg_check c = {.function = function,
                  .context = context,
                  .reference_context = context,
                  .given = inputs,
                  .input_count = input_count,
                  .report = report};
    return tg_check_run(&c, config, error);
}

/* gradcheck: backward against central differences.
 *
 *   numeric     n = (f(x + h d) - f(x - h d)) / 2h    a column of the Jacobian for d = e_j, the slow mode; J d otherwise
 *   analytic    a = v^T J                             a row for v = e_i; in the fast mode a . d is compared with v . n
 *   passes      |a - n| <= atol + rtol |n|            fast: atol * sum(u) * sum(v), for d = u: the atol of every entry
 *
 * h d is taken from the values that were really written, after rounding, so that the step itself carries no error.
 *
 * Each v is sent back three times. Twice from zeroed gradients, which must agree to the last bit; and once on top of the
 * second, which must double it: a kernel that assigns where it has to add gives the right answer everywhere else. A v of
 * zeros must give zeros.
 *
 * Follows torch/autograd/gradcheck.py; the order of the fast mode's draws too: inputs first, then the output, float32
 * uniforms, divided by their norm.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/gradcheck.h>

#include "tape/tape.h"

/* One input. */
typedef struct variable {
    bool checked;     /* requires a gradient */
    uint64_t version; /* of the copy, before a call */
    int64_t count;
    tg_shape shape;
    double *jacobian;  /* (rows of v, count): v^T J */
    double *again;     /* (count): the same once more */
    double *direction; /* (count), fast mode: d */
    double direction_sum;
    double max_error, max_value;
} variable;

typedef struct check {
    tg_gradcheck_function function;
    void *context;
    tg_tensor *const *given;
    int input_count;
    tg_gradcheck_config config;
    tg_gradcheck_report *report;
    variable *variables;
    tg_tensor **inputs; /* copies that backward is asked about */
    tg_tensor **moved;  /* copies that differences are taken with: the same, or f64 ones */
    tg_rng *rng;
    tg_tape *tape;
    tg_shape output_shape;
    int64_t outputs;      /* values in the result */
    void *raw;            /* room for a result in its dtype */
    double *plus, *minus; /* results on both sides */
    double *projection;   /* fast mode: v */
    tg_tensor *seed;
    bool mismatch, anything;
} check;

tg_gradcheck_config tg_gradcheck_config_default(void)
{
    return (tg_gradcheck_config){.name = "gradcheck",
                                 .mode = TG_GRADCHECK_SLOW,
                                 .dtype = TG_F64,
                                 .eps = 1e-6,
                                 .atol = 1e-5,
                                 .rtol = 1e-3,
                                 .training = true,
                                 .projection_seed = 67280421310721};
}

tg_gradcheck_config tg_gradcheck_config_default_f32(void)
{
    tg_gradcheck_config config = tg_gradcheck_config_default();
    config.dtype = TG_F32;
    config.eps = 1e-2;
    config.relative_eps = true;
    config.atol = 1e-3;
    config.rtol = 1e-2;
    return config;
}

static bool fail(check *c, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* The first failure stays. Returns false. */
static bool fail(check *c, tg_code code, const char *format, ...)
{
    if (c->report->code == TG_OK) {
        int used = snprintf(c->report->text, sizeof c->report->text, "%.80s: ", c->config.name);
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(c->report->text + used, sizeof c->report->text - (size_t)used, format, arguments);
        va_end(arguments);
        c->report->code = code;
    }
    return false;
}

static bool out_of_memory(check *c)
{
    return fail(c, TG_ERROR_MEMORY, "out of memory");
}

/* ---- copies of the inputs ---- */

/* True when two indices may share a place: from the smallest stride up, each must step over all below it. */
static bool overlaps(const tg_tensor *x)
{
    int64_t reach = 0;
    unsigned done = 0;
    for (int round = 0; x->count > 1 && round < x->rank; round++) {
        int next = -1;
        for (int axis = 0; axis < x->rank; axis++) {
            bool smaller = next < 0 || llabs(x->strides[axis]) < llabs(x->strides[next]);
            next = !(done >> axis & 1) && smaller ? axis : next;
        }
        done |= 1u << next;
        if (x->shape[next] > 1) {
            if (llabs(x->strides[next]) <= reach) {
                return true;
            }
            reach += (x->shape[next] - 1) * llabs(x->strides[next]);
        }
    }
    return false;
}

/* The same values under the same strides in storage of its own. What lies between them is NaN, or -1: an id that is
 * refused. */
static tg_tensor *copy_like(const tg_tensor *x, tg_dtype dtype)
{
    int64_t low = 0, high = 0;
    for (int axis = 0; x->count > 0 && axis < x->rank; axis++) {
        *(x->strides[axis] < 0 ? &low : &high) += (x->shape[axis] - 1) * x->strides[axis];
    }
    tg_shape shape = tg_shape_of(x);
    tg_tensor *values = tg_tensor_new_cast(x, dtype, NULL);
    tg_tensor *line = tg_tensor_new_full(dtype, tg_shape_make(1, (int64_t[]){high - low + 1}),
                                         tg_dtype_is_float(dtype) ? (double)NAN : -1, NULL);
    tg_tensor *copy = values && line ? tg_tensor_make_view(NULL, line, &shape, x->strides, -low) : NULL;
    if (copy) {
        tg_copy_from_contiguous(copy, tg_values(values));
    }
    tg_release(values);
    tg_release(line);
    return copy;
}

static bool copy_input(check *c, int k)
{
    const tg_tensor *x = c->given[k];
    if (!x) {
        return fail(c, TG_ERROR_STATE, "input %d is NULL", k);
    }
    variable *v = &c->variables[k];
    tg_dtype dtype = tg_dtype_of(x);
    v->checked = tg_requires_grad(x);
    v->count = tg_count(x);
    v->shape = tg_shape_of(x);
    if (v->checked && dtype != c->config.dtype) {
        return fail(c, TG_ERROR_DTYPE,
                    "input %d is %s; this check is for %s (config.dtype), and f64 is what can be trusted", k,
                    tg_dtype_name(dtype), tg_dtype_name(c->config.dtype));
    }
    if (v->checked && overlaps(x)) {
        return fail(c, TG_ERROR_STATE, "input %d overlaps itself in memory (tg_expand?); check a contiguous copy", k);
    }
    c->inputs[k] = copy_like(x, dtype);
    bool shadowed = c->config.numeric_in_f64 && dtype == TG_F32;
    c->moved[k] = shadowed ? copy_like(x, TG_F64) : tg_retain(c->inputs[k]);
    if (!c->inputs[k] || !c->moved[k]) {
        return out_of_memory(c);
    }
    return tg_set_requires_grad(c->inputs[k], v->checked, NULL) && tg_set_requires_grad(c->moved[k], v->checked, NULL);
}

static bool without_gradient(const check *c, int k, int64_t index)
{
    for (int i = 0; i < c->config.row_count; i++) {
        const tg_gradcheck_row *row = &c->config.rows_without_gradient[i];
        int64_t width = c->variables[k].count / c->variables[k].shape.size[0];
        if (row->input == k && index / width == row->row) {
            return true;
        }
    }
    return false;
}

static bool check_rows(check *c)
{
    for (int i = 0; i < c->config.row_count; i++) {
        const tg_gradcheck_row *row = &c->config.rows_without_gradient[i];
        if (row->input < 0 || row->input >= c->input_count || c->variables[row->input].shape.rank < 1 || row->row < 0 ||
            row->row >= c->variables[row->input].shape.size[0]) {
            return fail(c, TG_ERROR_RANGE, "rows_without_gradient names row %lld of input %d, which does not exist",
                        (long long)row->row, row->input);
        }
    }
    return true;
}

/* ---- the function ---- */

static tg_tensor *evaluate(check *c, tg_tensor *const *inputs)
{
    tg_tape_reset(c->tape);
    tg_tape_set_recording(c->tape, true);
    tg_tape_set_training(c->tape, c->config.training);
    if (c->config.rng) {
        tg_rng_copy(c->rng, c->config.rng);
    } else {
        tg_rng_seed(c->rng, 0);
    }
    for (int k = 0; k < c->input_count; k++) {
        c->variables[k].version = tg_version_of(inputs[k]);
    }
    tg_tensor *y = c->function(c->tape, inputs, c->input_count, c->context);
    if (tg_tape_error_code(c->tape) != TG_OK) {
        fail(c, tg_tape_error_code(c->tape), "the function failed: %s", tg_tape_error(c->tape));
        return NULL;
    }
    if (!y || !tg_dtype_is_float(tg_dtype_of(y))) {
        fail(c, y ? TG_ERROR_DTYPE : TG_ERROR_STATE, "the function returned %s; it must return an f32 or f64 result",
             y ? tg_dtype_name(tg_dtype_of(y)) : "NULL without an error");
        return NULL;
    }
    if (c->seed && !tg_shape_equal(tg_shape_of(y), c->output_shape)) {
        char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
        fail(c, TG_ERROR_SHAPE, "the result's shape changes between calls: %s, then %s",
             tg_shape_format(c->output_shape, a), tg_shape_format(tg_shape_of(y), b));
        return NULL;
    }
    for (int k = 0; k < c->input_count; k++) {
        if (tg_version_of(inputs[k]) != c->variables[k].version) {
            fail(c, TG_ERROR_STATE, "the function writes to input %d; it may only read it", k);
            return NULL;
        }
    }
    return y;
}

/* The result at the moved inputs. */
static bool measure(check *c, double *values)
{
    tg_tensor *y = evaluate(c, c->moved);
    if (!y) {
        return false;
    }
    tg_copy_to_contiguous(y, c->raw);
    tg_convert(values, TG_F64, c->raw, tg_dtype_of(y), c->outputs);
    return true;
}

/* ---- analytic ---- */

static void read_gradient(const tg_tensor *x, double *out)
{
    memset(out, 0, (size_t)tg_count(x) * sizeof *out);
    if (tg_gradient_kind_of(x) == TG_GRADIENT_DENSE) {
        tg_convert(out, TG_F64, tg_values(tg_grad(x)), tg_dtype_of(x), tg_count(x));
    }
    tg_row_gradient rows = tg_grad_rows(x);
    for (int64_t i = 0; i < rows.count; i++) {
        tg_convert(out + rows.ids[i] * rows.width, TG_F64,
                   (const char *)rows.values + (size_t)(i * rows.width) * tg_dtype_size(tg_dtype_of(x)), tg_dtype_of(x),
                   rows.width);
    }
}

static void zero_gradients(check *c)
{
    for (int k = 0; k < c->input_count; k++) {
        tg_zero_grad(c->inputs[k]);
    }
}

static bool send_back(check *c, tg_tensor *y)
{
    /* a result that depends on no checked input is a constant: its gradient is zero */
    return !tg_requires_grad(y) || tg_backward_seed_keep(c->tape, y, c->seed) ||
           fail(c, tg_tape_error_code(c->tape), "backward failed: %s", tg_tape_error(c->tape));
}

/* Checks what a further backward made of an entry; `times` is 1 from zeroed gradients, 2 on top of one backward. */
static bool repeats(check *c, int k, const double *first, int times)
{
    variable *v = &c->variables[k];
    char place[TG_SHAPE_TEXT];
    read_gradient(c->inputs[k], v->again);
    for (int64_t j = 0; j < v->count; j++) {
        double expected = times * first[j];
        bool same = times == 1 ? memcmp(&first[j], &v->again[j], sizeof first[j]) == 0
                               : fabs(v->again[j] - expected) <= c->config.atol + c->config.rtol * fabs(expected);
        if (!same && !isnan(first[j])) {
            c->report->input = k;
            c->report->input_index = j;
            return fail(
                c, TG_ERROR_VALUE,
                times == 1
                    ? "the gradient of input %d %s is %.17g, and %.17g when computed again: not reentrant"
                    : "the gradient of input %d %s is %.9g, and %.9g after a second backward on top: backward must "
                      "add to the gradient",
                k, tg_index_format(&v->shape, j, place), first[j], v->again[j]);
        }
    }
    return true;
}

/* Row number `row` of every Jacobian, for the v that is in the seed. */
static bool analytic_row(check *c, tg_tensor *y, int64_t row)
{
    for (int pass = 0; pass < 3; pass++) {
        if (pass < 2) {
            zero_gradients(c);
        }
        if (!send_back(c, y)) {
            return false;
        }
        for (int k = 0; k < c->input_count; k++) {
            variable *v = &c->variables[k];
            double *first = v->checked ? v->jacobian + row * v->count : NULL;
            if (first && pass == 0) {
                read_gradient(c->inputs[k], first);
            } else if (first && !repeats(c, k, first, pass)) {
                return false;
            }
        }
    }
    return true;
}

static bool zeros_give_zeros(check *c, tg_tensor *y)
{
    zero_gradients(c);
    if (!send_back(c, y)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        variable *v = &c->variables[k];
        if (v->checked) {
            read_gradient(c->inputs[k], v->again);
        }
        for (int64_t j = 0; v->checked && j < v->count; j++) {
            if (v->again[j] != 0) {
                return fail(c, TG_ERROR_VALUE, "a zero gradient of the result gives %g in input %d; it must give 0",
                            v->again[j], k);
            }
        }
    }
    return true;
}

static bool check_silent_rows(check *c, int64_t rows)
{
    for (int k = 0; k < c->input_count; k++) {
        variable *v = &c->variables[k];
        for (int64_t j = 0; v->checked && j < v->count; j++) {
            for (int64_t i = 0; without_gradient(c, k, j) && i < rows; i++) {
                if (v->jacobian[i * v->count + j] != 0) {
                    char place[TG_SHAPE_TEXT];
                    return fail(c, TG_ERROR_VALUE, "the gradient of input %d %s is %g; its row must have none", k,
                                tg_index_format(&v->shape, j, place), v->jacobian[i * v->count + j]);
                }
            }
        }
    }
    return true;
}

/* ---- numeric ---- */

/* Writes x[index], and returns what it became in x's dtype. */
static double put(tg_tensor *x, int64_t index, double value)
{
    int64_t place = 0;
    for (int axis = x->rank - 1; axis >= 0; axis--) {
        place += index % x->shape[axis] * x->strides[axis];
        index /= x->shape[axis];
    }
    char *at = (char *)tg_data_mut(x) + place * (int64_t)tg_dtype_size(tg_dtype_of(x));
    tg_convert(at, tg_dtype_of(x), &value, TG_F64, 1);
    tg_convert(&value, TG_F64, at, tg_dtype_of(x), 1);
    return value;
}

static double step_at(const check *c, double x)
{
    return c->config.eps * (c->config.relative_eps && fabs(x) > 1 ? fabs(x) : 1);
}

/* j and i are -1 in the fast mode. */
static void compare(check *c, int k, int64_t j, int64_t i, double a, double n, double atol)
{
    tg_gradcheck_report *report = c->report;
    variable *v = &c->variables[k];
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

static bool slow_column(check *c, int k, int64_t j)
{
    tg_tensor *x = c->moved[k];
    double value = tg_value_at(x, j), step = step_at(c, value);
    double above = put(x, j, value + step);
    bool measured = measure(c, c->plus);
    double below = put(x, j, value - step);
    measured = measured && measure(c, c->minus);
    put(x, j, value);
    if (!measured) {
        return false;
    }
    if (!(above - below > 0)) {
        return fail(c, TG_ERROR_VALUE, "eps %g does not move the value %g of input %d", c->config.eps, value, k);
    }
    const variable *v = &c->variables[k];
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
    bool fits = tg_checked_mul((size_t)rows, (size_t)columns, &count) && tg_checked_add(count, 1, &count);
    return fits ? tg_alloc(count, sizeof(double)) : NULL;
}

/* Room for `rows` rows of every Jacobian, instead of what was there. */
static bool make_jacobians(check *c, int64_t rows)
{
    for (int k = 0; k < c->input_count; k++) {
        variable *v = &c->variables[k];
        tg_free(v->jacobian);
        v->jacobian = v->checked ? numbers(rows, v->count) : NULL;
        v->max_error = v->max_value = 0;
        if (v->checked && !v->jacobian) {
            return out_of_memory(c);
        }
    }
    return true;
}

/* The result at the inputs, ready to be sent back through. */
static tg_tensor *record(check *c)
{
    tg_tensor *y = evaluate(c, c->inputs);
    if (y && tg_requires_grad(y) && !tg_tape_recorded(c->tape, y)) {
        y = tg_make_contiguous(c->tape, y); /* an input as it is: dropout in evaluation */
        if (!y) {
            fail(c, tg_tape_error_code(c->tape), "%s", tg_tape_error(c->tape));
        }
    }
    return y;
}

static bool slow(check *c)
{
    tg_tensor *y = make_jacobians(c, c->outputs) ? record(c) : NULL;
    if (!y) {
        return false;
    }
    for (int64_t i = 0; i < c->outputs; i++) {
        tg_fill(c->seed, 0, NULL);
        put(c->seed, i, 1);
        if (!analytic_row(c, y, i)) {
            return false;
        }
    }
    if (!check_silent_rows(c, c->outputs)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        for (int64_t j = 0; c->variables[k].checked && j < c->variables[k].count; j++) {
            if (!without_gradient(c, k, j) && !slow_column(c, k, j)) {
                return false;
            }
        }
    }
    return true;
}

/* float32 uniforms divided by their norm; returns the sum. */
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

/* Moves input k to both sides along its direction u; u becomes the direction that it really moved in. */
static bool fast_input(check *c, int k, double atol)
{
    variable *v = &c->variables[k];
    tg_tensor *x = c->moved[k];
    double a = 0, n = 0, largest = 0;
    double *value = v->again, *u = v->direction;
    for (int64_t j = 0; j < v->count; j++) {
        value[j] = tg_value_at(x, j);
        largest = fmax(largest, fabs(value[j]));
        u[j] = without_gradient(c, k, j) ? 0 : u[j];
    }
    double step = step_at(c, largest);
    for (int64_t j = 0; j < v->count; j++) {
        put(x, j, value[j] + step * u[j]);
    }
    bool measured = measure(c, c->plus);
    for (int64_t j = 0; j < v->count; j++) {
        double above = tg_value_at(x, j);
        u[j] = (above - put(x, j, value[j] - step * u[j])) / (2 * step);
    }
    measured = measured && measure(c, c->minus);
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

static bool fast(check *c)
{
    if (!make_jacobians(c, 1)) {
        return false;
    }
    tg_rng_seed(c->rng, c->config.projection_seed);
    for (int k = 0; k < c->input_count; k++) {
        variable *v = &c->variables[k];
        if (v->checked) {
            v->direction_sum = draw_unit(c->rng, v->direction, v->count);
        }
    }
    double v_sum = draw_unit(c->rng, c->projection, c->outputs);
    for (int64_t i = 0; i < c->outputs; i++) {
        put(c->seed, i, c->projection[i]);
    }
    tg_tensor *y = record(c);
    if (!y || !analytic_row(c, y, 0) || !check_silent_rows(c, 1)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        variable *v = &c->variables[k];
        if (v->checked && c->outputs > 0 && !fast_input(c, k, c->config.atol * v->direction_sum * v_sum)) {
            return false;
        }
    }
    return true;
}

/* ---- the verdict ---- */

static void describe_mismatch(check *c, const char *remark)
{
    tg_gradcheck_report *report = c->report;
    char in[TG_SHAPE_TEXT], out[TG_SHAPE_TEXT];
    if (report->input_index < 0) {
        fail(c, TG_ERROR_VALUE,
             "along a random direction of input %d: analytic %.9g, numeric %.9g; they may differ by %.3g%s",
             report->input, report->analytic, report->numeric, report->tolerance, remark);
        return;
    }
    fail(c, TG_ERROR_VALUE, "d output %s / d input %d %s: analytic %.9g, numeric %.9g; they may differ by %.3g%s",
         tg_index_format(&c->output_shape, report->output_index, out), report->input,
         tg_index_format(&c->variables[report->input].shape, report->input_index, in), report->analytic,
         report->numeric, report->tolerance, remark);
}

static void sum_up(check *c)
{
    tg_gradcheck_report *report = c->report;
    for (int k = 0; k < c->input_count; k++) {
        const variable *v = &c->variables[k];
        double relative = v->max_error > 0 ? v->max_error / v->max_value : v->max_error;
        report->max_absolute_error =
            !(v->max_error <= report->max_absolute_error) ? v->max_error : report->max_absolute_error;
        report->max_relative_error = !(relative <= report->max_relative_error) ? relative : report->max_relative_error;
    }
    if (report->input >= 0 && report->input_index >= 0) {
        tg_index_format(&c->variables[report->input].shape, report->input_index, report->input_place);
    }
    if (report->code != TG_OK) {
        return;
    }
    if (report->compared == 0 && !c->config.allow_empty) {
        fail(c, TG_ERROR_SHAPE, "nothing to compare: the result or every input is empty (config.allow_empty)");
    } else if (report->compared > 0 && !c->anything) {
        fail(c, TG_ERROR_VALUE, "everything is zero, analytic and numeric: this check could not fail");
    } else {
        report->passed = true;
        snprintf(report->text, sizeof report->text, "%.80s: passed, %lld compared, largest relative error %.2g",
                 c->config.name, (long long)report->compared, report->max_relative_error);
    }
}

static void run(check *c)
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
        } else if (c->report->code == TG_OK) {
            *c->report = projected;
            describe_mismatch(c, ", entry by entry they agree");
        }
    }
    sum_up(c);
}

static bool prepare(check *c)
{
    size_t inputs = (size_t)c->input_count;
    c->rng = tg_rng_new(0);
    c->tape = c->rng ? tg_tape_new(c->rng) : NULL;
    c->variables = tg_alloc_zeroed(inputs + 1, sizeof *c->variables);
    c->inputs = tg_alloc_zeroed(inputs + 1, sizeof *c->inputs);
    c->moved = tg_alloc_zeroed(inputs + 1, sizeof *c->moved);
    if (!c->tape || !c->variables || !c->inputs || !c->moved) {
        return out_of_memory(c);
    }
    bool any = false;
    for (int k = 0; k < c->input_count; k++) {
        if (!copy_input(c, k)) {
            return false;
        }
        variable *v = &c->variables[k];
        any |= v->checked;
        v->again = numbers(1, v->count);
        v->direction = numbers(1, v->count);
        if (!v->again || !v->direction) {
            return out_of_memory(c);
        }
    }
    if (!any) {
        return fail(c, TG_ERROR_STATE, "no input requires a gradient: there is nothing to check");
    }
    tg_tensor *y = check_rows(c) ? record(c) : NULL;
    if (!y) {
        return false;
    }
    c->output_shape = tg_shape_of(y);
    c->outputs = tg_count(y);
    c->raw = numbers(1, c->outputs);
    c->plus = numbers(1, c->outputs);
    c->minus = numbers(1, c->outputs);
    c->projection = numbers(1, c->outputs);
    c->seed = tg_tensor_new(tg_dtype_of(y), c->output_shape, NULL);
    if (!c->raw || !c->plus || !c->minus || !c->projection || !c->seed) {
        return out_of_memory(c);
    }
    return zeros_give_zeros(c, y);
}

static void release(check *c)
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

bool tg_gradcheck(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                  const tg_gradcheck_config *config, tg_gradcheck_report *report)
{
    tg_gradcheck_report unread;
    check c = {.function = function,
               .context = context,
               .given = inputs,
               .input_count = input_count,
               .config = config ? *config : tg_gradcheck_config_default(),
               .report = report ? report : &unread};
    *c.report = (tg_gradcheck_report){.input = -1, .input_index = -1, .output_index = -1};
    c.config.name = c.config.name ? c.config.name : "gradcheck";
    if (prepare(&c)) {
        run(&c);
    }
    release(&c);
    return c.report->passed;
}

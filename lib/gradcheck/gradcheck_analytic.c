/* gradcheck_analytic: the gradients that backward computes, and what must hold for them without any difference.
 *
 *   zero       v = 0 gives 0
 *   repeated   a second backward gives the same bits
 *   added      a backward adds to the gradient: g becomes g + v^T J, for a g that is as large as v^T J
 *   linear     (sum_r c_r v_r)^T J = sum_r c_r (v_r^T J), with c of both signs; also for 1024 c and -c / 1024
 *   results    the same if the inputs are results of other ops: there a gradient may be dy itself, or overwritten
 *
 * The v of the slow mode have one value, 1. Of a backward that squares dy, or that loses its sign, they see nothing:
 * that is why the linear check has a v without zeros and with both signs.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "gradcheck/gradcheck.h"
#include "tensor/gradient.h"

/* Writes x's gradient to `out`. */
static void read_gradient(const tg_tensor *x, double *out)
{
    memset(out, 0, (size_t)x->count * sizeof *out);
    if (tg_tensor_grad_kind(x) == TG_GRAD_DENSE) {
        tg_convert(out, TG_F64, tg_values(tg_tensor_grad(x)), tg_dtype_of(x), x->count);
    }
    tg_grad_rows rows = tg_tensor_grad_rows(x);
    for (int64_t i = 0; i < rows.count; i++) {
        tg_convert(out + rows.ids[i] * rows.width, TG_F64,
                   (const char *)rows.values + (size_t)(i * rows.width) * tg_dtype_size(tg_dtype_of(x)), tg_dtype_of(x),
                   rows.width);
    }
}

static void zero_gradients(tg_check *c)
{
    for (int k = 0; k < c->input_count; k++) {
        tg_tensor_zero_grad(c->inputs[k]);
    }
}

static bool send_back(tg_check *c, tg_tensor *y)
{
    tg_backward_config config = tg_backward_config_default();
    config.gradient = c->seed;
    config.retain_graph = true;
    /* A result that depends on no checked input is a constant: its gradient is zero. */
    if (y->requires_grad && !tg_backward(c->tape, y, &config)) {
        return tg_check_fail(c, tg_tape_error(c->tape)->code, "backward failed: %s", tg_tape_error(c->tape)->text);
    }
    return tg_check_guard(c);
}

/* Runs backward from zeroed gradients, and reads them into `again`. */
static bool compute_again(tg_check *c, tg_tensor *y)
{
    zero_gradients(c);
    bool sent = send_back(c, y);
    for (int k = 0; sent && k < c->input_count; k++) {
        if (c->variables[k].checked) {
            read_gradient(c->inputs[k], c->variables[k].again);
        }
    }
    return sent;
}

/* Sets the error for value j of input k: `format` has the text for the names of the input and the index, for two
 * numbers, and for the remark. */
static bool fail_at(tg_check *c, int k, int64_t j, const char *format, double expected, double found,
                    const char *remark)
{
    char index[TG_SHAPE_TEXT], name[TG_CHECK_NAME];
    c->report->input = k;
    c->report->input_index = j;
    tg_check_name(c, k, name);
    tg_index_format(&c->variables[k].shape, j, index);
    return tg_check_fail(c, TG_ERROR_VALUE, format, name, index, expected, found, remark);
}

/* Writes why a backward depends on memory without values: if an op declares that it ignores inputs or outputs, it may
 * read them nevertheless; and if it declares that it writes new gradients, it may not write all of them. Returns
 * `text`. */
static const char *describe_unwritten(const tg_check *c, char text[TG_CHECK_REMARK])
{
    const tg_op *ops[] = {c->guard.ignores_inputs, c->guard.ignores_outputs, c->guard.overwrites};
    static const char *const formats[] = {", or an input that backward_ignores_inputs of '%.*s' excludes",
                                          ", or an output that backward_ignores_outputs of '%.*s' excludes",
                                          ", or '%.*s' has can_overwrite and does not write all of a new gradient"};
    int length = snprintf(text, TG_CHECK_REMARK, "reads memory that nothing has written");
    for (int i = 0; i < 3; i++) {
        length += ops[i]
                      ? snprintf(text + length, TG_CHECK_REMARK - (size_t)length, formats[i], TG_CUT(ops[i]->name, 40))
                      : 0;
    }
    return text;
}

/* ---- a row of the Jacobians ---- */

/* Sets the error for value j of input k, which the gradient 0 has made other than 0. What a kernel reads without values
 * is a NaN in this run, and a number in the next. */
static bool refuse_nonzero(tg_check *c, tg_tensor *y, int k, int64_t j)
{
    double found = c->variables[k].again[j];
    char name[TG_CHECK_NAME], text[TG_CHECK_REMARK];
    tg_check_name(c, k, name);
    if (!compute_again(c, y)) {
        return false;
    }
    double now = c->variables[k].again[j];
    return isnan(found) && !isnan(now)
               ? tg_check_fail(c, TG_ERROR_VALUE,
                               "a zero gradient of the result gives nan in %s, and %g when computed again: backward %s",
                               name, now, describe_unwritten(c, text))
               : tg_check_fail(c, TG_ERROR_VALUE, "a zero gradient of the result gives %g in %s; it must give 0", found,
                               name);
}

static bool zeros_give_zeros(tg_check *c, tg_tensor *y)
{
    tg_tensor_fill(c->seed, 0, NULL);
    if (!compute_again(c, y)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        for (int64_t j = 0; v->checked && j < v->count; j++) {
            if (v->again[j] != 0) {
                return refuse_nonzero(c, y, k, j);
            }
        }
    }
    return true;
}

static bool repeats(tg_check *c, tg_tensor *y, int64_t row)
{
    if (!compute_again(c, y)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        const double *first = v->checked ? v->jacobian + row * v->count : NULL;
        for (int64_t j = 0; v->checked && j < v->count; j++) {
            if (memcmp(&first[j], &v->again[j], sizeof *first) != 0 && !(isnan(first[j]) && isnan(v->again[j]))) {
                char text[TG_CHECK_REMARK];
                return fail_at(c, k, j,
                               "the gradient of %s %s is %.17g, and %.17g when computed again: backward is not "
                               "reentrant, or %s",
                               first[j], v->again[j], describe_unwritten(c, text));
            }
        }
    }
    return true;
}

/* Adds numbers that are as large as the gradient to each value that it has. */
static void raise_gradient(tg_check *c, int k, const double *gradient)
{
    tg_tensor *x = c->inputs[k];
    double largest = 1;
    for (int64_t j = 0; j < x->count; j++) {
        largest = isfinite(gradient[j]) ? fmax(largest, fabs(gradient[j])) : largest;
    }
    bool dense = x->gradient->kind == TG_GRAD_DENSE;
    char *values = dense ? tg_values(x->gradient->dense) : x->gradient->values;
    int64_t width = x->rank == 2 ? x->shape[1] : 0, size = (int64_t)tg_size_of(x->dtype);
    int64_t count = dense ? x->count : x->gradient->count * width;
    for (int64_t j = 0; j < count; j++) {
        double value;
        tg_convert(&value, TG_F64, values + j * size, tg_dtype_of(x), 1);
        value += largest * (1 + (double)(j % 7) / 8);
        tg_convert(values + j * size, tg_dtype_of(x), &value, TG_F64, 1);
    }
}

/* Runs backward on gradients that have values already. With `dense`, gradients by rows become dense first. */
static bool adds(tg_check *c, tg_tensor *y, int64_t row, bool dense)
{
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        tg_tensor *x = c->inputs[k];
        if (!v->checked || v->is_repeated) {
            continue;
        }
        if (!tg_gradient_reserve(x, TG_GRAD_DENSE, 0)) {
            return tg_check_out_of_memory(c);
        }
        if (dense) {
            tg_gradient_write(x, NULL);
        }
        raise_gradient(c, k, v->jacobian + row * v->count);
        tg_gradient_drop_frozen(x);
        read_gradient(x, v->before);
    }
    if (!send_back(c, y)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        if (!v->checked || v->is_repeated) {
            continue;
        }
        read_gradient(c->inputs[k], v->again);
        for (int64_t j = 0; j < v->count; j++) {
            double expected = v->before[j] + v->jacobian[row * v->count + j];
            double tolerance = c->config.atol + c->config.rtol * fabs(expected);
            if (isfinite(expected) && !(fabs(v->again[j] - expected) <= tolerance)) {
                char text[TG_CHECK_REMARK];
                return fail_at(c, k, j, "the gradient of %s %s must become %.9g, and becomes %.9g: %s", expected,
                               v->again[j], tg_check_describe_adding(c, k, j, text));
            }
        }
    }
    return true;
}

static bool analytic_row(tg_check *c, tg_tensor *y, int64_t row)
{
    if (!compute_again(c, y)) {
        return false;
    }
    bool by_rows = false;
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        if (v->checked) {
            memcpy(v->jacobian + row * v->count, v->again, (size_t)v->count * sizeof *v->again);
            by_rows |= tg_tensor_grad_kind(c->inputs[k]) == TG_GRAD_ROWS;
        }
    }
    return repeats(c, y, row) && adds(c, y, row, false) && (!by_rows || adds(c, y, row, true));
}

/* Checks that rows without a gradient have none. */
static bool silent_rows(tg_check *c)
{
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        for (int64_t j = 0; v->checked && j < v->count; j++) {
            for (int64_t i = 0; tg_check_without_gradient(c, k, j) && i < c->rows; i++) {
                double gradient = v->jacobian[i * v->count + j];
                if (gradient != 0) {
                    return fail_at(c, k, j, "the gradient of %s %s must be %g, and is %g: %s", 0, gradient,
                                   "its row must have none");
                }
            }
        }
    }
    return true;
}

/* Adds scale * v_row to the gradient of the result. */
static void add_to_seed(tg_check *c, int64_t row, double scale)
{
    for (int64_t i = c->is_projected ? 0 : row; i < (c->is_projected ? c->outputs : row + 1); i++) {
        double v = c->is_projected ? c->projections[row * c->outputs + i] : 1;
        tg_put(c->seed, i, tg_get(c->seed, i) + scale * v);
    }
}

bool tg_check_analytic(tg_check *c)
{
    tg_tensor *y = tg_check_record(c, false);
    if (!y || !zeros_give_zeros(c, y)) {
        return false;
    }
    for (int64_t row = 0; row < c->rows; row++) {
        tg_tensor_fill(c->seed, 0, NULL);
        add_to_seed(c, row, 1);
        if (!analytic_row(c, y, row)) {
            return false;
        }
    }
    return silent_rows(c);
}

/* ---- combinations of rows ---- */

double tg_check_draw(tg_rng *rng, bool is_signed)
{
    uint32_t bits = tg_rng_u32(rng);
    double size = (double)(128 + bits % 128) / 256;
    return is_signed && bits >> 31 ? -size : size;
}

/* Compares the gradient for the combination scale * sum_r c_r v_r with that of the rows. The text of an error ends with
 * `remark`; if it is NULL, the inputs are results. */
static bool combines(tg_check *c, tg_tensor *y, double scale, const char *remark)
{
    tg_rng rng;
    tg_rng_seed(&rng, c->config.projection_seed);
    tg_tensor_fill(c->seed, 0, NULL);
    for (int k = 0; k < c->input_count; k++) {
        memset(c->variables[k].before, 0, (size_t)c->variables[k].count * sizeof(double));
        memset(c->variables[k].direction, 0, (size_t)c->variables[k].count * sizeof(double));
    }
    for (int64_t row = 0; row < c->rows; row++) {
        double factor = scale * tg_check_draw(&rng, true);
        add_to_seed(c, row, factor);
        for (int k = 0; k < c->input_count; k++) {
            const tg_variable *v = &c->variables[k];
            for (int64_t j = 0; v->checked && j < v->count; j++) {
                double part = factor * v->jacobian[row * v->count + j];
                v->before[j] += part;
                v->direction[j] += fabs(part);
            }
        }
    }
    if (!compute_again(c, y)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        for (int64_t j = 0; v->checked && j < v->count; j++) {
            double expected = v->before[j];
            double tolerance = c->config.atol * fabs(scale) + c->config.rtol * v->direction[j];
            if (isfinite(expected) && !(fabs(v->again[j] - expected) <= tolerance)) {
                return fail_at(c, k, j,
                               "the gradient of %s %s is the sum of parts that give %.9g, but backward gives %.9g %s",
                               expected, v->again[j], remark ? remark : "if the inputs are results of another op");
            }
        }
    }
    return true;
}

bool tg_check_linear(tg_check *c)
{
    tg_tensor *y = tg_check_record(c, false);
    if (!y ||
        !combines(c, y, 1, "for their sum: backward must be linear in the gradient of the result, of either sign") ||
        !combines(c, y, 1024, "for 1024 times as much: backward must be linear in the gradient of the result") ||
        !combines(c, y, -1.0 / 1024, "for a small part of it: backward must be linear in the gradient of the result")) {
        return false;
    }
    y = tg_check_record(c, true);
    return y ? combines(c, y, 1, NULL) : c->error->code == TG_OK;
}

/* gradcheck_call: copies of the inputs, calls of the function, and backward passes of a gradient check.
 *
 * The copies have the strides of the originals and their own storage: a kernel reads the same layout, and the caller's
 * tensors are not written. Every call begins with the generator in the same state.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "check/gradcheck.h"

bool tg_check_fail(tg_check *c, tg_code code, const char *format, ...)
{
    if (c->error->code == TG_OK) {
        char text[TG_ERROR_TEXT];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        tg_error_set(c->error, code, "%.80s: %s", c->config.name, text);
    }
    return false;
}

bool tg_check_out_of_memory(tg_check *c)
{
    return tg_check_fail(c, TG_ERROR_MEMORY, "out of memory");
}

const char *tg_check_name(const tg_check *c, int k, char text[TG_CHECK_NAME])
{
    const char *name = c->variables[k].name;
    if (name) {
        snprintf(text, TG_CHECK_NAME, "parameter '%s'", name);
    } else {
        snprintf(text, TG_CHECK_NAME, "input %d", k);
    }
    return text;
}

/* ---- copies of the inputs ---- */

/* Returns whether two indices may have the same address. They cannot if, in ascending order, each stride exceeds the
 * span of the axes with smaller strides. */
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

/* Returns a copy of x with the same strides and its own storage, or NULL when memory is exhausted. The gaps are filled
 * with NaN, -1 (i32) or 0 (u8), so that a kernel that reads them gives a wrong result. */
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

static bool copy_frozen_rows(const tg_tensor *x, tg_tensor *copy)
{
    bool copied = true;
    for (int64_t row = 0; copied && tg_has_frozen_rows(x) && row < x->shape[0]; row++) {
        copied = !tg_tensor_row_is_frozen(x, row) || tg_tensor_set_rows_frozen(copy, row, 1, true, NULL);
    }
    return copied;
}

bool tg_check_copy_input(tg_check *c, int k)
{
    tg_tensor *x = c->given[k];
    tg_variable *v = &c->variables[k];
    char name[TG_CHECK_NAME];
    int parameter = k - (c->input_count - c->parameter_count);
    v->name = parameter >= 0 ? c->names[parameter] : NULL;
    if (!tg_is_tensor(x)) {
        return tg_check_fail(c, TG_ERROR_STATE, "%s is NULL, or was freed by its tape", tg_check_name(c, k, name));
    }
    if (!tg_has_values(x)) {
        return tg_check_fail(c, TG_ERROR_STATE,
                             tg_is_dropped(x) ? "%s is a result whose values activation_checkpoint_end has dropped"
                                              : "%s has deferred steps; call tg_optim_flush first",
                             tg_check_name(c, k, name));
    }
    tg_dtype dtype = tg_dtype_of(x);
    v->checked = tg_tensor_requires_grad(x);
    v->count = x->count;
    v->shape = tg_shape_of(x);
    if (v->checked && dtype != c->config.dtype) {
        return tg_check_fail(c, TG_ERROR_DTYPE, "%s is %s, but config.dtype is %s; f64 gives the most reliable check",
                             tg_check_name(c, k, name), tg_dtype_name(dtype), tg_dtype_name(c->config.dtype));
    }
    if (v->checked && overlaps(x)) {
        return tg_check_fail(c, TG_ERROR_STATE, "%s overlaps itself in memory (tg_expand?); check a contiguous copy",
                             tg_check_name(c, k, name));
    }
    if (v->name) {
        c->inputs[k] = tg_retain(x);
        c->moved[k] = tg_retain(x);
        return true;
    }
    c->inputs[k] = copy_like(x, dtype);
    bool shadowed = c->config.numeric_in_f64 && dtype == TG_F32;
    c->moved[k] = shadowed ? copy_like(x, TG_F64) : tg_retain(c->inputs[k]);
    if (!c->inputs[k] || !c->moved[k]) {
        return tg_check_out_of_memory(c);
    }
    return tg_tensor_set_requires_grad(c->inputs[k], v->checked, NULL) &&
           tg_tensor_set_requires_grad(c->moved[k], v->checked, NULL) &&
           (copy_frozen_rows(x, c->inputs[k]) || tg_check_out_of_memory(c));
}

bool tg_check_without_gradient(const tg_check *c, int k, int64_t index)
{
    if (c->variables[k].shape.rank < 1) {
        return false;
    }
    int64_t width = c->variables[k].count / c->variables[k].shape.size[0];
    if (tg_tensor_row_is_frozen(c->inputs[k], index / width)) {
        return true;
    }
    for (int i = 0; i < c->config.row_count; i++) {
        const tg_gradcheck_row *row = &c->config.rows_without_gradient[i];
        if (row->input == k && index / width == row->row) {
            return true;
        }
    }
    return false;
}

bool tg_check_rows(tg_check *c)
{
    for (int i = 0; i < c->config.row_count; i++) {
        const tg_gradcheck_row *row = &c->config.rows_without_gradient[i];
        if (row->input < 0 || row->input >= c->input_count || c->variables[row->input].shape.rank < 1 || row->row < 0 ||
            row->row >= c->variables[row->input].shape.size[0]) {
            return tg_check_fail(c, TG_ERROR_RANGE,
                                 "rows_without_gradient lists row %lld of input %d, which does not exist",
                                 (long long)row->row, row->input);
        }
    }
    return true;
}

/* ---- the function ---- */

tg_tensor *tg_check_evaluate(tg_check *c, tg_tensor *const *inputs)
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
        c->variables[k].version = tg_storage_version(inputs[k]);
    }
    tg_tensor *y = c->function(c->tape, inputs, c->input_count - c->parameter_count, c->context);
    if (tg_tape_error(c->tape)->code != TG_OK) {
        tg_check_fail(c, tg_tape_error(c->tape)->code, "the function failed: %s", tg_tape_error(c->tape)->text);
        return NULL;
    }
    if (!y || !tg_dtype_is_float(tg_dtype_of(y))) {
        tg_check_fail(c, y ? TG_ERROR_DTYPE : TG_ERROR_STATE,
                      "the function returned %s; it must return an f32 or f64 result",
                      y ? tg_dtype_name(tg_dtype_of(y)) : "NULL without an error");
        return NULL;
    }
    if (!tg_has_values(y)) {
        tg_check_fail(c, TG_ERROR_STATE,
                      "the function returned a result without values: it was freed, activation_checkpoint_end dropped "
                      "them, or it is a table with deferred steps");
        return NULL;
    }
    if (c->seed && !tg_shape_equal(tg_shape_of(y), c->output_shape)) {
        char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
        tg_check_fail(c, TG_ERROR_SHAPE, "the result's shape changes between calls: %s, then %s",
                      tg_shape_format(c->output_shape, a), tg_shape_format(tg_shape_of(y), b));
        return NULL;
    }
    for (int k = 0; k < c->input_count; k++) {
        if (tg_storage_version(inputs[k]) != c->variables[k].version) {
            char name[TG_CHECK_NAME];
            tg_check_fail(c, TG_ERROR_STATE, "the function writes to %s; it may only read it",
                          tg_check_name(c, k, name));
            return NULL;
        }
    }
    return y;
}

bool tg_check_measure(tg_check *c, double *values)
{
    tg_tensor *y = tg_check_evaluate(c, c->moved);
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
    return !y->requires_grad || tg_backward(c->tape, y, &config) ||
           tg_check_fail(c, tg_tape_error(c->tape)->code, "backward failed: %s", tg_tape_error(c->tape)->text);
}

/* Compares the gradient of a repeated backward with the first one. It must be `times` the first gradient: 1 if it
 * started from zeroed gradients, 2 if it was added to those of one backward. */
static bool repeats(tg_check *c, int k, const double *first, int times)
{
    tg_variable *v = &c->variables[k];
    char index[TG_SHAPE_TEXT], name[TG_CHECK_NAME];
    read_gradient(c->inputs[k], v->again);
    for (int64_t j = 0; j < v->count; j++) {
        double expected = times * first[j];
        bool same = times == 1 ? memcmp(&first[j], &v->again[j], sizeof first[j]) == 0
                               : fabs(v->again[j] - expected) <= c->config.atol + c->config.rtol * fabs(expected);
        if (!same && !isnan(first[j])) {
            c->report->input = k;
            c->report->input_index = j;
            return tg_check_fail(
                c, TG_ERROR_VALUE,
                times == 1 ? "the gradient of %s %s is %.17g, and %.17g when computed again: backward is not reentrant"
                           : "the gradient of %s %s is %.9g, and %.9g after a second backward: backward must "
                             "add to the gradient",
                tg_check_name(c, k, name), tg_index_format(&v->shape, j, index), first[j], v->again[j]);
        }
    }
    return true;
}

bool tg_check_analytic_row(tg_check *c, tg_tensor *y, int64_t row)
{
    for (int pass = 0; pass < 3; pass++) {
        if (pass < 2) {
            zero_gradients(c);
        }
        if (!send_back(c, y)) {
            return false;
        }
        for (int k = 0; k < c->input_count; k++) {
            tg_variable *v = &c->variables[k];
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

bool tg_check_zeros_give_zeros(tg_check *c, tg_tensor *y)
{
    zero_gradients(c);
    if (!send_back(c, y)) {
        return false;
    }
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        if (v->checked) {
            read_gradient(c->inputs[k], v->again);
        }
        for (int64_t j = 0; v->checked && j < v->count; j++) {
            if (v->again[j] != 0) {
                char name[TG_CHECK_NAME];
                return tg_check_fail(c, TG_ERROR_VALUE, "a zero gradient of the result gives %g in %s; it must give 0",
                                     v->again[j], tg_check_name(c, k, name));
            }
        }
    }
    return true;
}

bool tg_check_silent_rows(tg_check *c, int64_t rows)
{
    for (int k = 0; k < c->input_count; k++) {
        tg_variable *v = &c->variables[k];
        for (int64_t j = 0; v->checked && j < v->count; j++) {
            for (int64_t i = 0; tg_check_without_gradient(c, k, j) && i < rows; i++) {
                if (v->jacobian[i * v->count + j] != 0) {
                    char index[TG_SHAPE_TEXT], name[TG_CHECK_NAME];
                    return tg_check_fail(c, TG_ERROR_VALUE, "the gradient of %s %s is %g; its row must have none",
                                         tg_check_name(c, k, name), tg_index_format(&v->shape, j, index),
                                         v->jacobian[i * v->count + j]);
                }
            }
        }
    }
    return true;
}

/* gradcheck_call: copies of the inputs, and calls of the function.
 *
 * The copies have the strides of the originals and their own storage: a kernel reads the same layout, and the caller's
 * tensors are not written. A tensor that is several inputs has one copy. Every call begins with the generator in the
 * same state.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "gradcheck/gradcheck.h"
#include "tensor/overlap.h"
#include "tensor/strided.h"

bool tg_check_fail(tg_check *c, tg_code code, const char *format, ...)
{
    if (c->error->code == TG_OK) {
        char text[TG_ERROR_TEXT];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        tg_error_set(c->error, code, "%.*s: %s", TG_CUT(c->config.name, 80), text);
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
    if (name && k >= c->input_count - c->parameter_count) {
        snprintf(text, TG_CHECK_NAME, "parameter '%s'", name);
    } else {
        int length = snprintf(text, TG_CHECK_NAME, "input %d", k);
        if (name) {
            snprintf(text + length, (size_t)(TG_CHECK_NAME - length), " '%.*s'", TG_CUT(name, 200));
        }
    }
    return text;
}

/* ---- copies of the inputs ---- */

/* Returns a copy of x with the same strides and its own storage, or NULL when memory is exhausted. The gaps are filled
 * with NaN, -1 (i32) or 0 (u8), so that a kernel that reads them gives a wrong result. */
static tg_tensor *copy_like(const tg_tensor *x, tg_dtype dtype)
{
    int64_t low, high;
    tg_memory_extent(x, &low, &high);
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
    v->name = parameter >= 0 ? c->names[parameter] : k < c->config.input_name_count ? c->config.input_names[k] : NULL;
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
    if (v->checked && tg_overlapping_axis(x) >= 0) {
        return tg_check_fail(c, TG_ERROR_STATE, "%s overlaps itself in memory (tg_expand?); check a contiguous copy",
                             tg_check_name(c, k, name));
    }
    int same = 0;
    while (c->given[same] != x) {
        same++;
    }
    v->is_repeated = same < k;
    if (v->is_repeated) {
        c->inputs[k] = tg_retain(c->inputs[same]);
        c->moved[k] = tg_retain(c->moved[same]);
        return true;
    }
    bool shadowed = c->config.numeric_in_f64 && (dtype == TG_F32 || dtype == TG_BF16);
    c->inputs[k] = v->name ? tg_retain(x) : copy_like(x, dtype);
    if (c->config.reference) {
        c->moved[k] = tg_tensor_new_cast(x, TG_F64, NULL);
    } else {
        c->moved[k] = shadowed ? copy_like(x, TG_F64) : tg_retain(c->inputs[k]);
    }
    if (!c->inputs[k] || !c->moved[k]) {
        return tg_check_out_of_memory(c);
    }
    if (v->name) {
        return true;
    }
    return tg_tensor_set_requires_grad(c->inputs[k], v->checked, NULL) &&
           (c->config.reference || tg_tensor_set_requires_grad(c->moved[k], v->checked, NULL)) &&
           (copy_frozen_rows(x, c->inputs[k]) || tg_check_out_of_memory(c));
}

bool tg_check_without_gradient(const tg_check *c, int k, int64_t index)
{
    if (c->variables[k].shape.rank < 1 || (c->config.row_count == 0 && !tg_has_frozen_rows(c->inputs[k]))) {
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

/* ---- the inputs as results ---- */

/* y = x, a view. It is no op that passes dy on, so that the gradients of x and y are different memory. */
static bool view_shape(tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    return tg_op_output_view(call, 0, 0, tg_shape_of(x), x->strides, 0);
}

static void view_backward(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0];
    tg_add_values(call->input_gradients[0], call->output_gradients[0], x->count, tg_dtype_of(x));
}

static const tg_op view_op = {.name = "gradcheck",
                              .shape = view_shape,
                              .f32 = {.backward = view_backward},
                              .f64 = {.backward = view_backward},
                              .accepts_layout = tg_any_layout,
                              TG_IGNORES_VALUES};

/* Returns the array of inputs in which each checked input, other than parameters, is a result; NULL when memory is
 * exhausted. Yours to free. */
static tg_tensor **make_results(tg_check *c)
{
    tg_tensor **results = tg_alloc((uint64_t)c->input_count + 1, sizeof *results);
    for (int k = 0; results && k < c->input_count; k++) {
        const tg_variable *v = &c->variables[k];
        int same = 0;
        while (c->inputs[same] != c->inputs[k]) {
            same++;
        }
        if (same < k) {
            results[k] = results[same];
        } else if (v->checked && !v->name) {
            results[k] = tg_apply(c->tape, &view_op, &c->inputs[k], 1, NULL, 0, NULL);
        } else {
            results[k] = c->inputs[k];
        }
    }
    return results;
}

/* ---- the function ---- */

static void begin_call(tg_check *c, bool guarded)
{
    c->tape->runner = guarded ? tg_guard_run : NULL;
    c->tape->runner_context = &c->guard;
    tg_tape_reset(c->tape);
    tg_tape_set_recording(c->tape, true);
    tg_tape_set_training(c->tape, c->config.training);
    *c->rng = c->start;
}

/* Returns the function's result for these inputs, or NULL after an error. */
static tg_tensor *evaluate(tg_check *c, tg_tensor *const *inputs)
{
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
        tg_check_fail(c, TG_ERROR_SHAPE, "the result's shape changes between calls: %s, then %s",
                      tg_shape_text(c->output_shape).text, tg_shape_text_of(y).text);
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

bool tg_check_guard(tg_check *c)
{
    c->guard.fill = c->guard.fill == TG_GUARD_NAN ? TG_GUARD_NUMBER : TG_GUARD_NAN;
    if (c->guard.text[0] != '\0') {
        return tg_check_fail(c, TG_ERROR_VALUE, "%s", c->guard.text);
    }
    return !c->guard.out_of_memory || tg_check_out_of_memory(c);
}

/* Compares the result with that of the first call. */
static bool is_the_same(tg_check *c, const tg_tensor *y)
{
    size_t size = tg_size_of(y->dtype);
    tg_copy_to_contiguous(y, c->raw);
    for (int64_t i = 0; i < c->outputs; i++) {
        double now, first;
        tg_convert(&now, TG_F64, (const char *)c->raw + (size_t)i * size, tg_dtype_of(y), 1);
        tg_convert(&first, TG_F64, (const char *)c->first + (size_t)i * size, tg_dtype_of(y), 1);
        if (now != first && !(isnan(now) && isnan(first))) {
            char index[TG_SHAPE_TEXT];
            return tg_check_fail(c, TG_ERROR_VALUE,
                                 "the result at %s is %.17g, and %.17g when computed again from the same inputs: it "
                                 "depends on memory that no kernel has written, or on an earlier call, or a kernel "
                                 "reads past the end of an input",
                                 tg_index_format(&c->output_shape, i, index), first, now);
        }
    }
    return true;
}

tg_tensor *tg_check_record(tg_check *c, bool as_results)
{
    begin_call(c, true);
    tg_tensor **results = as_results ? make_results(c) : NULL;
    if (as_results && (!results || tg_tape_error(c->tape)->code != TG_OK)) {
        tg_free(results);
        tg_check_out_of_memory(c);
        return NULL;
    }
    tg_tensor *y = evaluate(c, as_results ? results : c->inputs);
    tg_free(results);
    if (!y && as_results && c->error->code != TG_ERROR_MEMORY) {
        tg_run_clear_error(c->run);
        *c->error = (tg_error)TG_NO_ERROR;
    }
    return y && tg_check_guard(c) && (!c->seed || is_the_same(c, y)) ? y : NULL;
}

bool tg_check_measure(tg_check *c, double *values)
{
    if (c->config.reference) {
        for (int64_t i = 0; i < c->outputs; i++) {
            values[i] = (double)NAN; /* for a reference that does not write it */
        }
        c->config.reference(c->reference_context, c->values, values);
        return true;
    }
    begin_call(c, false);
    tg_tensor *y = evaluate(c, c->moved);
    if (y) {
        tg_copy_to_contiguous(y, c->raw);
        tg_convert(values, TG_F64, c->raw, tg_dtype_of(y), c->outputs);
    }
    return y != NULL;
}

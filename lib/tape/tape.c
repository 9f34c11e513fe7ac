/* tape: creation, reset, errors, switches and scopes of a tape. apply.c records ops, and backward.c differentiates
 * them.
 *
 * A call of several ops returns to a point of the tape if one of them fails (tg_tape_save_point, tg_tape_end). Records
 * and results are stacks, so the call removes what it added. The generator is restored from a copy.
 *
 * A module gives back what nobody can read (tg_tape_end_module). Its caller gets the result alone. So at the end the
 * values of its other results go back to the pool, unless a backward kernel reads them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "tape/tape.h"
#include "tensor/getter.h"
#include "tensor/gradient.h"

TG_CONFIG(tg_tape_config, tg_tape_config_default, mark, .mark = mark, .recycle = true, .max_backwards = 1000);

static bool check_config(const tg_tape_config *given, tg_error *error)
{
    return tg_config_check("tape_new", given, mark, error) &&
           (!given || given->max_backwards >= 0 ||
            tg_error_set(error, TG_ERROR_VALUE, "tape_new: max_backwards is %lld; it must be at least 0",
                         (long long)given->max_backwards));
}

tg_tape *tg_tape_new(tg_run *given_run, const tg_tape_config *given)
{
    tg_run *run = tg_run_keep(given_run);
    tg_tape *t = run ? tg_alloc_zeroed(1, sizeof *t) : NULL;
    bool is_valid = t && tg_run_is_clear(run) && check_config(given, run->error);
    tg_tape_config config = given && is_valid ? *given : tg_tape_config_default();
    tg_pool *pool = t ? tg_pool_new(config.recycle) : NULL;
    if (pool) {
        t->owner.run = run;
        t->error = run->error;
        t->pool = pool;
    }
    if (!pool || !tg_no_values_begin(t)) {
        tg_pool_free(pool);
        tg_free(t);
        if (run) {
            tg_error_set(run->error, TG_ERROR_MEMORY, "tape_new: out of memory");
        }
        tg_run_free(run);
        return NULL;
    }
    tg_level_begin_tape(is_valid ? run->error : NULL);
    t->is_made = is_valid && tg_run_is_clear(run);
    t->rng = tg_run_rng(run);
    t->detect_freed = config.detect_freed_results;
    t->recording = t->training = true;
    t->max_backwards = config.max_backwards;
    return t;
}

tg_run *tg_tape_run(const tg_tape *t)
{
    return t ? t->owner.run : NULL;
}

/* ---- results ---- */

/* Removes a result from the tape. A retained result continues to exist, without history. */
static void disown(tg_tape *t, const tg_result *result)
{
    tg_tensor *x = result->tensor;
    if (x->gradient) {
        tg_gradient_free(x); /* of tg_retain_grad */
    }
    x->owner = NULL;
    if (x->node >= 0) {
        x->node = -1;
        x->requires_grad = false;
    }
    if (t->detect_freed && tg_tensor_references(x) == 1) {
        tg_free_result(t, x, result->op);
    } else {
        tg_tensor_drop(t->pool, x);
    }
}

/* Returns to an earlier state. */
static void truncate_to(tg_tape *t, const tg_tape_point *point)
{
    tg_spans_truncate(t, point->records);
    for (size_t i = point->records; i < t->record_count; i++) {
        tg_pool_give(t->pool, t->records[i].saved);
    }
    for (size_t i = point->held; i < t->held_count; i++) {
        tg_tensor *x = t->held[i];
        if (atomic_load_explicit(&x->holder, memory_order_relaxed) == &t->owner) {
            atomic_store_explicit(&x->holder, NULL, memory_order_relaxed);
        }
        tg_tensor_drop(t->pool, x);
    }
    for (size_t i = point->results; i < t->result_count; i++) {
        disown(t, &t->results[i]);
    }
    t->record_count = point->records;
    t->tensor_count = point->tensors;
    t->attribute_bytes = point->attribute_bytes;
    t->result_count = point->results;
    t->held_count = point->held;
}

void tg_tape_reset(tg_tape *t)
{
    if (t) {
        truncate_to(t, &(tg_tape_point){.records = 0});
        tg_no_values_reset(t);
        t->scope_count = t->spans.open = 0;
        t->backwards = 0;
    }
}

void tg_tape_save_point(const tg_tape *t, bool draws, tg_tape_point *point)
{
    point->draws = draws && t && t->rng;
    if (t) {
        point->records = t->record_count;
        point->tensors = t->tensor_count;
        point->attribute_bytes = t->attribute_bytes;
        point->results = t->result_count;
        point->held = t->held_count;
    }
    if (point->draws) {
        tg_rng_copy(&point->rng, t->rng);
    }
}

tg_tensor *tg_tape_end(tg_tape *t, const tg_tape_point *point, tg_tensor *result)
{
    if (!t || result) {
        return result;
    }
    truncate_to(t, point);
    if (point->draws) {
        tg_rng_copy(t->rng, &point->rng);
    }
    return NULL;
}

/* Returns whether a backward kernel of the records, or a replay of them, reads the values of x. */
static bool is_read_by_backward(const tg_tape *t, const tg_tensor *x)
{
    for (size_t k = x->node < 0 ? t->record_count : (size_t)x->node; k < t->record_count; k++) {
        const tg_record *record = &t->records[k];
        tg_tensor *const *tensors = tg_record_inputs(t, record);
        for (int i = 0; i < record->input_count + record->output_count; i++) {
            if (tensors[i] == x && (!tg_backward_ignores(record, i) || tg_spans_read(t, x, k))) {
                return true;
            }
        }
    }
    return false;
}

tg_tensor *tg_tape_end_module(tg_tape *t, const tg_tape_point *point, tg_tensor *result)
{
    if (!result || tg_tape_keeps_results(t)) {
        return tg_tape_end(t, point, result);
    }
    for (size_t i = point->results; i < t->result_count; i++) {
        tg_tensor *x = t->results[i].tensor;
        if (x != result && tg_tensor_references(x) == 1 && tg_storage_references(x) == 1 &&
            !is_read_by_backward(t, x)) {
            tg_drop_values(t, x);
        }
    }
    return result;
}

void tg_tape_free(tg_tape *t)
{
    if (!t) {
        return;
    }
    t->detect_freed = false;
    tg_tape_reset(t);
    for (size_t i = 0; i < t->freed_count; i++) {
        tg_pool_give(NULL, t->freed[i]);
    }
    tg_free(t->records);
    tg_free(t->tensors);
    tg_free(t->states);
    tg_free(t->attributes);
    tg_free(t->results);
    tg_free(t->held);
    tg_free(t->scopes);
    tg_spans_free(t);
    tg_no_values_end(t);
    tg_free(t->freed);
    tg_free(t->plans);
    tg_free(t->gradients);
    tg_free(t->gradient_modes);
    tg_pool_free(t->pool);
    tg_run_free(t->owner.run);
    tg_free(t);
    tg_level_end_tape();
}

/* ---- errors ---- */

const tg_error *tg_tape_error(const tg_tape *t)
{
    static const tg_error no_tape = {TG_ERROR_MEMORY, "the tape is NULL: out of memory when it was created", -1, -1};
    return t ? t->error : &no_tape;
}

bool tg_tape_refuse(const tg_tape *t)
{
    return tg_error_set(t->error, TG_ERROR_STATE, "the tape was not made: tg_tape_new has reported why; make another");
}

/* Sets the error "<call>: <text>". */
static void set_error(tg_tape *t, tg_code code, const char *call, const char *format, va_list arguments)
{
    char text[TG_ERROR_TEXT] = "";
    if (format) {
        vsnprintf(text, sizeof text, format, arguments);
    }
    tg_error_set(t->error, code, "%s: %s", call ? call : "(null)", text);
}

bool tg_tape_fail(tg_tape *t, tg_code code, const char *call, const char *format, ...)
{
    if (t) {
        va_list arguments;
        va_start(arguments, format);
        set_error(t, code, call, format, arguments);
        va_end(arguments);
    }
    return false;
}

bool tg_op_fail(tg_op_call *call, tg_code code, const char *format, ...)
{
    if (call) {
        va_list arguments;
        va_start(arguments, format);
        set_error(call->tape, code, call->op->name, format, arguments);
        va_end(arguments);
    }
    return false;
}

tg_tensor *tg_tape_new_tensor(tg_tape *t, const char *call, tg_dtype dtype, tg_shape shape)
{
    size_t bytes;
    if (!tg_tape_is_usable(t) || !tg_shape_bytes(call, dtype, &shape, &bytes, t->error)) {
        return NULL;
    }
    tg_tensor *x = tg_tape_reserve_results(t, 1) ? tg_tensor_make(t->pool, dtype, &shape) : NULL;
    if (!x) {
        tg_tape_fail(t, TG_ERROR_MEMORY, call, "out of memory");
        return NULL;
    }
    tg_tape_adopt(t, x, call);
    return x;
}

/* ---- checks before an op is called ---- */

bool tg_tape_expect_tensor(tg_tape *t, const char *call, const char *name, const tg_tensor *x)
{
    return tg_tape_is_usable(t) && tg_tensor_check_handle(call, name, x, t->error);
}

bool tg_tape_expect_values(tg_tape *t, const char *call, const char *name, const tg_tensor *x)
{
    return tg_tape_expect_input(t, call, name, x) && tg_tensor_check(call, name, x, t->error);
}

bool tg_tape_expect_floats(tg_tape *t, const char *call, const char *const *names, const tg_tensor *const *inputs,
                           int count)
{
    for (int i = 0; i < count; i++) {
        if (!tg_tape_expect_input(t, call, names[i], inputs[i])) {
            return false;
        }
        if (!tg_dtype_is_float(inputs[i]->dtype) || inputs[i]->dtype != inputs[0]->dtype) {
            return tg_tape_fail(t, TG_ERROR_DTYPE, call, "argument '%s' is %s; %s (tg_cast converts)", names[i],
                                tg_dtype_name(tg_dtype_of(inputs[i])),
                                count > 1 ? "all must be f32, or all f64" : "it must be f32 or f64");
        }
    }
    return true;
}

bool tg_tape_expect_axis(tg_tape *t, const char *call, const tg_tensor *x, int *axis)
{
    if (!tg_tape_expect_input(t, call, "x", x)) {
        return false;
    }
    int asked = *axis, rank = x->rank > 0 ? x->rank : 1;
    return tg_axis_normalize(rank, axis) ||
           tg_tape_fail(t, TG_ERROR_RANGE, call, "axis %d is outside [%d,%d) for rank %d", asked, -rank, rank, x->rank);
}

bool tg_tape_expect_config(tg_tape *t, const char *call, const void *config, const char *expected)
{
    return tg_tape_is_usable(t) && tg_config_check(call, config, expected, t->error);
}

/* ---- switches ---- */

void tg_tape_set_recording(tg_tape *t, bool recording)
{
    if (t) {
        t->recording = recording;
    }
}

bool tg_tape_is_recording(const tg_tape *t)
{
    return t && t->recording;
}

void tg_tape_set_training(tg_tape *t, bool training)
{
    if (t) {
        t->training = training;
    }
}

bool tg_tape_is_training(const tg_tape *t)
{
    return t && t->training;
}

void tg_tape_set_reproducible(tg_tape *t, bool reproducible)
{
    if (t) {
        t->reproducible = reproducible;
    }
}

tg_evaluation tg_evaluation_begin(tg_tape *t)
{
    tg_evaluation before = {tg_tape_is_recording(t), tg_tape_is_training(t)};
    tg_evaluation_end(t, (tg_evaluation){false, false});
    return before;
}

void tg_evaluation_end(tg_tape *t, tg_evaluation before)
{
    tg_tape_set_recording(t, before.recording);
    tg_tape_set_training(t, before.training);
}

/* ---- scopes ---- */

bool tg_tape_begin_scope(tg_tape *t, const char *call, bool is_span)
{
    if (!tg_tape_is_usable(t)) {
        return false;
    }
    if (!tg_grow(&t->scopes, &t->scope_capacity, t->scope_count, t->scope_count + 1, sizeof *t->scopes)) {
        return tg_tape_fail(t, TG_ERROR_MEMORY, call, "out of memory");
    }
    t->scopes[t->scope_count++] = (tg_scope){t->result_count, t->record_count, is_span};
    return true;
}

const tg_scope *tg_tape_end_scope(tg_tape *t, const char *call, bool is_span)
{
    if (t->scope_count == 0) {
        tg_tape_fail(t, TG_ERROR_STATE, call, "no %s is open on this tape", is_span ? "span" : "scope");
        return NULL;
    }
    if (t->scopes[t->scope_count - 1].is_span != is_span) {
        tg_tape_fail(t, TG_ERROR_STATE, call, "a %s was begun last, and must end first", is_span ? "scope" : "span");
        return NULL;
    }
    return &t->scopes[--t->scope_count];
}

bool tg_scope_begin(tg_tape *t)
{
    return tg_tape_begin_scope(t, "scope_begin", false);
}

/* Ends the scope even after an error, so that its results are freed. */
bool tg_scope_end(tg_tape *t, tg_tensor *keep)
{
    if (!t) {
        return false;
    }
    const tg_scope *scope = tg_tape_end_scope(t, "scope_end", false);
    if (!scope) {
        return false;
    }
    size_t kept = scope->results;
    keep = tg_getter_has("scope_end", keep) ? keep : NULL;
    for (size_t i = kept; i < t->result_count; i++) {
        tg_result result = t->results[i];
        /* A result that the tape holds is kept until the reset, which marks it as freed. If it were removed here, the
         * reset would free it without that mark. */
        bool is_held = t->detect_freed && tg_tensor_references(result.tensor) > 1;
        if (result.tensor == keep || result.tensor->node >= 0 || is_held) {
            t->results[kept++] = result;
        } else {
            disown(t, &result);
        }
    }
    t->result_count = kept;
    return tg_tape_is_usable(t);
}

/* tape: the context's life: made, switched, scoped, reset, freed. What is recorded is in apply.c, how it is
 * differentiated in backward.c, and what a tape is made of in tape.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tape/tape.h"

tg_tape_config tg_tape_config_default(void)
{
    return (tg_tape_config){.recycle = true};
}

tg_tape *tg_tape_new(tg_rng *rng)
{
    tg_tape_config config = tg_tape_config_default();
    return tg_tape_new_with(rng, &config);
}

tg_tape *tg_tape_new_with(tg_rng *rng, const tg_tape_config *config)
{
    tg_tape *t = tg_alloc_zeroed(1, sizeof *t);
    tg_pool *pool = tg_pool_new(config->recycle);
    if (!t || !pool) {
        tg_free(t);
        tg_pool_free(pool);
        return NULL;
    }
    t->pool = pool;
    t->rng = rng;
    t->recycle = config->recycle;
    t->recording = t->training = true;
    return t;
}

tg_rng *tg_tape_rng(const tg_tape *t)
{
    return t ? t->rng : NULL;
}

/* Takes a result away from the tape. One that somebody retained goes on, as a tensor without history. */
static void disown(tg_tape *t, tg_tensor *x)
{
    if (x->gradient) {
        tg_gradient_free(x); /* kept by tg_keep_grad until now */
    }
    x->tape = NULL;
    x->node = -1;
    x->requires_grad = false;
    tg_tensor_drop(t->pool, x);
}

void tg_tape_reset(tg_tape *t)
{
    if (!t) {
        return;
    }
    for (size_t i = 0; i < t->record_count; i++) {
        tg_record *record = &t->records[i];
        tg_tensor **inputs = tg_record_inputs(t, record);
        tg_pool_give(t->pool, record->saved);
        for (int k = 0; k < record->input_count; k++) {
            if (!tg_tape_recorded(t, inputs[k])) {
                tg_tensor_drop(t->pool, inputs[k]);
            }
        }
    }
    for (size_t i = 0; i < t->result_count; i++) {
        disown(t, t->results[i]);
    }
    t->record_count = t->tensor_count = t->attribute_bytes = t->result_count = t->scope_count = 0;
}

void tg_tape_free(tg_tape *t)
{
    if (!t) {
        return;
    }
    tg_tape_reset(t);
    tg_free(t->records);
    tg_free(t->tensors);
    tg_free(t->versions);
    tg_free(t->attributes);
    tg_free(t->results);
    tg_free(t->scopes);
    tg_free(t->input_gradients);
    tg_free(t->fresh);
    tg_pool_free(t->pool);
    tg_free(t);
}

/* ---- errors ---- */

const char *tg_tape_error(const tg_tape *t)
{
    return t ? t->error.text : "the tape is NULL: out of memory when it was made";
}

tg_code tg_tape_error_code(const tg_tape *t)
{
    return t ? t->error.code : TG_ERROR_MEMORY;
}

void tg_tape_clear_error(tg_tape *t)
{
    if (t) {
        tg_error_clear(&t->error);
    }
}

/* "<name>: <text>", the name first so that a reader knows which call it was. */
static void set_error(tg_tape *t, tg_code code, const char *name, const char *format, va_list arguments)
{
    char text[TG_ERROR_TEXT];
    vsnprintf(text, sizeof text, format, arguments);
    tg_error_set(&t->error, code, "%s: %s", name, text);
}

tg_tensor *tg_tape_fail(tg_tape *t, tg_code code, const char *name, const char *format, ...)
{
    if (t) {
        va_list arguments;
        va_start(arguments, format);
        set_error(t, code, name, format, arguments);
        va_end(arguments);
    }
    return NULL;
}

bool tg_op_fail(tg_op_call *call, tg_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_error(call->tape, code, call->op->name, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- switches ---- */

void tg_tape_set_recording(tg_tape *t, bool recording)
{
    if (t) {
        t->recording = recording;
    }
}

bool tg_tape_recording(const tg_tape *t)
{
    return t && t->recording;
}

void tg_tape_set_training(tg_tape *t, bool training)
{
    if (t) {
        t->training = training;
    }
}

bool tg_tape_training(const tg_tape *t)
{
    return t && t->training;
}

void tg_tape_set_observer(tg_tape *t, tg_observer *observer, void *context)
{
    if (t) {
        t->observer = observer;
        t->observer_context = context;
    }
}

/* ---- results and scopes ---- */

void tg_scope_begin(tg_tape *t)
{
    if (!t) {
        return;
    }
    if (!tg_grow((void **)&t->scopes, &t->scope_capacity, t->scope_count, t->scope_count + 1, sizeof *t->scopes)) {
        tg_tape_fail(t, TG_ERROR_MEMORY, "scope_begin", "out of memory");
        return;
    }
    t->scopes[t->scope_count++] = t->result_count;
}

void tg_scope_end(tg_tape *t, tg_tensor *keep)
{
    if (!t) {
        return;
    }
    if (t->scope_count == 0) {
        tg_tape_fail(t, TG_ERROR_STATE, "scope_end", "no scope is open on this tape");
        return;
    }
    size_t kept = t->scopes[--t->scope_count];
    for (size_t i = kept; i < t->result_count; i++) {
        tg_tensor *x = t->results[i];
        if (x == keep || x->node >= 0) {
            t->results[kept++] = x;
        } else {
            disown(t, x);
        }
    }
    t->result_count = kept;
}

/* ---- what it holds ---- */

tg_tape_stats tg_tape_stats_of(const tg_tape *t)
{
    return (tg_tape_stats){
        .records = (int64_t)t->record_count, .results = (int64_t)t->result_count, .idle_bytes = tg_pool_idle(t->pool)};
}

void tg_tape_trim(tg_tape *t)
{
    if (t) {
        tg_pool_trim(t->pool);
    }
}

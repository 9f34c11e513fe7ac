/* no_values: results that have no values any more. The end of a span drops those that backward computes again
 * (activation_checkpoint.c), and a module those that nobody reads (tg_tape_end_module). If the tape detects the use of
 * freed results, a reset and the end of a scope keep their headers.
 *
 * All of them refer to one storage of the tape, which has a guard and no values.
 *
 * Every call finds a freed result where it finds a NULL, because both checks go through tg_is_tensor. The detection
 * costs almost nothing when it is off.
 */
#include "tape/no_values.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "tape/tape.h"

/* The storage and its guard in one block, because results that were retained refer to it after the tape was freed. */
typedef struct no_values {
    tg_storage storage; /* must be the first */
    tg_value_guard guard;
    int64_t generation; /* 1, and one more after each reset */
} no_values;

bool tg_no_values_refuse(const tg_value_guard *guard, const char *call, const char *name, const tg_tensor *x,
                         tg_error *error)
{
    (void)guard;
    if (!x->is_freed) {
        return tg_error_set(
            error, TG_ERROR_STATE,
            "%s: activation_checkpoint_end has dropped the values of this result of shape %s; tg_retain "
            "before the end keeps them",
            call, tg_shape_text_of(x).text);
    }
    char text[TG_FREED_TEXT];
    return tg_error_set(error, TG_ERROR_STATE, "%s%sthe %s is %s", call ? call : "", call ? ": " : "",
                        name ? name : "tensor", tg_freed_text(x, text));
}

const char *tg_freed_text(const tg_tensor *x, char text[TG_FREED_TEXT])
{
    long long then = (long long)x->freed_generation, now = (long long)((const no_values *)x->storage)->generation;
    int length = snprintf(text, TG_FREED_TEXT, "a result of '%.*s' from generation %lld of its tape, which ",
                          TG_CUT(x->freed_op, 80), then);
    if (then == now) {
        snprintf(text + length, TG_FREED_TEXT - (size_t)length,
                 "the end of its scope has freed; tg_scope_end or tg_retain keeps a result");
    } else {
        snprintf(text + length, TG_FREED_TEXT - (size_t)length,
                 "is in generation %lld now: tg_tape_reset has freed it; tg_retain keeps a result", now);
    }
    return text;
}

void tg_no_values_reset(tg_tape *t)
{
    ((no_values *)t->no_values)->generation++;
}

bool tg_no_values_begin(tg_tape *t)
{
    no_values *made = tg_pool_take(NULL, sizeof *made);
    if (!made) {
        return false;
    }
    atomic_init(&made->storage.references, 1);
    atomic_init(&made->storage.version, 0);
    made->storage.first_version = 0;
    made->storage.guard = &made->guard;
    made->generation = 1;
    made->guard = (tg_value_guard){.refuse = tg_no_values_refuse, .run = t->owner.run};
    t->no_values = &made->storage;
    return true;
}

void tg_no_values_end(tg_tape *t)
{
    tg_value_guard_end(t->no_values->guard);
    tg_storage_drop(NULL, t->no_values);
}

void tg_drop_values(tg_tape *t, tg_tensor *x)
{
    tg_storage_drop(t->pool, x->storage);
    atomic_fetch_add_explicit(&t->no_values->references, 1, memory_order_relaxed);
    x->storage = t->no_values;
}

void tg_free_result(tg_tape *t, tg_tensor *x, const char *op)
{
    if (tg_storage_references(x) == 1) {
        size_t bytes = tg_block_bytes(x->storage) - TG_STORAGE_HEAD;
        tg_unpoison(tg_storage_values(x->storage), bytes);
        memset(tg_storage_values(x->storage), 0xff, bytes);
    }
    tg_storage_drop(t->pool, x->storage);
    x->storage = t->no_values; /* without a reference: the header does not outlive the tape */
    x->is_freed = true;
    x->freed_op = op;
    x->freed_generation = ((const no_values *)t->no_values)->generation;
    t->freed[t->freed_count++] = x;
}

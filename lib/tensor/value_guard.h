/* value_guard (private): what stands before the values of a storage that are not there, or not up to date.
 *
 * A storage without a guard has its values. Nothing may read or write those of another one: a call that would calls
 * `refuse`, and a call that reads a few rows may ask `prepare` for them first. The storage does not know what stands
 * behind its guard. Who sets a guard also removes it, and keeps it until then.
 */
#ifndef TG_TENSOR_VALUE_GUARD_H
#define TG_TENSOR_VALUE_GUARD_H

#include <tapegrad/tensor.h>

#include "base/run.h"

typedef struct tg_value_guard {
    /* Sets the error of a call that needs the values of x, and returns false. `name` is that of the argument, or NULL:
     * a getter gives none, and for a tensor that is freed (is_freed) sometimes not even the name of the call. */
    bool (*refuse)(const struct tg_value_guard *guard, const char *call, const char *name, const tg_tensor *x,
                   tg_error *error);

    /* Prepares rows ids[0 .. count) of x, so that they may be read; ids may repeat. Returns false, with nothing
     * changed, if it cannot do that for any row of x; a count of 0 asks just that. NULL: it never can. */
    bool (*prepare)(struct tg_value_guard *guard, const tg_tensor *x, const int32_t *ids, int64_t count);

    tg_run *run; /* whose error getters set, which have no error of their own; may be NULL */
} tg_value_guard;

/* Ends the use of the run by a guard that tensors may still have. */
static inline void tg_value_guard_end(tg_value_guard *guard)
{
    if (guard->run) {
        tg_run_forget(guard->run, guard);
        guard->run = NULL;
    }
}

#endif

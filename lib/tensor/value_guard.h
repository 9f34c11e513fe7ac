/* value_guard (private): what stands before the values of a storage that are not there, or not up to date.
 *
 * A storage without a guard has its values. Those of one with a guard are neither read nor written: a call that needs
 * them fails by `refuse`, and a call that reads a few rows may have them prepared first. A guard is set for a
 * result whose values were freed, and for a table of which some rows are behind. Who sets a guard also removes it, and
 * keeps it until then.
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
     * changed, if it cannot; that is so for all rows or for none, so a count of 0 asks. NULL: it never can. */
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

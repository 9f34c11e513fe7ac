/* run (private): the generator and the first error that objects share.
 *
 * Each object has a reference to its run, so an error has no owner that could be freed before those who read it: a
 * pointer to an error in another object would dangle, and had to be introduced by the program. A stream has a reference
 * to the run whose error it shares; that run is never a stream itself, so one pointer leads from any object to its
 * error.
 */
#ifndef TG_BASE_RUN_H
#define TG_BASE_RUN_H

#include <stdatomic.h>

#include <tapegrad/run.h>

#include "base/random.h"

struct tg_run {
    tg_error *error; /* `own`, or that of `first` */
    /* of the run whose error it is: who has set it and may clear it again (tg_run_set_error_by); NULL: only the program
     * may */
    const void *set_by;
    tg_run *first; /* of a stream: the run whose error it shares; else NULL */
    atomic_int references;
    bool has_generator;
    tg_rng rng;
    tg_error own;
};

/* Returns a reference to a run, for tg_run_free: to the given one, or, for NULL, to a new run without a generator. NULL
 * when memory is exhausted. */
tg_run *tg_run_keep(tg_run *run);

/* Returns whether the run has no error. */
static inline bool tg_run_is_clear(const tg_run *of)
{
    return of->error->code == TG_OK;
}

/* Sets the error of the run, unless there is one, so that tg_run_clear_error_by can clear it. Returns false. */
bool tg_run_set_error_by(tg_run *run, const tg_error *error, const void *by);

/* Clears the error of the run if `by` has set it. */
void tg_run_clear_error_by(tg_run *run, const void *by);

/* Ends this right of `by`, which is freed. The error stays. */
void tg_run_forget(tg_run *run, const void *by);

#endif

/* run: the generator and the first error that objects share. */
#include "base/run.h"

#include <tapegrad/extend.h>

#include "base/alloc.h"

/* Returns the run whose error it is. */
static tg_run *owner_of(tg_run *run)
{
    return run->first ? run->first : run;
}

/* Returns a run without a generator, whose error is its own, or that of another run. */
static tg_run *new_run(tg_run *first)
{
    tg_run *run = tg_alloc_zeroed(1, sizeof *run);
    if (run) {
        atomic_init(&run->references, 1);
        tg_error_clear(&run->own);
        run->first = first ? tg_run_keep(first) : NULL;
        run->error = first ? first->error : &run->own;
    }
    return run;
}

static tg_run *seeded(tg_run *run, uint64_t seed)
{
    if (run) {
        run->has_generator = true;
        run->rng.profile = TG_RNG_AVX2;
        tg_rng_seed(&run->rng, seed);
    }
    return run;
}

tg_run *tg_run_new(uint64_t seed)
{
    return seeded(new_run(NULL), seed);
}

tg_run *tg_run_new_stream(tg_run *run, uint64_t seed)
{
    if (!run) {
        return NULL;
    }
    tg_run *stream = seeded(new_run(owner_of(run)), seed);
    if (!stream) {
        tg_error_set(run->error, TG_ERROR_MEMORY, "run_new_stream: out of memory");
    }
    return stream;
}

tg_run *tg_run_keep(tg_run *run)
{
    if (!run) {
        return new_run(NULL);
    }
    atomic_fetch_add_explicit(&run->references, 1, memory_order_relaxed);
    return run;
}

void tg_run_free(tg_run *run)
{
    if (run && atomic_fetch_sub_explicit(&run->references, 1, memory_order_acq_rel) == 1) {
        tg_run_free(run->first);
        tg_free(run);
    }
}

tg_rng *tg_run_rng(tg_run *run)
{
    return run && run->has_generator ? &run->rng : NULL;
}

/* ---- the error ---- */

const tg_error *tg_run_error(const tg_run *run)
{
    static const tg_error none = {TG_ERROR_MEMORY, "the run is NULL: out of memory when it was created", -1, -1};
    return run ? run->error : &none;
}

bool tg_run_set_error_by(tg_run *run, const tg_error *error, const void *by)
{
    if (tg_run_is_clear(run) && error->code != TG_OK) {
        tg_error_copy(run->error, error);
        owner_of(run)->set_by = by;
    }
    return false;
}

bool tg_run_set_error(tg_run *run, const tg_error *error)
{
    return run && error && tg_run_set_error_by(run, error, NULL);
}

void tg_run_clear_error(tg_run *run)
{
    if (run) {
        tg_error_clear(run->error);
        owner_of(run)->set_by = NULL;
    }
}

void tg_run_clear_error_by(tg_run *run, const void *by)
{
    if (by && owner_of(run)->set_by == by) {
        tg_run_clear_error(run);
    }
}

void tg_run_forget(tg_run *run, const void *by)
{
    if (owner_of(run)->set_by == by) {
        owner_of(run)->set_by = NULL;
    }
}

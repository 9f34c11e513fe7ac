/* tape: records what ops compute, and differentiates it.
 *
 * A tape owns every result of an op until tg_tape_reset, so that nested calls leak nothing:
 *     tg_tensor *y = tg_add(t, tg_mul(t, a, b), c);
 * An op is recorded when recording is on and an input needs a gradient. Recording order is a topological order, so
 * backward is one loop over the records, last to first; there is no recursion and no visited set.
 *
 * Errors are sticky: the first one stays in the tape, the op that met it returns NULL, and every later op returns
 * NULL at once. So one check a step is enough, at tg_backward. To try a step again: tg_tape_clear_error,
 * tg_tape_reset, and put the generator and the loader back to where they were.
 *
 * One tape belongs to one thread. Parameters may be read by tapes on several threads at once while none of them
 * records; two backwards into the same leaf at once are not supported.
 */
#ifndef TAPEGRAD_TAPE_H
#define TAPEGRAD_TAPE_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_tape tg_tape;

typedef struct tg_tape_config {
    bool
        recycle; /* true: memory that a reset frees is used again by the next step, which then allocates nothing; false:
                     it goes back to the allocator at once, so that sanitizers see every stale read */
} tg_tape_config;

TG_API tg_tape_config tg_tape_config_default(void);

/* A tape that records and is in training mode; yours to free. `rng` feeds dropout and may be NULL when nothing draws;
 * it stays yours and must live as long as the tape. NULL when out of memory. */
TG_API tg_tape *tg_tape_new(tg_rng *rng);
TG_API tg_tape *tg_tape_new_with(tg_rng *rng, const tg_tape_config *config);

/* The generator that it was made with. */
TG_API tg_rng *tg_tape_rng(const tg_tape *tape);

/* Frees the tape and every result that was not retained; those stay valid, without history. NULL is fine. */
TG_API void tg_tape_free(tg_tape *tape);

/* The first line of a step: frees the last step's records and results. Retained results stay, and lose their history. A
 * sticky error stays too. Open scopes are closed. */
TG_API void tg_tape_reset(tg_tape *tape);

/* The first error's text and code since the last clear: "" and TG_OK when there is none. A NULL tape is one that could
 * not be made: its text says so. */
TG_API const char *tg_tape_error(const tg_tape *tape);
TG_API tg_code tg_tape_error_code(const tg_tape *tape);
TG_API void tg_tape_clear_error(tg_tape *tape);

/* Two switches that know nothing of each other. Recording (torch.no_grad's opposite) decides whether ops are recorded;
 * training (model.train(), model.eval()) is what dropout looks at. Both are on in a new tape. */
TG_API void tg_tape_set_recording(tg_tape *tape, bool recording);
TG_API bool tg_tape_recording(const tg_tape *tape);
TG_API void tg_tape_set_training(tg_tape *tape, bool training);
TG_API bool tg_tape_training(const tg_tape *tape);

/* A scope frees, at its end, the results made inside it that were not recorded, but for `keep` (may be NULL), which
 * goes to the scope around. What was recorded stays until the reset: a backward may need it. For long evaluation or
 * generation inside of a step. Scopes nest. tg_scope_end without a begin is an error of STATE. */
TG_API void tg_scope_begin(tg_tape *tape);
TG_API void tg_scope_end(tg_tape *tape, tg_tensor *keep);

/* ---- backward ------------------------------------------------------------------------------------------------ */

/* Adds d loss / d leaf to the gradient of every leaf that `loss` depends on and that requires a gradient. `loss` has
 * one value. Follows torch.Tensor.backward: gradients accumulate until they are zeroed (tg_zero_grad,
 * tg_optim_zero_grad).
 *
 * Values of results stay readable until the reset; the buffers that ops saved for this are freed, so a second backward
 * through the same records is refused: use tg_backward_keep for all but the last.
 *
 * Everything that can fail happens first: false means that no gradient has changed. Errors: an earlier error of the
 * tape; SHAPE when loss has more than one value; STATE when it was not recorded, when its records were freed by an
 * earlier backward, or when a tensor that an op saved was changed since, or one that it read was resized; MEMORY. */
TG_API bool tg_backward(tg_tape *tape, tg_tensor *loss);

/* The same, and the records stay usable. */
TG_API bool tg_backward_keep(tg_tape *tape, tg_tensor *loss);

/* Starts from a given gradient of y instead of from 1: adds the vector-Jacobian product seed^T dy/dleaf. `seed` has y's
 * shape and dtype. */
TG_API bool tg_backward_seed(tg_tape *tape, tg_tensor *y, const tg_tensor *seed);
TG_API bool tg_backward_seed_keep(tg_tape *tape, tg_tensor *y, const tg_tensor *seed);

/* Asks that the gradient of an intermediate result be kept: after a backward tg_grad(x) gives it, until the reset.
 * Follows torch.Tensor.retain_grad. Returns false, with the tape's error set, when x was not recorded here. */
TG_API bool tg_keep_grad(tg_tape *tape, tg_tensor *x);

/* ---- what a tape holds --------------------------------------------------------------------------------------- */

typedef struct tg_tape_stats {
    int64_t records;   /* ops recorded since the reset */
    int64_t results;   /* tensors owned */
    size_t idle_bytes; /* memory waiting to be used again */
} tg_tape_stats;

TG_API tg_tape_stats tg_tape_stats_of(const tg_tape *tape);

/* After a loss turned NaN, before or after the backward: true, and in `found` (its text is for a person) the first
 * recorded op whose output has a NaN, and whether it made it or an input brought it:
 *
 *     'log' (op 2 of 4) made a NaN at [1,0] of (2,2), from inputs without one (largest absolute value 8)
 *     input 1 of 'mul' (op 2 of 2), (2,), has a NaN at [1]: no recorded op made it
 *
 * When no output has one, an input that has a NaN now is named, such as a parameter that a step turned NaN. False when
 * nothing that was recorded since the reset holds a NaN. Ops that were not recorded are not seen, but what they made
 * is, as an input. Looks at every value: slow, and for that moment only. */
TG_API bool tg_tape_find_nan(const tg_tape *tape, tg_error *found);

/* Gives idle memory back to the allocator: after a step that was larger than the ones to come. */
TG_API void tg_tape_trim(tg_tape *tape);

#ifdef __cplusplus
}
#endif

#endif

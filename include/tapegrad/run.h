/* run: what the objects of a program share, a random generator and the first error.
 *
 * ```c
 * tg_run *training = tg_run_new(1234);
 * tg_params *weights = tg_params_new(training, TG_F32);
 * tg_tape *tape = tg_tape_new(training, NULL);
 * tg_nn_embedding table = tg_nn_embedding_make(weights, "tok_emb", 100, 8, NULL);
 * tg_optim *sgd = tg_sgd_new(weights, NULL);
 * tg_tensor *sum = tg_sum_all(tape, tg_nn_embedding_forward(tape, &table, ids));
 * tg_backward(tape, sum, NULL);
 * tg_optim_step(sgd);
 * if (tg_run_error(training)->code != TG_OK) {
 *     puts(tg_run_error(training)->text);
 * }
 * tg_optim_free(sgd);
 * tg_tape_free(tape);
 * tg_params_free(weights);
 * tg_run_free(training);
 * ```
 *
 * Params, tapes and loaders are made with a run; optimizers, modules and models use that of their params. So a program
 * has one error, and one `if` finds what has failed anywhere. base.h says what happens while there is an error.
 *
 * Among the objects of one run, streams included, a step is all or nothing: if a batch, an op or a backward fails, the
 * optimizer does not move a weight, and no accumulated gradient is used. Two runs know nothing of each other: after an
 * error of a loader, a tape of another run goes on, and its calls report nothing. So a program has one run, and one
 * more for each further thread: two threads use two runs.
 *
 * NULL for the run of a constructor: the object has an error of its own, and no generator.
 */
#ifndef TAPEGRAD_RUN_H
#define TAPEGRAD_RUN_H

#include <tapegrad/random.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_run tg_run;

/* Returns a run whose generator is in the state of torch.manual_seed(seed). Yours to free; objects that were made with
 * it keep it alive. NULL when memory is exhausted. */
TG_API tg_run *tg_run_new(uint64_t seed);

/* Returns a run with a generator of its own and the error of `run`: for samples in the middle of a training, for a
 * second loader, for the dropout of a rank (tapegrad_mpi.h). Yours to free, before or after `run`. It may be made while
 * there is an error. NULL, with the error in `run`, when memory is exhausted. */
TG_API tg_run *tg_run_new_stream(tg_run *run, uint64_t seed);

/* Ends the program's use of the run. It is freed with the last object that was made with it. */
TG_API void tg_run_free(tg_run *run);

/* Returns the generator, borrowed: for calls that draw, such as tg_tensor_fill_normal, and for tg_rng_copy. */
TG_API tg_rng *tg_run_rng(tg_run *run);

/* Returns the first error since the last clear; never NULL. MEMORY for a NULL run, because it could not be created. */
TG_API const tg_error *tg_run_error(const tg_run *run);

/* Sets the error of the run, unless there is one, to an error of the program or of a call that takes a tg_error; does
 * nothing if that is TG_OK. Returns false:
 *
 *     return tg_text_read_file(path, 0, &text, &error) || tg_run_set_error(run, &error);
 */
TG_API bool tg_run_set_error(tg_run *run, const tg_error *error);

/* Clears the error, so that calls work again. What an error has kept from being made, stays unmade. To repeat a failed
 * step, also reset the tape, zero the gradients, and restore a copy of the generator from before the step (tg_rng_copy
 * after tg_loader_next). */
TG_API void tg_run_clear_error(tg_run *run);

#ifdef __cplusplus
}
#endif

#endif

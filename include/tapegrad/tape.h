/* tape: records ops while they compute, and differentiates them: reverse-mode automatic differentiation.
 *
 * A tape owns the result of every op until tg_tape_reset, so nested calls leak nothing:
 *
 * ```c
 * tg_tensor *y = tg_add(t, tg_mul(t, a, b), c);
 * ```
 *
 * A call of an op is recorded if recording is on and an input requires a gradient. The order of the calls is a
 * topological order, so tg_backward is one loop over the records, last to first.
 *
 * Errors. The first error stays in the tape's run (tapegrad/run.h). The call that failed returns NULL or false, and so
 * does every later call until the error is cleared; they have no effect. So one check per step is enough, at
 * tg_backward or tg_optim_step. tg_run_clear_error says how to repeat a step.
 *
 * Threads. A tape belongs to one thread. Tapes of several threads may use the same parameters at the same time only
 * while recording is off in all of them.
 */
#ifndef TAPEGRAD_TAPE_H
#define TAPEGRAD_TAPE_H

#include <tapegrad/run.h>
#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_tape tg_tape;

typedef struct tg_tape_config {
    /* private: tg_tape_config_default() sets it */
    tg_config_mark mark;
    /* Whether memory that a reset frees is used again: then a step whose shapes were used before allocates nothing.
     * With false, memory returns to the allocator at once, and valgrind detects every use after free. So does
     * AddressSanitizer if both the program and the library are built with it: meson setup build -Db_sanitize=address.
     * Default true. */
    bool recycle;
    /* Reports use of a freed result, for debugging: a result that a reset or the end of a scope has freed. Such a use
     * sets STATE in the run; the error names the op and its generation, which is 1 and one more after each reset. For
     * getters it is NULL. The header of each result is kept until the tape is freed. Default false. */
    bool detect_freed_results;
    /* The largest number of backwards without retain_graph between two resets. Records that a backward went through are
     * useless but keep their memory, so a program with more backwards has forgotten tg_tape_reset: tg_backward reports
     * STATE. 0 is no limit. Default 1000. */
    int64_t max_backwards;
} tg_tape_config;

TG_API tg_tape_config tg_tape_config_default(void);

/* Returns a tape with recording and training on. Yours to free. Dropout draws from the generator of the run. The run is
 * optional: without one the tape has an error of its own, and nothing can be drawn. An invalid config is an error in
 * the run, and the tape then refuses every call. NULL when memory is exhausted. */
TG_API tg_tape *tg_tape_new(tg_run *run, const tg_tape_config *config);

/* Frees the tape and its results. Results that were retained remain valid, without their history. */
TG_API void tg_tape_free(tg_tape *tape);

/* Frees the records and the results: the first call of a step. Results that were retained remain valid, without their
 * history. Open scopes are closed. The error stays. */
TG_API void tg_tape_reset(tg_tape *tape);

/* Returns the error of the tape's run; never NULL. MEMORY for a NULL tape, because it could not be created. */
TG_API const tg_error *tg_tape_error(const tg_tape *tape);

/* Two independent switches, both on in a new tape. With recording off no op is recorded: torch.no_grad(). With training
 * off dropout returns its input: model.eval(). */
TG_API void tg_tape_set_recording(tg_tape *tape, bool recording);
TG_API bool tg_tape_is_recording(const tg_tape *tape);
TG_API void tg_tape_set_training(tg_tape *tape, bool training);
TG_API bool tg_tape_is_training(const tg_tape *tape);

/* The switches of a tape before an evaluation. */
typedef struct tg_evaluation {
    bool recording, training;
} tg_evaluation;

/* Begin and end an evaluation. The first call turns both switches off, and returns how they were. The second call
 * restores them. So evaluations nest, and may contain resets. Neither call fails, not even while there is an
 * error.
 *
 *     tg_evaluation before = tg_evaluation_begin(t);
 *     double loss = mean_loss(t, &model, validation);
 *     tg_evaluation_end(t, before);
 */
TG_API tg_evaluation tg_evaluation_begin(tg_tape *tape);
TG_API void tg_evaluation_end(tg_tape *tape, tg_evaluation before);

/* Sets whether the matrix products of the tape are reproducible; those of a new tape are not. Reproducible products, in
 * f32 and f64, those inside other ops included, have the order of the built-in loops (tg_matmul_backend), by fused
 * multiply-adds. Where the vector instructions have none (the baseline of x86-64), they are computed exactly by other
 * means, and more slowly; but in f64 a term is rounded twice, and so may differ, if a factor other than 0 is below
 * 2^-450 or above 2^450, or the sum so far is above 2^1000. Everything else in the library has the same bits on each
 * processor anyway, as long as angles are at most 2^20, and the generator's profile is TG_RNG_PORTABLE. So a training
 * gives the same bits on every machine, with any number of threads. Over MPI, tg_mpi_add_sample orders the sums. The
 * backward of a call is reproducible if its forward was recorded so. */
TG_API void tg_tape_set_reproducible(tg_tape *tape, bool reproducible);

/* Begin and end a scope, which frees memory during a long evaluation: the end frees the results of the scope, except
 * `keep`, which is optional and moves to the enclosing scope, and recorded results, which a backward may need. Scopes
 * nest. After an error the end frees, too, and returns false. STATE for an end without a begin; MEMORY for a begin. */
TG_API bool tg_scope_begin(tg_tape *tape);
TG_API bool tg_scope_end(tg_tape *tape, tg_tensor *keep);

/* Begin and end a span of calls. At its end their results lose their values, and backward computes the values again.
 * Follows torch.utils.checkpoint (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"). A span costs one
 * more forward of its calls. The gradients have the same bits without it.
 *
 * ```c
 * tg_activation_checkpoint_begin(t);
 * tg_tensor *hidden = tg_activation_checkpoint_end(t, tg_gelu(t, tg_nn_linear_forward(t, &linear, x)));
 * ```
 *
 * At the end every recorded float result of the span loses its values, except `result`, results that share its storage,
 * results that were changed in place, and results that the caller has retained (tg_retain). The memory that the ops
 * saved for backward is freed, too. A result without values keeps its shape and its gradient (tg_retain_grad). A call
 * that reads its values reports STATE.
 *
 * Backward reserves memory for the values of one span at a time, and draws the same random numbers again. The inputs of
 * the span must not change in place: STATE, even if no gradient depends on the changed values.
 *
 * The end returns `result`, or NULL after an error; the span is closed in both cases. An inner span belongs to the
 * outer one, and drops nothing itself. Spans and scopes may contain each other, but must not overlap (STATE). A reset
 * closes the open spans. A span drops nothing if recording was off, if the tape detects freed results or has an
 * observer, or if a backward without retain_graph went through it before its end. MEMORY. */
TG_API bool tg_activation_checkpoint_begin(tg_tape *tape);
TG_API tg_tensor *tg_activation_checkpoint_end(tg_tape *tape, tg_tensor *result);

/* ---- backward ------------------------------------------------------------------------------------------------ */

typedef struct tg_backward_config {
    /* private: tg_backward_config_default() sets it */
    tg_config_mark mark;
    /* The gradient of the result from which the pass starts, of the result's shape and dtype; tg_backward then adds the
     * vector-Jacobian product. With NULL the pass starts from 1, and the result must have one value. Default NULL. */
    const tg_tensor *gradient;
    /* Whether the buffers that the ops saved are kept, so that another backward can go through the same records.
     * Default false. */
    bool retain_graph;
    /* A function that is called with `context` and each leaf whose gradient this pass has changed, as soon as that
     * gradient is final. So the gradient can be used while the rest is computed, for example sent to other processes.
     * The leaf that was used last comes first. The function must not call ops on the tape or modify `gradient`, and
     * it cannot resize or freeze a leaf whose gradient is not final (STATE). Default NULL. */
    void (*on_gradient)(void *context, tg_tensor *leaf);
    void *context;
} tg_backward_config;

TG_API tg_backward_config tg_backward_config_default(void);

/* Adds d result / d leaf to the gradient of each leaf on which `result` depends and which requires one:
 * torch.Tensor.backward. Gradients accumulate until they are zeroed (tg_optim_zero_grad, tg_tensor_zero_grad). If
 * `result` is itself a leaf, the gradient that the pass starts from is added to its gradient.
 *
 * Returns false, without changing a gradient, while the run has an error, and for
 *   - SHAPE: a result with more or less than one value, without config.gradient; a config.gradient of another shape;
 *   - DTYPE: a config.gradient of another dtype; an op without a gradient for its dtype;
 *   - STATE: a result that does not require a gradient, or was recorded on another tape; records whose buffers an
 *     earlier backward has freed (retain_graph); a tensor that was modified or resized after an op that needs its old
 *     values; more than tg_tape_config.max_backwards without a reset;
 *   - MEMORY. */
TG_API bool tg_backward(tg_tape *tape, tg_tensor *result, const tg_backward_config *config);

/* Lets backward keep the gradient of an intermediate result: torch.Tensor.retain_grad. tg_tensor_grad(x) returns it
 * until the reset. STATE if x was not recorded on this tape, or has no gradient; MEMORY. */
TG_API bool tg_retain_grad(tg_tape *tape, tg_tensor *x);

#ifdef __cplusplus
}
#endif

#endif

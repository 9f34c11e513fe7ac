/* deferred (private): steps of Adam and AdamW that the rows of a table make up later (deferred.c). */
#ifndef TG_OPTIM_DEFERRED_H
#define TG_OPTIM_DEFERRED_H

#include "optim/optim.h"
#include "tensor/tensor.h"

/* The factors of a step of Adam (adam.c). */
enum {
    TG_ADAM_DECAY_FACTOR,
    TG_ADAM_WEIGHT_DECAY,
    TG_ADAM_ONE_MINUS_BETA1,
    TG_ADAM_BETA2,
    TG_ADAM_ONE_MINUS_BETA2,
    TG_ADAM_ROOT_CORRECTION,
    TG_ADAM_EPS,
    TG_ADAM_STEP_SIZE
};

/* The number of terms of the expansion. */
#define TG_DEFERRED_TERMS 8

/* One step, and the sums over the steps after it. */
typedef struct tg_logged_step {
    double decay_factor, correction, step_size; /* the factors of the step: d, c and a in deferred.c */
    double decay;                               /* D: the product of all decay factors up to this step */
    double center;                              /* u0 */
    double sums[TG_DEFERRED_TERMS + 1];         /* S_0 .. S_8 */
} tg_logged_step;

/* The steps that a row has missed, in the form that its kernel needs. */
typedef struct tg_gap {
    double decay, first, second;     /* the factors of x, m and v */
    double offset;                   /* eps u0 */
    double terms[TG_DEFERRED_TERMS]; /* S_k times D */
    double limit;                    /* an element is replayed if p^8 is above it */
    /* for the replay: the first `steps` missed steps are log[(first_step + i) & mask]; rest: the decay after them */
    const tg_logged_step *log;
    uint32_t first_step, steps, mask;
    double beta1, beta2, eps, rest;
} tg_gap;

/* Applies missed steps of `count` values: writes x, m and v. */
typedef void tg_make_up_kernel(const tg_gap *gap, void *x, void *m, void *v, int64_t count);
tg_make_up_kernel TG_EACH_LEVEL(tg_make_up_f32), TG_EACH_LEVEL(tg_make_up_f64);

/* Returns whether betas and eps allow to defer steps. If not, sets the params' error, which begins with `method`. */
bool tg_deferred_check(tg_params *params, const char *method, const tg_adam_config *config);

/* Returns whether a parameter can have gradients by rows. */
bool tg_deferred_is_possible(const tg_tensor *x);

/* Returns the log of a table, whose slot must stay where it is; NULL when memory is exhausted. */
tg_deferred *tg_deferred_new(tg_optim *optim, tg_slot *slot, const tg_adam_config *config);
void tg_deferred_free(tg_deferred *deferred);

/* Follows a resize of the table. Returns false, with the log unchanged, when memory is exhausted. */
bool tg_deferred_resize(tg_deferred *deferred, int64_t rows);

/* Returns whether rows have missed steps. */
bool tg_deferred_is_behind(const tg_deferred *deferred);

/* Returns whether the rows without a gradient can make up a step with these factors later. */
bool tg_deferred_accepts(const double *factors);

/* Surround a step that updates only the rows ids[0 .. count), all different: the first applies the steps that they
 * have missed, and the second logs the step for all other rows. The factors are the step's. */
void tg_deferred_begin_step(tg_deferred *deferred, const int32_t *ids, int64_t count);
void tg_deferred_end_step(tg_deferred *deferred, const double *factors, const int32_t *ids, int64_t count);

/* Applies the missed steps of all rows. */
void tg_deferred_flush(tg_deferred *deferred);

#endif

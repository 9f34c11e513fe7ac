/* deferred (private): steps of an optimizer that the rows of a table catch up with later. Rows, turns and the guard of
 * reads are in deferred.c; a log of steps, and the formula that applies them, in deferred_adam.c and deferred_sgd.c. */
#ifndef TG_OPTIM_DEFERRED_H
#define TG_OPTIM_DEFERRED_H

#include "optim/optim.h"
#include "tensor/tensor.h"

/* ---- methods ---- */

/* How a method logs steps and applies them later. A log begins after a step that all rows have made. Steps have numbers
 * modulo 2^32. */
typedef struct tg_deferred_kind {
    /* Returns whether the rows without a gradient can make up a step with these factors later. */
    bool (*accepts)(const tg_optim_factors *factors);

    /* Returns a log of a slot's steps; NULL when memory is exhausted. No row will miss as many as `capacity` steps, a
     * power of two. */
    void *(*new_log)(const tg_optim *optim, const tg_slot *slot, uint32_t capacity);
    void (*free_log)(void *log);

    /* Begins the log anew after step `now`, the parameter's step number `steps`. NULL: nothing to do. */
    void (*begin)(void *log, uint32_t now, int64_t steps);

    /* Adds step `now`, the parameter's step number `steps`. */
    void (*add)(void *log, uint32_t now, int64_t steps, const tg_optim_factors *factors);

    /* Applies the last `age` steps up to step `now` to `count` values of x and of each state tensor. */
    void (*make_up)(const void *log, uint32_t now, uint32_t age, void *x, void *const *state, int64_t count);
} tg_deferred_kind;

extern const tg_deferred_kind tg_deferred_adam, tg_deferred_sgd;

/* Steps of SGD that are missed, as a matrix: x = xx x + xb b,  b = bx x + bb b */
typedef struct tg_sgd_matrix {
    double xx, xb, bx, bb;
} tg_sgd_matrix;

typedef void tg_sgd_make_up_kernel(const tg_sgd_matrix *missed, void *theta, void *buffer, int64_t count);
tg_sgd_make_up_kernel TG_EACH_LEVEL(avx512, tg_sgd_make_up_f32), TG_EACH_LEVEL(avx2, tg_sgd_make_up_f64);

/* The terms of the expansion of Adam's missed steps (deferred_adam.c). */
#define TG_ADAM_TERMS 8

/* If S_4 is negligible, too, fewer terms suffice. */
#define TG_ADAM_FEW_TERMS 4

/* One step of Adam, and the sums S_k of the steps after it. */
typedef struct tg_logged_step {
    double decay_factor, correction, step_size; /* the factors of the step: d, c and a */
    double decay;                               /* D: the product of all decay factors up to this step */
    double center, scale;                       /* u0, and 1 / u0 */
    double sums[TG_ADAM_TERMS + 1];             /* S_0 .. S_8 */
} tg_logged_step;

/* The steps of Adam that a row has missed, in the form that its kernel needs. */
typedef struct tg_adam_gap {
    double decay, first, second; /* the factors of x, m and v */
    double offset;               /* eps u0 */
    double terms[TG_ADAM_TERMS]; /* S_k times D */
    int count;                   /* of the terms, TG_ADAM_FEW_TERMS or TG_ADAM_TERMS; the other ones are 0 */
    double limit;                /* an element with v up to this, and with m, is replayed; -1: none */
    /* for the replay: the first `steps` missed steps are log[(first_step + i) & mask]; end: the decay up to the last */
    const tg_logged_step *log;
    uint32_t first_step, steps, mask;
    double beta1, beta2, eps, end;
} tg_adam_gap;

/* Applies missed steps of `count` values: writes x, m and v. */
typedef void tg_adam_make_up_kernel(const tg_adam_gap *missed, void *theta, void *mean, void *square, int64_t count);
tg_adam_make_up_kernel TG_EACH_LEVEL(avx512, tg_adam_make_up_f32), TG_EACH_LEVEL(avx2, tg_adam_make_up_f64);

/* ---- constructors ---- */

/* Check whether steps can be deferred: with the aliases of the params, with options of Adam, with options of SGD. If
 * not, set the params' error, which begins with `method`, and return false. */
bool tg_deferred_check_tables(tg_params *params, const char *method);
bool tg_deferred_check_adam(tg_params *params, const char *method, const tg_adam_config *config);
bool tg_deferred_check_sgd(tg_params *params, const char *method, const tg_sgd_config *config);

/* Prepares to defer the steps of a slot if its parameter is a table. The slot must stay where it is. Returns false when
 * memory is exhausted. */
bool tg_deferred_new(tg_optim *optim, tg_slot *slot, const tg_deferred_kind *kind);
void tg_deferred_free(tg_deferred *deferred);

/* Follows a resize of the table, if there was one. Returns false, with nothing changed, when memory is exhausted. */
bool tg_deferred_resize(tg_deferred *deferred, int64_t rows);

/* ---- steps ---- */

/* Returns whether rows have missed steps. */
bool tg_deferred_is_behind(const tg_deferred *deferred);

/* Returns whether the rows without a gradient can make up a step with these factors later; false for NULL. */
bool tg_deferred_accepts(const tg_deferred *deferred, const tg_optim_factors *factors);

/* Surround a step that updates only the rows ids[0 .. count), all different: the first applies the steps that they
 * have missed, and the second logs the step for all other rows. The factors are the step's. */
void tg_deferred_begin_step(tg_deferred *deferred, const int32_t *ids, int64_t count);
void tg_deferred_end_step(tg_deferred *deferred, const tg_optim_factors *factors, const int32_t *ids, int64_t count);

/* Applies the missed steps of all rows. */
void tg_deferred_flush(tg_deferred *deferred);

/* Clears the error of the run if it is that of a getter, which has met the missed steps of this table. */
void tg_deferred_clear_error(tg_deferred *deferred);

#endif

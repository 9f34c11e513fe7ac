/* adam_log (private): the log of Adam's deferred steps, for the formula of deferred_adam.c.
 *
 * The log has one entry per step s, with S_k for the present T. A step adds its terms to the last `window` entries: q^j
 * is negligible in older ones, whose sums are complete. No sum is a difference of larger sums. The sums that still grow
 * stand apart, in groups of neighboring steps, because adding to them is most of the log's work.
 */
#ifndef TG_OPTIM_ADAM_LOG_H
#define TG_OPTIM_ADAM_LOG_H

#include "optim/optim.h"

/* The number of terms of the expansion. */
#define TG_ADAM_TERMS 8

/* One step, and the sums over the steps after it. */
typedef struct tg_logged_step {
    double decay_factor, correction, step_size; /* the factors of the step: d, c and a */
    double decay;                               /* D: the product of all decay factors up to this step */
    double center;                              /* u0 */
    double sums[TG_ADAM_TERMS + 1];             /* S_0 .. S_8, once they are complete */
} tg_logged_step;

/* The sums of neighboring steps that are not complete. */
#define TG_RECENT_STEPS 8
typedef struct tg_recent_steps {
    double scale[TG_RECENT_STEPS]; /* 1 / u0 */
    double sums[TG_ADAM_TERMS + 1][TG_RECENT_STEPS];
} tg_recent_steps;

/* Powers of beta1 and beta2. */
typedef struct tg_moment_decay {
    double first, second;
} tg_moment_decay;

/* The number of ages between two powers of adam_log.high. */
#define TG_LOW_AGES 256

typedef struct tg_adam_log {
    tg_dtype dtype; /* of the table */
    double beta1, beta2, eps, tolerance;
    double mean_age, mean_growth; /* of the sum of q^j: its mean j, and 1 / sqrt(beta2)^j there, for the centers u0 */
    tg_logged_step *steps;        /* step s is steps[s & mask] */
    uint32_t mask, logged;        /* logged: the number of steps since the log began, at most mask */
    uint32_t window;
    tg_recent_steps *recent;          /* the last `window` steps and more; the last one is number `at` */
    uint32_t groups, at;              /* groups: the length of recent[] */
    double *weight, *growth;          /* q^j and 1 / sqrt(beta2)^j: adam_log.c */
    tg_moment_decay low[TG_LOW_AGES]; /* powers 0 .. TG_LOW_AGES - 1 */
    tg_moment_decay *high;            /* multiples of TG_LOW_AGES, up to mask */
} tg_adam_log;

/* Returns a log that has not begun; NULL when memory is exhausted. A tg_deferred_kind lists the arguments. */
tg_adam_log *tg_adam_log_new(const tg_adam_config *config, tg_dtype dtype, uint32_t capacity);
void tg_adam_log_free(void *log);
void tg_adam_log_begin(void *log, uint32_t now, int64_t steps);
void tg_adam_log_add(void *log, uint32_t now, int64_t steps, const tg_optim_factors *factors);

/* Writes S_0 .. S_8 of the step that is `age` steps old. */
void tg_adam_log_sums(const tg_adam_log *log, uint32_t now, uint32_t age, double sums[TG_ADAM_TERMS + 1]);

/* Returns the factors of m and v over `age` steps. */
static inline tg_moment_decay tg_adam_log_decay(const tg_adam_log *log, uint32_t age)
{
    const tg_moment_decay *low = &log->low[age % TG_LOW_AGES], *high = &log->high[age / TG_LOW_AGES];
    return (tg_moment_decay){low->first * high->first, low->second * high->second};
}

/* Adds the terms of a step to the sums of steps before it: first weight_j (correction growth_j / u0 - 1)^k. */
typedef void tg_adam_add_kernel(tg_recent_steps *steps, uint32_t groups, const double *weight, const double *growth,
                                double first, double correction);
tg_adam_add_kernel TG_EACH_WIDE_LEVEL(tg_adam_add_terms);

#endif

/* optim: optimizers, learning-rate schedules and clipping, over the parameters of a tg_params.
 *
 * An optimizer allocates all its state when it is made, so a step cannot run out of memory. It updates each parameter once
 * (aliases do not count), skips those without a gradient and those that are frozen, as PyTorch does with
 * zero_grad(set_to_none=True), and moves the version of what it writes.
 *
 * Row gradients (embeddings) are accepted by all of them, with the dense optimizer's result: a row without a gradient
 * counts as a gradient of zero. Plain SGD then touches only the rows that have one; where momentum, moments or weight decay
 * move every row, every row is swept, but no V x C gradient is ever made.
 *
 *     tg_adamw_config config = tg_adamw_config_default();
 *     tg_optim *adamw = tg_adamw_new(params, &config);
 *     for (...) { tg_optim_zero_grad(adamw); ... tg_backward(tape, loss); tg_optim_step(adamw); }
 */
#ifndef TAPEGRAD_OPTIM_H
#define TAPEGRAD_OPTIM_H

#include <tapegrad/params.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_optim tg_optim;

/* ---- making ---------------------------------------------------------------------------------------------------------------- */
/* `config` may be NULL for the default. The params must outlive the optimizer. NULL with the params' error set (VALUE for an
 * option that means nothing, MEMORY) or when the params have an error. Yours to free. */

/* torch.optim.SGD: g += decay theta; b = momentum b + (1 - dampening) g, the first time b = g; theta -= lr b, or, nesterov,
 * theta -= lr (g + momentum b). */
typedef struct tg_sgd_config {
    double lr;           /* 1e-3 */
    double momentum;     /* 0 */
    double dampening;    /* 0 */
    double weight_decay; /* 0 */
    bool nesterov;       /* false; needs momentum > 0 and dampening 0 */
} tg_sgd_config;

TG_API tg_sgd_config tg_sgd_config_default(void);
TG_API tg_optim *tg_sgd_new(tg_params *params, const tg_sgd_config *config);

/* torch.optim.Adam (Kingma and Ba 2015): m, v the running means of g and g^2, theta -= lr m' / (sqrt(v') + eps) with both
 * means corrected for their start. Weight decay adds decay theta to g; in AdamW (Loshchilov and Hutter 2019) it shrinks
 * theta by lr decay instead. amsgrad divides by the largest v so far (Reddi et al. 2018). */
typedef struct tg_adam_config {
    double lr;           /* 1e-3 */
    double beta1, beta2; /* 0.9, 0.999, each in [0,1) */
    double eps;          /* 1e-8 */
    double weight_decay; /* Adam 0, AdamW 0.01 */
    bool amsgrad;        /* false */
} tg_adam_config;

typedef tg_adam_config tg_adamw_config;

TG_API tg_adam_config tg_adam_config_default(void);
TG_API tg_optim *tg_adam_new(tg_params *params, const tg_adam_config *config);
TG_API tg_adamw_config tg_adamw_config_default(void);
TG_API tg_optim *tg_adamw_new(tg_params *params, const tg_adamw_config *config);

TG_API void tg_optim_free(tg_optim *optim); /* NULL is fine */

/* ---- using ------------------------------------------------------------------------------------------------------------------ */

/* Every parameter's gradient back to none. */
TG_API void tg_optim_zero_grad(tg_optim *optim);

/* One update of every parameter that has a gradient. false, with nothing changed, for a NULL optimizer, after an earlier
 * error, and when parameters were added since the optimizer was made (STATE). */
TG_API bool tg_optim_step(tg_optim *optim);

TG_API const char *tg_optim_error(const tg_optim *optim);
TG_API tg_code tg_optim_error_code(const tg_optim *optim);

/* ---- groups: other options for some parameters -------------------------------------------------------------------------------- */

/* Moves the parameters whose names match the pattern (as a shell matches file names: "*.bias") into a new group, and
 * returns its number; 0 is the group of all others. It starts with group 0's options. -1, with the error set, when nothing
 * matches (RANGE) or out of memory. */
TG_API int tg_optim_add_group(tg_optim *optim, const char *pattern);

/* RANGE for a group that is not there, VALUE for a negative or NaN value. */
TG_API bool tg_optim_set_lr(tg_optim *optim, int group, double lr);
TG_API bool tg_optim_set_weight_decay(tg_optim *optim, int group, double weight_decay);
TG_API double tg_optim_lr(const tg_optim *optim, int group); /* NaN for a group that is not there */

/* ---- schedules: the learning rate of a step, as a function ---------------------------------------------------------------------- */

typedef enum tg_decay {
    TG_DECAY_CONSTANT,
    TG_DECAY_LINEAR, /* from lr to final_lr over the steps after the warm-up */
    TG_DECAY_COSINE, /* the same along half a cosine (Loshchilov and Hutter 2017) */
    TG_DECAY_STEP    /* times gamma after each `period` steps: torch's StepLR */
} tg_decay;

typedef struct tg_schedule {
    tg_decay decay;
    double lr;       /* at the end of the warm-up */
    int64_t warmup;  /* steps that rise linearly to lr: step 0 has lr / warmup */
    int64_t steps;   /* in all, warm-up included: for linear and cosine */
    double final_lr; /* from step `steps` on: for linear and cosine */
    int64_t period;  /* for step */
    double gamma;
} tg_schedule;

TG_API tg_schedule tg_schedule_default(double lr); /* constant, no warm-up */

/* The learning rate of step `step`, counted from 0. */
TG_API double tg_schedule_lr(const tg_schedule *schedule, int64_t step);

/* ---- clipping -------------------------------------------------------------------------------------------------------------------- */

/* torch.nn.utils.clip_grad_norm_: all gradients together, rows included, times min(1, max_norm / (norm + 1e-6)). Returns the
 * norm before. A norm that is not finite poisons the gradients with it; look at the result. Not for max_norm < 0 or NaN:
 * then nothing is done and NaN returned. */
TG_API double tg_clip_grad_norm(tg_params *params, double max_norm);

/* torch.nn.utils.clip_grad_value_: each value into [-limit,limit]. false for a limit < 0 or NaN. */
TG_API bool tg_clip_grad_value(tg_params *params, double limit);

#ifdef __cplusplus
}
#endif

#endif

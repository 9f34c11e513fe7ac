/* optim: gradients become steps. SGD, Adam and AdamW as torch.optim has them, clipping, learning-rate schedules.
 *
 *     tg_sgd_config config = tg_sgd_config_default();
 *     tg_optim *optim = tg_sgd_new(params, &config);
 *     each step:  tg_optim_zero_grad(optim); forward; tg_backward(tape, loss); tg_optim_step(optim);
 *
 * Everything that a step needs is allocated when the optimizer is made, so a step allocates nothing and cannot fail for
 * lack of memory; but for the first step after a table was resized (tapegrad/rows.h), when its buffers follow: rows that
 * were there all the time keep their state, new ones begin. A parameter without a gradient is skipped as in PyTorch:
 * neither its values nor its state move.
 * Gradients by rows (tapegrad/tensor.h) give the same bits as the same gradients made dense; plain SGD then touches
 * those rows alone. The bits do not depend on the number of threads.
 *
 * Errors. A _new that fails returns NULL and says why in the params' error, so that one check after building a model
 * and its optimizer is enough. Later mistakes are a sticky error of the optimizer: until it is cleared, steps return
 * false and change nothing. A NULL optimizer counts as one that could not be made: every call takes it.
 */
#ifndef TAPEGRAD_OPTIM_H
#define TAPEGRAD_OPTIM_H

#include <tapegrad/params.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_optim tg_optim;

/* ---- SGD: torch.optim.SGD ------------------------------------------------------------------------------------- */

/* g += weight_decay * x;  b = momentum * b + (1 - dampening) * g, at the first step b = g;
 * x -= lr * b, or with nesterov lr * (g + momentum * b), or without momentum lr * g. */
typedef struct tg_sgd_config {
    double lr;           /* >= 0; 1e-3 */
    double momentum;     /* >= 0; 0: none, and no buffer */
    double dampening;    /* 0 */
    double weight_decay; /* >= 0; 0 */
    bool nesterov;       /* needs momentum > 0 and dampening 0; false */
} tg_sgd_config;

TG_API tg_sgd_config tg_sgd_config_default(void);

/* An optimizer of all parameters that `params` has now; `params` must outlive it. `config` may be NULL for the default.
 * VALUE for an option that means nothing, MEMORY; or the error that `params` had already. Yours to free. */
TG_API tg_optim *tg_sgd_new(tg_params *params, const tg_sgd_config *config);

/* ---- Adam, AMSGrad, AdamW: torch.optim.Adam and AdamW ----------------------------------------------------------- */

/* m += (1 - beta1) (g - m);  v = beta2 * v + (1 - beta2) g^2;
 * x -= lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps), t the parameter's own count of steps.
 * AMSGrad (Reddi et al. 2018) divides by the largest v so far. Weight decay is g += weight_decay * x in Adam (Kingma
 * and Ba 2015), and x *= 1 - lr * weight_decay, before all else, in AdamW (Loshchilov and Hutter 2019). */
typedef struct tg_adam_config {
    double lr;           /* >= 0; 1e-3 */
    double beta1, beta2; /* in [0,1); 0.9 and 0.999 */
    double eps;          /* >= 0; 1e-8 */
    double weight_decay; /* >= 0; 0 in Adam, 1e-2 in AdamW */
    bool amsgrad;        /* false */
} tg_adam_config;

typedef tg_adam_config tg_adamw_config;

TG_API tg_adam_config tg_adam_config_default(void);
TG_API tg_adamw_config tg_adamw_config_default(void);

/* As tg_sgd_new. */
TG_API tg_optim *tg_adam_new(tg_params *params, const tg_adam_config *config);
TG_API tg_optim *tg_adamw_new(tg_params *params, const tg_adamw_config *config);

/* ---- SparseAdam: torch.optim.SparseAdam -------------------------------------------------------------------------- */

/* Adam for the rows that have a gradient; the others keep their moments and do not move, as if the step had not been.
 * So it costs what a batch touched, where Adam sweeps the table. m += (1 - beta1) (g - m); v += (1 - beta2) (g^2 -
 * v); x -= lr sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps). A dense gradient touches all rows. */
typedef struct tg_sparse_adam_config {
    double lr;           /* >= 0; 1e-3 */
    double beta1, beta2; /* in [0,1); 0.9 and 0.999 */
    double eps;          /* >= 0; 1e-8 */
} tg_sparse_adam_config;

TG_API tg_sparse_adam_config tg_sparse_adam_config_default(void);
TG_API tg_optim *tg_sparse_adam_new(tg_params *params, const tg_sparse_adam_config *config);

/* ---- Adagrad, RMSprop: torch.optim.Adagrad and RMSprop; Lion: Chen et al. 2023 ----------------------------------- */

/* g += weight_decay * x; s += g^2; x -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps). Without weight decay only
 * the rows that have a gradient are visited, with the same result. Duchi, Hazan and Singer 2011. */
typedef struct tg_adagrad_config {
    double lr;                  /* >= 0; 1e-2 */
    double lr_decay;            /* >= 0; 0 */
    double weight_decay;        /* >= 0; 0 */
    double initial_accumulator; /* what s starts as, >= 0; 0 */
    double eps;                 /* >= 0; 1e-10 */
} tg_adagrad_config;

TG_API tg_adagrad_config tg_adagrad_config_default(void);
TG_API tg_optim *tg_adagrad_new(tg_params *params, const tg_adagrad_config *config);

/* s = alpha * s + (1 - alpha) g^2; x -= lr * g / (sqrt(s) + eps); with momentum b = momentum * b + g / (..), x -= lr
 * * b; centered takes the variance for s. */
typedef struct tg_rmsprop_config {
    double lr;           /* >= 0; 1e-2 */
    double alpha;        /* in [0,1); 0.99 */
    double eps;          /* >= 0; 1e-8 */
    double weight_decay; /* >= 0; 0 */
    double momentum;     /* >= 0; 0 */
    bool centered;       /* false */
} tg_rmsprop_config;

TG_API tg_rmsprop_config tg_rmsprop_config_default(void);
TG_API tg_optim *tg_rmsprop_new(tg_params *params, const tg_rmsprop_config *config);

/* x *= 1 - lr * weight_decay;  x -= lr * sign(beta1 * m + (1 - beta1) g);  m = beta2 * m + (1 - beta2) g. */
typedef struct tg_lion_config {
    double lr;           /* >= 0; 1e-4 */
    double beta1, beta2; /* in [0,1); 0.9 and 0.99 */
    double weight_decay; /* >= 0; 0 */
} tg_lion_config;

TG_API tg_lion_config tg_lion_config_default(void);
TG_API tg_optim *tg_lion_new(tg_params *params, const tg_lion_config *config);

/* ---- steps ------------------------------------------------------------------------------------------------------- */

TG_API void tg_optim_free(tg_optim *optim); /* NULL is fine */

/* Drops the gradients of its parameters: back to none (zero_grad with set_to_none). */
TG_API void tg_optim_zero_grad(tg_optim *optim);

/* Updates every parameter that has a gradient. STATE when a parameter was added after the optimizer was made. */
TG_API bool tg_optim_step(tg_optim *optim);

TG_API const char *tg_optim_error(const tg_optim *optim); /* "" when there is none */
TG_API tg_code tg_optim_error_code(const tg_optim *optim);
TG_API void tg_optim_clear_error(tg_optim *optim);

/* ---- groups: parameters with a learning rate and a weight decay of their own ------------------------------------- */
/* All parameters begin in the group "default". The usual groups for a transformer:
 *     tg_optim_add_to_group(optim, "no_decay", "*.bias");
 *     tg_optim_set_weight_decay(optim, "no_decay", 0);
 */

/* Moves the parameters whose names match to the group, which is made, with the learning rate and the weight decay of
 * "default", when it is new. In `pattern` a * stands for any characters, also none; everything else for itself. RANGE
 * when nothing matches. */
TG_API bool tg_optim_add_to_group(tg_optim *optim, const char *group, const char *pattern);

/* Finite and >= 0 (VALUE). The first is for all groups, the others for one (RANGE for an unknown one). */
TG_API bool tg_optim_set_lr(tg_optim *optim, double lr);
TG_API bool tg_optim_set_group_lr(tg_optim *optim, const char *group, double lr);
TG_API bool tg_optim_set_weight_decay(tg_optim *optim, const char *group, double weight_decay);

TG_API double tg_optim_lr(const tg_optim *optim);                          /* of "default" */
TG_API double tg_optim_group_lr(const tg_optim *optim, const char *group); /* NaN for an unknown one */

/* ---- state, for saving and going on ------------------------------------------------------------------------------ */

/* One buffer of one parameter, with the parameter's shape and dtype; after a resize from the next step on. */
typedef struct tg_optim_state {
    const char *kind; /* as in torch's state_dict: "momentum_buffer"; "exp_avg", "exp_avg_sq", "max_exp_avg_sq" */
    const char *name; /* of the parameter: "tok_emb.weight" */
    tg_tensor *tensor;
} tg_optim_state;

TG_API int64_t tg_optim_state_count(const tg_optim *optim);
TG_API tg_optim_state tg_optim_state_at(const tg_optim *optim, int64_t index); /* nulls outside of [0,count) */

/* How often a parameter was updated: 0 means that its buffers were not used yet. -1 for an unknown name. Setting it is
 * for going on from a file: RANGE for an unknown name, VALUE below 0. */
TG_API int64_t tg_optim_steps(const tg_optim *optim, const char *name);
TG_API bool tg_optim_set_steps(tg_optim *optim, const char *name, int64_t steps);

/* "sgd", "adam", "adamw". */
TG_API const char *tg_optim_method_name(const tg_optim *optim);

/* ---- gradients between backward and step ------------------------------------------------------------------------- */
/* For every parameter, tied ones once; parameters without gradient do not count. Errors are the params' (VALUE). */

/* torch.nn.utils.clip_grad_norm_: the gradients are scaled by min(1, max_norm / (norm + 1e-6)). Returns the 2-norm of
 * all gradients together, from before; 0 when there are none. max_norm >= 0; infinity only measures. NaN after an
 * error. As in PyTorch a norm that is not finite makes gradients NaN. Gradients by rows are clipped like dense ones,
 * which torch 1.13 fails to do with sparse ones. */
TG_API double tg_clip_grad_norm(tg_params *params, double max_norm);

/* torch.nn.utils.clip_grad_value_: every entry into [-limit, limit], limit >= 0. */
TG_API bool tg_clip_grad_value(tg_params *params, double limit);

/* Every gradient times a finite factor: 1/n after n backward passes gives their mean. */
TG_API bool tg_scale_grad(tg_params *params, double factor);

/* ---- schedules: a learning rate for each step, from 0 ------------------------------------------------------------ */
/*     tg_optim_set_lr(optim, tg_schedule_lr(&schedule, step)); */

typedef enum tg_schedule_kind {
    TG_SCHEDULE_CONSTANT, /* lr */
    TG_SCHEDULE_COSINE, /* from lr to minimum_lr along half a cosine (Loshchilov and Hutter 2017; CosineAnnealingLR) */
    TG_SCHEDULE_LINEAR, /* from lr to minimum_lr along a line (LinearLR) */
    TG_SCHEDULE_STEP    /* lr times gamma for every step_size steps (StepLR) */
} tg_schedule_kind;

/* A linear warm-up, if any, goes first: step s < warmup_steps gives initial_lr + s (lr - initial_lr) / warmup_steps. */
typedef struct tg_schedule {
    tg_schedule_kind kind; /* TG_SCHEDULE_CONSTANT */
    double lr;             /* the largest; 1e-3 */
    double initial_lr;     /* the warm-up's first; 0 */
    double minimum_lr;     /* of cosine and linear, reached at total_steps and kept; 0 */
    int64_t warmup_steps;  /* 0 */
    int64_t total_steps;   /* of cosine and linear, the warm-up included; 0 */
    int64_t step_size;     /* of step; 1 */
    double gamma;          /* of step; 0.1 */
} tg_schedule;

TG_API tg_schedule tg_schedule_default(void);

/* NaN, which tg_optim_set_lr refuses, for a NULL, a negative step or fields that mean nothing: a warm-up below 0 steps
 * or not below total_steps, a step size below 1, a kind that is none. */
TG_API double tg_schedule_lr(const tg_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif

#endif

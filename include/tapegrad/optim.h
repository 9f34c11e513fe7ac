/* optim: optimizers, gradient clipping and learning-rate schedules.
 *
 * ```c
 * tg_sgd_config config = tg_sgd_config_default();
 * config.lr = 0.1;
 * tg_optim *sgd = tg_sgd_new(params, &config);
 * for (int step = 0; step < 10; step++) {
 *     tg_tape_reset(t);
 *     tg_tensor *loss = tg_mse_loss(t, tg_nn_linear_forward(t, &linear, x), y, TG_REDUCTION_MEAN);
 *     tg_optim_zero_grad(sgd);
 *     if (!tg_backward(t, loss, NULL) || !tg_optim_step(sgd)) {
 *         break;
 *     }
 * }
 * ```
 *
 * An optimizer allocates its memory when it is created, and a step allocates nothing. The exception is the first step
 * after a table was resized (tapegrad/rows.h), which resizes the moments: rows that remain keep their moments, and new
 * rows begin with initial ones. As in PyTorch, a parameter without a gradient is skipped: neither its values nor its
 * moments change.
 *
 * A gradient by rows gives the same bits as the same gradient in dense form, except in SparseAdam. If the method allows
 * it, a step visits only the listed rows. The bits do not depend on the number of threads.
 *
 * Errors are in the run of the params (tapegrad/run.h). A constructor that fails returns NULL. While the run has an
 * error, whatever has caused it, a step moves nothing.
 */
#ifndef TAPEGRAD_OPTIM_H
#define TAPEGRAD_OPTIM_H

#include <tapegrad/params.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_optim tg_optim;

/* ---- methods ----------------------------------------------------------------------------------------------------- */
/* Each constructor returns an optimizer of all parameters that `params` has now; `params` must outlive it. Yours to
 * free. NULL, with the error in the run: VALUE for an invalid option, MEMORY, or an earlier error of the run.
 *
 * In the formulas x is a parameter, g its gradient, and t the number of the parameter's step, from 1. The other
 * variables begin as zeros. */

/* torch.optim.SGD:
 *
 *     g = g + weight_decay * x
 *     b = momentum * b + (1 - dampening) * g, in the first step b = g
 *     x = x - lr * b; with nesterov x - lr * (g + momentum * b); without momentum x - lr * g
 */
typedef struct tg_sgd_config {
    /* private: tg_sgd_config_default() sets it */
    tg_config_mark mark;
    /* the learning rate, >= 0; default 1e-3 */
    double lr;
    /* >= 0; default 0 */
    double momentum;
    /* any finite number; default 0 */
    double dampening;
    /* >= 0; default 0 */
    double weight_decay;
    /* whether the momentum is Nesterov's, which needs a momentum above 0 and no dampening; default false */
    bool nesterov;
    /* whether rows without a gradient catch up when they are next used (see below); default false */
    bool deferred;
} tg_sgd_config;

TG_API tg_sgd_config tg_sgd_config_default(void);
TG_API tg_optim *tg_sgd_new(tg_params *params, const tg_sgd_config *config);

/* torch.optim.Adam (Kingma and Ba 2015):
 *
 *     g = g + weight_decay * x
 *     m = beta1 * m + (1 - beta1) * g
 *     v = beta2 * v + (1 - beta2) * g^2
 *     x = x - lr / (1 - beta1^t) * m / (sqrt(v / (1 - beta2^t)) + eps)
 *
 * With amsgrad (Reddi et al. 2018) the last line uses the largest v so far instead of v. */
typedef struct tg_adam_config {
    /* private: tg_adam_config_default() sets it */
    tg_config_mark mark;
    /* the learning rate, >= 0; default 1e-3 */
    double lr;
    /* in [0,1); default 0.9 and 0.999 */
    double beta1, beta2;
    /* >= 0; default 1e-8 */
    double eps;
    /* >= 0; default 0 */
    double weight_decay;
    /* default false */
    bool amsgrad;
    /* whether the weight decay is AdamW's (below); default false, and true of tg_adamw_config_default() */
    bool decoupled;
    /* whether rows without a gradient catch up when they are next used (see below); default false */
    bool deferred;
} tg_adam_config;

TG_API tg_adam_config tg_adam_config_default(void);
TG_API tg_optim *tg_adam_new(tg_params *params, const tg_adam_config *config);

/* torch.optim.AdamW (Loshchilov and Hutter 2019): Adam with another first line,
 *
 *     x = x * (1 - lr * weight_decay)
 *
 * Its config is Adam's; the default has `decoupled` and a weight decay of 1e-2. Each call takes what its own default
 * function returned, and then the field decides: tg_adam_new with `decoupled` set is AdamW (as torch.optim.Adam with
 * decoupled_weight_decay), tg_adamw_new without it Adam. */
typedef tg_adam_config tg_adamw_config;

TG_API tg_adamw_config tg_adamw_config_default(void);
TG_API tg_optim *tg_adamw_new(tg_params *params, const tg_adamw_config *config);

/* Deferred steps. SGD with momentum, Adam and AdamW move every row of a table in every step, even rows without a
 * gradient, because the moments and the weight decay go on. With `deferred` a step visits only the rows of a gradient
 * by rows and eight more, so it takes time for the batch's rows, and not for the table. The other rows miss the step. A
 * row that has missed the steps s+1 .. t applies all of them in one formula. A step j of SGD without a gradient is
 * linear in x and b, so the missed steps are a product of 2 x 2 matrices. With f_j = (1 - dampening) * weight_decay,
 * and weight_decay in the first step,
 *
 *     (x, b) = A_t ... A_{s+1} (x, b),   A_j = ( 1 - lr_j * f_j   -lr_j * momentum )
 *                                              ( f_j                       momentum )
 *
 * where lr_j is the learning rate of step j. With nesterov the first row is 1 - lr_j * (weight_decay + momentum * f_j)
 * and -lr_j * momentum^2. Adam and AdamW have, with the moments m and v after step s, and decay factors D_j, which are
 * 1 - lr_j * weight_decay for AdamW and 1 for Adam,
 *
 *     x = D_{s+1} ... D_t * x
 *         - sum_{j=s+1}^{t} D_{j+1} ... D_t * lr_j / (1 - beta1^j) * beta1^(j-s) * m
 *                           / (sqrt(v * beta2^(j-s) / (1 - beta2^j)) + eps)
 *     m = beta1^(t-s) * m
 *     v = beta2^(t-s) * v
 *
 * So the values are those of the same optimizer without `deferred`, up to rounding. The additional memory is 4 bytes
 * per row, and a log of 14 to 28 bytes per row, or of 8 to 16 for SGD. A wide row has as much for each 32 of its first
 * 256 values.
 *
 * A recorded tg_embedding or tg_embedding_bag applies the steps of the rows that its ids name, before it reads them.
 * While rows have missed steps, no other call may read or write the table, a view of it, or its moments: it reports
 * STATE and names tg_optim_flush. Examples are an embedding that is not recorded, tg_tensor_data (it returns NULL, with
 * the error in the run), saving, loading, tg_tensor_resize_rows, and tg_tensor_set_rows_frozen. So call
 * tg_optim_flush before an evaluation or a checkpoint. Its time is proportional to the size of the table.
 *
 * ```c
 * tg_nn_embedding table = tg_nn_embedding_make(params, "tok_emb", 1000, 64, NULL);
 * tg_adamw_config config = tg_adamw_config_default();
 * config.deferred = true;
 * tg_optim *adamw = tg_adamw_new(params, &config);
 * for (int step = 0; step < 10; step++) {
 *     tg_tape_reset(t);
 *     tg_tensor *loss = tg_sum_all(t, tg_nn_embedding_forward(t, &table, ids));
 *     tg_optim_zero_grad(adamw);
 *     if (!tg_backward(t, loss, NULL) || !tg_optim_step(adamw)) {
 *         break;
 *     }
 * }
 * tg_optim_flush(adamw);
 * tg_tensor_print(table.weight, stdout, NULL, NULL);
 * tg_optim_free(adamw);
 * ```
 *
 * Some steps cannot be deferred. They apply all missed steps, and then move all rows: a step with a dense gradient; a
 * step of Adam in a group with a weight decay above 0, where the decay is a part of the gradient; and a step whose
 * weight decay takes more than half of a value (AdamW: lr * weight_decay > 1/2) or adds to it (SGD with a dampening
 * above 1). Parameters other than tables are not affected. SGD with neither momentum nor weight decay moves no row
 * without a gradient, and defers nothing. The constructors report VALUE for a momentum of 1 or more, for amsgrad, for
 * eps 0, and unless beta1 / sqrt(beta2) <= 0.9975. They report STATE if a table has an alias: a tied head reads the
 * whole table in every step. */

/* torch.optim.SparseAdam: Adam for the rows that have a gradient. All other rows keep their values and moments. So a
 * step takes time only for the batch's rows, and not for the whole table as in Adam. A dense gradient updates all rows.
 *
 *     m = m + (1 - beta1) * (g - m)
 *     v = v + (1 - beta2) * (g^2 - v)
 *     x = x - lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps)
 */
typedef struct tg_sparse_adam_config {
    /* private: tg_sparse_adam_config_default() sets it */
    tg_config_mark mark;
    /* the learning rate, >= 0; default 1e-3 */
    double lr;
    /* in [0,1); default 0.9 and 0.999 */
    double beta1, beta2;
    /* >= 0; default 1e-8 */
    double eps;
} tg_sparse_adam_config;

TG_API tg_sparse_adam_config tg_sparse_adam_config_default(void);
TG_API tg_optim *tg_sparse_adam_new(tg_params *params, const tg_sparse_adam_config *config);

/* torch.optim.Adagrad (Duchi, Hazan and Singer 2011):
 *
 *     g = g + weight_decay * x
 *     s = s + g^2
 *     x = x - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)
 *
 * Without weight decay a step visits only the listed rows of a gradient by rows: the others would not change.
 *
 * With by_rows it is row-wise Adagrad, FBGEMM's EXACT_ROWWISE_ADAGRAD. A row of C values, one index on axis 0, has one
 * s, so the state of a table (V,C) is a tensor (V):
 *
 *     s = s + sum of g^2 over the row / C
 *
 * As in FBGEMM, weight decay then moves only the rows with a gradient. For a table that does not fit into memory see
 * tapegrad/row_file.h. */
typedef struct tg_adagrad_config {
    /* private: tg_adagrad_config_default() sets it */
    tg_config_mark mark;
    /* the learning rate, >= 0; default 1e-2 */
    double lr;
    /* >= 0; default 0 */
    double lr_decay;
    /* >= 0; default 0 */
    double weight_decay;
    /* the initial value of s, >= 0; default 0 */
    double initial_accumulator;
    /* >= 0; default 1e-10. FBGEMM's is 1e-8 */
    double eps;
    /* whether each row has one s; default false */
    bool by_rows;
} tg_adagrad_config;

TG_API tg_adagrad_config tg_adagrad_config_default(void);
TG_API tg_optim *tg_adagrad_new(tg_params *params, const tg_adagrad_config *config);

/* torch.optim.RMSprop (Tieleman and Hinton 2012):
 *
 *     g = g + weight_decay * x
 *     s = alpha * s + (1 - alpha) * g^2
 *     a = alpha * a + (1 - alpha) * g; centered only: the next lines have s - a^2, the variance, instead of s
 *     b = momentum * b + g / (sqrt(s) + eps)
 *     x = x - lr * b
 */
typedef struct tg_rmsprop_config {
    /* private: tg_rmsprop_config_default() sets it */
    tg_config_mark mark;
    /* the learning rate, >= 0; default 1e-2 */
    double lr;
    /* in [0,1); default 0.99 */
    double alpha;
    /* >= 0; default 1e-8 */
    double eps;
    /* >= 0; default 0 */
    double weight_decay;
    /* >= 0; default 0 */
    double momentum;
    /* default false */
    bool centered;
} tg_rmsprop_config;

TG_API tg_rmsprop_config tg_rmsprop_config_default(void);
TG_API tg_optim *tg_rmsprop_new(tg_params *params, const tg_rmsprop_config *config);

/* Lion (Chen et al. 2023):
 *
 *     x = x * (1 - lr * weight_decay)
 *     x = x - lr * sign(beta1 * m + (1 - beta1) * g)
 *     m = beta2 * m + (1 - beta2) * g
 */
typedef struct tg_lion_config {
    /* private: tg_lion_config_default() sets it */
    tg_config_mark mark;
    /* the learning rate, >= 0; default 1e-4 */
    double lr;
    /* in [0,1); default 0.9 and 0.99 */
    double beta1, beta2;
    /* >= 0; default 0 */
    double weight_decay;
} tg_lion_config;

TG_API tg_lion_config tg_lion_config_default(void);
TG_API tg_optim *tg_lion_new(tg_params *params, const tg_lion_config *config);

/* The factor of Muon's learning rate for a matrix (rows,columns). */
typedef enum tg_muon_adjust_lr {
    /* max(1, rows / columns)^(1/2) */
    TG_MUON_ADJUST_ORIGINAL,
    /* 0.2 max(rows, columns)^(1/2), with which the learning rate and weight decay of AdamW serve (Liu et al. 2025) */
    TG_MUON_ADJUST_MATCH_RMS_ADAMW
} tg_muon_adjust_lr;

/* torch.optim.Muon (Jordan et al. 2024), for matrices: the momentum, with all its singular values brought near 1,
 *
 *     b = momentum * b + (1 - momentum) * g
 *     u = momentum * b + (1 - momentum) * g          with nesterov, else b
 *     u = u / max(norm(u), eps)
 *     u = a * u + (b * G + c * G^2) u, G = u u^T     as often as `iterations`, with a, b, c = coefficients
 *     x = x * (1 - lr * weight_decay)
 *     x = x - lr * factor * u                        the factor of adjust_lr
 *
 * The iterations are in bf16 precision, as torch's are, also for f64. Every parameter must have two axes: SHAPE. Take
 * the matrices of a model with tg_params_new_part, and give its tables, biases and norms to another optimizer. A
 * gradient by rows is an error of tg_optim_step, STATE. */
typedef struct tg_muon_config {
    /* private: tg_muon_config_default() sets it */
    tg_config_mark mark;
    /* the learning rate, >= 0; default 1e-3 */
    double lr;
    /* >= 0; default 0.1 */
    double weight_decay;
    /* >= 0; default 0.95 */
    double momentum;
    /* default true */
    bool nesterov;
    /* a, b and c; default 3.4445, -4.7750, 2.0315 */
    double coefficients[3];
    /* >= 0; default 1e-7 */
    double eps;
    /* 0 to 99; torch's ns_steps; default 5 */
    int64_t iterations;
    /* default TG_MUON_ADJUST_ORIGINAL */
    tg_muon_adjust_lr adjust_lr;
} tg_muon_config;

TG_API tg_muon_config tg_muon_config_default(void);
TG_API tg_optim *tg_muon_new(tg_params *params, const tg_muon_config *config);

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Frees the optimizer, after tg_optim_flush. The parameters stay. Free it before its params. */
TG_API void tg_optim_free(tg_optim *optim);

/* Sets the gradients of its parameters to none: optimizer.zero_grad(). Does nothing while the run has an error. */
TG_API void tg_optim_zero_grad(tg_optim *optim);

/* Updates every parameter that has a gradient: optimizer.step(). After an error, also one of the loader, of an op or of
 * a backward, it returns false and has updated nothing. Its own errors are STATE if a parameter was added to the params
 * after the optimizer was created; an error of tg_tensor_resize_rows, usually MEMORY, if the moments of a resized table
 * cannot be resized. */
TG_API bool tg_optim_step(tg_optim *optim);

/* Applies the deferred steps of all tables (`deferred` of SGD, Adam and AdamW), so that their values may be read, even
 * while there is an error; does nothing for other optimizers. tg_optim_free does the same. If the error is that of a
 * getter of such a table, such as tg_tensor_data, this call clears it, and no other. Returns whether there is no error
 * then. */
TG_API bool tg_optim_flush(tg_optim *optim);

/* ---- groups ------------------------------------------------------------------------------------------------------ */
/* A group is a set of parameters with its own learning rate and weight decay. All parameters begin in the group
 * "default". A transformer usually has a second one:
 *
 * ```c
 * tg_optim_add_to_group(optim, "no_decay", "*.bias");
 * tg_optim_set_weight_decay(optim, "no_decay", 0);
 * ```
 */

/* Moves the parameters whose names match the pattern to a group; patterns are those of tg_params_new_part. A
 * group that does not exist is created with the learning rate and the weight decay of "default". RANGE if no name
 * matches; VALUE unless the group's name has 1 to 255 characters; MEMORY. */
TG_API bool tg_optim_add_to_group(tg_optim *optim, const char *group, const char *pattern);

/* Set the learning rate or the weight decay of a group, or of all groups if `group` is NULL. VALUE unless the number is
 * finite and >= 0; RANGE for an unknown group. SparseAdam ignores weight decay. */
TG_API bool tg_optim_set_lr(tg_optim *optim, const char *group, double lr);
TG_API bool tg_optim_set_weight_decay(tg_optim *optim, const char *group, double weight_decay);

/* Return the learning rate or the weight decay of a group, of "default" if `group` is NULL; 0 for an unknown group. */
TG_API double tg_optim_lr(const tg_optim *optim, const char *group);
TG_API double tg_optim_weight_decay(const tg_optim *optim, const char *group);

/* ---- state ------------------------------------------------------------------------------------------------------- */

/* One state tensor of one parameter, with the parameter's shape and dtype. If the parameter was resized, the next step
 * resizes this tensor, too. Everything is borrowed from the optimizer. To save and continue a training, save these
 * tensors and tg_optim_steps, and write them back with tg_tensor_copy_from and tg_optim_set_steps. */
typedef struct tg_optim_state {
    /* the key in torch's state_dict: "momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "sum", "square_avg",
     * "grad_avg" */
    const char *kind;
    /* the name of the parameter: "tok_emb.weight" */
    const char *name;
    tg_tensor *tensor;
} tg_optim_state;

/* Returns state tensor number `index`, from 0; NULLs for an index after the last one. */
TG_API tg_optim_state tg_optim_state_at(const tg_optim *optim, int64_t index);

/* Returns the number of steps that updated a parameter (t in the formulas); 0 for an unknown name. */
TG_API int64_t tg_optim_steps(const tg_optim *optim, const char *name);

/* Sets this number, to continue from a saved state. RANGE for an unknown name; VALUE for a negative number; STATE for a
 * table with missed steps. */
TG_API bool tg_optim_set_steps(tg_optim *optim, const char *name, int64_t steps);

/* ---- gradients, between backward and step ------------------------------------------------------------------------ */
/* These calls change all gradients of the params, dense and by rows, and those of tied parameters once. Errors are in
 * the run. */

/* Scales the gradients by min(1, max_norm / (norm + 1e-6)): torch.nn.utils.clip_grad_norm_. Returns the norm: the
 * 2-norm of all gradients together before the scaling, or 0 without gradients. If max_norm is INFINITY and the norm is
 * finite, the call only measures. If the norm is not finite, the gradients change as in PyTorch: all become NaN, except
 * that finite ones become 0 if the norm is infinite and max_norm is not. NaN and VALUE if max_norm is negative or NaN.
 * The norm is more exact than PyTorch's, because squares are added in double, not in float. For 124 million normal
 * floats, torch 2.13's norm was too small by 0.085 % in the shapes of GPT-2, and by 1.3 % in one tensor. */
TG_API double tg_clip_grad_norm(tg_params *params, double max_norm);

/* Clamps every value to [-limit,limit]: torch.nn.utils.clip_grad_value_. VALUE unless limit >= 0. */
TG_API bool tg_clip_grad_value(tg_params *params, double limit);

/* Multiplies every gradient by a factor: 1/n after n backward passes gives the mean of their gradients. VALUE
 * unless the factor is finite. */
TG_API bool tg_scale_grad(tg_params *params, double factor);

/* ---- schedules --------------------------------------------------------------------------------------------------- */
/*
 * ```c
 * tg_schedule_config schedule = tg_schedule_config_default();
 * schedule.kind = TG_SCHEDULE_COSINE;
 * schedule.total_steps = 100;
 * for (int64_t step = 0; step < 100; step++) {
 *     tg_optim_set_lr(optim, NULL, tg_schedule_lr(step, &schedule, &error));
 * }
 * ```
 */

/* The learning rate after the warm-up. */
typedef enum tg_schedule_kind {
    /* always lr */
    TG_SCHEDULE_CONSTANT,
    /* from lr to minimum_lr on half a cosine: Loshchilov and Hutter 2017, torch's CosineAnnealingLR */
    TG_SCHEDULE_COSINE,
    /* from lr to minimum_lr on a line: torch's LinearLR */
    TG_SCHEDULE_LINEAR,
    /* lr, multiplied by gamma every step_size steps: torch's StepLR */
    TG_SCHEDULE_STEP,
    /* from lr to minimum_lr on a power of a line: torch's PolynomialLR */
    TG_SCHEDULE_POLYNOMIAL,
    /* lr, and in the last decay_steps from lr to minimum_lr on a line */
    TG_SCHEDULE_TRAPEZOID,
    /* from initial_lr to lr and on to minimum_lr, each on half a cosine: Smith and Topin 2018, torch's OneCycleLR,
     * whose defaults are an initial_lr of lr / 25 and a minimum_lr of initial_lr / 10000; here both are 0 */
    TG_SCHEDULE_ONE_CYCLE
} tg_schedule_kind;

typedef struct tg_schedule_config {
    /* private: tg_schedule_config_default() sets it */
    tg_config_mark mark;
    /* default TG_SCHEDULE_CONSTANT */
    tg_schedule_kind kind;
    /* the learning rate after the warm-up, >= 0; default 1e-3 */
    double lr;
    /* a linear warm-up at the beginning: its first learning rate, >= 0, and its number of steps. Step s < warmup_steps
     * has initial_lr + s * (lr - initial_lr) / warmup_steps; default 0 and 0, no warm-up */
    double initial_lr;
    int64_t warmup_steps;
    /* not of constant and step: the learning rate from step total_steps on, and of one cycle from the step before on
     * unless warmup_part is 1, >= 0; default 0 */
    double minimum_lr;
    /* not of constant and step: the number of steps, those of the warm-up included; must be set, at least warmup_steps.
     * If both are equal, minimum_lr follows the warm-up at once. */
    int64_t total_steps;
    /* step: the number of steps with one learning rate, at least 1; default 1 */
    int64_t step_size;
    /* step: the factor, >= 0; default 0.1 */
    double gamma;
    /* polynomial: the exponent, >= 0; default 1. With 0 the rate is always lr */
    double power;
    /* trapezoid: the number of steps of its end, at most total_steps - warmup_steps; default 0 */
    int64_t decay_steps;
    /* one cycle: the part of total_steps in which the rate rises, in [0,1], instead of warmup_steps; default 0.3 */
    double warmup_part;
} tg_schedule_config;

TG_API tg_schedule_config tg_schedule_config_default(void);

/* Returns the learning rate of a step; the first step is 0. VALUE for a negative step or an invalid field, and if gamma
 * makes a rate that is not finite; it then returns NaN, which tg_optim_set_lr refuses. */
TG_API double tg_schedule_lr(int64_t step, const tg_schedule_config *config, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif

/* optim (private): what a method gives, and what all methods share. */
#ifndef TG_OPTIM_OPTIM_H
#define TG_OPTIM_OPTIM_H

#include <tapegrad/optim.h>

#define TG_OPTIM_STATES 3
#define TG_OPTIM_FACTORS 8

/* Updates `count` values: theta from gradient, and the state buffers, one array each. All are of the kernel's dtype and
 * do not overlap. `factors` are what the method's prepare left. Every value for itself: any cut gives the same bits. */
typedef void tg_optim_kernel(const double *factors, void *theta, const void *gradient, void *const *state,
                             int64_t count);

typedef union tg_optim_config {
    tg_sgd_config sgd;
    tg_adam_config adam;
    tg_sparse_adam_config sparse_adam;
    tg_adagrad_config adagrad;
    tg_rmsprop_config rmsprop;
    tg_lion_config lion;
} tg_optim_config;

/* What a step does to rows that a gradient by rows does not list. */
typedef enum tg_unlisted {
    TG_UNLISTED_MOVE,    /* a gradient of zero still moves them or their buffers: every row is swept */
    TG_UNLISTED_REST,    /* without weight decay it does not, so they need not be visited */
    TG_UNLISTED_ARE_LEFT /* they are not visited: that is the method */
} tg_unlisted;

typedef struct tg_optim_method {
    const char *name;
    const char *states[TG_OPTIM_STATES]; /* torch's names of the buffers */
    /* The numbers that are the same for all values of a parameter, at its step number `step` (the first is 1). */
    void (*prepare)(const tg_optim_config *config, double lr, double weight_decay, int64_t step, double *factors);
    tg_optim_kernel *update_f32, *update_f64;
    tg_unlisted unlisted; /* a method without buffers rests in any case */
} tg_optim_method;

/* `states`: how many buffers a parameter gets, the first of the method's. The config was checked. */
tg_optim *tg_optim_new(tg_params *params, const tg_optim_method *method, const tg_optim_config *config, int states,
                       double lr, double weight_decay);

/* For _new functions: an option that must be finite and >= 0. */
bool tg_optim_check_option(tg_params *params, const char *method, const char *option, double value);

bool tg_optim_check_beta(tg_params *params, const char *method, int number, double beta);

/* The two versions of Adam's loop, which only a test calls by name. */
tg_optim_kernel tg_adam_update_portable_f32, tg_adam_update_portable_f64, tg_adam_update_wide_f32,
    tg_adam_update_wide_f64;

#endif

/* optim (private): what a method gives, and what all methods share: parameters with their buffers (optim.c), the
 * loops of a step (step.c), groups (groups.c). */
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
    tg_unlisted unlisted;                             /* a method without buffers rests in any case */
    double (*initial)(const tg_optim_config *config); /* what buffers begin as; NULL: 0 */
} tg_optim_method;

typedef struct tg_slot {
    const char *name; /* the params' */
    tg_tensor *tensor;
    tg_tensor *state[TG_OPTIM_STATES];
    int64_t steps;
    size_t group;
    uint64_t seen; /* the version that the tensor's storage began with when the buffers last followed it, and... */
    int64_t rows;  /* ...how many rows it had */
} tg_slot;

#define TG_MAX_GROUP_NAME 255

typedef struct tg_group {
    char name[TG_MAX_GROUP_NAME + 1];
    double lr, weight_decay;
} tg_group;

struct tg_optim {
    tg_error error;
    tg_params *params;
    const tg_optim_method *method;
    tg_optim_kernel *kernel;
    tg_optim_config config;
    int states; /* buffers a parameter */
    double initial;
    size_t value_size;
    int64_t entries; /* of the params that were looked at */
    tg_slot *slots;
    int64_t count;
    tg_group *groups; /* the first is "default" */
    size_t group_count, group_capacity;
};

/* `states`: how many buffers a parameter gets, the first of the method's. The config was checked. */
tg_optim *tg_optim_new(tg_params *params, const tg_optim_method *method, const tg_optim_config *config, int states,
                       double lr, double weight_decay);

/* False when out of memory. The name fits. */
bool tg_optim_new_group(tg_optim *optim, const char *name, double lr, double weight_decay);

/* For _new functions: an option that must be finite and >= 0. */
bool tg_optim_check_option(tg_params *params, const char *method, const char *option, double value);

bool tg_optim_check_beta(tg_params *params, const char *method, int number, double beta);

/* The two versions of Adam's loop, which only a test calls by name. */
tg_optim_kernel tg_adam_update_portable_f32, tg_adam_update_portable_f64, tg_adam_update_wide_f32,
    tg_adam_update_wide_f64;

#endif

/* optim (private): the interface of a method, and the parts that all methods share: parameters with their state
 * (optim.c), the loops of a step (step.c), and groups (groups.c). */
#ifndef TG_OPTIM_OPTIM_H
#define TG_OPTIM_OPTIM_H

#include <tapegrad/optim.h>

#include "base/level.h"
#include "params/params.h"

#define TG_OPTIM_STATES 3

typedef union tg_optim_config {
    tg_sgd_config sgd;
    tg_adam_config adam;
    tg_sparse_adam_config sparse_adam;
    tg_adagrad_config adagrad;
    tg_rmsprop_config rmsprop;
    tg_lion_config lion;
    tg_muon_config muon;
} tg_optim_config;

/* What one parameter's step needs of the config, of its group, and of the number of the step. */
typedef struct tg_optim_factors {
    const tg_optim_config *config;
    double lr, weight_decay;
    /* set by the method's prepare or redirect, if it has one and uses them */
    double step_size, decay_factor, root_correction, gradient_factor;
    int64_t width; /* the number of values of a row */
} tg_optim_factors;

/* Updates `count` values of theta from the gradient, and the state arrays. All arrays have the kernel's dtype and do
 * not overlap. Each value, or with state by rows each row, is computed independently, so an array may be cut between
 * them: the bits are the same. */
typedef void tg_optim_kernel(const tg_optim_factors *factors, void *theta, const void *gradient, void *const *state,
                             int64_t count);

/* Declares a kernel for both dtypes at each level; initializes the kernels of a method. */
#define TG_DECLARE_UPDATE(name) tg_optim_kernel TG_EACH_LEVEL(avx512, name##_f32), TG_EACH_LEVEL(avx2, name##_f64)
#define TG_UPDATES(name) \
    .update_f32 = {TG_EACH_LEVEL(avx512, name##_f32)}, .update_f64 = {TG_EACH_LEVEL(avx2, name##_f64)}

/* The effect of a step on the rows that a gradient by rows does not list. */
typedef enum tg_unlisted {
    TG_UNLISTED_MOVE, /* all rows are visited, because a gradient of zero changes the row or its state */
    TG_UNLISTED_REST, /* not visited without weight decay, because a gradient of zero then changes nothing */
    TG_UNLISTED_SKIP  /* never visited */
} tg_unlisted;

struct tg_slot;

typedef struct tg_optim_method {
    const char *name;
    const char *states[TG_OPTIM_STATES]; /* torch's names of the state tensors */
    bool states_by_rows;                 /* whether these have one value per row, an index on axis 0 */
    /* changes the factors of a parameter for its step number `step`, counted from 1; may be NULL */
    void (*prepare)(tg_optim_factors *factors, int64_t step);
    tg_optim_kernel *update_f32[TG_LEVELS], *update_f64[TG_LEVELS];
    tg_unlisted unlisted;                             /* a method without state counts as TG_UNLISTED_REST */
    double (*initial)(const tg_optim_config *config); /* the initial value of the state; NULL: 0 */
    /* prepares to defer steps of a new slot, if the config asks for it; false when memory is exhausted; may be NULL */
    bool (*defer)(tg_optim *optim, struct tg_slot *slot);
    /* of a method that updates a parameter as a whole: begin prepares the working memory for a step of all of them, and
     * fails before one is changed. Then, for each, the direction kernels write one value for each of the gradient to
     * it, redirect changes these, and the update kernels get them as the gradient. */
    bool (*begin)(tg_optim *optim);
    tg_optim_kernel *direction_f32[TG_LEVELS], *direction_f64[TG_LEVELS];
    void (*redirect)(tg_optim *optim, const struct tg_slot *slot, tg_optim_factors *factors);
} tg_optim_method;

/* The deferred steps of a table (deferred.h). */
typedef struct tg_deferred tg_deferred;

/* One parameter. */
typedef struct tg_slot {
    const char *name; /* owned by the params */
    tg_tensor *tensor;
    tg_tensor *state[TG_OPTIM_STATES];
    int64_t steps;
    size_t group;
    tg_deferred *deferred; /* NULL: no step is deferred */
} tg_slot;

#define TG_MAX_GROUP_NAME 255

typedef struct tg_group {
    char name[TG_MAX_GROUP_NAME + 1];
    double lr, weight_decay;
} tg_group;

struct tg_optim {
    tg_run *run; /* that of the params, kept: they may be freed first */
    tg_params *params;
    const tg_optim_method *method;
    tg_optim_config config;
    int states; /* the number of state tensors per parameter */
    double initial;
    size_t value_size;
    /* the number of entries of the params when the optimizer was last checked (optim.c), and of their changes when it
     * was created */
    int64_t entries, changes;
    tg_slot *slots;
    int64_t count;
    tg_group *groups; /* the first is "default" */
    size_t group_count, group_capacity;
    /* from names to slots and to groups: tg_slots_reserve */
    int32_t *slot_of_name, *group_of_name;
    size_t slot_name_places, group_name_places;
    void *working_memory; /* of the method's begin */
    size_t working_bytes;
};

/* Returns the slot of a parameter, or NULL. */
tg_slot *tg_optim_find_slot(const tg_optim *optim, const char *name);

/* Returns an optimizer with the first `states` state tensors of the method for each parameter. The config must have
 * been checked. NULL when memory is exhausted, with the error in the params. */
tg_optim *tg_optim_new(tg_params *params, const tg_optim_method *method, const tg_optim_config *config, int states,
                       double lr, double weight_decay);

/* Returns whether the optimizer exists and its run has no error. */
static inline bool tg_optim_is_usable(const tg_optim *optim)
{
    return optim && tg_run_is_clear(optim->run);
}

/* Returns whether the parameter was resized but its state tensors were not. */
bool tg_slot_is_behind(const tg_optim *optim, const tg_slot *slot);

/* Checks that no parameter was added to the params, replaced or removed after the optimizer was created. */
bool tg_optim_is_complete(tg_optim *optim, const char *call, tg_error *error);

/* Adds a group, whose name must not be too long. Returns false when memory is exhausted. */
bool tg_optim_new_group(tg_optim *optim, const char *name, double lr, double weight_decay);

/* Checks an option: VALUE unless it is finite and at least 0. */
bool tg_check_option(const char *call, const char *option, double value, tg_error *error);

/* Check an option of a constructor: the first must be finite and >= 0, the second in [0,1). */
bool tg_optim_check_option(tg_params *params, const char *method, const char *option, double value);
bool tg_optim_check_fraction(tg_params *params, const char *method, const char *option, double value);

TG_DECLARE_UPDATE(tg_adam_update);

#endif

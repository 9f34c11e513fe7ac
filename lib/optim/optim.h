/* optim (private): what a method is.
 *
 * A method is a constant of a name, how many states it keeps for each value, and a function that updates a run of values.
 * optim.c owns everything else: parameters, groups, step counts, rows, threads. A new optimizer is a file with a kernel and
 * a constant.
 */
#ifndef TG_OPTIM_OPTIM_H
#define TG_OPTIM_OPTIM_H

#include <tapegrad/optim.h>

#include "tensor/tensor.h"

#define TG_MAX_STATES 3

/* The options of all methods: each reads its own. */
typedef struct tg_options {
    double lr, weight_decay;
    double momentum, dampening;
    bool nesterov;
    double beta1, beta2, eps;
    bool amsgrad, decoupled;
} tg_options;

/* One run of values of one parameter. The arrays hold the parameter's dtype. */
typedef struct tg_update {
    const tg_options *options;
    int64_t step; /* of this parameter, from 1 */
    int64_t count;
    void *theta;
    const void *gradient; /* never NULL: zeros where there is none */
    void *state[TG_MAX_STATES];
} tg_update;

typedef struct tg_method {
    const char *name;
    void (*f32)(const tg_update *update);
    void (*f64)(const tg_update *update);
} tg_method;

/* `states` arrays of zeros for each parameter. `sparse`: a gradient of zero changes nothing, so that rows without one can be
 * left out. */
tg_optim *tg_optim_make(tg_params *params, const tg_method *method, const tg_options *options, int states, bool sparse);

/* False, with the params' error, unless `ok`: "<method>: <option> <value>; allowed is <allowed>". */
bool tg_optim_check(tg_params *params, const char *method, const char *option, double value, bool ok,
                    const char *allowed);

#define TG_DECLARE_UPDATE(name)                                                                                        \
    void name##_f32(const tg_update *update);                                                                          \
    void name##_f64(const tg_update *update)

#endif

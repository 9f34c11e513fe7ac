/* optim: what an optimizer is made of: each parameter with its buffers. A method (sgd.c, adam.c) is a constant
 * structure: the names of its buffers, a function that computes the factors of one parameter's step, and a kernel
 * over a run of values. Everything is allocated by tg_optim_new.
 */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "params/params.h"
#include "tensor/tensor.h"

/* ---- making ---- */

bool tg_optim_check_option(tg_params *params, const char *method, const char *option, double value)
{
    return (isfinite(value) && value >= 0) ||
           tg_params_fail(params, TG_ERROR_VALUE, "%s: %s %g; allowed are finite numbers >= 0", method, option, value);
}

bool tg_optim_check_beta(tg_params *params, const char *method, int number, double beta)
{
    return (beta >= 0 && beta < 1) ||
           tg_params_fail(params, TG_ERROR_VALUE, "%s: beta%d %g is outside [0,1)", method, number, beta);
}

static bool add_slot(tg_optim *optim, tg_entry entry)
{
    tg_slot *s = &optim->slots[optim->count++];
    s->name = entry.name;
    s->tensor = entry.tensor;
    s->seen = entry.tensor->storage->born;
    s->rows = entry.tensor->rank > 0 ? entry.tensor->shape[0] : 1;
    for (int k = 0; k < optim->states; k++) {
        s->state[k] = tg_tensor_new_full(tg_dtype_of(entry.tensor), tg_shape_of(entry.tensor), optim->initial, NULL);
        if (!s->state[k]) {
            return false;
        }
    }
    return true;
}

static bool add_slots(tg_optim *optim)
{
    optim->entries = tg_params_count(optim->params);
    optim->slots = tg_alloc_zeroed((size_t)optim->entries, sizeof *optim->slots);
    for (int64_t i = 0; i < optim->entries; i++) {
        tg_entry entry = tg_params_at(optim->params, i);
        if (!optim->slots || (entry.kind == TG_ENTRY_PARAMETER && !add_slot(optim, entry))) {
            return false;
        }
    }
    return true;
}

tg_optim *tg_optim_new(tg_params *params, const tg_optim_method *method, const tg_optim_config *config, int states,
                       double lr, double weight_decay)
{
    if (tg_params_error_code(params) != TG_OK) {
        return NULL;
    }
    tg_optim *optim = tg_alloc_zeroed(1, sizeof *optim);
    if (optim) {
        optim->params = params;
        optim->method = method;
        optim->kernel = tg_params_dtype(params) == TG_F32 ? method->update_f32 : method->update_f64;
        optim->config = *config;
        optim->states = states;
        optim->initial = method->initial ? method->initial(config) : 0;
        optim->value_size = tg_dtype_size(tg_params_dtype(params));
    }
    if (!optim || !tg_optim_new_group(optim, "default", lr, weight_decay) || !add_slots(optim)) {
        tg_optim_free(optim);
        tg_params_fail(params, TG_ERROR_MEMORY, "%s: out of memory for %d buffers of %lld values", method->name, states,
                       (long long)tg_params_values(params));
        return NULL;
    }
    return optim;
}

void tg_optim_free(tg_optim *optim)
{
    if (!optim) {
        return;
    }
    for (int64_t i = 0; i < optim->count; i++) {
        for (int k = 0; k < optim->states; k++) {
            tg_release(optim->slots[i].state[k]);
        }
    }
    tg_free(optim->slots);
    tg_free(optim->groups);
    tg_free(optim);
}

/* ---- errors ---- */

const char *tg_optim_error(const tg_optim *optim)
{
    return optim ? optim->error.text : "the optimizer is NULL: the params' error says why it could not be made";
}

tg_code tg_optim_error_code(const tg_optim *optim)
{
    return optim ? optim->error.code : TG_ERROR_STATE;
}

void tg_optim_clear_error(tg_optim *optim)
{
    if (optim) {
        tg_error_clear(&optim->error);
    }
}

/* ---- state ---- */

int64_t tg_optim_state_count(const tg_optim *optim)
{
    return optim ? optim->count * optim->states : 0;
}

tg_optim_state tg_optim_state_at(const tg_optim *optim, int64_t index)
{
    if (index < 0 || index >= tg_optim_state_count(optim)) {
        return (tg_optim_state){NULL, NULL, NULL};
    }
    const tg_slot *s = &optim->slots[index / optim->states];
    int64_t kind = index % optim->states;
    return (tg_optim_state){optim->method->states[kind], s->name, s->state[kind]};
}

static tg_slot *find_slot(const tg_optim *optim, const char *name)
{
    for (int64_t i = 0; optim && name && i < optim->count; i++) {
        if (strcmp(optim->slots[i].name, name) == 0) {
            return &optim->slots[i];
        }
    }
    return NULL;
}

int64_t tg_optim_steps(const tg_optim *optim, const char *name)
{
    const tg_slot *found = find_slot(optim, name);
    return found ? found->steps : -1;
}

bool tg_optim_set_steps(tg_optim *optim, const char *name, int64_t steps)
{
    if (!optim) {
        return false;
    }
    tg_slot *found = find_slot(optim, name);
    if (!found) {
        return tg_error_set(&optim->error, TG_ERROR_RANGE, "optim_set_steps: there is no parameter '%.200s'",
                            name ? name : "(null)");
    }
    if (steps < 0) {
        return tg_error_set(&optim->error, TG_ERROR_VALUE, "optim_set_steps: %lld steps of '%s'; allowed are 0 or more",
                            (long long)steps, name);
    }
    found->steps = steps;
    return true;
}

const char *tg_optim_method_name(const tg_optim *optim)
{
    return optim ? optim->method->name : "none";
}

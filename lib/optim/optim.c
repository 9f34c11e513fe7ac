/* optim: constructor and state of optimizers. An optimizer holds each parameter with its state tensors. A
 * method (sgd.c, adam.c, ...) is a constant structure: the names of its state tensors, a function that computes the
 * factors of one parameter's step, and a kernel that updates an array of values.
 */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "optim/deferred.h"

/* ---- constructor ---- */

bool tg_check_option(const char *call, const char *option, double value, tg_error *error)
{
    return (isfinite(value) && value >= 0) ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: %s %g; it must be finite and at least 0", call, option, value);
}

bool tg_optim_check_option(tg_params *params, const char *method, const char *option, double value)
{
    return tg_check_option(method, option, value, tg_params_run(params)->error);
}

bool tg_optim_check_fraction(tg_params *params, const char *method, const char *option, double value)
{
    return (value >= 0 && value < 1) ||
           tg_params_fail(params, TG_ERROR_VALUE, "%s: %s %g is outside [0,1)", method, option, value);
}

/* Returns a new state tensor; NULL when memory is exhausted. */
static tg_tensor *new_state(const tg_optim *optim, const tg_tensor *parameter)
{
    tg_dtype dtype = tg_dtype_of(parameter);
    tg_shape shape = tg_shape_of(parameter);
    shape.rank = optim->method->states_by_rows && shape.rank > 1 ? 1 : shape.rank;
    /* If other rows than those of gradients are never visited, memory is taken for these alone, and for a frozen
     * parameter for none. Otherwise all is used sooner or later, and steps should not wait for the system's pages. */
    bool is_taken_late = optim->method->unlisted == TG_UNLISTED_SKIP || !tg_tensor_requires_grad(parameter);
    tg_tensor *state = optim->initial == 0 && is_taken_late ? tg_tensor_new(dtype, shape, NULL)
                                                            : tg_tensor_new_full(dtype, shape, optim->initial, NULL);
    if (!state || !tg_row_state_reserve(optim->method->name, state, NULL)) {
        tg_release(state);
        return NULL;
    }
    state->rows->follower_text = "the tensor is the state of an optimizer; resize the parameter";
    return state;
}

static bool add_slot(tg_optim *optim, tg_entry entry)
{
    if (optim->states > 0 &&
        !tg_follower_add(entry.tensor, "the table was resized before, and an optimizer that holds it has made no step "
                                       "since; call tg_optim_step first")) {
        return false;
    }
    tg_slot *slot = &optim->slots[optim->count++];
    slot->name = entry.name;
    slot->tensor = tg_retain(entry.tensor);
    for (int k = 0; k < optim->states; k++) {
        slot->state[k] = new_state(optim, entry.tensor);
        if (!slot->state[k]) {
            return false;
        }
    }
    return !optim->method->defer || optim->method->defer(optim, slot);
}

/* Returns the place of a name in the table of slots, or the empty place for it. */
static size_t place_of(const tg_optim *optim, const char *name)
{
    size_t last = optim->slot_name_places - 1, at = tg_hash_bytes(name, strlen(name)) & last;
    while (optim->slot_of_name[at] >= 0 && strcmp(optim->slots[optim->slot_of_name[at]].name, name) != 0) {
        at = (at + 1) & last;
    }
    return at;
}

static bool index_slots(tg_optim *optim)
{
    bool is_new;
    if (!tg_slots_reserve(&optim->slot_of_name, &optim->slot_name_places, (size_t)optim->count, &is_new)) {
        return false;
    }
    for (int64_t i = 0; i < optim->count; i++) {
        optim->slot_of_name[place_of(optim, optim->slots[i].name)] = (int32_t)i;
    }
    return true;
}

static bool add_slots(tg_optim *optim)
{
    optim->entries = tg_params_count(optim->params);
    optim->changes = tg_params_changes(optim->params);
    optim->slots = tg_alloc_zeroed((uint64_t)optim->entries, sizeof *optim->slots);
    for (int64_t i = 0; i < optim->entries; i++) {
        tg_entry entry = tg_params_at(optim->params, i);
        bool is_trainable = entry.kind == TG_ENTRY_PARAMETER && entry.tensor->dtype != TG_BF16;
        if (!optim->slots || (is_trainable && !add_slot(optim, entry))) {
            return false;
        }
    }
    return index_slots(optim);
}

tg_optim *tg_optim_new(tg_params *params, const tg_optim_method *method, const tg_optim_config *config, int states,
                       double lr, double weight_decay)
{
    tg_optim *optim = tg_alloc_zeroed(1, sizeof *optim);
    if (optim) {
        optim->params = params;
        optim->run = tg_run_keep(tg_params_run(params));
        optim->method = method;
        optim->config = *config;
        optim->states = states;
        optim->initial = method->initial ? method->initial(config) : 0;
        optim->value_size = tg_size_of(tg_params_dtype(params));
    }
    if (!optim || !tg_optim_new_group(optim, "default", lr, weight_decay) || !add_slots(optim)) {
        tg_optim_free(optim);
        tg_params_fail(params, TG_ERROR_MEMORY, "%s: out of memory for %d state tensors of %lld values", method->name,
                       states, (long long)tg_params_value_count(params));
        return NULL;
    }
    return optim;
}

bool tg_slot_is_behind(const tg_optim *optim, const tg_slot *slot)
{
    return optim->states > 0 && slot->state[0] && slot->tensor->rank > 0 &&
           slot->state[0]->shape[0] != slot->tensor->shape[0];
}

bool tg_optim_is_complete(tg_optim *optim, const char *call, tg_error *error)
{
    if (optim->changes != tg_params_changes(optim->params)) {
        return tg_error_set(error, TG_ERROR_STATE,
                            "%s: parameters were replaced or removed after the optimizer was created; create a new one",
                            call);
    }
    for (; optim->entries < tg_params_count(optim->params); optim->entries++) {
        tg_entry entry = tg_params_at(optim->params, optim->entries);
        if (entry.kind == TG_ENTRY_PARAMETER) {
            return tg_error_set(error, TG_ERROR_STATE,
                                "%s: the parameter '%s' was added after the optimizer was created; create a new one",
                                call, entry.name);
        }
    }
    return true;
}

void tg_optim_free(tg_optim *optim)
{
    if (!optim) {
        return;
    }
    for (int64_t i = 0; i < optim->count; i++) {
        tg_slot *slot = &optim->slots[i];
        tg_deferred_flush(slot->deferred);
        tg_deferred_free(slot->deferred);
        if (optim->states > 0) {
            tg_follower_remove(slot->tensor, tg_slot_is_behind(optim, slot));
        }
        for (int k = 0; k < optim->states; k++) {
            tg_release(slot->state[k]);
        }
        tg_release(slot->tensor);
    }
    tg_free(optim->slots);
    tg_free(optim->groups);
    tg_free(optim->slot_of_name);
    tg_free(optim->group_of_name);
    tg_free(optim->working_memory);
    tg_run_free(optim->run);
    tg_free(optim);
}

/* ---- state ---- */

tg_optim_state tg_optim_state_at(const tg_optim *optim, int64_t index)
{
    if (!optim || index < 0 || index >= optim->count * optim->states) {
        return (tg_optim_state){NULL, NULL, NULL};
    }
    const tg_slot *slot = &optim->slots[index / optim->states];
    int64_t kind = index % optim->states;
    return (tg_optim_state){optim->method->states[kind], slot->name, slot->state[kind]};
}

tg_slot *tg_optim_find_slot(const tg_optim *optim, const char *name)
{
    int32_t found = optim && name ? optim->slot_of_name[place_of(optim, name)] : -1;
    return found < 0 ? NULL : &optim->slots[found];
}

int64_t tg_optim_steps(const tg_optim *optim, const char *name)
{
    const tg_slot *slot = tg_optim_find_slot(optim, name);
    return slot ? slot->steps : 0;
}

bool tg_optim_set_steps(tg_optim *optim, const char *name, int64_t steps)
{
    static const char call[] = "optim_set_steps";
    if (!tg_optim_is_usable(optim)) {
        return false;
    }
    if (!name) {
        return tg_error_set(optim->run->error, TG_ERROR_STATE, "%s: the name is NULL", call);
    }
    tg_slot *slot = tg_optim_find_slot(optim, name);
    if (!slot) {
        return tg_error_set(optim->run->error, TG_ERROR_RANGE, "%s: no parameter '%.*s' exists", call,
                            TG_CUT(name, 200));
    }
    if (steps < 0) {
        return tg_error_set(optim->run->error, TG_ERROR_VALUE, "%s: %lld steps of '%s'; it must be 0 or more", call,
                            (long long)steps, name);
    }
    if (slot->tensor->storage->guard) {
        return tg_tensor_refuse(call, NULL, slot->tensor, optim->run->error);
    }
    slot->steps = steps;
    return true;
}

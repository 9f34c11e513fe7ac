/* optim: what all methods share: parameters with their buffers, groups, and the loops of a step.
 *
 * A method (sgd.c, adam.c) is a constant structure: the names of its buffers, a function that computes the factors of
 * one parameter's step, and a kernel over a run of values. Everything is allocated by tg_optim_new.
 *
 * Gradients by rows give the dense result without a dense gradient. Some methods, without weight decay, do not move where
 * the gradient is zero, and then only the listed rows are visited (tg_unlisted). Otherwise every row is swept, since
 * moments and decay go on without a gradient: runs of rows that have none read zeros from one small array, which stays
 * in the cache.
 *
 * Parameters are counted when the optimizer is made and looked at again only when the params have grown since.
 */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "params/params.h"
#include "tensor/tensor.h"

#define MAX_GROUP_NAME 255

typedef struct slot {
    const char *name; /* the params' */
    tg_tensor *tensor;
    tg_tensor *state[TG_OPTIM_STATES];
    int64_t steps;
    size_t group;
} slot;

typedef struct group {
    char name[MAX_GROUP_NAME + 1];
    double lr, weight_decay;
} group;

struct tg_optim {
    tg_error error;
    tg_params *params;
    const tg_optim_method *method;
    tg_optim_kernel *kernel;
    tg_optim_config config;
    int states; /* buffers a parameter */
    size_t value_size;
    int64_t entries; /* of the params that were looked at */
    slot *slots;
    int64_t count;
    group *groups; /* the first is "default" */
    size_t group_count, group_capacity;
};

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

static bool add_group(tg_optim *optim, const char *name, double lr, double weight_decay)
{
    if (!tg_grow((void **)&optim->groups, &optim->group_capacity, optim->group_count, optim->group_count + 1,
                 sizeof *optim->groups)) {
        return false;
    }
    group *added = &optim->groups[optim->group_count++];
    memset(added, 0, sizeof *added);
    memcpy(added->name, name, strlen(name));
    added->lr = lr;
    added->weight_decay = weight_decay;
    return true;
}

static bool add_slot(tg_optim *optim, tg_entry entry)
{
    slot *s = &optim->slots[optim->count++];
    s->name = entry.name;
    s->tensor = entry.tensor;
    for (int k = 0; k < optim->states; k++) {
        s->state[k] = tg_tensor_new(tg_dtype_of(entry.tensor), tg_shape_of(entry.tensor), NULL);
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
        optim->value_size = tg_dtype_size(tg_params_dtype(params));
    }
    if (!optim || !add_group(optim, "default", lr, weight_decay) || !add_slots(optim)) {
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

/* ---- steps ---- */

void tg_optim_zero_grad(tg_optim *optim)
{
    for (int64_t i = 0; optim && i < optim->count; i++) {
        tg_zero_grad(optim->slots[i].tensor);
    }
}

/* One parameter in one step. Places are counted in values. */
typedef struct sweep {
    tg_optim_kernel *kernel;
    double factors[TG_OPTIM_FACTORS];
    size_t size; /* bytes of a value */
    char *theta, *state[TG_OPTIM_STATES];
    const char *gradient; /* dense values, or those of the rows */
    int64_t width;
    const int32_t *ids, *slot;
} sweep;

static void update(const sweep *s, int64_t place, const void *gradient, int64_t count)
{
    void *state[TG_OPTIM_STATES];
    size_t bytes = (size_t)place * s->size;
    for (int k = 0; k < TG_OPTIM_STATES; k++) {
        state[k] = s->state[k] ? s->state[k] + bytes : NULL;
    }
    s->kernel(s->factors, s->theta + bytes, gradient, state, count);
}

static void update_dense(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    update(s, begin, s->gradient + (size_t)begin * s->size, end - begin);
}

static void update_listed_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    size_t row = (size_t)s->width * s->size;
    for (int64_t i = begin; i < end; i++) {
        update(s, s->ids[i] * s->width, s->gradient + (size_t)i * row, s->width);
    }
}

static void update_without_gradient(const sweep *s, int64_t place, int64_t count)
{
    static const double zeros[512];
    const int64_t most = (int64_t)(sizeof zeros / s->size);
    for (int64_t done = 0; done < count; done += most) {
        update(s, place + done, zeros, count - done < most ? count - done : most);
    }
}

static void update_all_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    size_t row = (size_t)s->width * s->size;
    int64_t pending = begin; /* rows pending .. id - 1 have no gradient and wait */
    for (int64_t id = begin; id < end; id++) {
        if (s->slot[id] >= 0) {
            update_without_gradient(s, pending * s->width, (id - pending) * s->width);
            update(s, id * s->width, s->gradient + (size_t)s->slot[id] * row, s->width);
            pending = id + 1;
        }
    }
    update_without_gradient(s, pending * s->width, (end - pending) * s->width);
}

static void step_slot(tg_optim *optim, slot *parameter)
{
    tg_tensor *x = parameter->tensor;
    const tg_gradient *gradient = x->gradient;
    if (!gradient || gradient->kind == TG_GRADIENT_NONE) {
        return;
    }
    const group *g = &optim->groups[parameter->group];
    sweep s = {.kernel = optim->kernel, .size = optim->value_size, .theta = tg_values(x)};
    for (int k = 0; k < optim->states; k++) {
        s.state[k] = tg_values(parameter->state[k]);
    }
    optim->method->prepare(&optim->config, g->lr, g->weight_decay, ++parameter->steps, s.factors);
    if (gradient->kind == TG_GRADIENT_DENSE) {
        s.gradient = tg_values(gradient->dense);
        tg_parallel_for(x->count, TG_GRAIN, update_dense, &s);
    } else {
        s.gradient = gradient->values;
        s.width = x->shape[1];
        s.ids = gradient->ids;
        s.slot = gradient->slot;
        tg_unlisted unlisted = optim->method->unlisted;
        bool rests = optim->states == 0 || unlisted == TG_UNLISTED_REST;
        bool listed_only = unlisted == TG_UNLISTED_ARE_LEFT || (rests && g->weight_decay == 0);
        tg_parallel_for(listed_only ? gradient->count : x->shape[0], s.width > 0 ? 1 + TG_GRAIN / s.width : TG_GRAIN,
                        listed_only ? update_listed_rows : update_all_rows, &s);
    }
    tg_touch(x);
    for (int k = 0; k < optim->states; k++) {
        tg_touch(parameter->state[k]);
    }
}

/* Whether the optimizer has all parameters that the params have. */
static bool is_complete(tg_optim *optim)
{
    for (; optim->entries < tg_params_count(optim->params); optim->entries++) {
        tg_entry entry = tg_params_at(optim->params, optim->entries);
        if (entry.kind == TG_ENTRY_PARAMETER) {
            return tg_error_set(&optim->error, TG_ERROR_STATE,
                                "optim_step: the parameter '%s' was added after the optimizer was made; make a new one",
                                entry.name);
        }
    }
    return true;
}

bool tg_optim_step(tg_optim *optim)
{
    if (!optim || optim->error.code != TG_OK || !is_complete(optim)) {
        return false;
    }
    for (int64_t i = 0; i < optim->count; i++) {
        step_slot(optim, &optim->slots[i]);
    }
    return true;
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

/* ---- groups ---- */

static group *find_group(const tg_optim *optim, const char *name)
{
    for (size_t i = 0; optim && name && i < optim->group_count; i++) {
        if (strcmp(optim->groups[i].name, name) == 0) {
            return &optim->groups[i];
        }
    }
    return NULL;
}

/* `star` is the last * that was passed: on a mismatch it swallows one more character, from `retry` on. */
static bool matches(const char *pattern, const char *text)
{
    const char *star = NULL, *retry = NULL;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            retry = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return !*pattern;
}

bool tg_optim_add_to_group(tg_optim *optim, const char *name, const char *pattern)
{
    if (!optim) {
        return false;
    }
    if (!name || !*name || strlen(name) > MAX_GROUP_NAME) {
        return tg_error_set(&optim->error, TG_ERROR_VALUE,
                            "optim_add_to_group: a name of %zu characters; allowed are 1 to %d",
                            name ? strlen(name) : 0, MAX_GROUP_NAME);
    }
    int64_t matching = 0;
    for (int64_t i = 0; pattern && i < optim->count; i++) {
        matching += matches(pattern, optim->slots[i].name);
    }
    if (matching == 0) {
        return tg_error_set(&optim->error, TG_ERROR_RANGE, "optim_add_to_group: no parameter matches '%.200s'",
                            pattern ? pattern : "(null)");
    }
    if (!find_group(optim, name) && !add_group(optim, name, optim->groups[0].lr, optim->groups[0].weight_decay)) {
        return tg_error_set(&optim->error, TG_ERROR_MEMORY, "optim_add_to_group: out of memory for the group '%s'",
                            name);
    }
    size_t place = (size_t)(find_group(optim, name) - optim->groups);
    for (int64_t i = 0; i < optim->count; i++) {
        if (matches(pattern, optim->slots[i].name)) {
            optim->slots[i].group = place;
        }
    }
    return true;
}

static bool check_option(tg_optim *optim, const char *call, double value)
{
    return optim &&
           ((isfinite(value) && value >= 0) ||
            tg_error_set(&optim->error, TG_ERROR_VALUE, "%s: %g; allowed are finite numbers >= 0", call, value));
}

static group *check_group(tg_optim *optim, const char *call, const char *name)
{
    group *found = find_group(optim, name);
    if (!found) {
        tg_error_set(&optim->error, TG_ERROR_RANGE, "%s: there is no group '%.200s'", call, name ? name : "(null)");
    }
    return found;
}

bool tg_optim_set_lr(tg_optim *optim, double lr)
{
    if (!check_option(optim, "optim_set_lr", lr)) {
        return false;
    }
    for (size_t i = 0; i < optim->group_count; i++) {
        optim->groups[i].lr = lr;
    }
    return true;
}

bool tg_optim_set_group_lr(tg_optim *optim, const char *name, double lr)
{
    group *g = check_option(optim, "optim_set_group_lr", lr) ? check_group(optim, "optim_set_group_lr", name) : NULL;
    if (g) {
        g->lr = lr;
    }
    return g != NULL;
}

bool tg_optim_set_weight_decay(tg_optim *optim, const char *name, double weight_decay)
{
    group *g = check_option(optim, "optim_set_weight_decay", weight_decay)
                   ? check_group(optim, "optim_set_weight_decay", name)
                   : NULL;
    if (g) {
        g->weight_decay = weight_decay;
    }
    return g != NULL;
}

double tg_optim_lr(const tg_optim *optim)
{
    return tg_optim_group_lr(optim, "default");
}

double tg_optim_group_lr(const tg_optim *optim, const char *name)
{
    const group *found = find_group(optim, name);
    return found ? found->lr : NAN;
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
    const slot *s = &optim->slots[index / optim->states];
    int64_t kind = index % optim->states;
    return (tg_optim_state){optim->method->states[kind], s->name, s->state[kind]};
}

static slot *find_slot(const tg_optim *optim, const char *name)
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
    const slot *found = find_slot(optim, name);
    return found ? found->steps : -1;
}

bool tg_optim_set_steps(tg_optim *optim, const char *name, int64_t steps)
{
    if (!optim) {
        return false;
    }
    slot *found = find_slot(optim, name);
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

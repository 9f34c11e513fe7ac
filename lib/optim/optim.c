/* optim: what all optimizers share: parameters, groups, rows, threads. The formulas are in sgd.c and adam.c.
 *
 * A dense gradient is cut into pieces for the threads; each value is updated by itself, so the bits do not depend on the
 * cut. A row gradient is walked by rows: slot[id] tells where the row's gradient is, and rows without one get a row of
 * zeros, unless zeros change nothing, when only the rows that have one are visited.
 */
#include "optim/optim.h"

#include <fnmatch.h>
#include <math.h>

#include "base/parallel.h"
#include "params/params.h"

typedef struct trained {
    const char *name;
    tg_tensor *theta;
    void *state[TG_MAX_STATES];
    int64_t step;
    int group;
} trained;

struct tg_optim {
    tg_error error;
    tg_params *params;
    const tg_method *method;
    bool sparse;
    int64_t entries; /* of the params, when the optimizer was made */
    trained *list;
    int64_t count;
    tg_options *groups;
    size_t group_count, group_capacity;
    void *zeros; /* a row of the widest table */
};

void tg_optim_free(tg_optim *optim)
{
    if (!optim) {
        return;
    }
    for (int64_t i = 0; optim->list && i < optim->count; i++) {
        for (int k = 0; k < TG_MAX_STATES; k++) {
            tg_free(optim->list[i].state[k]);
        }
    }
    tg_free(optim->list);
    tg_free(optim->groups);
    tg_free(optim->zeros);
    tg_free(optim);
}

bool tg_optim_check(tg_params *params, const char *method, const char *option, double value, bool ok,
                    const char *allowed)
{
    return ok || tg_params_fail(params, TG_ERROR_VALUE, "%s: %s is %g; allowed is %s", method, option, value, allowed);
}

/* Everything that a step will need. */
static bool allocate(tg_optim *optim, int states)
{
    size_t widest = 1;
    optim->list = tg_alloc_zeroed((size_t)optim->entries + 1, sizeof *optim->list);
    if (!optim->list || !tg_grow((void **)&optim->groups, &optim->group_capacity, 0, 1, sizeof *optim->groups)) {
        return false;
    }
    for (int64_t i = 0; i < optim->entries; i++) {
        tg_entry entry = tg_params_at(optim->params, i);
        if (entry.kind != TG_ENTRY_PARAMETER) {
            continue;
        }
        trained *made = &optim->list[optim->count++];
        made->name = entry.name;
        made->theta = entry.tensor;
        for (int k = 0; k < states && entry.tensor->count > 0; k++) {
            made->state[k] = tg_alloc_zeroed((size_t)entry.tensor->count, tg_size_of(entry.tensor->dtype));
            if (!made->state[k]) {
                return false;
            }
        }
        if (entry.tensor->rank == 2 && (size_t)entry.tensor->shape[1] > widest) {
            widest = (size_t)entry.tensor->shape[1];
        }
    }
    optim->zeros = tg_alloc_zeroed(widest, sizeof(double));
    return optim->zeros != NULL;
}

tg_optim *tg_optim_make(tg_params *params, const tg_method *method, const tg_options *options, int states, bool sparse)
{
    if (tg_params_error_code(params) != TG_OK) {
        return NULL;
    }
    tg_optim *optim = tg_alloc_zeroed(1, sizeof *optim);
    if (optim) {
        optim->params = params;
        optim->method = method;
        optim->sparse = sparse;
        optim->entries = tg_params_count(params);
    }
    if (!optim || !allocate(optim, states)) {
        tg_optim_free(optim);
        tg_params_fail(params, TG_ERROR_MEMORY, "%s: out of memory for the state of %lld values", method->name,
                       (long long)tg_params_values(params));
        return NULL;
    }
    optim->groups[0] = *options;
    optim->group_count = 1;
    return optim;
}

const char *tg_optim_error(const tg_optim *optim)
{
    return optim ? optim->error.text : "the optimizer is NULL: the params' error says why";
}

tg_code tg_optim_error_code(const tg_optim *optim)
{
    return optim ? optim->error.code : TG_ERROR_STATE;
}

void tg_optim_zero_grad(tg_optim *optim)
{
    for (int64_t i = 0; optim && i < optim->count; i++) {
        tg_zero_grad(optim->list[i].theta);
    }
}

/* ---- one step ---- */

typedef struct sweep {
    const tg_optim *optim;
    const trained *what;
    size_t size; /* of a value */
    int64_t width;
} sweep;

/* Values [at, at + count) of the parameter, whose gradient begins at `gradient`. */
static void update(const sweep *s, int64_t at, int64_t count, const void *gradient)
{
    size_t offset = (size_t)at * s->size;
    tg_update u = {&s->optim->groups[s->what->group], s->what->step, count, (char *)tg_values(s->what->theta) + offset, gradient, {NULL}};
    for (int k = 0; k < TG_MAX_STATES; k++) {
        u.state[k] = s->what->state[k] ? (char *)s->what->state[k] + offset : NULL;
    }
    (s->what->theta->dtype == TG_F32 ? s->optim->method->f32 : s->optim->method->f64)(&u);
}

static void update_dense(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    const char *gradient = tg_values(s->what->theta->gradient->dense);
    update(s, begin, end - begin, gradient + (size_t)begin * s->size);
}

static void update_every_row(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    const tg_gradient *gradient = s->what->theta->gradient;
    for (int64_t row = begin; row < end; row++) {
        int32_t place = gradient->slot[row];
        const char *values = (const char *)gradient->values + (size_t)(place * s->width) * s->size;
        update(s, row * s->width, s->width, place < 0 ? s->optim->zeros : values);
    }
}

static void update_touched_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    const tg_gradient *gradient = s->what->theta->gradient;
    for (int64_t i = begin; i < end; i++) {
        update(s, gradient->ids[i] * s->width, s->width, (const char *)gradient->values + (size_t)(i * s->width) * s->size);
    }
}

static void step_one(const tg_optim *optim, trained *what)
{
    tg_tensor *theta = what->theta;
    sweep s = {optim, what, tg_size_of(theta->dtype), theta->rank == 2 ? theta->shape[1] : 1};
    int64_t rows_grain = 1 + TG_GRAIN / (s.width + 1);
    what->step++;
    if (theta->gradient->kind == TG_GRADIENT_DENSE) {
        tg_parallel_for(theta->count, TG_GRAIN, update_dense, &s);
    } else if (optim->sparse && optim->groups[what->group].weight_decay == 0) {
        tg_parallel_for(theta->gradient->count, rows_grain, update_touched_rows, &s);
    } else {
        tg_parallel_for(theta->shape[0], rows_grain, update_every_row, &s);
    }
    tg_touch(theta);
}

bool tg_optim_step(tg_optim *optim)
{
    if (!optim || optim->error.code != TG_OK) {
        return false;
    }
    if (tg_params_count(optim->params) != optim->entries) {
        return tg_error_set(&optim->error, TG_ERROR_STATE,
                            "%s: the params have %lld entries, %lld when the optimizer was made; make it last", optim->method->name,
                            (long long)tg_params_count(optim->params), (long long)optim->entries);
    }
    for (int64_t i = 0; i < optim->count; i++) {
        trained *what = &optim->list[i];
        if (what->theta->requires_grad && tg_gradient_kind_of(what->theta) != TG_GRADIENT_NONE) {
            step_one(optim, what);
        }
    }
    return true;
}

/* ---- groups ---- */

int tg_optim_add_group(tg_optim *optim, const char *pattern)
{
    if (!optim || optim->error.code != TG_OK) {
        return -1;
    }
    int matches = 0;
    for (int64_t i = 0; pattern && i < optim->count; i++) {
        matches += fnmatch(pattern, optim->list[i].name, 0) == 0;
    }
    if (matches == 0) {
        tg_error_set(&optim->error, TG_ERROR_RANGE, "%s: no parameter matches '%s'", optim->method->name,
                     pattern ? pattern : "(null)");
        return -1;
    }
    if (!tg_grow((void **)&optim->groups, &optim->group_capacity, optim->group_count, optim->group_count + 1,
                 sizeof *optim->groups)) {
        tg_error_set(&optim->error, TG_ERROR_MEMORY, "%s: out of memory for a group", optim->method->name);
        return -1;
    }
    int group = (int)optim->group_count++;
    optim->groups[group] = optim->groups[0];
    for (int64_t i = 0; i < optim->count; i++) {
        if (fnmatch(pattern, optim->list[i].name, 0) == 0) {
            optim->list[i].group = group;
        }
    }
    return group;
}

static bool check_group(tg_optim *optim, const char *option, int group, double value)
{
    if (!optim || optim->error.code != TG_OK) {
        return false;
    }
    if (group < 0 || (size_t)group >= optim->group_count) {
        return tg_error_set(&optim->error, TG_ERROR_RANGE, "%s: group %d is outside [0,%zu)", optim->method->name, group,
                            optim->group_count);
    }
    return value >= 0 || tg_error_set(&optim->error, TG_ERROR_VALUE, "%s: %s is %g; it must be at least 0",
                                      optim->method->name, option, value);
}

bool tg_optim_set_lr(tg_optim *optim, int group, double lr)
{
    if (!check_group(optim, "lr", group, lr)) {
        return false;
    }
    optim->groups[group].lr = lr;
    return true;
}

bool tg_optim_set_weight_decay(tg_optim *optim, int group, double weight_decay)
{
    if (!check_group(optim, "weight_decay", group, weight_decay)) {
        return false;
    }
    optim->groups[group].weight_decay = weight_decay;
    return true;
}

double tg_optim_lr(const tg_optim *optim, int group)
{
    return optim && group >= 0 && (size_t)group < optim->group_count ? optim->groups[group].lr : (double)NAN;
}


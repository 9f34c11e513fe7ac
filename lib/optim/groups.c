/* groups: parameters with a learning rate and a weight decay of their own. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"

bool tg_optim_new_group(tg_optim *optim, const char *name, double lr, double weight_decay)
{
    if (!tg_grow((void **)&optim->groups, &optim->group_capacity, optim->group_count, optim->group_count + 1,
                 sizeof *optim->groups)) {
        return false;
    }
    tg_group *added = &optim->groups[optim->group_count++];
    memset(added, 0, sizeof *added);
    memcpy(added->name, name, strlen(name));
    added->lr = lr;
    added->weight_decay = weight_decay;
    return true;
}

static tg_group *find_group(const tg_optim *optim, const char *name)
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
    if (!name || !*name || strlen(name) > TG_MAX_GROUP_NAME) {
        return tg_error_set(&optim->error, TG_ERROR_VALUE,
                            "optim_add_to_group: a name of %zu characters; allowed are 1 to %d",
                            name ? strlen(name) : 0, TG_MAX_GROUP_NAME);
    }
    int64_t matching = 0;
    for (int64_t i = 0; pattern && i < optim->count; i++) {
        matching += matches(pattern, optim->slots[i].name);
    }
    if (matching == 0) {
        return tg_error_set(&optim->error, TG_ERROR_RANGE, "optim_add_to_group: no parameter matches '%.200s'",
                            pattern ? pattern : "(null)");
    }
    if (!find_group(optim, name) &&
        !tg_optim_new_group(optim, name, optim->groups[0].lr, optim->groups[0].weight_decay)) {
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

static tg_group *check_group(tg_optim *optim, const char *call, const char *name)
{
    tg_group *found = find_group(optim, name);
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
    tg_group *g = check_option(optim, "optim_set_group_lr", lr) ? check_group(optim, "optim_set_group_lr", name) : NULL;
    if (g) {
        g->lr = lr;
    }
    return g != NULL;
}

bool tg_optim_set_weight_decay(tg_optim *optim, const char *name, double weight_decay)
{
    tg_group *g = check_option(optim, "optim_set_weight_decay", weight_decay)
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
    const tg_group *found = find_group(optim, name);
    return found ? found->lr : NAN;
}

/* groups: sets of parameters, each with its own learning rate and weight decay. */
#include "optim/optim.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* Returns the place of a name in the table of groups, or the empty place for it. */
static size_t place_of(const tg_optim *optim, const char *name)
{
    size_t last = optim->group_name_places - 1, at = tg_hash_bytes(name, strlen(name)) & last;
    while (optim->group_of_name[at] >= 0 && strcmp(optim->groups[optim->group_of_name[at]].name, name) != 0) {
        at = (at + 1) & last;
    }
    return at;
}

bool tg_optim_new_group(tg_optim *optim, const char *name, double lr, double weight_decay)
{
    size_t needed = optim->group_count + 1;
    bool is_new;
    if (!tg_grow(&optim->groups, &optim->group_capacity, optim->group_count, needed, sizeof *optim->groups) ||
        !tg_slots_reserve(&optim->group_of_name, &optim->group_name_places, needed, &is_new)) {
        return false;
    }
    tg_group *added = &optim->groups[optim->group_count++];
    memset(added, 0, sizeof *added);
    memcpy(added->name, name, strlen(name));
    added->lr = lr;
    added->weight_decay = weight_decay;
    for (size_t i = is_new ? 0 : optim->group_count - 1; i < optim->group_count; i++) {
        optim->group_of_name[place_of(optim, optim->groups[i].name)] = (int32_t)i;
    }
    return true;
}

static tg_group *find_group(const tg_optim *optim, const char *name)
{
    int32_t found = optim ? optim->group_of_name[place_of(optim, name)] : -1;
    return found < 0 ? NULL : &optim->groups[found];
}

bool tg_optim_add_to_group(tg_optim *optim, const char *name, const char *pattern)
{
    static const char call[] = "optim_add_to_group";
    if (!tg_optim_is_usable(optim)) {
        return false;
    }
    if (!name || !pattern) {
        return tg_error_set(optim->run->error, TG_ERROR_STATE, "%s: the %s is NULL", call, name ? "pattern" : "group");
    }
    if (!*name || strlen(name) > TG_MAX_GROUP_NAME) {
        return tg_error_set(optim->run->error, TG_ERROR_VALUE, "%s: a name of %zu characters; it must have 1 to %d",
                            call, strlen(name), TG_MAX_GROUP_NAME);
    }
    int64_t first = 0, end = optim->count;
    if (!strchr(pattern, '*')) { /* one name */
        const tg_slot *slot = tg_optim_find_slot(optim, pattern);
        first = slot ? slot - optim->slots : 0;
        end = slot ? first + 1 : 0;
    }
    int64_t matching = 0;
    for (int64_t i = first; i < end; i++) {
        matching += tg_name_matches(pattern, optim->slots[i].name);
    }
    if (matching == 0) {
        return tg_error_set(optim->run->error, TG_ERROR_RANGE, "%s: no parameter matches '%.*s'", call,
                            TG_CUT(pattern, 200));
    }
    if (!find_group(optim, name) &&
        !tg_optim_new_group(optim, name, optim->groups[0].lr, optim->groups[0].weight_decay)) {
        return tg_error_set(optim->run->error, TG_ERROR_MEMORY, "%s: out of memory for the group '%s'", call, name);
    }
    size_t group = (size_t)(find_group(optim, name) - optim->groups);
    for (int64_t i = first; i < end; i++) {
        if (tg_name_matches(pattern, optim->slots[i].name)) {
            optim->slots[i].group = group;
        }
    }
    return true;
}

/* Checks a new learning rate or weight decay, and finds the groups first .. first + count - 1 that get it: the group
 * with this name, or all groups if `name` is NULL. */
static bool find_groups(tg_optim *optim, const char *call, const char *name, double value, size_t *first, size_t *count)
{
    if (!tg_optim_is_usable(optim)) {
        return false;
    }
    if (!(isfinite(value) && value >= 0)) {
        return tg_error_set(optim->run->error, TG_ERROR_VALUE, "%s: %g; it must be finite and at least 0", call, value);
    }
    const tg_group *found = name ? find_group(optim, name) : optim->groups;
    if (!found) {
        return tg_error_set(optim->run->error, TG_ERROR_RANGE, "%s: no group '%.*s' exists", call, TG_CUT(name, 200));
    }
    *first = (size_t)(found - optim->groups);
    *count = name ? 1 : optim->group_count;
    return true;
}

bool tg_optim_set_lr(tg_optim *optim, const char *name, double lr)
{
    size_t first = 0, count = 0;
    if (!find_groups(optim, "optim_set_lr", name, lr, &first, &count)) {
        return false;
    }
    for (size_t i = first; i < first + count; i++) {
        optim->groups[i].lr = lr;
    }
    return true;
}

bool tg_optim_set_weight_decay(tg_optim *optim, const char *name, double weight_decay)
{
    size_t first = 0, count = 0;
    if (!find_groups(optim, "optim_set_weight_decay", name, weight_decay, &first, &count)) {
        return false;
    }
    for (size_t i = first; i < first + count; i++) {
        optim->groups[i].weight_decay = weight_decay;
    }
    return true;
}

double tg_optim_lr(const tg_optim *optim, const char *name)
{
    const tg_group *found = find_group(optim, name ? name : "default");
    return found ? found->lr : 0;
}

double tg_optim_weight_decay(const tg_optim *optim, const char *name)
{
    const tg_group *found = find_group(optim, name ? name : "default");
    return found ? found->weight_decay : 0;
}

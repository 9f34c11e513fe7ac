#include "files/checkpoint_group.h"

#include "base/text.h"

bool tg_group_check(const char *call, const tg_checkpoint_group *group, tg_error *error)
{
    if (group && (group->count < 1 || group->index < 0 || group->index >= group->count)) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: writer %lld of %lld; they are numbered from 0", call,
                            (long long)group->index, (long long)group->count);
    }
    return tg_group_count(group) == 1 || (group->calls && group->calls->agree && group->calls->share) ||
           tg_error_set(error, TG_ERROR_STATE, "%s: the group of %lld writers lacks the functions agree and share",
                        call, (long long)group->count);
}

bool tg_group_agree(const tg_checkpoint_group *group, const tg_error *local, tg_error *error)
{
    if (tg_group_count(group) > 1) {
        return group->calls->agree(group, local, error);
    }
    return tg_error_copy(error, local);
}

bool tg_group_share(const tg_checkpoint_group *group, void *bytes, size_t size, tg_error *error)
{
    return tg_group_count(group) == 1 || group->calls->share(group, bytes, (int64_t)size, error);
}

#include "files/checkpoint_group.h"

#include "base/config.h"

static const char mark[] = "tg_checkpoint_group_config_default";

tg_checkpoint_group_config tg_checkpoint_group_config_default(void)
{
    return (tg_checkpoint_group_config){.mark = mark, .size = 1};
}

bool tg_group_check(const char *call, const tg_checkpoint_group_config *config, tg_error *error)
{
    if (!tg_config_check(call, config, mark, error)) {
        return false;
    }
    if (config && (config->size < 1 || config->rank < 0 || config->rank >= config->size)) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: process %lld of %lld; they are numbered from 0", call,
                            (long long)config->rank, (long long)config->size);
    }
    return !config || config->size == 1 || (config->agree && config->share) ||
           tg_error_set(error, TG_ERROR_STATE, "%s: %s is NULL, with %lld processes", call,
                        config->agree ? "share" : "agree", (long long)config->size);
}

bool tg_group_agree(const tg_checkpoint_group_config *group, const tg_error *local, tg_error *error)
{
    if (group->size > 1) {
        return group->agree(group->context, local, error);
    }
    return local->code == TG_OK || tg_error_set(error, local->code, "%s", local->text);
}

bool tg_group_share(const tg_checkpoint_group_config *group, void *bytes, size_t size, tg_error *error)
{
    return group->size == 1 || group->share(group->context, bytes, (int64_t)size, error);
}

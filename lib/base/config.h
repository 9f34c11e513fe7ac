/* config (private): the marks of configs (tapegrad/base.h).
 *
 * A mark is the address of a string, the name of the config's default function. Each config has its own string, so the
 * address identifies the config, and an error message can name the function:
 *
 *     static const char mark[] = "tg_sgd_config_default";
 */
#ifndef TG_BASE_CONFIG_H
#define TG_BASE_CONFIG_H

#include "base/error.h"

/* Returns true if a config is NULL or begins with this mark. Otherwise sets an error that begins with `call`. */
static inline bool tg_config_check(const char *call, const void *config, const char *mark, tg_error *error)
{
    return !config || *(const tg_config_mark *)config == mark ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: the config does not come from %s(); call it, then set fields", call,
                        mark);
}

#endif

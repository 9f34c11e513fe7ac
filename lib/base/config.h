/* config (private): the marks of configs, which extend.h declares for libraries on top of this one. */
#ifndef TG_BASE_CONFIG_H
#define TG_BASE_CONFIG_H

#include <tapegrad/extend.h>

/* Returns true if a list in a config and the number of its elements agree: without elements the list is NULL, and only
 * then. Otherwise sets an error that names both fields. */
static inline bool tg_config_check_list(const char *call, const char *list_field, const void *list,
                                        const char *count_field, int64_t count, tg_error *error)
{
    if (count < 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: %s is %lld; it must be at least 0", call, count_field,
                            (long long)count);
    }
    if ((count > 0) == (list != NULL)) {
        return true;
    }
    return tg_error_set(error, TG_ERROR_VALUE, "%s: %s is %lld, but %s is %s; set both or neither", call, count_field,
                        (long long)count, list_field, list ? "not NULL" : "NULL");
}

#endif

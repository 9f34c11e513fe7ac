#include "nn/module.h"

#include <stdio.h>

bool tg_module_name(tg_params *params, const char *name, const char *part, char text[TG_NAME_SIZE])
{
    if (!name) {
        return tg_params_fail(params, TG_ERROR_STATE, "a module's name is NULL");
    }
    int length = snprintf(text, TG_NAME_SIZE, "%s.%s", name, part);
    if (length < 0 || length >= TG_NAME_SIZE) {
        return tg_params_fail(params, TG_ERROR_VALUE, "the name \"%.40s...\" has %d characters; at most %d", name,
                              length, TG_NAME_SIZE - 1);
    }
    return true;
}

bool tg_module_ready(tg_tape *t, const char *call, const tg_params *params, const tg_tensor *tensor)
{
    if (!tensor) {
        tg_code code = tg_params_error_code(params);
        tg_tape_fail(t, code == TG_OK ? TG_ERROR_STATE : code, call, "%s",
                     code == TG_OK ? "the module was not made" : tg_params_error(params));
    }
    return tensor != NULL;
}

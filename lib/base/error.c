#include <tapegrad/extend.h>

#include <stdarg.h>

#include "base/text.h"

const char *tg_version(void)
{
    return TG_VERSION_STRING;
}

bool tg_error_set(tg_error *error, tg_code code, const char *format, ...)
{
    if (error && error->code == TG_OK) {
        va_list arguments;
        va_start(arguments, format);
        tg_format_line_of(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        error->code = code;
    }
    return false;
}

void tg_error_clear(tg_error *error)
{
    if (error) {
        error->code = TG_OK;
        error->text[0] = '\0';
    }
}

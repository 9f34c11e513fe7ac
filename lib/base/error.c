#include <tapegrad/extend.h>

#include <stdarg.h>

#include "base/text.h"

const char *tg_version(void)
{
    return TG_VERSION_STRING;
}

/* Sets the error unless one is set already. */
static void set(tg_error *error, tg_code code, int64_t line, int64_t byte, const char *format, va_list arguments)
{
    if (error && error->code == TG_OK) {
        tg_format_line_of(error->text, sizeof error->text, format, arguments);
        error->code = code;
        error->line = line;
        error->byte = byte;
    }
}

bool tg_error_set(tg_error *error, tg_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set(error, code, -1, -1, format, arguments);
    va_end(arguments);
    return false;
}

bool tg_error_set_at(tg_error *error, int64_t line, int64_t byte, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set(error, TG_ERROR_FORMAT, line, byte, format, arguments);
    va_end(arguments);
    return false;
}

bool tg_error_copy(tg_error *error, const tg_error *from)
{
    if (error && error->code == TG_OK && from->code != TG_OK) {
        tg_error_set(error, from->code, "%s", from->text); /* a program's own error is escaped here */
        error->line = from->line;
        error->byte = from->byte;
    }
    return from->code == TG_OK;
}

void tg_error_clear(tg_error *error)
{
    if (error) {
        *error = (tg_error)TG_NO_ERROR;
    }
}

#include <tapegrad/base.h>

#include <stdarg.h>
#include <stdio.h>

const char *tg_version(void)
{
    return TG_VERSION_STRING;
}

bool tg_error_set(tg_error *error, tg_code code, const char *format, ...)
{
    if (error && error->code == TG_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
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

const char *tg_code_name(tg_code code)
{
    switch (code) {
    case TG_OK: return "ok";
    case TG_ERROR_MEMORY: return "memory";
    case TG_ERROR_SHAPE: return "shape";
    case TG_ERROR_DTYPE: return "dtype";
    case TG_ERROR_RANGE: return "range";
    case TG_ERROR_VALUE: return "value";
    case TG_ERROR_STATE: return "state";
    case TG_ERROR_FILE: return "file";
    case TG_ERROR_FORMAT: return "format";
    }
    return "unknown";
}

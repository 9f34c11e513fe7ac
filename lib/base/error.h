/* error (private): setting a tg_error. */
#ifndef TG_BASE_ERROR_H
#define TG_BASE_ERROR_H

#include <tapegrad/base.h>

/* Sets the error unless one is set already. The text is escaped (base/text.h), so names from files and paths can be
 * quoted as they are; a text that is too long is cut. `error` may be NULL. Returns false, so that a check can end with
 * `return tg_error_set(...)`. */
bool tg_error_set(tg_error *error, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

#endif

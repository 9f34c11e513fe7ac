/* params (private): errors for the rooms above. */
#ifndef TG_PARAMS_PARAMS_H
#define TG_PARAMS_PARAMS_H

#include <tapegrad/params.h>

/* Sets the sticky error; returns false. */
bool tg_params_fail(tg_params *params, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

#endif

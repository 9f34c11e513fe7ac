/* file (private): checks the texts of files. */
#ifndef TG_DATA_FILE_H
#define TG_DATA_FILE_H

#include <tapegrad/data.h>

#include "base/file.h"

/* Returns the index of the first byte that is not UTF-8, or `length`. Overlong forms and surrogates are not UTF-8. */
size_t tg_utf8_check(const char *text, size_t length);

#endif

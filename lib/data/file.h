/* file (private): reads whole files, and replaces them atomically. */
#ifndef TG_DATA_FILE_H
#define TG_DATA_FILE_H

#include <tapegrad/data.h>

#include "base/error.h"

/* Replaces a file: writes a temporary one in the same folder, syncs it, renames it to `path`, and syncs the folder. A
 * reader gets either the old file or the new one. */
bool tg_file_replace(const char *path, const void *bytes, size_t length, tg_error *error);

/* Returns the index of the first byte that is not UTF-8, or `length`. Overlong forms and surrogates are not UTF-8. */
size_t tg_utf8_check(const char *text, size_t length);

#endif

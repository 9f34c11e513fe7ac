/* file (private): reading whole files, and replacing them safely. */
#ifndef TG_DATA_FILE_H
#define TG_DATA_FILE_H

#include <tapegrad/data.h>

/* Writes beside `path`, syncs, and renames over it, then syncs the folder: whoever looks sees the old file or the new
 * one. */
bool tg_file_replace(const char *path, const void *bytes, size_t length, tg_error *error);

/* The first byte that is not UTF-8 (overlong forms and surrogates are not), or `length` when all is. */
size_t tg_utf8_check(const char *text, size_t length);

#endif

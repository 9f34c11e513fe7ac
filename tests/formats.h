/* formats: the table of what reference readers read of each format's variants (tests/goldens/make_formats.py). */
#ifndef TG_TESTS_FORMATS_H
#define TG_TESTS_FORMATS_H

#include <tapegrad/extend.h>

#include "support.h"

/* Reads the file, and adds what it contains in the form of the table. Returns false after an error. */
typedef bool (*format_reader)(const char *path, tg_text_buffer *content, tg_error *error);

/* Reads each variant of a format, written to `path`. Fails unless its content or refusal is that of the table. */
void check_format(const char *table, const char *format, const char *path, format_reader read);

/* Add bytes, escaped, and the values number `begin` to `end` - 1 of a tensor. */
void add_escaped(tg_text_buffer *content, const char *bytes);
void add_values(tg_text_buffer *content, const tg_tensor *x, int64_t begin, int64_t end);

#endif

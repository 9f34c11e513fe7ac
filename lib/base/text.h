/* text (private): what only the core uses beside the texts of extend.h. */
#ifndef TG_BASE_TEXT_H
#define TG_BASE_TEXT_H

#include <stdarg.h>

#include <tapegrad/extend.h>

bool tg_ends_with(const char *text, const char *end);

/* tg_format_line with its arguments as a list. */
size_t tg_format_line_of(char *line, size_t size, const char *format, va_list arguments);

/* Replaces the decimal point of the locale by '.', in a number as printf writes it. */
void tg_text_set_point(char *text);

#endif

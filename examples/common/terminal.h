/* terminal: prints what users and files have chosen: names, paths, words, texts. Control characters in them could
 * change the state of the terminal, so they are escaped (tg_escape). */
#ifndef TERMINAL_H
#define TERMINAL_H

#include <stdarg.h>
#include <stdio.h>

#include <tapegrad.h>

/* Formats like printf, and writes the result as one line, with a newline. What has more than 8000 bytes is cut. */
void print_line(FILE *file, const char *format, ...) TG_PRINTF_LIKE(2, 3);
void print_line_of(FILE *file, const char *format, va_list arguments);

/* Writes `length` bytes of a text. Its newlines and tabs stay. */
void print_text(FILE *file, const char *text, size_t length);

#endif

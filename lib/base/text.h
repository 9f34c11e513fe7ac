/* text (private): UTF-8, numbers, and texts for people.
 *
 * Messages and reports quote names and paths that others have chosen: a tensor of a downloaded file may be called
 * "\x1b]0;...", or have a newline in its name. So every text that the library writes for people is escaped when it is
 * complete, by tg_escape: those of errors by tg_error_set, the others by tg_format_line. Callers quote with a plain %s.
 */
#ifndef TG_BASE_TEXT_H
#define TG_BASE_TEXT_H

#include <stdarg.h>

#include <tapegrad/base.h>

/* Returns the index of the first byte that is not UTF-8, or `length`. Overlong forms and surrogates are not UTF-8. */
size_t tg_utf8_check(const char *text, size_t length);

/* Copies `text` so that it is one line of UTF-8 that moves no terminal's cursor: a newline becomes \n, and each byte of
 * another control character (U+0000 to U+001F, U+007F to U+009F) or of what is not UTF-8 becomes \xNN. A backslash is
 * copied, so a text that was escaped stays as it is. The copy ends before the first character that does not fit into
 * `size` bytes with the NUL. Returns its length. */
size_t tg_escape(char *copy, size_t size, const char *text);

/* Returns the length of the longest beginning of `text` that has at most `most` bytes and no part of a character: the
 * precision of a %.*s. tg_cut is that of a string, and `most` for NULL. */
int tg_cut(const char *text, int most);
int tg_cut_bytes(const char *text, size_t length, int most);

/* The two arguments of a %.*s that writes at most `most` bytes of a string. A message must not have a %.40s, which cuts
 * characters (tests/checks/words). */
#define TG_CUT(text, most) tg_cut(text, most), (text)

/* Formats as snprintf, and escapes the result, of which the first 1000 bytes are used. Returns its length. */
size_t tg_format_line(char *line, size_t size, const char *format, ...) TG_PRINTF_LIKE(3, 4);
size_t tg_format_line_of(char *line, size_t size, const char *format, va_list arguments);

/* Converts a number with a decimal point, in any locale. Returns false if the text is no number. */
bool tg_parse_number(const char *text, double *value);

#endif

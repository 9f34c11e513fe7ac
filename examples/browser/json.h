/* json: writes one answer of the page as JSON text. Commas are added by the functions; an object's member is a key and
 * then a value. The text is kept until the next json_begin. The page has one thread, so there is one text. */
#ifndef BROWSER_JSON_H
#define BROWSER_JSON_H

#include <tapegrad.h>

void json_begin(void);

/* Returns the text, or an error as JSON if memory was exhausted. */
const char *json_end(void);

void json_open(char bracket);
void json_close(char bracket);
void json_key(const char *key);

/* A text of any bytes: those that are not UTF-8 become "\xNN", as visible characters. */
void json_text(const char *text);
void json_bytes(const char *text, size_t length);
void json_format(const char *format, ...) TG_PRINTF_LIKE(1, 2);

void json_bool(bool value);
void json_int(int64_t value);

/* A number that the page draws but does not show, with all digits of a float. */
void json_number(double value);

/* A number that the page shows, as text with this number of digits after the point: the page rounds nothing. */
void json_figure(double value, int digits);

/* A tensor of rank 1 or 2 as nested arrays: of numbers with digits < 0, and else of figures. i32 gives integers. */
void json_tensor(const tg_tensor *x, int digits);

/* A shape as text: "(8,4,256)". */
void json_shape(tg_shape shape);

#endif

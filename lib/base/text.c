/* text: a message is escaped once, when it is complete.
 *
 * Names in downloaded files may have newlines and terminal sequences. tg_error_set and the reports escape the finished
 * text, so callers quote with a plain %s, and a new message cannot forget it. A backslash is not escaped: a text that
 * passes twice does not change.
 */
#include "base/text.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of a formatted line. With them a character that the end cuts lies behind all that is copied to an error. */
#define LINE 1001

bool tg_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Returns the length of the UTF-8 character at the start of a text that has `length` bytes; 0 if it is none. */
static size_t character(const unsigned char *s, size_t length)
{
    unsigned char first = s[0];
    if (first < 0x80) {
        return 1;
    }
    size_t size = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 4;
    if (first < 0xc2 || first > 0xf4 || size > length) {
        return 0;
    }
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (size_t k = 1; k < size; k++, low = 0x80, high = 0xbf) {
        if (s[k] < low || s[k] > high) {
            return 0;
        }
    }
    return size;
}

size_t tg_utf8_check(const char *text, size_t length)
{
    size_t i = 0;
    for (size_t size; i < length; i += size) {
        size = character((const unsigned char *)text + i, length - i);
        if (size == 0) {
            return i;
        }
    }
    return length;
}

int tg_cut_bytes(const char *text, size_t length, int most)
{
    size_t end = 0;
    while (end < length) {
        size_t size = character((const unsigned char *)text + end, length - end);
        size = size > 0 ? size : 1;
        if (end + size > (size_t)most) {
            break;
        }
        end += size;
    }
    return (int)end;
}

int tg_cut(const char *text, int most)
{
    return text ? tg_cut_bytes(text, strlen(text), most) : most;
}

/* U+0080 to U+009F are 0xc2 0x80 to 0xc2 0x9f. */
static bool is_control(const unsigned char *s)
{
    return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0);
}

size_t tg_escape(char *copy, size_t size, const char *text)
{
    size_t used = 0;
    for (size_t left = strlen(text), taken; left > 0; text += taken, left -= taken) {
        const unsigned char *s = (const unsigned char *)text;
        char escaped[5];
        taken = character(s, left);
        bool is_plain = taken > 0 && !is_control(s);
        taken = is_plain ? taken : 1;
        if (!is_plain) {
            snprintf(escaped, sizeof escaped, *s == '\n' ? "\\n" : "\\x%02x", (unsigned)*s);
        }
        size_t length = is_plain ? taken : strlen(escaped);
        if (used + length >= size) {
            break;
        }
        memcpy(copy + used, is_plain ? text : escaped, length);
        used += length;
    }
    if (size > 0) {
        copy[used] = '\0';
    }
    return used;
}

/* Removes the sign of each NaN that printf has written. The sign means nothing, and depends on the processor. */
static void remove_signs_of_nan(char *line)
{
    for (char *at = line; (at = strstr(at, "-nan")) != NULL; at++) {
        bool begins = at == line || strchr(" ([", at[-1]), ends = !at[4] || strchr(" ,;:)]", at[4]);
        if (begins && ends) {
            memmove(at, at + 1, strlen(at));
        }
    }
}

size_t tg_format_line_of(char *line, size_t size, const char *format, va_list arguments)
{
    char raw[LINE];
    vsnprintf(raw, sizeof raw, format, arguments);
    remove_signs_of_nan(raw);
    return tg_escape(line, size, raw);
}

size_t tg_format_line(char *line, size_t size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t length = tg_format_line_of(line, size, format, arguments);
    va_end(arguments);
    return length;
}

bool tg_parse_number(const char *text, double *value)
{
    char copy[64], *end;
    const char *point = localeconv()->decimal_point;
    size_t length = strlen(text), point_length = strlen(point), used = 0;
    if (length == 0 || length + point_length > sizeof copy - 1 ||
        strspn(text, "+-.0123456789eEinfINFatyATY") != length) {
        return false;
    }
    bool has_point = false;
    for (const char *c = text; *c; c++) {
        if (*c != '.') {
            copy[used++] = *c;
        } else if (has_point) {
            return false;
        } else {
            memcpy(copy + used, point, point_length);
            used += point_length;
            has_point = true;
        }
    }
    copy[used] = '\0';
    *value = strtod(copy, &end);
    return end == copy + used;
}

void tg_text_set_point(char *text)
{
    char *point = text + strspn(text, "-0123456789");
    size_t bytes = strcspn(point, "einf0123456789"); /* none in a whole number, "inf" or "nan" */
    if (bytes > 0) {
        *point = '.';
        memmove(point + 1, point + bytes, strlen(point + bytes) + 1);
    }
}

const char *tg_format_number(double value, int digits, char *text)
{
    snprintf(text, TG_NUMBER_TEXT, "%.*g", digits, value);
    tg_text_set_point(text);
    return text;
}

/* ---- texts that grow ---- */

void tg_text_add_bytes(tg_text_buffer *b, const void *bytes, size_t length)
{
    b->failed = b->failed || !tg_grow(&b->bytes, &b->capacity, b->length, b->length + length + 1, 1);
    if (!b->failed) {
        memcpy(b->bytes + b->length, bytes, length);
        b->length += length;
        b->bytes[b->length] = '\0';
    }
}

void tg_text_add(tg_text_buffer *b, const char *text)
{
    tg_text_add_bytes(b, text, strlen(text));
}

void tg_text_add_format(tg_text_buffer *b, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    b->failed =
        b->failed || length < 0 || !tg_grow(&b->bytes, &b->capacity, b->length, b->length + (size_t)length + 1, 1);
    if (!b->failed) {
        vsnprintf(b->bytes + b->length, (size_t)length + 1, format, again);
        b->length += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

void tg_text_add_json(tg_text_buffer *b, const char *text, size_t length)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        const char *escaped = c ? strchr(plain, c) : NULL;
        if (escaped) {
            tg_text_add_bytes(b, (const char[]){'\\', letters[escaped - plain]}, 2);
        } else if (c < 0x20) {
            tg_text_add_format(b, "\\u%04x", (unsigned)c);
        } else {
            tg_text_add_bytes(b, text + i, 1);
        }
    }
}

#include "json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static size_t length, capacity;
static bool needs_comma, is_out_of_memory;

static void put(const char *bytes, size_t count)
{
    if (length + count + 1 > capacity && !is_out_of_memory) {
        size_t larger = 2 * (length + count) + 4096;
        char *moved = realloc(text, larger);
        is_out_of_memory = !moved;
        if (moved) {
            text = moved;
            capacity = larger;
        }
    }
    if (is_out_of_memory) {
        return;
    }
    memcpy(text + length, bytes, count);
    length += count;
    text[length] = 0;
}

static void put_text(const char *bytes)
{
    put(bytes, strlen(bytes));
}

static void begin_value(void)
{
    if (needs_comma) {
        put_text(",");
    }
    needs_comma = true;
}

void json_begin(void)
{
    length = 0;
    needs_comma = is_out_of_memory = false;
    put_text("");
}

const char *json_end(void)
{
    return is_out_of_memory ? "{\"error\":\"out of memory\"}" : text;
}

void json_open(char bracket)
{
    begin_value();
    put(&bracket, 1);
    needs_comma = false;
}

void json_close(char bracket)
{
    put(&bracket, 1);
    needs_comma = true;
}

void json_key(const char *key)
{
    json_text(key);
    put_text(":");
    needs_comma = false;
}

/* Returns the number of bytes of the UTF-8 character at `at`, or 0. */
static size_t character(const unsigned char *at, size_t left)
{
    size_t size = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    if (size == 0 || size > left) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool is_wrong = size > 2 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) ||
                                 (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90));
    return is_wrong ? 0 : size;
}

void json_bytes(const char *bytes, size_t count)
{
    begin_value();
    put_text("\"");
    for (size_t i = 0; i < count;) {
        const unsigned char *at = (const unsigned char *)bytes + i;
        size_t size = character(at, count - i);
        char escaped[8];
        if (size == 0) {
            snprintf(escaped, sizeof escaped, "\\\\x%02X", at[0]);
            put_text(escaped);
        } else if (at[0] < 0x20 || at[0] == '"' || at[0] == '\\' || at[0] == 0x7f) {
            snprintf(escaped, sizeof escaped, "\\u%04x", at[0]);
            put_text(escaped);
        } else {
            put(bytes + i, size);
        }
        i += size ? size : 1;
    }
    put_text("\"");
}

void json_text(const char *value)
{
    json_bytes(value, strlen(value));
}

void json_format(const char *format, ...)
{
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    json_text(line);
}

void json_bool(bool value)
{
    begin_value();
    put_text(value ? "true" : "false");
}

void json_int(int64_t value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, value);
    begin_value();
    put_text(digits);
}

void json_number(double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.9g", value);
    begin_value();
    put_text(isfinite(value) ? digits : "null");
}

void json_figure(double value, int digits)
{
    char figure[400];
    snprintf(figure, sizeof figure, "%.*f", digits, value);
    json_text(figure);
}

void json_tensor(const tg_tensor *x, int digits)
{
    int64_t width = tg_tensor_rank(x) < 2 ? 0 : tg_tensor_size(x, 1);
    json_open('[');
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double value = tg_tensor_value_at(x, i);
        if (width && i % width == 0) {
            json_open('[');
        }
        if (tg_tensor_dtype(x) == TG_I32) {
            json_int((int64_t)value);
        } else if (digits < 0) {
            json_number(value);
        } else {
            json_figure(value, digits);
        }
        if (width && i % width == width - 1) {
            json_close(']');
        }
    }
    json_close(']');
}

void json_shape(tg_shape shape)
{
    char line[TG_SHAPE_TEXT];
    json_text(tg_shape_format(shape, line));
}

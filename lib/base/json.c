/* json: the reader of JSON, token by token.
 *
 * A hostile file needs only a few times its header's size, because no tree is built. Each error has the byte's
 * position.
 */
#include <tapegrad/extend.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* The most objects and arrays inside of each other that tg_json_skip accepts. */
#define MOST_DEPTH 64

int64_t tg_json_line(const tg_json *j, size_t at)
{
    size_t low = 0, high = j->break_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (j->breaks[middle] < at) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (int64_t)low + 1;
}

bool tg_json_fail(tg_json *j, size_t at, const char *format, ...)
{
    char text[TG_ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    j->failed = true;
    int64_t byte = (int64_t)(j->offset + at), line = j->has_lines ? tg_json_line(j, at) : -1;
    return tg_error_set_at(j->error, line, byte, "%s: '%s', %s %lld: %s", j->call, j->path,
                           j->has_lines ? "line" : "byte", (long long)(j->has_lines ? line : byte), text);
}

bool tg_json_expected(tg_json *j, const char *what)
{
    int next = tg_json_next(j);
    if (next < 0) {
        return tg_json_fail(j, j->at, "expected %s, found the end", what);
    }
    return next > ' ' && next < 0x7f ? tg_json_fail(j, j->at, "expected %s, found '%c'", what, next)
                                     : tg_json_fail(j, j->at, "expected %s, found byte 0x%02x", what, (unsigned)next);
}

bool tg_json_check_utf8(tg_json *j)
{
    size_t valid = tg_utf8_check(j->text, j->length);
    return valid == j->length ||
           tg_json_fail(j, valid, "byte 0x%02x is not UTF-8", (unsigned)(unsigned char)j->text[valid]);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

int tg_json_next(tg_json *j)
{
    while (j->at < j->length && is_space(j->text[j->at])) {
        j->at++;
    }
    return j->at < j->length ? (unsigned char)j->text[j->at] : -1;
}

bool tg_json_take(tg_json *j, char c)
{
    if (tg_json_next(j) != c) {
        return false;
    }
    j->at++;
    return true;
}

bool tg_json_begin(tg_json *j, char open)
{
    return tg_json_take(j, open) || tg_json_expected(j, open == '{' ? "'{'" : "'['");
}

bool tg_json_more(tg_json *j, char close, size_t *count)
{
    if (j->failed) {
        return false;
    }
    if (tg_json_take(j, close)) {
        return false;
    }
    if (*count > 0 && !tg_json_take(j, ',')) {
        return tg_json_expected(j, close == '}' ? "',' or '}'" : "',' or ']'");
    }
    ++*count;
    return true;
}

bool tg_json_key(tg_json *j, size_t *count, tg_json_text *key)
{
    return tg_json_more(j, '}', count) && tg_json_string(j, key) &&
           (tg_json_take(j, ':') || tg_json_expected(j, "':' after the name"));
}

/* ---- strings ---- */

/* Reads the four hexadecimal digits of \uXXXX. Returns -1 if they are not. */
static int32_t read_hex(tg_json *j)
{
    int32_t code = 0;
    for (int i = 0; i < 4; i++) {
        char c = j->at < j->length ? j->text[j->at] : '\0';
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        code = code * 16 + digit;
        j->at++;
    }
    return code;
}

/* Reads what follows \u: a character of the basic plane, or two surrogates. Returns -1 after an error. */
static int32_t read_unicode(tg_json *j)
{
    size_t start = j->at - 2;
    int32_t code = read_hex(j);
    if (code >= 0xd800 && code < 0xdc00 && j->length - j->at >= 2 && j->text[j->at] == '\\' &&
        j->text[j->at + 1] == 'u') {
        j->at += 2;
        int32_t low = read_hex(j);
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00) : -1;
    }
    if (code < 0 || (code >= 0xd800 && code < 0xe000)) {
        tg_json_fail(j, start, "the escape is not a Unicode character");
        return -1;
    }
    if (code == 0) {
        tg_json_fail(j, start, "a string contains a NUL");
        return -1;
    }
    return code;
}

static char *put_utf8(char *out, int32_t code)
{
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(first[more] | code >> (6 * more));
    while (more-- > 0) {
        *out++ = (char)(0x80 | (code >> (6 * more) & 0x3f));
    }
    return out;
}

/* Reads what follows a backslash, and writes the character. Returns the end of what it wrote, or NULL. No escape is
 * shorter than its character in UTF-8, so the character is never written over text that was not read. */
static char *read_escape(tg_json *j, char *out)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char c = j->at < j->length ? j->text[j->at++] : '\0';
    const char *found = c ? strchr(escapes, c) : NULL;
    if (found) {
        *out = meanings[found - escapes];
        return out + 1;
    }
    if (c != 'u') {
        tg_json_fail(j, j->at - 1, "an unknown escape");
        return NULL;
    }
    int32_t code = read_unicode(j);
    return code < 0 ? NULL : put_utf8(out, code);
}

bool tg_json_string(tg_json *j, tg_json_text *string)
{
    if (!tg_json_take(j, '"')) {
        return tg_json_expected(j, "'\"'");
    }
    char *out = j->text + j->at;
    *string = (tg_json_text){out, j->at - 1};
    while (j->at < j->length && j->text[j->at] != '"') {
        unsigned char c = (unsigned char)j->text[j->at++];
        if (c < 0x20) {
            return tg_json_fail(j, j->at - 1, "a string contains the control character 0x%02x", (unsigned)c);
        }
        if (c != '\\') {
            *out++ = (char)c;
            continue;
        }
        out = read_escape(j, out);
        if (!out) {
            return false;
        }
    }
    if (j->at == j->length) {
        return tg_json_fail(j, string->at, "the string does not end");
    }
    j->at++;
    *out = '\0';
    return true;
}

/* ---- other values ---- */

bool tg_json_uint(tg_json *j, int64_t *value)
{
    tg_json_next(j);
    size_t start = j->at;
    int64_t number = 0;
    for (; j->at < j->length && j->text[j->at] >= '0' && j->text[j->at] <= '9'; j->at++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, j->text[j->at] - '0', &number)) {
            return tg_json_fail(j, start, "the number is larger than 2^63 - 1");
        }
    }
    if (j->at == start) {
        return tg_json_expected(j, "a whole number");
    }
    if (j->text[start] == '0' && j->at - start > 1) {
        return tg_json_fail(j, start, "the number begins with a 0");
    }
    *value = number;
    return true;
}

/* Takes digits. Returns whether it took one. */
static bool take_digits(tg_json *j)
{
    size_t start = j->at;
    while (j->at < j->length && j->text[j->at] >= '0' && j->text[j->at] <= '9') {
        j->at++;
    }
    return j->at > start;
}

static bool take_at_once(tg_json *j, const char *any)
{
    bool is_any = j->at < j->length && strchr(any, j->text[j->at]) && j->text[j->at];
    j->at += is_any;
    return is_any;
}

static bool skip_number(tg_json *j)
{
    take_at_once(j, "-");
    bool is_valid = take_at_once(j, "0") || take_digits(j);
    if (is_valid && take_at_once(j, ".")) {
        is_valid = take_digits(j);
    }
    if (is_valid && take_at_once(j, "eE")) {
        take_at_once(j, "+-");
        is_valid = take_digits(j);
    }
    return is_valid || tg_json_expected(j, "a digit");
}

bool tg_json_number(tg_json *j, double *value)
{
    char copy[61];
    int next = tg_json_next(j);
    size_t start = j->at;
    if (next != '-' && (next < '0' || next > '9')) {
        return tg_json_expected(j, "a number");
    }
    if (!skip_number(j)) {
        return false;
    }
    size_t length = j->at - start;
    if (length >= sizeof copy) {
        return tg_json_fail(j, start, "a number of %zu characters; it must have at most %zu", length, sizeof copy - 1);
    }
    memcpy(copy, j->text + start, length);
    copy[length] = '\0';
    return tg_parse_number(copy, value) || tg_json_fail(j, start, "'%s' is not a number", copy);
}

bool tg_json_word(tg_json *j, const char *word)
{
    size_t length = strlen(word);
    tg_json_next(j);
    bool is_word = j->length - j->at >= length && memcmp(j->text + j->at, word, length) == 0;
    j->at += is_word ? length : 0;
    return is_word;
}

static bool skip(tg_json *j, int depth)
{
    tg_json_text text;
    size_t count = 0;
    int next = tg_json_next(j);
    if ((next == '{' || next == '[') && depth == MOST_DEPTH) {
        return tg_json_fail(j, j->at, "more than %d objects and arrays inside of each other", MOST_DEPTH);
    }
    switch (next) {
    case '{':
        j->at++;
        while (tg_json_key(j, &count, &text) && skip(j, depth + 1)) {
        }
        return !j->failed;
    case '[':
        j->at++;
        while (tg_json_more(j, ']', &count) && skip(j, depth + 1)) {
        }
        return !j->failed;
    case '"': return tg_json_string(j, &text);
    default:
        return next == '-' || (next >= '0' && next <= '9')
                   ? skip_number(j)
                   : tg_json_word(j, "true") || tg_json_word(j, "false") || tg_json_word(j, "null") ||
                         tg_json_expected(j, "a value");
    }
}

bool tg_json_skip(tg_json *j)
{
    return skip(j, 0);
}

bool tg_json_end(tg_json *j)
{
    return tg_json_next(j) < 0 || tg_json_expected(j, "the end");
}

/* json (private): a strict reader of JSON (RFC 8259) that is in memory. It builds no tree: the caller takes one token
 * after the other. Strings are decoded where they stand, so it allocates nothing.
 *
 * An object {"a":1,"b":2} is read by
 *
 *     size_t members = 0;
 *     tg_json_text key;
 *     if (!tg_json_begin(j, '{')) return false;
 *     while (tg_json_key(j, &members, &key)) {
 *         if (!tg_json_uint(j, &value)) return false;
 *     }
 *     return !j->failed;
 *
 * and an array by tg_json_begin(j, '[') and tg_json_more(j, ']', &members).
 *
 * Each function that fails sets the error, with the byte's position in the file: "params_load: 'model.safetensors',
 * byte 17: expected ':' after the name, found '}'".
 */
#ifndef TG_BASE_JSON_H
#define TG_BASE_JSON_H

#include "base/error.h"

typedef struct tg_json {
    const char *call, *path;
    char *text;
    size_t length, at;
    uint64_t offset; /* of the text in the file */
    bool failed;
    tg_error *error;
} tg_json;

/* A decoded string. It ends with a NUL and contains no other. */
typedef struct tg_json_text {
    char *text;
    size_t at; /* the position of its quotation mark in the JSON text */
} tg_json_text;

/* Sets a FORMAT error about the byte at position `at` of the text. Returns false. */
bool tg_json_fail(tg_json *j, size_t at, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* Checks that the whole text is UTF-8. To be called first. */
bool tg_json_check_utf8(tg_json *j);

/* Skips white space. Returns the next byte, or -1 at the end. */
int tg_json_next(tg_json *j);

/* Takes the next byte if it is `c`. Returns whether it was. */
bool tg_json_take(tg_json *j, char c);

/* Sets the error "expected <what>, found <the next byte>". Returns false. */
bool tg_json_expected(tg_json *j, const char *what);

/* Takes the byte that begins an object or an array. */
bool tg_json_begin(tg_json *j, char open);

/* Takes the comma before the next element, or `close`. Returns whether an element follows; false also after an error.
 * `count` is 0 at first, and then the number of elements so far. */
bool tg_json_more(tg_json *j, char close, size_t *count);

/* The same for an object; takes the name of the member and its colon, too. */
bool tg_json_key(tg_json *j, size_t *count, tg_json_text *key);

bool tg_json_string(tg_json *j, tg_json_text *string);

/* Takes a whole number in [0,2^63), written with digits alone. */
bool tg_json_uint(tg_json *j, int64_t *value);

/* Takes a number of at most 60 characters. */
bool tg_json_number(tg_json *j, double *value);

/* Takes "true", "false" or "null" if it is next, and returns whether it is. Sets no error. */
bool tg_json_word(tg_json *j, const char *word);

/* Takes a value of any kind. */
bool tg_json_skip(tg_json *j);

/* Checks that only white space follows. */
bool tg_json_end(tg_json *j);

#endif

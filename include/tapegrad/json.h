/* json: reads JSON files (RFC 8259), such as lists of instructions or the settings of a model.
 * Library: tapegrad_tools (pkg-config tapegrad_tools).
 *
 * ```c
 * tg_json_document *document = tg_json_document_open("instructions.json", &error);
 * const tg_json_value *list = tg_json_document_root(document);
 * for (int64_t i = 0; i < tg_json_value_count(list); i++) {
 *     const tg_json_value *entry = tg_json_value_at(list, i);
 *     const char *output = tg_json_value_text(tg_json_value_find(entry, "output", &error), &error);
 *     puts(output ? output : error.text);
 * }
 * tg_json_document_free(document);
 * ```
 *
 * Errors. The calls that take a tg_error can be nested as above: each accepts the NULL of a failed call, and keeps the
 * first error, which has the file and the line. The comments do not repeat MEMORY, and STATE for a NULL.
 */
#ifndef TAPEGRAD_JSON_H
#define TAPEGRAD_JSON_H

#include <tapegrad/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_json_document tg_json_document;

/* A value of a document, borrowed from it. */
typedef struct tg_json_value tg_json_value;

typedef enum tg_json_kind {
    TG_JSON_NULL,
    TG_JSON_FALSE,
    TG_JSON_TRUE,
    TG_JSON_NUMBER,
    TG_JSON_TEXT,
    TG_JSON_ARRAY,
    TG_JSON_OBJECT
} tg_json_kind;

/* Reads a file. Yours to free. Of a file whose name ends in ".jsonl", the root is an array of its values, one per line
 * (JSON Lines). FILE if the system refuses it. FORMAT, with the line, for text that is not JSON or not
 * UTF-8, for more than 64 arrays and objects inside of each other, for a name that an object has twice, for a string
 * with a NUL, and for a number of more than 60 characters or beyond a double's range. */
TG_API tg_json_document *tg_json_document_open(const char *path, tg_error *error);
TG_API void tg_json_document_free(tg_json_document *document);

/* Returns the value that the file is. */
TG_API const tg_json_value *tg_json_document_root(const tg_json_document *document);

/* Returns the kind of a value; TG_JSON_NULL for NULL. */
TG_API tg_json_kind tg_json_value_kind(const tg_json_value *value);

/* Returns the number of elements of an array, or of members of an object; 0 for other kinds. */
TG_API int64_t tg_json_value_count(const tg_json_value *value);

/* Returns element or member number `index`, in the order of the file; NULL for an index that does not exist. */
TG_API const tg_json_value *tg_json_value_at(const tg_json_value *value, int64_t index);

/* Returns the name of a member of an object; NULL for other values. */
TG_API const char *tg_json_value_name(const tg_json_value *value);

/* Returns the line on which a value begins, from 1. */
TG_API int64_t tg_json_value_line(const tg_json_value *value);

/* Returns the member of an object with this name. NULL, with FORMAT, if there is none, or if the value is no object. */
TG_API const tg_json_value *tg_json_value_find(const tg_json_value *value, const char *name, tg_error *error);

/* Returns a string, decoded, as UTF-8. NULL, with FORMAT, for another kind. */
TG_API const char *tg_json_value_text(const tg_json_value *value, tg_error *error);

/* Returns a number. FORMAT for another kind; the result is then NaN. */
TG_API double tg_json_value_number(const tg_json_value *value, tg_error *error);

/* Returns a whole number, exactly. FORMAT for another kind, and for a number that is not whole or not in the range of
 * int64_t; the result is then 0. */
TG_API int64_t tg_json_value_integer(const tg_json_value *value, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif

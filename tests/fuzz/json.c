/* A JSON file. A document is a tree: each value has one kind, its elements are in the order of the file, no line goes
 * back, and each member is found by its name. */
#include <math.h>
#include <string.h>

#include <tapegrad_tools.h>

#include "fuzz.h"

static void check(const tg_json_value *value, int64_t line, int depth)
{
    tg_error error = TG_NO_ERROR;
    tg_json_kind kind = tg_json_value_kind(value);
    fuzz_require(value && tg_json_value_line(value) >= line, "a value is on line %lld, after %lld",
                 (long long)tg_json_value_line(value), (long long)line);
    fuzz_require(depth <= 64, "depth %d", depth);
    const char *text = tg_json_value_text(value, &error);
    fuzz_require((text != NULL) == (kind == TG_JSON_TEXT) && (error.code == TG_OK) == (text != NULL), "text: %s",
                 error.text);
    tg_error_clear(&error);
    fuzz_require(isfinite(tg_json_value_number(value, &error)) == (kind == TG_JSON_NUMBER), "number: %s", error.text);
    tg_json_value_integer(value, &error);
    tg_error_clear(&error);
    fuzz_require(kind >= TG_JSON_ARRAY || tg_json_value_count(value) == 0, "a scalar has elements");
    for (int64_t i = 0; i < tg_json_value_count(value); i++) {
        const tg_json_value *element = tg_json_value_at(value, i);
        const char *name = tg_json_value_name(element);
        fuzz_require((name != NULL) == (kind == TG_JSON_OBJECT), "a name");
        if (name && i < 100) {
            fuzz_require(tg_json_value_find(value, name, &error) == element, "'%s': %s", name, error.text);
        }
        check(element, tg_json_value_line(value), depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    fuzz_memory_begin();
    tg_error error = TG_NO_ERROR;
    tg_json_document *document = tg_json_document_open(fuzz_file(bytes, size), &error);
    fuzz_require(document || (error.code == TG_ERROR_FORMAT && strstr(error.text, "line ")), "open: %s", error.text);
    if (document) {
        check(tg_json_document_root(document), 1, 0);
    }
    tg_json_document_free(document);
    fuzz_memory_end();
    return 0;
}

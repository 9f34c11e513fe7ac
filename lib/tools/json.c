/* json: a tree of values, from the tokens of the library's one reader of JSON (tapegrad/extend.h).
 *
 * Strings stay in the text of the file, which the reader decodes in place. Values are collected on a stack; when an
 * array or an object ends, its elements move to a block of their own. So the memory is in proportion to the file.
 *
 * The reader's errors have the line, from a list of line breaks that is made before the strings are decoded.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad/json.h>

static const char call[] = "json_document_open";

#define MOST_NESTING 64

struct tg_json_value {
    const tg_json_document *document;
    const char *name; /* of a member, else NULL */
    size_t at;        /* its first byte */
    int64_t line;
    tg_json_kind kind;
    const char *text; /* of a string; the digits of a number, which do not end with a NUL */
    double number;
    int64_t count;
    const tg_json_value *elements;
};

/* The elements of one array or object. */
typedef struct block {
    struct block *next;
    tg_json_value values[];
} block;

struct tg_json_document {
    char *path, *text;
    block *blocks;
    tg_json_value *stack; /* at the end it has one value, the root */
    size_t count, capacity;
};

typedef struct parser {
    tg_json json;
    tg_json_document *document;
    size_t *breaks; /* the positions of the line breaks */
    size_t break_count, break_capacity;
} parser;

/* ---- reading ---- */

static bool find_breaks(parser *p)
{
    for (size_t i = 0; i < p->json.length; i++) {
        if (p->json.text[i] != '\n') {
            continue;
        }
        if (!tg_grow(&p->breaks, &p->break_capacity, p->break_count, p->break_count + 1, sizeof *p->breaks)) {
            return tg_error_set(p->json.error, TG_ERROR_MEMORY, "%s: out of memory", call);
        }
        p->breaks[p->break_count++] = i;
    }
    p->json.has_lines = true;
    p->json.breaks = p->breaks;
    p->json.break_count = p->break_count;
    return true;
}

static bool out_of_memory(parser *p)
{
    p->json.failed = true;
    return tg_error_set(p->json.error, TG_ERROR_MEMORY, "%s: out of memory", call);
}

static bool push(parser *p, tg_json_value value)
{
    tg_json_document *d = p->document;
    if (!tg_grow(&d->stack, &d->capacity, d->count, d->count + 1, sizeof *d->stack)) {
        return out_of_memory(p);
    }
    value.document = d;
    d->stack[d->count++] = value;
    return true;
}

static int compare_names(const void *a, const void *b)
{
    const tg_json_value *const *x = a, *const *y = b;
    int order = strcmp((*x)->name, (*y)->name);
    return order ? order : (*x)->at < (*y)->at ? -1 : 1;
}

/* Refuses an object that has a name twice. */
static bool check_names(parser *p, const tg_json_value *members, size_t count)
{
    const tg_json_value **sorted = count > 1 ? tg_alloc(count, sizeof *sorted) : NULL;
    if (count > 1 && !sorted) {
        return out_of_memory(p);
    }
    for (size_t i = 0; sorted && i < count; i++) {
        sorted[i] = &members[i];
    }
    if (sorted) {
        qsort(sorted, count, sizeof *sorted, compare_names);
    }
    for (size_t i = 1; sorted && i < count && !p->json.failed; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0) {
            tg_json_fail(&p->json, sorted[i]->at, "the object has the name '%.*s' twice", TG_CUT(sorted[i]->name, 60));
        }
    }
    tg_free(sorted);
    return !p->json.failed;
}

static bool read_value(parser *p, const char *name, int depth);

/* Moves the values from number `first` of the stack on to a block, and pushes their array or object. */
static bool close_container(parser *p, size_t first, tg_json_value container)
{
    tg_json_document *d = p->document;
    size_t count = d->count - first;
    if (count > 0) {
        block *b = tg_alloc(1, sizeof *b + count * sizeof *b->values);
        if (!b) {
            return out_of_memory(p);
        }
        memcpy(b->values, d->stack + first, count * sizeof *b->values);
        b->next = d->blocks;
        d->blocks = b;
        container.elements = b->values;
        container.count = (int64_t)count;
    }
    d->count = first;
    return (container.kind != TG_JSON_OBJECT || check_names(p, container.elements, count)) && push(p, container);
}

static bool read_container(parser *p, tg_json_value container, int depth)
{
    tg_json *j = &p->json;
    bool is_object = container.kind == TG_JSON_OBJECT;
    if (depth == MOST_NESTING) {
        return tg_json_fail(j, j->at, "more than %d objects and arrays inside of each other", MOST_NESTING);
    }
    size_t first = p->document->count, members = 0;
    tg_json_text key = {NULL, 0};
    if (!tg_json_begin(j, is_object ? '{' : '[')) {
        return false;
    }
    while (is_object ? tg_json_key(j, &members, &key) : tg_json_more(j, ']', &members)) {
        if (!read_value(p, key.text, depth + 1)) {
            return false;
        }
    }
    return !j->failed && close_container(p, first, container);
}

static bool read_number(parser *p, tg_json_value *value)
{
    tg_json *j = &p->json;
    value->kind = TG_JSON_NUMBER;
    value->text = j->text + j->at;
    size_t at = j->at;
    return tg_json_number(j, &value->number) &&
           (isfinite(value->number) || tg_json_fail(j, at, "a number is beyond the range of a double"));
}

static bool read_value(parser *p, const char *name, int depth)
{
    tg_json *j = &p->json;
    int next = tg_json_next(j);
    tg_json_value value = {.name = name, .at = j->at, .line = tg_json_line(j, j->at)};
    tg_json_text text;
    switch (next) {
    case '{': value.kind = TG_JSON_OBJECT; return read_container(p, value, depth);
    case '[': value.kind = TG_JSON_ARRAY; return read_container(p, value, depth);
    case '"':
        if (!tg_json_string(j, &text)) {
            return false;
        }
        value.kind = TG_JSON_TEXT;
        value.text = text.text;
        return push(p, value);
    default: break;
    }
    if (next == '-' || (next >= '0' && next <= '9')) {
        return read_number(p, &value) && push(p, value);
    }
    static const char *const words[] = {"null", "false", "true"};
    for (int i = 0; i < 3; i++) {
        if (tg_json_word(j, words[i])) {
            value.kind = (tg_json_kind)i;
            return push(p, value);
        }
    }
    return tg_json_expected(j, "a value");
}

/* Reads the values of a file with one per line, as the elements of an array. */
static bool read_lines(parser *p)
{
    while (tg_json_next(&p->json) != -1) {
        if (!read_value(p, NULL, 1)) {
            return false;
        }
    }
    return close_container(p, 0, (tg_json_value){.kind = TG_JSON_ARRAY, .line = 1});
}

static bool read_document(tg_json_document *d, size_t length, tg_error *error)
{
    parser p = {.json = {.call = call, .path = d->path, .text = d->text, .length = length, .error = error},
                .document = d};
    size_t end = strlen(d->path);
    bool is_lines = end >= 6 && strcmp(d->path + end - 6, ".jsonl") == 0;
    bool is_read = find_breaks(&p) && tg_json_check_utf8(&p.json) &&
                   (is_lines ? read_lines(&p) : read_value(&p, NULL, 0) && tg_json_end(&p.json));
    tg_free(p.breaks);
    return is_read;
}

tg_json_document *tg_json_document_open(const char *path, tg_error *error)
{
    if (!path) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the path is NULL", call);
        return NULL;
    }
    size_t length, size = strlen(path) + 1;
    tg_json_document *d = tg_alloc_zeroed(1, sizeof *d);
    if (!d || !(d->path = tg_alloc(size, 1))) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        tg_json_document_free(d);
        return NULL;
    }
    memcpy(d->path, path, size);
    d->text = tg_file_read_text(call, path, &length, error);
    bool is_read = d->text && read_document(d, length, error);
    if (!is_read) {
        tg_json_document_free(d);
    }
    return is_read ? d : NULL;
}

void tg_json_document_free(tg_json_document *d)
{
    if (!d) {
        return;
    }
    while (d->blocks) {
        block *next = d->blocks->next;
        tg_free(d->blocks);
        d->blocks = next;
    }
    tg_free(d->stack);
    tg_free(d->text);
    tg_free(d->path);
    tg_free(d);
}

/* ---- getters ---- */

const tg_json_value *tg_json_document_root(const tg_json_document *d)
{
    return d ? d->stack : NULL;
}

tg_json_kind tg_json_value_kind(const tg_json_value *value)
{
    return value ? value->kind : TG_JSON_NULL;
}

int64_t tg_json_value_count(const tg_json_value *value)
{
    return value ? value->count : 0;
}

const tg_json_value *tg_json_value_at(const tg_json_value *value, int64_t index)
{
    return value && index >= 0 && index < value->count ? &value->elements[index] : NULL;
}

const char *tg_json_value_name(const tg_json_value *value)
{
    return value ? value->name : NULL;
}

int64_t tg_json_value_line(const tg_json_value *value)
{
    return value ? value->line : 0;
}

/* ---- values of a kind ---- */

/* Returns whether a value has this kind; if not, sets an error that says what it is. */
static bool expect(const char *getter, const tg_json_value *value, tg_json_kind kind, tg_error *error)
{
    static const char *const kinds[] = {"null", "false", "true", "a number", "a string", "an array", "an object"};
    if (!value) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the value is NULL", getter);
    }
    return value->kind == kind ||
           tg_error_set_at(error, value->line, (int64_t)value->at, "%s: '%s', line %lld: %s%s%s is %s; it must be %s",
                           getter, value->document->path, (long long)value->line, value->name ? "'" : "",
                           value->name ? value->name : "the value", value->name ? "'" : "", kinds[value->kind],
                           kinds[kind]);
}

const tg_json_value *tg_json_value_find(const tg_json_value *value, const char *name, tg_error *error)
{
    static const char getter[] = "json_value_find";
    if (!name) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the name is NULL", getter);
        return NULL;
    }
    if (!expect(getter, value, TG_JSON_OBJECT, error)) {
        return NULL;
    }
    for (int64_t i = 0; i < value->count; i++) {
        if (strcmp(value->elements[i].name, name) == 0) {
            return &value->elements[i];
        }
    }
    tg_error_set_at(error, value->line, (int64_t)value->at, "%s: '%s', line %lld: the object has no '%.*s'", getter,
                    value->document->path, (long long)value->line, TG_CUT(name, 60));
    return NULL;
}

const char *tg_json_value_text(const tg_json_value *value, tg_error *error)
{
    return expect("json_value_text", value, TG_JSON_TEXT, error) ? value->text : NULL;
}

double tg_json_value_number(const tg_json_value *value, tg_error *error)
{
    return expect("json_value_number", value, TG_JSON_NUMBER, error) ? value->number : NAN;
}

/* Reads digits, with a sign before them, exactly. Returns false if they are too many, or if another character of a
 * number follows. */
static bool read_integer(const char *text, int64_t *integer)
{
    bool is_negative = *text == '-';
    *integer = 0;
    for (text += is_negative; *text >= '0' && *text <= '9'; text++) {
        int64_t digit = is_negative ? '0' - *text : *text - '0';
        if (__builtin_mul_overflow(*integer, 10, integer) || __builtin_add_overflow(*integer, digit, integer)) {
            return false;
        }
    }
    return *text != '.' && *text != 'e' && *text != 'E';
}

int64_t tg_json_value_integer(const tg_json_value *value, tg_error *error)
{
    static const char getter[] = "json_value_integer";
    int64_t integer;
    if (!expect(getter, value, TG_JSON_NUMBER, error)) {
        return 0;
    }
    if (read_integer(value->text, &integer)) {
        return integer;
    }
    /* such as 2.0 or 1e3; a double below 2^53 is exact */
    if (fabs(value->number) < 9007199254740992.0 && value->number == floor(value->number)) {
        return (int64_t)value->number;
    }
    tg_error_set_at(error, value->line, (int64_t)value->at,
                    "%s: '%s', line %lld: %.17g is not a whole number of int64_t", getter, value->document->path,
                    (long long)value->line, value->number);
    return 0;
}

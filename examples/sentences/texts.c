/* texts: reads pairs of texts from TSV, CSV and JSON Lines. */
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad_tools.h>

#include "../common/terminal.h"
#include "sentences.h"

enum { QUERY, DOCUMENT, NAME, COLUMNS, LONGEST = 200, SHOWN = 70 };

/* An open file, a table or JSON Lines, and the columns that are read: their indices, -1 for one that is not read, and
 * their names, or "column 1" and so on for the first ones of a table. */
typedef struct source {
    const char *path;
    tg_csv *csv;
    tg_json_document *json;
    int index[COLUMNS];
    char names[COLUMNS][LONGEST];
    tg_error error;
} source;

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

static const tg_json_value *object_at(const source *s, int64_t row)
{
    return tg_json_value_at(tg_json_document_root(s->json), row);
}

/* Chooses the columns: those with these names, or the first ones. One column alone is the document. */
static bool choose_columns(source *s, const char *columns, bool are_pairs)
{
    const int64_t all = s->csv ? tg_csv_columns(s->csv) : tg_json_value_count(object_at(s, 0));
    int count = 0;
    for (const char *c = *columns ? columns : NULL; c; c = strchr(c, ',') ? strchr(c, ',') + 1 : NULL) {
        count++;
    }
    if (count > COLUMNS) {
        return complain("--columns %s: must be the names of at most %d columns", columns, COLUMNS);
    }
    count = *columns ? count : all < COLUMNS ? (int)all : COLUMNS;
    const int first = count == 1 ? DOCUMENT : QUERY;
    s->index[QUERY] = s->index[DOCUMENT] = s->index[NAME] = -1;
    const bool are_named = *columns;
    for (int i = 0; i < count; i++) {
        char *name = s->names[first + i];
        if (are_named) {
            snprintf(name, LONGEST, "%.*s", (int)strcspn(columns, ","), columns);
            columns += strcspn(columns, ",") + (i + 1 < count);
        } else if (s->json) {
            snprintf(name, LONGEST, "%s", tg_json_value_name(tg_json_value_at(object_at(s, 0), i)));
        } else {
            snprintf(name, LONGEST, "column %d", i + 1);
        }
        if (are_pairs || first + i != QUERY) {
            s->index[first + i] = s->csv && are_named ? tg_csv_find(s->csv, name, &s->error) : i;
        }
    }
    return s->error.code == TG_OK || complain("%s: %s", s->path, s->error.text);
}

static bool source_open(source *s, const char *path, const char *columns, bool are_pairs)
{
    *s = (source){.path = path, .error = TG_NO_ERROR};
    if (ends_with(path, ".jsonl")) {
        s->json = tg_json_document_open(path, &s->error);
    } else if (ends_with(path, ".csv") || ends_with(path, ".tsv")) {
        tg_csv_config config = tg_csv_config_default();
        config.separator = ends_with(path, ".tsv") ? '\t' : ',';
        config.loose_quotes = config.separator == '\t';
        s->csv = tg_csv_open(path, &config, &s->error);
    } else {
        return complain("%s: must end in .tsv, .csv or .jsonl", path);
    }
    return s->error.code != TG_OK ? complain("%s", s->error.text) : choose_columns(s, columns, are_pairs);
}

/* Returns the text of a column, or NULL if it is not there. */
static const char *text_at(source *s, int64_t row, int column)
{
    if (s->csv || s->index[column] < 0) {
        return tg_csv_field(s->csv, row, s->index[column]);
    }
    return tg_json_value_text(tg_json_value_find(object_at(s, row), s->names[column], &s->error), &s->error);
}

/* Returns the number of line breaks in the fields of a row. */
static int64_t breaks_in(const source *s, int64_t row)
{
    int64_t count = 0;
    for (int i = 0; i < tg_csv_columns(s->csv); i++) {
        for (const char *c = tg_csv_field(s->csv, row, i); *c; c++) {
            count += *c == '\n' || (*c == '\r' && c[1] != '\n');
        }
    }
    return count;
}

bool is_empty(const char *text)
{
    return !text || !text[strspn(text, " \t\r\n")];
}

/* Prints a row of a file of pairs, so that a wrong choice of columns is seen. */
static void print_row(const source *s, const text_row *row)
{
    const char *const kinds[] = {"query", "document", "name"}, *const fields[] = {row->query, row->document, row->name};
    print_line(stdout, "%s: the first row is", s->path);
    for (int i = 0; i < COLUMNS; i++) {
        if (s->index[i] >= 0) {
            const int shown = (int)tg_cut_bytes(fields[i], strlen(fields[i]), SHOWN);
            print_line(stdout, "  %-8s (%s): %.*s%s", kinds[i], s->names[i], shown, fields[i],
                       fields[i][shown] ? " ..." : "");
        }
    }
}

static bool add(texts *t, const char *query, const char *document, const char *name, const char *paths, int64_t line)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 1024;
        text_row *longer = realloc(t->at, (size_t)t->capacity * sizeof *longer);
        if (!longer) {
            return complain("out of memory");
        }
        t->at = longer;
    }
    text_row *to = &t->at[t->count++];
    *to = (text_row){query ? strdup(query) : NULL, strdup(document), strdup(name), paths, line};
    return (to->document && to->name && (to->query || !query)) || complain("out of memory");
}

static bool read_source(texts *t, source *s, const char *paths, bool are_pairs)
{
    if (are_pairs && s->csv && s->index[QUERY] < 0) {
        return complain("%s: it has one column; pairs have two, the query and the document", s->path);
    }
    const int64_t count = s->csv ? tg_csv_rows(s->csv) : tg_json_value_count(tg_json_document_root(s->json));
    int64_t line = 2;
    for (int64_t i = 0; i < count; i++) {
        const char *query = text_at(s, i, QUERY), *document = text_at(s, i, DOCUMENT), *name = text_at(s, i, NAME);
        if (s->error.code != TG_OK) {
            return complain("%s", s->error.text);
        }
        line = s->csv ? line : tg_json_value_line(object_at(s, i));
        if (is_empty(document) || (are_pairs && is_empty(query))) {
            return complain("%s: line %lld: the %s is empty", s->path, (long long)line,
                            is_empty(document) ? "document" : "query");
        }
        if (!add(t, query, document, name ? name : document, paths, line)) {
            return false;
        }
        if (are_pairs && i == 0) {
            print_row(s, &t->at[t->count - 1]);
        }
        line += s->csv ? 1 + breaks_in(s, i) : 0;
    }
    return count > 0 || complain("%s: it has no rows", s->path);
}

bool texts_read(texts *t, const char *paths, const char *columns, bool are_pairs)
{
    for (const char *begin = paths; begin; begin = strchr(begin, ',') ? strchr(begin, ',') + 1 : NULL) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%.*s", (int)strcspn(begin, ","), begin);
        source s;
        bool good = source_open(&s, path, columns, are_pairs) && read_source(t, &s, begin, are_pairs);
        tg_csv_free(s.csv);
        tg_json_document_free(s.json);
        if (!good) {
            return false;
        }
    }
    return true;
}

void text_row_free(text_row *r)
{
    free(r->query);
    free(r->document);
    free(r->name);
}

void texts_free(texts *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        text_row_free(&t->at[i]);
    }
    free(t->at);
    *t = (texts){0};
}

/* Returns a hash of a text: FNV-1a. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 14695981039346656037u;
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    }
    return hash;
}

bool texts_number(const texts *t, int32_t *numbers)
{
    /* a table of rows with different documents, from 1; at least half of the places are free */
    size_t places = 2;
    while (places < 2 * (size_t)t->count) {
        places *= 2;
    }
    int32_t *first = calloc(places, sizeof *first);
    for (int64_t i = 0; first && i < t->count; i++) {
        size_t at = hash_of(t->at[i].document) & (places - 1);
        while (first[at] && strcmp(t->at[first[at] - 1].document, t->at[i].document) != 0) {
            at = (at + 1) & (places - 1);
        }
        first[at] = first[at] ? first[at] : (int32_t)i + 1;
        numbers[i] = first[at] - 1;
    }
    free(first);
    return first || complain("out of memory");
}

int32_t *texts_drop_equal(texts *t)
{
    int32_t *numbers = malloc((size_t)t->count * sizeof *numbers + 1), kept = 0;
    if (!numbers || !texts_number(t, numbers)) {
        complain("out of memory");
        free(numbers);
        return NULL;
    }
    for (int64_t i = 0; i < t->count; i++) {
        if (numbers[i] == i) {
            numbers[i] = kept;
            t->at[kept++] = t->at[i];
        } else {
            numbers[i] = numbers[numbers[i]];
            text_row_free(&t->at[i]);
        }
    }
    t->count = kept;
    return numbers;
}

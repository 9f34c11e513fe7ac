/* csv: reads a CSV file by RFC 4180 into a table of texts.
 *
 * The text of the file is kept. Each field is unquoted in place and ends with a NUL, and the table has the offset of
 * each field. A field never grows, so the text that was not read yet is not overwritten.
 */
#include "tools/csv.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>

static const char call[] = "csv_open";

TG_CONFIG(tg_csv_config, tg_csv_config_default, mark, .mark = mark, .separator = ',', .has_header = true);

/* The state of the reader: where it reads and writes, and the line and the field, both from 1. */
typedef struct reader {
    tg_csv *csv;
    const char *path;
    size_t at, out, length;
    char separator;
    bool loose_quotes;
    int64_t line, field;
    tg_error *error;
} reader;

static bool refuse(const reader *r, const char *what)
{
    return tg_error_set_at(r->error, r->line, -1, "%s: '%s', line %lld, field %lld: %s", call, r->path,
                           (long long)r->line, (long long)r->field, what);
}

/* Returns the length of the line break at the reader's position, LF, CR LF or CR, or 0. */
static size_t line_break(const reader *r)
{
    const char *text = r->csv->text + r->at;
    return *text == '\n' ? 1 : *text == '\r' ? 1 + (text[1] == '\n') : 0;
}

static bool ends_field(const reader *r)
{
    return r->at == r->length || r->csv->text[r->at] == r->separator || line_break(r) > 0;
}

static bool read_plain(reader *r)
{
    char *text = r->csv->text;
    for (; !ends_field(r); r->at++) {
        if (text[r->at] == '"' && !r->loose_quotes) {
            return refuse(r, "a quote in a field without quotes");
        }
        text[r->out++] = text[r->at];
    }
    return true;
}

/* Copies a field that begins behind its opening quote, without quotes. */
static bool read_quoted(reader *r)
{
    char *text = r->csv->text;
    int64_t first_line = r->line;
    for (;; r->at++) {
        if (r->at == r->length) {
            r->line = first_line;
            return refuse(r, "the closing quote is missing");
        }
        if (text[r->at] == '"' && text[++r->at] != '"') {
            return ends_field(r) || (r->loose_quotes ? read_plain(r) : refuse(r, "text after the closing quote"));
        }
        r->line += text[r->at] == '\n' || (text[r->at] == '\r' && text[r->at + 1] != '\n');
        text[r->out++] = text[r->at];
    }
}

/* Reads a field and its end. Sets *is_last at the end of a row. */
static bool read_field(reader *r, bool *is_last)
{
    tg_csv *csv = r->csv;
    if (!tg_grow(&csv->fields, &csv->field_capacity, csv->field_count, csv->field_count + 1, sizeof *csv->fields)) {
        return tg_error_set(r->error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    csv->fields[csv->field_count++] = r->out;
    bool is_quoted = r->at < r->length && csv->text[r->at] == '"';
    r->at += is_quoted;
    if (!(is_quoted ? read_quoted(r) : read_plain(r))) {
        return false;
    }
    size_t end = r->at < r->length ? line_break(r) : 0;
    *is_last = r->at == r->length || end > 0;
    r->at += *is_last ? end : 1;
    csv->text[r->out++] = '\0'; /* the separator, the line break or the NUL behind the text leaves this byte free */
    return true;
}

static bool read_row(reader *r)
{
    tg_csv *csv = r->csv;
    if (!tg_grow(&csv->lines, &csv->line_capacity, csv->line_count, csv->line_count + 1, sizeof *csv->lines)) {
        return tg_error_set(r->error, TG_ERROR_MEMORY, "%s: out of memory", call);
    }
    csv->lines[csv->line_count++] = r->line;
    bool is_last = false;
    for (r->field = 1; !is_last; r->field++) {
        if (!read_field(r, &is_last)) {
            return false;
        }
    }
    int64_t found = r->field - 1;
    if (found > INT_MAX) {
        return tg_error_set_at(r->error, csv->lines[csv->line_count - 1], -1,
                               "%s: '%s', line %lld: %lld fields; at most %d are read", call, r->path,
                               (long long)csv->lines[csv->line_count - 1], (long long)found, INT_MAX);
    }
    csv->columns = csv->line_count == 1 ? (int)found : csv->columns;
    if (found != csv->columns) {
        r->field = found;
        return tg_error_set_at(r->error, csv->lines[csv->line_count - 1], -1,
                               "%s: '%s', line %lld: %lld fields; the first line has %d", call, r->path,
                               (long long)csv->lines[csv->line_count - 1], (long long)found, csv->columns);
    }
    r->line++;
    return true;
}

static bool read_table(reader *r)
{
    size_t terminator = strlen(r->csv->text);
    if (terminator != r->length) {
        return tg_error_set_at(r->error, -1, (int64_t)terminator, "%s: '%s' has a NUL at byte %zu", call, r->path,
                               terminator);
    }
    r->at = strncmp(r->csv->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (r->length > r->at && strchr("\r\n", r->csv->text[r->length - 1])) {
        r->length--; /* the last line break, and blank lines */
    }
    if (r->at == r->length) {
        return tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s' is empty", call, r->path);
    }
    while (r->at < r->length) {
        if (!read_row(r)) {
            return false;
        }
    }
    r->csv->rows = (int64_t)r->csv->line_count - r->csv->has_header;
    return true;
}

tg_csv *tg_csv_open(const char *path, const tg_csv_config *given, tg_error *error)
{
    if (!path) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the path is NULL", call);
        return NULL;
    }
    if (!tg_config_check(call, given, mark, error)) {
        return NULL;
    }
    tg_csv_config config = given ? *given : tg_csv_config_default();
    if (config.separator == '"' || config.separator == '\n' || config.separator == '\r' || config.separator == '\0') {
        tg_error_set(error, TG_ERROR_VALUE, "%s: the separator must be no quote, line break or NUL", call);
        return NULL;
    }
    tg_csv *csv = tg_alloc_zeroed(1, sizeof *csv);
    if (!csv) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        return NULL;
    }
    reader r = {.csv = csv, .path = path, .separator = config.separator, .line = 1, .error = error};
    r.loose_quotes = config.loose_quotes;
    csv->has_header = config.has_header;
    csv->text = tg_file_read_text(call, path, &r.length, error);
    if (!csv->text || !read_table(&r)) {
        tg_csv_free(csv);
        return NULL;
    }
    return csv;
}

void tg_csv_free(tg_csv *csv)
{
    if (csv) {
        tg_free(csv->text);
        tg_free(csv->fields);
        tg_free(csv->lines);
        tg_free(csv);
    }
}

int64_t tg_csv_rows(const tg_csv *csv)
{
    return csv ? csv->rows : 0;
}

int tg_csv_columns(const tg_csv *csv)
{
    return csv ? csv->columns : 0;
}

/* Reports that the header has no such name, and lists the names that it has. */
static int no_column(const tg_csv *csv, const char *name, tg_error *error)
{
    char list[TG_ERROR_TEXT] = "";
    size_t length = 0;
    for (int i = 0; i < csv->columns && length < sizeof list; i++) {
        length += (size_t)snprintf(list + length, sizeof list - length, "%s'%.*s'", i > 0 ? ", " : "",
                                   TG_CUT(csv->text + csv->fields[i], 60));
    }
    tg_error_set(error, TG_ERROR_RANGE, "csv_find: no column '%.*s' exists; the columns are %s", TG_CUT(name, 60),
                 list);
    return -1;
}

int tg_csv_find(const tg_csv *csv, const char *name, tg_error *error)
{
    const char *flaw = !csv               ? "the csv is NULL"
                       : !name            ? "the name is NULL"
                       : !csv->has_header ? "the csv has no header"
                                          : NULL;
    if (flaw) {
        tg_error_set(error, TG_ERROR_STATE, "csv_find: %s", flaw);
        return -1;
    }
    for (int i = 0; i < csv->columns; i++) {
        if (strcmp(csv->text + csv->fields[i], name) == 0) {
            return i;
        }
    }
    return no_column(csv, name, error);
}

const char *tg_csv_field(const tg_csv *csv, int64_t row, int column)
{
    if (!csv || row < 0 || row >= csv->rows || column < 0 || column >= csv->columns) {
        return NULL;
    }
    return csv->text + csv->fields[(row + csv->has_header) * csv->columns + column];
}

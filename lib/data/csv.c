/* csv: reads a CSV file by RFC 4180 into a table of texts, and columns of it into tensors.
 *
 * The text of the file is kept. Each field is unquoted in place and ends with a NUL, and the table has the offset of
 * each field. A field never grows, so the text that was not read yet is not overwritten.
 */
#include <tapegrad/dataset.h>

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/config.h"
#include "data/file.h"
#include "tensor/tensor.h"

struct tg_csv {
    char *text;
    size_t *fields; /* offsets in text, row after row, the header first */
    int64_t *lines; /* of each row, the number of its first line */
    size_t field_count, field_capacity, line_count, line_capacity;
    int64_t rows, columns;
    bool has_header;
};

static const char call[] = "csv_open";
static const char mark[] = "tg_csv_config_default";

tg_csv_config tg_csv_config_default(void)
{
    return (tg_csv_config){.mark = mark, .separator = ',', .has_header = true};
}

/* The state of the reader: where it reads and writes, and the line and the field, both from 1. */
typedef struct reader {
    tg_csv *csv;
    const char *path;
    size_t at, out, length;
    char separator;
    int64_t line, field;
    tg_error *error;
} reader;

static bool refuse(const reader *r, const char *what)
{
    return tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s', line %lld, field %lld: %s", call, r->path,
                        (long long)r->line, (long long)r->field, what);
}

/* Returns the length of the line break at the reader's position, or 0. */
static size_t line_break(const reader *r)
{
    const char *text = r->csv->text + r->at;
    return *text == '\n' ? 1 : *text == '\r' && text[1] == '\n' ? 2 : 0;
}

static bool ends_field(const reader *r)
{
    return r->at == r->length || r->csv->text[r->at] == r->separator || line_break(r) > 0;
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
            return ends_field(r) || refuse(r, "text after the closing quote");
        }
        r->line += text[r->at] == '\n';
        text[r->out++] = text[r->at];
    }
}

static bool read_plain(reader *r)
{
    char *text = r->csv->text;
    for (; !ends_field(r); r->at++) {
        if (text[r->at] == '"') {
            return refuse(r, "a quote in a field without quotes");
        }
        text[r->out++] = text[r->at];
    }
    return true;
}

/* Reads a field and its end. Sets *is_last at the end of a row. */
static bool read_field(reader *r, bool *is_last)
{
    tg_csv *csv = r->csv;
    if (!tg_grow((void **)&csv->fields, &csv->field_capacity, csv->field_count, csv->field_count + 1,
                 sizeof *csv->fields)) {
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
    if (!tg_grow((void **)&csv->lines, &csv->line_capacity, csv->line_count, csv->line_count + 1, sizeof *csv->lines)) {
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
    csv->columns = csv->line_count == 1 ? found : csv->columns;
    if (found != csv->columns) {
        r->field = found;
        return tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s', line %lld: %lld fields; the first line has %lld",
                            call, r->path, (long long)csv->lines[csv->line_count - 1], (long long)found,
                            (long long)csv->columns);
    }
    r->line++;
    return true;
}

static bool read_table(reader *r)
{
    size_t terminator = strlen(r->csv->text);
    if (terminator != r->length) {
        return tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s' has a NUL at byte %zu", call, r->path, terminator);
    }
    r->at = strncmp(r->csv->text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
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
    csv->has_header = config.has_header;
    csv->text = tg_text_read_for(call, path, &r.length, error);
    if (!csv->text || !read_table(&r)) {
        tg_csv_free(csv);
        return NULL;
    }
    return csv;
}

void tg_csv_free(tg_csv *csv)
{
    if (csv) {
        tg_text_free(csv->text);
        tg_free(csv->fields);
        tg_free(csv->lines);
        tg_free(csv);
    }
}

int64_t tg_csv_rows(const tg_csv *csv)
{
    return csv ? csv->rows : 0;
}

int64_t tg_csv_columns(const tg_csv *csv)
{
    return csv ? csv->columns : 0;
}

int64_t tg_csv_find(const tg_csv *csv, const char *name)
{
    for (int64_t i = 0; csv && name && csv->has_header && i < csv->columns; i++) {
        if (strcmp(csv->text + csv->fields[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

const char *tg_csv_field(const tg_csv *csv, int64_t row, int64_t column)
{
    if (!csv || row < 0 || row >= csv->rows || column < 0 || column >= csv->columns) {
        return NULL;
    }
    return csv->text + csv->fields[(row + csv->has_header) * csv->columns + column];
}

static bool check_column(const tg_csv *csv, const char *name, int column, tg_error *error)
{
    return (column >= 0 && column < csv->columns) ||
           tg_error_set(error, TG_ERROR_RANGE, "%s: column %d is outside [0,%lld)", name, column,
                        (long long)csv->columns);
}

/* Converts a number with a decimal point, in any locale. Returns false if the text is no number. */
static bool parse_number(const char *text, double *value)
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

/* Checks that the dtype represents a number. */
static bool fits(double value, tg_dtype dtype)
{
    return tg_dtype_is_float(dtype) || (value == floor(value) && value >= (dtype == TG_I32 ? INT32_MIN : 0) &&
                                        value <= (dtype == TG_I32 ? INT32_MAX : UINT8_MAX));
}

tg_tensor *tg_csv_new_numbers(const tg_csv *csv, const int *columns, int count, tg_dtype dtype, tg_error *error)
{
    static const char name[] = "csv_new_numbers";
    if (!csv || !columns) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", name, csv ? "array of columns" : "csv");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (!check_column(csv, name, columns[i], error)) {
            return NULL;
        }
    }
    tg_tensor *x = tg_tensor_new(dtype, tg_shape_make(2, (int64_t[]){csv->rows, count}), error);
    for (int64_t i = 0; x && i < csv->rows * count; i++) {
        const char *text = tg_csv_field(csv, i / count, columns[i % count]);
        double value = (double)NAN;
        bool is_number = *text ? parse_number(text, &value) && fits(value, dtype) : tg_dtype_is_float(dtype);
        if (!is_number) {
            tg_error_set(error, TG_ERROR_FORMAT, "%s: line %lld, field %d: '%.40s' is not a number of %s", name,
                         (long long)csv->lines[i / count + csv->has_header], columns[i % count] + 1, text,
                         tg_dtype_name(dtype));
            tg_release(x);
            return NULL;
        }
        tg_convert((char *)tg_values(x) + (size_t)i * tg_size_of(dtype), dtype, &value, TG_F64, 1);
    }
    return x;
}

/* A row with its text, for sorting. */
typedef struct labeled_row {
    const char *text;
    int64_t row;
} labeled_row;

static int compare_rows(const void *a, const void *b)
{
    const labeled_row *left = a, *right = b;
    int order = strcmp(left->text, right->text);
    return order != 0 ? order : left->row < right->row ? -1 : 1;
}

/* Sorts the rows by text, so that equal texts are neighbors, and writes to first[row] the first row of its text. */
static void find_first_rows(labeled_row *sorted, int64_t rows, int64_t *first)
{
    qsort(sorted, (size_t)rows, sizeof *sorted, compare_rows);
    for (int64_t i = 0, begin = 0; i < rows; i++) {
        begin = strcmp(sorted[i].text, sorted[begin].text) == 0 ? begin : i;
        first[sorted[i].row] = sorted[begin].row;
    }
}

tg_tensor *tg_csv_new_categories(const tg_csv *csv, int column, int64_t *categories, int64_t *category_count,
                                 tg_error *error)
{
    static const char name[] = "csv_new_categories";
    if (!csv) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the csv is NULL", name);
        return NULL;
    }
    if (!check_column(csv, name, column, error)) {
        return NULL;
    }
    int64_t rows = csv->rows, found = 0;
    tg_tensor *ids = tg_tensor_new(TG_I32, tg_shape_make(1, &rows), error);
    labeled_row *sorted = tg_alloc((size_t)rows + 1, sizeof *sorted);
    int64_t *first = tg_alloc((size_t)rows + 1, sizeof *first);
    if (ids && sorted && first) {
        for (int64_t i = 0; i < rows; i++) {
            sorted[i] = (labeled_row){tg_csv_field(csv, i, column), i};
        }
        find_first_rows(sorted, rows, first);
        int32_t *id = tg_values(ids);
        for (int64_t i = 0; i < rows; i++) {
            if (first[i] == i && categories) {
                categories[found] = i;
            }
            id[i] = first[i] == i ? (int32_t)found++ : id[first[i]];
        }
        if (category_count) {
            *category_count = found;
        }
    } else {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld rows", name, (long long)rows);
        tg_release(ids);
        ids = NULL;
    }
    tg_free(sorted);
    tg_free(first);
    return ids;
}

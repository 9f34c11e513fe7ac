/* csv_tensors: columns of a CSV file as tensors: numbers, and texts as ids. */
#include "tools/csv.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/extend.h>

static bool check_column(const tg_csv *csv, const char *call, int column, tg_error *error)
{
    return (column >= 0 && column < csv->columns) ||
           tg_error_set(error, TG_ERROR_RANGE, "%s: column %d is outside [0,%d)", call, column, csv->columns);
}

/* Returns whether a number, as strtod accepts it, is an integer: whether its last digit that is not 0 stands before the
 * point, once the exponent has moved the point. The value alone does not show it: 1e-400 is read as 0. */
static bool is_whole(const char *text)
{
    long point = (long)strcspn(text, ".eE"), last = LONG_MIN; /* how far the last digit that is not 0 is behind it */
    const char *c = text;
    for (; *c && *c != 'e' && *c != 'E'; c++) {
        long behind = (long)(c - text) - point;
        last = *c >= '1' && *c <= '9' ? behind + (behind < 0) : last;
    }
    return last == LONG_MIN || last <= (*c ? strtol(c + 1, NULL, 10) : 0);
}

static bool is_float(tg_dtype dtype)
{
    return dtype == TG_F32 || dtype == TG_F64;
}

static void store(void *values, tg_dtype dtype, int64_t i, double value)
{
    switch (dtype) {
    case TG_F32: ((float *)values)[i] = (float)value; break;
    case TG_F64: ((double *)values)[i] = value; break;
    case TG_I32: ((int32_t *)values)[i] = (int32_t)value; break;
    case TG_U8: ((uint8_t *)values)[i] = (uint8_t)value; break;
    case TG_BF16: break; /* refused before */
    }
}

/* Checks that the dtype represents a number. */
static bool fits(const char *text, double value, tg_dtype dtype)
{
    return is_float(dtype) || (value >= (dtype == TG_I32 ? INT32_MIN : 0) &&
                               value <= (dtype == TG_I32 ? INT32_MAX : UINT8_MAX) && is_whole(text));
}

tg_tensor *tg_csv_new_numbers(const tg_csv *csv, const int *columns, int count, tg_dtype dtype, tg_error *error)
{
    static const char call[] = "csv_new_numbers";
    if (!csv || !columns) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, csv ? "array of columns" : "csv");
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        if (!check_column(csv, call, columns[i], error)) {
            return NULL;
        }
    }
    if (dtype == TG_BF16) {
        tg_error_set(error, TG_ERROR_DTYPE, "%s: bf16; it must be f32, f64, i32 or u8 (tg_tensor_new_cast)", call);
        return NULL;
    }
    tg_tensor *x = tg_tensor_new(dtype, tg_shape_make(2, (int64_t[]){csv->rows, count}), error);
    void *values = tg_tensor_data_mut(x);
    for (int64_t i = 0; x && i < csv->rows * count; i++) {
        const char *text = tg_csv_field(csv, i / count, columns[i % count]);
        double value = (double)NAN;
        bool is_number = *text ? tg_parse_number(text, &value) && fits(text, value, dtype) : is_float(dtype);
        if (!is_number) {
            tg_error_set_at(error, csv->lines[i / count + csv->has_header], -1,
                            "%s: line %lld, field %d: '%.*s' is not a number of %s", call,
                            (long long)csv->lines[i / count + csv->has_header], columns[i % count] + 1,
                            TG_CUT(text, 40), tg_dtype_name(dtype));
            tg_release(x);
            return NULL;
        }
        store(values, dtype, i, value);
    }
    return x;
}

/* ---- texts as ids ---- */

/* A row with its text, for sorting. */
typedef struct labeled_row {
    const char *text;
    int64_t row;
} labeled_row;

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const labeled_row *)a)->text, ((const labeled_row *)b)->text);
}

static int compare_rows(const void *a, const void *b)
{
    const labeled_row *left = a, *right = b;
    int order = compare_texts(left, right);
    return order != 0 ? order : left->row < right->row ? -1 : 1;
}

/* Returns the rows, sorted by the text of a column, so that equal texts are neighbors. Yours (tg_free). */
static labeled_row *sort_rows(const tg_csv *csv, const char *call, int column, tg_error *error)
{
    labeled_row *sorted = tg_alloc((size_t)csv->rows + 1, sizeof *sorted);
    if (!sorted) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld rows", call, (long long)csv->rows);
        return NULL;
    }
    for (int64_t i = 0; i < csv->rows; i++) {
        sorted[i] = (labeled_row){tg_csv_field(csv, i, column), i};
    }
    qsort(sorted, (size_t)csv->rows, sizeof *sorted, compare_rows);
    return sorted;
}

tg_tensor *tg_csv_new_categories(const tg_csv *csv, int column, int64_t *categories, int64_t *category_count,
                                 tg_error *error)
{
    static const char call[] = "csv_new_categories";
    if (!csv) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the csv is NULL", call);
        return NULL;
    }
    if (!check_column(csv, call, column, error)) {
        return NULL;
    }
    int64_t rows = csv->rows, found = 0;
    tg_tensor *ids = tg_tensor_new(TG_I32, tg_shape_make(1, &rows), error);
    labeled_row *sorted = ids ? sort_rows(csv, call, column, error) : NULL;
    if (!sorted) {
        tg_release(ids);
        return NULL;
    }
    /* first, for each row, the first row with its text; then the id of that row, which is known by then */
    int32_t *id = tg_tensor_data_mut(ids);
    for (int64_t i = 0, begin = 0; i < rows; i++) {
        begin = compare_texts(&sorted[i], &sorted[begin]) == 0 ? begin : i;
        id[sorted[i].row] = (int32_t)sorted[begin].row;
    }
    for (int64_t i = 0; i < rows; i++) {
        bool is_first = id[i] == i;
        if (is_first && categories) {
            categories[found] = i;
        }
        id[i] = is_first ? (int32_t)found++ : id[id[i]];
    }
    if (category_count) {
        *category_count = found;
    }
    tg_free(sorted);
    return ids;
}

tg_tensor *tg_csv_new_known_categories(const tg_csv *csv, int column, const tg_csv *known, int known_column,
                                       tg_error *error)
{
    static const char call[] = "csv_new_known_categories";
    if (!csv || !known) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, csv ? "csv with the known categories" : "csv");
        return NULL;
    }
    if (!check_column(csv, call, column, error) || !check_column(known, call, known_column, error)) {
        return NULL;
    }
    int64_t count;
    tg_tensor *known_ids = tg_csv_new_categories(known, known_column, NULL, &count, error);
    labeled_row *sorted = known_ids ? sort_rows(known, call, known_column, error) : NULL;
    tg_tensor *ids = sorted ? tg_tensor_new(TG_I32, tg_shape_make(1, &csv->rows), error) : NULL;
    int32_t *id = tg_tensor_data_mut(ids);
    const int32_t *known_id = tg_tensor_data(known_ids);
    for (int64_t i = 0; ids && i < csv->rows; i++) {
        labeled_row wanted = {tg_csv_field(csv, i, column), i};
        const labeled_row *found = bsearch(&wanted, sorted, (size_t)known->rows, sizeof *sorted, compare_texts);
        if (found) {
            id[i] = known_id[found->row];
        } else {
            tg_error_set_at(error, csv->lines[i + csv->has_header], -1,
                            "%s: line %lld, field %d: '%.*s' is none of the %lld known categories", call,
                            (long long)csv->lines[i + csv->has_header], column + 1, TG_CUT(wanted.text, 40),
                            (long long)count);
            tg_release(ids);
            ids = NULL;
        }
    }
    tg_free(sorted);
    tg_release(known_ids);
    return ids;
}

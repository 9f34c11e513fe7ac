/* A CSV file. The first byte has its options, the others are the file. Its fields, written in quotes, are read back,
 * the ids of a column are those of its texts, and a number is what strtod reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad_tools.h>

#include "fuzz.h"

/* Returns the table as a text in which every field is in quotes. */
static char *quote(const tg_csv *csv, char separator, bool has_header, size_t size, size_t *length)
{
    /* a quote becomes two, and each field has two quotes and an end, but takes at least one byte of the file */
    char *text = malloc(5 * size + 16), *out = text;
    for (int64_t row = has_header ? -1 : 0; row < tg_csv_rows(csv); row++) {
        for (int column = 0; column < tg_csv_columns(csv); column++) {
            /* the names of the columns are not fields: any name is found at its own column */
            const char *field = row < 0 ? "" : tg_csv_field(csv, row, column);
            *out++ = '"';
            for (; *field; field++) {
                *out++ = *field;
                if (*field == '"') {
                    *out++ = '"';
                }
            }
            *out++ = '"';
            *out++ = column + 1 < tg_csv_columns(csv) ? separator : '\n';
        }
    }
    *length = (size_t)(out - text);
    return text;
}

static void compare(const tg_csv *a, const tg_csv *b)
{
    fuzz_require(b && tg_csv_rows(a) == tg_csv_rows(b) && tg_csv_columns(a) == tg_csv_columns(b), "another shape");
    for (int64_t i = 0; i < tg_csv_rows(a) * tg_csv_columns(a); i++) {
        int64_t row = i / tg_csv_columns(a);
        int column = (int)(i % tg_csv_columns(a));
        fuzz_require(strcmp(tg_csv_field(a, row, column), tg_csv_field(b, row, column)) == 0, "field %lld,%d",
                     (long long)row, column);
    }
}

static void check_categories(const tg_csv *csv, int column)
{
    int64_t rows = tg_csv_rows(csv), count = -1, *first = malloc((size_t)rows * sizeof *first + 1);
    tg_tensor *ids = tg_csv_new_categories(csv, column, first, &count, NULL);
    fuzz_require(ids != NULL, "no categories");
    for (int64_t row = 0; row < rows; row++) {
        int64_t id = (int64_t)tg_tensor_value_at(ids, row);
        fuzz_require(id >= 0 && id < count && first[id] <= row &&
                         strcmp(tg_csv_field(csv, first[id], column), tg_csv_field(csv, row, column)) == 0,
                     "row %lld has the id %lld", (long long)row, (long long)id);
        fuzz_require(id == 0 || first[id - 1] < first[id], "the ids are not in the order of the rows");
    }
    tg_release(ids);
    free(first);
}

static void check_numbers(const tg_csv *csv, int column)
{
    for (int dtype = TG_F32; dtype <= TG_U8; dtype++) {
        tg_error error = TG_NO_ERROR;
        tg_tensor *x = tg_csv_new_numbers(csv, &column, 1, (tg_dtype)dtype, &error);
        fuzz_require(x || error.code == TG_ERROR_FORMAT, "numbers: %s", error.text);
        for (int64_t row = 0; x && row < tg_csv_rows(csv); row++) {
            const char *text = tg_csv_field(csv, row, column);
            double expected = strtod(text, NULL), found = tg_tensor_value_at(x, row);
            expected = dtype == TG_F32 ? (double)(float)expected : expected;
            fuzz_require(*text ? found == expected || (found != found && expected != expected) : found != found,
                         "'%s' is read as %g", text, found);
        }
        tg_release(x);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char separators[] = {',', ';', '\t', ' ', 'e', '"', '\n', '\0'};
    fuzz_input input = {bytes, size};
    unsigned options = fuzz_byte(&input);
    fuzz_memory_begin();
    tg_error error = TG_NO_ERROR;
    tg_csv_config config = tg_csv_config_default();
    config.has_header = options & 1;
    config.separator = separators[options / 2 % 8];
    config.loose_quotes = options & 16;
    bool is_valid = options / 2 % 8 < 5;
    tg_csv *csv = tg_csv_open(fuzz_file(input.bytes, input.size), &config, &error);
    fuzz_require(csv ? is_valid : error.code == (is_valid ? TG_ERROR_FORMAT : TG_ERROR_VALUE), "open: %s", error.text);
    if (csv) {
        size_t length;
        char *text = quote(csv, config.separator, config.has_header, input.size, &length);
        tg_csv *again = tg_csv_open(fuzz_file(text, length), &config, &error);
        fuzz_require(again != NULL, "the same table in quotes: %s", error.text);
        compare(csv, again);
        for (int column = 0; column < tg_csv_columns(csv) && column < 5; column++) {
            check_categories(csv, column);
            check_numbers(csv, column);
        }
        tg_csv_free(again);
        free(text);
    }
    tg_csv_free(csv);
    fuzz_memory_end();
    return 0;
}

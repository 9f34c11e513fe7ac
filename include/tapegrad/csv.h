/* csv: the columns of a CSV file (RFC 4180) as tensors.
 * Library: tapegrad_tools (pkg-config tapegrad_tools).
 *
 * Lines end with CR LF, LF or CR. A field in double quotes may contain separators, line breaks, and quotes, which are
 * doubled. Spaces belong to the fields. A byte-order mark of UTF-8 is skipped, and so are blank lines at the end: there
 * an empty field of a table of one column needs quotes. Files of texts that were written without regard to quotes are
 * read with `loose_quotes`.
 *
 * Unlike Python's csv, a blank line before the last row is a line of one empty field, as in RFC 4180.
 *
 * Errors. The comments do not repeat three errors: MEMORY; FILE, of a call that takes a path; and STATE for a NULL.
 */
#ifndef TAPEGRAD_CSV_H
#define TAPEGRAD_CSV_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_csv tg_csv;

typedef struct tg_csv_config {
    /* private: tg_csv_config_default() sets it */
    tg_config_mark mark;
    /* the character between fields, neither a quote nor a line break; default ',' */
    char separator;
    /* whether the first line has the names of the columns; default true */
    bool has_header;
    /* whether quotes are read as by pandas.read_csv: a quote inside a field without quotes belongs to the text, and
     * text after a closing quote continues the field without quotes. Default false: both are errors */
    bool loose_quotes;
} tg_csv_config;

TG_API tg_csv_config tg_csv_config_default(void);

/* Reads a file. Yours to free. FORMAT, with the line and the field, both counted from 1, for a line with another number
 * of fields than the first one, a quote inside a field without quotes, text after a closing quote, a missing closing
 * quote (with the line of the opening one), and a NUL. FORMAT also for a file without a line; VALUE for an invalid
 * separator. */
TG_API tg_csv *tg_csv_open(const char *path, const tg_csv_config *config, tg_error *error);
TG_API void tg_csv_free(tg_csv *csv);

/* Return the number of rows, without the header, and the number of columns. */
TG_API int64_t tg_csv_rows(const tg_csv *csv);
TG_API int tg_csv_columns(const tg_csv *csv);

/* Returns the index of the column with this name, or -1 with RANGE; the error lists the columns. STATE without a
 * header. The result can be passed on without a check: the other calls treat -1 as a column that does not exist, and
 * keep the first error. */
TG_API int tg_csv_find(const tg_csv *csv, const char *name, tg_error *error);

/* Returns a field, borrowed from the csv; NULL for an index that does not exist. */
TG_API const char *tg_csv_field(const tg_csv *csv, int64_t row, int column);

/* Returns the numbers of `count` columns as a tensor (rows,count) of this dtype. Yours (tg_release). An empty field is
 * NaN in f32 and f64. FORMAT, with the line and the field, if any other field is not a number or, for i32 and u8, not
 * an integer in the dtype's range; RANGE for a column that does not exist. */
TG_API tg_tensor *tg_csv_new_numbers(const tg_csv *csv, const int *columns, int count, tg_dtype dtype, tg_error *error);

/* Returns the texts of a column as ids (rows) i32, numbered in the order in which they first appear. Yours
 * (tg_release). categories[id] becomes the first row with the text of `id`, and *category_count the number of different
 * texts. Both are optional; `categories` needs room for tg_csv_rows entries. RANGE for a column that does not exist. */
TG_API tg_tensor *tg_csv_new_categories(const tg_csv *csv, int column, int64_t *categories, int64_t *category_count,
                                        tg_error *error);

/* Returns the texts of a column as ids (rows) i32, with the ids that tg_csv_new_categories gives to a column of another
 * file. So a test set gets the ids of the training set. Yours (tg_release). FORMAT, with the line and the field, for a
 * text that is not in the other column; RANGE for a column that does not exist. */
TG_API tg_tensor *tg_csv_new_known_categories(const tg_csv *csv, int column, const tg_csv *known, int known_column,
                                              tg_error *error);

#ifdef __cplusplus
}
#endif

#endif

/* words_vectors: the vectors of words as files of word2vec and of GloVe.
 *
 * The format belongs to this library and not to the core: a file has words, and the core knows none. A file is read in
 * pieces, so the memory of a large one is that of its vectors and words. The numbers of its first line are compared
 * with its size before anything is allocated. A file without such a line, as GloVe writes it, is read twice: its lines
 * are counted first.
 *
 * Where gensim reads more, the rows would not be the words': the second of two equal words, rows after the V-th, a
 * single value for all of a row. Words are strings of C, so one with a NUL, or an empty one, is refused.
 */
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vectors_file.h"

#define LONGEST_NUMBER 60

/* ---- writing ---- */

static void add_number(tg_text_buffer *text, float value)
{
    char digits[TG_NUMBER_TEXT];
    tg_text_add(text, " ");
    tg_text_add(text, tg_format_number((double)value, 9, digits));
}

void tg_vectors_add_float(tg_text_buffer *text, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const unsigned char bytes[] = {(unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16),
                                   (unsigned char)(bits >> 24)};
    tg_text_add_bytes(text, bytes, sizeof bytes);
}

static void add_row(tg_text_buffer *text, const char *word, const tg_tensor *vectors, int64_t row,
                    tg_vectors_format format)
{
    const int64_t width = tg_tensor_size(vectors, 1);
    tg_text_add(text, word);
    if (format == TG_VECTORS_BINARY) {
        tg_text_add(text, " ");
    }
    for (int64_t i = row * width; i < (row + 1) * width; i++) {
        (format == TG_VECTORS_BINARY ? tg_vectors_add_float : add_number)(text, (float)tg_tensor_value_at(vectors, i));
    }
    tg_text_add(text, "\n");
}

bool tg_vectors_write(tg_file_writer *file, tg_text_buffer *text, tg_error *error)
{
    bool is_written = text->failed ? tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", file->call)
                                   : tg_file_writer_write(file, text->bytes, text->length, error);
    text->length = 0;
    return is_written;
}

static bool write_rows(tg_file_writer *file, const tg_words *words, const tg_tensor *vectors, tg_vectors_format format,
                       tg_error *error)
{
    const int64_t rows = tg_tensor_size(vectors, 0);
    tg_text_buffer text = {0};
    tg_text_add_format(&text, "%lld %lld\n", (long long)rows, (long long)tg_tensor_size(vectors, 1));
    bool is_written = true;
    for (int64_t row = 0; row < rows && is_written && !text.failed; row++) {
        add_row(&text, tg_words_at(words, (int32_t)row), vectors, row, format);
        is_written = text.length < VECTORS_PIECE || tg_vectors_write(file, &text, error);
    }
    is_written = is_written && tg_vectors_write(file, &text, error);
    tg_free(text.bytes);
    return is_written;
}

static bool check_format(const char *call, tg_vectors_format format, tg_error *error)
{
    return (unsigned)format <= TG_VECTORS_BINARY ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: format %d; it must be a tg_vectors_format", call, (int)format);
}

static bool check_vectors(const char *call, const tg_words *words, const tg_tensor *vectors, tg_error *error)
{
    if (!tg_tensor_check(call, "tensor of vectors", vectors, error)) {
        return false;
    }
    const tg_dtype dtype = tg_tensor_dtype(vectors);
    if (dtype != TG_F32 && dtype != TG_F64) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: the vectors are %s; they must be f32 or f64", call,
                            tg_dtype_name(dtype));
    }
    char text[TG_SHAPE_TEXT];
    bool fits = tg_tensor_rank(vectors) == 2 && tg_tensor_size(vectors, 1) >= 1 &&
                tg_tensor_size(vectors, 0) <= tg_words_vocabulary(words);
    return fits || tg_error_set(error, TG_ERROR_SHAPE,
                                "%s: vectors %s of %d words; they must be (V,C) with at most as many rows as words, "
                                "and C >= 1",
                                call, tg_shape_format(tg_tensor_shape(vectors), text), (int)tg_words_vocabulary(words));
}

bool tg_words_save_vectors(const tg_words *words, const tg_tensor *vectors, const char *path, tg_vectors_format format,
                           tg_error *error)
{
    static const char call[] = "words_save_vectors";
    tg_file_writer file;
    if (!words || !path) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, words ? "path is" : "words are");
    }
    if (!check_vectors(call, words, vectors, error) || !check_format(call, format, error) ||
        !tg_file_writer_begin(&file, call, path, error)) {
        return false;
    }
    if (!write_rows(&file, words, vectors, format, error)) {
        tg_file_writer_abandon(&file);
        return false;
    }
    return tg_file_writer_commit(&file, error);
}

/* ---- reading ---- */

static const char opens[] = "words_open_vectors";
static const char spaces[] = " \t\v\f\r\n"; /* of ASCII: what Python's bytes.rstrip() takes from the end of a line */

typedef tg_vectors_reader reader;

static bool fail(const reader *r, const char *problem)
{
    return r->row < 0 ? tg_error_set_at(r->error, 1, -1, "%s: '%s', line 1: %s", opens, r->file.path, problem)
                      : tg_vectors_fail(r, problem);
}

bool tg_vectors_fail(const reader *r, const char *problem)
{
    return tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s', word %lld of %lld: %s", r->file.call, r->file.path,
                        (long long)r->row + 1, (long long)r->rows, problem);
}

bool tg_vectors_reserve(reader *r, size_t needed)
{
    if (r->end - r->begin >= needed || r->offset == r->file.size) {
        return true;
    }
    memmove(r->bytes, r->bytes + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    uint64_t left = r->file.size - r->offset;
    size_t length = left < VECTORS_PIECE - r->end ? (size_t)left : VECTORS_PIECE - r->end;
    if (!tg_file_read(&r->file, r->offset, r->bytes + r->end, length, r->error)) {
        return false;
    }
    r->end += length;
    r->offset += length;
    return true;
}

/* Returns whether a byte is one of some white space of ASCII. */
static bool is_one_of(char c, const char *some)
{
    return c && (unsigned char)c <= ' ' && strchr(some, c);
}

/* Skips white space. Returns false after an error. */
static bool skip(reader *r, const char *some)
{
    while (tg_vectors_reserve(r, 1)) {
        if (r->begin == r->end || !is_one_of(r->bytes[r->begin], some)) {
            return true;
        }
        r->begin++;
    }
    return false;
}

/* Takes what stands before the next white space of some kinds, at most `most` bytes. Its text is valid until the next
 * call. Returns its length, or SIZE_MAX after an error. */
static size_t take_part(reader *r, const char *ends, size_t most, const char *too_long, const char **text)
{
    if (!tg_vectors_reserve(r, most + 1)) {
        return SIZE_MAX;
    }
    const size_t left = r->end - r->begin, limit = left < most + 1 ? left : most + 1;
    size_t length = 0;
    *text = r->bytes + r->begin;
    while (length < limit && !is_one_of((*text)[length], ends)) {
        length++;
    }
    if (length > most) {
        fail(r, too_long);
        return SIZE_MAX;
    }
    r->begin += length;
    return length;
}

/* ---- the sizes ---- */

/* Parses two whole numbers, with white space around them, and the end of the line. Returns the length of the line, or 0
 * if it is another one. */
static size_t parse_sizes(const char *line, size_t length, int64_t sizes[2])
{
    size_t at = 0;
    for (int i = 0; i < 2; i++) {
        while (at < length && is_one_of(line[at], " \t\v\f\r")) {
            at++;
        }
        const size_t begin = at;
        for (sizes[i] = 0; at < length && line[at] >= '0' && line[at] <= '9'; at++) {
            sizes[i] = sizes[i] > INT32_MAX ? sizes[i] : sizes[i] * 10 + (line[at] - '0');
        }
        if (at == begin) {
            return 0;
        }
    }
    while (at < length && is_one_of(line[at], " \t\v\f\r")) {
        at++;
    }
    return at == length ? at : line[at] == '\n' ? at + 1 : 0;
}

/* Counts the lines of a file without a first line, except blank ones at the end, and the values of the first one. Goes
 * back to where it began. */
static bool count_rows(reader *r)
{
    const uint64_t first = r->offset - (r->end - r->begin);
    int64_t lines = 0, parts = 0;
    bool is_in_part = false;
    while (tg_vectors_reserve(r, 1)) {
        if (r->begin == r->end) {
            r->width = parts - 1;
            r->offset = first;
            r->begin = r->end = 0;
            return true;
        }
        const char c = r->bytes[r->begin++];
        const bool is_space = is_one_of(c, spaces);
        r->rows = is_space ? r->rows : lines + 1;
        lines += c == '\n';
        parts += lines == 0 && !is_space && !is_in_part;
        is_in_part = !is_space || (is_in_part && c != ' ');
    }
    return false;
}

/* Finds V and C: in the line "V C", or by counting, and compares them with the size of the file. */
static bool take_sizes(reader *r, tg_vectors_format format)
{
    static const char byte_order_mark[] = "\xEF\xBB\xBF";
    int64_t sizes[2];
    if (!tg_vectors_reserve(r, VECTORS_LONGEST_WORD)) {
        return false;
    }
    const bool is_text = format == TG_VECTORS_TEXT;
    r->begin += is_text && r->end >= 3 && memcmp(r->bytes, byte_order_mark, 3) == 0 ? 3 : 0;
    const size_t length = parse_sizes(r->bytes + r->begin, r->end - r->begin, sizes);
    r->begin += length;
    r->rows = length ? sizes[0] : 0;
    r->width = length ? sizes[1] : 0;
    if (length == 0 && is_text && !count_rows(r)) {
        return false;
    }
    if (r->width < (length ? 1 : 2) || r->width > INT32_MAX || r->rows > INT32_MAX) {
        return fail(r, is_text ? "it must have the numbers of words and of values, V >= 0 and C >= 1, or a word and at "
                                 "least 2 values"
                               : "it must have the numbers of words and of values, V >= 0 and C >= 1");
    }
    /* a word takes at least two bytes with the space, or with the newline, and a value four, or two */
    uint64_t least = (uint64_t)r->rows * ((is_text ? 2 : 4) * (uint64_t)r->width + 2);
    return least <= r->file.size + 1 || fail(r, "the file is too short for these numbers of words and values");
}

/* ---- the rows ---- */

/* Takes a number of text, and the spaces before it. */
static bool take_number(reader *r, double *value)
{
    static const char problem[] = "a value is not a number";
    char number[LONGEST_NUMBER + 1];
    const char *text;
    size_t length = skip(r, " ") ? take_part(r, spaces, LONGEST_NUMBER, problem, &text) : SIZE_MAX;
    if (length == SIZE_MAX) {
        return false;
    }
    memcpy(number, text, length);
    number[length] = '\0';
    return (strlen(number) == length && tg_parse_number(number, value)) ||
           fail(r, length == 0 ? "a value is missing" : problem);
}

/* Takes the end of a line, and the white space before it; the last line may have none. */
static bool take_end_of_line(reader *r)
{
    if (!skip(r, " \t\v\f\r")) {
        return false;
    }
    if (r->begin < r->end && r->bytes[r->begin] != '\n') {
        return fail(r, "the line has more values than it should");
    }
    r->begin += r->begin < r->end;
    return true;
}

bool tg_vectors_add_word(reader *r, tg_words *words, const char *text, size_t length)
{
    const int32_t id = tg_words_add(words, text, length);
    if (id >= 0 && id < r->row) {
        return tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s', word %lld of %lld: word %lld is '%.*s', too",
                            r->file.call, r->file.path, (long long)r->row + 1, (long long)r->rows, (long long)id + 1,
                            tg_cut_bytes(text, length, 60), text);
    }
    return id >= 0 || tg_error_set(r->error, TG_ERROR_MEMORY, "%s: out of memory", r->file.call);
}

/* Takes a word: all before the next space. White space of other kinds belongs to it, as in gensim. */
static bool take_word(reader *r, tg_words *words)
{
    const char *text;
    size_t length = take_part(r, " \n", VECTORS_LONGEST_WORD, "the word is above 65535 bytes", &text);
    if (length == SIZE_MAX) {
        return false;
    }
    const char *problem = length == 0                            ? "the word is empty, or the file ends"
                          : memchr(text, 0, length)              ? "the word has a NUL"
                          : tg_utf8_check(text, length) < length ? "the word is not UTF-8"
                                                                 : NULL;
    return problem ? fail(r, problem) : tg_vectors_add_word(r, words, text, length);
}

static float float_of(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    uint32_t bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool tg_vectors_take_floats(reader *r, float *values)
{
    for (int64_t i = 0; i < r->width; i++) {
        if (!tg_vectors_reserve(r, 4)) {
            return false;
        }
        if (r->end - r->begin < 4) {
            return tg_vectors_fail(r, "the file ends in its values");
        }
        values[i] = float_of(r->bytes + r->begin);
        r->begin += 4;
    }
    return true;
}

static bool take_text_values(reader *r, float *values)
{
    for (int64_t i = 0; i < r->width; i++) {
        double value;
        if (!take_number(r, &value)) {
            return false;
        }
        values[i] = (float)value;
    }
    return take_end_of_line(r);
}

static bool take_binary_values(reader *r, float *values)
{
    if (r->begin == r->end || r->bytes[r->begin] != ' ') {
        return fail(r, "no space stands behind the word");
    }
    r->begin++;
    return tg_vectors_take_floats(r, values);
}

static bool take_rows(reader *r, tg_vectors_format format, tg_words *words, float *values)
{
    const bool is_binary = format == TG_VECTORS_BINARY;
    for (r->row = 0; r->row < r->rows; r->row++) {
        float *row = values + r->row * r->width;
        if ((is_binary && !skip(r, "\n")) || !take_word(r, words) ||
            !(is_binary ? take_binary_values : take_text_values)(r, row)) {
            return false;
        }
    }
    return skip(r, spaces) &&
           (r->begin == r->end || tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s' goes on after its %lld words",
                                               opens, r->file.path, (long long)r->rows));
}

/* Reads the open file. */
static bool read_file(reader *r, tg_vectors_format format, tg_words *words, tg_tensor **vectors)
{
    r->bytes = tg_alloc(VECTORS_PIECE, 1);
    if (!r->bytes || !words) {
        return tg_error_set(r->error, TG_ERROR_MEMORY, "%s: out of memory", opens);
    }
    if (!take_sizes(r, format)) {
        return false;
    }
    *vectors = tg_tensor_new(TG_F32, TG_SHAPE(r->rows, r->width), r->error);
    return *vectors && take_rows(r, format, words, tg_tensor_data_mut(*vectors));
}

tg_words *tg_words_open_vectors(const char *path, tg_vectors_format format, tg_tensor **vectors, tg_error *error)
{
    reader r = {.row = -1, .error = error};
    if (vectors) {
        *vectors = NULL;
    }
    if (!path || !vectors) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", opens, path ? "vectors are" : "path is");
        return NULL;
    }
    if (!check_format(opens, format, error) || !tg_file_open(&r.file, opens, path, error)) {
        return NULL;
    }
    tg_words *words = tg_words_make(TG_WORD_SPLIT_SPACE);
    if (!read_file(&r, format, words, vectors)) {
        tg_words_free(words);
        tg_release(*vectors);
        *vectors = NULL;
        words = NULL;
    }
    tg_free(r.bytes);
    tg_file_close(&r.file);
    return words;
}

/* words_vectors: the vectors of words as files of word2vec.
 *
 * The format belongs to this library and not to the core: a file has words, and the core knows none. A file is read in
 * pieces, so the memory of a large one is that of its vectors and words. The numbers of its first line are compared
 * with its size before anything is allocated.
 */
#include <stdio.h>
#include <string.h>

#include <tapegrad/extend.h>
#include "text/words.h"

#define PIECE ((size_t)1 << 18)
#define LONGEST_WORD ((size_t)65535)
#define LONGEST_NUMBER 60

/* ---- writing ---- */

static void add_number(tg_text_buffer *text, float value)
{
    char digits[TG_NUMBER_TEXT];
    tg_text_add(text, " ");
    tg_text_add(text, tg_format_number((double)value, 9, digits));
}

/* Adds the bytes of a float in little-endian order. */
static void add_bytes(tg_text_buffer *text, float value)
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
        (format == TG_VECTORS_BINARY ? add_bytes : add_number)(text, (float)tg_tensor_value_at(vectors, i));
    }
    tg_text_add(text, "\n");
}

/* Writes the buffer to the file, and empties it. */
static bool write_piece(tg_file_writer *file, tg_text_buffer *text, tg_error *error)
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
        is_written = text.length < PIECE || write_piece(file, &text, error);
    }
    is_written = is_written && write_piece(file, &text, error);
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

/* A file that is read in pieces: bytes[begin .. end) are next. */
typedef struct reader {
    tg_file file;
    uint64_t offset; /* of `end` in the file */
    size_t begin, end;
    char *bytes; /* PIECE */
    int64_t rows, width, row;
    tg_error *error;
} reader;

static bool fail(const reader *r, const char *problem)
{
    return r->row < 0 ? tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s', line 1: %s", opens, r->file.path, problem)
                      : tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s', word %lld of %lld: %s", opens, r->file.path,
                                     (long long)r->row + 1, (long long)r->rows, problem);
}

/* Reads on until `needed` <= PIECE bytes are next, or all that the file has. */
static bool reserve(reader *r, size_t needed)
{
    if (r->end - r->begin >= needed || r->offset == r->file.size) {
        return true;
    }
    memmove(r->bytes, r->bytes + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    uint64_t left = r->file.size - r->offset;
    size_t length = left < PIECE - r->end ? (size_t)left : PIECE - r->end;
    if (!tg_file_read(&r->file, r->offset, r->bytes + r->end, length, r->error)) {
        return false;
    }
    r->end += length;
    r->offset += length;
    return true;
}

/* Takes the next byte if it is `c`. Sets *failed after an error. */
static bool take(reader *r, char c, bool *failed)
{
    *failed = !reserve(r, 1);
    bool is_next = !*failed && r->begin < r->end && r->bytes[r->begin] == c;
    r->begin += is_next;
    return is_next;
}

/* Takes what stands before the next space or newline, at most `most` bytes. Its text is valid until the next call.
 * Returns its length, or SIZE_MAX after an error. */
static size_t take_part(reader *r, size_t most, const char *too_long, const char **text)
{
    if (!reserve(r, most + 1)) {
        return SIZE_MAX;
    }
    const size_t left = r->end - r->begin, limit = left < most + 1 ? left : most + 1;
    size_t length = 0;
    *text = r->bytes + r->begin;
    while (length < limit && !strchr(" \n", (*text)[length] ? (*text)[length] : 'x')) {
        length++;
    }
    if (length > most) {
        fail(r, too_long);
        return SIZE_MAX;
    }
    r->begin += length;
    return length;
}

/* Takes a number of text, and the spaces before it. */
static bool take_number(reader *r, double *value)
{
    static const char problem[] = "a value is not a number";
    char number[LONGEST_NUMBER + 1];
    const char *text;
    bool failed;
    while (take(r, ' ', &failed)) {
    }
    size_t length = failed ? SIZE_MAX : take_part(r, LONGEST_NUMBER, problem, &text);
    if (length == SIZE_MAX) {
        return false;
    }
    memcpy(number, text, length);
    number[length] = '\0';
    return (strlen(number) == length && tg_parse_number(number, value)) ||
           fail(r, length == 0 ? "a value is missing" : problem);
}

/* Takes the spaces and the newline at the end of a line, or at the end of the file. */
static bool take_end_of_line(reader *r)
{
    bool failed;
    while (take(r, ' ', &failed)) {
    }
    if (failed || take(r, '\n', &failed)) {
        return !failed;
    }
    return !failed && (r->begin == r->end || fail(r, "the line has more values than it should"));
}

/* Takes the line "V C", and compares it with the size of the file. */
static bool take_sizes(reader *r, tg_vectors_format format)
{
    double sizes[2];
    for (int i = 0; i < 2; i++) {
        if (!take_number(r, &sizes[i])) {
            return false;
        }
        if (!(sizes[i] >= i && sizes[i] <= INT32_MAX && sizes[i] == (double)(int64_t)sizes[i])) {
            return fail(r, "it must have the numbers of words and of values, V >= 0 and C >= 1");
        }
    }
    if (!take_end_of_line(r)) {
        return false;
    }
    r->rows = (int64_t)sizes[0];
    r->width = (int64_t)sizes[1];
    /* a word takes at least two bytes with the space, or with the newline, and a value four, or two */
    uint64_t least = (uint64_t)r->rows * ((format == TG_VECTORS_BINARY ? 4 : 2) * (uint64_t)r->width + 2);
    return least <= r->file.size + 1 || fail(r, "the file is too short for these numbers of words and values");
}

static bool take_word(reader *r, tg_words *words)
{
    const char *text;
    size_t length = take_part(r, LONGEST_WORD, "the word is above 65535 bytes", &text), begin = 0;
    if (length == SIZE_MAX) {
        return false;
    }
    const char *problem = length == 0                            ? "the word is empty, or the file ends"
                          : memchr(text, 0, length)              ? "the word has a NUL"
                          : tg_utf8_check(text, length) < length ? "the word is not UTF-8"
                          : tg_words_next(TG_WORD_SPLIT_SPACE, text, length, &begin) != length
                              ? "the word has white space"
                              : NULL;
    if (problem) {
        return fail(r, problem);
    }
    int32_t id = tg_words_add(words, text, length);
    if (id >= 0 && id < r->row) {
        return tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s', word %lld of %lld: word %lld is '%.*s', too", opens,
                            r->file.path, (long long)r->row + 1, (long long)r->rows, (long long)id + 1,
                            tg_cut_bytes(text, length, 60), text);
    }
    return id >= 0 || tg_error_set(r->error, TG_ERROR_MEMORY, "%s: out of memory", opens);
}

static float float_of(const char *bytes)
{
    const unsigned char *b = (const unsigned char *)bytes;
    uint32_t bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Takes the values of a row, and what follows them. */
static bool take_values(reader *r, tg_vectors_format format, float *values)
{
    bool failed;
    for (int64_t i = 0; format == TG_VECTORS_TEXT && i < r->width; i++) {
        double value;
        if (!take_number(r, &value)) {
            return false;
        }
        values[i] = (float)value;
    }
    if (format == TG_VECTORS_TEXT) {
        return take_end_of_line(r);
    }
    if (!take(r, ' ', &failed)) {
        return !failed && fail(r, "no space stands behind the word");
    }
    for (int64_t i = 0; i < r->width; i++) {
        if (!reserve(r, 4)) {
            return false;
        }
        if (r->end - r->begin < 4) {
            return fail(r, "the file ends in its values");
        }
        values[i] = float_of(r->bytes + r->begin);
        r->begin += 4;
    }
    take(r, '\n', &failed);
    return !failed;
}

static bool take_rows(reader *r, tg_vectors_format format, tg_words *words, float *values)
{
    for (r->row = 0; r->row < r->rows; r->row++) {
        if (!take_word(r, words) || !take_values(r, format, values + r->row * r->width)) {
            return false;
        }
    }
    return reserve(r, 1) &&
           (r->begin == r->end || tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s' goes on after its %lld words",
                                               opens, r->file.path, (long long)r->rows));
}

/* Reads the open file. */
static bool read_file(reader *r, tg_vectors_format format, tg_words *words, tg_tensor **vectors)
{
    r->bytes = tg_alloc(PIECE, 1);
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

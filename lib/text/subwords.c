/* subwords: the rows of a word and of its n-grams, as in fastText (Bojanowski et al. 2017, "Enriching Word Vectors with
 * Subword Information").
 *
 * The n-grams are those of <word>, in characters of UTF-8. fastText's bucket of an n-gram is FNV-1a in 32 bits, in
 * which a byte is a signed char, modulo the number of buckets (Dictionary::hash, computeSubwords). The characters < and
 * > alone are no n-grams, and the word </s>, fastText's end of a line, has none.
 *
 * The file is that of fastText, version 12:
 *
 *   i32 x 2              the mark of the format, 793712314, and the version
 *   i32 x 12, f64        width, window, epochs, smallest frequency of a word, negatives, n-grams of words, loss, model,
 *                        buckets, shortest and longest n-gram, steps of the rate; threshold of sampling (Args::save)
 *   i32 x 3, i64 x 2     the numbers of entries, of words and of labels; that of all words of the text; and that of the
 *                        pruned n-grams, or -1
 *   for each entry       its bytes, a NUL, i64 how often the text has it, and i8 whether it is a label
 *   i8, i64 x 2, f32 ... whether the table is quantized, its rows and columns, and its values
 *   i8, i64 x 2, f32 ... the same of the contexts
 *
 * All numbers are in little-endian order. The words of published models are bytes, some of which are not UTF-8.
 */
#include <string.h>

#include <tapegrad/extend.h>
#include "text/vectors_file.h"

enum { MARK = 793712314, OLDEST = 11, VERSION = 12 };

/* The whole numbers of the file that are used here. */
enum { WIDTH = 0, BUCKETS = 8, SHORTEST, LONGEST, NUMBERS = 12 };

struct tg_subwords {
    tg_words *words;
    int64_t *counts, tokens; /* how often a text has each word, and the number of all its words */
    int32_t numbers[NUMBERS];
    int64_t sample; /* the bits of a double */
};

TG_CONFIG(tg_subwords_config, tg_subwords_config_default, mark, .mark = mark, .shortest = 3, .longest = 6,
          .buckets = 2000000, .window = 5, .epochs = 5, .min_count = 5, .negatives = 5);

/* Returns what is wrong with the lengths of the n-grams and the number of buckets beside so many words, or NULL. */
static const char *problem_of(const int32_t *numbers, int64_t vocabulary)
{
    const int32_t shortest = numbers[SHORTEST], longest = numbers[LONGEST], buckets = numbers[BUCKETS];
    const bool has_none = longest == 0 || (buckets == 0 && longest < shortest);
    return shortest < 0 || longest < 0 || buckets < 0 ? "no number may be negative"
           : has_none                                 ? NULL
           : shortest > longest                       ? "the shortest n-gram must not be longer than the longest"
           : buckets == 0                             ? "n-grams need at least 1 bucket"
           : buckets > INT32_MAX - vocabulary         ? "words and buckets must be at most 2147483647 rows"
                                                      : NULL;
}

tg_subwords *tg_subwords_new(const tg_words *words, const int64_t *counts, int32_t vocabulary,
                             const tg_subwords_config *given, tg_error *error)
{
    static const char call[] = "subwords_new";
    if (!words || !counts) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, words ? "counts are" : "words are");
        return NULL;
    }
    if (!tg_config_check(call, given, mark, error)) {
        return NULL;
    }
    const tg_subwords_config c = given ? *given : tg_subwords_config_default();
    /* skip-gram (2) with negative samples (2), and the defaults of fastText for what has no meaning then */
    const int32_t numbers[] = {0, c.window, c.epochs,  c.min_count, c.negatives, 1,
                               2, 2,        c.buckets, c.shortest,  c.longest,   100};
    const char *problem = vocabulary < 0 || vocabulary > tg_words_vocabulary(words) ? "there are fewer words"
                                                                                    : problem_of(numbers, vocabulary);
    if (problem) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: vocabulary %d, shortest %d, longest %d, buckets %d: %s", call,
                     (int)vocabulary, (int)c.shortest, (int)c.longest, (int)c.buckets, problem);
        return NULL;
    }
    tg_subwords *s = tg_alloc_zeroed(1, sizeof *s);
    bool is_made = s && (s->words = tg_words_make(words->split)) &&
                   (s->counts = tg_alloc((uint64_t)vocabulary + 1, sizeof *counts));
    for (int32_t id = 0; is_made && id < vocabulary; id++) {
        const char *word = tg_words_at(words, id);
        is_made = tg_words_add(s->words, word, strlen(word)) == id;
        s->counts[id] = counts[id];
        s->tokens += counts[id];
    }
    if (!is_made) {
        tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
        tg_subwords_free(s);
        return NULL;
    }
    memcpy(s->numbers, numbers, sizeof numbers);
    memcpy(&s->sample, &c.sample, sizeof s->sample);
    return s;
}

void tg_subwords_free(tg_subwords *s)
{
    if (s) {
        tg_words_free(s->words);
        tg_free(s->counts);
        tg_free(s);
    }
}

const tg_words *tg_subwords_words(const tg_subwords *s)
{
    return s ? s->words : NULL;
}

int64_t tg_subwords_rows(const tg_subwords *s)
{
    return s ? (int64_t)tg_words_vocabulary(s->words) + s->numbers[BUCKETS] : 0;
}

/* ---- the rows of a word ---- */

/* Returns byte i of <word>. */
static uint8_t byte_at(const char *word, size_t length, size_t i)
{
    return (uint8_t)(i == 0 ? '<' : i <= length ? word[i - 1] : '>');
}

/* Adds the rows of the n-grams of a word, by their beginnings and then by their lengths. */
static void add_ngrams(const tg_subwords *s, const char *word, size_t length, tg_tokens *rows)
{
    for (size_t begin = 0, end, size = length + 2; begin < size; begin = end) {
        uint32_t hash = 2166136261U;
        size_t at = begin;
        end = 0; /* of the first character */
        for (int32_t n = 1; n <= s->numbers[LONGEST] && at < size; n++) {
            do {
                hash = (hash ^ (uint32_t)(int32_t)(int8_t)byte_at(word, length, at++)) * 16777619U;
            } while (at < size && (byte_at(word, length, at) & 0xc0) == 0x80);
            end = end ? end : at;
            if (n >= s->numbers[SHORTEST] && (n > 1 || (begin > 0 && at < size))) {
                const uint32_t bucket = hash % (uint32_t)s->numbers[BUCKETS];
                rows->ids[rows->count++] = tg_words_vocabulary(s->words) + (int32_t)bucket;
            }
        }
    }
}

bool tg_subwords_encode(const tg_subwords *s, const char *word, tg_tokens *rows, tg_error *error)
{
    static const char call[] = "subwords_encode";
    if (rows) {
        *rows = (tg_tokens){NULL, 0};
    }
    if (!s || !word || !rows) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the subwords, the word or the rows are NULL", call);
    }
    const uint64_t length = strlen(word), longest = (uint64_t)s->numbers[LONGEST];
    const bool has_ngrams = longest > 0 && s->numbers[BUCKETS] > 0 && strcmp(word, "</s>") != 0;
    const uint64_t most = has_ngrams ? 1 + (length + 2) * (longest < length + 2 ? longest : length + 2) : 1;
    rows->ids = tg_alloc(most, sizeof *rows->ids);
    if (!rows->ids) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %llu rows", call, (unsigned long long)most);
    }
    rows->ids[0] = tg_words_find(s->words, word);
    rows->count = rows->ids[0] >= 0;
    if (has_ngrams) {
        add_ngrams(s, word, length, rows);
    }
    if (rows->count == 0) {
        tg_tokens_free(rows);
        return tg_error_set(error, TG_ERROR_RANGE, "%s: '%.*s' is not in the vocabulary, and has no n-grams", call,
                            TG_CUT(word, 60));
    }
    return true;
}

/* ---- vectors ---- */

/* Checks that a table is f32 and has so many rows, and as many columns as `width`, unless that is 0. */
static bool check_table(const char *call, const char *name, const tg_tensor *table, int64_t rows, int64_t width,
                        tg_error *error)
{
    char text[TG_SHAPE_TEXT];
    if (!tg_tensor_check(call, name, table, error)) {
        return false;
    }
    const bool is_float = tg_tensor_dtype(table) == TG_F32,
               fits = tg_tensor_rank(table) == 2 && tg_tensor_size(table, 0) == rows && tg_tensor_size(table, 1) >= 1;
    return (is_float && fits && (width == 0 || width == tg_tensor_size(table, 1))) ||
           tg_error_set(error, is_float ? TG_ERROR_SHAPE : TG_ERROR_DTYPE,
                        "%s: a table %s of %s; it must be f32, with %lld rows and at least 1 column, both tables alike",
                        call, tg_shape_format(tg_tensor_shape(table), text), tg_dtype_name(tg_tensor_dtype(table)),
                        (long long)rows);
}

bool tg_subwords_vector(const tg_subwords *s, const tg_tensor *table, const char *word, float *vector, tg_error *error)
{
    tg_tokens rows;
    if (!s || !vector) {
        return tg_error_set(error, TG_ERROR_STATE, "subwords_vector: the %s NULL", s ? "vector is" : "subwords are");
    }
    if (!check_table("subwords_vector", "table", table, tg_subwords_rows(s), 0, error) ||
        !tg_subwords_encode(s, word, &rows, error)) {
        return false;
    }
    const int64_t width = tg_tensor_size(table, 1), down = tg_tensor_stride(table, 0),
                  right = tg_tensor_stride(table, 1);
    for (int64_t c = 0; c < width; c++) {
        const float *column = (const float *)tg_tensor_data(table) + c * right;
        float sum = 0;
        for (int64_t i = 0; i < rows.count; i++) {
            sum += column[rows.ids[i] * down];
        }
        vector[c] = sum / (float)rows.count;
    }
    tg_tokens_free(&rows);
    return true;
}

/* ---- writing ---- */

static void add_whole(tg_text_buffer *text, int64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        tg_text_add_bytes(text, &(unsigned char){(unsigned char)((uint64_t)value >> 8 * i)}, 1);
    }
}

static void add_words(tg_text_buffer *text, const tg_subwords *s, int64_t width)
{
    const int32_t words = tg_words_vocabulary(s->words);
    add_whole(text, MARK, 4);
    add_whole(text, VERSION, 4);
    for (int i = 0; i < NUMBERS; i++) {
        add_whole(text, i == WIDTH ? width : s->numbers[i], 4);
    }
    add_whole(text, s->sample, 8);
    add_whole(text, words, 4);
    add_whole(text, words, 4);
    add_whole(text, 0, 4);
    add_whole(text, s->tokens, 8);
    add_whole(text, -1, 8);
    for (int32_t id = 0; id < words; id++) {
        const char *word = tg_words_at(s->words, id);
        tg_text_add_bytes(text, word, strlen(word) + 1);
        add_whole(text, s->counts[id], 8);
        add_whole(text, 0, 1);
    }
}

static bool write_matrix(tg_file_writer *file, tg_text_buffer *text, const tg_tensor *matrix, tg_error *error)
{
    const int64_t rows = tg_tensor_size(matrix, 0), width = tg_tensor_size(matrix, 1);
    const float *values = tg_tensor_data(matrix);
    add_whole(text, 0, 1);
    add_whole(text, rows, 8);
    add_whole(text, width, 8);
    bool is_written = true;
    for (int64_t row = 0; row < rows && is_written; row++) {
        for (int64_t c = 0; c < width; c++) {
            tg_vectors_add_float(text, values[row * tg_tensor_stride(matrix, 0) + c * tg_tensor_stride(matrix, 1)]);
        }
        is_written = (text->length < VECTORS_PIECE && row + 1 < rows) || tg_vectors_write(file, text, error);
    }
    return is_written;
}

bool tg_subwords_save(const tg_subwords *s, const tg_tensor *table, const tg_tensor *contexts, const char *path,
                      tg_error *error)
{
    static const char call[] = "subwords_save";
    tg_file_writer file;
    if (!s || !path) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s NULL", call, s ? "path is" : "subwords are");
    }
    const int64_t width = tg_tensor_size(table, 1);
    if (!check_table(call, "table", table, tg_subwords_rows(s), 0, error) ||
        !check_table(call, "table of contexts", contexts, tg_words_vocabulary(s->words), width, error) ||
        !tg_file_writer_begin(&file, call, path, error)) {
        return false;
    }
    tg_text_buffer text = {0};
    add_words(&text, s, width);
    const bool is_written = write_matrix(&file, &text, table, error) && write_matrix(&file, &text, contexts, error);
    tg_free(text.bytes);
    if (!is_written) {
        tg_file_writer_abandon(&file);
    }
    return is_written && tg_file_writer_commit(&file, error);
}

/* ---- reading ---- */

static const char opens[] = "subwords_open";

/* Sets the error, unless a call has failed before. Returns false. */
static bool fail(tg_vectors_reader *r, const char *problem)
{
    if (!r->failed) {
        tg_error_set(r->error, TG_ERROR_FORMAT, "%s: '%s': %s", opens, r->file.path, problem);
    }
    r->failed = true;
    return false;
}

/* Takes a whole number of `bytes` <= 8 bytes. After an error it is 0, and r->failed is set. */
static int64_t take(tg_vectors_reader *r, size_t bytes)
{
    uint64_t bits = 0;
    r->failed = r->failed || !tg_vectors_reserve(r, bytes);
    if (r->failed || r->end - r->begin < bytes) {
        return fail(r, "the file ends early");
    }
    for (size_t i = 0; i < bytes; i++) {
        bits |= (uint64_t)(unsigned char)r->bytes[r->begin++] << 8 * i;
    }
    return bytes == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
}

/* Takes the first numbers of the file. */
static bool take_options(tg_vectors_reader *r, tg_subwords *s)
{
    const int64_t first = take(r, 4), version = take(r, 4);
    if (first != MARK || version < OLDEST || version > VERSION) {
        return fail(r, first != MARK ? "it is no model of fastText: its first 4 bytes are not ba 16 4f 2f"
                                     : "the version of its format is neither 11 nor 12");
    }
    for (int i = 0; i < NUMBERS; i++) {
        s->numbers[i] = (int32_t)take(r, 4);
    }
    s->sample = take(r, 8);
    return !r->failed;
}

/* Takes the bytes of an entry, its count and its kind, which are reserved together, so that the bytes do not move. */
static bool take_entry(tg_vectors_reader *r, tg_subwords *s)
{
    if (!tg_vectors_reserve(r, VECTORS_LONGEST_WORD + 10)) {
        return false;
    }
    const char *word = r->bytes + r->begin;
    const char *end = memchr(word, '\0', r->end - r->begin);
    const size_t length = end ? (size_t)(end - word) : 0;
    if (length == 0 || length > VECTORS_LONGEST_WORD) {
        return tg_vectors_fail(r, "the word is empty or above 65535 bytes, or the file ends early");
    }
    r->begin += length + 1;
    s->counts[r->row] = take(r, 8);
    take(r, 1);
    return !r->failed && tg_vectors_add_word(r, s->words, word, length);
}

/* Takes the words, and decides whether a table of their vectors follows. */
static bool take_words(tg_vectors_reader *r, tg_subwords *s)
{
    r->rows = take(r, 4);
    const int64_t words = take(r, 4), labels = take(r, 4);
    s->tokens = take(r, 8);
    const int64_t pruned = take(r, 8);
    if (words < 0 || labels < 0 || words + labels != r->rows || (uint64_t)r->rows > r->file.size / 11) {
        return fail(r, "the numbers of words and labels do not fit together, or not the size of the file");
    }
    s->words = tg_words_make(TG_WORD_SPLIT_SPACE);
    s->counts = tg_alloc((uint64_t)r->rows + 1, sizeof *s->counts);
    if (!s->words || !s->counts) {
        return tg_error_set(r->error, TG_ERROR_MEMORY, "%s: out of memory", opens);
    }
    for (; r->row < r->rows; r->row++) {
        if (!take_entry(r, s)) {
            return false;
        }
    }
    for (int64_t i = 0; i < pruned && !r->failed; i++) {
        take(r, 8);
    }
    const char *problem = take(r, 1) || pruned >= 0 ? "it is quantized (.ftz), and has no table of floats"
                          : labels > 0              ? "it is a classifier with labels, not vectors of words"
                                                    : problem_of(s->numbers, words);
    return (!problem && !r->failed) || fail(r, problem);
}

/* Takes a matrix of so many rows. */
static bool take_matrix(tg_vectors_reader *r, int64_t rows, tg_tensor **matrix)
{
    if (take(r, 8) != rows || take(r, 8) != r->width) {
        return fail(r, "a table has other rows or columns than its words, buckets and width make");
    }
    *matrix = tg_tensor_new(TG_F32, TG_SHAPE(rows, r->width), r->error);
    float *values = tg_tensor_data_mut(*matrix);
    bool is_taken = *matrix;
    for (int64_t row = 0; is_taken && row < rows; row++) {
        is_taken = tg_vectors_take_floats(r, values + row * r->width);
    }
    return is_taken;
}

static bool read_file(tg_vectors_reader *r, tg_subwords *s, tg_tensor **table, tg_tensor **contexts)
{
    r->bytes = tg_alloc(VECTORS_PIECE, 1);
    if (!r->bytes || !s) {
        return tg_error_set(r->error, TG_ERROR_MEMORY, "%s: out of memory", opens);
    }
    if (!take_options(r, s) || !take_words(r, s)) {
        return false;
    }
    /* two matrices are left, with four sizes and a flag: compared before memory is taken for them */
    const int64_t rows = tg_subwords_rows(s), words = tg_words_vocabulary(s->words);
    const uint64_t left = r->file.size - r->offset + (r->end - r->begin) - 33,
                   bytes_of_row = 4 * (uint64_t)s->numbers[WIDTH];
    r->width = s->numbers[WIDTH];
    if (r->width < 1 || left > r->file.size || left % bytes_of_row != 0 ||
        left / bytes_of_row != (uint64_t)(rows + words)) {
        return fail(r, "its size is not that of its words, buckets and width");
    }
    return take_matrix(r, rows, table) && (take(r, 1) == 0 || fail(r, "its contexts are quantized")) &&
           take_matrix(r, words, contexts);
}

tg_subwords *tg_subwords_open(const char *path, tg_tensor **table, tg_tensor **contexts, tg_error *error)
{
    tg_vectors_reader r = {.error = error};
    if (table && contexts) {
        *table = *contexts = NULL;
    }
    if (!path || !table || !contexts) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the path, the table or the contexts are NULL", opens);
        return NULL;
    }
    if (!tg_file_open(&r.file, opens, path, error)) {
        return NULL;
    }
    tg_subwords *s = tg_alloc_zeroed(1, sizeof *s);
    if (!read_file(&r, s, table, contexts)) {
        tg_subwords_free(s);
        tg_release(*table);
        tg_release(*contexts);
        *table = *contexts = NULL;
        s = NULL;
    }
    tg_free(r.bytes);
    tg_file_close(&r.file);
    return s;
}

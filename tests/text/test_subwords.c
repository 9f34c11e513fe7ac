/* Words and their n-grams: the rows, vectors and files of fastText and of gensim (tests/goldens/make_word_vectors.py),
 * files that were saved here, and bad ones. */
#include "formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GOLDENS TG_TEST_GOLDENS "/data/word_vectors/"
#define PATH "test_subwords.tmp"
#define WIDTH 6

static tg_error error;

static void write_file(const void *bytes, size_t length)
{
    FILE *file = fopen(PATH, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static char *read_file(const char *path, size_t *length)
{
    char *bytes = tg_text_read(path, length, &error);
    if (!bytes) {
        fail_msg("%s", error.text);
    }
    return bytes;
}

static void assert_same_files(const char *a, const char *b)
{
    size_t a_length, b_length;
    char *a_bytes = read_file(a, &a_length), *b_bytes = read_file(b, &b_length);
    assert_int_equal(a_length, b_length);
    assert_memory_equal(a_bytes, b_bytes, a_length);
    tg_text_free(a_bytes);
    tg_text_free(b_bytes);
}

/* A model, its tables, and what it takes to free them. */
typedef struct model {
    tg_subwords *subwords;
    tg_tensor *table, *contexts;
} model;

static model open_model(const char *path)
{
    model m;
    m.subwords = tg_subwords_open(path, &m.table, &m.contexts, &error);
    if (!m.subwords) {
        fail_msg("%s", error.text);
    }
    return m;
}

static void free_model(model *m)
{
    tg_subwords_free(m->subwords);
    tg_release(m->table);
    tg_release(m->contexts);
}

/* ---- goldens ---- */

/* Checks a word against a line: its rows, if the line has some, and its vector. */
static void check_word(const model *m, int32_t id, char *line)
{
    const char *word = strtok(line, " ");
    const int64_t count = strtol(strtok(NULL, " "), NULL, 10);
    if (id < tg_words_vocabulary(tg_subwords_words(m->subwords))) {
        assert_string_equal(tg_words_at(tg_subwords_words(m->subwords), id), word);
    } else {
        assert_int_equal(tg_words_find(tg_subwords_words(m->subwords), word), -1);
    }
    tg_tokens rows;
    float vector[WIDTH];
    if (!tg_subwords_encode(m->subwords, word, &rows, &error) ||
        !tg_subwords_vector(m->subwords, m->table, word, vector, &error)) {
        fail_msg("%s", error.text);
    }
    assert_true(count == 0 || count == rows.count);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(rows.ids[i], strtol(strtok(NULL, " "), NULL, 10));
    }
    tg_tokens_free(&rows);
    for (int c = 0; c < WIDTH; c++) {
        const double expected = strtod(strtok(NULL, " "), NULL);
        if (!(fabs(vector[c] - expected) <= 1e-6 * fabs(expected) + 1e-8)) {
            fail_msg("%s, value %d: %.9g instead of %.9g", word, c, (double)vector[c], expected);
        }
    }
}

/* A model of another program has its rows and vectors, and is saved with its bytes. */
static void check_golden(const char *name)
{
    char path[300], line[2000];
    snprintf(path, sizeof path, GOLDENS "%s.bin", name);
    model m = open_model(path);
    assert_true(tg_subwords_save(m.subwords, m.table, m.contexts, PATH, &error));
    assert_same_files(path, PATH);
    snprintf(path, sizeof path, GOLDENS "%s.txt", name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    int32_t lines = 0;
    for (; fgets(line, sizeof line, file); lines++) {
        check_word(&m, lines, line);
    }
    assert_true(lines >= tg_words_vocabulary(tg_subwords_words(m.subwords)) && lines > 10);
    fclose(file);
    free_model(&m);
}

static void test_models_of_others(void **state)
{
    (void)state;
    check_golden("fasttext");
    check_golden("no_ngrams");
    check_golden("gensim_model");
}

/* ---- models that begin here ---- */

/* With the words, counts and options of fastText's model, a new one is that model, but for the sampling and the rate of
 * its options. The tables may be views. */
static void test_new(void **state)
{
    (void)state;
    model m = open_model(GOLDENS "fasttext.bin");
    const tg_words *words = tg_subwords_words(m.subwords);
    const int32_t vocabulary = tg_words_vocabulary(words);
    int64_t counts[100] = {0};
    size_t length;
    char *bytes = read_file(GOLDENS "fasttext.bin", &length), *at = bytes + 8 + 12 * 4 + 8 + 3 * 4 + 2 * 8;
    for (int32_t id = 0; id < vocabulary; id++) {
        at += strlen(at) + 1;
        counts[id] = (unsigned char)*at;
        at += 9;
    }
    tg_text_free(bytes);
    tg_subwords_config config = tg_subwords_config_default();
    config.shortest = 1;
    config.longest = 4;
    config.buckets = 50;
    config.epochs = 3;
    config.min_count = 1;
    config.sample = 1e-4;
    tg_subwords *made = tg_subwords_new(words, counts, vocabulary, &config, &error);
    assert_non_null(made);
    assert_int_equal(tg_subwords_rows(made), vocabulary + 50);
    tg_tape *tape = tg_tape_new(NULL, NULL);
    tg_tensor *wide = tg_contiguous(tape, tg_transpose(tape, m.table, 0, 1));
    assert_true(tg_subwords_save(made, tg_transpose(tape, wide, 0, 1), m.contexts, PATH, &error));
    assert_same_files(GOLDENS "fasttext.bin", PATH);
    float a[WIDTH], b[WIDTH];
    assert_true(tg_subwords_vector(made, tg_transpose(tape, wide, 0, 1), "fishes", a, &error));
    assert_true(tg_subwords_vector(m.subwords, m.table, "fishes", b, &error));
    assert_memory_equal(a, b, sizeof a);
    tg_tape_free(tape);
    tg_subwords_free(made);
    free_model(&m);
}

/* The words are copied, and further ones are left out; the row of an n-gram does not depend on the words. */
static void test_words(void **state)
{
    (void)state;
    tg_words *words = tg_words_new("b a b", 5, NULL, &error);
    const int64_t counts[] = {1, 2};
    tg_subwords_config config = tg_subwords_config_default();
    config.buckets = 7;
    tg_subwords *s = tg_subwords_new(words, counts, 2, &config, &error);
    tg_words_free(words);
    assert_non_null(s);
    assert_int_equal(tg_words_vocabulary(tg_subwords_words(s)), 2);
    assert_int_equal(tg_words_find(tg_subwords_words(s), "<|unk|>"), 0);
    assert_int_equal(tg_words_find(tg_subwords_words(s), "b"), 1);
    assert_int_equal(tg_words_find(tg_subwords_words(s), "a"), -1);
    tg_tokens rows;
    assert_true(tg_subwords_encode(s, "b", &rows, &error));
    assert_int_equal(rows.count, 2); /* b and <b> */
    assert_int_equal(rows.ids[0], 1);
    assert_in_range(rows.ids[1], 2, 8);
    tg_tokens_free(&rows);
    /* fastText's end of a line has a row of its own, or none; an empty word is <> alone */
    const char *const without[] = {"</s>", ""};
    for (int i = 0; i < 2; i++) {
        assert_false(tg_subwords_encode(s, without[i], &rows, &error));
        assert_null(rows.ids);
        assert_error(&error, TG_ERROR_RANGE, "is not in the vocabulary, and has no n-grams");
    }
    float vector[1];
    tg_tensor *table = tensor_f32(TG_SHAPE(9, 1), (float[9]){0});
    assert_false(tg_subwords_vector(s, table, "", vector, &error));
    assert_error(&error, TG_ERROR_RANGE, "subwords_encode: '' is not in the vocabulary, and has no n-grams");
    tg_release(table);
    tg_subwords_free(s);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        int32_t vocabulary, shortest, longest, buckets;
        const char *problem;
    } bad[] = {
        {4, 3, 6, 10, "vocabulary 4, shortest 3, longest 6, buckets 10: there are fewer words"},
        {-1, 3, 6, 10, "there are fewer words"},
        {3, 5, 4, 10, "the shortest n-gram must not be longer than the longest"},
        {3, -1, 4, 10, "no number may be negative"},
        {3, 3, -4, 10, "no number may be negative"},
        {3, 3, 4, -10, "no number may be negative"},
        {3, 3, 6, 0, "n-grams need at least 1 bucket"},
        {3, 3, 6, INT32_MAX - 2, "words and buckets must be at most 2147483647 rows"},
    };
    const int64_t counts[] = {3, 2, 1};
    tg_words *words = tg_words_new("a b", 3, NULL, &error);
    tg_subwords_config config = tg_subwords_config_default();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        config.shortest = bad[i].shortest;
        config.longest = bad[i].longest;
        config.buckets = bad[i].buckets;
        assert_null(tg_subwords_new(words, counts, bad[i].vocabulary, &config, &error));
        assert_error(&error, TG_ERROR_VALUE, bad[i].problem);
    }
    config.longest = 0;
    config.buckets = 0;
    tg_subwords *s = tg_subwords_new(words, counts, 3, &config, &error);
    tg_tensor *good = tensor_f32(TG_SHAPE(3, 2), (float[6]){0}), *wide = tensor_f32(TG_SHAPE(3, 3), (float[9]){0});
    tg_tensor *doubles = tensor_f64(TG_SHAPE(3, 2), (double[6]){0}), *empty = tensor_f32(TG_SHAPE(3, 0), NULL);
    tg_tensor *more = tensor_f32(TG_SHAPE(4, 2), (float[8]){0});
    float vector[3];
    assert_false(tg_subwords_vector(s, more, "a", vector, &error));
    assert_error(&error, TG_ERROR_SHAPE,
                 "subwords_vector: a table (4,2) of f32; it must be f32, with 3 rows and at least 1 column");
    assert_false(tg_subwords_vector(s, doubles, "a", vector, &error));
    assert_error(&error, TG_ERROR_DTYPE, "subwords_vector: a table (3,2) of f64");
    assert_false(tg_subwords_save(s, empty, good, PATH, &error));
    assert_error(&error, TG_ERROR_SHAPE, "subwords_save: a table (3,0) of f32");
    assert_false(tg_subwords_save(s, good, wide, PATH, &error));
    assert_error(&error, TG_ERROR_SHAPE, "subwords_save: a table (3,3) of f32");
    assert_false(tg_subwords_save(s, good, more, PATH, &error));
    assert_error(&error, TG_ERROR_SHAPE, "subwords_save: a table (4,2) of f32");
    assert_false(tg_subwords_save(s, good, good, "no/such/folder", &error));
    assert_error(&error, TG_ERROR_FILE, "subwords_save: ");
    tg_tensor *tensors[] = {good, wide, doubles, empty, more};
    for (int i = 0; i < 5; i++) {
        tg_release(tensors[i]);
    }
    tg_subwords_free(s);
    tg_words_free(words);
}

/* ---- bad files ---- */

static void refuse(const char *problem)
{
    tg_tensor *table = (tg_tensor *)&error, *contexts = table;
    assert_null(tg_subwords_open(PATH, &table, &contexts, &error));
    assert_null(table);
    assert_null(contexts);
    assert_error(&error, TG_ERROR_FORMAT, problem);
}

static void test_bad_files(void **state)
{
    (void)state;
    enum { HEADER = 92 }; /* the bytes before the first word, </s> */
    static const struct {
        int at, bytes;
        int64_t value;
        const char *problem;
    } changes[] = {
        {0, 4, 793712313, "': it is no model of fastText: its first 4 bytes are not ba 16 4f 2f"},
        {4, 4, 10, "the version of its format is neither 11 nor 12"},
        {4, 4, 13, "the version of its format is neither 11 nor 12"},
        {8, 4, 0, "its size is not that of its words, buckets and width"},
        {8, 4, -6, "its size is not that of its words, buckets and width"},
        {8, 4, INT32_MAX, "its size is not that of its words, buckets and width"},
        {40, 4, 0, "n-grams need at least 1 bucket"},
        {40, 4, -1, "no number may be negative"},
        {40, 4, 51, "its size is not that of its words, buckets and width"},
        {40, 4, INT32_MAX, "words and buckets must be at most 2147483647 rows"},
        {44, 4, 5, "the shortest n-gram must not be longer than the longest"},
        {44, 4, -2, "no number may be negative"},
        {48, 4, -1, "no number may be negative"},
        {64, 4, 1, "the numbers of words and labels do not fit together, or not the size of the file"},
        {64, 4, INT32_MAX, "the numbers of words and labels do not fit together"},
        {68, 4, -1, "the numbers of words and labels do not fit together"},
        {72, 4, 1, "the numbers of words and labels do not fit together"},
        {84, 8, 0, "it is quantized (.ftz), and has no table of floats"},
        {84, 8, INT64_MAX, "the file ends early"},
        {HEADER, 1, 0, "word 1 of 16: the word is empty or above 65535 bytes, or the file ends early"},
    };
    size_t length, ignored;
    char *bytes = read_file(GOLDENS "fasttext.bin", &length);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char *changed = read_file(GOLDENS "fasttext.bin", &ignored);
        for (int b = 0; b < changes[i].bytes; b++) {
            changed[changes[i].at + b] = (char)((uint64_t)changes[i].value >> 8 * b);
        }
        write_file(changed, length);
        refuse(changes[i].problem);
        tg_text_free(changed);
    }
    for (size_t cut = 0; cut < length; cut++) {
        write_file(bytes, cut);
        refuse("subwords_open: '" PATH "'");
    }
    char *longer = malloc(length + 1);
    memcpy(longer, bytes, length);
    longer[length] = 0;
    write_file(longer, length + 1);
    refuse("its size is not that of its words, buckets and width");
    /* numbers behind the words: the flags, and the sizes of the table and of the contexts */
    const size_t contexts = length - 16 * WIDTH * 4 - 17, table = contexts - (16 + 50) * WIDTH * 4 - 17;
    static const char *const problems[] = {"it is quantized (.ftz)", "a table has other rows or columns"};
    for (int i = 0; i < 4; i++) {
        memcpy(longer, bytes, length);
        longer[(i < 2 ? table : contexts) + (i % 2 ? 1 : 0)]++;
        write_file(longer, length);
        refuse(i == 2 ? "its contexts are quantized" : problems[i % 2]);
    }
    free(longer);
    tg_text_free(bytes);
}

static void test_classifiers(void **state)
{
    (void)state;
    size_t length;
    char *bytes = read_file(GOLDENS "classifier.bin", &length);
    write_file(bytes, length);
    tg_text_free(bytes);
    refuse("it is a classifier with labels, not vectors of words");
    bytes = read_file(GOLDENS "classifier.ftz", &length);
    write_file(bytes, length);
    tg_text_free(bytes);
    refuse("it is quantized (.ftz), and has no table of floats");
}

/* A file of version 11, bytes that are not UTF-8, an equal word, and the longest word. */
static void test_words_of_files(void **state)
{
    (void)state;
    static const char first[] = "\xff", second[] = "\xc3\x28";
    enum { LONGEST = 65535 };
    char *name = malloc(LONGEST + 2);
    memset(name, 'w', LONGEST + 1);
    name[LONGEST] = '\0';
    tg_words *words = tg_words_new("a b c", 5, NULL, &error);
    tg_subwords_config config = tg_subwords_config_default();
    config.buckets = 3;
    tg_subwords *s = tg_subwords_new(words, (int64_t[]){1, 2, 3}, 3, &config, &error);
    tg_tensor *table = tensor_f32(TG_SHAPE(6, 1), (float[]){1, 2, 3, 4, 5, 6});
    tg_tensor *contexts = tensor_f32(TG_SHAPE(3, 1), (float[]){7, 8, 9});
    assert_true(tg_subwords_save(s, table, contexts, PATH, &error));
    size_t length, begin = 92;
    char *bytes = read_file(PATH, &length);
    size_t behind = begin + strlen("<|unk|>") + 1 + 9 + 11 + 11;
    bytes[4] = 11;
    const char *const names[][3] = {{first, second, "x"}, {"x", "y", "x"}, {name, "y", "z"}};
    for (int i = 0; i < 4; i++) {
        char *changed = malloc(length + 70000), *at = changed + begin;
        memcpy(changed, bytes, begin);
        name[LONGEST] = i == 3 ? 'w' : '\0';
        name[LONGEST + 1] = '\0';
        for (int k = 0; k < 3; k++) {
            const char *word = names[i == 3 ? 2 : i][k];
            memcpy(at, word, strlen(word) + 1);
            at += strlen(word) + 1;
            memset(at, 0, 9);
            at += 9;
        }
        memcpy(at, bytes + behind, length - behind);
        write_file(changed, (size_t)(at - changed) + length - behind);
        free(changed);
        if (i == 1) {
            refuse("word 3 of 3: word 1 is 'x', too");
        } else if (i == 3) {
            refuse("word 1 of 3: the word is empty or above 65535 bytes");
        } else {
            model m = open_model(PATH);
            assert_int_equal(tg_words_find(tg_subwords_words(m.subwords), names[i][0]), 0);
            assert_values(m.table, (double[]){1, 2, 3, 4, 5, 6}, 6, 0, 0);
            assert_values(m.contexts, (double[]){7, 8, 9}, 3, 0, 0);
            free_model(&m);
        }
    }
    free(name);
    tg_text_free(bytes);
    tg_subwords_free(s);
    tg_words_free(words);
    tg_release(table);
    tg_release(contexts);
}

static int remove_file(void **state)
{
    (void)state;
    remove(PATH);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_models_of_others), cmocka_unit_test(test_new),       cmocka_unit_test(test_words),
        cmocka_unit_test(test_refusals),         cmocka_unit_test(test_bad_files), cmocka_unit_test(test_classifiers),
        cmocka_unit_test(test_words_of_files),
    };
    return cmocka_run_group_tests_name("words and their n-grams", tests, NULL, remove_file);
}

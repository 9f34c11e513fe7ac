/* The vectors of words in word2vec's formats: files that gensim has written (tests/goldens/make_word_vectors.py), files
 * that were saved here, and bad ones. */
#include "formats.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GOLDENS TG_TEST_GOLDENS "/data/word_vectors/"
#define PATH "test_words_vectors.tmp"

static tg_error error;

static void write_file(const char *bytes, size_t length)
{
    FILE *file = fopen(PATH, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static void assert_same_vectors(const tg_tensor *a, const tg_tensor *b)
{
    assert_int_equal(tg_tensor_count(a), tg_tensor_count(b));
    assert_memory_equal(tg_tensor_data(a), tg_tensor_data(b), (size_t)tg_tensor_count(a) * sizeof(float));
}

/* Value c of word r is (r + 1) / (c + 3), negative where r + c is odd. */
static void check_golden(const char *path, tg_vectors_format format)
{
    static const char *const names[] = {"the", "of", "na\xc3\xafve", "\xe6\x97\xa5\xe6\x9c\xac", "3.14"};
    tg_tensor *vectors;
    tg_words *words = tg_words_open_vectors(path, format, &vectors, &error);
    if (!words) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(tg_words_vocabulary(words), 5);
    assert_int_equal(tg_tensor_size(vectors, 0), 5);
    assert_int_equal(tg_tensor_size(vectors, 1), 7);
    for (int r = 0; r < 5; r++) {
        assert_string_equal(tg_words_at(words, r), names[r]);
        assert_int_equal(tg_words_find(words, names[r]), r);
        for (int c = 0; c < 7; c++) {
            float expected = (float)((double)((r + 1) * ((r + c) % 2 ? -1 : 1)) / (c + 3));
            assert_true(((const float *)tg_tensor_data(vectors))[r * 7 + c] == expected);
        }
    }
    tg_words_free(words);
    tg_release(vectors);
}

static void test_files_of_gensim(void **state)
{
    (void)state;
    check_golden(GOLDENS "gensim.txt", TG_VECTORS_TEXT);
    check_golden(GOLDENS "gensim.bin", TG_VECTORS_BINARY);
}

static void test_bytes(void **state)
{
    (void)state;
    static const char text[] = "2 3\na 1 -0.5 0.100000001\nb 1e+10 inf nan\n";
    static const char binary[] = "2 3\na \0\0\x80\x3f\0\0\0\xbf\xcd\xcc\xcc\x3d\n"
                                 "b \xf9\x02\x15\x50\0\0\x80\x7f\0\0\xc0\x7f\n";
    tg_words_config config = tg_words_config_default();
    config.order = TG_WORD_ORDER_BYTES;
    config.special_last = true;
    tg_words *words = tg_words_new("a a b b", 7, &config, &error);
    assert_int_equal(tg_words_vocabulary(words), 3); /* with the unknown token */
    tg_tensor *doubles = tensor_f64(TG_SHAPE(2, 3), (double[]){1, -0.5, 0.1, 1e10, INFINITY, NAN});
    tg_tensor *wide = tensor_f64(TG_SHAPE(3, 2), (double[]){1, 1e10, -0.5, INFINITY, 0.1, NAN});
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *forms[] = {doubles, tg_tensor_new_cast(doubles, TG_F32, NULL), tg_transpose(t, wide, 0, 1)};
    for (int k = 0; k < 3; k++) {
        for (int format = 0; format < 2; format++) {
            size_t length;
            if (!tg_words_save_vectors(words, forms[k], PATH, (tg_vectors_format)format, &error)) {
                fail_msg("%s", error.text);
            }
            char *bytes = tg_text_read(PATH, &length, NULL);
            assert_int_equal(length, format ? sizeof binary - 1 : sizeof text - 1);
            assert_memory_equal(bytes, format ? binary : text, length);
            tg_text_free(bytes);
            tg_tensor *vectors;
            tg_words *opened = tg_words_open_vectors(PATH, (tg_vectors_format)format, &vectors, &error);
            assert_non_null(opened);
            assert_string_equal(tg_words_at(opened, 1), "b");
            static const double expected[] = {1, -0.5, 0.1F, 1e10, INFINITY};
            for (int i = 0; i < 5; i++) {
                assert_true(tg_tensor_value_at(vectors, i) == expected[i]);
            }
            assert_true(isnan(tg_tensor_value_at(vectors, 5)));
            tg_release(vectors);
            tg_words_free(opened);
        }
    }
    tg_release(forms[1]);
    tg_release(wide);
    tg_release(doubles);
    tg_tape_free(t);
    tg_words_free(words);
}

/* A file of several pieces, in a locale with a decimal comma if there is one. */
static void test_large(void **state)
{
    (void)state;
    enum { ROWS = 4000, WIDTH = 61 };
    static char text[ROWS * 40];
    size_t length = 0;
    for (int i = 0; i < ROWS; i++) {
        length += (size_t)snprintf(text + length, 40, "w%0*d ", i % 29 + 1, i);
    }
    tg_words_config config = tg_words_config_default();
    config.split = TG_WORD_SPLIT_SPACE;
    config.special_last = true;
    tg_words *words = tg_words_new(text, length, &config, &error), *opened;
    tg_rng *rng = tg_rng_new(1);
    tg_tensor *vectors = tg_tensor_new(TG_F32, TG_SHAPE(ROWS, WIDTH), NULL), *read;
    assert_true(tg_tensor_fill_normal(vectors, rng, 0, 1, NULL));
    setlocale(LC_NUMERIC, "de_DE.UTF-8");
    for (int format = 0; format < 2; format++) {
        assert_true(tg_words_save_vectors(words, vectors, PATH, (tg_vectors_format)format, &error));
        opened = tg_words_open_vectors(PATH, (tg_vectors_format)format, &read, &error);
        if (!opened) {
            fail_msg("%s", error.text);
        }
        assert_same_vectors(read, vectors);
        for (int32_t i = 0; i < ROWS; i++) {
            assert_string_equal(tg_words_at(opened, i), tg_words_at(words, i));
        }
        tg_release(read);
        tg_words_free(opened);
    }
    setlocale(LC_NUMERIC, "C");
    tg_release(vectors);
    tg_rng_free(rng);
    tg_words_free(words);
}

static bool read_vectors(const char *path, tg_text_buffer *content, tg_error *problem)
{
    tg_tensor *vectors;
    const tg_vectors_format format = strstr(path, ".bin") ? TG_VECTORS_BINARY : TG_VECTORS_TEXT;
    tg_words *words = tg_words_open_vectors(path, format, &vectors, problem);
    const int64_t rows = tg_words_vocabulary(words), width = tg_tensor_size(vectors, 1);
    tg_text_add_format(content, "%dx%d ", (int)rows, (int)width);
    for (int32_t row = 0; row < rows; row++) {
        tg_text_add(content, row > 0 ? "|" : "");
        add_escaped(content, tg_words_at(words, row));
        tg_text_add(content, "=");
        add_values(content, vectors, row * width, (row + 1) * width);
        assert_int_equal(tg_words_find(words, tg_words_at(words, row)), row);
    }
    tg_words_free(words);
    tg_release(vectors);
    return words != NULL;
}

static void test_variants(void **state)
{
    (void)state;
    check_format(TG_TEST_GOLDENS "/formats.txt", "word2vec_text", PATH, read_vectors);
    check_format(TG_TEST_GOLDENS "/formats.txt", "glove", PATH, read_vectors);
    check_format(TG_TEST_GOLDENS "/formats.txt", "word2vec_binary", PATH ".bin", read_vectors);
}

#define SIZES "line 1: it must have the numbers of words and of values, V >= 0 and C >= 1"

typedef struct bad_file {
    const char *bytes;
    size_t length; /* 0: that of the text */
    tg_vectors_format format;
    const char *problem;
} bad_file;

static void test_bad_files(void **state)
{
    (void)state;
    static const bad_file files[] = {
        {"", 0, TG_VECTORS_TEXT, SIZES ", or a word and at least 2 values"},
        {"1", 0, TG_VECTORS_TEXT, SIZES ", or a word and at least 2 values"},
        {"x 2\n", 0, TG_VECTORS_TEXT, SIZES ", or a word and at least 2 values"},
        {"1 0\na\n", 0, TG_VECTORS_TEXT, SIZES ", or a word and at least 2 values"},
        {"-1 2\n", 0, TG_VECTORS_BINARY, SIZES},
        {"1 2147483648\na", 0, TG_VECTORS_BINARY, SIZES},
        {"1 2 3\na 12345\n", 0, TG_VECTORS_TEXT, "word 2 of 2: a value is missing"},
        {"1 1 1 1 1 1 1\nb\nc\n", 0, TG_VECTORS_TEXT,
         "line 1: the file is too short for these numbers of words and values"},
        {"2147483647 2147483647\na 1 2\n", 0, TG_VECTORS_TEXT,
         "line 1: the file is too short for these numbers of words and values"},
        {"9 2\na 1 2\n", 0, TG_VECTORS_BINARY, "line 1: the file is too short for these numbers of words and values"},
        {"1 2\na 1\n", 0, TG_VECTORS_TEXT, "word 1 of 1: a value is missing"},
        {"2 2\na 1 2\nbb 1\n", 0, TG_VECTORS_TEXT, "word 2 of 2: a value is missing"},
        {"1 2\na 1 2 3\n", 0, TG_VECTORS_TEXT, "word 1 of 1: the line has more values than it should"},
        {"1 2\na 1 zwei\n", 0, TG_VECTORS_TEXT, "word 1 of 1: a value is not a number"},
        {"1 2\na 1 2\0\n", 11, TG_VECTORS_TEXT, "word 1 of 1: a value is not a number"},
        {"1 2\na 1 0000000000000000000000000000000000000000000000000000000000001\n", 0, TG_VECTORS_TEXT,
         "word 1 of 1: a value is not a number"},
        {"1 2\n 1 2 33\n", 0, TG_VECTORS_TEXT, "word 1 of 1: the word is empty, or the file ends"},
        {"2 1\na 1\n\nb 2\n", 0, TG_VECTORS_TEXT, "word 2 of 2: the word is empty, or the file ends"},
        {"1 1\n\xff 1\n", 0, TG_VECTORS_TEXT, "word 1 of 1: the word is not UTF-8"},
        {"1 1\na\0b 1\n", 10, TG_VECTORS_TEXT, "word 1 of 1: the word has a NUL"},
        {"3 1\na 1\nb 2\na 3\n", 0, TG_VECTORS_TEXT, "word 3 of 3: word 1 is 'a', too"},
        {"1 1\na\n    ", 0, TG_VECTORS_BINARY, "word 1 of 1: no space stands behind the word"},
        {"1 2\nabcdef 1234567", 0, TG_VECTORS_BINARY, "word 1 of 1: the file ends in its values"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char expected[300];
        tg_tensor *vectors = (tg_tensor *)&error;
        write_file(files[i].bytes, files[i].length ? files[i].length : strlen(files[i].bytes));
        assert_null(tg_words_open_vectors(PATH, files[i].format, &vectors, &error));
        assert_null(vectors);
        snprintf(expected, sizeof expected, "words_open_vectors: '" PATH "', %s", files[i].problem);
        if (error.code != TG_ERROR_FORMAT || strcmp(error.text, expected) != 0) {
            fail_msg("file %zu: '%s' instead of '%s'", i, error.text, expected);
        }
        tg_error_clear(&error);
    }
}

static void test_cut_files(void **state)
{
    (void)state;
    static const char *const names[] = {GOLDENS "gensim.txt", GOLDENS "gensim.bin"};
    for (int format = 0; format < 2; format++) {
        size_t length;
        tg_tensor *vectors;
        char *bytes = tg_text_read(names[format], &length, NULL);
        const size_t last = format ? length : (size_t)(strrchr(bytes, ' ') - bytes) + 2;
        for (size_t cut = 0; cut < last; cut++) {
            write_file(bytes, cut);
            assert_null(tg_words_open_vectors(PATH, (tg_vectors_format)format, &vectors, &error));
            assert_error(&error, TG_ERROR_FORMAT, "words_open_vectors");
        }
        tg_text_free(bytes);
    }
    /* what follows the last word */
    tg_tensor *vectors;
    write_file("1 1\na 1\nb", 9);
    assert_null(tg_words_open_vectors(PATH, TG_VECTORS_TEXT, &vectors, &error));
    assert_error(&error, TG_ERROR_FORMAT, "words_open_vectors: '" PATH "' goes on after its 1 words");
    /* word2vec.c ends a line with a space; the last newline may be missing; a file without words */
    write_file("1 2\na 1 2 ", 10);
    tg_words *words = tg_words_open_vectors(PATH, TG_VECTORS_TEXT, &vectors, &error);
    assert_non_null(words);
    assert_values(vectors, (double[]){1, 2}, 2, 0, 0);
    tg_words_free(words);
    tg_release(vectors);
    write_file("0 2\n", 4);
    words = tg_words_open_vectors(PATH, TG_VECTORS_BINARY, &vectors, &error);
    assert_int_equal(tg_tensor_count(vectors), 0);
    tg_words_free(words);
    tg_release(vectors);
    /* a word that tg_words_open would not read */
    write_file("2 1\na\xc2\xa0 1\nb\tc 1\n", 16);
    words = tg_words_open_vectors(PATH, TG_VECTORS_TEXT, &vectors, &error);
    assert_false(tg_words_save(words, PATH, &error));
    assert_error(&error, TG_ERROR_VALUE,
                 "words_save: word 1, 'b\\x09c', has white space; a line has one word without it");
    tg_words_free(words);
    tg_release(vectors);
    /* a word of the largest length, and one above */
    static char text[70000] = "1 1\n";
    for (size_t size = 65535; size < 65537; size++) {
        memset(text + 4, 'w', size);
        strcpy(text + 4 + size, " 1\n");
        write_file(text, size + 7);
        words = tg_words_open_vectors(PATH, TG_VECTORS_TEXT, &vectors, &error);
        assert_int_equal(words != NULL, size == 65535);
        tg_words_free(words);
        tg_release(vectors);
    }
    assert_error(&error, TG_ERROR_FORMAT, "word 1 of 1: the word is above 65535 bytes");
}

static void test_refusals(void **state)
{
    (void)state;
    tg_words *words = tg_words_new("a b", 3, NULL, &error);
    tg_tensor *two = tensor_f32(TG_SHAPE(2, 2), (float[]){1, 2, 3, 4}),
              *four = tensor_f32(TG_SHAPE(4, 1), (float[4]){0});
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 1), (int32_t[]){1, 2}), *vectors;
    remove(PATH);
    assert_false(tg_words_save_vectors(words, four, PATH, TG_VECTORS_TEXT, &error));
    assert_error(&error, TG_ERROR_SHAPE,
                 "words_save_vectors: vectors (4,1) of 3 words; they must be (V,C) with at most as many rows as words, "
                 "and C >= 1");
    assert_false(tg_words_save_vectors(words, ids, PATH, TG_VECTORS_TEXT, &error));
    assert_error(&error, TG_ERROR_DTYPE, "words_save_vectors: the vectors are i32; they must be f32 or f64");
    assert_false(tg_words_save_vectors(words, two, PATH, (tg_vectors_format)2, &error));
    assert_error(&error, TG_ERROR_VALUE, "words_save_vectors: format 2; it must be a tg_vectors_format");
    assert_false(tg_words_save_vectors(words, two, "no/such/folder", TG_VECTORS_TEXT, &error));
    assert_error(&error, TG_ERROR_FILE, "words_save_vectors: ");
    FILE *file = fopen(PATH, "rb");
    assert_null(file);
    assert_null(tg_words_open_vectors(PATH, TG_VECTORS_TEXT, &vectors, &error));
    assert_error(&error, TG_ERROR_FILE, "words_open_vectors: open '" PATH "'");
    assert_null(tg_words_open_vectors(PATH, (tg_vectors_format)-1, &vectors, &error));
    assert_error(&error, TG_ERROR_VALUE, "words_open_vectors: format -1; it must be a tg_vectors_format");
    tg_release(two);
    tg_release(four);
    tg_release(ids);
    tg_words_free(words);
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
        cmocka_unit_test(test_files_of_gensim), cmocka_unit_test(test_bytes),     cmocka_unit_test(test_large),
        cmocka_unit_test(test_bad_files),       cmocka_unit_test(test_cut_files), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_variants),
    };
    return cmocka_run_group_tests_name("vectors of words", tests, NULL, remove_file);
}

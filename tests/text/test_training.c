/* Training of vocabularies: the merges are those of the plainest training, for texts and files, and for all numbers of
 * threads; files are read in pieces; bad files are errors, and a training can be stopped. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plain_training.h"
#include "text/word_counts.h"

static const char path[] = "test_training.txt";

/* ---- random texts ---- */

static uint32_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525U + 1013904223U;
    return (uint32_t)(((uint64_t)(seed >> 8) * below) >> 24);
}

/* What is near the borders of words: letters, digits and signs of one to four bytes, contractions, all kinds of white
 * space, controls, and U+180E, which is white space for some. */
static const char *const parts[] = {"a",
                                    "b",
                                    "ab",
                                    "the",
                                    "The",
                                    "1",
                                    "42",
                                    "'",
                                    "'s",
                                    "'ll",
                                    "'re",
                                    "'x",
                                    ".",
                                    "--",
                                    "?!",
                                    "_",
                                    " ",
                                    " ",
                                    " ",
                                    "  ",
                                    "   ",
                                    "\n",
                                    "\n\n",
                                    "\t",
                                    "\r\n",
                                    "\v",
                                    "\f",
                                    "\x01",
                                    "\x1c",
                                    "\x7f",
                                    "\xc2\x85",
                                    "\xc2\xa0",
                                    "\xc3\xa4",
                                    "\xc3\xa4h",
                                    "\xce\xa9",
                                    "\xd9\xa3",
                                    "\xe1\x9a\x80",
                                    "\xe1\xa0\x8e",
                                    "\xe2\x80\x83",
                                    "\xe2\x80\x8b",
                                    "\xe2\x80\xa8",
                                    "\xe2\x80\xaf",
                                    "\xe2\x81\x9f",
                                    "\xe3\x80\x80",
                                    "\xe3\x80\x82",
                                    "\xe6\x97\xa5",
                                    "\xf0\x9f\x98\x80",
                                    "aaaa",
                                    "aaa",
                                    "abab",
                                    "bba"};

/* Writes a random text of at most `most` bytes; with few `kinds` pairs are equally frequent, and overlap. */
static size_t draw_text(char *text, size_t most, uint32_t kinds)
{
    size_t length = 0;
    const char *chosen[8];
    for (uint32_t i = 0; i < kinds; i++) {
        chosen[i] = parts[draw(sizeof parts / sizeof *parts)];
    }
    for (;;) {
        const char *part = kinds ? chosen[draw(kinds)] : parts[draw(sizeof parts / sizeof *parts)];
        if (length + strlen(part) > most) {
            return length;
        }
        memcpy(text + length, part, strlen(part));
        length += strlen(part);
    }
}

static void write_file(const char *name, const char *text, size_t length)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

static tg_tokenizer *train_file(int32_t size, int64_t min_count, tg_error *error)
{
    tg_tokenizer_train_files_config config = tg_tokenizer_train_files_config_default();
    config.min_count = min_count;
    return tg_tokenizer_train_files((const char *const[]){path}, 1, size, &config, error);
}

/* ---- equal merges ---- */

/* Asserts that the tokenizer has these merges and <|endoftext|>, and frees it. */
static void check_merges(tg_tokenizer *z, const plain_merge *merges, int32_t count)
{
    assert_non_null(z);
    assert_int_equal(z->merge_count, count);
    for (int32_t i = 0; i < count; i++) {
        assert_int_equal(z->merges[i].pair.left, merges[i].left);
        assert_int_equal(z->merges[i].pair.right, merges[i].right);
        assert_int_equal(z->merges[i].result, 256 + i);
    }
    assert_int_equal(tg_tokenizer_vocabulary(z), 257 + count);
    assert_int_equal(tg_tokenizer_end_of_text(z), 256 + count);
    tg_tokenizer_free(z);
}

static void compare_with_plain(const char *text, size_t length, int32_t most)
{
    static plain_merge merges[1000];
    tg_error error = TG_NO_ERROR;
    write_file(path, text, length);
    int32_t count = plain_train(text, length, most, merges);
    for (int64_t min_count = 1; min_count <= 4; min_count++) {
        while (count > 0 && merges[count - 1].count < min_count) {
            count--; /* the counts of merges never rise */
        }
        check_merges(train_file(257 + most, min_count, &error), merges, count);
        if (min_count == 2) {
            check_merges(tg_tokenizer_train(text, length, 257 + most, &error), merges, count);
        }
    }
    assert_int_equal(error.code, TG_OK);
}

static void test_merges_are_those_of_the_plainest_training(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "a",
                                        " ",
                                        "a b c d",
                                        "aa",
                                        "aaa",
                                        "aaaa",
                                        "aaaaa",
                                        "aaaa aaaa",
                                        "aaaaaaaaaaaaaaaaa",
                                        "ab ab ab cd",
                                        "abab abab",
                                        "ababa babab",
                                        "abcabcabc",
                                        "aabaab baabaa",
                                        "aaab aaab baaa",
                                        "cd ab cd ab ba dc ba dc",
                                        "x'll y'll 'll ''ll",
                                        "12 123 1234 12345 \xd9\xa3\xd9\xa3\xd9\xa3",
                                        "\xc3\xa4\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4",
                                        "  \n  \n  \n",
                                        "the cat sat on the mat. the cat ate the rat"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        compare_with_plain(texts[i], strlen(texts[i]), 40);
    }
    static char text[600];
    for (uint32_t i = 0; i < 120; i++) {
        seed = i;
        size_t length = draw_text(text, i % 3 ? 200 : sizeof text, i % 4 ? 2 + draw(6) : 0);
        compare_with_plain(text, length, 30);
    }
}

/* Long words, and long runs of one letter, in which the pairs of a merge overlap with those before. */
static void test_long_words(void **state)
{
    (void)state;
    static char text[4000];
    for (uint32_t i = 0; i < 12; i++) {
        seed = 1000 + i;
        for (size_t k = 0; k < sizeof text; k++) {
            text[k] = draw(400) == 0 ? ' ' : (char)('a' + draw(1 + i % 3));
        }
        compare_with_plain(text, sizeof text, 60);
    }
}

/* Words that occur from 4096 times on are sorted by their counts. */
static void test_frequent_words(void **state)
{
    (void)state;
    static const char *const words[] = {" ab", " cd", " ce", " cf", " b", " ba"};
    static const int counts[] = {4096, 4097, 4095, 5000, 9000, 4096};
    static char text[100000];
    size_t length = 0;
    for (int i = 0; i < 9000; i++) {
        for (int w = 0; w < 6; w++) {
            if (i < counts[w]) {
                memcpy(text + length, words[w], strlen(words[w]));
                length += strlen(words[w]);
            }
        }
    }
    compare_with_plain(text, length, 20);
}

/* ---- pieces ---- */

static int compare_plain_words(const void *a, const void *b)
{
    const plain_word *x = a, *y = b;
    int order = memcmp(x->bytes, y->bytes, x->length < y->length ? x->length : y->length);
    return order != 0 ? order : (x->length > y->length) - (x->length < y->length);
}

/* Returns a tokenizer that only splits texts. */
static tg_tokenizer *new_splits(void)
{
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tg_tokenizer_make(&error);
    assert_true(tg_tokenizer_use_pattern(z, NULL, "test", &error) && tg_tokenizer_finish(z, &error));
    return z;
}

/* Wherever a text may be cut, the words of both parts are those of the text. */
static void test_cuts(void **state)
{
    (void)state;
    static char text[60];
    int cuts = 0;
    tg_tokenizer *splits = new_splits();
    tg_pipeline walk = {.z = splits};
    for (uint32_t i = 0; i < 3000; i++) {
        seed = 9000 + i;
        size_t length = draw_text(text, sizeof text, 0);
        plain_word *words, *left, *right;
        size_t count = plain_split(text, length, &words);
        for (size_t at = 1; at < length; at++) {
            if (!tg_pipeline_can_cut(&walk, text, length, at)) {
                continue;
            }
            size_t before = plain_split(text, at, &left), after = plain_split(text + at, length - at, &right);
            assert_int_equal(before + after, count);
            for (size_t w = 0; w < count; w++) {
                plain_word *part = w < before ? &left[w] : &right[w - before];
                assert_ptr_equal(part->bytes, words[w].bytes);
                assert_int_equal(part->length, words[w].length);
            }
            free(left);
            free(right);
            cuts++;
        }
        free(words);
    }
    tg_pipeline_free(&walk);
    tg_tokenizer_free(splits);
    assert_true(cuts > 3000);
}

/* Returns how often the sorted list has the word. */
static int64_t count_of(plain_word key, const plain_word *words, size_t count)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_plain_words(&words[middle], &key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    size_t end = low;
    while (end < count && compare_plain_words(&words[end], &key) == 0) {
        end++;
    }
    return (int64_t)(end - low);
}

/* Asserts that the counter has the words of the text, each as often. */
static void check_words(const tg_word_counter *counter, const char *text, size_t length)
{
    plain_word *words;
    size_t count = plain_split(text, length, &words);
    qsort(words, count, sizeof *words, compare_plain_words);
    int64_t sum = 0;
    const tg_word_table *table = &counter->table;
    for (int32_t k = 0; k < table->words.count; k++) {
        plain_word word = {table->words.bytes + table->words.begin[k], tg_names_length(&table->words, k)};
        assert_int_equal(table->counts[k], count_of(word, words, count));
        sum += table->counts[k];
    }
    assert_int_equal(sum, count);
    free(words);
}

/* Counts the words of all pieces. Returns the number of pieces. */
static int count_pieces(tg_word_counter *counter, tg_piece_reader *reader, tg_error *error)
{
    tg_piece pieces[TG_MOST_PIECES];
    int found, all = 0;
    while ((found = tg_pieces_read(reader, pieces, error)) > 0) {
        assert_true(tg_word_counter_add(counter, pieces, found, error));
        all += found;
    }
    assert_int_equal(found, 0);
    return all;
}

/* Counts the words of the file in pieces. */
static void count_file(tg_word_counter *counter, const tg_tokenizer *splits, tg_error *error)
{
    tg_piece_reader reader;
    assert_true(tg_word_counter_make(counter, "count", splits, error));
    assert_true(tg_piece_reader_begin(&reader, "count", splits, (const char *const[]){path}, 1, error));
    assert_true(count_pieces(counter, &reader, error) >= 3);
    tg_piece_reader_end(&reader);
}

/* The words of the pieces of a text are the words of the text. */
static void test_no_piece_divides_a_word(void **state)
{
    (void)state;
    size_t most = 3 * TG_PIECE_BYTES;
    char *text = malloc(most);
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *splits = new_splits();
    for (uint32_t i = 0; i < 4; i++) {
        seed = 77 + i;
        size_t length = draw_text(text, most - i, i % 2 ? 0 : 5);
        tg_word_counter counter;
        assert_true(tg_word_counter_make(&counter, "count", splits, &error));
        tg_piece_reader reader;
        assert_true(tg_piece_reader_begin_text(&reader, "count", splits, text, length, &error));
        count_pieces(&counter, &reader, &error);
        tg_piece_reader_end(&reader);
        check_words(&counter, text, length);
        tg_word_counter_free(&counter);
        if (i % 2) { /* with all parts, white space follows a word in each piece */
            write_file(path, text, length);
            count_file(&counter, splits, &error);
            check_words(&counter, text, length);
            tg_word_counter_free(&counter);
        }
    }
    tg_tokenizer_free(splits);
    free(text);
}

/* Returns the text of a vocabulary. */
static char *train_text(const char *const *paths, int64_t count, int threads, const char *text, size_t length)
{
    tg_error error = TG_NO_ERROR;
    assert_true(tg_set_threads(threads, &error));
    tg_tokenizer *z = paths ? tg_tokenizer_train_files(paths, count, 700, NULL, &error)
                            : tg_tokenizer_train(text, length, 700, &error);
    char *vocabulary = tg_tokenizer_text(z, NULL, &error);
    assert_non_null(vocabulary);
    tg_tokenizer_free(z);
    return vocabulary;
}

static void test_threads_and_files_change_nothing(void **state)
{
    (void)state;
    size_t length = 2 * TG_PIECE_BYTES + 12345, half = length / 2;
    char *text = malloc(length);
    seed = 5;
    length = draw_text(text, length, 0);
    while (text[half] != ' ' || strchr(" \n\t\v\f\r\x80\x81\x82\x83\x84\x85\xa0\xa8\xaf\x9f", text[half - 1])) {
        half++;
    }
    int before = tg_threads();
    char *expected = train_text(NULL, 0, 1, text, length);
    write_file(path, text, length);
    write_file("test_training_1.txt", text, half);
    write_file("test_training_2.txt", text + half, length - half);
    write_file("test_training_0.txt", "", 0);
    static const char *const whole[] = {path}, *const both[] = {"test_training_0.txt", "test_training_1.txt",
                                                                "test_training_0.txt", "test_training_2.txt",
                                                                "test_training_0.txt"};
    for (int threads = 1; threads <= 3; threads++) {
        char *found[] = {train_text(NULL, 0, threads, text, length), train_text(whole, 1, threads, NULL, 0),
                         train_text(both, 5, threads, NULL, 0)};
        for (int i = 0; i < 3; i++) {
            assert_string_equal(found[i], expected);
            tg_text_free(found[i]);
        }
    }
    tg_text_free(expected);
    tg_set_threads(before, NULL);
    remove("test_training_0.txt");
    remove("test_training_1.txt");
    remove("test_training_2.txt");
    free(text);
}

/* ---- bad files ---- */

static void test_bad_arguments(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    const char *const missing[] = {path, "missing.txt"}, *const null[] = {path, NULL}, *const folder[] = {"/tmp"};
    write_file(path, "a text", 6);
    assert_null(tg_tokenizer_train_files(missing, 2, 300, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "tokenizer_train_files: open 'missing.txt': No such file");
    assert_null(tg_tokenizer_train_files(folder, 1, 300, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "'/tmp': it is a folder, not a regular file");
    assert_null(tg_tokenizer_train_files(null, 2, 300, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "tokenizer_train_files: the path is NULL");
    assert_null(tg_tokenizer_train_files(NULL, 1, 300, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "tokenizer_train_files: the paths are NULL");
    assert_null(tg_tokenizer_train_files(missing, 0, 300, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "tokenizer_train_files: 0 files; it must be at least 1");
    assert_null(tg_tokenizer_train_files(missing, 1, 256, NULL, &error));
    assert_error(&error, TG_ERROR_VALUE, "tokenizer_train_files: vocabulary 256; it must be at least 257");
    assert_null(train_file(300, 0, &error));
    assert_error(&error, TG_ERROR_VALUE, "tokenizer_train_files: min_count 0; it must be at least 1");
}

static void test_bad_files(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    size_t length = 2 * TG_PIECE_BYTES + 100;
    char *text = malloc(length);
    memset(text, 'x', length);
    text[1000] = ' ';
    write_file(path, text, 1000 + TG_PIECE_BYTES); /* the last piece needs no place for a cut */
    tg_tokenizer *z = train_file(300, 2, &error);
    assert_non_null(z);
    tg_tokenizer_free(z);
    write_file(path, text, length);
    assert_null(train_file(300, 2, &error));
    assert_error(&error, TG_ERROR_FORMAT,
                 "tokenizer_train_files: 'test_training.txt' has no place where a word surely ends, such as white "
                 "space or a full stop after a letter, in the 1048576 bytes from byte 1000 on");
    memset(text, ' ', length);
    write_file(path, text, length);
    assert_null(train_file(300, 2, &error));
    assert_error(&error, TG_ERROR_FORMAT, "1048576 bytes from byte 0 on");
    for (size_t i = 0; i < length; i += 7) {
        text[i] = 'x';
    }
    text[TG_PIECE_BYTES + 500] = '\xe9';
    write_file(path, text, length);
    for (int threads = 1; threads <= 3; threads++) {
        int before = tg_threads();
        tg_set_threads(threads, NULL);
        assert_null(train_file(300, 2, &error));
        assert_error(&error, TG_ERROR_FORMAT,
                     "tokenizer_train_files: 'test_training.txt': byte 0xe9 at 1049076 is not UTF-8");
        tg_set_threads(before, NULL);
    }
    memset(text, 0xe9, length); /* neither UTF-8 nor a place for a cut */
    write_file(path, text, length);
    assert_null(train_file(300, 2, &error));
    assert_error(&error, TG_ERROR_FORMAT, "byte 0xe9 at 0 is not UTF-8");
    free(text);
}

/* A vocabulary ends with the pairs, also where there are none. */
static void test_few_pairs(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "a", "abc abc xyz"};
    for (int i = 0; i < 3; i++) {
        tg_error error = TG_NO_ERROR;
        write_file(path, texts[i], strlen(texts[i]));
        tg_tokenizer *z = train_file(50000, 2, &error);
        assert_non_null(z);
        assert_int_equal(tg_tokenizer_vocabulary(z), i == 2 ? 259 : 257); /* ab and abc */
        tg_tokenizer_free(z);
    }
}

/* ---- progress ---- */

typedef struct observer {
    tg_text_progress last;
    int64_t calls, stop_at; /* the call that returns false; 0: none */
    bool shrinks;           /* the first call truncates the file */
} observer;

static bool observe(void *context, const tg_text_progress *now)
{
    observer *o = context;
    assert_true(now->bytes >= o->last.bytes && now->bytes <= now->all_bytes);
    assert_true(now->words >= o->last.words && now->vocabulary >= o->last.vocabulary);
    assert_true(now->tokens >= o->last.tokens);
    o->last = *now;
    o->calls++;
    if (o->shrinks && o->calls == 1) {
        assert_int_equal(truncate(path, (off_t)now->bytes + 1000), 0);
    }
    return o->calls != o->stop_at;
}

static tg_tokenizer *train_observed(observer *o, tg_error *error)
{
    tg_tokenizer_train_files_config config = tg_tokenizer_train_files_config_default();
    config.on_progress = observe;
    config.context = o;
    return tg_tokenizer_train_files((const char *const[]){path, path}, 2, 300, &config, error);
}

static void test_progress(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    size_t length = TG_PIECE_BYTES + TG_PIECE_BYTES / 2;
    char *text = malloc(length);
    for (size_t i = 0; i < length; i++) {
        text[i] = i % 5 ? (char)('a' + i % 7) : ' ';
    }
    write_file(path, text, length);
    int before = tg_threads();
    tg_set_threads(1, NULL);
    observer all = {.stop_at = 0};
    tg_tokenizer *z = train_observed(&all, &error);
    assert_non_null(z);
    int64_t merges = tg_tokenizer_vocabulary(z) - 257;
    assert_true(merges >= 10);
    assert_int_equal(all.calls, 4 + merges); /* four pieces, and the merges */
    assert_int_equal(all.last.bytes, 2 * length);
    assert_int_equal(all.last.all_bytes, 2 * length);
    assert_int_equal(all.last.vocabulary, 256 + merges);
    assert_int_equal(all.last.words, 8);
    tg_tokenizer_free(z);
    counting_allocator counting;
    allocator_install(&counting);
    for (int64_t stop = 1; stop <= all.calls; stop += 3) {
        observer o = {.stop_at = stop};
        assert_null(train_observed(&o, &error));
        assert_error(&error, TG_ERROR_STATE, "tokenizer_train_files: on_progress has stopped the training");
        assert_int_equal(o.calls, stop);
        assert_int_equal(counting.live, 0);
    }
    observer shrinking = {.shrinks = true};
    assert_null(train_observed(&shrinking, &error));
    assert_error(&error, TG_ERROR_FORMAT, "tokenizer_train_files: 'test_training.txt' ends at byte 10");
    assert_int_equal(counting.live, 0);
    allocator_restore();
    tg_set_threads(before, NULL);
    free(text);
}

/* ---- memory ---- */

/* The memory does not grow with a text that repeats its words. */
static void test_memory(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    char *text = malloc(TG_PIECE_BYTES);
    seed = 11;
    size_t length = draw_text(text, 100000, 0);
    FILE *file = fopen(path, "wb");
    for (int i = 0; i < 160; i++) {
        assert_int_equal(fwrite(text, 1, length, file), length);
        assert_true(fputs("a\n", file) >= 0);
    }
    assert_int_equal(fclose(file), 0);
    int before = tg_threads();
    tg_set_threads(1, NULL);
    metered_allocator meter;
    allocator_measure(&meter);
    tg_tokenizer *z = train_file(1000, 2, &error);
    assert_non_null(z);
    tg_tokenizer_free(z);
    assert_int_equal(meter.now, 0);
    assert_true(meter.most < 8 << 20);
    allocator_restore();
    tg_set_threads(before, NULL);
    free(text);
}

static int end(void **state)
{
    (void)state;
    return remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges_are_those_of_the_plainest_training),
        cmocka_unit_test(test_long_words),
        cmocka_unit_test(test_frequent_words),
        cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_no_piece_divides_a_word),
        cmocka_unit_test(test_threads_and_files_change_nothing),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_few_pairs),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests_name("training", tests, NULL, end);
}

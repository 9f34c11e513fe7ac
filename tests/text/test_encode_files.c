/* Files of texts become files of ids, piece by piece: the ids are those of the whole text, for all numbers of threads,
 * and after an error the file of ids is as it was before. */
#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "text/pieces.h"

static const char text_path[] = "test_encode_files.txt", empty_path[] = "test_encode_files_0.txt",
                  ids_path[] = "test_encode_files.bin";

static void write_file(const char *name, const char *text, size_t length)
{
    FILE *file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* A vocabulary whose added token has a space in it, before which a text could be cut. */
static tg_tokenizer *tokenizer_new(bool is_special)
{
    static const char merges[] = "#version: 0.2\n\xc4\xa0 l\n\xc4\xa0l i\n\xc4\xa0li g\n", old[] = "<|endoftext|>";
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *plain = tg_tokenizer_new_from_text(merges, sizeof merges - 1, &error);
    assert_non_null(plain);
    assert_true(tg_tokenizer_save(plain, "test_encode_files.json", TG_VOCABULARY_JSON, &error));
    tg_tokenizer_free(plain);
    size_t length;
    char *json = tg_text_read("test_encode_files.json", &length, &error), *at = json;
    assert_non_null(json);
    for (int found = 0; (at = strstr(at, old)); found++) {
        memcpy(at, "<|new  text|>", sizeof old - 1);
        assert_true(found < 4);
    }
    if (!is_special) {
        memcpy(strstr(json, "true}],\n"), "false}],", 8);
    }
    tg_tokenizer *z = tg_tokenizer_new_from_text(json, length, &error);
    assert_string_equal(error.text, "");
    tg_text_free(json);
    remove("test_encode_files.json");
    return z;
}

/* Writes a text of three pieces and more. At each possible end of a piece there is an added token; or it is one line
 * without spaces. */
static char *draw_text(bool is_line, size_t *length)
{
    static const char *const of_line[] = {"\xe7\x81\xaf", "\xe5\xa1\x94\xe7\x9a\x84\xe5\x85\x89", "\xe3\x80\x82",
                                          "\xd9\xa3", "\xe1\x83\x90\xe0\xb8\x81"};
    static const char *const words[] = {
        " light", " keeper", "\n\n", "  ", "<|new  text|>", " l\xc3\xa4g", "'s", " 1881", "\xe3\x80\x80\xe6\x97\xa5",
        "<|new",  "  text|>"};
    char *text = malloc(4 * TG_PIECE_BYTES);
    uint32_t seed = 3;
    *length = 0;
    while (*length < 3 * TG_PIECE_BYTES + 1000) {
        seed = seed * 1664525U + 1013904223U;
        bool is_end = *length % TG_PIECE_BYTES > TG_PIECE_BYTES - 200;
        const char *word = is_line ? of_line[(seed >> 16) % 5] : words[is_end ? 4 : (seed >> 16) % 11];
        memcpy(text + *length, word, strlen(word));
        *length += strlen(word);
    }
    return text;
}

/* Asserts that the file has the ids of the text, and after each of its `copies` the id `end` unless it is -1. */
static void check_ids(const tg_tokens *expected, int copies, int32_t end, int width, int64_t count)
{
    tg_error error = TG_NO_ERROR;
    tg_token_file *file = tg_token_file_open(ids_path, width, &error);
    int64_t each = expected->count + (end >= 0);
    assert_non_null(file);
    assert_int_equal(count, each * copies + (end >= 0)); /* one file is empty */
    assert_int_equal(tg_token_file_count(file), count);
    int32_t *ids = malloc((size_t)count * sizeof *ids);
    assert_true(tg_token_file_read(file, 0, count, ids, &error));
    for (int i = 0; i < copies; i++) {
        assert_memory_equal(ids + i * each, expected->ids, (size_t)expected->count * sizeof *ids);
        assert_true(end < 0 || ids[(i + 1) * each - 1] == end);
    }
    assert_true(end < 0 || ids[count - 1] == end);
    free(ids);
    tg_token_file_free(file);
}

/* Asserts that training on the file gives the vocabulary of the text. */
static void check_training(const char *text, size_t length)
{
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z[] = {tg_tokenizer_train(text, length, 300, &error),
                         tg_tokenizer_train_files((const char *[]){text_path}, 1, 300, NULL, &error)};
    char *vocabularies[] = {tg_tokenizer_text(z[0], NULL, &error), tg_tokenizer_text(z[1], NULL, &error)};
    assert_string_equal(error.text, "");
    assert_string_equal(vocabularies[0], vocabularies[1]);
    for (int i = 0; i < 2; i++) {
        tg_text_free(vocabularies[i]);
        tg_tokenizer_free(z[i]);
    }
}

static void check_text(bool is_special, bool is_line)
{
    static const char *const paths[] = {text_path, text_path, empty_path};
    tg_error error = TG_NO_ERROR;
    size_t length;
    char *text = draw_text(is_line, &length);
    write_file(text_path, text, length);
    write_file(empty_path, "", 0);
    if (is_line) {
        check_training(text, length);
    }
    tg_tokenizer *z = tokenizer_new(is_special);
    int before = tg_threads();
    for (int special = 0; special < 2; special++) {
        tg_tokens expected;
        assert_true(tg_tokenizer_encode(z, text, length, special, &expected, &error));
        for (int threads = 1; threads <= 5; threads += 2) {
            tg_tokenizer_encode_files_config config = tg_tokenizer_encode_files_config_default();
            config.special = special;
            config.end_token = threads == 3 ? 256 : -1;
            int width = threads == 5 ? 4 : 2;
            tg_set_threads(threads, NULL);
            int64_t count = tg_tokenizer_encode_files(z, paths, 3, ids_path, width, &config, &error);
            assert_string_equal(error.text, "");
            check_ids(&expected, 2, config.end_token, width, count);
        }
        tg_tokens_free(&expected);
    }
    assert_int_equal(tg_tokenizer_encode_files(z, paths + 2, 1, ids_path, 2, NULL, &error), 0);
    tg_set_threads(before, NULL);
    tg_tokenizer_free(z);
    free(text);
}

static void test_ids_are_those_of_the_whole_text(void **state)
{
    (void)state;
    check_text(true, false);
    check_text(false, false);
    check_text(true, true);
}

/* ---- errors ---- */

/* Asserts that the file of ids has the three bytes that it had, and that no temporary file is left. */
static void check_unchanged(void)
{
    tg_error error = TG_NO_ERROR;
    size_t length;
    char *old = tg_text_read(ids_path, &length, &error);
    assert_non_null(old);
    assert_string_equal(old, "old");
    tg_text_free(old);
    DIR *folder = opendir(".");
    char temporary[64];
    snprintf(temporary, sizeof temporary, ".tapegrad-%lld-", (long long)getpid());
    for (struct dirent *entry; (entry = readdir(folder));) {
        assert_null(strstr(entry->d_name, temporary));
    }
    closedir(folder);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    static const char *const paths[] = {text_path}, *const missing[] = {text_path, "missing.txt"};
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tokenizer_new(true);
    write_file(text_path, "a text", 6);
    write_file(ids_path, "old", 3);
    tg_tokenizer_encode_files_config config = tg_tokenizer_encode_files_config_default();
    assert_int_equal(tg_tokenizer_encode_files(z, missing, 2, ids_path, 2, NULL, &error), -1);
    assert_error(&error, TG_ERROR_FILE, "tokenizer_encode_files: open 'missing.txt': No such file");
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 0, ids_path, 2, NULL, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "tokenizer_encode_files: 0 files; it must be at least 1");
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 3, NULL, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "tokenizer_encode_files: 3 bytes per id; it must be 2 or 4");
    config.end_token = tg_tokenizer_vocabulary(z);
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 2, &config, &error), -1);
    assert_error(&error, TG_ERROR_RANGE, "tokenizer_encode_files: end_token 260; it must be -1 or below 260");
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, "/nowhere/x.bin", 2, NULL, &error), -1);
    assert_error(&error, TG_ERROR_FILE, "tokenizer_encode_files: write '/nowhere/x.bin': No such file");
    check_unchanged();
    tg_tokenizer_free(z);
}

/* A vocabulary of more than 65536 ids. */
static void test_two_bytes_are_too_few(void **state)
{
    (void)state;
    static const char *const paths[] = {text_path};
    static char text[700000];
    size_t length = 0;
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i < 2 * 66000; i++) {
        int word = i % 66000;
        length += (size_t)snprintf(text + length, sizeof text - length, " %c%c%c%c", 'a' + word % 26,
                                   'a' + word / 26 % 26, 'a' + word / 676 % 26, 'a' + word / 17576);
    }
    tg_tokenizer *z = tg_tokenizer_train(text, length, 70000, &error);
    assert_true(tg_tokenizer_vocabulary(z) > 65536);
    write_file(text_path, text, length);
    write_file(ids_path, "old", 3);
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 2, NULL, &error), -1);
    assert_error(&error, TG_ERROR_VALUE, "tokenizer_encode_files: 2 bytes per id; the");
    check_unchanged();
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 4, NULL, &error), 2 * 66000);
    tg_tokenizer_free(z);
}

/* Returns false on the second call, and truncates the text on the first if asked to. */
typedef struct observer {
    int calls;
    bool shrinks;
    tg_text_progress last;
} observer;

static bool observe(void *context, const tg_text_progress *now)
{
    observer *o = context;
    assert_true(now->bytes > o->last.bytes && now->bytes < now->all_bytes && now->tokens > o->last.tokens);
    o->last = *now;
    if (o->shrinks) {
        assert_int_equal(truncate(text_path, (off_t)now->bytes + 10), 0);
    }
    return ++o->calls < 2;
}

static void test_failures_leave_the_old_file(void **state)
{
    (void)state;
    static const char *const paths[] = {text_path};
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tokenizer_new(true);
    int before = tg_threads();
    size_t length;
    char *text = draw_text(false, &length);
    tg_set_threads(1, NULL);
    write_file(text_path, text, length);
    write_file(ids_path, "old", 3);
    counting_allocator counting;
    allocator_install(&counting);
    tg_tokenizer_encode_files_config config = tg_tokenizer_encode_files_config_default();
    observer o = {.calls = 0};
    config.on_progress = observe;
    config.context = &o;
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 2, &config, &error), -1);
    assert_error(&error, TG_ERROR_STATE, "tokenizer_encode_files: on_progress has stopped the call");
    assert_int_equal(o.calls, 2);
    assert_int_equal(o.last.all_bytes, length);
    check_unchanged();

    struct rlimit old, full;
    getrlimit(RLIMIT_FSIZE, &old);
    full = old;
    full.rlim_cur = 200000;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &full); /* like a full disk */
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 2, NULL, &error), -1);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_error(&error, TG_ERROR_FILE, "tokenizer_encode_files: write 'test_encode_files.bin': File too large");
    check_unchanged();

    o = (observer){.shrinks = true};
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 2, &config, &error), -1);
    assert_error(&error, TG_ERROR_FORMAT, "tokenizer_encode_files: 'test_encode_files.txt' ends at byte");
    check_unchanged();

    text[2 * TG_PIECE_BYTES + 17] = '\xff';
    write_file(text_path, text, length);
    for (int threads = 1; threads <= 4; threads += 3) {
        char message[64];
        snprintf(message, sizeof message, "byte 0xff at %zu is not UTF-8", 2 * TG_PIECE_BYTES + 17);
        allocator_restore(); /* it counts in one thread */
        tg_set_threads(threads, NULL);
        assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 2, NULL, &error), -1);
        assert_error(&error, TG_ERROR_FORMAT, message);
        check_unchanged();
    }
    assert_int_equal(counting.live, 0);
    tg_set_threads(before, NULL);
    tg_tokenizer_free(z);
    free(text);
}

/* A text without a place for a cut. */
static void test_long_pieces(void **state)
{
    (void)state;
    static const char *const paths[] = {text_path};
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tokenizer_new(true);
    char *text = malloc(2 * TG_PIECE_BYTES);
    memset(text, 'x', 2 * TG_PIECE_BYTES);
    text[500] = ' ';
    write_file(text_path, text, 2 * TG_PIECE_BYTES);
    write_file(ids_path, "old", 3);
    assert_int_equal(tg_tokenizer_encode_files(z, paths, 1, ids_path, 2, NULL, &error), -1);
    assert_error(&error, TG_ERROR_FORMAT,
                 "tokenizer_encode_files: 'test_encode_files.txt' has no place where a word surely ends, such as white "
                 "space or a full stop after a letter, in the 1048576 bytes from byte 500 on");
    check_unchanged();
    free(text);
    tg_tokenizer_free(z);
}

/* Vocabularies and vectors on a full disk leave the old file, too. */
static void test_full_disk(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    char *text = malloc(60000);
    size_t length = 0;
    for (int i = 0; i < 5000; i++) {
        length += (size_t)snprintf(text + length, 60000 - length, "w%d ", i);
    }
    tg_tokenizer *z = tg_tokenizer_train(text, length, 2000, &error);
    tg_words *words = tg_words_new(text, length, NULL, &error);
    tg_tensor *vectors = tg_tensor_new(TG_F32, TG_SHAPE(tg_words_vocabulary(words), 4), &error);
    assert_true(tg_tensor_fill(vectors, 1, &error));
    struct rlimit old, full;
    getrlimit(RLIMIT_FSIZE, &old);
    full = old;
    full.rlim_cur = 500;
    signal(SIGXFSZ, SIG_IGN);
    write_file(ids_path, "old", 3);
    setrlimit(RLIMIT_FSIZE, &full);
    for (int i = 0; i < 5; i++) {
        static const tg_vocabulary_format formats[] = {TG_VOCABULARY_MERGES, TG_VOCABULARY_JSON};
        bool is_saved = i < 2   ? tg_tokenizer_save(z, ids_path, formats[i], &error)
                        : i < 3 ? tg_words_save(words, ids_path, &error)
                                : tg_words_save_vectors(words, vectors, ids_path,
                                                        i == 3 ? TG_VECTORS_TEXT : TG_VECTORS_BINARY, &error);
        assert_false(is_saved);
        assert_error(&error, TG_ERROR_FILE, "write 'test_encode_files.bin': File too large");
        check_unchanged();
    }
    setrlimit(RLIMIT_FSIZE, &old);
    tg_release(vectors);
    tg_words_free(words);
    tg_tokenizer_free(z);
    free(text);
}

/* The memory does not depend on the text: a piece, its ids, and what encodes a word. */
static void test_memory(void **state)
{
    (void)state;
    static const char *const paths[] = {text_path, text_path, text_path, text_path};
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tokenizer_new(true);
    int before = tg_threads();
    size_t length;
    char *text = draw_text(false, &length);
    write_file(text_path, text, length);
    tg_set_threads(1, NULL);
    metered_allocator meter;
    allocator_measure(&meter);
    assert_true(tg_tokenizer_encode_files(z, paths, 4, ids_path, 2, NULL, &error) > 0);
    assert_int_equal(meter.now, 0);
    assert_true(meter.most < 8 << 20);
    allocator_restore();
    tg_set_threads(before, NULL);
    tg_tokenizer_free(z);
    free(text);
}

static int end(void **state)
{
    (void)state;
    remove(empty_path);
    remove(ids_path);
    return remove(text_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids_are_those_of_the_whole_text),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_two_bytes_are_too_few),
        cmocka_unit_test(test_failures_leave_the_old_file),
        cmocka_unit_test(test_long_pieces),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests_name("encode_files", tests, NULL, end);
}

/* Files of vocabularies: those of Python's tokenizers and tiktoken give their ids, each bad file has its own error, and
 * no file needs more than 24 times its size and 1 MiB. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bad_vocabularies.h"
#include "text/tokenizer.h"

#define FOLDER TG_TEST_GOLDENS "/data/vocabulary/"

/* ---- an allocator that counts bytes ---- */

static size_t live_bytes, peak_bytes;

static void *allocate(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    char *block = aligned_alloc(alignment, (bytes + 2 * alignment - 1) / alignment * alignment + alignment);
    if (!block) {
        return NULL;
    }
    memcpy(block, &bytes, sizeof bytes);
    live_bytes += bytes;
    peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    return block + alignment;
}

static void *allocate_with_size(void *context, size_t bytes, size_t alignment)
{
    (void)alignment;
    return allocate(context, bytes, 64);
}

static void release(void *context, void *block)
{
    (void)context;
    size_t bytes;
    memcpy(&bytes, (char *)block - 64, sizeof bytes);
    live_bytes -= bytes;
    free((char *)block - 64);
}

/* Opens a file. The memory that this takes at most is within the bound, and after an error nothing is allocated. */
static tg_tokenizer *open_measured(const char *path, const char *ids, size_t size, tg_error *error)
{
    size_t before = peak_bytes = live_bytes;
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.ids = ids;
    tg_tokenizer *z = tg_tokenizer_open(path, &config, error);
    if (peak_bytes - before > 24 * size + (1 << 20)) {
        fail_msg("%zu bytes for a file of %zu bytes", peak_bytes - before, size);
    }
    assert_true(z || live_bytes == before);
    return z;
}

static int begin_counting(void **state)
{
    (void)state;
    tg_set_allocator(&(tg_allocator){allocate_with_size, release, NULL});
    return 0;
}

static int end_counting(void **state)
{
    (void)state;
    tg_set_allocator(NULL);
    return live_bytes == 0 ? 0 : -1;
}

/* ---- files ---- */

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/tapegrad-vocabulary-XXXXXX");
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* Writes a text to `path`. */
static void write_text(const char *text, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Returns the text of a golden; free it. */
static char *golden(const char *name, size_t *length)
{
    char from[512];
    snprintf(from, sizeof from, FOLDER "%s", name);
    FILE *file = fopen(from, "r");
    assert_non_null(file);
    char *text = malloc(1 << 16);
    *length = fread(text, 1, (1 << 16) - 1, file);
    text[*length] = '\0';
    fclose(file);
    return text;
}

static tg_tokenizer *open_golden(const char *name, const char *ids)
{
    char from[512], ids_from[512];
    snprintf(from, sizeof from, FOLDER "%s", name);
    snprintf(ids_from, sizeof ids_from, FOLDER "%s", ids ? ids : "");
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = open_measured(from, ids ? ids_from : NULL, 8192, &error);
    assert_string_equal(error.text, "");
    return z;
}

/* ---- the ids of Python's tokenizers ---- */

/* Compares the ids of the lines of ids.txt that begin with `name`. */
static void check_ids(tg_tokenizer *z, const char *name)
{
    static char line[4096], text[1024];
    FILE *file = fopen(FOLDER "ids.txt", "r");
    assert_non_null(file);
    int lines = 0;
    while (fgets(line, sizeof line, file)) {
        size_t length = 0, begin = strlen(name);
        if (strncmp(line, name, begin) != 0 || line[begin] != ' ') {
            continue;
        }
        const char *at = line + begin + 1;
        for (unsigned byte; *at != ' ' && sscanf(at, "%2x", &byte) == 1; at += 2) {
            text[length++] = (char)byte;
        }
        at += *at == '-';
        tg_tokens tokens;
        tg_error error = TG_NO_ERROR;
        assert_true(tg_tokenizer_encode(z, text, length, true, &tokens, &error));
        for (int64_t i = 0; i < tokens.count; i++) {
            char *end;
            assert_int_equal(tokens.ids[i], strtol(at, &end, 10));
            at = end;
        }
        assert_int_equal(strspn(at, " \n"), strlen(at));
        size_t back;
        char *decoded = tg_tokenizer_decode(z, tokens.ids, tokens.count, &back, &error);
        assert_int_equal(back, length);
        assert_memory_equal(decoded, text, length);
        tg_text_free(decoded);
        tg_tokens_free(&tokens);
        lines++;
    }
    fclose(file);
    assert_int_equal(lines, 8);
}

static void test_ids_are_pythons(void **state)
{
    (void)state;
    static const struct {
        const char *name, *ids, *lines;
        int32_t vocabulary, end_of_text;
    } files[] = {
        {"tokenizer.json", NULL, "tokenizer.json", 300, 0},
        {"tokenizer_split.json", NULL, "tokenizer_split.json", 292, 0},
        {"vocab.bpe", "encoder.json", "tokenizer.json", 300, 0},
        {"ranks.tiktoken", NULL, "ranks.tiktoken", 300, 289},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        tg_tokenizer *z = open_golden(files[i].name, files[i].ids);
        assert_int_equal(tg_tokenizer_vocabulary(z), files[i].vocabulary);
        assert_int_equal(tg_tokenizer_end_of_text(z), files[i].end_of_text);
        check_ids(z, files[i].lines);
        tg_tokenizer_free(z);
    }
}

/* A vocabulary that is saved in a format and opened again has the same ids. */
static void test_saved_formats(void **state)
{
    (void)state;
    static const struct {
        const char *name, *lines;
        tg_vocabulary_format format;
        const char *message; /* NULL: it is saved */
    } cases[] = {
        {"tokenizer.json", "tokenizer.json", TG_VOCABULARY_JSON, NULL},
        {"tokenizer_split.json", "tokenizer_split.json", TG_VOCABULARY_JSON, NULL},
        {"ranks.tiktoken", "ranks.tiktoken", TG_VOCABULARY_JSON, NULL},
        {"ranks.tiktoken", "ranks.tiktoken", TG_VOCABULARY_RANKS, NULL},
        {"tokenizer.json", "tokenizer.json", TG_VOCABULARY_RANKS, NULL},
        {"tokenizer_split.json", "", TG_VOCABULARY_RANKS,
         "a file of ranks cannot have the ids, merges and added tokens of this"},
        {"tokenizer.json", "", TG_VOCABULARY_MERGES,
         "a file of merges cannot have the ids, merges and added tokens of this"},
        {"ranks.tiktoken", "", TG_VOCABULARY_MERGES,
         "a file of merges cannot have the ids, merges and added tokens of this"},
        {"ranks.tiktoken", "", (tg_vocabulary_format)3, "format 3; it must be a tg_vocabulary_format"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_error error = TG_NO_ERROR;
        tg_tokenizer *z = open_golden(cases[i].name, NULL);
        bool is_saved = tg_tokenizer_save(z, path, cases[i].format, &error);
        tg_tokenizer_free(z);
        if (cases[i].message) {
            assert_false(is_saved);
            assert_error(&error, TG_ERROR_VALUE, cases[i].message);
            continue;
        }
        assert_string_equal(error.text, "");
        z = tg_tokenizer_open(path, NULL, &error);
        assert_string_equal(error.text, "");
        check_ids(z, cases[i].lines);
        tg_tokenizer_free(z);
    }
}

/* The bytes of vocab.bpe alone: the golden's own file of ranks has the same ids, except that of <|endoftext|>. */
static void test_merges_and_ranks_agree(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    size_t length;
    tg_tokenizer *z = open_golden("vocab.bpe", NULL);
    assert_int_equal(tg_tokenizer_end_of_text(z), 299);
    assert_true(tg_tokenizer_save(z, path, TG_VOCABULARY_RANKS, &error));
    char *text = tg_text_read(path, &length, NULL);
    assert_memory_equal(text, "IQ== 0\nIg== 1\n", 14); /* "!" and "\"" */
    tg_text_free(text);
    tg_tokenizer *ranks = tg_tokenizer_open(path, NULL, &error);
    assert_string_equal(error.text, "");
    tg_tokens a, b;
    const char story[] = "the keeper's ship turned <|endoftext|> there";
    assert_true(tg_tokenizer_encode(z, story, sizeof story - 1, true, &a, &error));
    assert_true(tg_tokenizer_encode(ranks, story, sizeof story - 1, true, &b, &error));
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.ids, b.ids, (size_t)a.count * sizeof *a.ids);
    assert_true(tg_tokenizer_save(ranks, path, TG_VOCABULARY_MERGES, &error)); /* and back */
    tg_tokens_free(&a);
    tg_tokens_free(&b);
    tg_tokenizer_free(z);
    tg_tokenizer_free(ranks);
}

/* Writes a vocabulary to a file of the folder. */
static void save_there(const char *folder, const char *name, const char *golden_name)
{
    char there[300];
    size_t length;
    snprintf(there, sizeof there, "%s/%s", folder, name);
    char *text = golden(golden_name, &length);
    FILE *file = fopen(there, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    free(text);
}

/* A folder of transformers. Here tokenizer.json is another vocabulary than that of the two other files. */
static void test_folders(void **state)
{
    (void)state;
    static const struct {
        const char *name, *golden, *lines;
    } files[] = {{"vocab.json", "encoder.json", NULL},
                 {"merges.txt", "vocab.bpe", "tokenizer.json"},
                 {"tokenizer.json", "tokenizer_split.json", "tokenizer_split.json"}};
    tg_error error = TG_NO_ERROR;
    char folder[] = "vocabulary.XXXXXX", there[300];
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++) {
        save_there(folder, files[i].name, files[i].golden);
        tg_tokenizer *z = tg_tokenizer_open(folder, NULL, &error);
        if (files[i].lines) {
            assert_string_equal(error.text, "");
            check_ids(z, files[i].lines);
        } else {
            assert_null(z);
            assert_error(&error, TG_ERROR_FILE, "has neither tokenizer.json nor vocab.json and merges.txt");
        }
        tg_tokenizer_free(z);
    }
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.ids = "vocab.json";
    assert_null(tg_tokenizer_open(folder, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "is a folder; the config's ids must be NULL");
    for (int i = 0; i < 3; i++) {
        snprintf(there, sizeof there, "%s/%s", folder, files[i].name);
        remove(there);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* GPT-2's merges are those that its tokens' ranks give. */
static void test_gpt2_through_all_formats(void **state)
{
    (void)state;
#ifdef TG_BOOK
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tg_tokenizer_open(TG_BOOK "/vocab.bpe", NULL, &error);
    size_t length, merges_length;
    char *merges = tg_text_read(TG_BOOK "/vocab.bpe", &merges_length, &error);
    static const tg_vocabulary_format formats[] = {TG_VOCABULARY_RANKS, TG_VOCABULARY_JSON, TG_VOCABULARY_MERGES};
    for (int i = 0; i < 3; i++) {
        assert_true(tg_tokenizer_save(z, path, formats[i], &error));
        tg_tokenizer_free(z);
        char *text = tg_text_read(path, &length, &error);
        tg_text_free(text);
        z = open_measured(path, NULL, length, &error);
        assert_string_equal(error.text, "");
    }
    char *text = tg_text_read(path, &length, &error);
    assert_int_equal(length, merges_length);
    assert_memory_equal(text, merges, length);
    tg_text_free(text);
    tg_text_free(merges);
    tg_tokenizer_free(z);
#else
    skip();
#endif
}

/* ---- bad files ---- */

/* Replaces the first occurrence of bad->find in a golden, and opens the result. */
static void check_bad(const char *name, const bad_file *bad, bool is_ids)
{
    size_t length;
    char *text = golden(name, &length), *at = strstr(text, bad->find);
    if (!at) {
        fail_msg("%s has no %s", name, bad->find);
    }
    size_t before = (size_t)(at - text), removed = strlen(bad->find), added = strlen(bad->replacement);
    char *changed = malloc(length + added + 1);
    memcpy(changed, text, before);
    memcpy(changed + before, bad->replacement, added);
    memcpy(changed + before + added, at + removed, length - before - removed);
    write_text(changed, length - removed + added);
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = is_ids ? open_measured(FOLDER "vocab.bpe", path, length + 237, &error)
                             : open_measured(path, NULL, length, &error);
    if (z || !strstr(error.text, bad->message) || !strstr(error.text, path)) {
        fail_msg("%s -> %s: expected \"%s\", found \"%s\"", bad->find, bad->replacement, bad->message, error.text);
    }
    assert_int_equal(error.code, TG_ERROR_FORMAT);
    free(changed);
    free(text);
}

static void test_bad_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_json / sizeof *bad_json; i++) {
        check_bad("tokenizer_split.json", &bad_json[i], false);
    }
}

static void test_bad_ids(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_ids / sizeof *bad_ids; i++) {
        check_bad("encoder.json", &bad_ids[i], true);
    }
}

static void test_bad_ranks(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_ranks / sizeof *bad_ranks; i++) {
        check_bad("ranks.tiktoken", &bad_ranks[i], false);
    }
    /* 2731 groups of three bytes */
    char long_token[2731 * 4 + 4];
    memset(long_token, 'A', 2731 * 4);
    memcpy(long_token + 2731 * 4, " 33", 4);
    const bad_file too_long = {"IQ== 33", long_token, "line 34: the token has 8193 bytes; it must have at most 8192"};
    check_bad("ranks.tiktoken", &too_long, false);
}

/* Files that would need much memory if their numbers were trusted. */
static void test_hostile_files(void **state)
{
    (void)state;
    static const struct {
        const char *begin, *repeated, *message;
    } files[] = {
        {"#version: 0.2\n", "\n ", "line 2: \"\" is not two tokens and one space"},
        {"#version: 0.2\n", "a b\n", "line 3: the merge of \"a\" and \"b\" was given before"},
        {"", "\n", "line 1: the file has no token"},
        {"", "QQ== 0\n", "line 2: rank 0 was given before, in line 1"},
        {"", "QQ== 2147483646\n", "line 1: rank 2147483646; the ranks of"},
        {"QQ== 0\n", "QUFB", "line 2: \"QUFBQUFB"},
        {"{", "\"\":0,", "byte 1: the file has the unknown member \"\""},
        {"{\"model\":{\"vocab\":{", "\"a\":0,", "found the end"},
        {"{\"model\":{\"merges\":[", "\"a b\",", "found the end"},
        {"{\"model\":{\"merges\":[", "[\"a\",\"b\"],", "found the end"},
        {"{\"added_tokens\":[",
         "{\"id\":0,\"content\":\"a\",\"special\":true,\"normalized\":true,\"lstrip\":false,\"rstrip\":false,"
         "\"single_word\":false},",
         "expected"},
        {"{\"pre_tokenizer\":", "{\"pretokenizers\":[", "a part of a Sequence has parts of its own"},
        {"", "[", "line 1: \"[[[["},
    };
    const size_t size = 1 << 21;
    char *text = malloc(size);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t used = strlen(files[i].begin), period = strlen(files[i].repeated);
        memcpy(text, files[i].begin, used);
        for (; used + period <= size; used += period) {
            memcpy(text + used, files[i].repeated, period);
        }
        write_text(text, used);
        tg_error error = TG_NO_ERROR;
        assert_null(open_measured(path, NULL, used, &error));
        assert_error(&error, TG_ERROR_FORMAT, files[i].message);
    }
    free(text);
}

/* Every allocation fails once: MEMORY, and nothing remains. */
static void test_out_of_memory(void **state)
{
    (void)state;
    static const char *const names[][2] = {
        {"tokenizer_split.json", NULL}, {"ranks.tiktoken", NULL}, {"vocab.bpe", "encoder.json"}};
    counting_allocator counting;
    allocator_install(&counting);
    for (int i = 0; i < 3; i++) {
        bool finished = false;
        for (size_t k = 1; !finished; k++) {
            char from[512], ids[512];
            snprintf(from, sizeof from, FOLDER "%s", names[i][0]);
            snprintf(ids, sizeof ids, FOLDER "%s", names[i][1] ? names[i][1] : "");
            tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
            config.ids = names[i][1] ? ids : NULL;
            tg_error error = TG_NO_ERROR;
            allocator_arm(&counting, k, true);
            tg_tokenizer *z = tg_tokenizer_open(from, &config, &error);
            finished = z && tg_tokenizer_save(z, path, TG_VOCABULARY_JSON, &error);
            assert_int_equal(error.code, finished ? TG_OK : TG_ERROR_MEMORY);
            tg_tokenizer_free(z);
            assert_int_equal(counting.live, 0);
        }
    }
    allocator_restore();
}

/* A pipe that nobody writes to is refused without waiting for a writer. */
static void test_pipes(void **state)
{
    (void)state;
    static const char pipe[] = "test_vocabularies.pipe";
    tg_error error = TG_NO_ERROR;
    unlink(pipe);
    assert_int_equal(mkfifo(pipe, 0666), 0);
    alarm(10);
    assert_null(tg_tokenizer_open(pipe, NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "tokenizer_open: open 'test_vocabularies.pipe': it is a pipe");
    assert_null(open_measured(FOLDER "vocab.bpe", pipe, 0, &error));
    assert_error(&error, TG_ERROR_FILE, "tokenizer_open: open 'test_vocabularies.pipe': it is a pipe");
    alarm(0);
    unlink(pipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ids_are_pythons, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_saved_formats, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_merges_and_ranks_agree, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_folders, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_gpt2_through_all_formats, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_bad_json, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_bad_ids, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_bad_ranks, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_hostile_files, begin_counting, end_counting),
        cmocka_unit_test_setup_teardown(test_pipes, begin_counting, end_counting),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("vocabularies", tests, make_path, remove_path);
}

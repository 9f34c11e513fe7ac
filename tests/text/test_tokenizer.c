/* The tokenizer: ids equal tiktoken's, decoding inverts encoding, and invalid files are errors. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/tokenizer.h"

/* The code with which the next pattern is refused; 0: PCRE2 compiles it. */
static int refusal;

/* Replaces PCRE2's function in this program. */
pcre2_code *pcre2_compile(PCRE2_SPTR pattern, PCRE2_SIZE length, uint32_t options, int *code, PCRE2_SIZE *offset,
                          pcre2_compile_context *context)
{
    pcre2_code *(*compile)(PCRE2_SPTR, PCRE2_SIZE, uint32_t, int *, PCRE2_SIZE *, pcre2_compile_context *);
    *(void **)&compile = dlsym(RTLD_NEXT, "pcre2_compile_8");
    if (refusal == 0) {
        return compile(pattern, length, options, code, offset, context);
    }
    *code = refusal;
    *offset = 7;
    refusal = 0;
    return NULL;
}

static const char story[] = "the cat sat on the mat. the cat ate the rat, and the rat sat on the cat's mat.\n";

static tg_tokenizer *trained(int32_t size)
{
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tg_tokenizer_train(story, sizeof story - 1, size, &error);
    if (!z) {
        fail_msg("%s", error.text);
    }
    return z;
}

#ifdef TG_BOOK
/* A line of tokens.txt: the text in hexadecimal ("-" for none), the number of ids, the ids. */
static void check_line(tg_tokenizer *z, const char *line)
{
    static char text[8192];
    size_t length = 0;
    const char *at = line;
    for (; *at != ' '; at += 2) {
        unsigned byte;
        if (*at == '-') {
            at++;
            break;
        }
        assert_int_equal(sscanf(at, "%2x", &byte), 1);
        text[length++] = (char)byte;
    }
    char *end;
    long count = strtol(at, &end, 10);
    tg_tokens tokens;
    tg_error error = TG_NO_ERROR;
    assert_true(tg_tokenizer_encode(z, text, length, false, &tokens, &error));
    assert_int_equal(tokens.count, count);
    for (long i = 0; i < count; i++) {
        assert_int_equal(tokens.ids[i], strtol(end, &end, 10));
    }
    size_t back;
    char *decoded = tg_tokenizer_decode(z, tokens.ids, tokens.count, &back, &error);
    assert_int_equal(back, length);
    assert_memory_equal(decoded, text, length);
    tg_text_free(decoded);
    tg_tokens_free(&tokens);
}
#endif

static void test_gpt2_ids_are_tiktokens(void **state)
{
    (void)state;
#ifdef TG_BOOK
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tg_tokenizer_open(TG_BOOK "/vocab.bpe", NULL, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(tg_tokenizer_vocabulary(z), 50257);
    size_t special;
    assert_memory_equal(tg_tokenizer_bytes(z, 50256, &special), "<|endoftext|>", 13);
    assert_int_equal(special, 13);
    FILE *goldens = fopen(TG_TEST_GOLDENS "/data/tokens.txt", "r");
    assert_non_null(goldens);
    static char line[65536];
    int lines = 0;
    for (; fgets(line, sizeof line, goldens); lines++) {
        check_line(z, line);
    }
    fclose(goldens);
    assert_int_equal(lines, 23);
    tg_tokens tokens;
    assert_true(tg_tokenizer_encode(z, "hello <|endoftext|>", 19, true, &tokens, &error));
    assert_memory_equal(tokens.ids, ((int32_t[]){31373, 220, 50256}), 3 * sizeof(int32_t));
    tg_tokens_free(&tokens);
    tg_tokenizer_free(z);
#else
    skip();
#endif
}

/* Worked by hand: pairs of the lowest ids win among equals. "the " comes 6 times, as "the" and " the". */
static void test_training_merges_the_most_frequent_pair(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    const char text[] = "ab ab ab cd";
    tg_tokenizer *z = tg_tokenizer_train(text, sizeof text - 1, 300, &error);
    /* "ab" 3 times, then " ab" twice; nothing else comes twice */
    assert_int_equal(tg_tokenizer_vocabulary(z), 259);
    size_t length;
    assert_memory_equal(tg_tokenizer_bytes(z, 256, &length), "ab", 2);
    assert_int_equal(length, 2);
    assert_memory_equal(tg_tokenizer_bytes(z, 257, &length), " ab", 3);
    assert_int_equal(length, 3);
    assert_memory_equal(tg_tokenizer_bytes(z, 258, &length), "<|endoftext|>", 13);
    assert_null(tg_tokenizer_bytes(z, 259, &length));
    tg_tokenizer_free(z);
}

/* Saves z, opens the file, compares the two, and frees both. */
static void check_saved(tg_tokenizer *z)
{
    char path[] = "/tmp/tapegrad-vocab-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    tg_error error = TG_NO_ERROR;
    assert_true(tg_tokenizer_save(z, path, TG_VOCABULARY_MERGES, &error));
    tg_tokenizer *again = tg_tokenizer_open(path, NULL, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(tg_tokenizer_vocabulary(again), tg_tokenizer_vocabulary(z));
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(z); id++) {
        size_t a, b;
        const char *one = tg_tokenizer_bytes(z, id, &a), *other = tg_tokenizer_bytes(again, id, &b);
        assert_int_equal(a, b);
        assert_memory_equal(one, other, a);
    }
    tg_tokenizer_free(z);
    tg_tokenizer_free(again);
    unlink(path);
}

static void test_saved_vocabulary_is_the_same(void **state)
{
    (void)state;
    check_saved(trained(280));
}

/* A run of one letter doubles the merges: "aa", "aaaa", ... A saved merge of any length can be opened. */
static void test_a_very_long_merge(void **state)
{
    (void)state;
    static char run[1 << 17];
    memset(run, 'a', sizeof run);
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tg_tokenizer_train(run, sizeof run, 300, &error);
    size_t length;
    assert_non_null(tg_tokenizer_bytes(z, tg_tokenizer_vocabulary(z) - 2, &length));
    assert_int_equal(length, sizeof run / 2); /* the two halves of the run are one pair, which occurs once */
    check_saved(z);
}

static void test_special_token_is_opt_in(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = trained(270);
    int32_t special = tg_tokenizer_vocabulary(z) - 1;
    tg_tokens tokens;
    const char text[] = "a<|endoftext|><|endoftext|>b";
    assert_true(tg_tokenizer_encode(z, text, sizeof text - 1, true, &tokens, &error));
    assert_int_equal(tokens.count, 4);
    assert_int_equal(tokens.ids[1], special);
    assert_int_equal(tokens.ids[2], special);
    tg_tokens_free(&tokens);
    assert_true(tg_tokenizer_encode(z, text, sizeof text - 1, false, &tokens, &error));
    for (int64_t i = 0; i < tokens.count; i++) {
        assert_int_not_equal(tokens.ids[i], special);
    }
    size_t length;
    char *back = tg_tokenizer_decode(z, tokens.ids, tokens.count, &length, &error);
    assert_string_equal(back, text);
    tg_text_free(back);
    tg_tokens_free(&tokens);
    tg_tokenizer_free(z);
}

static void test_a_very_long_word(void **state)
{
    (void)state;
    size_t length = 1000000;
    char *text = malloc(length);
    assert_non_null(text);
    memset(text, 'a', length);
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = tg_tokenizer_train("aaaa aaaa aaaa", 14, 300, &error);
    tg_tokens tokens;
    assert_true(tg_tokenizer_encode(z, text, length, false, &tokens, &error));
    assert_int_equal(tokens.count, 250000);
    tg_tokens_free(&tokens);
    tg_tokenizer_free(z);
    free(text);
}

/* A PCRE2 without Unicode is not out of memory. */
static void test_refused_pattern(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    refusal = PCRE2_ERROR_UNICODE_NOT_SUPPORTED;
    assert_null(tg_tokenizer_train(story, sizeof story - 1, 260, &error));
    assert_error(&error, TG_ERROR_STATE, "\\p{N}]+\": this version of PCRE2 does not have Unicode");
    refusal = PCRE2_ERROR_HEAP_FAILED;
    assert_null(tg_tokenizer_train(story, sizeof story - 1, 260, &error));
    assert_error(&error, TG_ERROR_MEMORY, "out of memory for a pattern");
}

static void test_bad_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
        const char *message;
    } bad[] = {
        {"ab\xff", 3, "byte 0xff at 2"},   {"\x80", 1, "byte 0x80 at 0"},    {"a\xc3", 2, "byte 0xc3 at 1"},
        {"\xc0\x80", 2, "byte 0xc0 at 0"}, {"\xed\xa0\x80", 3, "0xed at 0"}, {"\xf5\x80\x80\x80", 4, "0xf5 at 0"},
        {"\xe0\x80\x80", 3, "0xe0 at 0"},
    };
    tg_error error = TG_NO_ERROR;
    tg_tokenizer *z = trained(270);
    tg_tokens tokens;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(tg_tokenizer_encode(z, bad[i].text, bad[i].length, false, &tokens, &error));
        assert_null(tokens.ids);
        assert_error(&error, TG_ERROR_FORMAT, bad[i].message);
        assert_null(tg_tokenizer_train(bad[i].text, bad[i].length, 300, &error));
        assert_error(&error, TG_ERROR_FORMAT, bad[i].message);
    }
    assert_true(tg_tokenizer_encode(z, NULL, 0, false, &tokens, &error));
    assert_int_equal(tokens.count, 0);
    size_t length;
    assert_null(tg_tokenizer_decode(z, (int32_t[]){1, 270}, 2, &length, &error));
    assert_error(&error, TG_ERROR_RANGE, "id 270 at [1] is outside [0,270)");
    assert_null(tg_tokenizer_decode(z, (int32_t[]){-1}, 1, &length, &error));
    assert_error(&error, TG_ERROR_RANGE, "id -1 at [0]");
    assert_null(tg_tokenizer_train(story, sizeof story - 1, 256, &error));
    assert_error(&error, TG_ERROR_VALUE, "vocabulary 256; it must be at least 257");
    tg_tokenizer_free(z);
}

static void test_bad_vocabularies(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } bad[] = {
        {"", "is empty"},
        {"\xef\xbb\xbf#version: 0.2\na b\n", "'text' begins with a byte order mark, U+FEFF; save it as UTF-8 without"},
        {"ab c\n",
         "line 1: \"ab c\" is neither a merge (\"#version: 0.2\" or two bytes and one space), nor '{' (JSON), nor"},
        {"#version: 0.2\nab\n", "line 2: \"ab\" is not two tokens"},
        {"#version: 0.2\na b c\n", "line 2: \"a b c\" is not two tokens"},
        {"#version: 0.2\na b\n\nab c\n", "line 3: \"\" is not two tokens"},
        {"#version: 0.2\na b\nab cd\n", "line 3: the token \"cd\" is neither"},
        {"#version: 0.2\na b\na b\n", "line 3: the merge of \"a\" and \"b\" was given before"},
        {"#version: 0.2\na \n", "line 2: the token \"\" is neither"},
        {"#version: 0.2\na \xc7\xbf\n", "line 2: the token"},
        {"#version: 0.2\n\x01 b\n", "line 2: the token"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tg_error error = TG_NO_ERROR;
        assert_null(tg_tokenizer_new_from_text(bad[i].text, strlen(bad[i].text), &error));
        assert_error(&error, TG_ERROR_FORMAT, bad[i].message);
    }
    tg_error error = TG_NO_ERROR;
    assert_null(tg_tokenizer_open("/nowhere/vocab.bpe", NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "/nowhere/vocab.bpe");
    const char unfinished[] = "#version: 0.2\n\xc4\xa0 t\n\xc4\xa0t h";
    tg_tokenizer *z = tg_tokenizer_new_from_text(unfinished, sizeof unfinished - 1, &error);
    /* without a last newline */
    assert_non_null(z);
    assert_int_equal(tg_tokenizer_vocabulary(z), 259);
    tg_tokenizer_free(z);
}

/* Allocation k fails, for every k: an error, nothing leaks, and a second try gives the same ids. */
static void test_out_of_memory(void **state)
{
    (void)state;
    tg_error none = TG_NO_ERROR;
    tg_tokens expected;
    tg_tokenizer *first = trained(275);
    assert_true(tg_tokenizer_encode(first, story, sizeof story - 1, false, &expected, &none));
    int32_t ids[sizeof story];
    int64_t count = expected.count;
    memcpy(ids, expected.ids, (size_t)count * sizeof *ids);
    tg_tokens_free(&expected);
    tg_tokenizer_free(first);
    counting_allocator counting;
    allocator_install(&counting);
    bool finished = false;
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, k, true);
        tg_error error = TG_NO_ERROR;
        tg_tokens tokens = {NULL, 0};
        tg_tokenizer *z = tg_tokenizer_train(story, sizeof story - 1, 275, &error);
        bool encoded = z && tg_tokenizer_encode(z, story, sizeof story - 1, false, &tokens, &error);
        if (!encoded) {
            assert_int_equal(error.code, TG_ERROR_MEMORY);
            assert_null(tokens.ids);
        }
        if (z && !encoded) {
            allocator_arm(&counting, 0, false);
            error = (tg_error)TG_NO_ERROR;
            assert_true(tg_tokenizer_encode(z, story, sizeof story - 1, false, &tokens, &error));
            assert_int_equal(tokens.count, count);
            assert_memory_equal(tokens.ids, ids, (size_t)count * sizeof *ids);
        }
        finished = encoded;
        tg_tokens_free(&tokens);
        tg_tokenizer_free(z);
        assert_int_equal(counting.live, 0);
    }
    allocator_restore();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2_ids_are_tiktokens),
        cmocka_unit_test(test_training_merges_the_most_frequent_pair),
        cmocka_unit_test(test_saved_vocabulary_is_the_same),
        cmocka_unit_test(test_a_very_long_merge),
        cmocka_unit_test(test_special_token_is_opt_in),
        cmocka_unit_test(test_a_very_long_word),
        cmocka_unit_test(test_refused_pattern),
        cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_bad_vocabularies),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}

/* Vocabularies of words: tests/goldens/data/words has those of Python's re, str.split, sorted and Counter
 * (make_words.py). Options, files and their errors. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

static tg_error error;

static int set_up(void **state)
{
    (void)state;
    tg_error_clear(&error);
    return 0;
}

/* ---- goldens ---- */

#define GOLDENS TG_TEST_GOLDENS "/data/words/"

static const char *const course[] = {"<|endoftext|>", "<|unk|>"}, *const bert[] = {"[PAD]", "[UNK]", "[MASK]"},
                         *const end[] = {"<|end|>"};

typedef struct word_case {
    const char *name, *text;
    tg_words_config config; /* without its mark */
} word_case;

static const char story[] = TG_TEST_GOLDENS "/../../examples/lighthouse.txt", spaces[] = GOLDENS "spaces.txt";
static const word_case cases[] = {
    {"story_default", story, {.unknown = "<|unk|>", .min_count = 1, .vocabulary = INT32_MAX}},
    {"story_course",
     story,
     {.unknown = "<|unk|>",
      .order = TG_WORD_ORDER_BYTES,
      .min_count = 1,
      .vocabulary = INT32_MAX,
      .special = course,
      .special_count = 2,
      .special_last = true}},
    {"story_small",
     story,
     {.unknown = "[UNK]",
      .order = TG_WORD_ORDER_BYTES,
      .min_count = 2,
      .vocabulary = 100,
      .special = bert,
      .special_count = 3}},
    {"story_space",
     story,
     {.split = TG_WORD_SPLIT_SPACE, .unknown = "<|unk|>", .min_count = 3, .vocabulary = INT32_MAX}},
    {"spaces_default", spaces, {.unknown = "<|unk|>", .min_count = 1, .vocabulary = INT32_MAX}},
    {"spaces_space",
     spaces,
     {.split = TG_WORD_SPLIT_SPACE,
      .unknown = "<|unk|>",
      .order = TG_WORD_ORDER_BYTES,
      .min_count = 1,
      .vocabulary = INT32_MAX,
      .special = end,
      .special_count = 1,
      .special_last = true}},
};

#define CASES (sizeof cases / sizeof *cases)

static char *read_whole(const char *path, size_t *length)
{
    char *text = tg_text_read(path, length, &error);
    assert_non_null(text);
    return text;
}

static uint64_t fnv(uint64_t sum, const char *text)
{
    for (; *text; text++) {
        sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return sum;
}

static const uint64_t fnv_start = UINT64_C(0xcbf29ce484222325);

static void check_case(const word_case *c, int64_t ids, uint64_t ids_sum, uint64_t text_sum)
{
    char path[300], line[20];
    size_t length, saved_length, expected_length;
    char *text = read_whole(c->text, &length);
    tg_words_config config = c->config;
    config.mark = tg_words_config_default().mark;
    tg_words *words = tg_words_new(text, length, &config, &error);
    assert_non_null(words);

    assert_true(tg_words_save(words, "words.txt", &error));
    char *saved = read_whole("words.txt", &saved_length);
    snprintf(path, sizeof path, GOLDENS "%s.vocabulary", c->name);
    char *expected = read_whole(path, &expected_length);
    assert_string_equal(saved, expected);
    assert_int_equal(saved_length, expected_length);
    tg_text_free(saved);
    tg_text_free(expected);
    tg_words_free(words);

    /* the opened file encodes and decodes as the vocabulary that was saved */
    words = tg_words_open("words.txt", &config, &error);
    assert_non_null(words);
    tg_tokens tokens;
    assert_true(tg_words_encode(words, text, length, &tokens, &error));
    assert_int_equal(tokens.count, ids);
    uint64_t sum = fnv_start;
    for (int64_t i = 0; i < tokens.count; i++) {
        snprintf(line, sizeof line, "%d\n", tokens.ids[i]);
        sum = fnv(sum, line);
    }
    assert_true(sum == ids_sum);
    char *decoded = tg_words_decode(words, tokens.ids, tokens.count, &length, &error);
    assert_non_null(decoded);
    assert_int_equal(length, strlen(decoded));
    assert_true(fnv(fnv_start, decoded) == text_sum);
    tg_text_free(decoded);
    tg_tokens_free(&tokens);
    tg_words_free(words);
    tg_text_free(text);
    remove("words.txt");
}

static void test_goldens(void **state)
{
    (void)state;
    FILE *file = fopen(GOLDENS "sums.txt", "r");
    assert_non_null(file);
    char name[40];
    long long ids;
    unsigned long long ids_sum, text_sum;
    size_t found = 0;
    while (fscanf(file, "%39s %lld %llx %llx", name, &ids, &ids_sum, &text_sum) == 4) {
        for (size_t i = 0; i < CASES; i++) {
            if (strcmp(cases[i].name, name) == 0) {
                check_case(&cases[i], ids, ids_sum, text_sum);
                found++;
            }
        }
    }
    fclose(file);
    assert_int_equal(found, CASES);
}

/* ---- the table ---- */

static void test_ids(void **state)
{
    (void)state;
    tg_words *words = tg_words_new("b a b", 5, NULL, &error);
    assert_int_equal(tg_words_vocabulary(words), 3);
    assert_string_equal(tg_words_at(words, 0), "<|unk|>");
    assert_string_equal(tg_words_at(words, 1), "b");
    assert_null(tg_words_at(words, 3));
    assert_null(tg_words_at(words, -1));
    assert_int_equal(tg_words_find(words, "a"), 2);
    assert_int_equal(tg_words_find(words, "ab"), -1);
    assert_int_equal(tg_words_find(words, ""), -1);
    tg_words_free(words);

    /* more words than the table has slots at first */
    size_t length = 0;
    char *text = malloc(5000 * 6 + 1);
    for (int i = 0; i < 5000; i++) {
        length += (size_t)sprintf(text + length, "w%04d ", i);
    }
    words = tg_words_new(text, length, NULL, &error);
    assert_int_equal(tg_words_vocabulary(words), 5001);
    for (int i = 0; i < 5000; i++) {
        char word[8];
        snprintf(word, sizeof word, "w%04d", i);
        assert_int_equal(tg_words_find(words, word), i + 1);
        assert_string_equal(tg_words_at(words, i + 1), word);
    }
    tg_words_free(words);
    free(text);
}

static void test_an_empty_text(void **state)
{
    (void)state;
    tg_tokens tokens;
    tg_words_config config = tg_words_config_default();
    config.unknown = NULL;
    tg_words *words = tg_words_new(NULL, 0, &config, &error);
    assert_non_null(words);
    assert_int_equal(tg_words_vocabulary(words), 0);
    assert_int_equal(tg_words_find(words, "a"), -1);
    assert_true(tg_words_encode(words, " \n", 2, &tokens, &error));
    assert_int_equal(tokens.count, 0);
    tg_tokens_free(&tokens);
    char *decoded = tg_words_decode(words, NULL, 0, NULL, &error);
    assert_string_equal(decoded, "");
    tg_text_free(decoded);
    assert_true(tg_words_save(words, "words.txt", &error));
    tg_words *opened = tg_words_open("words.txt", &config, &error);
    assert_non_null(opened);
    assert_int_equal(tg_words_vocabulary(opened), 0);
    tg_words_free(opened);
    tg_words_free(words);
    remove("words.txt");
}

/* Words that begin longer words, in a table in which many of them have the same slot. */
static void test_prefixes(void **state)
{
    (void)state;
    enum { LONGEST = 600 };
    static char text[LONGEST * (LONGEST + 3) / 2];
    size_t length = 0;
    for (size_t size = LONGEST; size > 0; size--) {
        memset(text + length, 'a', size);
        length += size;
        text[length++] = ' ';
    }
    tg_words *words = tg_words_new(text, length, NULL, &error);
    assert_int_equal(tg_words_vocabulary(words), LONGEST + 1);
    for (int32_t id = 1; id <= LONGEST; id++) {
        assert_int_equal(strlen(tg_words_at(words, id)), id);
        assert_int_equal(tg_words_find(words, tg_words_at(words, id)), id);
    }
    tg_words_free(words);
}

/* A word that the text cuts off is not another word that begins with it, and a read stops at `length`. */
static void test_the_length_of_a_text(void **state)
{
    (void)state;
    tg_tokens tokens;
    tg_words *words = tg_words_new("cat catalog -", 11, NULL, &error);
    assert_int_equal(tg_words_find(words, "catalog"), 2);
    assert_true(tg_words_encode(words, "catalog--\xe2\x80\x80", 3, &tokens, &error));
    assert_int_equal(tokens.count, 1);
    assert_int_equal(tokens.ids[0], tg_words_find(words, "cat"));
    tg_tokens_free(&tokens);
    tg_words_free(words);
}

/* ---- errors ---- */

static void refuse_new(const char *text, size_t length, const tg_words_config *config, tg_code code,
                       const char *message)
{
    assert_null(tg_words_new(text, length, config, &error));
    assert_error(&error, code, message);
}

static void test_new_refuses(void **state)
{
    (void)state;
    refuse_new("a\xff", 2, NULL, TG_ERROR_FORMAT, "words_new: byte 0xff at 1 is not UTF-8");
    refuse_new("a\0b", 3, NULL, TG_ERROR_FORMAT, "words_new: the text has a NUL at 1");
    tg_words_config config = tg_words_config_default();
    config.split = (tg_word_split)2;
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "words_new: split 2; it must be a tg_word_split");
    config = tg_words_config_default();
    config.order = (tg_word_order)-1;
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "words_new: order -1; it must be a tg_word_order");
    config = tg_words_config_default();
    config.min_count = 0;
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "words_new: min_count 0; it must be at least 1");
    config = tg_words_config_default();
    config.vocabulary = 0;
    refuse_new("a", 1, &config, TG_ERROR_VALUE,
               "words_new: vocabulary 0; it must be at least 1, and at least the 1 special tokens");
    config.unknown = NULL;
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "vocabulary 0; it must be at least 1, and at least the 0 special");
}

static void test_new_refuses_special_tokens(void **state)
{
    (void)state;
    const char *special[2] = {"[A]", "[B]"};
    tg_words_config config = tg_words_config_default();
    config.special = special;
    config.special_count = -1;
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "words_new: special_count is -1; it must be at least 0");
    config.special_count = 2;
    config.vocabulary = 2;
    refuse_new("a", 1, &config, TG_ERROR_VALUE,
               "vocabulary 2; it must be at least 1, and at least the 3 special tokens");
    config.vocabulary = 10;
    special[1] = NULL;
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "words_new: special token 1 is NULL");
    special[1] = "[A]";
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "words_new: the special token '[A]' is given twice");
    static const char *const no_words[] = {"", " ", "[B] ", " [B]", "[B C]", "[B_C]", "--x"};
    for (size_t i = 0; i < sizeof no_words / sizeof *no_words; i++) {
        special[1] = no_words[i];
        refuse_new("a", 1, &config, TG_ERROR_VALUE, "' is not one word of the split");
    }
    special[1] = "\xff";
    refuse_new("a", 1, &config, TG_ERROR_FORMAT, "byte 0xff at 0 is not UTF-8");
    special[1] = "[B]";
    config.unknown = "a b";
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "words_new: the special token 'a b' is not one word of the split");
    config.special = NULL;
    refuse_new("a", 1, &config, TG_ERROR_VALUE, "words_new: special_count is 2, but special is NULL; set both");
    /* the split decides what one word is */
    config = tg_words_config_default();
    config.split = TG_WORD_SPLIT_SPACE;
    config.unknown = "<end_of_text>";
    tg_words *words = tg_words_new("a <end_of_text>", 15, &config, &error);
    assert_int_equal(tg_words_vocabulary(words), 2);
    tg_words_free(words);
}

static void test_encode_and_decode_refuse(void **state)
{
    (void)state;
    tg_words_config config = tg_words_config_default();
    config.unknown = NULL;
    tg_words *words = tg_words_new("a b", 3, &config, &error);
    tg_tokens tokens = {(int32_t *)&config, 7};
    assert_false(tg_words_encode(words, "a b\tcd", 6, &tokens, &error));
    assert_error(&error, TG_ERROR_RANGE, "words_encode: the word 'cd' at 4 is not in the vocabulary");
    assert_true(!tokens.ids && tokens.count == 0);
    assert_false(tg_words_encode(words, "a\xc3", 2, &tokens, &error));
    assert_error(&error, TG_ERROR_FORMAT, "words_encode: byte 0xc3 at 1 is not UTF-8");
    size_t length = 7;
    assert_null(tg_words_decode(words, (int32_t[]){0, 2}, 2, &length, &error));
    assert_error(&error, TG_ERROR_RANGE, "words_decode: id 2 at [1] is outside [0,2)");
    assert_int_equal(length, 0);
    assert_null(tg_words_decode(words, (int32_t[]){-1}, 1, NULL, &error));
    assert_error(&error, TG_ERROR_RANGE, "words_decode: id -1 at [0] is outside [0,2)");
    tg_words_free(words);
}

/* Opens a file of these bytes. */
static tg_words *open_text(const char *text, size_t length, const tg_words_config *config)
{
    FILE *file = fopen("words_bad.txt", "wb");
    assert_true(file && fwrite(text, 1, length, file) == length && fclose(file) == 0);
    tg_words *words = tg_words_open("words_bad.txt", config, &error);
    remove("words_bad.txt");
    return words;
}

#define REFUSE_FILE(text, message)                                       \
    do {                                                                 \
        assert_null(open_text((text), sizeof(text) - 1, NULL));          \
        assert_error(&error, TG_ERROR_FORMAT, "words_bad.txt'" message); \
    } while (0)

static void test_open_refuses(void **state)
{
    (void)state;
    REFUSE_FILE("a\n\nb\n", ", line 2: the line is empty; a line has one word");
    REFUSE_FILE("\r\n\n", ", line 1: the line is empty; a line has one word");
    REFUSE_FILE("\na\n", ", line 1: the line is empty");
    REFUSE_FILE("a\r\n\r\nb\n", ", line 2: the line is empty");
    REFUSE_FILE("a\nb\nc\nb\n", ", line 4: line 2 has the word 'b', too");
    REFUSE_FILE("a\nthe 120\n", ", line 2: the line has white space; a line has one word");
    REFUSE_FILE("a\n b\n", ", line 2: the line has white space");
    REFUSE_FILE("a\nb\t120\n", ", line 2: the line has white space");
    REFUSE_FILE("a\rb\rc\r", ", line 1: the line has white space");
    REFUSE_FILE("a\n \n", ", line 2: the line is empty");
    REFUSE_FILE("a\nb\0c\n", ", line 2: the line has a NUL");
    REFUSE_FILE("a\nbc\xed\xa0\x80\n", ", line 2: byte 0xed at 2 of the line is not UTF-8");
    REFUSE_FILE("a\nb\n", " does not have the unknown token '<|unk|>'");
    REFUSE_FILE("", " does not have the unknown token '<|unk|>'");
    tg_words_config config = tg_words_config_default();
    config.unknown = "b";
    tg_words *blank_last = open_text("a\xc2\xa0\r\nb\r\n\n\r\n", 11, &config);
    assert_int_equal(tg_words_vocabulary(blank_last), 2);
    tg_words_free(blank_last);
    config = tg_words_config_default();
    config.split = (tg_word_split)-1;
    assert_null(tg_words_open("missing", &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "words_open: split -1; it must be a tg_word_split");
    assert_null(tg_words_open("missing.txt", NULL, &error));
    assert_error(&error, TG_ERROR_FILE, "words_open");
}

static void test_open(void **state)
{
    (void)state;
    static const char file[] = "\xEF\xBB\xBF"
                               "a\r\n<|unk|>\r\ndon't\n\xC3\xA9";
    tg_words *words = open_text(file, sizeof file - 1, NULL);
    assert_non_null(words);
    assert_int_equal(tg_words_vocabulary(words), 4);
    static const char *const expected[] = {"a", "<|unk|>", "don't", "\xC3\xA9"};
    for (int32_t id = 0; id < 4; id++) {
        assert_string_equal(tg_words_at(words, id), expected[id]);
    }
    tg_tokens tokens;
    assert_true(tg_words_encode(words, "\xC3\xA9 b", 4, &tokens, &error));
    assert_int_equal(tokens.ids[0], 3);
    assert_int_equal(tokens.ids[1], 1);
    tg_tokens_free(&tokens);
    tg_words_free(words);
}

/* A byte-order mark in front of the first word belongs to the word. */
static void test_a_mark_in_a_word(void **state)
{
    (void)state;
    tg_words_config config = tg_words_config_default();
    config.unknown = NULL;
    tg_words *words = tg_words_new("\xEF\xBB\xBF"
                                   "a",
                                   4, &config, &error);
    assert_true(tg_words_save(words, "words.txt", &error));
    tg_words *opened = tg_words_open("words.txt", &config, &error);
    assert_int_equal(tg_words_vocabulary(opened), 1);
    assert_string_equal(tg_words_at(words, 0), "\xEF\xBB\xBF"
                                               "a");
    assert_string_equal(tg_words_at(opened, 0), tg_words_at(words, 0));
    tg_words_free(opened);
    tg_words_free(words);
    remove("words.txt");
}

static void test_save_refuses(void **state)
{
    (void)state;
    tg_words *words = tg_words_new("a", 1, NULL, &error);
    assert_false(tg_words_save(words, "no folder/words.txt", &error));
    assert_error(&error, TG_ERROR_FILE, "words_save");
    tg_words_free(words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_goldens, set_up),
        cmocka_unit_test_setup(test_ids, set_up),
        cmocka_unit_test_setup(test_prefixes, set_up),
        cmocka_unit_test_setup(test_an_empty_text, set_up),
        cmocka_unit_test_setup(test_the_length_of_a_text, set_up),
        cmocka_unit_test_setup(test_new_refuses, set_up),
        cmocka_unit_test_setup(test_new_refuses_special_tokens, set_up),
        cmocka_unit_test_setup(test_encode_and_decode_refuse, set_up),
        cmocka_unit_test_setup(test_open_refuses, set_up),
        cmocka_unit_test_setup(test_open, set_up),
        cmocka_unit_test_setup(test_a_mark_in_a_word, set_up),
        cmocka_unit_test_setup(test_save_refuses, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Tokenizers of all kinds: ids, spans and decoded texts are those of Hugging Face's tokenizers and of tiktoken
 * (tests/goldens/make_tokenizers.py), also after a tokenizer was saved and opened again. Then truncation and padding,
 * training with a pattern and special tokens, and files in pieces. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER TG_TEST_GOLDENS "/data/tokenizers/"

static const char path[] = "test_tokenizer_json.txt", ids_path[] = "test_tokenizer_json.ids";

/* Reads bytes in hexadecimal up to a space. Returns their number. */
static size_t read_hex(const char **at, char *text)
{
    size_t length = 0;
    for (unsigned byte; sscanf(*at, "%2x", &byte) == 1 && **at != ' '; *at += 2) {
        text[length++] = (char)byte;
    }
    text[length] = '\0';
    *at += strcspn(*at, " ");
    *at += **at == ' ';
    return length;
}

static tg_tokenizer *open_kind(const char *name)
{
    char from[512];
    tg_error error = TG_NO_ERROR;
    snprintf(from, sizeof from, FOLDER "%s.json", name);
    tg_tokenizer *z = tg_tokenizer_open(from, NULL, &error);
    assert_string_equal(error.text, "");
    return z;
}

/* A case of cases.txt or ranks.txt behind its name. */
static void check_case(tg_tokenizer *z, const char *at, bool has_spans)
{
    static char text[1024], decoded[1024];
    tg_error error = TG_NO_ERROR;
    tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
    config.special = at[0] == '1';
    config.with_template = at[2] == '1';
    at += 4;
    size_t length = read_hex(&at, text), back_length;
    bool is_decoded = *at != '?';
    size_t decoded_length = read_hex(&at, decoded);
    tg_encoding encoding;
    tg_tokens tokens;
    assert_true(tg_tokenizer_encode_text(z, text, length, &encoding, &config, &error));
    assert_true(tg_tokenizer_encode(z, text, length, config.special, &tokens, &error));
    for (int64_t i = 0; i < encoding.count; i++) {
        long long id, begin = encoding.spans[i].begin, end = encoding.spans[i].end;
        int used = 0, read = has_spans ? sscanf(at, "%lld:%lld:%lld%n", &id, &begin, &end, &used)
                                       : sscanf(at, "%lld%n", &id, &used);
        assert_int_equal(read, has_spans ? 3 : 1);
        assert_int_equal(encoding.ids[i], id);
        assert_int_equal(encoding.spans[i].begin, begin);
        assert_int_equal(encoding.spans[i].end, end);
        assert_true(config.with_template || encoding.ids[i] == tokens.ids[i]);
        at += used;
    }
    assert_int_equal(strspn(at, " \n"), strlen(at));
    assert_true(config.with_template || tokens.count == encoding.count);
    char *back = tg_tokenizer_decode(z, encoding.ids, encoding.count, &back_length, &error);
    assert_true(back && (!is_decoded || back_length == decoded_length));
    assert_true(!is_decoded || memcmp(back, decoded, decoded_length) == 0);
    tg_text_free(back);
    tg_tokens_free(&tokens);
    tg_encoding_free(&encoding);
}

/* Checks all cases of a tokenizer. */
static int check_cases(tg_tokenizer *z, const char *file_name, const char *name, bool has_spans)
{
    static char line[8192];
    char from[512];
    int cases = 0;
    snprintf(from, sizeof from, FOLDER "%s", file_name);
    FILE *file = fopen(from, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        size_t length = strlen(name);
        if (strncmp(line, name, length) == 0 && line[length] == ' ') {
            check_case(z, line + length + 1, has_spans);
            cases++;
        }
    }
    fclose(file);
    return cases;
}

static const char *const kinds[] = {"llama3", "qwen",       "smollm", "gemma",      "llama2", "metaspace",
                                    "bert",   "no_decoder", "words",  "bert_cased", "splits", "added"};

static void test_the_ids_of_tokenizers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tg_error error = TG_NO_ERROR;
        tg_tokenizer *z = open_kind(kinds[i]);
        assert_int_equal(check_cases(z, "cases.txt", kinds[i], true), 48);
        assert_true(tg_tokenizer_save(z, path, TG_VOCABULARY_JSON, &error));
        assert_false(tg_tokenizer_save(z, path, TG_VOCABULARY_MERGES, &error));
        assert_int_equal(error.code, TG_ERROR_VALUE);
        tg_tokenizer_free(z);
        z = tg_tokenizer_open(path, NULL, &error);
        assert_int_equal(check_cases(z, "cases.txt", kinds[i], true), 48);
        tg_tokenizer_free(z);
    }
}

static void test_patterns_of_ranks(void **state)
{
    (void)state;
    static char line[8192], pattern[1024];
    const tg_special_token special[] = {{"<|end|>", 310}, {"<|endoftext|>", 289}};
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.special = special;
    config.special_count = 2;
    FILE *file = fopen(FOLDER "ranks.txt", "r");
    assert_non_null(file);
    int cases = 0;
    while (fgets(line, sizeof line, file)) {
        tg_error error = TG_NO_ERROR;
        const char *at = line;
        read_hex(&at, pattern);
        config.pattern = pattern;
        tg_tokenizer *z = tg_tokenizer_open(TG_TEST_GOLDENS "/data/vocabulary/ranks.tiktoken", &config, &error);
        assert_string_equal(error.text, "");
        assert_int_equal(tg_tokenizer_vocabulary(z), 311);
        assert_int_equal(tg_tokenizer_find(z, "<|end|>"), 310);
        assert_null(tg_tokenizer_bytes(z, 305, NULL)); /* no token has this id */
        assert_null(tg_tokenizer_decode(z, (const int32_t[]){305}, 1, NULL, &error));
        assert_error(&error, TG_ERROR_RANGE, "id 305 at [0] is outside [0,311), or no token");
        check_case(z, at, false);
        tg_tokenizer_free(z);
        cases++;
    }
    fclose(file);
    assert_int_equal(cases, 96);
}

/* The configs that are refused for a file of ranks, and for others. */
static void test_bad_configs(void **state)
{
    (void)state;
    static const struct {
        tg_special_token special[2];
        int64_t count;
        const char *pattern, *file, *message;
        tg_code code;
    } bad[] = {
        {{{"a", -1}},
         1,
         NULL,
         "ranks.tiktoken",
         "special[0] has the id -1 and a text; ids must be in [0,65835]",
         TG_ERROR_VALUE},
        {{{NULL, 1}}, 1, NULL, "ranks.tiktoken", "special[0] has the id 1 and no text", TG_ERROR_VALUE},
        {{{"a", 289}, {"b", 289}},
         2,
         NULL,
         "ranks.tiktoken",
         "special[1] has the id 289, as another one",
         TG_ERROR_VALUE},
        {{{"a", 288}}, 1, NULL, "ranks.tiktoken", "rank 288 is the id of special[0]", TG_ERROR_FORMAT},
        {{{"a", 299}}, 0, "(", "ranks.tiktoken", "'pattern': PCRE2 refuses the pattern \"(\"", TG_ERROR_VALUE},
        {{{"a", 299}}, 0, "\xff", "ranks.tiktoken", "the pattern is not UTF-8", TG_ERROR_VALUE},
        {{{"a", 299}}, 1, NULL, "vocab.bpe", "a file of merges; it has no other special tokens", TG_ERROR_FORMAT},
        {{{"a", 299}},
         0,
         "x",
         "tokenizer.json",
         "the config's ids, pattern and special tokens belong to others",
         TG_ERROR_FORMAT},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char from[512];
        tg_error error = TG_NO_ERROR;
        tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
        config.special = bad[i].count ? bad[i].special : NULL;
        config.special_count = bad[i].count;
        config.pattern = bad[i].pattern;
        snprintf(from, sizeof from, TG_TEST_GOLDENS "/data/vocabulary/%s", bad[i].file);
        assert_null(tg_tokenizer_open(from, &config, &error));
        assert_error(&error, bad[i].code, bad[i].message);
    }
}

/* ---- truncation and padding ---- */

static void check_limits(const tg_tokenizer_encode_config *config, const int32_t *ids, int64_t count, int64_t padding)
{
    tg_error error = TG_NO_ERROR;
    tg_encoding encoding;
    tg_tokenizer *z = open_kind("bert");
    int32_t expected[16], the = tg_tokenizer_find(z, "the"), ship = tg_tokenizer_find(z, "ship");
    for (int64_t i = 0; i < count; i++) { /* 100 and 101 are "the" and "ship" */
        expected[i] = ids[i] == 100 ? the : ids[i] == 101 ? ship : ids[i];
    }
    assert_true(the > 0 && ship > 0 && the != ship);
    assert_true(tg_tokenizer_encode_text(z, "the ship the ship", 17, &encoding, config, &error));
    assert_int_equal(encoding.count, count);
    assert_int_equal(encoding.padding, padding);
    assert_memory_equal(encoding.ids, expected, (size_t)count * sizeof *ids);
    tg_encoding_free(&encoding);
    tg_tokenizer_free(z);
}

static void test_truncation_and_padding(void **state)
{
    (void)state;
    tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
    check_limits(&config, (const int32_t[]){100, 101, 100, 101}, 4, 0);
    config.most = 3;
    check_limits(&config, (const int32_t[]){100, 101, 100}, 3, 0);
    config.with_template = true;
    check_limits(&config, (const int32_t[]){2, 100, 3}, 3, 0);
    config.most = 5;
    config.cuts_left = true;
    check_limits(&config, (const int32_t[]){2, 101, 100, 101, 3}, 5, 0);
    config.fill = 7;
    config.pad = 1;
    check_limits(&config, (const int32_t[]){2, 101, 100, 101, 3, 1, 1}, 7, 2);
    config.pads_left = true;
    check_limits(&config, (const int32_t[]){1, 1, 2, 101, 100, 101, 3}, 7, 2);
    config.most = 2;
    config.fill = 0;
    check_limits(&config, (const int32_t[]){2, 3}, 2, 0);

    tg_error error = TG_NO_ERROR;
    tg_encoding encoding;
    tg_tokenizer *z = open_kind("bert");
    config.most = 1;
    assert_false(tg_tokenizer_encode_text(z, "the", 3, &encoding, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "at most 1 ids; the template alone has 2");
    config.most = 0;
    config.fill = 9;
    config.pad = -1;
    assert_false(tg_tokenizer_encode_text(z, "the", 3, &encoding, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "pad -1; fill needs an id in [0,");
    config.fill = -1;
    assert_false(tg_tokenizer_encode_text(z, "the", 3, &encoding, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "most 0 and fill -1; they must be in [0,2147483647]");
    assert_true(encoding.ids == NULL && encoding.count == 0);
    tg_tokenizer_free(z);
}

/* The options of the file, which save writes, too. */
static void test_the_limits_of_the_file(void **state)
{
    (void)state;
    size_t length;
    tg_error error = TG_NO_ERROR;
    char *text = tg_text_read(FOLDER "bert.json", &length, &error), *changed = malloc(length + 512);
    const char *rest = strstr(text, "\"added_tokens\"");
    sprintf(
        changed,
        "{\"version\":\"1.0\",\"truncation\":{\"direction\":\"Left\",\"max_length\":5,\"strategy\":\"LongestFirst\","
        "\"stride\":0},\"padding\":{\"strategy\":{\"Fixed\":6},\"direction\":\"Left\",\"pad_to_multiple_of\":4,"
        "\"pad_id\":1,\"pad_type_id\":0,\"pad_token\":\"[UNK]\"},%s",
        rest);
    tg_tokenizer *z = tg_tokenizer_new_from_text(changed, strlen(changed), &error);
    assert_string_equal(error.text, "");
    for (int turn = 0; turn < 2; turn++) {
        tg_encoding encoding;
        tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
        config.as_file = config.with_template = true;
        assert_true(tg_tokenizer_encode_text(z, "the ship the ship", 17, &encoding, &config, &error));
        assert_int_equal(encoding.count, 8);
        assert_int_equal(encoding.padding, 3);
        assert_int_equal(encoding.ids[2], 1);
        assert_int_equal(encoding.ids[3], 2);
        assert_int_equal(encoding.ids[4], tg_tokenizer_find(z, "ship"));
        assert_int_equal(encoding.spans[4].begin, 4);
        tg_encoding_free(&encoding);
        char *saved = tg_tokenizer_text(z, &length, &error);
        tg_tokenizer_free(z);
        z = tg_tokenizer_new_from_text(saved, length, &error);
        tg_text_free(saved);
    }
    tg_tokenizer_free(z);
    tg_text_free(text);
    free(changed);
}

/* ---- long texts, many tokens, files in pieces ---- */

static void write_text(const char *text, size_t length)
{
    FILE *file = fopen(path, "wb");
    assert_true(file && fwrite(text, 1, length, file) == length && fclose(file) == 0);
}

/* The file has the ids of its text, or cannot be cut. */
static void check_file(tg_tokenizer *z, const char *text, size_t length, bool is_cut)
{
    size_t size;
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    int64_t count = tg_tokenizer_encode_files(z, (const char *const[]){path}, 1, ids_path, 4, NULL, &error);
    if (!is_cut) {
        assert_int_equal(count, -1);
        assert_error(&error, TG_ERROR_FORMAT, "has no place where a word surely ends");
        return;
    }
    assert_true(tg_tokenizer_encode(z, text, length, false, &tokens, &error));
    assert_int_equal(count, tokens.count);
    char *ids = tg_text_read(ids_path, &size, &error);
    assert_int_equal(size, (size_t)count * sizeof *tokens.ids);
    assert_memory_equal(ids, tokens.ids, size);
    tg_text_free(ids);
    tg_tokens_free(&tokens);
}

/* A text of 3 MB has the ids of its pieces, for the kinds that can be cut. */
static void test_files_in_pieces(void **state)
{
    (void)state;
    static const char *const parts[] = {"The keeper ", "turned\n",       "x = 1234567\n\n", "\n",
                                        "  y",         "\u65e5\u672c\n", "e\u0301.\n",      "don't\nyou"};
    size_t most = 3 << 20, length = 0;
    char *text = malloc(most + 64);
    uint32_t seed = 1;
    while (length < most) {
        seed = seed * 1664525 + 1013904223;
        const char *part = parts[seed >> 29];
        memcpy(text + length, part, strlen(part));
        length += strlen(part);
    }
    write_text(text, length);
    for (size_t i = 0; i < 3; i++) { /* smollm adds a space to each text, and is not cut */
        tg_tokenizer *z = open_kind(kinds[i]);
        check_file(z, text, length, i < 2);
        tg_tokenizer_free(z);
    }
    static char line[8192], pattern[2][1024];
    FILE *file = fopen(FOLDER "ranks.txt", "r");
    int patterns = 0;
    while (fgets(line, sizeof line, file)) {
        const char *at = line;
        read_hex(&at, pattern[1]);
        if (strcmp(pattern[0], pattern[1]) == 0) {
            continue;
        }
        strcpy(pattern[0], pattern[1]);
        tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
        config.pattern = pattern[0];
        tg_tokenizer *z = tg_tokenizer_open(TG_TEST_GOLDENS "/data/vocabulary/ranks.tiktoken", &config, NULL);
        check_file(z, text, length, patterns < 5); /* the last one is that of no published tokenizer */
        tg_tokenizer_free(z);
        patterns++;
    }
    fclose(file);
    assert_int_equal(patterns, 6);
    free(text);
}

/* A decoder behind a Fuse sees bytes that are no character, and they remain. */
static void test_a_replace_of_bytes(void **state)
{
    (void)state;
    static const char *const patterns[] = {"{\"String\":\"a\"}", "{\"Regex\":\"a+\"}"};
    for (int i = 0; i < 2; i++) {
        char json[512];
        tg_error error = TG_NO_ERROR;
        snprintf(json, sizeof json,
                 "{\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},"
                 "{\"type\":\"Replace\",\"pattern\":%s,\"content\":\"bc\"}]},"
                 "\"model\":{\"vocab\":{\"a\":0,\"<0xE2>\":1},\"merges\":[]}}",
                 patterns[i]);
        tg_tokenizer *z = tg_tokenizer_new_from_text(json, strlen(json), &error);
        assert_string_equal(error.text, "");
        size_t length;
        char *text = tg_tokenizer_decode(z, (const int32_t[]){1, 0, 1, 1, 0, 1}, 6, &length, &error);
        assert_int_equal(length, 8);
        assert_string_equal(text, "\xE2"
                                  "bc\xE2\xE2"
                                  "bc\xE2");
        tg_text_free(text);
        tg_tokenizer_free(z);
    }
}

/* A word, a run of white space, and a run of marks of a million bytes each. */
static void test_long_runs(void **state)
{
    (void)state;
    static const char *const runs[] = {"a", " ", "\n", "\u65e5", "e\u0301", "\u0301\u0323", "1", "'"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        tg_tokenizer *z = open_kind(kinds[i]);
        for (size_t r = 0; r < sizeof runs / sizeof *runs; r++) {
            tg_error error = TG_NO_ERROR;
            tg_encoding encoding;
            size_t period = strlen(runs[r]), length = 1000000 / period * period;
            char *text = malloc(length);
            for (size_t k = 0; k < length; k += period) {
                memcpy(text + k, runs[r], period);
            }
            assert_true(tg_tokenizer_encode_text(z, text, length, &encoding, NULL, &error));
            tg_encoding_free(&encoding);
            free(text);
        }
        tg_tokenizer_free(z);
    }
}

/* ---- training ---- */

/* The first merges of CS336's example (Sennrich et al. 2016): ties go to the greatest pair of byte strings. */
static void test_the_greatest_pair(void **state)
{
    (void)state;
    static const char text[] =
        "low low low low low lower lower widest widest widest newest newest newest newest newest "
        "newest";
    static const char *const merged[] = {"st", "est", "ow", "low", "west", "ne"};
    tg_error error = TG_NO_ERROR;
    tg_tokenizer_train_files_config config = tg_tokenizer_train_files_config_default();
    config.pattern = "\\S+";
    config.takes_greatest_pair = true;
    write_text(text, sizeof text - 1);
    tg_tokenizer *z = tg_tokenizer_train_files((const char *const[]){path}, 1, 256 + 7, &config, &error);
    assert_string_equal(error.text, "");
    for (int32_t i = 0; i < 6; i++) {
        size_t length;
        const char *bytes = tg_tokenizer_bytes(z, 256 + i, &length);
        assert_int_equal(length, strlen(merged[i]));
        assert_memory_equal(bytes, merged[i], length);
    }
    tg_tokenizer_free(z);
}

/* No merge has a part of a special token, nor goes over one. */
static void test_special_tokens_of_a_training(void **state)
{
    (void)state;
    static const char text[] = "ab<|x|>ab<|x|>ab<|x|>ab<|y|>cd|>cd|>";
    static const char *const special[] = {"<|x|>", "<|y|>"};
    tg_error error = TG_NO_ERROR;
    tg_tokenizer_train_files_config config = tg_tokenizer_train_files_config_default();
    config.special = special;
    config.special_count = 2;
    config.pattern = "\\S+";
    write_text(text, sizeof text - 1);
    const char *const paths[] = {path};
    tg_tokenizer *z = tg_tokenizer_train_files(paths, 1, 400, &config, &error);
    assert_int_equal(tg_tokenizer_vocabulary(z), 256 + 4 + 2); /* ab, cd, cd|, cd|> */
    assert_int_equal(tg_tokenizer_find(z, "<|x|>"), 260);
    assert_int_equal(tg_tokenizer_find(z, "<|y|>"), 261);
    assert_int_equal(tg_tokenizer_find(z, "ab"), 256);
    assert_int_equal(tg_tokenizer_find(z, "<|"), -1);
    assert_int_equal(tg_tokenizer_find(z, "abab"), -1);
    tg_tokens tokens;
    assert_true(tg_tokenizer_encode(z, text, sizeof text - 1, true, &tokens, &error));
    assert_int_equal(tokens.count, 4 + 4 + 2);
    tg_tokens_free(&tokens);
    char *json = tg_tokenizer_text(z, NULL, &error);
    assert_non_null(strstr(json, "{\"Regex\":\"\\\\S+\"}"));
    tg_text_free(json);
    tg_tokenizer_free(z);
    assert_null(tg_tokenizer_train_files(paths, 1, 257, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "vocabulary 257; it must be at least 258, the bytes and the special tokens");
    config.special = (const char *const[]){"a", ""};
    assert_null(tg_tokenizer_train_files(paths, 1, 400, &config, &error));
    assert_error(&error, TG_ERROR_VALUE, "special[1] is empty");
}

/* Every allocation fails once: MEMORY, and nothing remains. */
static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    static const char text[] = "the ship\u00e9 e\u0301 <|end|>x 12";
    allocator_install(&counting);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        bool finished = false;
        for (size_t k = 1; !finished; k++) {
            char from[512];
            tg_error error = TG_NO_ERROR;
            tg_encoding encoding = {NULL, NULL, 0, 0};
            snprintf(from, sizeof from, FOLDER "%s.json", kinds[i]);
            allocator_arm(&counting, k, true);
            tg_tokenizer *z = tg_tokenizer_open(from, NULL, &error);
            char *decoded = NULL;
            finished = z && tg_tokenizer_encode_text(z, text, sizeof text - 1, &encoding, NULL, &error) &&
                       (decoded = tg_tokenizer_decode(z, encoding.ids, encoding.count, NULL, &error)) != NULL;
            assert_int_equal(error.code, finished ? TG_OK : TG_ERROR_MEMORY);
            tg_text_free(decoded);
            tg_encoding_free(&encoding);
            tg_tokenizer_free(z);
            assert_int_equal(counting.live, 0);
        }
    }
    allocator_restore();
}

static int remove_files(void **state)
{
    (void)state;
    remove(path);
    remove(ids_path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_ids_of_tokenizers),
        cmocka_unit_test(test_patterns_of_ranks),
        cmocka_unit_test(test_bad_configs),
        cmocka_unit_test(test_truncation_and_padding),
        cmocka_unit_test(test_the_limits_of_the_file),
        cmocka_unit_test(test_files_in_pieces),
        cmocka_unit_test(test_a_replace_of_bytes),
        cmocka_unit_test(test_long_runs),
        cmocka_unit_test(test_the_greatest_pair),
        cmocka_unit_test(test_special_tokens_of_a_training),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("tokenizer_json", tests, NULL, remove_files);
}

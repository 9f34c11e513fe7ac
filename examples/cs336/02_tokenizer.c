/* 02: Which ids has a text? Encodes texts with GPT-2's merges, at once and line by line, and decodes the ids. They are
 * compared with tiktoken's: the twin's file has their number and a checksum. */
#include "cs336.h"

#include <stdlib.h>
#include <string.h>

#include <tapegrad_text.h>

const char program_name[] = "cs336_02_tokenizer";

enum { TEXT_BYTES = 1000, LIMIT = 1000000 };

/* ---- the memory of the library ---- */

static size_t used, peak;

/* Before a block stand what malloc has returned, and its size. */
typedef struct heading {
    void *whole;
    size_t bytes;
} heading;

static void *allocate(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    char *whole = malloc(bytes + alignment + sizeof(heading));
    if (!whole) {
        return NULL;
    }
    uintptr_t begin = (uintptr_t)whole + sizeof(heading) + alignment - 1;
    heading *h = (heading *)(begin - begin % alignment) - 1;
    *h = (heading){whole, bytes};
    used += bytes;
    peak = used > peak ? used : peak;
    return h + 1;
}

static void release(void *context, void *block)
{
    (void)context;
    heading *h = (heading *)block - 1;
    used -= h->bytes;
    free(h->whole);
}

/* ---- ids ---- */

/* FNV-1a over the ids, as in tests/goldens/make_cs336.py, of which 31 bits count. */
typedef struct checksum {
    uint64_t hash;
    int64_t count;
} checksum;

static const checksum no_ids = {14695981039346656037u, 0};

static void encode(tg_tokenizer *bpe, const char *text, size_t length, checksum *sum)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, length, true, &tokens, &error);
    check(&error);
    for (int64_t i = 0; i < tokens.count; i++) {
        sum->hash = (sum->hash ^ (uint64_t)tokens.ids[i]) * 1099511628211u;
    }
    sum->count += tokens.count;
    tg_tokens_free(&tokens);
}

/* Encodes a text of any length with memory for a line: the course's encode_iterable. */
static void encode_lines(tg_tokenizer *bpe, const char *text, checksum *sum)
{
    while (*text) {
        size_t length = strcspn(text, "\n");
        length += text[length] == '\n';
        encode(bpe, text, length, sum);
        text += length;
    }
}

static void compare_ids(recipe *r, const options *o, const char *test, checksum sum)
{
    tg_tensor *expected = tg_tensor_new_from_npz(o->twin, test, &r->error);
    recipe_check(r);
    int64_t count = (int64_t)tg_tensor_value_at(expected, 0), hash = (int64_t)tg_tensor_value_at(expected, 1);
    bool is_equal = sum.count == count && (int64_t)(sum.hash & INT32_MAX) == hash;
    test_line(test, TWIN, is_equal, "%lld ids, and tiktoken has %lld%s", (long long)sum.count, (long long)count,
              is_equal || sum.count != count ? "" : ", but others");
    tg_release(expected);
}

/* Returns whether the decoded ids are the text, and writes the number of ids that are this token. */
static bool is_roundtrip(recipe *r, tg_tokenizer *bpe, const char *text, int32_t token, int *times)
{
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, strlen(text), true, &tokens, &r->error);
    char *again = tg_tokenizer_decode(bpe, tokens.ids, tokens.count, NULL, &r->error);
    recipe_check(r);
    *times = 0;
    for (int64_t i = 0; i < tokens.count; i++) {
        *times += tokens.ids[i] == token;
    }
    bool is_equal = strcmp(again, text) == 0;
    tg_tokens_free(&tokens);
    tg_text_free(again);
    return is_equal;
}

/* ---- tests ---- */

/* A text that stands in a test of the course, or is a file of it: a round trip, and tiktoken's ids. */
static void test_text(recipe *r, const options *o, tg_tokenizer *bpe, const char *file, const char *roundtrip,
                      const char *matches)
{
    char buffer[TEXT_BYTES], *read = NULL;
    if (file) {
        read = tg_text_read(course_file(o, file), NULL, &r->error);
        recipe_check(r);
    } else {
        course_text(o, "test_tokenizer.py", roundtrip, "test_string = \"", buffer, TEXT_BYTES);
    }
    const char *text = read ? read : buffer;
    int ends;
    bool is_equal = is_roundtrip(r, bpe, text, tg_tokenizer_end_of_text(bpe), &ends);
    test_line(roundtrip, ITSELF, is_equal, "%zu bytes, and <|endoftext|> %d times", strlen(text), ends);
    checksum sum = no_ids;
    encode(bpe, text, strlen(text), &sum);
    compare_ids(r, o, matches, sum);
    tg_text_free(read);
}

/* Adds a special token to GPT-2's vocabulary: a file of ranks takes any. */
static void test_overlap(recipe *r, const options *o, const tg_tokenizer *bpe)
{
    static const char test[] = "test_overlapping_special_tokens";
    if (!folder_make(o->out)) {
        exit(program_end(1));
    }
    const char *path = folder_file(o->out, "gpt2.tiktoken");
    const tg_special_token special[] = {{"<|endoftext|>", 50256}, {"<|endoftext|><|endoftext|>", 50257}};
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.special = special;
    config.special_count = 2;
    tg_tokenizer_save(bpe, path, TG_VOCABULARY_RANKS, &r->error);
    tg_tokenizer *both = tg_tokenizer_open(path, &config, &r->error);
    recipe_check(r);
    char text[TEXT_BYTES];
    course_text(o, "test_tokenizer.py", test, "test_string = \"", text, TEXT_BYTES);
    int single, twofold;
    bool is_equal = is_roundtrip(r, both, text, 50256, &single) && is_roundtrip(r, both, text, 50257, &twofold);
    test_line(test, ITSELF, is_equal && single == 1 && twofold == 1, "%d of the short token, %d of the long one",
              is_equal ? single : -1, is_equal ? twofold : -1);
    tg_tokenizer_free(both);
}

/* The course's text of 5 MB is not at hand: its sample is repeated. */
static void test_memory(recipe *r, const options *o, tg_tokenizer *bpe)
{
    size_t length;
    char *sample = tg_text_read(course_file(o, "fixtures/tinystories_sample.txt"), &length, &r->error);
    recipe_check(r);
    checksum sum = no_ids, at_once = no_ids;
    int times;
    encode_lines(bpe, sample, &sum);
    encode(bpe, sample, length, &at_once);
    bool is_same = sum.count == at_once.count && sum.hash == at_once.hash;
    test_line("test_encode_iterable_tinystories_sample_roundtrip", ITSELF,
              is_same && is_roundtrip(r, bpe, sample, -1, &times), "%lld ids of lines are %s of the text",
              (long long)sum.count, is_same ? "those" : "not those");
    compare_ids(r, o, "test_encode_iterable_tinystories_matches_tiktoken", sum);

    size_t copies = 5000000 / length + 1;
    char *text = malloc(copies * length + 1);
    for (size_t i = 0; text && i < copies; i++) {
        memcpy(text + i * length, sample, length + 1);
    }
    size_t before = peak = used;
    encode_lines(bpe, text, &sum);
    test_line(
        "test_encode_iterable_memory_usage", ITSELF, peak - before < LIMIT,
        "%zu bytes for the lines of %zu, at most %d (the sample, repeated: tinystories_sample_5M.txt is not at hand)",
        peak - before, copies * length, LIMIT);
    peak = used;
    encode(bpe, text, copies * length, &sum);
    test_line("test_encode_memory_usage", ITSELF, peak - before > LIMIT,
              "%zu bytes for all at once, which the course expects to be above %d", peak - before, LIMIT);
    free(text);
    tg_text_free(sample);
}

int main(int argc, char **argv)
{
    options o = options_read(TOKENIZER, "encodes and decodes texts with GPT-2's vocabulary", argc, argv);
    tg_set_allocator(&(tg_allocator){allocate, release, NULL});
    recipe r = recipe_begin(0);
    if (!o.cs336 || !o.book || !o.twin) {
        printf("all tests: skipped: need --cs336 DIR, --book DIR and --twin FILE\n");
        return tests_end(&r);
    }
    tg_tokenizer *bpe = tg_tokenizer_open(folder_file(o.book, "vocab.bpe"), NULL, &r.error);
    recipe_check(&r);
    test_text(&r, &o, bpe, NULL, "test_roundtrip_empty", "test_empty_matches_tiktoken");
    test_text(&r, &o, bpe, NULL, "test_roundtrip_single_character", "test_single_character_matches_tiktoken");
    test_text(&r, &o, bpe, NULL, "test_roundtrip_single_unicode_character",
              "test_single_unicode_character_matches_tiktoken");
    test_text(&r, &o, bpe, NULL, "test_roundtrip_ascii_string", "test_ascii_string_matches_tiktoken");
    test_text(&r, &o, bpe, NULL, "test_roundtrip_unicode_string", "test_unicode_string_matches_tiktoken");
    test_text(&r, &o, bpe, NULL, "test_roundtrip_unicode_string_with_special_tokens",
              "test_unicode_string_with_special_tokens_matches_tiktoken");
    test_text(&r, &o, bpe, "fixtures/address.txt", "test_address_roundtrip", "test_address_matches_tiktoken");
    test_text(&r, &o, bpe, "fixtures/german.txt", "test_german_roundtrip", "test_german_matches_tiktoken");
    test_text(&r, &o, bpe, "fixtures/tinystories_sample.txt", "test_tinystories_sample_roundtrip",
              "test_tinystories_matches_tiktoken");
    test_overlap(&r, &o, bpe);
    test_memory(&r, &o, bpe);
    tg_tokenizer_free(bpe);
    return tests_end(&r);
}

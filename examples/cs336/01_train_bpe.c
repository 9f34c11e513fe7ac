/* 01: From which pairs is a vocabulary made? Trains byte pairs on a text as CS336's assignment asks: of equally
 * frequent pairs the lexicographically greater one is merged, and a special token is neither split nor merged. With
 * --text and --out the vocabulary of a text of one's own is written to a file that Hugging Face's tokenizers read. */
#include "cs336.h"

#include <string.h>

#include <tapegrad_text.h>

#include "../common/terminal.h"

const char program_name[] = "cs336_01_train_bpe";

static tg_tokenizer *train(const char *path, int32_t vocabulary, const char *special, tg_error *error)
{
    tg_tokenizer_train_files_config config = tg_tokenizer_train_files_config_default();
    config.takes_greatest_pair = true;
    config.min_count = 1;
    config.special = &special;
    config.special_count = special ? 1 : 0;
    return tg_tokenizer_train_files(&path, 1, vocabulary, &config, error);
}

/* Returns the length of the line at a text's begin. */
static int line_length(const char *text)
{
    return (int)strcspn(text, "\n");
}

/* Compares the merges, line by line, with those of the course; ours begin with a line "#version". */
static void compare_merges(const char *ours, const char *reference)
{
    int line = 1;
    for (ours += line_length(ours) + 1; *ours && *reference; line++) {
        int length = line_length(ours);
        if (length != line_length(reference) || memcmp(ours, reference, (size_t)length) != 0) {
            break;
        }
        ours += length + (ours[length] == '\n');
        reference += length + (reference[length] == '\n');
    }
    bool is_equal = !*ours && !*reference;
    test_line("test_train_bpe", FIXTURE, is_equal, is_equal ? "%d merges are equal" : "line %d: '%.*s', not '%.*s'",
              line - is_equal, line_length(ours), ours, line_length(reference), reference);
}

/* Returns the number of tokens of the course's vocabulary that are not ours. */
static int32_t missing_tokens(const tg_tokenizer *ours, const tg_tokenizer *reference)
{
    int32_t missing = 0;
    for (int32_t id = 0; id < tg_tokenizer_vocabulary(reference); id++) {
        size_t length, other_length;
        const char *token = tg_tokenizer_bytes(reference, id, &length);
        bool is_found = false;
        for (int32_t other = 0; other < tg_tokenizer_vocabulary(ours) && !is_found; other++) {
            const char *bytes = tg_tokenizer_bytes(ours, other, &other_length);
            is_found = length == other_length && memcmp(token, bytes, length) == 0;
        }
        missing += !is_found;
    }
    return missing;
}

static void run_tests(recipe *r, const options *o)
{
    if (!test_begin(o, "test_train_bpe", FIXTURE) || !test_begin(o, "test_train_bpe_speed", FIXTURE)) {
        return;
    }
    double begin = seconds();
    tg_tokenizer *bpe = train(course_file(o, "fixtures/corpus.en"), 500, "<|endoftext|>", &r->error);
    double end = seconds();
    recipe_check(r);
    tg_tokenizer_open_config config = tg_tokenizer_open_config_default();
    config.ids = course_file(o, "fixtures/train-bpe-reference-vocab.json");
    const char *path = course_file(o, "fixtures/train-bpe-reference-merges.txt");
    tg_tokenizer *reference = tg_tokenizer_open(path, &config, &r->error);
    char *merges = tg_tokenizer_text(bpe, NULL, &r->error), *expected = tg_text_read(path, NULL, &r->error);
    recipe_check(r);
    compare_merges(merges, expected);
    int32_t missing = missing_tokens(bpe, reference);
    test_line("test_train_bpe (vocabulary)", FIXTURE, missing == 0, "%d of %d tokens are missing", missing,
              tg_tokenizer_vocabulary(reference));
    test_line("test_train_bpe_speed", FIXTURE, end - begin < 1.5, "%.3f seconds, at most 1.5", end - begin);
    tg_text_free(merges);
    tg_text_free(expected);
    tg_tokenizer_free(bpe);
    tg_tokenizer_free(reference);
}

int main(int argc, char **argv)
{
    options o = options_read(TRAIN_BPE, "trains byte pairs, and compares them with the course's", argc, argv);
    recipe r = recipe_begin(0);
    if (o.text) {
        tg_tokenizer *bpe = train(o.text, (int32_t)o.vocabulary, o.special, &r.error);
        check(&r.error);
        tg_tokenizer_save(bpe, o.out, TG_VOCABULARY_JSON, &r.error);
        print_line(stdout, "%d ids are in %s", tg_tokenizer_vocabulary(bpe), o.out);
        tg_tokenizer_free(bpe);
    } else {
        run_tests(&r, &o);
    }
    return tests_end(&r);
}

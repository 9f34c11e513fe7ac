/* generate: continues a prompt with a trained model, and prints the text while it is generated. Several texts are
 * printed at the end.
 *
 * A token is a sequence of bytes, and one character may be split over several tokens. So bytes are held back until
 * their character is complete. Invalid UTF-8 is written as U+FFFD, and so are control characters, which could change
 * the state of the terminal.
 */
#include <stdlib.h>
#include <string.h>

#include "../common/program.h"
#include "commands.h"

#define DEFAULT_PROMPT "The keeper"

typedef struct stream {
    FILE *file;
    const tg_tokenizer *bpe;
    /* the first bytes of a character */
    unsigned char held[4];
    /* the number of bytes in `held`, and the number of bytes of the whole character */
    int count, wanted;
} stream;

/* Returns whether the bytes are one character in its shortest form (RFC 3629), and not a control character other than a
 * tab or a newline. */
static bool is_character(const unsigned char *bytes, int count)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t code = count == 1 ? bytes[0] : bytes[0] & (0x7fu >> count);
    for (int i = 1; i < count; i++) {
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    if (count == 1) {
        return (code >= 32 && code < 127) || code == '\n' || code == '\t';
    }
    return code >= least[count] && code >= 0xa0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
}

/* Writes the held bytes, or U+FFFD if they are not one character, and removes them. */
static void release(stream *s)
{
    if (s->count > 0 && s->count == s->wanted && is_character(s->held, s->count)) {
        fwrite(s->held, 1, (size_t)s->count, s->file);
    } else if (s->count > 0) {
        fputs("\xef\xbf\xbd", s->file);
    }
    s->count = 0;
}

static void add_byte(stream *s, unsigned char byte)
{
    bool continues = (byte & 0xc0) == 0x80;
    /* the first byte gives the length of a character; a byte that cannot be first counts as a character of one byte */
    if (!continues || s->count == 0) {
        release(s);
        s->wanted = byte < 0xc0 || byte >= 0xf8 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    }
    s->held[s->count++] = byte;
    if (s->count == s->wanted) {
        release(s);
    }
}

static bool add_token(void *context, int64_t text, int32_t id)
{
    (void)text;
    stream *s = context;
    size_t length;
    const char *bytes = tg_tokenizer_bytes(s->bpe, id, &length);
    for (size_t i = 0; i < length; i++) {
        add_byte(s, (unsigned char)bytes[i]);
    }
    fflush(s->file);
    return true;
}

/* Returns the ids of the prompt, for tg_tokens_free, or prints an error. A prompt that was not given is cut to the
 * context. */
static bool encode_prompt(const options *o, const tg_gpt *gpt, tg_tokenizer *bpe, tg_tokens *prompt)
{
    tg_error error = TG_NO_ERROR;
    const int64_t context = tg_gpt_get_config(gpt)->context;
    const char *text = o->prompt ? o->prompt : DEFAULT_PROMPT;
    if (!tg_tokenizer_encode(bpe, text, strlen(text), false, prompt, &error)) {
        return complain("--prompt: %s", error.text);
    }
    if (prompt->count > context && o->prompt) {
        complain("--prompt: %lld tokens; must be at most %lld, the context", (long long)prompt->count,
                 (long long)context);
        tg_tokens_free(prompt);
        return false;
    }
    prompt->count = prompt->count < context ? prompt->count : context;
    return true;
}

static void add_tokens(stream *s, const int32_t *ids, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        add_token(s, 0, ids[i]);
    }
}

bool generate_check(const options *o, const tg_gpt *gpt, tg_tokenizer *bpe)
{
    const tg_gpt_config *config = tg_gpt_get_config(gpt);
    tg_tokens prompt;
    if (!vocabulary_fits(bpe, config->vocabulary)) {
        return false;
    }
    if (o->top_k > config->vocabulary) {
        return complain("--top-k %lld: must be a whole number from 1 to %lld, the size of the vocabulary",
                        (long long)o->top_k, (long long)config->vocabulary);
    }
    if (!encode_prompt(o, gpt, bpe, &prompt)) {
        return false;
    }
    tg_tokens_free(&prompt);
    return true;
}

static tg_generate_config config_of(const options *o, const int32_t *end_of_text)
{
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = o->max_new_tokens;
    config.sample.greedy = o->greedy;
    if (!o->greedy) {
        config.sample.temperature = o->temperature;
        config.sample.top_k = o->top_k;
        config.sample.top_p = o->top_p;
    }
    if (o->end_of_text) {
        config.end_tokens = end_of_text;
        config.end_token_count = 1;
    }
    config.use_cache = !o->no_cache;
    return config;
}

int64_t generate_text(FILE *file, tg_tape *quiet, const tg_gpt *gpt, tg_tokenizer *bpe, const options *o)
{
    tg_tokens prompt;
    stream s = {.file = file, .bpe = bpe};
    if (!encode_prompt(o, gpt, bpe, &prompt)) {
        return -1;
    }
    const int32_t end_of_text = tg_tokenizer_end_of_text(bpe);
    tg_generate_config config = config_of(o, &end_of_text);
    config.on_token = add_token;
    config.context = &s;
    int32_t *ids = malloc((size_t)o->max_new_tokens * sizeof *ids);
    int64_t made = -1;
    if (ids) {
        add_tokens(&s, prompt.ids, prompt.count);
        made = tg_gpt_generate(quiet, gpt, prompt.ids, prompt.count, ids, &config);
        release(&s);
        fputc('\n', file);
    }
    if (made < 0) {
        complain("%s", ids ? tg_tape_error(quiet)->text : "out of memory");
    }
    free(ids);
    tg_tokens_free(&prompt);
    return made;
}

/* Prints texts that continue the prompt. Returns the number of their new tokens. */
static int64_t write_texts(const tg_tokens *prompt, const int32_t *ids, const int64_t *counts, const tg_tokenizer *bpe,
                           const options *o)
{
    int64_t made = 0;
    for (int64_t i = 0; i < o->text_count; i++) {
        stream s = {.file = stdout, .bpe = bpe};
        printf("%s---- %lld of %lld\n", i > 0 ? "\n" : "", (long long)i + 1, (long long)o->text_count);
        add_tokens(&s, prompt->ids, prompt->count);
        add_tokens(&s, ids + i * o->max_new_tokens, counts[i]);
        release(&s);
        putchar('\n');
        made += counts[i];
    }
    return made;
}

/* Generates several texts together. Returns the number of their new tokens, or -1 after printing an error. */
static int64_t generate_texts(tg_tape *quiet, const tg_gpt *gpt, tg_tokenizer *bpe, const options *o)
{
    tg_tokens prompt;
    if (!encode_prompt(o, gpt, bpe, &prompt)) {
        return -1;
    }
    size_t texts = (size_t)o->text_count, count = (size_t)prompt.count;
    int32_t *prompts = calloc(texts * count, sizeof *prompts),
            *ids = calloc(texts, (size_t)o->max_new_tokens * sizeof *ids);
    int64_t *counts = calloc(texts, sizeof *counts), *new_counts = calloc(texts, sizeof *counts), made = -1;
    if (prompts && ids && counts && new_counts) {
        for (size_t i = 0; i < texts; i++) {
            memcpy(prompts + i * count, prompt.ids, count * sizeof *prompts);
            counts[i] = prompt.count;
        }
        const int32_t end_of_text = tg_tokenizer_end_of_text(bpe);
        tg_generate_config config = config_of(o, &end_of_text);
        if (tg_gpt_generate_batch(quiet, gpt, prompts, counts, o->text_count, ids, new_counts, &config)) {
            made = write_texts(&prompt, ids, new_counts, bpe, o);
        } else {
            complain("%s", tg_tape_error(quiet)->text);
        }
    } else {
        complain("out of memory for %lld texts", (long long)o->text_count);
    }
    free(prompts);
    free(ids);
    free(counts);
    free(new_counts);
    tg_tokens_free(&prompt);
    return made;
}

int generate(const options *o)
{
    model m;
    tg_tokenizer *bpe;
    if (!model_load(&m, o->model, TG_CHECKPOINT_LAST, false, &bpe)) {
        return 2;
    }
    int64_t made = -1;
    tg_rng_seed(tg_run_rng(m.run), (uint64_t)o->seed);
    tg_tape *quiet = quiet_tape_new(m.run, o->reproducible);
    if (quiet && model_tokenizer(&bpe, o->model, o) && generate_check(o, m.gpt, bpe)) {
        double start = seconds();
        made = o->text_count > 1 ? generate_texts(quiet, m.gpt, bpe, o) : generate_text(stdout, quiet, m.gpt, bpe, o);
        double spent = seconds() - start;
        if (made >= 0) {
            printf("\n%lld tokens, %.0f tokens/s\n", (long long)made, (double)made / spent);
        }
    }
    tg_tokenizer_free(bpe);
    tg_tape_free(quiet);
    model_free(&m);
    return made >= 0 ? 0 : 2;
}

/* generate: continues a prompt with a trained model, and prints the text while it is generated. Several texts are
 * printed at the end.
 *
 * One character may be split over several tokens, so whole characters are written (tg_text_stream). Invalid UTF-8 is
 * written as U+FFFD, and so are control characters, which could change the state of the terminal.
 */
#include <stdlib.h>
#include <string.h>

#include "../common/program.h"
#include "chat.h"
#include "commands.h"
#include "memory.h"

#define DEFAULT_PROMPT "The keeper"
#define REPLACEMENT "\xef\xbf\xbd"

/* The most ids that end a text: those of a model, and two more. */
#define MOST_ENDS 10

typedef struct stream {
    FILE *file;
    tg_text_stream *text;
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
        fputs(REPLACEMENT, s->file);
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

static void add_text(stream *s, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        add_byte(s, (unsigned char)bytes[i]);
    }
}

static bool add_token(void *context, int64_t text, int32_t id)
{
    (void)text;
    stream *s = context;
    size_t length;
    const char *bytes = tg_text_stream_add(s->text, id, &length, NULL);
    /* the table of a published model may have rows behind the vocabulary */
    add_text(s, bytes ? bytes : REPLACEMENT, bytes ? length : strlen(REPLACEMENT));
    fflush(s->file);
    return true;
}

/* Returns the ids of the prompt, for tg_encoding_free, or prints an error. A prompt that was not given is cut to the
 * context. */
static bool encode_prompt(const options *o, const model *m, tg_tokenizer *bpe, tg_encoding *prompt)
{
    tg_error error = TG_NO_ERROR;
    const int64_t context = tg_gpt_get_config(m->gpt)->context;
    const char *text = o->prompt ? o->prompt : DEFAULT_PROMPT, *option = o->chat ? "chat" : "prompt";
    const tg_gpt_message question = {"user", o->chat};
    const chat c = chat_of(m->gpt, bpe);
    char *asked = o->chat ? chat_text(&c, &question, 1, NULL, &error) : NULL;
    tg_tokenizer_encode_config config = tg_tokenizer_encode_config_default();
    config.special = o->chat && c.has_format;
    config.with_template = m->is_published && !config.special;
    text = o->chat ? asked : text;
    bool is_encoded = text && tg_tokenizer_encode_text(bpe, text, strlen(text), prompt, &config, &error);
    free(asked);
    if (!is_encoded) {
        return complain("--%s: %s", option, text ? error.text : "out of memory");
    }
    if (prompt->count > context && (o->prompt || o->chat)) {
        complain("--%s: %lld tokens; must be at most %lld, the context", option, (long long)prompt->count,
                 (long long)context);
        tg_encoding_free(prompt);
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

/* Begins a text with the prompt, but not with a question or with the tokens of a template. Returns false after printing
 * an error. */
static bool begin_text(stream *s, FILE *file, const tg_tokenizer *bpe, const tg_encoding *prompt, const options *o)
{
    tg_error error = TG_NO_ERROR;
    *s = (stream){.file = file, .text = tg_text_stream_new(bpe, &error)};
    for (int64_t i = 0; s->text && i < prompt->count; i++) {
        size_t length;
        const char *bytes = tg_text_stream_add(s->text, prompt->ids[i], &length, NULL);
        if (bytes && !o->chat && prompt->spans[i].end > 0) {
            add_text(s, bytes, length);
        }
    }
    return s->text || complain("%s", error.text);
}

static void end_text(stream *s)
{
    size_t length;
    const char *bytes = tg_text_stream_end(s->text, &length, NULL);
    add_text(s, bytes, bytes ? length : 0);
    release(s);
    fputc('\n', s->file);
    tg_text_stream_free(s->text);
}

bool generate_check(const options *o, const model *m, tg_tokenizer *bpe)
{
    const tg_gpt_config *config = tg_gpt_get_config(m->gpt);
    tg_encoding prompt;
    if (!vocabulary_fits(bpe, m)) {
        return false;
    }
    if (o->top_k > config->vocabulary) {
        return complain("--top-k %lld: must be a whole number from 1 to %lld, the size of the vocabulary",
                        (long long)o->top_k, (long long)config->vocabulary);
    }
    if (!encode_prompt(o, m, bpe, &prompt)) {
        return false;
    }
    tg_encoding_free(&prompt);
    return true;
}

/* Sets the ids that end a text, and returns their number. */
static int64_t find_ends(const options *o, const model *m, tg_tokenizer *bpe, int32_t ends[MOST_ENDS])
{
    int64_t count;
    const int32_t *of_model = tg_gpt_end_tokens(m->gpt, &count);
    for (int64_t i = 0; i < count; i++) {
        ends[i] = of_model[i];
    }
    if (o->end_of_text) {
        ends[count++] = tg_tokenizer_end_of_text(bpe);
    }
    if (o->chat) {
        ends[count++] = chat_of(m->gpt, bpe).end;
    }
    return count;
}

static tg_generate_config config_of(const options *o, const model *m, tg_tokenizer *bpe, int32_t ends[MOST_ENDS])
{
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = o->max_new_tokens;
    config.sample.greedy = o->greedy;
    if (!o->greedy) {
        config.sample.temperature = o->temperature;
        config.sample.top_k = o->top_k;
        config.sample.top_p = o->top_p;
        config.sample.min_p = o->min_p;
    }
    config.sample.repetition_penalty = o->repetition_penalty;
    config.end_token_count = find_ends(o, m, bpe, ends);
    config.end_tokens = config.end_token_count > 0 ? ends : NULL;
    config.use_cache = !o->no_cache;
    return config;
}

int64_t generate_text(FILE *file, tg_tape *quiet, const model *m, tg_tokenizer *bpe, const options *o)
{
    tg_encoding prompt;
    stream s;
    int32_t ends[MOST_ENDS];
    if (!encode_prompt(o, m, bpe, &prompt)) {
        return -1;
    }
    tg_generate_config config = config_of(o, m, bpe, ends);
    config.on_token = add_token;
    config.context = &s;
    int32_t *ids = malloc((size_t)o->max_new_tokens * sizeof *ids);
    int64_t made = -1;
    bool is_begun = (ids || complain("out of memory")) && begin_text(&s, file, bpe, &prompt, o);
    if (is_begun) {
        made = tg_gpt_generate(quiet, m->gpt, prompt.ids, prompt.count, ids, &config);
        end_text(&s);
    }
    if (is_begun && made < 0) {
        complain("%s", tg_tape_error(quiet)->text);
    }
    free(ids);
    tg_encoding_free(&prompt);
    return made;
}

/* Prints texts that continue the prompt. Returns the number of their new tokens, or -1. */
static int64_t write_texts(const tg_encoding *prompt, const int32_t *ids, const int64_t *counts,
                           const tg_tokenizer *bpe, const options *o)
{
    int64_t made = 0;
    for (int64_t i = 0; i < o->text_count; i++) {
        stream s;
        printf("%s---- %lld of %lld\n", i > 0 ? "\n" : "", (long long)i + 1, (long long)o->text_count);
        if (!begin_text(&s, stdout, bpe, prompt, o)) {
            return -1;
        }
        add_tokens(&s, ids + i * o->max_new_tokens, counts[i]);
        end_text(&s);
        made += counts[i];
    }
    return made;
}

/* Generates several texts together. Returns the number of their new tokens, or -1 after printing an error. */
static int64_t generate_texts(tg_tape *quiet, const model *m, tg_tokenizer *bpe, const options *o)
{
    tg_encoding prompt;
    int32_t ends[MOST_ENDS];
    if (!encode_prompt(o, m, bpe, &prompt)) {
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
        tg_generate_config config = config_of(o, m, bpe, ends);
        if (tg_gpt_generate_batch(quiet, m->gpt, prompts, counts, o->text_count, ids, new_counts, &config)) {
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
    tg_encoding_free(&prompt);
    return made;
}

/* Returns the floats of the cache. The longest prompt has the context. */
static double more_floats(const tg_gpt_config *config, int64_t values, int64_t window, const options *o)
{
    (void)values;
    (void)window;
    int64_t tokens = o->max_new_tokens < config->context ? o->max_new_tokens : config->context;
    return (double)o->text_count * cache_floats(config, tokens);
}

int generate(const options *o)
{
    model m;
    tg_tokenizer *bpe;
    model_use use = {.choice = TG_CHECKPOINT_LAST, .adapter = o->adapter, .more = more_floats, .o = o};
    if (!model_load(&m, o->model, &use, &bpe)) {
        return 2;
    }
    int64_t made = -1;
    tg_rng_seed(tg_run_rng(m.run), (uint64_t)o->seed);
    tg_tape *quiet = quiet_tape_new(m.run, o->reproducible, true);
    if (quiet && model_tokenizer(&bpe, o->model, o) && generate_check(o, &m, bpe)) {
        double start = seconds();
        made = o->text_count > 1 ? generate_texts(quiet, &m, bpe, o) : generate_text(stdout, quiet, &m, bpe, o);
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

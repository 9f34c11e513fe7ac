/* generate: continues texts, token by token.
 *
 * All texts have the same number of positions, their columns, at each pass, which reads the weights once for all of
 * them. If the model takes padding, shorter prompts begin with it, so that one pass computes all prompts:
 *
 *     . . . a b        Padding has the id 0 and no key that anybody sees, and positions count from the first id.
 *     c d e f g
 *
 * Otherwise the first pass has as many columns as the shortest prompt, and a longer one takes its next tokens from
 * itself: any model can do that, but each of them is a pass. With padding, prompts of 16, 64, 128 and 256 tokens and 50
 * new ones each take 51 passes instead of 290. Both are one loop, which begins at another column.
 *
 * With a cache the first columns go through the model once, and then each new one alone. When there are more columns
 * than the context, the beginning is dropped and every token gets another position. The cached keys and values are then
 * invalid, so each further pass computes the last columns again, as without a cache.
 *
 * A text that has ended goes on with tokens that nobody reads.
 *
 * A failed call has no effect except its calls of on_token: the new ids are written at the end, and the generator is
 * restored if a step fails.
 */
#include "models/generate.h"

#include <stdio.h>
#include <string.h>

#include <tapegrad/ops.h>

#include "base/alloc.h"
#include "base/random.h"
#include "tape/tape.h"

TG_CONFIG(tg_generate_config, tg_generate_config_default, mark, .mark = mark, .max_new_tokens = 50,
          .sample = tg_sample_config_default(), .use_cache = true);

/* One of the texts that are generated together. */
typedef struct text {
    const int32_t *prompt;
    int64_t count, new_count; /* of the tokens of the prompt, and of the new ones */
    int64_t padding;          /* columns before the prompt */
    int32_t *columns;         /* the padding, the prompt, then the new ids */
    double *log_probs;        /* of the new ids */
    bool ended;
} text;

typedef struct generation {
    const char *call;
    tg_tape *tape;
    const tg_language_model *model;
    const tg_generate_config *config;
    text *texts;
    int64_t text_count;
    int32_t *columns;  /* of all texts */
    double *log_probs; /* of all texts; NULL if nobody asks for them */
    int64_t length;    /* the number of columns so far, and at the end */
    int64_t last_length;
    int64_t kept;    /* the number of columns that the model has kept, if it keeps any */
    bool keeps;      /* whether the model keeps columns for the next pass */
    int64_t running; /* the number of texts that have not ended */
    tg_rng saved;
} generation;

/* ---- checks ---- */

static bool check_prompt(const generation *g, const text *x)
{
    const tg_language_model *m = g->model;
    char number[32] = "";
    if (g->text_count > 1) {
        snprintf(number, sizeof number, " %lld", (long long)(x - g->texts));
    }
    if (x->count < 1) {
        return tg_tape_fail(g->tape, TG_ERROR_SHAPE, g->call, "the prompt%s is empty; it needs at least one token",
                            number);
    }
    if (x->count > m->context_length) {
        return tg_tape_fail(g->tape, TG_ERROR_RANGE, g->call,
                            "the prompt%s has %lld tokens; the model's context is %lld", number, (long long)x->count,
                            (long long)m->context_length);
    }
    for (int64_t i = 0; i < x->count; i++) {
        if (x->prompt[i] < 0 || x->prompt[i] >= m->vocabulary) {
            return tg_tape_fail(g->tape, TG_ERROR_RANGE, g->call, "id %d at [%lld] of the prompt%s is outside [0,%lld)",
                                x->prompt[i], (long long)i, number, (long long)m->vocabulary);
        }
    }
    return true;
}

static bool check_arguments(const generation *g, const int32_t *prompts, const int64_t *counts, const int32_t *ids,
                            const int64_t *new_counts)
{
    tg_tape *t = g->tape;
    const tg_language_model *m = g->model;
    const tg_generate_config *c = g->config;
    const struct {
        const void *pointer;
        const char *name;
    } pointers[] = {{m, "model"},
                    {prompts, "array of the prompts"},
                    {counts, "array counts"},
                    /* may be NULL if no new ids are requested */
                    {c->max_new_tokens > 0 ? (const void *)ids : counts, "array for the new ids"},
                    {new_counts, "array new_counts"}};
    for (size_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        if (!pointers[i].pointer) {
            return tg_tape_fail(t, TG_ERROR_STATE, g->call, "the %s is NULL", pointers[i].name);
        }
    }
    if (!m->step || m->vocabulary < 1 || m->vocabulary > INT32_MAX || m->context_length < 1) {
        return tg_tape_fail(t, TG_ERROR_VALUE, g->call,
                            "the model has %s step, vocabulary %lld and context_length %lld; all must be set, the "
                            "vocabulary from 1 to %d",
                            m->step ? "a" : "no", (long long)m->vocabulary, (long long)m->context_length, INT32_MAX);
    }
    if (g->text_count < 1 || g->text_count > INT32_MAX) {
        return tg_tape_fail(t, TG_ERROR_VALUE, g->call, "%lld texts; it must be 1 to %d", (long long)g->text_count,
                            INT32_MAX);
    }
    if (c->sample.text) {
        return tg_tape_fail(t, TG_ERROR_VALUE, g->call, "sample.text is set; it must be NULL, each text is its own");
    }
    if (!tg_config_check_list(g->call, "end_tokens", c->end_tokens, "end_token_count", c->end_token_count, t->error)) {
        return false;
    }
    return c->max_new_tokens >= 0 ||
           tg_tape_fail(t, TG_ERROR_VALUE, g->call, "max_new_tokens %lld; it must be at least 0",
                        (long long)c->max_new_tokens);
}

/* ---- steps ---- */

/* Fills the tensors of a pass with the columns from `begin` on. Position 0 is that of column `origin`. */
static bool fill_pass(const generation *g, int64_t begin, int64_t origin, tg_generate_pass *pass)
{
    tg_shape shape = tg_shape_make(2, (int64_t[]){g->text_count, g->length - begin});
    tg_tensor **tensors[] = {&pass->ids, &pass->positions, &pass->first_keys};
    bool is_padded = false;
    for (int64_t i = 0; i < g->text_count; i++) {
        is_padded = is_padded || g->texts[i].padding > origin;
    }
    for (int i = 0; i < (is_padded ? 3 : 1); i++) {
        *tensors[i] = tg_tape_new_tensor(g->tape, g->call, TG_I32, shape);
        if (!*tensors[i]) {
            return false;
        }
    }
    for (int64_t i = 0, k = 0; i < g->text_count; i++) {
        int64_t padding = g->texts[i].padding > origin ? g->texts[i].padding - origin : 0;
        for (int64_t column = begin; column < g->length; column++, k++) {
            ((int32_t *)tg_values(pass->ids))[k] = g->texts[i].columns[column];
            if (is_padded) {
                int64_t position = column - origin - padding;
                ((int32_t *)tg_values(pass->positions))[k] = (int32_t)(position > 0 ? position : 0);
                ((int32_t *)tg_values(pass->first_keys))[k] = (int32_t)padding;
            }
        }
    }
    return true;
}

/* Returns the logits (texts,V) of the tokens after the texts; NULL after an error. */
static tg_tensor *next_logits(generation *g)
{
    const tg_language_model *m = g->model;
    int64_t dropped = g->length > m->context_length ? g->length - m->context_length : 0;
    if (dropped > 0) {
        g->keeps = false;
        g->kept = 0;
    }
    tg_generate_pass pass = {.start = g->kept};
    if (g->keeps && g->kept == 0) {
        pass.cache_context = g->last_length < m->context_length ? g->last_length : m->context_length;
    }
    if (!fill_pass(g, g->kept > 0 ? g->kept : dropped, dropped, &pass)) {
        return NULL;
    }
    g->kept = g->keeps ? g->length : 0;
    tg_tensor *logits = m->step(g->tape, &pass, m->context);
    if (!logits) {
        tg_tape_fail(g->tape, TG_ERROR_STATE, g->call, "the step has returned NULL without an error");
        return NULL;
    }
    if (!tg_tape_expect_values(g->tape, g->call, "tensor of the logits", logits)) {
        return NULL;
    }
    if (logits->rank != 2 || logits->shape[0] != g->text_count || logits->shape[1] != m->vocabulary) {
        tg_tape_fail(g->tape, TG_ERROR_SHAPE, g->call, "the step has returned logits %s; they must be (%lld,%lld)",
                     tg_shape_text_of(logits).text, (long long)g->text_count, (long long)m->vocabulary);
        return NULL;
    }
    return logits;
}

/* Returns the next id of a text, or -1 after an error. */
static int32_t choose(const generation *g, tg_tensor *logits, const text *x)
{
    tg_tensor *row = tg_select(g->tape, logits, 0, x - g->texts);
    if (!row) {
        return -1;
    }
    tg_sample_config config = g->config->sample;
    config.text = x->columns + x->padding;
    config.text_count = g->length - x->padding;
    tg_error error = TG_NO_ERROR;
    int32_t id = tg_sample_with(g->tape->pool, row, g->tape->rng, &config, &error);
    if (id < 0) {
        tg_tape_fail(g->tape, error.code, g->call, "%s", error.text);
    }
    return id;
}

static bool is_end(const tg_generate_config *config, int32_t id)
{
    for (int64_t i = 0; i < config->end_token_count; i++) {
        if (config->end_tokens[i] == id) {
            return true;
        }
    }
    return false;
}

/* Ends a text or adds an id to it. */
static void add_id(generation *g, text *x, int32_t id)
{
    const tg_generate_config *config = g->config;
    bool goes_on = !is_end(config, id);
    if (goes_on) {
        x->columns[g->length] = id;
        x->new_count++;
        goes_on = (!config->on_token || config->on_token(config->context, x - g->texts, id)) &&
                  x->new_count < config->max_new_tokens;
    }
    x->ended = !goes_on;
    g->running -= !goes_on;
}

/* Makes each text one token longer. */
static bool step(generation *g)
{
    tg_tensor *logits = next_logits(g);
    tg_tensor *log_probs = g->log_probs && logits ? tg_log_softmax(g->tape, logits, 1) : NULL;
    if (g->log_probs && !log_probs) {
        return false;
    }
    for (text *x = g->texts; logits && x < g->texts + g->text_count; x++) {
        if (x->ended || g->length < x->padding + x->count) {
            continue;
        }
        int32_t id = choose(g, logits, x);
        if (id < 0) {
            return false;
        }
        if (log_probs) {
            x->log_probs[x->new_count] = tg_tensor_value_at(log_probs, (x - g->texts) * g->model->vocabulary + id);
        }
        add_id(g, x, id);
    }
    g->length++;
    return logits != NULL;
}

static bool generate_tokens(generation *g)
{
    bool is_good = true;
    while (is_good && g->running > 0) {
        if (!tg_scope_begin(g->tape)) {
            return false;
        }
        is_good = step(g);
        tg_scope_end(g->tape, NULL);
    }
    return is_good;
}

/* ---- the call ---- */

/* Allocates the columns, and writes the prompts there. */
static bool start(generation *g)
{
    int64_t shortest = INT64_MAX, longest = 0;
    for (int64_t i = 0; i < g->text_count; i++) {
        shortest = g->texts[i].count < shortest ? g->texts[i].count : shortest;
        longest = g->texts[i].count > longest ? g->texts[i].count : longest;
    }
    size_t length, all;
    bool fits = tg_checked_add((size_t)longest, (size_t)g->config->max_new_tokens, &length) &&
                tg_checked_mul(length, (uint64_t)g->text_count, &all);
    g->columns = fits ? tg_alloc_zeroed(all, sizeof *g->columns) : NULL;
    if (fits && g->config->log_probs) {
        g->log_probs = tg_alloc_zeroed(all, sizeof *g->log_probs);
    }
    if (!g->columns || (g->config->log_probs && !g->log_probs)) {
        return tg_tape_fail(g->tape, TG_ERROR_MEMORY, g->call, "out of memory for %lld new tokens",
                            (long long)g->config->max_new_tokens);
    }
    bool pads = g->model->takes_padding;
    for (int64_t i = 0; i < g->text_count; i++) {
        text *x = &g->texts[i];
        x->columns = g->columns + (size_t)i * length;
        x->log_probs = g->log_probs ? g->log_probs + (size_t)i * length : NULL;
        x->padding = pads ? longest - x->count : 0;
        x->ended = g->config->max_new_tokens == 0;
        memcpy(x->columns + x->padding, x->prompt, (size_t)x->count * sizeof *x->prompt);
    }
    g->length = pads ? longest : shortest;
    g->last_length = (int64_t)length;
    g->running = g->config->max_new_tokens > 0 ? g->text_count : 0;
    return true;
}

/* Generates the texts of g. After an error the generator is as it was. */
static bool generate(generation *g)
{
    tg_evaluation before = tg_evaluation_begin(g->tape);
    tg_rng_copy(&g->saved, g->tape->rng);
    bool is_good = start(g) && generate_tokens(g);
    if (!is_good) {
        tg_rng_copy(g->tape->rng, &g->saved);
    }
    tg_evaluation_end(g->tape, before);
    return is_good;
}

/* Sets the prompts of the texts, up to the first one that is refused. */
static bool set_prompts(generation *g, const int32_t *prompts, const int64_t *counts)
{
    for (int64_t i = 0; i < g->text_count; i++) {
        g->texts[i] = (text){.prompt = prompts, .count = counts[i]};
        if (!check_prompt(g, &g->texts[i])) {
            return false;
        }
        prompts += counts[i];
    }
    return true;
}

bool tg_generate_as(tg_tape *t, const char *call, const tg_language_model *model, const int32_t *prompts,
                    const int64_t *counts, int64_t texts, int32_t *ids, int64_t *new_counts,
                    const tg_generate_config *given)
{
    if (!tg_tape_is_usable(t) || !tg_tape_expect_config(t, call, given, mark) ||
        (given && !tg_tape_expect_config(t, call, &given->sample, tg_sample_config_mark))) {
        return false;
    }
    tg_generate_config config = given ? *given : tg_generate_config_default();
    generation g = {
        .call = call, .tape = t, .model = model, .config = &config, .text_count = texts, .keeps = config.use_cache};
    if (!check_arguments(&g, prompts, counts, ids, new_counts)) {
        return false;
    }
    g.texts = tg_alloc_zeroed((uint64_t)texts, sizeof *g.texts);
    if (!g.texts) {
        return tg_tape_fail(t, TG_ERROR_MEMORY, call, "out of memory for %lld texts", (long long)texts);
    }
    bool is_good = set_prompts(&g, prompts, counts) && generate(&g);
    for (int64_t i = 0; is_good && i < texts; i++) {
        const text *x = &g.texts[i];
        new_counts[i] = x->new_count;
        if (x->new_count > 0) {
            memcpy(ids + i * config.max_new_tokens, x->columns + x->padding + x->count,
                   (size_t)x->new_count * sizeof *ids);
        }
        if (g.log_probs && x->new_count > 0) {
            memcpy(config.log_probs + i * config.max_new_tokens, x->log_probs,
                   (size_t)x->new_count * sizeof *x->log_probs);
        }
    }
    tg_free(g.log_probs);
    tg_free(g.columns);
    tg_free(g.texts);
    return is_good;
}

bool tg_generate(tg_tape *tape, const tg_language_model *model, const int32_t *prompts, const int64_t *counts,
                 int64_t texts, int32_t *ids, int64_t *new_counts, const tg_generate_config *config)
{
    return tg_generate_as(tape, "generate", model, prompts, counts, texts, ids, new_counts, config);
}

/* masked_language_model: BERT's objective (Devlin et al. 2019) on a story. 15 % of the words are targets: 80 % of
 * these are masked, 10 % become a random word, 10 % stay, and a layer of a transformer's encoder guesses them. The
 * vector of a token is the sum of three: its word, its position, and its type, here whether the word is spoken. The
 * model is trained with learned positions, and then with relative ones (Huang et al. 2020). Prints the loss of the last
 * step, and what the model guesses in the end of the story, which it has not read; then the same with padding in front
 * of each text, which moves the words to positions that were never trained. Distances stay. */
#include "recipe.h"

#include <stdlib.h>

#include <tapegrad_text.h>
#include <tapegrad_tools.h>

const char program_name[] = "cookbook_masked_language_model";

enum { MASK, UNKNOWN, FIRST_WORD, NO_TARGET = -100 };
enum { T = 16, SHIFT = 8, WIDTH = 64, HEADS = 4, BATCH = 32, STEPS = 800, TEXTS = 180 };

typedef struct model {
    tg_nn_embedding words, types;
    tg_nn_positional absolute, relative;
    tg_nn_layer_norm norm;
    tg_nn_transformer_encoder_layer layer;
    tg_nn_linear head;
} model;

static void make(model *m, tg_params *params, bool is_relative, int64_t vocabulary)
{
    tg_position absolute = is_relative ? TG_POSITION_NONE : TG_POSITION_LEARNED;
    tg_position relative = is_relative ? TG_POSITION_RELATIVE_KEY_QUERY : TG_POSITION_NONE;
    tg_nn_positional_config heads = tg_nn_positional_config_default();
    heads.heads = HEADS;
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = 2 * WIDTH;
    config.dropout = 0;
    config.activation = TG_ACTIVATION_GELU;
    config.positional = &m->relative;
    m->words = tg_nn_embedding_make(params, "words", vocabulary, WIDTH, NULL);
    m->types = tg_nn_embedding_make(params, "types", 2, WIDTH, NULL);
    m->absolute = tg_nn_positional_make(params, "positions", absolute, SHIFT + T, WIDTH, NULL);
    m->relative = tg_nn_positional_make(params, "layer", relative, SHIFT + T, WIDTH, &heads);
    m->norm = tg_nn_layer_norm_make(params, "norm", WIDTH, NULL);
    m->layer = tg_nn_transformer_encoder_layer_make(params, "layer", WIDTH, HEADS, &config);
    m->head = tg_nn_linear_make(params, "head", WIDTH, vocabulary, TG_BIAS);
}

/* x (N,T) -> (N,shift + T), with zeros in front */
static tg_tensor *pad(tg_tape *t, tg_tensor *x, int64_t shift)
{
    tg_tensor *zeros = tg_full(t, tg_tensor_dtype(x), TG_SHAPE(tg_tensor_size(x, 0), shift), 0);
    return tg_cat(t, (tg_tensor *[]){zeros, x}, 2, 1);
}

/* ids and types (N,T) -> logits (N,T,V), with `shift` positions of padding in front of each text. */
static tg_tensor *forward(tg_tape *t, const model *m, tg_tensor *ids, tg_tensor *types, int64_t shift)
{
    tg_nn_multihead_attention_forward_config padded = tg_nn_multihead_attention_forward_config_default();
    padded.key_mask = pad(t, tg_full(t, TG_U8, tg_tensor_shape(ids), 1), shift);
    tg_tensor *x = tg_nn_embedding_forward(t, &m->words, pad(t, ids, shift));
    x = tg_nn_positional_forward(t, &m->absolute, x, 0);
    x = tg_add(t, x, tg_nn_embedding_forward(t, &m->types, pad(t, types, shift)));
    x = tg_nn_layer_norm_forward(t, &m->norm, x);
    x = tg_nn_transformer_encoder_layer_forward(t, &m->layer, x, &padded);
    return tg_nn_linear_forward(t, &m->head, tg_slice(t, x, 1, shift, shift + T, 1));
}

/* The words of the story, whether each is spoken, and the number of words to train on. */
typedef struct story {
    tg_tokens words;
    tg_tensor *types;
    int32_t vocabulary;
    int64_t trained;
} story;

static story read_story(const char *path)
{
    tg_error error = TG_NO_ERROR;
    size_t length;
    char *text = tg_text_read(path, &length, &error);
    tg_words_config config = tg_words_config_default();
    config.special = (const char *const[]){"[MASK]"};
    config.special_count = 1;
    config.min_count = 2;
    tg_words *words = tg_words_new(text, length, &config, &error);
    story s = {.vocabulary = tg_words_vocabulary(words)};
    tg_words_encode(words, text, length, &s.words, &error);
    s.types = tg_tensor_new(TG_I32, TG_SHAPE(s.words.count), &error);
    check(&error);
    s.trained = s.words.count - TEXTS * (T / 4) - T;
    if (s.trained <= T) {
        complain("%s has %lld words; at least %lld are needed", path, (long long)s.words.count,
                 (long long)(s.words.count - s.trained + T + 1));
        exit(1);
    }
    /* a word is spoken if the number of quotes before it is odd */
    int32_t *types = tg_tensor_data_mut(s.types), quote = tg_words_find(words, "\"");
    for (int64_t i = 1; i < s.words.count; i++) {
        types[i] = types[i - 1] ^ (s.words.ids[i - 1] == quote);
    }
    tg_words_free(words);
    tg_text_free(text);
    return s;
}

/* N texts of T words: what the model reads, their types, and what it guesses; (N,T) each. */
typedef struct batch {
    tg_tensor *inputs, *types, *targets;
} batch;

/* Returns the texts that begin at the words starts (N). */
static batch mask_words(recipe *r, const story *s, tg_tensor *starts)
{
    static int32_t inputs[TEXTS * T], types[TEXTS * T], targets[TEXTS * T];
    int64_t N = tg_tensor_size(starts, 0);
    tg_tensor *draws = tg_full(r->tape, TG_F32, TG_SHAPE(2, N, T), 0);
    tg_tensor *words = tg_full(r->tape, TG_I32, TG_SHAPE(N, T), 0);
    tg_tensor_fill_uniform(draws, tg_run_rng(r->run), 0, 1, &r->error);
    tg_tensor_fill_randint(words, tg_run_rng(r->run), FIRST_WORD, s->vocabulary, &r->error);
    recipe_check(r);
    const float *target = tg_tensor_data(draws), *kind = target + N * T;
    const int32_t *start = tg_tensor_data(starts), *type = tg_tensor_data(s->types), *random = tg_tensor_data(words);
    for (int64_t i = 0; i < N * T; i++) {
        int64_t index = start[i / T] + i % T;
        int32_t word = s->words.ids[index], masked = kind[i] < 0.8 ? MASK : kind[i] < 0.9 ? random[i] : word;
        bool is_target = target[i] < 0.15;
        inputs[i] = is_target ? masked : word;
        types[i] = type[index];
        targets[i] = is_target ? word : NO_TARGET;
    }
    return (batch){tg_constant_i32(r->tape, TG_SHAPE(N, T), inputs), tg_constant_i32(r->tape, TG_SHAPE(N, T), types),
                   tg_constant_i32(r->tape, TG_SHAPE(N, T), targets)};
}

/* Trains a model with one kind of positions, and prints what it guesses in the texts that were held out. */
static int run(bool is_relative, const story *s)
{
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    model m;
    make(&m, r.params, is_relative, s->vocabulary);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.003;
    r.optim = tg_adam_new(r.params, &adam);
    tg_tensor *starts = tg_full(r.data, TG_I32, TG_SHAPE(BATCH), 0), *loss = NULL;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor_fill_randint(starts, tg_run_rng(r.run), 0, s->trained - T, &r.error);
        batch b = mask_words(&r, s, starts);
        loss = tg_cross_entropy(t, forward(t, &m, b.inputs, b.types, 0), b.targets, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    printf("%s: loss %.2f", is_relative ? "relative" : "absolute", tg_tensor_item(loss, &r.error));

    tg_tape_reset(t);
    tg_evaluation_begin(t);
    tg_rng_seed(tg_run_rng(r.run), 123);
    double end = (double)(s->trained + TEXTS * (T / 4));
    starts = tg_tensor_new_arange(TG_I32, (double)s->trained, end, T / 4, &r.error);
    batch b = mask_words(&r, s, starts);
    for (int shift = 0; shift <= SHIFT; shift += SHIFT) {
        tg_tensor *logits = forward(t, &m, b.inputs, b.types, shift);
        loss = tg_cross_entropy(t, logits, b.targets, NULL);
        tg_accuracy accuracy = {0, 0};
        tg_accuracy_add(&accuracy, logits, b.targets, NULL, &r.error);
        printf("; %s %.2f, %d of %d right", shift ? "shifted" : "held out", tg_tensor_item(loss, &r.error),
               (int)accuracy.correct, (int)accuracy.count);
    }
    printf("\n");
    tg_release(starts);
    return recipe_end(&r);
}

int main(int argc, char **argv)
{
    recipe_file text = {"text", "a story to train on", "examples/lighthouse.txt"};
    recipe_options("guesses words that are masked", &text, argc, argv);
    story s = read_story(text.path);
    int absolute = run(false, &s), relative = run(true, &s);
    tg_tokens_free(&s.words);
    tg_release(s.types);
    return absolute || relative;
}

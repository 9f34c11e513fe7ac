/* masked_language_model: BERT's objective (Devlin et al. 2019) on a story. 15 % of the words are targets: 80 % of
 * these are masked, 10 % become a random word, 10 % stay, and a layer of a transformer's encoder guesses them. The
 * vector of a token is the sum of three: its word, its position, and its type, here whether the word is spoken. The
 * model is trained with learned positions, and then with relative ones (Huang et al. 2020). Prints the loss of the last
 * step, and what the model guesses in the end of the story, which it has not read; then the same with padding in front
 * of each text, which moves the words to positions that were never trained. Distances stay. */
#include <stdio.h>
#include <stdlib.h>

#include <tapegrad.h>

#include "../common/command_line.h"
#include "../common/program.h"

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
    tg_nn_positional_config heads = tg_nn_positional_config_default();
    heads.heads = HEADS;
    m->words = tg_nn_embedding_make(params, "words", vocabulary, WIDTH, NULL);
    m->types = tg_nn_embedding_make(params, "types", 2, WIDTH, NULL);
    m->absolute = tg_nn_positional_make(params, "positions", is_relative ? TG_POSITION_NONE : TG_POSITION_LEARNED,
                                        SHIFT + T, WIDTH, NULL);
    m->relative = tg_nn_positional_make(
        params, "layer", is_relative ? TG_POSITION_RELATIVE_KEY_QUERY : TG_POSITION_NONE, SHIFT + T, WIDTH, &heads);
    m->norm = tg_nn_layer_norm_make(params, "norm", WIDTH, NULL);
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = 2 * WIDTH;
    config.dropout = 0;
    config.activation = TG_ACTIVATION_GELU;
    config.positional = &m->relative;
    m->layer = tg_nn_transformer_encoder_layer_make(params, "layer", WIDTH, HEADS, &config);
    m->head = tg_nn_linear_make(params, "head", WIDTH, vocabulary, NULL);
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
    int32_t *types;
    int64_t vocabulary, trained;
} story;

/* N texts of T words: what the model reads, their types, and what it guesses; (N,T) each. */
typedef struct batch {
    tg_tensor *input, *types, *targets;
} batch;

/* Returns the texts that begin at these words. */
static batch mask_words(tg_tape *t, tg_rng *rng, const story *s, const int32_t *starts, int64_t N, tg_error *error)
{
    static int32_t input[TEXTS * T], types[TEXTS * T], targets[TEXTS * T];
    tg_tensor *draws = tg_tensor_new(TG_F32, TG_SHAPE(2, N * T), error);
    tg_tensor *any = tg_tensor_new(TG_I32, TG_SHAPE(N * T), error);
    tg_tensor_fill_uniform(draws, rng, 0, 1, error);
    tg_tensor_fill_randint(any, rng, FIRST_WORD, s->vocabulary, error);
    for (int64_t i = 0; i < N * T; i++) {
        int32_t word = s->words.ids[starts[i / T] + i % T];
        bool is_target = tg_tensor_value_at(draws, i) < 0.15;
        double kind = is_target ? tg_tensor_value_at(draws, N * T + i) : 1;
        input[i] = kind < 0.8 ? MASK : kind < 0.9 ? (int32_t)tg_tensor_value_at(any, i) : word;
        types[i] = s->types[starts[i / T] + i % T];
        targets[i] = is_target ? word : NO_TARGET;
    }
    tg_release(draws);
    tg_release(any);
    return (batch){tg_constant(t, TG_I32, TG_SHAPE(N, T), input), tg_constant(t, TG_I32, TG_SHAPE(N, T), types),
                   tg_constant(t, TG_I32, TG_SHAPE(N, T), targets)};
}

/* Trains a model with one kind of positions, and prints what it guesses in the texts that were held out. */
static bool run(bool is_relative, const story *s, tg_error *error)
{
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_tape *t = tg_tape_new(rng, NULL);
    model m;
    make(&m, params, is_relative, s->vocabulary);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.003;
    tg_optim *optim = tg_adam_new(params, &adam);
    tg_tensor *starts = tg_tensor_new(TG_I32, TG_SHAPE(BATCH), error), *loss = NULL;
    bool is_trained = true;
    for (int step = 0; is_trained && step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor_fill_randint(starts, rng, 0, s->trained - T, error);
        batch b = mask_words(t, rng, s, tg_tensor_data(starts), BATCH, error);
        loss = tg_cross_entropy(t, forward(t, &m, b.input, b.types, 0), b.targets, NULL);
        tg_optim_zero_grad(optim);
        is_trained = tg_backward(t, loss, NULL) && tg_optim_step(optim);
    }
    printf("%s: loss %.2f", is_relative ? "relative" : "absolute", tg_tensor_item(loss, error));

    int32_t held_out[TEXTS];
    for (int i = 0; i < TEXTS; i++) {
        held_out[i] = (int32_t)s->trained + i * (T / 4);
    }
    tg_tape_reset(t);
    tg_tape_set_training(t, false);
    tg_rng_seed(rng, 123);
    batch b = mask_words(t, rng, s, held_out, TEXTS, error);
    for (int shift = 0; shift <= SHIFT; shift += SHIFT) {
        tg_accuracy accuracy = {0, 0};
        tg_tensor *logits = forward(t, &m, b.input, b.types, shift);
        tg_accuracy_add(&accuracy, logits, b.targets, NULL, error);
        printf("; %s %.2f, %lld of %lld right", shift ? "shifted" : "held out",
               tg_tensor_item(tg_cross_entropy(t, logits, b.targets, NULL), error), (long long)accuracy.correct,
               (long long)accuracy.count);
    }
    printf("\n");
    bool is_done = is_trained && error->code == TG_OK;
    if (!is_done) {
        complain("%s%s", tg_tape_error(t)->text, error->text);
    }
    tg_release(starts);
    tg_optim_free(optim);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(rng);
    return is_done;
}

int main(int argc, char **argv)
{
    const char *path = "examples/lighthouse.txt";
    const command_line_option option = {"text", "FILE", VALUE_TEXT, 0, NULL, "a story", 1};
    int status = command_line_read(&option, 1, 1, "cookbook_masked_language_model: guesses words that are masked\n",
                                   &path, argc, argv);
    if (status >= 0) {
        return status;
    }
    tg_error error = TG_NO_ERROR;
    size_t length;
    char *text = tg_text_read(path, &length, &error);
    tg_words_config config = tg_words_config_default();
    config.special = (const char *const[]){"[MASK]"};
    config.special_count = 1;
    config.min_count = 2;
    tg_words *words = tg_words_new(text, length, &config, &error);
    story s = {.vocabulary = tg_words_vocabulary(words)};
    if (!text || !tg_words_encode(words, text, length, &s.words, &error)) {
        complain("%s", error.text);
        return 1;
    }
    s.trained = s.words.count - TEXTS * (T / 4) - T;
    if (s.trained <= T) {
        complain("%s has %lld words; at least %d are needed", path, (long long)s.words.count,
                 TEXTS * (T / 4) + 2 * T + 1);
        return 1;
    }
    int32_t spoken = 0, quote = tg_words_find(words, "\"");
    s.types = malloc((size_t)s.words.count * sizeof *s.types);
    for (int64_t i = 0; s.types && i < s.words.count; i++) {
        s.types[i] = spoken;
        spoken ^= s.words.ids[i] == quote;
    }
    bool is_done = s.types && run(false, &s, &error) && run(true, &s, &error);

    free(s.types);
    tg_tokens_free(&s.words);
    tg_words_free(words);
    tg_text_free(text);
    return is_done ? 0 : 1;
}

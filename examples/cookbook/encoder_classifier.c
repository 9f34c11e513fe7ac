/* encoder_classifier: which of two words comes first in a text, by one layer of a transformer's encoder (Vaswani et al.
 * 2017) that reads the result at a word of its own, as BERT does. Texts have 5 to 8 words, and padding behind them.
 * Prints the loss of the last step, with dropout, and the accuracy without. */
#include <stdio.h>

#include <tapegrad.h>

#include "../common/command_line.h"
#include "../common/program.h"

const char program_name[] = "cookbook_encoder_classifier";

enum { FIRST, SECOND, READ, OTHERS, WORDS = 20, TEXTS = 120, LENGTH = 8, WIDTH = 16, STEPS = 60 };

typedef struct model {
    tg_nn_embedding words;
    tg_nn_positional positions;
    tg_nn_transformer_encoder_layer layer;
    tg_nn_linear head;
} model;

/* ids (texts,LENGTH) and lengths (texts) -> logits (texts,2) */
static tg_tensor *forward(tg_tape *t, const model *m, tg_tensor *ids, tg_tensor *lengths)
{
    tg_nn_multihead_attention_forward_config padded = tg_nn_multihead_attention_forward_config_default();
    padded.lengths = lengths;
    tg_tensor *x = tg_nn_positional_forward(t, &m->positions, tg_nn_embedding_forward(t, &m->words, ids), 0);
    x = tg_nn_transformer_encoder_layer_forward(t, &m->layer, x, &padded);
    return tg_nn_linear_forward(t, &m->head, tg_select(t, x, 1, 0));
}

int main(int argc, char **argv)
{
    int status = command_line_refuse_options(
        "cookbook_encoder_classifier: which of two words comes first, by a layer of a transformer\n", argc, argv);
    if (status >= 0) {
        return status;
    }
    tg_error error = TG_NO_ERROR;
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_tape *t = tg_tape_new(rng, NULL);

    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(TEXTS, LENGTH), &error);
    tg_tensor_fill_randint(ids, rng, OTHERS, WORDS, &error);
    int32_t lengths[TEXTS], answers[TEXTS], *text = tg_tensor_data_mut(ids);
    for (int i = 0; i < TEXTS; i++, text += LENGTH) {
        int others = 4 + i % 4, first = 1 + i % others, second = 1 + (first + i / 4 % (others - 1)) % others;
        lengths[i] = others + 1;
        answers[i] = second < first;
        text[0] = READ;
        text[first] = FIRST;
        text[second] = SECOND;
    }

    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = 32;
    model m = {.words = tg_nn_embedding_make(params, "words", WORDS, WIDTH, NULL)};
    m.positions = tg_nn_positional_make(params, "positions", TG_POSITION_LEARNED, LENGTH, WIDTH, NULL);
    m.layer = tg_nn_transformer_encoder_layer_make(params, "layer", WIDTH, 2, &config);
    m.head = tg_nn_linear_make(params, "head", WIDTH, 2, NULL);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.01;
    tg_optim *optim = tg_adam_new(params, &adam);
    tg_accuracy accuracy = {0, 0};
    double last = 0;
    for (int step = 0; step <= STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor *targets = tg_constant(t, TG_I32, TG_SHAPE(TEXTS), answers);
        tg_tensor *lengths_of_texts = tg_constant(t, TG_I32, TG_SHAPE(TEXTS), lengths);
        tg_tape_set_training(t, step < STEPS);
        tg_tensor *logits = forward(t, &m, ids, lengths_of_texts);
        if (step == STEPS) {
            tg_accuracy_add(&accuracy, logits, targets, NULL, &error);
            break;
        }
        tg_tensor *loss = tg_cross_entropy(t, logits, targets, NULL);
        tg_optim_zero_grad(optim);
        if (!tg_backward(t, loss, NULL) || !tg_optim_step(optim)) {
            fprintf(stderr, "%s\n", tg_tape_error(t)->text);
            return 1;
        }
        last = tg_tensor_item(loss, &error);
    }
    printf("loss %.4f, %lld of %lld right\n", last, (long long)accuracy.correct, (long long)accuracy.count);

    tg_optim_free(optim);
    tg_release(ids);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(rng);
    return error.code == TG_OK ? 0 : 1;
}

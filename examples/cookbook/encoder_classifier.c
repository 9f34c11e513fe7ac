/* encoder_classifier: which of two words comes first in a text, by one layer of a transformer's encoder (Vaswani et al.
 * 2017) that reads the result at a word of its own, as BERT does. Texts have 5 to 8 words, and padding behind them.
 * Prints the loss of the last step, with dropout, and the accuracy without. */
#include "recipe.h"

#include <tapegrad_tools.h>

const char program_name[] = "cookbook_encoder_classifier";

enum { FIRST, SECOND, READ, OTHERS };
enum { WORDS = 20, TEXTS = 120, LENGTH = 8, WIDTH = 16, HEADS = 2, STEPS = 60 };

typedef struct model {
    tg_nn_embedding words;
    tg_nn_positional positions;
    tg_nn_transformer_encoder_layer layer;
    tg_nn_linear head;
} model;

static model make(tg_params *params)
{
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = 2 * WIDTH;
    model m = {.words = tg_nn_embedding_make(params, "words", WORDS, WIDTH, NULL)};
    m.positions = tg_nn_positional_make(params, "positions", TG_POSITION_LEARNED, LENGTH, WIDTH, NULL);
    m.layer = tg_nn_transformer_encoder_layer_make(params, "layer", WIDTH, HEADS, &config);
    m.head = tg_nn_linear_make(params, "head", WIDTH, 2, TG_BIAS);
    return m;
}

/* ids (TEXTS,LENGTH) and lengths (TEXTS) -> logits (TEXTS,2) */
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
    recipe_options("which of two words comes first, by a layer of a transformer", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;

    tg_tensor *ids = recipe_randint(&r, TG_SHAPE(TEXTS, LENGTH), OTHERS, WORDS);
    int32_t length[TEXTS], answer[TEXTS], *text = tg_tensor_data_mut(ids);
    for (int i = 0; i < TEXTS; i++, text += LENGTH) {
        int others = 4 + i % 4, first = 1 + i % others, second = 1 + (first + i / 4 % (others - 1)) % others;
        text[0] = READ;
        text[first] = FIRST;
        text[second] = SECOND;
        length[i] = 1 + others;
        answer[i] = second < first;
    }
    tg_tensor *lengths = tg_constant_i32(r.data, TG_SHAPE(TEXTS), length);
    tg_tensor *answers = tg_constant_i32(r.data, TG_SHAPE(TEXTS), answer);

    model m = make(r.params);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.01;
    r.optim = tg_adam_new(r.params, &adam);
    tg_tensor *loss = NULL;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        loss = tg_cross_entropy(t, forward(t, &m, ids, lengths), answers, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    tg_evaluation_begin(t);
    tg_accuracy accuracy = {0, 0};
    tg_accuracy_add(&accuracy, forward(t, &m, ids, lengths), answers, NULL, &r.error);
    printf("loss %.4f, %d of %d right\n", tg_tensor_item(loss, &r.error), (int)accuracy.correct, TEXTS);
    return recipe_end(&r);
}

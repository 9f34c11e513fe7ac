/* gru_characters: a GRU that predicts the next character of a rhyme, and then writes it from its first letter. Prints
 * the loss of the last step and the text. */
#include "recipe.h"

#include <string.h>

const char program_name[] = "cookbook_gru_characters";

/* the id of a character is its index in the alphabet */
static const char alphabet[] = " abcdefghijklmnopqrstuvwxyz";
static const char rhyme[] = "one two buckle my shoe three four knock at the door";

/* LENGTH is that of the text to predict: all characters of the rhyme after the first one */
enum { CHARACTERS = sizeof alphabet - 1, LENGTH = sizeof rhyme - 2, WIDTH = 32, STEPS = 80 };

int main(int argc, char **argv)
{
    recipe_options("a GRU that predicts the next character of a rhyme", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    tg_nn_embedding table = tg_nn_embedding_make(r.params, "table", CHARACTERS, 8, NULL);
    tg_nn_gru gru = tg_nn_gru_make(r.params, "gru", 8, WIDTH, NULL);
    tg_nn_linear head = tg_nn_linear_make(r.params, "head", WIDTH, CHARACTERS, TG_BIAS);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.02;
    r.optim = tg_adam_new(r.params, &adam);

    int32_t ids[LENGTH + 1];
    for (int i = 0; i <= LENGTH; i++) {
        ids[i] = (int32_t)(strchr(alphabet, rhyme[i]) - alphabet);
    }
    tg_tensor *inputs = tg_constant_i32(r.data, TG_SHAPE(1, LENGTH), ids);
    tg_tensor *targets = tg_constant_i32(r.data, TG_SHAPE(1, LENGTH), ids + 1), *loss = NULL;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor *y = tg_nn_gru_forward(t, &gru, tg_nn_embedding_forward(t, &table, inputs), NULL, NULL);
        loss = tg_cross_entropy(t, tg_nn_linear_forward(t, &head, y), targets, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    printf("loss %.3f\n%c", tg_tensor_item(loss, &r.error), rhyme[0]);

    tg_evaluation_begin(t);
    tg_nn_recurrent_forward_config config = tg_nn_recurrent_forward_config_default();
    tg_tensor *id = tg_slice(t, inputs, 1, 0, 1, 1);
    for (int i = 0; i < LENGTH; i++) {
        tg_tensor *y = tg_nn_embedding_forward(t, &table, id);
        y = tg_nn_gru_forward(t, &gru, y, &config.state, &config);
        id = tg_argmax(t, tg_nn_linear_forward(t, &head, y), -1, TG_DROP_AXES);
        recipe_check(&r);
        putchar(alphabet[(int)tg_tensor_item(id, &r.error)]);
    }
    putchar('\n');
    return recipe_end(&r);
}

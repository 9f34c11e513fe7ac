/* gru_characters: a GRU that predicts the next character of a rhyme, and then writes it from its first letter. Prints
 * the loss of the last step and the text. */
#include <stdio.h>
#include <string.h>

#include <tapegrad.h>

#include "../common/command_line.h"
#include "../common/program.h"

const char program_name[] = "cookbook_gru_characters";

enum { WIDTH = 32, STEPS = 80, CHARACTERS = 27 };

static const char rhyme[] = "one two buckle my shoe three four knock at the door";

/* a to z are 1 to 26, and a space is 0 */
static int32_t id_of(char c)
{
    return c == ' ' ? 0 : c - 'a' + 1;
}

int main(int argc, char **argv)
{
    int status = command_line_refuse_options(
        "cookbook_gru_characters: a GRU that predicts the next character of a rhyme\n", argc, argv);
    if (status >= 0) {
        return status;
    }
    tg_error error = TG_NO_ERROR;
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_tape *t = tg_tape_new(rng, NULL);
    tg_nn_embedding table = tg_nn_embedding_make(params, "table", CHARACTERS, 8, NULL);
    tg_nn_gru gru = tg_nn_gru_make(params, "gru", 8, WIDTH, NULL);
    tg_nn_linear head = tg_nn_linear_make(params, "head", WIDTH, CHARACTERS, NULL);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.02;
    tg_optim *optim = tg_adam_new(params, &adam);

    int32_t ids[sizeof rhyme];
    int64_t length = (int64_t)strlen(rhyme) - 1;
    for (int64_t i = 0; i <= length; i++) {
        ids[i] = id_of(rhyme[i]);
    }
    double last = 0;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor *x = tg_nn_embedding_forward(t, &table, tg_constant(t, TG_I32, TG_SHAPE(1, length), ids));
        tg_tensor *logits = tg_nn_linear_forward(t, &head, tg_nn_gru_forward(t, &gru, x, NULL, NULL));
        tg_tensor *loss = tg_cross_entropy(t, logits, tg_constant(t, TG_I32, TG_SHAPE(1, length), ids + 1), NULL);
        tg_optim_zero_grad(optim);
        if (!tg_backward(t, loss, NULL) || !tg_optim_step(optim)) {
            fprintf(stderr, "%s\n", tg_tape_error(t)->text);
            return 1;
        }
        last = tg_tensor_item(loss, &error);
    }
    printf("loss %.3f\n%c", last, rhyme[0]);

    tg_tape_reset(t);
    tg_tape_set_recording(t, false);
    tg_nn_recurrent_forward_config config = tg_nn_recurrent_forward_config_default();
    for (int64_t i = 0, id = ids[0]; i < length; i++) {
        tg_tensor *x =
            tg_nn_embedding_forward(t, &table, tg_constant(t, TG_I32, TG_SHAPE(1, 1), (int32_t[]){(int32_t)id}));
        tg_tensor *y = tg_nn_gru_forward(t, &gru, x, &config.state, &config);
        id = (int64_t)tg_tensor_item(tg_argmax(t, tg_nn_linear_forward(t, &head, y), -1, TG_DROP_AXES), &error);
        putchar(id == 0 ? ' ' : (char)('a' + id - 1));
    }
    putchar('\n');

    tg_optim_free(optim);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(rng);
    return error.code == TG_OK ? 0 : 1;
}

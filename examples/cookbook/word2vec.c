/* word2vec: skip-gram with negative sampling (Mikolov et al. 2013), on a text whose words follow each other in a
 * circle. Words that are close on the circle get similar vectors. Prints the loss of the last pass. */
#include <stdio.h>

#include <tapegrad.h>

#include "../common/command_line.h"
#include "../common/program.h"

const char program_name[] = "cookbook_word2vec";

enum { WORDS = 20, TEXT = 801, WIDTH = 8, NEGATIVES = 5, PASSES = 10 };

/* The dot products of rows (B,C) with rows (B,N,C) -> (B,N). */
static tg_tensor *scores(tg_tape *t, tg_tensor *rows, tg_tensor *others)
{
    return tg_squeeze(t, tg_matmul(t, others, tg_unsqueeze(t, rows, -1)), -1);
}

int main(int argc, char **argv)
{
    int status = command_line_refuse_options("cookbook_word2vec: skip-gram with negative sampling\n", argc, argv);
    if (status >= 0) {
        return status;
    }
    tg_error error = TG_NO_ERROR;
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_tape *t = tg_tape_new(rng, NULL);
    tg_nn_embedding words = tg_nn_embedding_make(params, "words", WORDS, WIDTH, NULL);
    tg_nn_embedding contexts = tg_nn_embedding_make(params, "contexts", WORDS, WIDTH, NULL);

    /* The text: each word is 1 to 3 words further on the circle. A pair is a word and the next one. */
    tg_tensor *steps = tg_tensor_new(TG_I32, TG_SHAPE(TEXT), &error);
    tg_tensor_fill_randint(steps, rng, 1, 4, &error);
    int32_t text[TEXT], word = 0;
    for (int i = 0; i < TEXT; i++) {
        text[i] = word = (word + (int32_t)tg_tensor_value_at(steps, i)) % WORDS;
    }
    tg_tensor *pairs[] = {tg_tensor_new_from(TG_I32, TG_SHAPE(TEXT - 1), text, &error),
                          tg_tensor_new_from(TG_I32, TG_SHAPE(TEXT - 1, 1), text + 1, &error)};
    tg_dataset_loader_config batches = tg_dataset_loader_config_default();
    batches.batch_size = 32;
    batches.shuffle = true;
    tg_dataset_loader *loader = tg_dataset_loader_new(pairs, 2, rng, &batches);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.02;
    tg_optim *optim = tg_adam_new(params, &adam);

    tg_tensor *negatives = tg_tensor_new(TG_I32, TG_SHAPE(32, NEGATIVES), &error);
    double sum = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        sum = 0;
        for (tg_tensor *batch[2]; tg_dataset_loader_next(loader, batch);) {
            tg_tape_reset(t);
            tg_tensor_fill_randint(negatives, rng, 0, WORDS, &error);
            tg_tensor *center = tg_nn_embedding_forward(t, &words, batch[0]);
            tg_tensor *right = scores(t, center, tg_nn_embedding_forward(t, &contexts, batch[1]));
            tg_tensor *wrong = scores(t, center, tg_nn_embedding_forward(t, &contexts, negatives));
            tg_tensor *loss =
                tg_neg(t, tg_add(t, tg_mean(t, tg_log_sigmoid(t, right), TG_ALL_AXES, TG_DROP_AXES),
                                 tg_mean(t, tg_log_sigmoid(t, tg_neg(t, wrong)), TG_ALL_AXES, TG_DROP_AXES)));
            tg_optim_zero_grad(optim);
            if (!tg_backward(t, loss, NULL) || !tg_optim_step(optim)) {
                fprintf(stderr, "%s\n", tg_tape_error(t)->text);
                return 1;
            }
            sum += tg_tensor_item(loss, &error);
        }
    }
    printf("loss %.4f\n", sum / (double)tg_dataset_loader_batches(loader));

    tg_release(negatives);
    tg_optim_free(optim);
    tg_dataset_loader_free(loader);
    tg_release(pairs[0]);
    tg_release(pairs[1]);
    tg_release(steps);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(rng);
    return error.code == TG_OK ? 0 : 1;
}

/* word2vec: skip-gram with negative sampling (Mikolov et al. 2013), on a text whose words follow each other in a
 * circle. Words that are close on the circle get similar vectors. Prints the loss of the last pass. */
#include "recipe.h"

const char program_name[] = "cookbook_word2vec";

enum { WORDS = 20, TEXT = 801, WIDTH = 8, BATCH = 32, NEGATIVES = 5, PASSES = 10 };

/* The dot products of rows (B,C) with rows (B,N,C) -> (B,N). */
static tg_tensor *scores(tg_tape *t, tg_tensor *rows, tg_tensor *others)
{
    return tg_squeeze(t, tg_matmul(t, others, tg_unsqueeze(t, rows, -1)), -1);
}

int main(int argc, char **argv)
{
    recipe_options("skip-gram with negative sampling", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    tg_nn_embedding words = tg_nn_embedding_make(r.params, "words", WORDS, WIDTH, NULL);
    tg_nn_embedding contexts = tg_nn_embedding_make(r.params, "contexts", WORDS, WIDTH, NULL);

    /* The text: each word is 1 to 3 words further on the circle. A pair is a word and the next one. */
    tg_tensor *steps = recipe_randint(&r, TG_SHAPE(TEXT), 1, 4);
    int32_t text[TEXT], word = 0;
    for (int i = 0; i < TEXT; i++) {
        text[i] = word = (word + (int32_t)tg_tensor_value_at(steps, i)) % WORDS;
    }
    tg_tensor *pairs[] = {tg_constant_i32(r.data, TG_SHAPE(TEXT - 1), text),
                          tg_constant_i32(r.data, TG_SHAPE(TEXT - 1, 1), text + 1)};
    tg_loader_config batches = tg_loader_config_default();
    batches.batch_size = BATCH;
    batches.shuffle = true;
    tg_loader *loader = tg_loader_new_from_tensors(r.run, pairs, 2, &batches);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.02;
    r.optim = tg_adam_new(r.params, &adam);

    tg_tensor *negatives = tg_full(r.data, TG_I32, TG_SHAPE(BATCH, NEGATIVES), 0);
    double total = 0;
    for (int pass = 0; pass < PASSES; pass++) {
        total = 0;
        for (tg_batch pair; tg_loader_next(loader, &pair);) {
            tg_tape_reset(t);
            tg_tensor_fill_randint(negatives, tg_run_rng(r.run), 0, WORDS, &r.error);
            tg_tensor *center = tg_nn_embedding_forward(t, &words, pair.inputs);
            tg_tensor *right = scores(t, center, tg_nn_embedding_forward(t, &contexts, pair.targets));
            tg_tensor *wrong = scores(t, center, tg_nn_embedding_forward(t, &contexts, negatives));
            tg_tensor *likely = tg_mean_all(t, tg_log_sigmoid(t, right));
            tg_tensor *unlikely = tg_mean_all(t, tg_log_sigmoid(t, tg_neg(t, wrong)));
            tg_tensor *loss = tg_neg(t, tg_add(t, likely, unlikely));
            tg_optim_zero_grad(r.optim);
            tg_backward(t, loss, NULL);
            tg_optim_step(r.optim);
            recipe_check(&r);
            total += tg_tensor_item(loss, &r.error);
        }
    }
    check(tg_loader_error(loader));
    printf("loss %.4f\n", total / (double)tg_loader_batches(loader));

    tg_loader_free(loader);
    return recipe_end(&r);
}

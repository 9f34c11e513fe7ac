/* makemore_bigrams: names from the frequencies of pairs of characters, once counted, and once learned as a table of
 * logits. The two agree, because the counts are the minimum of the loss. Prints the losses of both on the names that
 * they know and on others, the lowest possible loss on these, and names of both from the same draws. */
#include "makemore_names.h"

const char program_name[] = "cookbook_makemore_bigrams";

enum { NAMES = 1600, HELD_OUT = 400, STEPS = 300, SHOWN = 8 };

/* ids (N,1) -> logits (N,CHARACTERS), a row of the table each */
static tg_tensor *forward(tg_tape *t, const void *table, tg_tensor *ids)
{
    return tg_squeeze(t, tg_nn_embedding_forward(t, table, ids), 1);
}

int main(int argc, char **argv)
{
    recipe_options("names from the frequencies of pairs of characters", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape, *d = r.data;
    windows all = names_draw(&r, NAMES, 1), others = names_draw(&r, HELD_OUT, 1);
    tg_nn_embedding counted = tg_nn_embedding_make(r.params, "counted", CHARACTERS, CHARACTERS, NULL);
    tg_nn_embedding learned = tg_nn_embedding_make(r.params, "learned", CHARACTERS, CHARACTERS, NULL);

    /* the counts begin with 0.1, so that no pair is impossible */
    tg_tensor *counts = tg_full(d, TG_F32, TG_SHAPE(CHARACTERS, CHARACTERS), 0.1);
    tg_tensor *pairs = tg_one_hot(d, all.targets, CHARACTERS, TG_F32);
    tg_tensor *logits = tg_log(d, tg_index_add(d, counts, 0, tg_squeeze(d, all.inputs, 1), pairs));
    tg_tensor_copy_from(counted.weight, logits, &r.error);

    tg_sgd_config sgd = tg_sgd_config_default();
    sgd.lr = 50;
    r.optim = tg_sgd_new(r.params, &sgd);
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor *loss = tg_cross_entropy(t, forward(t, &learned, all.inputs), all.targets, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    const tg_nn_embedding *tables[] = {&counted, &learned};
    for (int i = 0; i < 2; i++) {
        double loss = names_loss(&r, forward, tables[i], &all);
        double other_loss = names_loss(&r, forward, tables[i], &others);
        printf("%s: loss %.3f, of others %.3f: ", i ? "learned" : "counted", loss, other_loss);
        tg_rng_seed(tg_run_rng(r.run), 1);
        names_write(&r, forward, tables[i], 1, SHOWN);
    }
    printf("the grammar: loss of others %.3f\n", others.bound);
    return recipe_end(&r);
}

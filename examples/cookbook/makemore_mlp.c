/* makemore_mlp: names by a network that sees the vectors of the three characters before the next one (Bengio et al.
 * 2003). Prints the loss before the training, after it, and on other names beside the lowest possible one, and names
 * that the network writes. */
#include "makemore_names.h"

const char program_name[] = "cookbook_makemore_mlp";

enum { NAMES = 1600, HELD_OUT = 400, CONTEXT = 3, WIDTH = 8, HIDDEN = 64, BATCH = 32, STEPS = 2000, SHOWN = 8 };

typedef struct model {
    tg_nn_embedding table;
    tg_nn_linear hidden, head;
} model;

/* ids (N,CONTEXT) -> logits (N,CHARACTERS) */
static tg_tensor *forward(tg_tape *t, const void *of, tg_tensor *ids)
{
    const model *m = of;
    tg_tensor *x = tg_reshape(t, tg_nn_embedding_forward(t, &m->table, ids), TG_SHAPE(-1, CONTEXT * WIDTH));
    return tg_nn_linear_forward(t, &m->head, tg_tanh(t, tg_nn_linear_forward(t, &m->hidden, x)));
}

int main(int argc, char **argv)
{
    recipe_options("names by a network that sees three characters", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    windows all = names_draw(&r, NAMES, CONTEXT), others = names_draw(&r, HELD_OUT, CONTEXT);
    model m = {.table = tg_nn_embedding_make(r.params, "table", CHARACTERS, WIDTH, NULL)};
    m.hidden = tg_nn_linear_make(r.params, "hidden", CONTEXT * WIDTH, HIDDEN, TG_BIAS);
    m.head = tg_nn_linear_make(r.params, "head", HIDDEN, CHARACTERS, TG_BIAS);
    tg_sgd_config sgd = tg_sgd_config_default();
    sgd.lr = 0.2;
    r.optim = tg_sgd_new(r.params, &sgd);

    printf("loss %.3f before, ", names_loss(&r, forward, &m, &all));
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        windows batch = names_batch(&r, BATCH, &all);
        tg_tensor *loss = tg_cross_entropy(t, forward(t, &m, batch.inputs), batch.targets, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    printf("%.3f after, ", names_loss(&r, forward, &m, &all));
    printf("of others %.3f; the grammar's %.3f\n", names_loss(&r, forward, &m, &others), others.bound);
    names_write(&r, forward, &m, CONTEXT, SHOWN);
    return recipe_end(&r);
}

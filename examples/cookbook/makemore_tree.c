/* makemore_tree: names by a tree of layers that sees eight characters, in the way of WaveNet (van den Oord et al.
 * 2016). The first layer joins neighboring characters, the second one these pairs, and the third one the fours. Beside
 * it is a flat network with as many values, whose only layer joins all eight at once. Prints for each the number of
 * values, the loss, the loss on other names beside the lowest possible one, and names. */
#include "makemore_names.h"

const char program_name[] = "cookbook_makemore_tree";

enum { NAMES = 1600, HELD_OUT = 400, CONTEXT = 8, WIDTH = 8, DEPTH = 3, BATCH = 64, STEPS = 1500, SHOWN = 6 };

typedef struct model {
    tg_nn_embedding table;
    tg_nn_linear layers[DEPTH], head;
    tg_nn_batch_norm norms[DEPTH];
    /* how many layers there are, and how many neighbors each of them joins */
    int depth, joined;
} model;

static model make(tg_params *params, int depth, int joined, int hidden)
{
    model m = {.table = tg_nn_embedding_make(params, "table", CHARACTERS, WIDTH, NULL)};
    m.depth = depth;
    m.joined = joined;
    for (int i = 0; i < depth; i++) {
        char layer[20], norm[20];
        snprintf(layer, sizeof layer, "layers.%d", i);
        snprintf(norm, sizeof norm, "norms.%d", i);
        m.layers[i] = tg_nn_linear_make(params, layer, joined * (i ? hidden : WIDTH), hidden, TG_NO_BIAS);
        m.norms[i] = tg_nn_batch_norm_make(params, norm, hidden, NULL);
    }
    m.head = tg_nn_linear_make(params, "head", hidden, CHARACTERS, TG_BIAS);
    return m;
}

/* ids (N,CONTEXT) -> logits (N,CHARACTERS) */
static tg_tensor *forward(tg_tape *t, const void *of, tg_tensor *ids)
{
    const model *m = of;
    tg_tensor *x = tg_nn_embedding_forward(t, &m->table, ids);
    for (int i = 0; i < m->depth; i++) {
        /* (N,T,C) -> (N,T / joined,joined C); the norm takes (N,C,T) */
        x = tg_reshape(t, x, TG_SHAPE(tg_tensor_size(x, 0), -1, m->joined * tg_tensor_size(x, 2)));
        x = tg_transpose(t, tg_nn_linear_forward(t, &m->layers[i], x), 1, 2);
        x = tg_tanh(t, tg_transpose(t, tg_nn_batch_norm_forward(t, &m->norms[i], x), 1, 2));
    }
    return tg_nn_linear_forward(t, &m->head, tg_squeeze(t, x, 1));
}

static int show(const char *name, int depth, int joined, int hidden)
{
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    windows all = names_draw(&r, NAMES, CONTEXT), others = names_draw(&r, HELD_OUT, CONTEXT);
    model m = make(r.params, depth, joined, hidden);
    tg_sgd_config sgd = tg_sgd_config_default();
    sgd.lr = 0.3;
    r.optim = tg_sgd_new(r.params, &sgd);

    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        windows batch = names_batch(&r, BATCH, &all);
        tg_tensor *loss = tg_cross_entropy(t, forward(t, &m, batch.inputs), batch.targets, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    printf("%s: %d values, loss %.3f, ", name, (int)tg_params_value_count(r.params), names_loss(&r, forward, &m, &all));
    printf("of others %.3f (the grammar's %.3f): ", names_loss(&r, forward, &m, &others), others.bound);
    names_write(&r, forward, &m, CONTEXT, SHOWN);
    return recipe_end(&r);
}

int main(int argc, char **argv)
{
    recipe_options("names by a tree of layers that sees eight characters", NULL, argc, argv);
    int status = show("flat", 1, 8, 61);
    return show("tree", DEPTH, 2, 32) | status;
}

/* makemore_batch_norm: a network whose weights are too large at first. So most values of tanh are at its ends, where
 * its slope is almost 0, and less is learned. Batch norm (Ioffe and Szegedy 2015) brings them back. While it trains, it
 * computes with the statistics of the batch. In evaluation it uses the running ones, so that it can write a single
 * name. Prints for the network without batch norm and with it the share of the last layer's values beyond +-0.97 before
 * the training, the loss after it, the loss on other names, and names. */
#include "makemore_names.h"

const char program_name[] = "cookbook_makemore_batch_norm";

enum { NAMES = 1600, HELD_OUT = 400, CONTEXT = 3, WIDTH = 8, HIDDEN = 48, LAYERS = 2, BATCH = 64, STEPS = 500 };

typedef struct model {
    tg_nn_embedding table;
    tg_nn_linear layers[LAYERS], head;
    /* used with has_norms */
    tg_nn_batch_norm norms[LAYERS];
    bool has_norms;
} model;

static model make(recipe *r, bool has_norms)
{
    model m = {.table = tg_nn_embedding_make(r->params, "table", CHARACTERS, WIDTH, NULL), .has_norms = has_norms};
    for (int i = 0; i < LAYERS; i++) {
        char layer[20], norm[20];
        snprintf(layer, sizeof layer, "layers.%d", i);
        snprintf(norm, sizeof norm, "norms.%d", i);
        m.layers[i] = tg_nn_linear_make(r->params, layer, i ? HIDDEN : CONTEXT * WIDTH, HIDDEN, TG_NO_BIAS);
        tg_tensor_fill_normal(m.layers[i].weight, tg_run_rng(r->run), 0, 1, &r->error);
        if (has_norms) {
            m.norms[i] = tg_nn_batch_norm_make(r->params, norm, HIDDEN, NULL);
        }
    }
    m.head = tg_nn_linear_make(r->params, "head", HIDDEN, CHARACTERS, TG_BIAS);
    return m;
}

/* ids (N,CONTEXT) -> the values of the last layer (N,HIDDEN) */
static tg_tensor *hidden(tg_tape *t, const model *m, tg_tensor *ids)
{
    tg_tensor *x = tg_reshape(t, tg_nn_embedding_forward(t, &m->table, ids), TG_SHAPE(-1, CONTEXT * WIDTH));
    for (int i = 0; i < LAYERS; i++) {
        x = tg_nn_linear_forward(t, &m->layers[i], x);
        x = tg_tanh(t, m->has_norms ? tg_nn_batch_norm_forward(t, &m->norms[i], x) : x);
    }
    return x;
}

static tg_tensor *forward(tg_tape *t, const void *m, tg_tensor *ids)
{
    return tg_nn_linear_forward(t, &((const model *)m)->head, hidden(t, m, ids));
}

static int show(bool has_norms)
{
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    windows all = names_draw(&r, NAMES, CONTEXT), others = names_draw(&r, HELD_OUT, CONTEXT);
    model m = make(&r, has_norms);
    tg_sgd_config sgd = tg_sgd_config_default();
    sgd.lr = 0.3;
    r.optim = tg_sgd_new(r.params, &sgd);

    tg_tensor *ends = tg_gt(t, tg_abs(t, hidden(t, &m, all.inputs)), tg_full(t, TG_F32, TG_SCALAR, 0.97));
    double share = tg_tensor_item(tg_mean_all(t, tg_cast(t, ends, TG_F32)), &r.error);
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        windows batch = names_batch(&r, BATCH, &all);
        tg_tensor *loss = tg_cross_entropy(t, forward(t, &m, batch.inputs), batch.targets, NULL);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    printf("%s: %.0f%% at the ends, loss %.3f, ", has_norms ? "with" : "without", 100 * share,
           names_loss(&r, forward, &m, &all));
    printf("of others %.3f: ", names_loss(&r, forward, &m, &others));
    names_write(&r, forward, &m, CONTEXT, 4);
    return recipe_end(&r);
}

int main(int argc, char **argv)
{
    recipe_options("a network without batch norm and with it", NULL, argc, argv);
    int status = show(false);
    return show(true) | status;
}

/* 08: What does a training see? Batches of random windows of a text, and checkpoints from which it continues. */
#include "cs336.h"

#include <math.h>
#include <stdlib.h>

#include "batches.h"

const char program_name[] = "cs336_08_batches";

enum { COUNT = 100, CONTEXT = 7, BATCH = 32, DRAWS = 1000, PLACES = COUNT - CONTEXT, STEPS = 10 };

/* Each place is drawn about equally often, and the targets are the next ids. */
static void test_get_batch(recipe *r)
{
    int32_t ids[COUNT];
    int64_t drawn[COUNT] = {0}, wrong = 0, outside = 0;
    for (int32_t i = 0; i < COUNT; i++) {
        ids[i] = i;
    }
    for (int i = 0; i < DRAWS; i++) {
        tg_tape_reset(r->tape);
        tg_tensor *x, *y;
        get_batch(r->tape, tg_run_rng(r->run), ids, COUNT, BATCH, CONTEXT, &x, &y, &r->error);
        recipe_check(r);
        for (int64_t k = 0; k < BATCH * CONTEXT; k++) {
            wrong += tg_tensor_value_at(x, k) + 1 != tg_tensor_value_at(y, k);
            drawn[(int)tg_tensor_value_at(x, k)] += k % CONTEXT == 0;
        }
    }
    const double expected = (double)DRAWS * BATCH / PLACES, deviation = sqrt(expected * (1 - 1.0 / PLACES));
    for (int i = 0; i < COUNT; i++) {
        outside += i < PLACES ? fabs((double)drawn[i] - expected) > 5 * deviation : drawn[i] != 0;
    }
    test_line("test_get_batch", ITSELF, wrong == 0 && outside == 0,
              "%lld wrong targets, %lld of %d places drawn too often or too rarely (there is no device to refuse)",
              (long long)wrong, (long long)outside, COUNT);
}

/* A network of three layers and its optimizer. */
typedef struct network {
    tg_params *params;
    tg_nn_linear layers[3];
    tg_optim *optim;
} network;

static network network_make(tg_run *run)
{
    static const char *const names[] = {"fc1", "fc2", "fc3"};
    static const int64_t sizes[] = {100, 200, 100, 10};
    network n = {.params = tg_params_new(run, TG_F32)};
    for (int i = 0; i < 3; i++) {
        n.layers[i] = tg_nn_linear_make(n.params, names[i], sizes[i], sizes[i + 1], TG_BIAS);
    }
    tg_adamw_config config = tg_adamw_config_default();
    config.weight_decay = 0.01;
    n.optim = tg_adamw_new(n.params, &config);
    return n;
}

static void network_free(network *n)
{
    tg_optim_free(n->optim);
    tg_params_free(n->params);
}

static void step(recipe *r, network *n)
{
    tg_tape *t = r->tape;
    tg_tape_reset(t);
    tg_tensor *x = tg_full(t, TG_F32, TG_SHAPE(100), 0), *y = tg_full(t, TG_F32, TG_SHAPE(10), 0), *h;
    tg_tensor_fill_uniform(x, tg_run_rng(r->run), 0, 1, &r->error);
    tg_tensor_fill_uniform(y, tg_run_rng(r->run), 0, 1, &r->error);
    h = tg_relu(t, tg_nn_linear_forward(t, &n->layers[0], x));
    h = tg_relu(t, tg_nn_linear_forward(t, &n->layers[1], h));
    tg_optim_zero_grad(n->optim);
    tg_backward(t, tg_mse_loss(t, tg_nn_linear_forward(t, &n->layers[2], h), y, TG_REDUCTION_SUM), NULL);
    tg_optim_step(n->optim);
    recipe_check(r);
}

/* Whether two networks, or their next steps, have the same bits. */
static bool are_equal(const network *a, const network *b)
{
    bool equal = true;
    for (int64_t i = 0; i < tg_params_count(a->params); i++) {
        const tg_tensor *x = tg_params_at(a->params, i).tensor, *y = tg_params_at(b->params, i).tensor;
        for (int64_t k = 0; k < tg_tensor_count(x); k++) {
            equal = equal && tg_tensor_value_at(x, k) == tg_tensor_value_at(y, k);
        }
    }
    return equal;
}

/* A new network that has loaded the checkpoint has the weights of the first one, and makes the same next step, which
 * shows the state of the optimizer. */
static void test_checkpointing(recipe *r, const options *o)
{
    tg_rng *rng = tg_run_rng(r->run);
    tg_rng_seed(rng, 42);
    network first = network_make(r->run);
    for (int i = 0; i < STEPS; i++) {
        step(r, &first);
    }
    if (!folder_make(o->out)) {
        exit(program_end(1));
    }
    const char *path = folder_file(o->out, "checkpoint.safetensors");
    int64_t steps = STEPS;
    network second = network_make(r->run);
    tg_checkpoint_part saved[] = {tg_checkpoint_params("model", first.params),
                                  tg_checkpoint_optim("optim", first.optim), tg_checkpoint_rng("rng", rng),
                                  tg_checkpoint_integer("step", &steps)};
    tg_checkpoint_save(path, saved, 4, &r->error);
    tg_checkpoint_part loaded[] = {tg_checkpoint_params("model", second.params),
                                   tg_checkpoint_optim("optim", second.optim), tg_checkpoint_rng("rng", rng),
                                   tg_checkpoint_integer("step", &steps)};
    steps = 0;
    if (test_begin(o, "test_checkpointing (the weights after 10 steps)", TWIN)) {
        test_array(r, o, "test_checkpointing (the weights after 10 steps)", TWIN, 1e-4, 1e-6, first.layers[2].weight,
                   NULL, NULL);
    }
    tg_checkpoint_load(path, loaded, 4, &r->error);
    recipe_check(r);
    bool is_loaded = are_equal(&first, &second);
    step(r, &second);
    tg_checkpoint_load(path, loaded + 2, 1, &r->error); /* the same numbers for the other one */
    step(r, &first);
    test_line("test_checkpointing", ITSELF, is_loaded && are_equal(&first, &second) && steps == STEPS,
              "step %lld; the weights are %s, and those after another step %s", (long long)steps,
              is_loaded ? "equal" : "not equal", are_equal(&first, &second) ? "as well" : "are not");
    network_free(&first);
    network_free(&second);
}

int main(int argc, char **argv)
{
    options o = options_read(LAYERS, "batches and checkpoints", argc, argv);
    recipe r = recipe_begin(0);
    test_get_batch(&r);
    test_checkpointing(&r, &o);
    return tests_end(&r);
}

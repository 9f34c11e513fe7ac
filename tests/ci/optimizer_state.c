/* optimizer_state METHOD CHECKPOINT LAST: trains a small model for 20 steps and saves a checkpoint, then for 20 more
 * and saves the parameters. The script beside this file compiles it, and repeats the last 20 steps with PyTorch.
 *
 * Step s has the ids (s * s * 5 + 7 k + 3) mod 40, k = 0 .. 11, and the targets (3 id + 1) mod 40. */
#include <stdio.h>
#include <string.h>

#include <tapegrad.h>

enum { ROWS = 40, WIDTH = 8, BATCH = 12, STEPS = 20 };

static tg_optim *make_optim(tg_params *params, const char *method)
{
    tg_sgd_config sgd = tg_sgd_config_default();
    tg_adam_config adam = tg_adam_config_default();
    tg_adamw_config adamw = tg_adamw_config_default();
    tg_sparse_adam_config sparse_adam = tg_sparse_adam_config_default();
    tg_adagrad_config adagrad = tg_adagrad_config_default();
    tg_rmsprop_config rmsprop = tg_rmsprop_config_default();
    sgd.momentum = 0.9;
    sgd.nesterov = true;
    adam.amsgrad = strcmp(method, "amsgrad") == 0;
    rmsprop.momentum = 0.5;
    rmsprop.centered = true;
    sgd.lr = adam.lr = adamw.lr = sparse_adam.lr = adagrad.lr = rmsprop.lr = 0.01;
    sgd.weight_decay = adam.weight_decay = adamw.weight_decay = adagrad.weight_decay = rmsprop.weight_decay = 0.1;
    return strcmp(method, "sgd") == 0           ? tg_sgd_new(params, &sgd)
           : strcmp(method, "adamw") == 0       ? tg_adamw_new(params, &adamw)
           : strcmp(method, "sparse_adam") == 0 ? tg_sparse_adam_new(params, &sparse_adam)
           : strcmp(method, "adagrad") == 0     ? tg_adagrad_new(params, &adagrad)
           : strcmp(method, "rmsprop") == 0     ? tg_rmsprop_new(params, &rmsprop)
                                                : tg_adam_new(params, &adam);
}

/* One step. Errors stay in the tape and the optimizer. */
static void train(tg_tape *t, const tg_nn_embedding *table, const tg_nn_linear *head, tg_optim *optim, int64_t step)
{
    int32_t ids[BATCH], targets[BATCH];
    for (int k = 0; k < BATCH; k++) {
        ids[k] = (int32_t)((step * step * 5 + 7 * k + 3) % ROWS);
        targets[k] = (3 * ids[k] + 1) % ROWS;
    }
    tg_tape_reset(t);
    tg_optim_zero_grad(optim);
    tg_tensor *x = tg_nn_embedding_forward(t, table, tg_constant(t, TG_I32, TG_SHAPE(BATCH), ids));
    tg_tensor *logits = tg_nn_linear_forward(t, head, tg_dropout(t, x, 0.1));
    tg_backward(t, tg_cross_entropy(t, logits, tg_constant(t, TG_I32, TG_SHAPE(BATCH), targets), NULL), NULL);
    tg_optim_step(optim);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        return 2;
    }
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding table = tg_nn_embedding_make(params, "tok_emb", ROWS, WIDTH, NULL);
    tg_nn_linear head = tg_nn_linear_make(params, "head", WIDTH, ROWS, TG_BIAS);
    if (strcmp(argv[1], "sparse_adam") == 0) { /* torch's takes gradients by rows alone */
        tg_params_set_frozen(params, "head.weight", true);
        tg_params_set_frozen(params, "head.bias", true);
    }
    tg_optim *optim = make_optim(params, argv[1]);
    tg_optim_add_to_group(optim, "no_decay", "*.bias");
    tg_optim_set_weight_decay(optim, "no_decay", 0);
    tg_optim_set_lr(optim, "no_decay", 0.02);
    tg_tape *t = tg_tape_new(run, NULL);
    int64_t step = 0;
    const tg_checkpoint_part parts[] = {tg_checkpoint_params("model", params), tg_checkpoint_optim("optim", optim),
                                        tg_checkpoint_rng("rng", tg_run_rng(run)),
                                        tg_checkpoint_integer("step", &step)};
    for (; step < STEPS; step++) {
        train(t, &table, &head, optim, step);
    }
    bool is_saved = tg_checkpoint_save(argv[2], parts, 4, &error);
    for (; step < 2 * STEPS; step++) {
        train(t, &table, &head, optim, step);
    }
    is_saved = is_saved && tg_params_save(params, argv[3], NULL, &error);
    fprintf(stderr, "%s%s%s", tg_tape_error(t)->text, tg_params_error(params)->text, error.text);
    bool is_trained = tg_tape_error(t)->code == TG_OK && tg_params_error(params)->code == TG_OK;
    tg_tape_free(t);
    tg_optim_free(optim);
    tg_params_free(params);
    tg_run_free(run);
    return is_saved && is_trained ? 0 : 1;
}

/* recommender: ratings from the vectors of users and items (matrix factorization, Koren et al. 2009). The ratings are
 * made from hidden vectors, and a fifth of them is held out. Prints the error of the held-out ratings. */
#include <stdio.h>

#include <tapegrad.h>

#include "../common/command_line.h"
#include "../common/program.h"

const char program_name[] = "cookbook_recommender";

enum { USERS = 30, ITEMS = 20, RATINGS = 500, WIDTH = 4, PASSES = 20 };

typedef struct model {
    tg_nn_embedding users, items, user_bias, item_bias;
} model;

/* The squared error of user . item + bias of the user + bias of the item, for a batch of users, items and ratings. */
static tg_tensor *loss_of(tg_tape *t, const model *m, tg_tensor **batch)
{
    tg_tensor *user = tg_nn_embedding_forward(t, &m->users, batch[0]);
    tg_tensor *item = tg_nn_embedding_forward(t, &m->items, batch[1]);
    tg_tensor *bias = tg_add(t, tg_nn_embedding_forward(t, &m->user_bias, batch[0]),
                             tg_nn_embedding_forward(t, &m->item_bias, batch[1]));
    tg_tensor *product = tg_sum(t, tg_mul(t, user, item), TG_AXES(-1), TG_DROP_AXES);
    return tg_mse_loss(t, tg_add(t, product, tg_squeeze(t, bias, -1)), batch[2], TG_REDUCTION_MEAN);
}

int main(int argc, char **argv)
{
    int status =
        command_line_refuse_options("cookbook_recommender: ratings from the vectors of users and items\n", argc, argv);
    if (status >= 0) {
        return status;
    }
    tg_error error = TG_NO_ERROR;
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_tape *t = tg_tape_new(rng, NULL);

    /* users, items and ratings (R): the product of two hidden vectors */
    tg_tensor *hidden[] = {tg_tensor_new(TG_F32, TG_SHAPE(USERS, 2), &error),
                           tg_tensor_new(TG_F32, TG_SHAPE(ITEMS, 2), &error)};
    tg_tensor *data[] = {tg_tensor_new(TG_I32, TG_SHAPE(RATINGS), &error),
                         tg_tensor_new(TG_I32, TG_SHAPE(RATINGS), &error), NULL};
    for (int i = 0; i < 2; i++) {
        tg_tensor_fill_normal(hidden[i], rng, 0, 1, &error);
        tg_tensor_fill_randint(data[i], rng, 0, i == 0 ? USERS : ITEMS, &error);
    }
    data[2] = tg_retain(
        tg_sum(t, tg_mul(t, tg_index_select(t, hidden[0], 0, data[0]), tg_index_select(t, hidden[1], 0, data[1])),
               TG_AXES(1), TG_DROP_AXES));
    int64_t rows[RATINGS];
    tg_random_split(rng, (int64_t[]){400, 100}, 2, rows, &error);
    tg_dataset_loader_config config = tg_dataset_loader_config_default();
    config.rows = rows;
    config.row_count = 400;
    config.batch_size = 50;
    config.shuffle = true;
    tg_dataset_loader *training = tg_dataset_loader_new(data, 3, rng, &config);
    config.rows = rows + 400;
    config.row_count = config.batch_size = 100;
    config.shuffle = false;
    tg_dataset_loader *held_out = tg_dataset_loader_new(data, 3, rng, &config);

    model m = {tg_nn_embedding_make(params, "users", USERS, WIDTH, NULL),
               tg_nn_embedding_make(params, "items", ITEMS, WIDTH, NULL),
               tg_nn_embedding_make(params, "user_bias", USERS, 1, NULL),
               tg_nn_embedding_make(params, "item_bias", ITEMS, 1, NULL)};
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.05;
    tg_optim *optim = tg_adam_new(params, &adam);
    tg_tensor *b[3];
    for (int pass = 0; pass < PASSES; pass++) {
        while (tg_dataset_loader_next(training, b)) {
            tg_tape_reset(t);
            tg_tensor *loss = loss_of(t, &m, b);
            tg_optim_zero_grad(optim);
            if (!tg_backward(t, loss, NULL) || !tg_optim_step(optim)) {
                fprintf(stderr, "%s\n", tg_tape_error(t)->text);
                return 1;
            }
        }
    }
    tg_dataset_loader_next(held_out, b);
    printf("held-out loss %.3f\n", tg_tensor_item(loss_of(t, &m, b), &error));

    tg_optim_free(optim);
    tg_dataset_loader_free(training);
    tg_dataset_loader_free(held_out);
    tg_tape_free(t);
    for (int i = 0; i < 3; i++) {
        tg_release(data[i]);
        tg_release(i < 2 ? hidden[i] : NULL);
    }
    tg_params_free(params);
    tg_rng_free(rng);
    return error.code == TG_OK ? 0 : 1;
}

/* recommender: ratings from the vectors of users and items (matrix factorization, Koren et al. 2009). The ratings are
 * made from hidden vectors, and a fifth of them is held out. Prints the error of the held-out ratings. */
#include "recipe.h"

const char program_name[] = "cookbook_recommender";

enum { USERS = 30, ITEMS = 20, RATINGS = 500, HELD_OUT = 100, BATCH = 50, WIDTH = 4, PASSES = 20 };

typedef struct model {
    tg_nn_embedding users, items, user_bias, item_bias;
} model;

static model make(tg_params *params)
{
    model m = {.users = tg_nn_embedding_make(params, "users", USERS, WIDTH, NULL)};
    m.items = tg_nn_embedding_make(params, "items", ITEMS, WIDTH, NULL);
    m.user_bias = tg_nn_embedding_make(params, "user_bias", USERS, 1, NULL);
    m.item_bias = tg_nn_embedding_make(params, "item_bias", ITEMS, 1, NULL);
    return m;
}

/* Users and items (B) -> ratings (B): user . item + bias of the user + bias of the item. */
static tg_tensor *forward(tg_tape *t, const model *m, tg_tensor *user, tg_tensor *item)
{
    tg_tensor *products =
        tg_mul(t, tg_nn_embedding_forward(t, &m->users, user), tg_nn_embedding_forward(t, &m->items, item));
    tg_tensor *biases =
        tg_add(t, tg_nn_embedding_forward(t, &m->user_bias, user), tg_nn_embedding_forward(t, &m->item_bias, item));
    return tg_add(t, tg_sum(t, products, TG_AXES(-1), TG_DROP_AXES), tg_squeeze(t, biases, -1));
}

int main(int argc, char **argv)
{
    recipe_options("ratings from the vectors of users and items", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape, *d = r.data;

    /* users, items and ratings (RATINGS): the products of two hidden vectors */
    tg_tensor *hidden[] = {tg_full(d, TG_F32, TG_SHAPE(USERS, 2), 0), tg_full(d, TG_F32, TG_SHAPE(ITEMS, 2), 0)};
    tg_tensor *data[] = {tg_full(d, TG_I32, TG_SHAPE(RATINGS), 0), tg_full(d, TG_I32, TG_SHAPE(RATINGS), 0), NULL};
    for (int i = 0; i < 2; i++) {
        tg_tensor_fill_normal(hidden[i], r.rng, 0, 1, &r.error);
        tg_tensor_fill_randint(data[i], r.rng, 0, tg_tensor_size(hidden[i], 0), &r.error);
    }
    tg_tensor *user = tg_index_select(d, hidden[0], 0, data[0]), *item = tg_index_select(d, hidden[1], 0, data[1]);
    data[2] = tg_sum(d, tg_mul(d, user, item), TG_AXES(-1), TG_DROP_AXES);

    int64_t rows[RATINGS];
    tg_random_split(r.rng, (int64_t[]){RATINGS - HELD_OUT, HELD_OUT}, 2, rows, &r.error);
    tg_dataset_loader_config config = tg_dataset_loader_config_default();
    config.rows = rows;
    config.row_count = RATINGS - HELD_OUT;
    config.batch_size = BATCH;
    config.shuffle = true;
    tg_dataset_loader *training = tg_dataset_loader_new(data, 3, r.rng, &config);
    config.rows = rows + RATINGS - HELD_OUT;
    config.row_count = config.batch_size = HELD_OUT;
    config.shuffle = false;
    tg_dataset_loader *held_out = tg_dataset_loader_new(data, 3, r.rng, &config);

    model m = make(r.params);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.05;
    r.optim = tg_adam_new(r.params, &adam);
    tg_tensor *batch[3];
    for (int pass = 0; pass < PASSES; pass++) {
        while (tg_dataset_loader_next(training, batch)) {
            tg_tape_reset(t);
            tg_tensor *loss = tg_mse_loss(t, forward(t, &m, batch[0], batch[1]), batch[2], TG_REDUCTION_MEAN);
            tg_optim_zero_grad(r.optim);
            tg_backward(t, loss, NULL);
            tg_optim_step(r.optim);
            recipe_check(&r);
        }
    }
    tg_dataset_loader_next(held_out, batch);
    tg_tensor *loss = tg_mse_loss(t, forward(t, &m, batch[0], batch[1]), batch[2], TG_REDUCTION_MEAN);
    printf("held-out loss %.3f\n", tg_tensor_item(loss, &r.error));

    tg_dataset_loader_free(training);
    tg_dataset_loader_free(held_out);
    return recipe_end(&r);
}

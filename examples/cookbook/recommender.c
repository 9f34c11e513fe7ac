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

    /* A rating is the product of two hidden vectors: the taste of the user, and the style of the item. */
    tg_tensor *tastes = recipe_randn(&r, TG_SHAPE(USERS, 2)), *users = recipe_randint(&r, TG_SHAPE(RATINGS), 0, USERS);
    tg_tensor *styles = recipe_randn(&r, TG_SHAPE(ITEMS, 2)), *items = recipe_randint(&r, TG_SHAPE(RATINGS), 0, ITEMS);
    tg_tensor *products = tg_mul(d, tg_index_select(d, tastes, 0, users), tg_index_select(d, styles, 0, items));
    tg_tensor *data[] = {users, items, tg_sum(d, products, TG_AXES(-1), TG_DROP_AXES)};

    int64_t rows[RATINGS];
    tg_random_split(tg_run_rng(r.run), (int64_t[]){RATINGS - HELD_OUT, HELD_OUT}, 2, rows, RATINGS, &r.error);
    tg_loader_config config = tg_loader_config_default();
    config.rows = rows + RATINGS - HELD_OUT;
    config.row_count = config.batch_size = HELD_OUT;
    tg_loader *held_out = tg_loader_new_from_tensors(r.run, data, 3, &config);
    config.rows = rows;
    config.row_count = RATINGS - HELD_OUT;
    config.batch_size = BATCH;
    config.shuffle = true;
    tg_loader *training = tg_loader_new_from_tensors(r.run, data, 3, &config);

    model m = make(r.params);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.05;
    r.optim = tg_adam_new(r.params, &adam);
    tg_batch batch;
    for (int pass = 0; pass < PASSES; pass++) {
        while (tg_loader_next(training, &batch)) {
            tg_tape_reset(t);
            tg_tensor *loss =
                tg_mse_loss(t, forward(t, &m, batch.inputs, batch.targets), batch.tensors[2], TG_REDUCTION_MEAN);
            tg_optim_zero_grad(r.optim);
            tg_backward(t, loss, NULL);
            tg_optim_step(r.optim);
            recipe_check(&r);
        }
    }
    tg_loader_next(held_out, &batch);
    check(tg_loader_error(training));
    check(tg_loader_error(held_out));
    tg_tensor *loss = tg_mse_loss(t, forward(t, &m, batch.inputs, batch.targets), batch.tensors[2], TG_REDUCTION_MEAN);
    printf("held-out loss %.3f\n", tg_tensor_item(loss, &r.error));

    tg_loader_free(training);
    tg_loader_free(held_out);
    return recipe_end(&r);
}

/* 07: Which rows of a table does one training step change? Which rows of a table a training step updates. Only rows
 * whose ids are in the batch have a gradient; all other rows keep their values. */
#include <string.h>

#include "../book.h"

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("Which rows of a table does one training step change?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "embedding", 6, 3, NULL);
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 0.1;
    tg_optim *sgd = tg_sgd_new(params, &config);
    tg_tape *t = book_tape(run);
    check(tg_params_error(params));
    tg_tensor *ids = tg_tensor_new_from_i32(TG_SHAPE(4), (int32_t[]){2, 3, 5, 2}, NULL);
    /* zeros: the step moves rows towards the origin */
    tg_tensor *goal = tg_tensor_new(TG_F32, TG_SHAPE(4, 3), NULL);

    tg_tensor *before = tg_tensor_new_copy(embedding.weight, NULL);
    printf("Before:\n");
    print_tensor(before);
    /* (4) -> (4,3) -> a scalar */
    tg_tensor *loss = tg_mse_loss(t, tg_nn_embedding_forward(t, &embedding, ids), goal, TG_REDUCTION_SUM);
    tg_backward(t, loss, NULL);
    check(tg_tape_error(t));

    tg_grad_rows rows = tg_tensor_grad_rows(embedding.weight);
    printf("\nIds 2, 3, 5, 2; loss %.4f. Rows with a gradient: %lld of 6.\n", tg_tensor_item(loss, NULL),
           (long long)rows.count);
    for (int64_t i = 0; i < rows.count; i++) {
        const float *g = (const float *)rows.values + i * rows.width;
        printf("  row %d: [%8.4f, %8.4f, %8.4f]%s\n", rows.ids[i], (double)g[0], (double)g[1], (double)g[2],
               rows.ids[i] == 2 ? "   the id occurs twice: its two gradients are added" : "");
    }
    tg_optim_step(sgd);
    check(tg_params_error(params));
    printf("\nAfter one step of SGD with a learning rate of 0.1:\n");
    print_tensor(embedding.weight);
    const float *was = tg_tensor_data(before), *is = tg_tensor_data(embedding.weight);
    for (int row = 0; row < 6; row++) {
        bool same = memcmp(was + 3 * row, is + 3 * row, 3 * sizeof(float)) == 0;
        printf("  row %d %s\n", row, same ? "is unchanged, bit for bit" : "changed");
    }

    tg_release(ids);
    tg_release(goal);
    tg_release(before);
    tg_tape_free(t);
    tg_optim_free(sgd);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}

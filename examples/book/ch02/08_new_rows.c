/* 08: How does a table get new rows without a change of the old ones? New rows for a table. Only the new rows are
 * trained; the old rows are frozen. */
#include <string.h>

#include "../book.h"

enum { ROWS = 4, WIDTH = 3, STEPS = 20 };

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("How does a table get new rows without a change of the old ones?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "embedding", ROWS, WIDTH, NULL);
    tg_adam_config config = tg_adam_config_default();
    config.lr = 0.1;
    config.weight_decay = 0.1;
    tg_optim *adam = tg_adam_new(params, &config);
    tg_tape *t = book_tape(run);
    check(tg_tape_error(t));
    printf("A table of %d rows:\n", ROWS);
    print_tensor(embedding.weight);
    tg_tensor *before = tg_tensor_new_copy(embedding.weight, NULL);

    tg_error error = TG_NO_ERROR;
    tg_nn_embedding_resize(&embedding, ROWS + 2);
    tg_tensor_set_rows_frozen(embedding.weight, 0, ROWS, true, &error);
    tg_tensor_set_rows_watched(embedding.weight, true, &error);
    check(&error);
    printf("\nTwo new rows, with initial values like those of the first ones:\n");
    print_tensor(embedding.weight);

    tg_tensor *ids = tg_tensor_new_from_i32(TG_SHAPE(3), (int32_t[]){0, 4, 2}, NULL);
    tg_tensor *goal = tg_tensor_new_full(TG_F32, TG_SHAPE(3, WIDTH), 1, NULL);
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_optim_zero_grad(adam);
        tg_backward(t, tg_mse_loss(t, tg_nn_embedding_forward(t, &embedding, ids), goal, TG_REDUCTION_SUM), NULL);
        tg_optim_step(adam);
    }
    /* one check is enough: after the first error nothing is changed */
    check(tg_tape_error(t));
    printf("\nAfter %d steps of Adam with weight decay. The target of rows 0, 4 and 2 is (1, 1, 1), "
           "but rows 0 to 3 are frozen:\n",
           STEPS);
    print_tensor(embedding.weight);
    bool same = memcmp(tg_tensor_data(before), tg_tensor_data(embedding.weight), ROWS * WIDTH * sizeof(float)) == 0;
    printf("The first %d rows are%s unchanged, bit for bit.\n\n", ROWS, same ? "" : " not");
    for (int row = 0; row < ROWS + 2; row++) {
        tg_row_updates updates = tg_tensor_row_updates(embedding.weight, row);
        printf("  row %d: %lld updates, the last in step %lld, norm %.4f%s\n", row, (long long)updates.count,
               (long long)updates.last_step, tg_tensor_row_norm(embedding.weight, row, 2, NULL),
               row == 5 ? "   not in a batch, but not frozen: weight decay shrank it" : "");
    }
    tg_optim_zero_grad(adam);
    if (!tg_nn_embedding_resize(&embedding, ROWS)) {
        printf("\nResizing to %d rows fails: %s\n", ROWS, error.text);
    }

    tg_release(before);
    tg_release(ids);
    tg_release(goal);
    tg_tape_free(t);
    tg_optim_free(adam);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}

/* 08: a table that was trained gets new rows, and only they are trained: the old ones are frozen. */
#include <string.h>

#include "../chapter.h"

enum { ROWS = 4, WIDTH = 3, STEPS = 20 };

int main(void)
{
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_embedding embedding = tg_embedding_make(params, "embedding", ROWS, WIDTH, NULL);
    tg_optim *adam = tg_adam_new(params, &(tg_adam_config){0.1, 0.9, 0.999, 1e-8, 0.1, false});
    tg_tape *t = tg_tape_new(rng);
    check(tg_params_error(params));
    printf("A table of %d rows:\n", ROWS);
    tg_print(stdout, embedding.weight);
    tg_tensor *before = tg_tensor_new_copy(embedding.weight, NULL);

    tg_error error = TG_NO_ERROR;
    tg_embedding_resize(&embedding, ROWS + 2, &error);
    tg_set_rows_frozen(embedding.weight, 0, ROWS, true, &error);
    tg_watch_rows(embedding.weight, true, &error);
    check(error.text);
    printf("\nTwo rows more, drawn as the first ones were:\n");
    tg_print(stdout, embedding.weight);

    tg_tensor *ids = tg_tensor_new_from(TG_I32, TG_SHAPE(3), (int32_t[]){0, 4, 2}, NULL);
    tg_tensor *goal = tg_tensor_new_full(TG_F32, TG_SHAPE(3, WIDTH), 1, NULL);
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_optim_zero_grad(adam);
        tg_backward(t, tg_mse_loss(t, tg_embedding_forward(t, &embedding, ids), goal, TG_REDUCTION_SUM));
        check(tg_tape_error(t));
        tg_optim_step(adam);
        check(tg_optim_error(adam));
    }
    printf("\nRows 0, 4 and 2 were pulled to (1, 1, 1), %d steps of Adam with weight decay. Rows 0 to 3 are frozen:\n",
           STEPS);
    tg_print(stdout, embedding.weight);
    bool same = memcmp(tg_data(before), tg_data(embedding.weight), ROWS * WIDTH * sizeof(float)) == 0;
    printf("The first %d rows are%s bit for bit what they were.\n\n", ROWS, same ? "" : " not");
    for (int row = 0; row < ROWS + 2; row++) {
        tg_row_updates updates = tg_row_updates_of(embedding.weight, row);
        printf("  row %d: %lld updates, the last in step %lld, norm %.4f%s\n", row, (long long)updates.count,
               (long long)updates.last_step, tg_row_norm(embedding.weight, row, 2),
               row == 5 ? "   weight decay shrank it: no id named it, but it is not frozen" : "");
    }
    tg_optim_zero_grad(adam);
    if (!tg_embedding_resize(&embedding, ROWS, &error)) {
        printf("\nBack to %d rows? %s\n", ROWS, error.text);
    }

    tg_release(before);
    tg_release(ids);
    tg_release(goal);
    tg_tape_free(t);
    tg_optim_free(adam);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}

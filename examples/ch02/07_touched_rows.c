/* 07: what training does to a table. Rows that the batch names move; the others have no gradient at all, and stay. */
#include <string.h>

#include "../chapter.h"

int main(void)
{
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_embedding embedding = tg_embedding_make(params, "embedding", 6, 3, NULL);
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 0.1;
    tg_optim *sgd = tg_sgd_new(params, &config);
    tg_tape *t = tg_tape_new(rng);
    check(tg_params_error(params));
    tg_tensor *ids = tg_tensor_new_from(TG_I32, TG_SHAPE(4), (int32_t[]){2, 3, 5, 2}, NULL);
    tg_tensor *goal = tg_tensor_new(TG_F32, TG_SHAPE(4, 3), NULL); /* zeros: rows are pulled to the origin */

    tg_tensor *before = tg_tensor_new_copy(embedding.weight, NULL);
    printf("Before:\n");
    tg_print(stdout, before);
    tg_tensor *loss = tg_mse_loss(t, tg_embedding_forward(t, &embedding, ids), goal, TG_REDUCTION_SUM);
    tg_backward(t, loss);
    check(tg_tape_error(t));

    tg_row_gradient rows = tg_grad_rows(embedding.weight);
    printf("\nIds 2, 3, 5, 2; loss %.4f. Rows with a gradient: %lld of 6.\n", tg_item(t, loss), (long long)rows.count);
    for (int64_t i = 0; i < rows.count; i++) {
        const float *g = (const float *)rows.values + i * rows.width;
        printf("  row %d: [%8.4f, %8.4f, %8.4f]%s\n", rows.ids[i], (double)g[0], (double)g[1], (double)g[2],
               rows.ids[i] == 2 ? "   it came twice, and its gradients added up" : "");
    }
    tg_optim_step(sgd);
    printf("\nAfter one step of SGD with a rate of 0.1:\n");
    tg_print(stdout, embedding.weight);
    const float *was = tg_data(before), *is = tg_data(embedding.weight);
    for (int row = 0; row < 6; row++) {
        bool same = memcmp(was + 3 * row, is + 3 * row, 3 * sizeof(float)) == 0;
        printf("  row %d %s\n", row, same ? "is bit for bit what it was" : "moved");
    }

    tg_release(ids);
    tg_release(goal);
    tg_release(before);
    tg_tape_free(t);
    tg_optim_free(sgd);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}

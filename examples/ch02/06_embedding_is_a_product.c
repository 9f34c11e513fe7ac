/* 06: a lookup is a matrix product with one-hot rows, only cheaper. The chapter's page on embeddings and linear
 * layers. */
#include "../chapter.h"

int main(void)
{
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_embedding embedding = tg_embedding_make(params, "embedding", 4, 5, NULL);
    tg_tape *t = tg_tape_new(rng);
    check(tg_params_error(params));
    tg_tensor *ids = tg_tensor_new_from(TG_I32, TG_SHAPE(3), (int32_t[]){2, 3, 1}, NULL);

    cell(9);
    tg_print(stdout, embedding.weight);
    cell(11);
    tg_print(stdout, tg_embedding_forward(t, &embedding, tg_slice(t, ids, 0, 2, 3, 1))); /* id 1 */
    cell(15);
    tg_print(stdout, tg_embedding_forward(t, &embedding, tg_slice(t, ids, 0, 0, 1, 1))); /* id 2 */
    cell(18);
    tg_print(stdout, tg_embedding_forward(t, &embedding, ids));

    cell(23);
    tg_print(stdout, tg_one_hot(t, ids, 4, TG_I32));

    tg_rng_seed(rng, 123);
    tg_linear linear = tg_linear_make(params, "linear", 4, 5, TG_NO_BIAS);
    check(tg_params_error(params));
    cell(25);
    tg_print(stdout, linear.weight);

    /* with the table as its weight, transposed, the linear layer does what the lookup does */
    tg_tape_set_recording(t, false);
    tg_copy_into(t, linear.weight, tg_transpose(t, embedding.weight, 0, 1));
    cell(29);
    tg_print(stdout, tg_linear_forward(t, &linear, tg_one_hot(t, ids, 4, TG_F32)));
    cell(31);
    tg_print(stdout, tg_embedding_forward(t, &embedding, ids));

    check(tg_tape_error(t));
    tg_release(ids);
    tg_tape_free(t);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}

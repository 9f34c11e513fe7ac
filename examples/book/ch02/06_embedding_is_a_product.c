/* 06: Is a lookup in a table anything but a matrix product? A lookup is a matrix product with one-hot rows, but
 * cheaper: the course's notebook on embeddings and linear layers. */
#include "../book.h"

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("Is a lookup in a table anything but a matrix product?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "embedding", 4, 5, NULL);
    tg_tape *t = book_tape(run);
    check(tg_params_error(params));
    tg_tensor *ids = tg_tensor_new_from_i32(TG_SHAPE(3), (int32_t[]){2, 3, 1}, NULL);

    cell(9);
    print_tensor(embedding.weight);
    /* id 1 */
    cell(11);
    print_tensor(tg_nn_embedding_forward(t, &embedding, tg_slice(t, ids, 0, 2, 3, 1)));
    /* id 2 */
    cell(15);
    print_tensor(tg_nn_embedding_forward(t, &embedding, tg_slice(t, ids, 0, 0, 1, 1)));
    cell(18);
    print_tensor(tg_nn_embedding_forward(t, &embedding, ids));

    cell(23);
    print_tensor(tg_one_hot(t, ids, 4, TG_I32));

    tg_rng_seed(tg_run_rng(run), 123);
    tg_nn_linear linear = tg_nn_linear_make(params, "linear", 4, 5, TG_NO_BIAS);
    check(tg_params_error(params));
    cell(25);
    print_tensor(linear.weight);

    /* a linear layer whose weight is the transposed table, (4,5) -> (5,4), computes the lookup */
    tg_error error = TG_NO_ERROR;
    tg_tensor_copy_from(linear.weight, tg_transpose(t, embedding.weight, 0, 1), &error);
    check(&error);
    cell(29);
    print_tensor(tg_nn_linear_forward(t, &linear, tg_one_hot(t, ids, 4, TG_F32)));
    cell(31);
    print_tensor(tg_nn_embedding_forward(t, &embedding, ids));

    check(tg_tape_error(t));
    tg_release(ids);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}

/* 04: What is an embedding, and what does a lookup return? An embedding is a table, and a lookup returns rows of
 * it. Seed 123 gives the table that the book prints. */
#include "../book.h"

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("What is an embedding, and what does a lookup return?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding embedding = tg_nn_embedding_make(params, "embedding", 6, 3, NULL);
    tg_tape *t = book_tape(run);
    check(tg_params_error(params));

    cell(111);
    print_tensor(embedding.weight);

    tg_tensor *three = tg_tensor_new_from_i32(TG_SHAPE(1), (int32_t[]){3}, NULL);
    cell(114);
    print_tensor(tg_nn_embedding_forward(t, &embedding, three));

    tg_tensor *ids = tg_tensor_new_from_i32(TG_SHAPE(4), (int32_t[]){2, 3, 5, 1}, NULL);
    cell(116);
    print_tensor(tg_nn_embedding_forward(t, &embedding, ids));

    check(tg_tape_error(t));
    tg_release(three);
    tg_release(ids);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}

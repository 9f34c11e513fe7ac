/* 05: How does a model know where in the text a token stands? Token and position embeddings. The model's input is their
 * sum, so one token has a different vector at each position.
 *
 *   token embedding     [0.5, -0.2,  0.1]
 *   position embedding  [0.1,  0.3, -0.1]
 *   sum                 [0.6,  0.1,  0.0]
 */
#include "../book.h"

static void print_sum(tg_tape *t)
{
    tg_tensor *token = tg_tensor_new_from_f32(TG_SHAPE(3), (float[]){0.5f, -0.2f, 0.1f}, NULL);
    tg_tensor *position = tg_tensor_new_from_f32(TG_SHAPE(3), (float[]){0.1f, 0.3f, -0.1f}, NULL);
    const float *sum = tg_tensor_data(tg_add(t, token, position));
    printf("[0.5, -0.2, 0.1] + [0.1, 0.3, -0.1] = [%.1f, %.1f, %.1f]\n", (double)sum[0], (double)sum[1],
           (double)sum[2]);
    tg_release(token);
    tg_release(position);
}

int main(int argc, char **argv)
{
    const char *folder = book_folder(argc, argv, NULL);
    question("How does a model know where in the text a token stands?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_embedding token = tg_nn_embedding_make(params, "token_embedding_layer", 50257, 256, NULL);
    tg_nn_positional position = tg_nn_positional_make(params, "pos_embedding_layer", TG_POSITION_LEARNED, 4, 256, NULL);
    tg_loader *loader = book_loader(folder, 8, 4, 4, run);
    tg_tape *t = book_tape(run);
    check(tg_params_error(params));
    print_sum(t);

    tg_batch batch = next_batch(loader);
    cell(129);
    printf("Token IDs:\n ");
    print_tensor(batch.inputs);
    printf("\nInputs shape:\n ");
    print_shape(batch.inputs);

    /* (8,4) -> (8,4,256) */
    tg_tensor *tokens = tg_nn_embedding_forward(t, &token, batch.inputs);
    check(tg_tape_error(t));
    cell(130);
    print_shape(tokens);
    cell(133);
    print_shape(position.weight);
    /* (8,4,256) + (4,256) -> (8,4,256); the first position is 0 */
    tg_tensor *inputs = tg_nn_positional_forward(t, &position, tokens, 0);
    check(tg_tape_error(t));
    cell(135);
    print_shape(inputs);

    tg_tape_free(t);
    tg_loader_free(loader);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}

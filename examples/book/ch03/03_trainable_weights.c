/* 03: What is trainable in attention, and why are the scores divided by a square root? Self-attention with trainable
 * weights: each word is projected to a query, a key and a value. The scores are divided by the square root of the keys'
 * width, so that the softmax does not saturate if the width is large. */
#include "inputs.h"

#include <math.h>

/* softmax(q k^T / sqrt(C)) v for queries, keys and values (T,C) -> (T,C) */
static tg_tensor *attend(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values)
{
    tg_tensor *scores = tg_matmul(t, queries, tg_transpose(t, keys, -2, -1));
    return tg_matmul(t, tg_softmax(t, tg_div_scalar(t, scores, sqrt((double)tg_tensor_size(keys, -1))), -1), values);
}

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("What is trainable in attention, and why are the scores divided by a square root?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tensor *W_query = tg_params_add_uniform(params, "W_query", TG_SHAPE(3, 2), 0, 1);
    tg_tensor *W_key = tg_params_add_uniform(params, "W_key", TG_SHAPE(3, 2), 0, 1);
    tg_tensor *W_value = tg_params_add_uniform(params, "W_value", TG_SHAPE(3, 2), 0, 1);
    tg_tape *t = book_tape(run);
    tg_tensor *inputs = inputs_new();
    check(tg_params_error(params));

    /* one word: (3) x (3,2) -> (2) */
    tg_tensor *query = tg_matmul(t, tg_select(t, inputs, 0, 1), W_query);
    cell(70);
    print_tensor(query);

    /* (6,3) x (3,2) -> (6,2) */
    tg_tensor *keys = tg_matmul(t, inputs, W_key), *values = tg_matmul(t, inputs, W_value);
    cell(72);
    printf("keys.shape: ");
    print_shape(keys);
    printf("values.shape: ");
    print_shape(values);

    cell(75);
    print_tensor(tg_matmul(t, query, tg_select(t, keys, 0, 1)));
    tg_tensor *scores = tg_matmul(t, keys, query);
    cell(77);
    print_tensor(scores);
    tg_tensor *weights = tg_softmax(t, tg_div_scalar(t, scores, sqrt((double)tg_tensor_size(keys, -1))), -1);
    cell(80);
    print_tensor(weights);
    cell(83);
    print_tensor(tg_matmul(t, weights, values));

    /* all words at once */
    cell(86);
    print_tensor(attend(t, tg_matmul(t, inputs, W_query), keys, values));

    /* linear layers, whose initial values are better for training than those of uniform(0,1); seed 789 as in the
     * chapter */
    tg_rng_seed(tg_run_rng(run), 789);
    tg_nn_linear to_query = tg_nn_linear_make(params, "v2.W_query", 3, 2, TG_NO_BIAS);
    tg_nn_linear to_key = tg_nn_linear_make(params, "v2.W_key", 3, 2, TG_NO_BIAS);
    tg_nn_linear to_value = tg_nn_linear_make(params, "v2.W_value", 3, 2, TG_NO_BIAS);
    check(tg_params_error(params));
    cell(89);
    print_tensor(attend(t, tg_nn_linear_forward(t, &to_query, inputs), tg_nn_linear_forward(t, &to_key, inputs),
                        tg_nn_linear_forward(t, &to_value, inputs)));

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(inputs);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}

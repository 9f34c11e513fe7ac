/* 04: How is a word kept from attending to words that come after it? The causal mask: a word must not attend to later
 * words. There are two equivalent ways: to set the weights of later words to 0 and to divide each row by its sum again;
 * or to set their scores to -inf before the softmax. The last part is dropout of the weights. */
#include "inputs.h"

#include <math.h>

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("How is a word kept from attending to words that come after it?");
    tg_run *run = tg_run_new(789);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_linear to_query = tg_nn_linear_make(params, "W_query", 3, 2, TG_NO_BIAS);
    tg_nn_linear to_key = tg_nn_linear_make(params, "W_key", 3, 2, TG_NO_BIAS);
    tg_tape *t = book_tape(run);
    tg_tensor *inputs = inputs_new(), *ones = tg_tensor_new_full(TG_F32, TG_SHAPE(6, 6), 1, NULL);
    check(tg_params_error(params));

    tg_tensor *keys = tg_nn_linear_forward(t, &to_key, inputs);
    tg_tensor *scores = tg_matmul(t, tg_nn_linear_forward(t, &to_query, inputs), tg_transpose(t, keys, 0, 1));
    double scale = sqrt((double)tg_tensor_size(keys, -1));
    tg_tensor *weights = tg_softmax(t, tg_div_scalar(t, scores, scale), -1);
    cell(98);
    print_tensor(weights);

    tg_tensor *past = tg_tril(t, ones, 0);
    cell(100);
    print_tensor(past);
    tg_tensor *masked_weights = tg_mul(t, weights, past);
    cell(102);
    print_tensor(masked_weights);
    cell(105);
    print_tensor(tg_div(t, masked_weights, tg_sum(t, masked_weights, TG_AXES(-1), TG_KEEP_AXES)));

    tg_tensor *future = tg_ne(t, tg_triu(t, ones, 1), tg_full(t, TG_F32, TG_SCALAR, 0));
    tg_tensor *masked_scores = tg_masked_fill(t, scores, future, -INFINITY);
    cell(108);
    print_tensor(masked_scores);
    weights = tg_softmax(t, tg_div_scalar(t, masked_scores, scale), -1);
    cell(110);
    print_tensor(weights);

    /* dropout of 0.5 sets each weight to 0 with probability 0.5, and doubles the others */
    tg_rng_seed(tg_run_rng(run), 123);
    cell(115);
    print_tensor(tg_dropout(t, ones, 0.5));
    tg_rng_seed(tg_run_rng(run), 123);
    cell(116);
    print_tensor(tg_dropout(t, weights, 0.5));

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(inputs);
    tg_release(ones);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}

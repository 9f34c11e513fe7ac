/* 04: a word must not look at the words after it. Either weights of the future are set to 0 and the rows divided by
 * their sums again, or scores of the future are set to -inf before the softmax: the same. Then dropout on the
 * weights. */
#include "inputs.h"

#include <math.h>

int main(void)
{
    tg_rng *rng = tg_rng_new(789);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_linear to_query = tg_linear_make(params, "W_query", 3, 2, TG_NO_BIAS);
    tg_linear to_key = tg_linear_make(params, "W_key", 3, 2, TG_NO_BIAS);
    tg_tape *t = tg_tape_new(rng);
    tg_tensor *inputs = inputs_new(), *ones = tg_tensor_new_full(TG_F32, TG_SHAPE(6, 6), 1, NULL);
    check(tg_params_error(params));

    tg_tensor *keys = tg_linear_forward(t, &to_key, inputs);
    tg_tensor *scores = tg_matmul(t, tg_linear_forward(t, &to_query, inputs), tg_transpose(t, keys, 0, 1));
    double scale = sqrt((double)tg_size(keys, -1));
    tg_tensor *weights = tg_softmax(t, tg_div_scalar(t, scores, scale), -1);
    cell(98);
    tg_print(stdout, weights);

    tg_tensor *past = tg_tril(t, ones, 0);
    cell(100);
    tg_print(stdout, past);
    tg_tensor *masked_weights = tg_mul(t, weights, past);
    cell(102);
    tg_print(stdout, masked_weights);
    cell(105);
    tg_print(stdout, tg_div(t, masked_weights, tg_sum(t, masked_weights, TG_AXES(-1), TG_KEEP_AXES)));

    tg_tensor *future = tg_ne(t, tg_triu(t, ones, 1), tg_scalar_like(t, ones, 0));
    tg_tensor *masked_scores = tg_masked_fill(t, scores, future, -INFINITY);
    cell(108);
    tg_print(stdout, masked_scores);
    weights = tg_softmax(t, tg_div_scalar(t, masked_scores, scale), -1);
    cell(110);
    tg_print(stdout, weights);

    /* half of the weights are dropped, and the others doubled */
    tg_rng_seed(rng, 123);
    cell(115);
    tg_print(stdout, tg_dropout(t, ones, 0.5));
    tg_rng_seed(rng, 123);
    cell(116);
    tg_print(stdout, tg_dropout(t, weights, 0.5));

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(inputs);
    tg_release(ones);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}

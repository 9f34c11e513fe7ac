/* 01: How much does one word of a sentence have to do with each of the others? The attention weights of the second
 * word, "journey", for each of the six words. Dot products measure similarity, a softmax turns them into weights that
 * sum to 1, and the weighted sum of the words is the context vector. Nothing is trainable here. */
#include "inputs.h"

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("How much does one word of a sentence have to do with each of the others?");
    tg_tape *t = book_tape(NULL);
    tg_tensor *inputs = inputs_new();
    tg_tensor *query = tg_select(t, inputs, 0, 1);

    /* (6,3) x (3) -> (6) */
    tg_tensor *scores = tg_matmul(t, inputs, query);
    cell(28);
    print_tensor(scores);

    /* a dot product is a sum of products */
    tg_tensor *first = tg_select(t, inputs, 0, 0);
    cell(30);
    print_tensor(tg_sum_all(t, tg_mul(t, first, query)));
    print_tensor(tg_matmul(t, first, query));

    /* scores divided by their sum: the weights sum to 1, but scores can be negative */
    tg_tensor *sum = tg_sum_all(t, scores);
    cell(33);
    print_named("Attention weights:", tg_div(t, scores, sum));
    print_named("Sum:", tg_sum_all(t, tg_div(t, scores, sum)));

    /* exp(scores) divided by its sum: positive weights, but exp can overflow */
    tg_tensor *powers = tg_exp(t, scores);
    tg_tensor *naive = tg_div(t, powers, tg_sum_all(t, powers));
    cell(35);
    print_named("Attention weights:", naive);
    print_named("Sum:", tg_sum_all(t, naive));

    /* softmax: the same weights, without overflow */
    tg_tensor *weights = tg_softmax(t, scores, 0);
    cell(37);
    print_named("Attention weights:", weights);
    print_named("Sum:", tg_sum_all(t, weights));

    /* (6) x (6,3) -> (3) */
    cell(40);
    print_tensor(tg_matmul(t, weights, inputs));

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(inputs);
    return book_end();
}

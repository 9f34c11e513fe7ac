/* 01: how much does the second word, "journey", look at each of the six? Dot products measure likeness, a softmax turns
 * them into weights that sum to 1, and the weighted sum of the words is the context vector. Nothing is trained yet. */
#include "inputs.h"

int main(void)
{
    tg_tape *t = tg_tape_new(NULL);
    tg_tensor *inputs = inputs_new();
    tg_tensor *query = tg_select(t, inputs, 0, 1);

    tg_tensor *scores = tg_matmul(t, inputs, query); /* (6,3) x (3) -> (6) */
    cell(28);
    tg_print(stdout, scores);

    /* a dot product is a sum of products */
    tg_tensor *first = tg_select(t, inputs, 0, 0);
    cell(30);
    tg_print(stdout, tg_sum(t, tg_mul(t, first, query), TG_ALL_AXES, TG_DROP_AXES));
    tg_print(stdout, tg_matmul(t, first, query));

    /* dividing by the sum makes weights, but exp also keeps them positive */
    tg_tensor *sum = tg_sum(t, scores, TG_ALL_AXES, TG_DROP_AXES);
    cell(33);
    print_named("Attention weights:", tg_div(t, scores, sum));
    print_named("Sum:", tg_sum(t, tg_div(t, scores, sum), TG_ALL_AXES, TG_DROP_AXES));

    tg_tensor *powers = tg_exp(t, scores);
    tg_tensor *naive = tg_div(t, powers, tg_sum(t, powers, TG_ALL_AXES, TG_DROP_AXES));
    cell(35);
    print_named("Attention weights:", naive);
    print_named("Sum:", tg_sum(t, naive, TG_ALL_AXES, TG_DROP_AXES));

    tg_tensor *weights = tg_softmax(t, scores, 0); /* the same without overflow */
    cell(37);
    print_named("Attention weights:", weights);
    print_named("Sum:", tg_sum(t, weights, TG_ALL_AXES, TG_DROP_AXES));

    cell(40);
    tg_print(stdout, tg_matmul(t, weights, inputs)); /* (6) x (6,3) -> (3) */

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(inputs);
    return 0;
}

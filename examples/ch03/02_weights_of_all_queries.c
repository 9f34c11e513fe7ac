/* 02: the same for all words at once: one matrix product for the scores, a softmax a row, one product for the
 * context. */
#include "inputs.h"

int main(void)
{
    tg_tape *t = tg_tape_new(NULL);
    tg_tensor *inputs = inputs_new();

    /* pair by pair: score (i,j) is the dot product of words i and j */
    float pairs[6][6];
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            tg_tensor *a = tg_select(t, inputs, 0, i), *b = tg_select(t, inputs, 0, j);
            pairs[i][j] = (float)tg_item(t, tg_matmul(t, a, b));
        }
    }
    tg_tensor *by_pairs = tg_tensor_new_from(TG_F32, TG_SHAPE(6, 6), pairs, NULL);
    cell(47);
    tg_print(stdout, by_pairs);

    tg_tensor *scores = tg_matmul(t, inputs, tg_transpose(t, inputs, 0, 1));
    cell(49);
    tg_print(stdout, scores);

    tg_tensor *weights = tg_softmax(t, scores, -1);
    cell(51);
    tg_print(stdout, weights);

    tg_tensor *sums = tg_sum(t, weights, TG_AXES(-1), TG_DROP_AXES);
    cell(53);
    printf("Row 2 sum: %.1f\n", tg_value_at(sums, 1));
    print_named("All row sums:", sums);

    tg_tensor *context = tg_matmul(t, weights, inputs);
    cell(55);
    tg_print(stdout, context);
    cell(57);
    print_named("Previous 2nd context vector:", tg_select(t, context, 0, 1));

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(by_pairs);
    tg_release(inputs);
    return 0;
}

/* 02: How are the attention weights of all words computed at once? The attention weights of all words at once: one
 * matrix product for the scores, a softmax per row, and one product for the context vectors. */
#include "inputs.h"

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("How are the attention weights of all words computed at once?");
    tg_tape *t = book_tape(NULL);
    tg_tensor *inputs = inputs_new();

    /* pair by pair: pairs[i][j] is the dot product of words i and j */
    float pairs[6][6];
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 6; j++) {
            tg_tensor *a = tg_select(t, inputs, 0, i), *b = tg_select(t, inputs, 0, j);
            pairs[i][j] = (float)tg_tensor_item(tg_matmul(t, a, b), NULL);
        }
    }
    tg_tensor *by_pairs = tg_tensor_new_from_f32(TG_SHAPE(6, 6), pairs[0], NULL);
    cell(47);
    print_tensor(by_pairs);

    /* (6,3) x (3,6) -> (6,6) */
    tg_tensor *scores = tg_matmul(t, inputs, tg_transpose(t, inputs, 0, 1));
    cell(49);
    print_tensor(scores);

    tg_tensor *weights = tg_softmax(t, scores, -1);
    cell(51);
    print_tensor(weights);

    tg_tensor *sums = tg_sum(t, weights, TG_AXES(-1), TG_DROP_AXES);
    cell(53);
    printf("Row 2 sum: %.1f\n", tg_tensor_value_at(sums, 1));
    print_named("All row sums:", sums);

    /* (6,6) x (6,3) -> (6,3) */
    tg_tensor *context = tg_matmul(t, weights, inputs);
    cell(55);
    print_tensor(context);
    cell(57);
    print_named("Previous 2nd context vector:", tg_select(t, context, 0, 1));

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(by_pairs);
    tg_release(inputs);
    return book_end();
}

/* sample: one token from the logits of a model.
 *
 * Always the most probable token gives dull texts. So a token is drawn: the logits are divided by
 * the temperature, of the k largest the softmax is taken, and all others have the probability 0. A
 * low temperature makes the likely tokens likelier. Equal logits at the limit all stay, as in the
 * book.
 *
 * The draw is a number u from 0 to 1. The token is the first one at which the sum of the
 * probabilities, in the order of the ids, is larger than u. With the temperature 0 it is the
 * largest logit, of equal ones the first.
 *
 * Shapes: logits (count) -> an id.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: k is 1. Which token is drawn, for which temperature and u? */
#include <math.h>

int sample(int count, const double *logits, double temperature, int k, double u)
{
    /* your part */
    int best = 0;
    for (int i = 1; i < count; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    double sum = 0, so_far = 0;
    for (int round = 0; temperature > 0 && round < 2; round++) {
        for (int i = 0; i < count; i++) {
            int larger = 0;
            for (int j = 0; j < count; j++) {
                larger += logits[j] > logits[i];
            }
            double power = larger < k ? exp((logits[i] - logits[best]) / temperature) : 0;
            sum += round == 0 ? power : 0;
            so_far += round == 1 ? power / sum : 0;
            if (round == 1 && so_far > u) {
                return i;
            }
        }
    }
    return best;
    /* end of your part */
}

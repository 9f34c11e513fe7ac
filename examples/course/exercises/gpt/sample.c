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
    return -1;
    /* end of your part */
}

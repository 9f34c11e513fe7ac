/* mask: a word may look at itself and at those before it.
 *
 * A GPT learns to predict the next word. If it could see it, there would be nothing to learn. So
 * the scores of later words count as -infinity: since e^-infinity is 0, their weights are 0. The
 * weights of the words that remain sum to 1. Their maximum is that of the words that may be seen.
 *
 * Shapes: scores (time,time) -> weights (time,time); weights[i,j] = 0 for j > i.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: what are the weights of the first word? */
#include <math.h>

void causal_weights(int time, const double *scores, double *weights)
{
    for (int i = 0; i < time; i++) {
        const double *from = scores + i * time;
        double *to = weights + i * time, max = from[0], sum = 0;
        /* your part: the softmax of from[0] to from[i]; the other weights are 0 */
        (void)to, (void)max, (void)sum; /* delete this line */
        /* end of your part */
    }
}

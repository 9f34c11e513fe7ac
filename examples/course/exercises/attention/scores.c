/* scores: the weights of attention.
 *
 * Each word asks with a query, and offers a key. The dot product of a query and a key, the sum
 * over c of q[c] k[c], says how much they fit; the softmax over all keys turns the scores of a
 * word into weights, which sum to 1. In rows of many numbers the products are large, and the
 * softmax would choose a single word; so they are multiplied by `scale`, mostly 1 / sqrt(width).
 *
 * Shapes: q, k (time,width) -> y (time,time), the weights: y[i,:] = softmax over j of scale q_i
 * k_j.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: all queries are zeros. What are the weights of 5 words? */
#include <math.h>

void weights(int time, int width, double scale, const double *q, const double *k, double *y)
{
    for (int i = 0; i < time; i++) {
        double *row = y + i * time, max = -INFINITY, sum = 0;
        /* your part: the scores of word i, and their softmax */
        (void)row, (void)max, (void)sum; /* delete this line */
        /* end of your part */
    }
}

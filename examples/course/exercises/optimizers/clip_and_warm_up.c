/* clip_and_warm_up: two guards against steps that are too large.
 *
 * Clipping: if the gradient is longer than max_norm, it is shortened to that length; its direction
 * stays. Warm-up: the learning rate grows from step to step to its peak, and then falls along half
 * a cosine to 0, since the first gradients of a new model are wild, and the last steps should be
 * small.
 *
 * Shapes: gradient (count). A rate for each step: peak (step + 1) / warm_up for step < warm_up,
 * and then peak (1 + cos(pi p)) / 2, where p goes from 0 at step warm_up to 1 at step `steps`.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: the gradient (30, 40) is clipped to 5. What is left? */
#include <math.h>

/* Returns the length of the gradient before it is clipped. */
double clip(int count, double max_norm, double *gradient)
{
    /* your part */
    return 0;
    /* end of your part */
}

double rate(int step, int warm_up, int steps, double peak)
{
    const double pi = 3.14159265358979323846;
    /* your part */
    (void)pi;
    return 0;
    /* end of your part */
}

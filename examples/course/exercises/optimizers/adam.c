/* adam: each weight gets a step that fits its own gradients (Kingma and Ba 2015).
 *
 * m is a running mean of the gradient, v of its square; m / sqrt(v) is about 1 if the gradients
 * agree, and small if they differ in sign. Both begin at 0 and so are too small in the first
 * steps: dividing by 1 - beta^t corrects this.
 *
 *     m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
 *     w = w - lr (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + eps)
 *
 * pow(beta, t) is beta^t; the ^ of C is no power.
 *
 * Shapes: g, m, v, w (count). t is 1 in the first step.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: a weight has the gradient 0.001 in the first step, another one 1000. How far does each
 * move, with lr 0.1? */
#include <math.h>

void adam_step(int count, int t, double lr, double beta1, double beta2, double eps, const double *g, double *m,
               double *v, double *w)
{
    for (int i = 0; i < count; i++) {
        /* your part */
        /* end of your part */
    }
}

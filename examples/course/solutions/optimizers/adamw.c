/* adamw: weights that shrink a little in each step (Loshchilov and Hutter 2019).
 *
 * Large weights fit the training text by heart, so each step makes all weights smaller by lr *
 * decay. If the decay were added to the gradient, Adam would divide it by sqrt(v), and weights
 * with large gradients would hardly shrink. AdamW keeps it apart: first w = w (1 - lr decay), then
 * the step of Adam.
 *
 * Shapes: g, m, v, w (count). t is 1 in the first step.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: w = 1, its gradient is 0, lr 0.1, decay 0.5. What is w after one step? */
#include <math.h>

void adamw_step(int count, int t, double lr, double decay, const double *g, double *m, double *v, double *w)
{
    const double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
    for (int i = 0; i < count; i++) {
        /* your part: the decay; then the step of Adam, as in the last exercise */
        w[i] *= 1 - lr * decay;
        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
        double mean = m[i] / (1 - pow(beta1, t)), square = v[i] / (1 - pow(beta2, t));
        w[i] -= lr * mean / (sqrt(square) + eps);
        /* end of your part */
    }
}

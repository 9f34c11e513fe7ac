/* sgd: gradient descent, with momentum.
 *
 * The loss is one number that says how wrong the model is. Its gradient says in which direction it
 * grows; a step goes the other way. How far is the learning rate, lr, times the gradient. With
 * momentum a step also keeps a part of the one before, like a ball that rolls: the buffer is
 * momentum * buffer + gradient, and the weight moves by lr * buffer. Without momentum (0) the
 * buffer is the gradient.
 *
 * Shapes: gradient, buffer, w (count). The buffer is 0 before the first step.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: lr 0.1, momentum 0.9, and the gradient is 1 in each step. By how much does w move in
 * step 1, and in step 2? */
void sgd_step(int count, double lr, double momentum, const double *gradient, double *buffer, double *w)
{
    for (int i = 0; i < count; i++) {
        /* your part: the new buffer, and the new weight */
        /* end of your part */
    }
}

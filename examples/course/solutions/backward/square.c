/* square: the backward of y = x^2.
 *
 * A backward receives dy, the gradient of the loss for y, and computes that for x. If x grows by a
 * little, y grows by 2 x times as much, and the loss by dy times that: dx = 2 x dy. It adds to dx,
 * because x may have other uses.
 *
 * Shapes: x, dy and dx (count).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: for which x does the gradient vanish, whatever dy is? */
void square_backward(int count, const double *x, const double *dy, double *dx)
{
    for (int i = 0; i < count; i++) {
        /* your part */
        dx[i] += 2 * x[i] * dy[i];
        /* end of your part */
    }
}

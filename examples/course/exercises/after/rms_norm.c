/* rms_norm: rows of root mean square 1, and the gradient through it.
 *
 * Llama and its relatives have no layer norm, but RMSNorm (Zhang and Sennrich 2019): no mean is
 * taken away, and there is no bias.
 *
 *     n = x / sqrt(mean of x^2 + eps), y = weight n
 *
 * x[j] reaches y in two ways: as itself, and by the mean of the squares, which divides the whole
 * row. Compare attention/layer_norm: its dx has two means over the row. One of them is left.
 *
 * Shapes: x, dy, dx (rows,width), weight, dweight (width). Backward adds.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: weight is 1, eps is 0, and dy is x. What is dx? */
#include <math.h>

void rms_norm_backward(int rows, int width, double eps, const double *x, const double *weight, const double *dy,
                       double *dx, double *dweight)
{
    for (int i = 0; i < rows; i++, x += width, dy += width, dx += width) {
        /* your part: the gradients of one row */
        /* end of your part */
    }
}

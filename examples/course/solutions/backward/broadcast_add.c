/* broadcast_add: the backward of y = x + bias, where the bias was added to each row.
 *
 * In forward each value of the bias was used `rows` times. Backward turns a repetition into a sum:
 * the value gets the gradients of all places where it was used.
 *
 * Shapes: x, y (rows,columns), bias (columns); dy, dx (rows,columns), dbias (columns).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: dy is 1 everywhere, in 32 rows. What is dbias? */
void bias_backward(int rows, int columns, const double *dy, double *dx, double *dbias)
{
    /* your part */
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            dx[i * columns + j] += dy[i * columns + j];
            dbias[j] += dy[i * columns + j];
        }
    }
    /* end of your part */
}

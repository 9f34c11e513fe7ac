/* find_the_bug: this backward of softmax was written by a colleague. It passes with one row, and
 * training with it almost works.
 *
 * y = softmax(x), so each x moves all values of its row: dx[j] = y[j] (dy[j] - sum over k of y[k]
 * dy[k]). The sum is one number for each row.
 *
 * Shapes: y, dy, dx (rows,columns).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: dy is 5 everywhere. What is dx? */
void softmax_backward(int rows, int columns, const double *y, const double *dy, double *dx)
{
    /* your part: there is one mistake */
    double sum = 0;
    for (int i = 0; i < rows; i++) {
        for (int j = i * columns; j < (i + 1) * columns; j++) {
            sum += y[j] * dy[j];
        }
        for (int j = i * columns; j < (i + 1) * columns; j++) {
            dx[j] += y[j] * (dy[j] - sum);
        }
    }
    /* end of your part */
}

/* softmax: any numbers become probabilities.
 *
 * Each value of a row becomes e^x, divided by the sum of the row. A model does this with the
 * scores that it gives to the words which may come next. But e^1000 is infinite in a double.
 * Subtracting the same number from the whole row changes no quotient: with the row's maximum the
 * largest power is e^0.
 *
 * Shapes: x (rows,columns) -> y (rows,columns); each row of y sums to 1.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: what is the softmax of the row 7 7 7 7? */
#include <math.h>

void softmax(int rows, int columns, const double *x, double *y)
{
    for (int i = 0; i < rows; i++) {
        /* your part: row i, from x + i * columns to y + i * columns */
        /* end of your part */
    }
}

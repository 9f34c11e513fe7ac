/* one_hot: what a lookup has to do with a linear layer.
 *
 * An id can be written as a row of zeros with a single 1, at the place of the id. This row times
 * the table is the id's row of the table: every other row is multiplied by 0. So an embedding is a
 * linear layer without a bias, of which the lookup leaves out the zeros.
 *
 * Shapes: ids (count) -> x (count,rows). x and table (rows,width) -> y (count,width).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: 4 ids, a table of (50257,768). How many multiplications does the product need, and how
 * many the lookup? */
void one_hot(int rows, int count, const int *ids, double *x)
{
    /* your part: x is uninitialized */
    /* end of your part */
}

void product(int rows, int width, int count, const double *x, const double *table, double *y)
{
    /* your part: y = x table */
    /* end of your part */
}

/* broadcast: adding tensors of different sizes.
 *
 * A matrix (rows,columns) is stored row by row: a[i,j] is a[i * columns + j] in C. A stride says
 * how far apart in memory two neighbors along an axis are: here columns for i, and 1 for j.
 *
 * An axis of size 1 is repeated as often as needed. So a bias of shape (1,columns) is added to
 * each row of a matrix, and a column (rows,1) to each column. Nothing is copied: the stride of a
 * repeated axis is 0.
 *
 * Shapes: a (rows,columns), b (b_rows,b_columns), each 1 or the size of a -> y (rows,columns).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: a is (3,3), and b is (3,1). Which value of b is added to a[0,2]? */
void add(int rows, int columns, const double *a, int b_rows, int b_columns, const double *b, double *y)
{
    /* your part: the two strides of b, of which a repeated axis has 0; then y[i,j] = a[i,j] + b at [i,j] */
    int row_stride = b_rows == 1 ? 0 : b_columns, column_stride = b_columns == 1 ? 0 : 1;
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            y[i * columns + j] = a[i * columns + j] + b[i * row_stride + j * column_stride];
        }
    }
    /* end of your part */
}

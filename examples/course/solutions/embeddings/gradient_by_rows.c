/* gradient_by_rows: the same gradient in little memory.
 *
 * A table may have a million rows, and a batch names some hundred. Instead of a table of zeros
 * this gradient is a list: which rows have a gradient, and their values. Each row is listed once,
 * also if its id is repeated: then its gradients are added. The order is that in which the ids
 * occur first.
 *
 * Shapes: ids (count), dy (count,width) -> row_ids (n), values (n,width). Returns n, the number of
 * different ids. Both arrays have room for `count` rows, and are uninitialized.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: ids 2 3 5 2. Which rows are listed, in which order? */
int rows_of_gradient(int width, int count, const int *ids, const double *dy, int *row_ids, double *values)
{
    int n = 0;
    for (int i = 0; i < count; i++) {
        /* your part: find ids[i] in the list, or add it with values 0; then add row i of dy */
        int row = 0;
        while (row < n && row_ids[row] != ids[i]) {
            row++;
        }
        if (row == n) {
            row_ids[n++] = ids[i];
            for (int j = 0; j < width; j++) {
                values[row * width + j] = 0;
            }
        }
        for (int j = 0; j < width; j++) {
            values[row * width + j] += dy[i * width + j];
        }
        /* end of your part */
    }
    return n;
}

/* rows: a step that costs the batch, not the table.
 *
 * The gradient of an embedding is a list of rows. Plain SGD moves a weight by its gradient, so a
 * row that is not in the list stays where it is, and need not be visited. For a table of a million
 * rows this is the difference between hours and seconds. A list may name a row twice; its
 * gradients then count both.
 *
 * Shapes: row_ids (count), values (count,width) -> table (rows,width).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: would a dense step of SGD give other values? And one of Adam? */
void sgd_rows(int width, int count, const int *row_ids, const double *values, double lr, double *table)
{
    /* your part */
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < width; j++) {
            table[row_ids[i] * width + j] -= lr * values[i * width + j];
        }
    }
    /* end of your part */
}

/* scatter_add: the gradient of an embedding.
 *
 * A lookup copied rows of the table to y. Backward goes the other way: what arrives at row i of y
 * belongs to the row of the table from which it was copied. All other rows have no part in y, and
 * their gradient stays what it is.
 *
 * Shapes: ids (count), dy (count,width) -> dtable (rows,width). Backward adds to dtable, which may
 * have values already.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: a word occurs three times in the batch. How many gradients does its row get? */
void lookup_backward(int width, int count, const int *ids, const double *dy, double *dtable)
{
    /* your part: add row i of dy to row ids[i] of dtable */
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < width; j++) {
            dtable[ids[i] * width + j] += dy[i * width + j];
        }
    }
    /* end of your part */
}

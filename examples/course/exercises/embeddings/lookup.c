/* lookup: an embedding is a table with a row for each token. Looking up a token's id copies its
 * row.
 *
 * This is the first layer of every language model. Nothing is multiplied: an id is a place in the
 * table. The ids that are looked up together are a batch.
 *
 * Shapes: ids (count), table (rows,width) -> y (count,width), y[i,:] = table[ids[i],:].
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: the table has 50257 rows of 768 numbers, and a batch has 4 ids. How many numbers of the
 * table are read? */
void lookup(int width, int count, const int *ids, const double *table, double *y)
{
    /* your part: copy row ids[i] of the table to row i of y */
    /* end of your part */
}

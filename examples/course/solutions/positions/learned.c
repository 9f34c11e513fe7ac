/* learned: positions as a table of parameters.
 *
 * Row p of the table belongs to position p. A text that is read from its beginning starts with
 * position 0. When a model writes one token after another, only the new token is computed, and its
 * position is the number of tokens before it: `start`.
 *
 * Shapes: table (context,width), x (time,width): x[t,:] += table[start + t,:]. Backward: dx has dy
 * already; dtable (context,width) gets its part.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: 12 tokens have been written. Which row is added to the next one? */
void add_positions(int time, int width, int start, const double *table, double *x)
{
    /* your part */
    for (int i = 0; i < time * width; i++) {
        x[i] += table[start * width + i];
    }
    /* end of your part */
}

void positions_backward(int time, int width, int start, const double *dy, double *dtable)
{
    /* your part */
    for (int i = 0; i < time * width; i++) {
        dtable[start * width + i] += dy[i];
    }
    /* end of your part */
}

/* heads: attention several times, side by side.
 *
 * The columns of a row are divided among the heads: head h has the columns h * size to (h + 1) *
 * size - 1. To compute a head, its columns of all rows should be one matrix. So the axes are
 * exchanged: (time,heads,size) -> (heads,time,size). Joining the heads again is the way back. No
 * value changes, only its place.
 *
 * Shapes: x (time,heads * size) -> y (heads,time,size), and back.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: 2 words, 2 heads, size 1; x is a b, c d. In which order are the values in y? */
void split_heads(int time, int heads, int size, const double *x, double *y)
{
    /* your part */
    for (int t = 0; t < time; t++) {
        for (int h = 0; h < heads; h++) {
            for (int c = 0; c < size; c++) {
                y[(h * time + t) * size + c] = x[(t * heads + h) * size + c];
            }
        }
    }
    /* end of your part */
}

void join_heads(int time, int heads, int size, const double *y, double *x)
{
    /* your part */
    for (int t = 0; t < time; t++) {
        for (int h = 0; h < heads; h++) {
            for (int c = 0; c < size; c++) {
                x[(t * heads + h) * size + c] = y[(h * time + t) * size + c];
            }
        }
    }
    /* end of your part */
}

/* rotary: positions as rotations of queries and keys.
 *
 * The values j and j + width / 2 of a row are a point in the plane. It is turned by an angle that
 * grows with the position: position * 10000^(-2j / width). In the product of a query and a key
 * only the difference of the two angles is left, so attention sees distances.
 *
 * Shapes: x (time,width), width even; row t is at position start + t.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: how does the length of a row change? */
#include <math.h>

void rotate(int time, int width, int start, double *x)
{
    int half = width / 2;
    for (int t = 0; t < time; t++) {
        double *row = x + t * width;
        for (int j = 0; j < half; j++) {
            /* your part: turn the point (row[j], row[j + half]) */
            (void)row;
            /* end of your part */
        }
    }
}

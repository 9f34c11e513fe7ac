/* sinusoidal: positions without parameters.
 *
 * Each pair of columns is a clock hand that turns with its own speed: the first pair by 1 radian
 * for each position, the last ones very slowly. Near positions have similar rows, and no text is
 * too long for the table.
 *
 * Shapes: table (positions,width), width even: table[p,2i] = sin(p / 10000^(2i / width)), and
 * table[p,2i+1] the cosine of the same angle.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: what is row 0? */
#include <math.h>

void sinusoidal(int positions, int width, double *table)
{
    for (int p = 0; p < positions; p++) {
        for (int column = 0; column < width; column += 2) {
            /* your part: the two values of this pair of columns */
            /* end of your part */
        }
    }
}

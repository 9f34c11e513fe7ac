/* rotary_positions: rotations by positions that are given, and their gradient.
 *
 * In positions/rotary row t was at position start + t. Short texts are packed one behind the other
 * into one row of a batch, and each begins at position 0 again; or they are padded on the left. So
 * each row gets its position. The point (x[j], x[j + width / 2]) is turned by the angle
 * position * base^(-2j / width); models for long texts have a larger base than 10000.
 *
 * Turned by an angle, the point (a,b) is (a cos - b sin, a sin + b cos). This is a matrix product,
 * and the gradient goes through the transposed matrix.
 *
 * Shapes: x, y, dy, dx (count,width), width even, positions (count). Backward adds to dx.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: 7 is added to all positions of a text. What changes in the products of its queries and
 * keys? */
#include <math.h>

void rotate(int count, int width, double base, const int *positions, const double *x, double *y)
{
    int half = width / 2;
    for (int t = 0; t < count; t++, x += width, y += width) {
        for (int j = 0; j < half; j++) {
            /* your part */
            double angle = positions[t] * pow(base, -2.0 * j / width);
            y[j] = x[j] * cos(angle) - x[j + half] * sin(angle);
            y[j + half] = x[j] * sin(angle) + x[j + half] * cos(angle);
            /* end of your part */
        }
    }
}

void rotate_backward(int count, int width, double base, const int *positions, const double *dy, double *dx)
{
    int half = width / 2;
    for (int t = 0; t < count; t++, dy += width, dx += width) {
        for (int j = 0; j < half; j++) {
            /* your part */
            double turn = positions[t] * pow(base, -2.0 * j / width);
            dx[j] += dy[j] * cos(turn) + dy[j + half] * sin(turn);
            dx[j + half] += dy[j + half] * cos(turn) - dy[j] * sin(turn);
            /* end of your part */
        }
    }
}

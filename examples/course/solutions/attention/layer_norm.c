/* layer_norm: rows of mean 0 and variance 1, and the gradient through both.
 *
 * n = (x - mean) / sqrt(variance + eps), y = weight n + bias. The variance divides by width. If
 * x[j] moves, so do the mean and the variance, and with them the whole row. With g = weight dy:
 *
 *     dx = (g - mean of g - n * mean of (g n)) / sqrt(variance + eps)
 *
 * Shapes: x, dy, dx (rows,width), weight, dweight, dbias (width). Backward adds.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: dy is 1 everywhere and weight is 1. What is dx? */
#include <math.h>

void layer_norm_backward(int rows, int width, double eps, const double *x, const double *weight, const double *dy,
                         double *dx, double *dweight, double *dbias)
{
    for (int i = 0; i < rows; i++, x += width, dy += width, dx += width) {
        double mean = 0, variance = 0, mean_g = 0, mean_gn = 0;
        for (int j = 0; j < width; j++) {
            mean += x[j] / width;
        }
        for (int j = 0; j < width; j++) {
            variance += (x[j] - mean) * (x[j] - mean) / width;
        }
        double scale = 1 / sqrt(variance + eps);
        /* your part: n is (x[j] - mean) * scale */
        for (int j = 0; j < width; j++) {
            double n = (x[j] - mean) * scale, g = weight[j] * dy[j];
            mean_g += g / width;
            mean_gn += g * n / width;
            dweight[j] += dy[j] * n;
            dbias[j] += dy[j];
        }
        for (int j = 0; j < width; j++) {
            double n = (x[j] - mean) * scale, g = weight[j] * dy[j];
            dx[j] += (g - mean_g - n * mean_gn) * scale;
        }
        /* end of your part */
    }
}

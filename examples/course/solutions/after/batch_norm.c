/* batch_norm: channels of mean 0 and variance 1 over a batch, and the gradient through both.
 *
 * Layer norm takes its means over a row, one example. Batch norm (Ioffe and Szegedy 2015) takes
 * them over a column: the values of one channel in all examples. So the examples of a batch see
 * each other, and dx of one has terms of all.
 *
 *     n = (x - mean) / sqrt(variance + eps), y = weight n + bias
 *     dx = weight (dy - mean of dy - n * mean of (dy n)) / sqrt(variance + eps)
 *
 * All means are over the batch, and the variance divides by batch. Each channel has one weight and
 * one bias.
 *
 * Shapes: x, dy, dx (batch,channels), weight, dweight, dbias (channels). Backward adds.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: a batch of one example. What is dx, and what does it learn? */
#include <math.h>

void batch_norm_backward(int batch, int channels, double eps, const double *x, const double *weight, const double *dy,
                         double *dx, double *dweight, double *dbias)
{
    for (int c = 0; c < channels; c++) {
        /* your part: channel c has the values x[i * channels + c] */
        double mean = 0, variance = 0, sum = 0, sum_n = 0;
        for (int i = 0; i < batch; i++) {
            mean += x[i * channels + c] / batch;
        }
        for (int i = 0; i < batch; i++) {
            variance += (x[i * channels + c] - mean) * (x[i * channels + c] - mean) / batch;
        }
        double scale = 1 / sqrt(variance + eps);
        for (int i = c; i < batch * channels; i += channels) {
            sum += dy[i];
            sum_n += dy[i] * (x[i] - mean) * scale;
        }
        for (int i = c; i < batch * channels; i += channels) {
            dx[i] += weight[c] * (dy[i] - sum / batch - (x[i] - mean) * scale * sum_n / batch) * scale;
        }
        dweight[c] += sum_n;
        dbias[c] += sum;
        /* end of your part */
    }
}

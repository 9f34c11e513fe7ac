/* grouped_queries: several heads of queries share one head of keys and values.
 *
 * A model that writes a text keeps the keys and values of all its tokens. With fewer heads of them
 * this memory is smaller (Ainslie et al. 2023). heads is a multiple of key_heads, and neighbors
 * share: the first heads / key_heads heads of queries use the first head of keys and values, the
 * next ones the second, and so on. `attend` below is complete: the causal attention of one head.
 *
 * In backward, a head of values gets a gradient from each head that has used it. The gradient of
 * value j has weights[i,j] dy[i] for each token i.
 *
 * Shapes: q, y, dy (heads,time,width), k, v, dv (key_heads,time,width), weights (heads,time,time).
 * Backward adds to dv; weights are as forward left them.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: 8 heads of queries, and 2 of keys. Which head of keys does head 5 use? Count from 0. */
#include <math.h>
#include <string.h>

/* One head: q, k, v, y (time,width), weights (time,time), which are 0 for later tokens. */
static void attend(int time, int width, const double *q, const double *k, const double *v, double *weights, double *y)
{
    for (int i = 0; i < time; i++, q += width, y += width, weights += time) {
        double max = -INFINITY, sum = 0;
        memset(weights, 0, (size_t)time * sizeof *weights);
        memset(y, 0, (size_t)width * sizeof *y);
        for (int j = 0; j <= i; j++) {
            for (int c = 0; c < width; c++) {
                weights[j] += q[c] * k[j * width + c] / sqrt(width);
            }
            max = fmax(max, weights[j]);
        }
        for (int j = 0; j <= i; j++) {
            weights[j] = exp(weights[j] - max);
            sum += weights[j];
        }
        for (int j = 0; j <= i; j++) {
            weights[j] /= sum;
            for (int c = 0; c < width; c++) {
                y[c] += weights[j] * v[j * width + c];
            }
        }
    }
}

void grouped_attention(int heads, int key_heads, int time, int width, const double *q, const double *k, const double *v,
                       double *weights, double *y)
{
    /* your part: call attend for each head */
    (void)attend; /* delete this line */
    /* end of your part */
}

void values_backward(int heads, int key_heads, int time, int width, const double *weights, const double *dy, double *dv)
{
    for (int h = 0; h < heads; h++, weights += time * time, dy += time * width) {
        /* your part: what head h adds to dv */
        /* end of your part */
    }
}

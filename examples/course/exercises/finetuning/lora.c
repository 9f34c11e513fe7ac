/* lora: train a few numbers beside a frozen matrix (Hu et al. 2021).
 *
 * A linear layer keeps its weight w. Beside it go two thin matrices, a and b: y = w x + scale b (a
 * x), where scale is alpha / rank. b begins with zeros, so the layer begins as it was. Only a and
 * b are trained: of a layer of 768 by 768, with rank 8, 2 percent.
 *
 * Shapes: x (in), w (out,in), a (rank,in), b (out,rank), h (rank), y (out). Backward adds to da
 * and db; h is a x, as forward left it.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: b is 0 at first. Which of the two gradients is 0 in the first step? */
void lora_forward(int in, int out, int rank, double alpha, const double *x, const double *w, const double *a,
                  const double *b, double *h, double *y)
{
    /* your part: h, and then y */
    /* end of your part */
}

void lora_backward(int in, int out, int rank, double alpha, const double *x, const double *a, const double *b,
                   const double *h, const double *dy, double *da, double *db)
{
    (void)a;
    /* your part: db[o,r] has dy[o] h[r]; da[r,i] has x[i] times the sum over o of dy[o] b[o,r] */
    /* end of your part */
}

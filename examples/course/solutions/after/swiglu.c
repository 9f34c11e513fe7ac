/* swiglu: values that are multiplied by a gate (Shazeer 2020).
 *
 * The small network of a block has two linear layers, and GELU between them. Llama and its
 * relatives have three layers: two of them read the same row, and return `gate` and `up`; the
 * third one reads y. A gate near 0 lets nothing of `up` pass.
 *
 *     y = silu(gate) up,  silu(g) = g sigmoid(g),  sigmoid(g) = 1 / (1 + e^-g)
 *
 * The derivative of sigmoid is sigmoid (1 - sigmoid). That of silu is yours: g is in it twice.
 *
 * Shapes: all arrays (count). Backward adds to dgate and dup.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: gate is 0 everywhere. Which gradient is 0, dgate or dup? */
#include <math.h>

void swiglu(int count, const double *gate, const double *up, double *y)
{
    for (int i = 0; i < count; i++) {
        /* your part */
        y[i] = gate[i] / (1 + exp(-gate[i])) * up[i];
        /* end of your part */
    }
}

void swiglu_backward(int count, const double *gate, const double *up, const double *dy, double *dgate, double *dup)
{
    for (int i = 0; i < count; i++) {
        /* your part */
        double sigmoid = 1 / (1 + exp(-gate[i]));
        dgate[i] += dy[i] * up[i] * sigmoid * (1 + gate[i] * (1 - sigmoid));
        dup[i] += dy[i] * gate[i] * sigmoid;
        /* end of your part */
    }
}

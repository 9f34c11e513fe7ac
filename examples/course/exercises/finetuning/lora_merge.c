/* lora_merge: after training the two thin matrices are added to the weight, and nothing is left of
 * them.
 *
 * y = w x + scale b (a x) = (w + scale b a) x. The merged layer gives the same results, and costs
 * no more than before. If the weight is kept elsewhere, or a and b are subtracted again, several
 * such changes can be exchanged.
 *
 * Shapes: w (out,in), a (rank,in), b (out,rank): w += sign * alpha / rank * b a. sign is 1 to
 * merge, -1 to undo.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: is w after merging and undoing exactly what it was, to the last bit? */
void lora_merge(int in, int out, int rank, double alpha, double sign, const double *a, const double *b, double *w)
{
    /* your part */
    /* end of your part */
}

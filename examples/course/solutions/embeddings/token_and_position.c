/* token_and_position: a token's vector is the sum of two rows, one for the word and one for its
 * place.
 *
 * y[b,t,:] = tokens[ids[b,t],:] + positions[t,:]. A sum hands its gradient on as it is: to both
 * tables the whole dy, not half of it. Each position is used by every sentence of the batch, so
 * its row gets the sum over the batch.
 *
 * Shapes: ids (batch,time), dy (batch,time,width) -> dtokens (rows,width), dpositions
 * (time,width); backward adds.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: a batch of 8 sentences, dy is 1 everywhere. What is the gradient of position 0? */
void embed_backward(int batch, int time, int width, const int *ids, const double *dy, double *dtokens,
                    double *dpositions)
{
    for (int b = 0; b < batch; b++) {
        for (int t = 0; t < time; t++) {
            const double *from = dy + (b * time + t) * width;
            /* your part: add the row `from` to a row of each table */
            for (int j = 0; j < width; j++) {
                dtokens[ids[b * time + t] * width + j] += from[j];
                dpositions[t * width + j] += from[j];
            }
            /* end of your part */
        }
    }
}

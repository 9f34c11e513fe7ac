/* padding: sentences of a batch have different lengths, and the short ones are filled with a
 * padding id.
 *
 * The padding is no word: its row must not learn. So backward leaves it out, and the row keeps the
 * value that it has, mostly zeros. A table without padding passes -1.
 *
 * Shapes: ids (count), dy (count,width) -> dtable (rows,width), to which backward adds.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: half of the ids of a batch are padding. What does the gradient of the padding row look
 * like? */
void padded_backward(int width, int count, const int *ids, int padding, const double *dy, double *dtable)
{
    for (int i = 0; i < count; i++) {
        /* your part: as for the lookup's gradient, without the padding */
        for (int j = 0; j < width; j++) {
            dtable[ids[i] * width + j] += dy[i * width + j];
        }
        /* end of your part */
    }
}

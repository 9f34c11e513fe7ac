/* ignored_targets: answers of different lengths in one batch.
 *
 * A batch is a rectangle, so short texts are filled with a padding id. The targets are the text
 * one token later, as always, and the first padding id is a target, too: it is the end of the
 * text, which the model must learn. All later padding is no target: -100 tells the loss to leave
 * it out.
 *
 * Each text gets one padding id at its end; the longest then decides the width, which is that
 * length minus 1.
 *
 * Shapes: lengths (batch), ids (all texts, one after another) -> inputs, targets (batch,width).
 * Returns the width.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: two texts, 5 6 and 7, padding 0. What are the targets? */
int collate(int batch, const int *lengths, const int *ids, int padding, int *inputs, int *targets)
{
    int width = 0;
    for (int b = 0; b < batch; b++) {
        width = lengths[b] > width ? lengths[b] : width;
    }
    for (int b = 0; b < batch; b++) {
        for (int i = 0; i < width; i++) {
            /* your part: the input and the target at place i of text b, whose ids begin at `ids` */
            inputs[b * width + i] = i < lengths[b] ? ids[i] : padding;
            targets[b * width + i] = i + 1 < lengths[b] ? ids[i + 1] : i + 1 == lengths[b] ? padding : -100;
            /* end of your part */
        }
        ids += lengths[b];
    }
    return width;
}

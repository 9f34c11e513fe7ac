/* windows: the examples from which a model learns.
 *
 * A token is a word or a part of one, as a number: its id. A window of the text is an input, and
 * its target is the same window one token later: for each place the model predicts the next token.
 * The next window begins `stride` tokens further; this stride counts tokens of the text, not
 * numbers in memory. The last window is the last one whose target is complete.
 *
 * Shapes: text (count) -> inputs and targets (windows,context). Returns the number of windows.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: 10 tokens, context 4, stride 4. How many windows? */
int windows(int count, const int *text, int context, int stride, int *inputs, int *targets)
{
    int made = 0;
    /* your part */
    /* end of your part */
    return made;
}

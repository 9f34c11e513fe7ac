/* words: a text becomes a list of words and punctuation marks.
 *
 * A model reads numbers, so the text is cut first. Blanks separate words and disappear. Each of ,
 * . ; : ? ! ends a word and is a word of its own.
 *
 * Shapes: text, which ends with 0 -> begins and lengths (count): where each word begins, and its
 * length. Returns the count; the arrays have room for all.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: how many words has "Hello, world. Is this-- a test?" */
#include <string.h>

int split(const char *text, int *begins, int *lengths)
{
    int count = 0;
    for (int i = 0; text[i] != 0;) {
        /* your part: skip blanks; a mark is a word; else a word ends before a blank, a mark, or the end */
        if (text[i] == ' ') {
            i++;
            continue;
        }
        begins[count] = i++;
        if (strchr(",.;:?!", text[i - 1]) == NULL) {
            while (text[i] != 0 && strchr(" ,.;:?!", text[i]) == NULL) {
                i++;
            }
        }
        lengths[count] = i - begins[count];
        count++;
        /* end of your part */
    }
    return count;
}

/* alibi: the further away a key is, the less it counts.
 *
 * Nothing is added to the tokens. Instead each attention score gets a penalty that is proportional
 * to the distance. The heads differ in their slopes, 2^(-8/heads), 2^(-16/heads), ..., so that
 * some look near and some far.
 *
 * Shapes: bias (heads,time,time): bias[h,i,j] = -slope[h] (i - j) for j <= i, and 0 for the keys
 * behind the query, which a mask hides later. slope[h] = 2^(-8 (h + 1) / heads).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: there are 8 heads. What is the slope of the first, and of the last? */
#include <math.h>

void alibi(int heads, int time, double *bias)
{
    for (int h = 0; h < heads; h++) {
        /* your part: the slope of this head, and its matrix at bias + h * time * time */
        /* end of your part */
    }
}

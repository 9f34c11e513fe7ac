/* merge: each occurrence of a pair becomes one new token.
 *
 * The list is read from left to right. Where the pair stands, the new id is written, and both old
 * ones are done. In 1 1 1 the first two are merged, and the third remains. The result fits into
 * the same array, since it only gets shorter.
 *
 * Shapes: ids (count) -> ids (the number that is returned).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: (1,1) becomes 9. What becomes of 1 1 1 1 1? */
int merge(int count, int *ids, int left, int right, int new_id)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        /* your part: write one id to ids[kept], and go on behind what was read */
        if (i + 1 < count && ids[i] == left && ids[i + 1] == right) {
            ids[kept++] = new_id;
            i++;
        } else {
            ids[kept++] = ids[i];
        }
        /* end of your part */
    }
    return kept;
}

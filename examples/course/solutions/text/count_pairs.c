/* count_pairs: the first step of byte-pair encoding.
 *
 * A vocabulary is learned from a text: the most frequent pair of neighbors becomes a new token,
 * again and again. If two pairs are equally frequent, some rule must decide, or two runs would
 * learn two vocabularies. Here the smaller left id wins, and then the smaller right id.
 *
 * Shapes: ids (count) -> the pair, in *left and *right. Returns how often it occurs; 0 for less
 * than two ids.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: how often does the pair (1,1) occur in 1 1 1? */
int most_frequent_pair(int count, const int *ids, int *left, int *right)
{
    int best = 0;
    *left = *right = -1;
    for (int i = 0; i + 1 < count; i++) {
        /* your part: count the pair ids[i], ids[i + 1] in the whole list; keep it if it is better */
        int uses = 0;
        for (int j = 0; j + 1 < count; j++) {
            uses += ids[j] == ids[i] && ids[j + 1] == ids[i + 1];
        }
        if (uses > best || (uses == best && (ids[i] < *left || (ids[i] == *left && ids[i + 1] < *right)))) {
            best = uses;
            *left = ids[i];
            *right = ids[i + 1];
        }
        /* end of your part */
    }
    return best;
}

/* encode: a text becomes tokens, with the merges that were learned.
 *
 * The merges are numbered in the order in which they were learned; this number is the rank. Of all
 * pairs in the text the one with the lowest rank is merged, everywhere, and then the next, until
 * no pair of the list is left. Left to right would give other tokens than the training had.
 *
 * Shapes: ids (count) -> ids (the number that is returned). Merge r is (merges[2 r], merges[2 r +
 * 1]), and its new id is first + r.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: merges (b,c), (a,b). What is the first token of "abc"? */

/* Replaces each (left,right) by new_id, from left to right. Returns the number of ids that remain. */
static int merge(int count, int *ids, int left, int right, int new_id)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int is_pair = i + 1 < count && ids[i] == left && ids[i + 1] == right;
        ids[kept++] = is_pair ? new_id : ids[i];
        i += is_pair;
    }
    return kept;
}

/* Returns the rank of a pair, or merge_count if it is not in the list. */
static int rank_of(int merge_count, const int *merges, int left, int right)
{
    int rank = 0;
    while (rank < merge_count && (merges[2 * rank] != left || merges[2 * rank + 1] != right)) {
        rank++;
    }
    return rank;
}

int encode(int count, int *ids, int merge_count, const int *merges, int first)
{
    /* your part: find the lowest rank of all neighbors, merge this pair, and repeat until there is none */
    (void)merge, (void)rank_of;
    return count;
    /* end of your part */
}

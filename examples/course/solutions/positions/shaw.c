/* shaw: attention scores that know the distance between query and key (Shaw et al. 2018).
 *
 * Besides the keys there is a table with a row for each distance, from -reach to reach. Larger
 * distances use the last row. The score of query i and key j is q_i k_j + q_i r, where r is the
 * row of the distance j - i.
 *
 * Shapes: q, k (time,width), table (2 reach + 1,width) -> scores (time,time).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: reach is 2, so the table has 5 rows. Which row belongs to query 0 and key 7? */
void scores(int time, int width, int reach, const double *q, const double *k, const double *table, double *y)
{
    for (int i = 0; i < time; i++) {
        for (int j = 0; j < time; j++) {
            /* your part: the row of the distance, and the sum of two products */
            int distance = j - i < -reach ? -reach : j - i > reach ? reach : j - i;
            const double *row = table + (distance + reach) * width;
            double sum = 0;
            for (int c = 0; c < width; c++) {
                sum += q[i * width + c] * (k[j * width + c] + row[c]);
            }
            y[i * time + j] = sum;
            /* end of your part */
        }
    }
}

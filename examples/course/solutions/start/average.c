/* average: the first exercise. Fill in the marked part, and save the file: `course` compiles it
 * and checks it.
 *
 * The mean of some numbers is their sum, divided by how many there are. A loss is usually such a
 * mean, and its gradient is divided by the same number.
 *
 * Shapes: x (count) -> a number.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: one of four numbers grows by 1. By how much does the mean grow? */
double average(int count, const double *x)
{
    /* your part: return the mean of x[0], x[1], ..., x[count - 1] */
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += x[i];
    }
    return sum / count;
    /* end of your part */
}

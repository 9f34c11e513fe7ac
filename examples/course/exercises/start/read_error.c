/* read_error: the largest step between neighbors in a list of numbers.
 *
 * This program has a mistake. It reads memory that does not belong to it, and would often seem to
 * work. Here the compiler adds checks to each read and write (AddressSanitizer), and the program
 * ends at the first bad one. Save the file once without a change, and read what is printed: it
 * names the kind of mistake, and the line.
 *
 * Shapes: x (count) -> a number.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: how many steps are there between 5 numbers? */
#include <math.h>

double largest_step(int count, const double *x)
{
    double largest = 0;
    /* your part: correct the loop */
    for (int i = 0; i < count; i++) {
        double step = fabs(x[i + 1] - x[i]);
        largest = step > largest ? step : largest;
    }
    /* end of your part */
    return largest;
}

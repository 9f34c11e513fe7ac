/* used_twice: the backward of y = a * b, for any a and b, also if they are one array.
 *
 * x * x calls the product with the same x twice. Then da and db are the same memory, and both
 * gradients belong into it. A backward that adds, and reads nothing that it has written, is right
 * in this case as well.
 *
 * Shapes: a, b, dy, da, db (count).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: what would `da[i] = ...; db[i] = ...;` give for x * x, instead of 2 x dy? */
void mul_backward(int count, const double *a, const double *b, const double *dy, double *da, double *db)
{
    for (int i = 0; i < count; i++) {
        /* your part */
        da[i] += dy[i] * b[i];
        db[i] += dy[i] * a[i];
        /* end of your part */
    }
}

/* matmul_backward: the backward of y = a b, with two matrix products.
 *
 * dy, da and db are the gradients of y, a and b: how much the loss, the last result, grows if one
 * of their values grows. b^T is b with rows and columns exchanged.
 *
 * y[i,j] is the sum of a[i,p] b[p,j]. So a[i,p] has a part in the whole row i of y, with the
 * factors b[p,j]; and b[p,j] in the whole column j of y, with the factors a[i,p]. In matrices: da
 * = dy b^T, and db = a^T dy. The shapes leave no other choice.
 *
 * Shapes: a, da (n,k), b, db (k,m), dy (n,m). Backward adds to da and db.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: forward needed n k m multiplications. How many does backward need? */
void matmul_backward(int n, int k, int m, const double *a, const double *b, const double *dy, double *da, double *db)
{
    for (int i = 0; i < n; i++) {
        for (int p = 0; p < k; p++) {
            for (int j = 0; j < m; j++) {
                /* your part: one term of da[i,p], and one of db[p,j] */
                da[i * k + p] += dy[i * m + j] * b[p * m + j];
                db[p * m + j] += a[i * k + p] * dy[i * m + j];
                /* end of your part */
            }
        }
    }
}

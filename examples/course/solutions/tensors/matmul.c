/* matmul: rows times columns.
 *
 * Nearly all of a model's time is spent here. Each value of the product is a sum of products: of
 * row i of a, and column j of b.
 *
 * Shapes: a (n,k), b (k,m) -> y (n,m), y[i,j] = sum over p of a[i,p] b[p,j].
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: a is (4,768), and b is (768,3). How many multiplications does the product need? */
void matmul(int n, int k, int m, const double *a, const double *b, double *y)
{
    /* your part: y is uninitialized, so each of its values is written */
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < m; j++) {
            double sum = 0;
            for (int p = 0; p < k; p++) {
                sum += a[i * k + p] * b[p * m + j];
            }
            y[i * m + j] = sum;
        }
    }
    /* end of your part */
}

/* central_differences: the derivative of any function, by computing it twice.
 *
 * The slope between x - eps and x + eps is nearly that at x; the mistake is of the size eps^2.
 * With one side only it is of the size eps. Too slow for training, it is the best check of a
 * backward: it knows nothing of your formulas.
 *
 * Shapes: x (count) -> a number, the derivative of f for x[i]. x has its old values afterwards.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: f(x) = x^2 at x = 3, eps = 1. What does (f(4) - f(2)) / 2 give? And (f(4) - f(3)) / 1? */
double derivative(double (*f)(int count, const double *x), int count, double *x, int i, double eps)
{
    /* your part: f(count, x) computes the function */
    return 0;
    /* end of your part */
}

/* scalar_tape: a whole autograd engine, for single numbers.
 *
 * While a program computes, a tape writes down each step: what was done, and to which earlier
 * results. The gradient of a number a says how much the last result grows if a grows a little: 2
 * means twice as much. Backward reads the tape from its end. The last result has the gradient 1.
 * Each step hands its gradient on to the two numbers that it used: a sum gives it to both, a
 * product gives to each the gradient times the other number.
 *
 * Shapes: all arrays have `count` entries. Step i is '+' or '*' of the results left[i] and
 * right[i], which are earlier ones, or 'x', a number that was given, whose left[i] and right[i]
 * mean nothing. values[i] is its result. `gradients` is 0 at first.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: y = a * a with a = 3. What is the gradient of a? */
void tape_backward(int count, const char *steps, const int *left, const int *right, const double *values,
                   double *gradients)
{
    gradients[count - 1] = 1;
    /* your part: visit the steps from the last to the first */
    /* end of your part */
}

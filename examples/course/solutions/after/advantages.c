/* advantages: which answers of a group are better than the others.
 *
 * In GRPO (Shao et al. 2024) a model answers each question several times, and each answer gets a
 * reward, such as 1 if it is right. Answers with a positive advantage are made more probable, the
 * others less. The group itself says what can be expected, so no second model has to learn it:
 *
 *     advantage = (reward - mean) / (deviation + eps)
 *
 * The deviation is the root of the sum of (reward - mean)^2 / (size - 1). Where all rewards are
 * equal it is 0, the group teaches nothing, and eps keeps 0 / 0 away.
 *
 * Shapes: rewards, advantages (groups,size); size is 2 or more.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: in one group 1 of 8 answers is right, in another one 7 of 8. In which group does a right
 * answer have the larger advantage? */
#include <math.h>

void group_advantages(int groups, int size, double eps, const double *rewards, double *advantages)
{
    /* your part */
    for (int g = 0; g < groups; g++) {
        const double *from = rewards + g * size;
        double mean = 0, variance = 0;
        for (int i = 0; i < size; i++) {
            mean += from[i] / size;
        }
        for (int i = 0; i < size; i++) {
            variance += (from[i] - mean) * (from[i] - mean) / (size - 1);
        }
        for (int i = 0; i < size; i++) {
            advantages[g * size + i] = (from[i] - mean) / (sqrt(variance) + eps);
        }
    }
    /* end of your part */
}

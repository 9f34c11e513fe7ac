/* dpo: learn from pairs of answers, of which one was preferred (Rafailov et al. 2023).
 *
 * The log-probability of an answer is the sum of those of its tokens. A copy of the model stays as
 * it was, the reference. The margin of a pair says how much further the model has moved towards
 * the chosen answer than towards the rejected one:
 *
 *     margin = (chosen - reference_chosen) - (rejected - reference_rejected)
 *     loss = mean over the pairs of -log sigmoid(beta margin)
 *
 * With z = beta margin, -log sigmoid(z) is log(1 + e^-z), also where e^-z is too large for a
 * double. Its derivative is sigmoid(z) - 1 = -1 / (1 + e^z). Forward keeps the margins; backward
 * multiplies by dloss, and adds to dchosen and drejected. The reference is not trained.
 *
 * Shapes: all arrays (count), a log-probability or a margin for each pair.
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: the training begins, and the model still equals its reference. What is the loss? */
#include <math.h>

double dpo_loss(int count, double beta, const double *chosen, const double *rejected, const double *reference_chosen,
                const double *reference_rejected, double *margins)
{
    double loss = 0;
    for (int i = 0; i < count; i++) {
        /* your part */
        double margin = (chosen[i] - reference_chosen[i]) - (rejected[i] - reference_rejected[i]);
        double z = beta * margin;
        margins[i] = margin;
        loss += (fmax(-z, 0) + log(1 + exp(-fabs(z)))) / count;
        /* end of your part */
    }
    return loss;
}

void dpo_backward(int count, double beta, const double *margins, double dloss, double *dchosen, double *drejected)
{
    for (int i = 0; i < count; i++) {
        /* your part */
        double dmargin = -dloss * beta / (1 + exp(beta * margins[i])) / count;
        dchosen[i] += dmargin;
        drejected[i] -= dmargin;
        /* end of your part */
    }
}

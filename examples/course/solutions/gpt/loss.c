/* loss: cross-entropy, the number that training makes small, and its gradient.
 *
 * The model returns a logit for each token of the vocabulary. Their softmax is a probability, and
 * the loss is -log of the probability of the right token, as a mean over all places. The gradient
 * is short: the probabilities, minus 1 at the right token, divided by the number of places. All
 * this times dloss, the gradient that arrives at the loss. Backward adds to dlogits.
 *
 * Shapes: logits, dlogits (count,classes), targets (count).
 *
 * The rules: functions of your own are static, variables local or const, headers <math.h>, <stdbool.h>,
 * <stdint.h>, <stdio.h>, <stdlib.h> or <string.h>; no pragma, #line, asm or attribute.
 *
 * Predict: a vocabulary of 50257 tokens, and a model that has learned nothing. What is its loss? */
#include <math.h>

/* The log of the sum of e^x of a row, without overflow. */
static double log_sum_exp(int classes, const double *x)
{
    double max = x[0], sum = 0;
    for (int j = 1; j < classes; j++) {
        max = x[j] > max ? x[j] : max;
    }
    for (int j = 0; j < classes; j++) {
        sum += exp(x[j] - max);
    }
    return max + log(sum);
}

double cross_entropy(int count, int classes, const double *logits, const int *targets)
{
    double loss = 0;
    /* your part: -log softmax is log_sum_exp minus the logit */
    for (int i = 0; i < count; i++) {
        const double *row = logits + i * classes;
        loss += (log_sum_exp(classes, row) - row[targets[i]]) / count;
    }
    /* end of your part */
    return loss;
}

void cross_entropy_backward(int count, int classes, const double *logits, const int *targets, double dloss,
                            double *dlogits)
{
    /* your part */
    for (int i = 0; i < count; i++) {
        const double *row = logits + i * classes;
        double log_sum = log_sum_exp(classes, row);
        for (int j = 0; j < classes; j++) {
            double probability = exp(row[j] - log_sum);
            dlogits[i * classes + j] += dloss * (probability - (j == targets[i])) / count;
        }
    }
    /* end of your part */
}

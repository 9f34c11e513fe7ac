/* adam_log_loop: the terms that a step adds to the log of adam_log.h, for each level of the processor. */
#include "optim/adam_log.h"

typedef double vector
    __attribute__((vector_size(TG_RECENT_STEPS * sizeof(double)), aligned(sizeof(double)), may_alias));

void LEVEL(tg_adam_add_terms)(tg_recent_steps *steps, uint32_t groups, const double *weight, const double *growth,
                              double first, double correction)
{
    for (; groups > 0; groups--, steps++, weight += TG_RECENT_STEPS, growth += TG_RECENT_STEPS) {
        vector term = first * *(const vector *)weight;
        const vector distance = correction * *(const vector *)growth * *(const vector *)steps->scale - 1;
        for (int k = 0; k <= TG_ADAM_TERMS; k++) {
            *(vector *)steps->sums[k] += term;
            term *= distance;
        }
    }
}

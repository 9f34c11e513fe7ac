/* adam_log_loop: the terms that a step adds to the log of adam_log.h, for each level of the processor. */
#include "optim/adam_log.h"

typedef double sums_of_steps
    __attribute__((vector_size(TG_RECENT_STEPS * sizeof(double)), aligned(sizeof(double)), may_alias));

void LEVEL(tg_adam_add_terms)(tg_recent_steps *steps, uint32_t groups, const double *weight, const double *growth,
                              double first, double correction)
{
    for (; groups > 0; groups--, steps++, weight += TG_RECENT_STEPS, growth += TG_RECENT_STEPS) {
        sums_of_steps term = first * *(const sums_of_steps *)weight;
        const sums_of_steps distance =
            correction * *(const sums_of_steps *)growth * *(const sums_of_steps *)steps->scale - 1;
        for (int k = 0; k <= TG_ADAM_TERMS; k++) {
            *(sums_of_steps *)steps->sums[k] += term;
            term *= distance;
        }
    }
}

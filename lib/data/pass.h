/* pass (private): the draws at the beginning of a pass of a torch DataLoader (torch/utils/data, num_workers=0). */
#ifndef TG_DATA_PASS_H
#define TG_DATA_PASS_H

#include "base/random.h"

/* Draws one 64-bit number, which only workers would use. Unless `order` is NULL, draws a second one, which seeds
 * `sampler`, and fills order[0 .. count) with a permutation that `sampler` draws. */
static inline void tg_begin_pass(tg_rng *rng, tg_rng *sampler, int64_t *order, int64_t count)
{
    tg_rng_int64(rng);
    if (order) {
        tg_rng_seed(sampler, tg_rng_int64(rng));
        tg_rng_randperm(sampler, order, count);
    }
}

#endif

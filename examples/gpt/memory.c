#include "memory.h"

/* Lines fitted to the tapes of models of 1 to 12 blocks:
 *
 *                       a block   the rest
 *   without             19.3C     17.4C + 2.1V
 *   with checkpointing  1.15C     39C + 2.1V
 *
 * With checkpointing a block keeps its input, and the rest includes one block that backward computes again. Of the
 * vocabulary there are logits and their gradient. Sizes are those of the pool's blocks, up to an eighth larger than
 * what is in them. tests/examples/test_memory.c compares.
 */
double activation_floats(const tg_gpt_config *config)
{
    double L = (double)config->layers, C = (double)config->width, V = (double)config->vocabulary;
    return (config->activation_checkpointing ? 1.15 * L + 39 : 19.3 * L + 17.4) * C + 2.1 * V;
}

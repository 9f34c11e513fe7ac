/* op_multiply: a loop of multiplications and additions in registers, compiled for each level of the processor
 * (base/level.h) as the built-in products are. */
#ifndef TG_BENCH_OP_MULTIPLY_H
#define TG_BENCH_OP_MULTIPLY_H

#include <stdint.h>

/* Runs `rounds` rounds at the level in use. Returns the number of multiplications and additions of a round. */
int64_t bench_multiply(int64_t rounds);

#endif

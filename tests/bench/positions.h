/* positions: attention with each kind of relative positions beside attention without, on the same path; and bags. */
#ifndef TG_BENCH_POSITIONS_H
#define TG_BENCH_POSITIONS_H

void bench_positions(void);

#endif

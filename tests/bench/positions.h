/* positions: the times of attention with each kind of relative positions, beside attention without positions on the
 * same path; and of embedding bags. */
#ifndef TG_BENCH_POSITIONS_H
#define TG_BENCH_POSITIONS_H

void bench_positions(void);

#endif

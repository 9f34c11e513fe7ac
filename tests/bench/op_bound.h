/* op_bound: the shortest time in which this machine can do what an op has to do, measured by plain loops of the
 * benchmark: a copy of as many bytes as the op reads and writes, or its multiplications and additions in registers. */
#ifndef TG_BENCH_OP_BOUND_H
#define TG_BENCH_OP_BOUND_H

#include <stdint.h>

/* Copies bytes on threads, in parts of at least `grain`. */
void bench_copy(void *to, const void *from, int64_t bytes, int64_t grain);

/* Seconds of copying bytes / 2, which reads and writes `bytes` in total; 0 for less than a few. */
double op_copy_seconds(double bytes);

/* Seconds of this number of multiplications and additions of floats, on all threads. */
double op_multiply_seconds(double operations);

/* The clock of the benchmark of ops, in seconds: with one thread the processor time of the caller, which other
 * programs disturb less (a thread of OpenBLAS that waits for work counts as one), else the time that passes. */
double op_clock(void);

#endif

#ifndef TG_BENCH_KERNELS_H
#define TG_BENCH_KERNELS_H

/* Measures single ops, forward and backward, each beside a copy of the same bytes by memcpy. */
void bench_kernels(void);

#endif

#ifndef TG_BENCH_KERNELS_H
#define TG_BENCH_KERNELS_H

/* Measures single ops, forward and backward, each beside a copy of the same bytes by memcpy. */
void bench_kernels(void);

/* Answers a program that measures the same ops elsewhere (compare_torch.py): reads lines "NAME; PASS ROUNDS" from
 * stdin, where PASS is forward, backward or copy, and prints the seconds of each round on one line. */
int bench_serve(void);

#endif

/* adam: a dense step of Adam beside a plain loop over the same arrays. */
#ifndef TG_BENCH_ADAM_H
#define TG_BENCH_ADAM_H

void bench_adam(void);

#endif

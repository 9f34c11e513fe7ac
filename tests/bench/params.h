/* params: the times to add, find, save and load parameters, by their number. */
#ifndef TG_BENCH_PARAMS_H
#define TG_BENCH_PARAMS_H

void bench_params(void);

#endif

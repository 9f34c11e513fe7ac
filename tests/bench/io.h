/* io: the time of opening and loading a file of GPT-2's size. */
#ifndef TG_BENCH_IO_H
#define TG_BENCH_IO_H

void bench_io(void);

#endif

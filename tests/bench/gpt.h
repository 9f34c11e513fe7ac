/* gpt: a training step of the course's 124M model beside the time of its matrix products alone, and generation. */
#ifndef TG_BENCH_GPT_H
#define TG_BENCH_GPT_H

void bench_gpt(void);

#endif

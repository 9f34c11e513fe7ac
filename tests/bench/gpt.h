/* gpt: the times of generation and of a training step of the course's 124M model, beside its matrix products alone. */
#ifndef TG_BENCH_GPT_H
#define TG_BENCH_GPT_H

void bench_gpt(void);

/* Answers another program: the seconds of some steps (figure.h). */
void bench_gpt_serve(int rounds);

#endif

/* gpt: the times of generation and of a training step of the course's 124M model, beside its matrix products alone. */
#ifndef TG_BENCH_GPT_H
#define TG_BENCH_GPT_H

void bench_gpt(void);

/* Answers another program: reads lines with a number of rounds from stdin, and prints the seconds of as many training
 * steps on one line (figure.h). */
void bench_gpt_serve(void);

#endif

/* generation: the times of GPT-2 small's next token, for one text and for eight, and of a prompt. */
#ifndef TG_BENCH_GENERATION_H
#define TG_BENCH_GENERATION_H

void bench_generation(void);

/* The next token alone. */
void bench_next_token(void);

#endif

/* commands: what `gpt COMMAND` runs, and what the commands use of each other. Each command returns the exit status, and
 * everything that fails has complained. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "corpus.h"
#include "model.h"

int train(const options *o);
int eval(const options *o);
int generate(const options *o);
int tokenize(const options *o);
int info(const options *o);
int compare(const options *o);

/* ---- eval.c ---- */

typedef struct evaluation {
    double loss; /* mean over the tokens */
    int64_t tokens;
    double seconds;
} evaluation;

/* The loss on a part's first windows, which do not overlap: the same ones each time. `quiet` is a quiet tape, `batches`
 * how many at most; below 0: all. */
bool evaluate(evaluation *e, tg_tape *quiet, const tg_gpt *gpt, const part *p, int64_t batch, int64_t batches);

/* ---- generate.c ---- */

/* What of the options does not fit this model and vocabulary is found here, before the work begins. */
bool generate_check(const options *o, const tg_gpt *gpt, tg_tokenizer *bpe);

/* Continues the prompt and writes both to `file` as they come. Returns the number of new tokens, or -1. */
int64_t generate_text(FILE *file, tg_tape *quiet, const tg_gpt *gpt, tg_tokenizer *bpe, const options *o);

#endif

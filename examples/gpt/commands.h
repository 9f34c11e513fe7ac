/* commands: the functions that `gpt COMMAND` runs, and the functions that commands share. A command returns its exit
 * status. A function that fails has printed an error. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "corpus.h"

#include <tapegrad_text.h>
#include "model.h"

int train(const options *o);
int eval(const options *o);
int generate(const options *o);
int vocabulary(const options *o);
int tokenize(const options *o);
int info(const options *o);
int compare(const options *o);
int import(const options *o);
int export(const options *o);

/* ---- optimizer.c ---- */

/* Returns the optimizer of --optimizer, without weight decay of vectors; NULL after printing an error. */
tg_optim *optimizer_make(const options *o, tg_params *params);

/* ---- eval.c ---- */

typedef struct evaluation {
    /* mean over all tokens */
    double loss;
    int64_t tokens;
    double seconds;
} evaluation;

/* Measures the loss on the first `batches` batches of a part, or on all of them if `batches` is negative. The windows
 * are in order and do not overlap. `quiet` is a tape from quiet_tape_new. */
bool evaluate(evaluation *e, tg_tape *quiet, const model *m, const part *p, int64_t batch, int64_t batches);

/* ---- generate.c ---- */

/* Checks the options that depend on the model or its vocabulary: --vocab, --top-k, --prompt and --chat. */
bool generate_check(const options *o, const model *m, tg_tokenizer *bpe);

/* Writes the prompt and its continuation to `file`, token by token. Returns the number of new tokens, or -1. */
int64_t generate_text(FILE *file, tg_tape *quiet, const model *m, tg_tokenizer *bpe, const options *o);

#endif

/* options: what the command line of each command asks for. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* Bits, because an option may belong to several. */
typedef enum command { TRAIN = 1, EVAL = 2, GENERATE = 4, TOKENIZE = 8, INFO = 16, COMPARE = 32 } command;

#define AS_CONFIGURED (-1) /* a size that was not given */

typedef struct options {
    /* the model: a configuration by name and what differs from it, or a folder that `gpt train` wrote */
    const char *config, *model, *position;
    int64_t layers, heads, width, context;
    double dropout;
    bool tied, untied;

    /* the text: a file and its vocabulary, or token files */
    const char *text, *vocab, *tokens, *val_tokens;
    int64_t vocab_size;

    /* training */
    int64_t steps, batch, accumulate, stride, warmup, seed, threads;
    double lr, weight_decay, clip;
    int64_t eval_every, eval_batches, sample_every;
    const char *out;

    /* generation */
    const char *prompt;
    int64_t max_new_tokens, top_k;
    double temperature, top_p;
    bool greedy, end_of_text, no_cache;

    bool names;

    /* what each op did, in a file; and how two such files are compared */
    const char *ledger, *with;
    double tolerance;
} options;

/* Reads the options of a command from argv[1] on. Returns -1 to go on, or the exit status: 0 after --help, 2 after an
 * error, which is printed. */
int options_read(options *o, command which, const char *introduction, int argc, char **argv);

#endif

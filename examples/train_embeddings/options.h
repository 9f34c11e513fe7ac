/* options: the command line. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    /* vocab is NULL if the vocabulary is trained on the text */
    const char *text, *vocab, *out;
    int64_t vocab_size, dim, context, batch, steps, seed;
    double lr, momentum;
    /* adamw, adam or sgd */
    const char *optimizer;
    /* whether the rows of tables make up steps later (tapegrad/optim.h) */
    bool deferred;
    bool reproducible;
    /* 0: all processors */
    int64_t threads;
    /* whether the run in `out` continues, and whether a trained model there may be replaced */
    bool resume, overwrite;
} options;

/* Parses the command line. Returns -1 if the program continues, or else its exit status: 0 after --help, 2 after
 * printing an error. */
int options_read(options *o, int argc, char **argv);

#endif

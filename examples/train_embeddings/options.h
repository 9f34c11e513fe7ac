/* options: what the command line asks for. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct options {
    const char *text, *vocab, *out; /* vocab NULL: train one on the text */
    int64_t vocab_size, dim, context, batch, steps, seed;
    double lr;
    const char *optimizer; /* adamw, adam or sgd */
    int64_t threads;       /* 0: all processors */
} options;

/* Reads the command line. Returns -1 to go on, or the exit status: 0 after --help, 2 after an error, which is
 * printed. */
int options_read(options *o, int argc, char **argv);

#endif

/* op_bench: the benchmark of every op of the headers: `bench --ops`, `bench --list`. */
#ifndef TG_BENCH_OP_BENCH_H
#define TG_BENCH_OP_BENCH_H

#include <stdbool.h>

typedef struct op_options {
    /* a POSIX regular expression that a name must match; NULL: all rows */
    const char *names;
    /* the name of a shape (op_inputs.c); NULL: the first one */
    const char *shape;
    bool f64;
    /* lists the rows, their ops and, with bench_json, their inputs, and runs none */
    bool list;
    /* answers to the names of rows that it reads, each on a line, with their figures */
    bool serve;
} op_options;

/* Returns the exit status. */
int op_bench(const op_options *options);

#endif

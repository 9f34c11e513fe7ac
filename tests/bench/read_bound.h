/* read_bound: a loop that reads some memory once, on threads: the bound of what has to read its weights. */
#ifndef TG_BENCH_READ_BOUND_H
#define TG_BENCH_READ_BOUND_H

#include <stdint.h>

typedef struct read_bound {
    uint64_t *values;
    int64_t count;
} read_bound;

read_bound read_bound_new(double bytes);
void read_bound_free(read_bound *read);

/* Reads it once. `context` is a read_bound. */
void read_bound_run(void *context);

#endif

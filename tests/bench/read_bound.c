#include "bench/read_bound.h"

#include <stdatomic.h>
#include <string.h>

#include <tapegrad/extend.h>
#include <tapegrad/op.h>

#include "bench/figure.h"

read_bound read_bound_new(double bytes)
{
    read_bound read = {.count = (int64_t)(bytes / sizeof *read.values)};
    read.values = bench_must(tg_alloc((uint64_t)read.count + 1, sizeof *read.values));
    memset(read.values, 1, (size_t)read.count * sizeof *read.values);
    return read;
}

void read_bound_free(read_bound *read)
{
    tg_free(read->values);
}

/* The sum of all sums: if nothing used them, the compiler would remove the loop. */
static atomic_ullong total;

static void read_part(void *context, int64_t begin, int64_t end)
{
    const read_bound *read = context;
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; i++) {
        sum += read->values[i];
    }
    atomic_fetch_add(&total, sum);
}

void read_bound_run(void *context)
{
    read_bound *read = context;
    tg_parallel_for(read->count, 1 << 16, read_part, read);
}

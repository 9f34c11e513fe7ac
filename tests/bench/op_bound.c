#include "bench/op_bound.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tapegrad.h>

#include "bench/figure.h"
#include "bench/op_multiply.h"

enum { TURNS = 5 };

double op_clock(void)
{
    struct timespec now;
    clock_gettime(tg_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

typedef struct copy {
    char *to;
    const char *from;
} copy;

static void copy_part(void *context, int64_t begin, int64_t end)
{
    const copy *c = context;
    memcpy(c->to + begin, c->from + begin, (size_t)(end - begin));
}

void bench_copy(void *to, const void *from, int64_t bytes, int64_t grain)
{
    tg_parallel_for(bytes, grain, copy_part, &(copy){to, from});
}

double op_copy_seconds(double bytes)
{
    size_t size = (size_t)(bytes / 2);
    if (size < 64) {
        return 0;
    }
    char *from = bench_must(malloc(size)), *to = bench_must(malloc(size));
    memset(from, 1, size);
    memset(to, 1, size);
    /* small ones together: a call of the clock takes as long as a copy of some KiB */
    int repeats = size < (1 << 16) ? (1 << 16) / (int)size : 1;
    double times[TURNS];
    for (int turn = -1; turn < TURNS; turn++) {
        double start = op_clock();
        for (int i = 0; i < repeats; i++) {
            bench_copy(to, from, (int64_t)size, 1 << 16);
        }
        if (turn >= 0) {
            times[turn] = (op_clock() - start) / repeats;
        }
    }
    free(from);
    free(to);
    return bench_median(times, TURNS);
}

static void multiply_part(void *context, int64_t begin, int64_t end)
{
    (void)context;
    for (int64_t i = begin; i < end; i++) {
        bench_multiply(1000);
    }
}

double op_multiply_seconds(double operations)
{
    static double rate;
    if (rate == 0) {
        const int64_t parts = (int64_t)1000 * tg_threads();
        double times[TURNS];
        for (int turn = 0; turn < TURNS; turn++) {
            double start = op_clock();
            tg_parallel_for(parts, 1000, multiply_part, NULL);
            times[turn] = op_clock() - start;
        }
        rate = (double)parts * 1000 * (double)bench_multiply(0) / bench_median(times, TURNS);
    }
    return operations / rate;
}

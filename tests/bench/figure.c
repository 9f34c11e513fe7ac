#include "bench/figure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <tapegrad.h>

#define MAX_ROUNDS 1001

bool bench_json, bench_quick;

double bench_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

double bench_measure(const bench_figure *f)
{
    static double times[MAX_ROUNDS], bounds[MAX_ROUNDS];
    int fifth = f->rounds / 5, rounds = !bench_quick ? f->rounds : fifth < 5 ? 5 : fifth;
    /* two rounds to warm up */
    for (int round = -2; round < rounds; round++) {
        double start = bench_seconds();
        f->run(f->context);
        double middle = bench_seconds();
        if (f->bound) {
            f->bound(f->bound_context ? f->bound_context : f->context);
        }
        double end = bench_seconds();
        if (round >= 0) {
            times[round] = middle - start;
            bounds[round] = end - middle;
        }
    }
    double time = bench_median(times, rounds), bound = f->bound ? bench_median(bounds, rounds) : 0;
    if (bench_json) {
        printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"", f->name, time * f->scale, f->unit);
        if (f->bound) {
            printf(", \"bound\": \"%s\", \"bound_value\": %.6g, \"ratio\": %.4g", f->bound_name, bound * f->scale,
                   bound / time);
        }
        printf(", \"threads\": %d}\n", tg_threads());
    } else if (f->bound) {
        printf("%-44s %10.3f %-3s  %s %.3f %s: %.2f of the bound\n", f->name, time * f->scale, f->unit, f->bound_name,
               bound * f->scale, f->unit, bound / time);
    } else {
        printf("%-44s %10.3f %s\n", f->name, time * f->scale, f->unit);
    }
    fflush(stdout);
    return time;
}

void bench_value(const char *name, double value, const char *unit)
{
    if (bench_json) {
        printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", \"threads\": %d}\n", name, value, unit,
               tg_threads());
    } else {
        printf("%-44s %10.3f %s\n", name, value, unit);
    }
    fflush(stdout);
}

void *bench_must(void *object)
{
    if (!object) {
        fprintf(stderr, "bench: an object could not be created\n");
        exit(1);
    }
    return object;
}

void bench_print_seconds(void (*run)(void *context), void *context, int rounds)
{
    for (int round = -2; round < rounds; round++) {
        double start = bench_seconds();
        run(context);
        if (round >= 0) {
            printf("%.9f ", bench_seconds() - start);
        }
    }
    printf("\n");
    fflush(stdout);
}

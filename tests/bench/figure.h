/* figure: one measured figure beside its bound.
 *
 * A figure and its bound are run in turn, so that both see the same machine; medians are printed. With bench_json one
 * line a figure. Nothing here is a test: a shared machine makes numbers, not verdicts.
 */
#ifndef TG_BENCH_FIGURE_H
#define TG_BENCH_FIGURE_H

#include <stdbool.h>

extern bool bench_json;

double bench_seconds(void);

/* One figure: `run` is timed against `bound` (NULL: none), in turn. */
typedef struct bench_figure {
    const char *name, *unit, *bound_name;
    void (*run)(void *context);
    void (*bound)(void *context);
    void *context, *bound_context; /* the latter NULL: the former */
    double scale;                  /* seconds times this is the unit */
    int rounds;
} bench_figure;

/* Runs and prints it; returns the median time in seconds. */
double bench_measure(const bench_figure *figure);

/* Prints a figure that was measured otherwise. */
void bench_value(const char *name, double value, const char *unit);

/* `made`, or an end with a message: a benchmark may print and exit. */
void *bench_must(void *made);

#endif

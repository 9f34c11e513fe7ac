/* figure: measures one figure and its bound, and prints them.
 *
 * The two are run alternately, so that both run under the same conditions. Their medians are printed; with bench_json
 * as one line of JSON per figure. The benchmark never fails, because times on a shared machine vary.
 */
#ifndef TG_BENCH_FIGURE_H
#define TG_BENCH_FIGURE_H

#include <stdbool.h>

/* bench_quick: a fifth of the rounds, at least 5 */
extern bool bench_json, bench_quick;

double bench_seconds(void);

/* Sorts the values; returns their median. */
double bench_median(double *values, int count);

/* One figure: `run` is timed against `bound` (NULL: none), in turn. */
typedef struct bench_figure {
    const char *name, *unit, *bound_name;
    void (*run)(void *context);
    void (*bound)(void *context);
    /* the latter is the former if it is NULL */
    void *context, *bound_context;
    /* seconds times this is the unit */
    double scale;
    int rounds;
} bench_figure;

/* Runs and prints it; returns the median time in seconds. */
double bench_measure(const bench_figure *figure);

/* Runs it twice, and then `rounds` times, and prints the seconds of each round on one line: an answer to another
 * program. */
void bench_print_seconds(void (*run)(void *context), void *context, int rounds);

/* Prints a figure that was measured otherwise. */
void bench_value(const char *name, double value, const char *unit);

/* Returns an object that was created, or exits with a message if it is NULL: a benchmark may print and exit. */
void *bench_must(void *object);

#endif

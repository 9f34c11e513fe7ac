/* history: the measurements of a training run, printed as curves and written to files. */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct history {
    int64_t capacity;
    /* steps so far */
    int64_t steps;
    /* one per step; `norm` is the norm of the gradients before clipping */
    float *loss, *lr, *norm;
    /* validations so far */
    int64_t evaluations;
    /* the step and the loss of each validation */
    int64_t *evaluated;
    float *validation;
} history;

/* Creates an empty history with a capacity of `steps` steps. Returns false after printing an error. */
bool history_make(history *h, int64_t steps);
void history_free(history *h);

void history_add_step(history *h, double loss, double lr, double norm);
void history_add_evaluation(history *h, double loss);

/* Returns whether the last validation has the lowest loss of all. */
bool history_is_best(const history *h);

/* Returns the history as a text: losses.tsv with all digits. Yours (free); NULL after printing an error. */
char *history_text(const history *h, size_t *length);

/* Reads such a text. Returns false after printing an error: for a damaged text, or more steps than the capacity. */
bool history_parse(history *h, const char *text);

/* Prints the curves and the lowest validation loss. */
void history_show(const history *h);

/* Writes losses.tsv and loss.svg. Returns false after printing an error. */
bool history_write(const history *h, const char *folder);

#endif

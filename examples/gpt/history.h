/* history: the measurements of a training run, printed as curves and written to files. */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct history {
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

/* Prints the curves and the lowest validation loss. */
void history_show(const history *h);

/* Writes losses.tsv and loss.svg. Returns false after printing an error. */
bool history_write(const history *h, const char *folder);

#endif

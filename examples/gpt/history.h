/* history: what was measured at each step, and how it is shown. */
#ifndef HISTORY_H
#define HISTORY_H

#include <stdbool.h>
#include <stdint.h>

typedef struct history {
    int64_t steps;           /* done */
    float *loss, *lr, *norm; /* one a step; the norm is the gradients', before it is clipped */
    int64_t evaluations;
    int64_t *evaluated; /* after which step */
    float *validation;
} history;

bool history_make(history *h, int64_t steps); /* room for that many; false after complaining */
void history_free(history *h);

void history_add_step(history *h, double loss, double lr, double norm);
void history_add_evaluation(history *h, double loss);

void history_show(const history *h);                      /* the curves, and the best validation */
bool history_write(const history *h, const char *folder); /* losses.tsv and loss.svg; false after complaining */

#endif

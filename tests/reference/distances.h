/* distances: what the losses of each value (distances.c, entropies.c) share. */
#ifndef TG_TESTS_REFERENCE_DISTANCES_H
#define TG_TESTS_REFERENCE_DISTANCES_H

#include "losses.h"

typedef struct loss_options {
    tg_reduction reduction;
    bool has_config, is_log;
    double given, number; /* beta, delta or margin; as the op rounds it */
} loss_options;

typedef struct loss {
    int inputs; /* that have a gradient; others of tg_binary_cross_entropy_with_logits are weights */
    tg_tensor *(*call)(trial *t);
    quantity (*value)(const trial *t, const double *in);
    quantity (*slope)(const trial *t, int k, const double *in); /* for input k */
    bool (*accepts)(double number);                             /* NULL: it has no number */
    double number;                                              /* the default */
} loss;

#define ARGUMENTS t->tape, t->inputs[0].tensor, t->inputs[1].tensor

extern const loss kl_div, binary_cross_entropy_with_logits; /* entropies.c */

#endif

/* similarity: what cosines (similarity.c) and triplets (triplets.c) share. */
#ifndef TG_TESTS_REFERENCE_SIMILARITY_H
#define TG_TESTS_REFERENCE_SIMILARITY_H

#include "losses.h"

typedef struct similarity_options {
    tg_reduction reduction;
    bool has_config, swap;
    int axis;
    double margin, p, eps; /* as the op rounds them */
    double given_margin, given_p, given_eps;
} similarity_options;

static inline tg_shape without_last(tg_shape shape)
{
    shape.rank -= shape.rank > 0;
    return shape;
}

/* ---- tg_triplet_margin_loss (triplets.c) ---- */

tg_tensor *call_triplet(trial *t);
void triplet_forward(trial *t);
void triplet_backward(trial *t);

#endif

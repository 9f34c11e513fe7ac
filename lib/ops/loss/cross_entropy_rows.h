/* cross_entropy_rows (private): rows of logits, whose losses and gradients tg_cross_entropy and tg_linear_cross_entropy
 * compute. */
#ifndef TG_OPS_LOSS_CROSS_ENTROPY_ROWS_H
#define TG_OPS_LOSS_CROSS_ENTROPY_ROWS_H

#include "ops/kernel_real.h"
#include "ops/loss/cross_entropy.h"

typedef struct tg_cross_entropy_rows {
    int64_t first; /* the sample s at which x and dx begin */
    const real *x, *dy;
    const int32_t *targets;
    const real *weight; /* (V), or NULL */
    double weight_sum;  /* sum w, with weights and label smoothing */
    real *losses;       /* (S), in the forward pass */
    real *dx;           /* may be x */
    bool overwrite;
    tg_cross_entropy_saved *saved;
    int64_t classes;
    tg_cross_entropy_attributes attributes;
} tg_cross_entropy_rows;

/* Compute the losses, or the gradients of the logits, of the rows begin .. end - 1 of x. */
void KERNEL(tg_cross_entropy_of_rows)(void *loss_rows, int64_t begin, int64_t end);
void KERNEL(tg_cross_entropy_gradient_of_rows)(void *loss_rows, int64_t begin, int64_t end);

/* Writes the mean or the sum of the losses to *y, or nothing if y has each loss; and saves the number that counts. */
void KERNEL(tg_cross_entropy_reduce)(const tg_cross_entropy_rows *r, int64_t rows, real *y);

#endif

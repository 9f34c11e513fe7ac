/* grad_rows (private): gradients by rows whose new rows are written by the kernel, not added to zeros (tape/tape.h:
 * tg_find_grad_rows). Zeros that another thread has written would have to move to the cache of this one. */
#ifndef TG_OPS_GRAD_ROWS_H
#define TG_OPS_GRAD_ROWS_H

#include "ops/kernel_real.h"

/* Adds scale * from to n values. With is_new they have no values yet, and get those that zeros would get: 0 for -0.
 * They are not read then: of memory that is read before it is written, the system makes each page twice. */
static inline void add_scaled(real *restrict to, const real *restrict from, real scale, int64_t n, bool is_new)
{
    for (int64_t i = 0; is_new && i < n; i++) {
        to[i] = 0 + scale * from[i];
    }
    for (int64_t i = 0; !is_new && i < n; i++) {
        to[i] += scale * from[i];
    }
}

#endif

/* conv1d_method (private): the attributes of conv1d, and how it computes its sums. */
#ifndef TG_OPS_SEQUENCE_CONV1D_METHOD_H
#define TG_OPS_SEQUENCE_CONV1D_METHOD_H

#include "base/least.h"
#include "ops/kernel.h"

typedef struct conv_attributes {
    int64_t stride, padding, dilation, groups;
    int64_t threads; /* when the columns were declared */
} conv_attributes;

/* How the sums are computed. */
typedef enum conv_method {
    CHANNEL_BY_CHANNEL, /* groups of one channel (depthwise): a loop over the outputs for each tap */
    TAP_BY_TAP,         /* a product of matrices for each tap, W_k (out,in) and the inputs under the tap (in,outputs) */
    BY_COLUMNS          /* one product, after the inputs under all taps are copied to columns (im2col) */
} conv_method;

static inline conv_method method_of(const tg_tensor *w, const conv_attributes *a)
{
    const int64_t out = w->shape[0] / a->groups, in = w->shape[1];
    return in == 1 && out == 1 ? CHANNEL_BY_CHANNEL : a->stride == 1 && in >= 8 ? TAP_BY_TAP : BY_COLUMNS;
}

/* Returns into how many shares the loops over columns may be divided. */
static inline int64_t most_shares(const tg_tensor *x, const conv_attributes *a)
{
    return least(a->threads, x->shape[0] > 0 ? x->shape[0] * a->groups : 1);
}

/* The outputs [first, first + count) at which tap k lies inside of the sequence, and the input under the first one. */
typedef struct taps {
    int64_t first, count, input;
} taps;

#endif

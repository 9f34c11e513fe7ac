/* conv1d_call (private): the sizes of a call of conv1d, and the inputs under each tap. */
#ifndef TG_OPS_SEQUENCE_CONV1D_CALL_H
#define TG_OPS_SEQUENCE_CONV1D_CALL_H

#include "ops/kernel_real.h"
#include "ops/sequence/conv1d_method.h"

/* The loop over the items of one share, with columns of its own. */
typedef struct conv conv;
typedef void share_body(const conv *c, int64_t begin, int64_t end, real *columns);

/* The sizes of one call: those of a group, without the batch. */
struct conv {
    conv_attributes a;
    conv_method method;
    bool in_thread;                 /* products are computed in the thread that needs them */
    int64_t batch, in, out, kernel; /* channels per group, and K */
    int64_t length, outputs;        /* T and T' */
    const real *x, *w, *bias, *dy;
    real *y, *dx, *dw, *dbias;
    real *scratch; /* columns (shares, in kernel, outputs), or the weights of the taps (kernel, groups out, in) */
    int64_t most_shares, shares, items; /* of a loop that needs columns */
    share_body *share;
};

static inline conv conv_of(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *w = call->inputs[1], *y = call->outputs[0];
    conv c = {.a = *(const conv_attributes *)call->attributes,
              .batch = x->shape[0],
              .in = w->shape[1],
              .kernel = w->shape[2],
              .length = x->shape[2],
              .outputs = y->shape[2],
              .x = tg_values(x),
              .w = tg_values(w),
              .bias = call->input_count > 2 ? tg_values(call->inputs[2]) : NULL,
              .scratch = call->scratch};
    c.most_shares = most_shares(x, &c.a);
    c.out = w->shape[0] / c.a.groups;
    c.method = method_of(w, &c.a);
    return c;
}

static inline taps range_of_tap(const conv *c, int64_t k)
{
    int64_t offset = k * c->a.dilation - c->a.padding, last = c->length - 1 - offset;
    int64_t first = offset < 0 ? (-offset - 1) / c->a.stride + 1 : 0;
    int64_t end = last < 0 ? 0 : last / c->a.stride + 1;
    end = end < c->outputs ? end : c->outputs;
    first = first < end ? first : end;
    return (taps){first, end - first, first < end ? first * c->a.stride + offset : 0};
}

/* Writes the bias to the outputs of item i, a group of a sequence; without a bias 0. */
static inline void begin_outputs(const conv *c, int64_t i)
{
    for (int64_t o = 0; o < c->out; o++) {
        real *y = c->y + (i * c->out + o) * c->outputs, bias = c->bias ? c->bias[i % c->a.groups * c->out + o] : 0;
        for (int64_t t = 0; t < c->outputs; t++) {
            y[t] = bias;
        }
    }
}

/* Runs a loop over items of so many multiplications: on all threads, or, if there are fewer items, each with products
 * on all threads. */
static inline void run_items(conv *c, int64_t items, int64_t multiplications, loop_body *body)
{
    c->in_thread = items >= tg_threads() || c->method == CHANNEL_BY_CHANNEL;
    if (c->in_thread) {
        tg_parallel_for(items, 1 + TG_GRAIN / (1 + multiplications), body, c);
    } else {
        body(c, 0, items);
    }
}

static inline void run_share(void *context, int64_t begin, int64_t end)
{
    const conv *c = context;
    for (int64_t i = begin; i < end; i++) {
        c->share(c, c->items * i / c->shares, c->items * (i + 1) / c->shares,
                 c->scratch + i * c->in * c->kernel * c->outputs);
    }
}

/* The same for a loop that needs columns: the items are divided into shares. */
static inline void run_shares(conv *c, int64_t items, int64_t multiplications, share_body *share)
{
    c->in_thread = c->batch * c->a.groups >= tg_threads();
    c->share = share;
    c->items = items;
    c->shares = c->in_thread ? least(c->most_shares, 1 + (items - 1) / (1 + TG_GRAIN / (1 + multiplications))) : 1;
    tg_parallel_for(c->shares, 1, run_share, c);
}

#endif

/* reduce_norm: log-sum-exp and p-norms over some axes.
 *
 *   logsumexp   y = m + log sum e^(x - m)      dx += dy e^(x - y)             m the maximum, 0 where it is infinite
 *   norm        y = (sum |x|^p)^(1/p)          dx += dy sign(x) (|x| / y)^(p-1)   (p_norm.h)
 *
 * Sums are in double. Follows torch.logsumexp and torch.linalg.vector_norm.
 */
#include "ops/reduce/p_norm.h"
#include "ops/reduce/reduce.h"

TG_DECLARE_KERNEL(tg_logsumexp_forward);
TG_DECLARE_KERNEL(tg_logsumexp_backward);
TG_DECLARE_KERNEL(tg_norm_forward);
TG_DECLARE_KERNEL(tg_norm_backward);

/* What the gradient of a value needs of its output: y and dy, for a norm also the norm in double and its ties. */
typedef struct output {
    real y, dy;
    double norm, p;
    int64_t ties;
} output;

/* dx += gradient(x), for the values of one output. */
static inline void add_gradients(const reduction *r, const tg_cursor *kept, const output *o,
                                 real (*gradient)(const output *o, real x))
{
    const tg_walk *walk = &r->reduced;
    tg_cursor inner = tg_walk_begin(walk, 0);
    int64_t step = tg_walk_stride(walk), gradient_step = tg_walk_other_stride(walk);
    for (int64_t done = 0, run; done < walk->count; done += run) {
        run = tg_walk_run(walk, &inner, walk->count);
        const real *x = r->x + kept->offset + inner.offset;
        real *dx = r->out + kept->other_offset + inner.other_offset;
        for (int64_t i = 0; i < run; i++) {
            dx[i * gradient_step] += gradient(o, x[i * step]);
        }
        tg_walk_advance(walk, &inner, run);
    }
}

/* ---- logsumexp ---- */

/* Returns sum e^(x - most). */
static double sum_of_exponentials(const reduction *r, const tg_cursor *kept, real most)
{
    const tg_walk *walk = &r->reduced;
    tg_cursor inner = tg_walk_begin(walk, 0);
    int64_t step = tg_walk_stride(walk);
    double sum = 0;
    for (int64_t done = 0, run; done < walk->count; done += run) {
        run = tg_walk_run(walk, &inner, walk->count);
        const real *x = r->x + kept->offset + inner.offset;
        for (int64_t i = 0; i < run; i++) {
            sum += (double)EXP(x[i * step] - most);
        }
        tg_walk_advance(walk, &inner, run);
    }
    return sum;
}

/* Returns the maximum; -inf for no values. */
static real largest(const reduction *r, const tg_cursor *kept)
{
    const tg_walk *walk = &r->reduced;
    tg_cursor inner = tg_walk_begin(walk, 0);
    int64_t step = tg_walk_stride(walk);
    real most = -(real)INFINITY;
    for (int64_t done = 0, run; done < walk->count; done += run) {
        run = tg_walk_run(walk, &inner, walk->count);
        const real *x = r->x + kept->offset + inner.offset;
        for (int64_t i = 0; i < run; i++) {
            most = x[i * step] > most || x[i * step] != x[i * step] ? x[i * step] : most;
        }
        tg_walk_advance(walk, &inner, run);
    }
    return most;
}

static void logsumexp_outputs(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    for (int64_t at = begin; at < end; at++) {
        real most = largest(r, &kept);
        most = isinf(most) ? 0 : most;
        r->out[at] = (real)((double)most + log(sum_of_exponentials(r, &kept, most)));
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

/* The forward pass computed y = log sum e^x. */
static real logsumexp_gradient(const output *o, real x)
{
    return o->dy * EXP(x - o->y);
}

static void logsumexp_gradients(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    for (int64_t at = begin; at < end; at++) {
        output o = {.y = r->y[at], .dy = r->dy[at]};
        add_gradients(r, &kept, &o, logsumexp_gradient);
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

void KERNEL(tg_logsumexp_forward)(const tg_op_call *call)
{
    reduce_forward(call, false, logsumexp_outputs);
}

void KERNEL(tg_logsumexp_backward)(const tg_op_call *call)
{
    reduce_backward(call, false, logsumexp_gradients);
}

/* ---- norm ---- */

/* Returns the norm, and writes the number of values that are equal to it in size. */
static double norm_of(const reduction *r, const tg_cursor *kept, int64_t *ties)
{
    const tg_walk *walk = &r->reduced;
    tg_cursor inner = tg_walk_begin(walk, 0);
    int64_t step = tg_walk_stride(walk);
    double sum = 0;
    *ties = 0;
    for (int64_t done = 0, run; done < walk->count; done += run) {
        run = tg_walk_run(walk, &inner, walk->count);
        const real *x = r->x + kept->offset + inner.offset;
        for (int64_t i = 0; i < run; i++) {
            double value = (double)x[i * step], before = sum;
            sum = tg_p_norm_add(sum, value, r->attributes->p);
            *ties = fabs(value) == sum ? (sum == before ? *ties + 1 : 1) : *ties;
        }
        tg_walk_advance(walk, &inner, run);
    }
    return tg_p_norm_root(sum, r->attributes->p);
}

static void norm_outputs(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    for (int64_t at = begin; at < end; at++) {
        int64_t ties;
        r->out[at] = (real)norm_of(r, &kept, &ties);
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

/* The forward pass computed y = (sum |x|^p)^(1/p). */
static real norm_gradient(const output *o, real x)
{
    return (real)((double)o->dy * tg_p_norm_gradient((double)x, o->norm, o->p, o->ties));
}

static void norm_gradients(void *context, int64_t begin, int64_t end)
{
    const reduction *r = context;
    tg_cursor kept = tg_walk_begin(&r->kept, begin);
    for (int64_t at = begin; at < end; at++) {
        output o = {.dy = r->dy[at], .p = r->attributes->p};
        o.norm = norm_of(r, &kept, &o.ties);
        add_gradients(r, &kept, &o, norm_gradient);
        tg_walk_advance(&r->kept, &kept, 1);
    }
}

void KERNEL(tg_norm_forward)(const tg_op_call *call)
{
    reduce_forward(call, false, norm_outputs);
}

void KERNEL(tg_norm_backward)(const tg_op_call *call)
{
    reduce_backward(call, false, norm_gradients);
}

#ifdef TG_ONCE

static const tg_op logsumexp_op = {
    .name = "logsumexp",
    .shape = tg_reduce_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_logsumexp_forward, tg_logsumexp_backward),
    .accepts_layout = tg_any_layout,
};

static bool norm_shape(tg_op_call *call)
{
    double p = ((const tg_reduce_attributes *)call->attributes)->p;
    return (p > 0 || tg_op_fail(call, TG_ERROR_VALUE, "p %g; it must be above 0, or INFINITY", p)) &&
           (p < (double)INFINITY || tg_reduce_expect_values(call, "maximum")) && tg_reduce_shape(call);
}

static const tg_op norm_op = {
    .name = "norm",
    .shape = norm_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_norm_forward, tg_norm_backward),
    .accepts_layout = tg_any_layout,
    .backward_ignores_outputs = TG_OP_ALL,
};

tg_tensor *tg_logsumexp(tg_tape *t, tg_tensor *x, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &logsumexp_op, x, axes, keep, (tg_reduce_attributes){.keep = false});
}

tg_tensor *tg_norm(tg_tape *t, tg_tensor *x, double p, tg_axes axes, tg_keep_axes keep)
{
    return tg_reduce(t, &norm_op, x, axes, keep, (tg_reduce_attributes){.p = p});
}

#endif

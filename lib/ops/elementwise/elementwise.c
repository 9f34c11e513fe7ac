/* elementwise: the loop that elementwise.h describes.
 *
 * The output is contiguous. It is cut into chunks of CHUNK values. For each chunk the inputs are copied into buffers on
 * the stack, unless they are contiguous already. A long row that is repeated, as a bias is, is not copied either: a
 * chunk ends where the row does. Chunks of the forward pass are independent, and so are those of the
 * gradient of an input that was not broadcast: these run on several threads. The gradient of a broadcast input is
 * summed chunk after chunk in one thread, so its bits are always the same. If it is a row, as a bias is, threads divide
 * the columns: one thread sums each column, in the order of the rows.
 */
#include "ops/elementwise/elementwise.h"

#define CHUNK TG_ELEMENTWISE_CHUNK

const tg_elementwise_kernels *KERNEL(tg_elementwise_kernels_of)(const tg_op_call *call)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    /* NOLINTNEXTLINE(misc-redundant-expression): TG_F32 in one of two compilations */
    return (REAL_DTYPE == TG_F32 ? op->f32 : op->f64)[THIS_LEVEL];
}

void KERNEL(tg_chunk_gather)(const tg_walk *walk, const tg_tensor *x, int64_t begin, int64_t n, void *chunk)
{
    real *out = chunk;
    tg_cursor at = tg_walk_begin(walk, begin);
    int64_t stride = tg_walk_stride(walk);
    for (int64_t done = 0, run; done < n; done += run) {
        run = tg_walk_run(walk, &at, n - done);
        if (x->dtype == TG_U8) {
            const uint8_t *values = (const uint8_t *)tg_values(x) + at.offset;
            for (int64_t i = 0; i < run; i++) {
                out[done + i] = values[i * stride] != 0;
            }
        } else if (x->dtype == TG_I32) {
            const int32_t *values = (const int32_t *)tg_values(x) + at.offset;
            for (int64_t i = 0; i < run; i++) {
                out[done + i] = (real)values[i * stride];
            }
        } else {
            const real *values = (const real *)tg_values(x) + at.offset;
            if (stride == 1) {
                memcpy(out + done, values, (size_t)run * sizeof *out);
            } else {
                for (int64_t i = 0; i < run; i++) {
                    out[done + i] = values[i * stride];
                }
            }
        }
        tg_walk_advance(walk, &at, run);
    }
}

/* Adds n values to a gradient, which never overlaps them. */
static inline void add_values(real *restrict dx, int64_t n, const real *restrict in)
{
    for (int64_t i = 0; i < n; i++) {
        dx[i] += in[i];
    }
}

/* The same through the walk's other strides; several may be added to one value, in order. */
static void scatter_add(const tg_walk *walk, real *dx, int64_t begin, int64_t n, const real *in)
{
    tg_cursor at = tg_walk_begin(walk, begin);
    int64_t stride = tg_walk_other_stride(walk);
    for (int64_t done = 0, run; done < n; done += run) {
        run = tg_walk_run(walk, &at, n - done);
        real *to = dx + at.other_offset;
        if (stride == 1) {
            add_values(to, run, in + done);
        } else {
            for (int64_t i = 0; i < run; i++) {
                to[i * stride] += in[done + i];
            }
        }
        tg_walk_advance(walk, &at, run);
    }
}

/* ---- one call ---- */

typedef struct loop {
    const tg_op_call *call;
    tg_chunk_kernel *kernel;
    bool plain[TG_ELEMENTWISE_INPUTS];    /* the input is `real` and has the layout of y */
    bool row[TG_ELEMENTWISE_INPUTS];      /* the input is `real`, a row of `width` values, and y repeats it */
    tg_walk walks[TG_ELEMENTWISE_INPUTS]; /* of the inputs that are not plain */
    bool plain_inputs;                    /* every input is plain or a row, so that none is copied */
    int64_t width;                        /* of the rows; without rows, y->count */
    const real *y, *dy;                   /* NULL in the forward pass */
    void *out;                            /* y, or the gradient of one input */
    bool mask_out;                        /* out is u8 */
    bool add;                             /* results are added to out, instead of written */
    const tg_walk *repeated;              /* the walk that sums into out if out is smaller than y; else NULL */
    bool is_dy;                           /* what is summed is dy, so that no kernel is called */
} loop;

/* Returns whether the walk repeats a row (C) to (rows,C), and the row is long enough to end chunks. `width` is that of
 * another row, or the number of all values. */
static bool is_long_row(const tg_walk *walk, int64_t width)
{
    return walk->rank == 2 && walk->stride[0] == 0 && walk->stride[1] == 1 && walk->size[1] >= CHUNK / 4 &&
           (walk->size[1] == width || width == walk->count);
}

static void set_inputs(loop *l)
{
    const tg_tensor *y = l->call->outputs[0];
    l->plain_inputs = true;
    l->width = y->count;
    for (int i = 0; i < l->call->input_count; i++) {
        const tg_tensor *x = l->call->inputs[i];
        bool is_real = x->dtype == REAL_DTYPE;
        l->plain[i] = is_real && x->contiguous && tg_same_shape(x, y);
        l->row[i] = false;
        if (!l->plain[i]) {
            tg_shape shape = tg_shape_of(y);
            l->walks[i] = tg_walk_broadcast(x, &shape);
            l->plain[i] = is_real && tg_walk_is_plain(&l->walks[i]);
            l->row[i] = is_real && is_long_row(&l->walks[i], l->width);
            l->width = l->row[i] ? l->walks[i].size[1] : l->width;
        }
        l->plain_inputs = l->plain_inputs && (l->plain[i] || l->row[i]);
    }
}

static bool writes_directly(const loop *l)
{
    return !l->add && !l->mask_out && !l->repeated;
}

static void run_chunk(const loop *l, int64_t begin, int64_t n)
{
    real gathered[TG_ELEMENTWISE_INPUTS][CHUNK], result[CHUNK];
    tg_chunk k = {.n = n, .attributes = l->call->attributes};
    for (int i = 0; i < l->call->input_count; i++) {
        const tg_tensor *x = l->call->inputs[i];
        if (l->plain[i] || l->row[i]) {
            k.in[i] = (const real *)tg_values(x) + (l->row[i] ? begin % l->width : begin);
        } else {
            KERNEL(tg_chunk_gather)(&l->walks[i], x, begin, n, gathered[i]);
            k.in[i] = gathered[i];
        }
    }
    if (l->dy) {
        k.y = l->y + begin;
        k.dy = l->dy + begin;
    }
    k.out = writes_directly(l) ? (real *)l->out + begin : result;
    l->kernel(&k);
    if (l->repeated) {
        scatter_add(l->repeated, l->out, begin, n, result);
    } else if (l->mask_out) {
        uint8_t *out = (uint8_t *)l->out + begin;
        for (int64_t i = 0; i < n; i++) {
            out[i] = result[i] != 0;
        }
    } else if (l->add) {
        add_values((real *)l->out + begin, n, result);
    }
}

static void run_range(void *context, int64_t begin, int64_t end)
{
    const loop *l = context;
    if (l->is_dy) {
        scatter_add(l->repeated, l->out, begin, end - begin, l->dy + begin);
        return;
    }
    /* If no buffer is needed, the whole range is one chunk. */
    int64_t step = l->plain_inputs && writes_directly(l) ? end - begin : CHUNK;
    for (int64_t at = begin, n; at < end; at += n) {
        int64_t row_end = at + l->width - at % l->width;
        n = row_end < end ? row_end - at : end - at;
        n = n < step ? n : step;
        run_chunk(l, at, n);
    }
}

/* Returns whether out is a row (C) that was repeated to (rows,C). */
static bool is_row(const tg_walk *repeated)
{
    return repeated->rank == 2 && repeated->other_stride[0] == 0 && repeated->other_stride[1] == 1;
}

/* Runs the columns begin .. end - 1 of all rows. */
static void run_columns(void *context, int64_t begin, int64_t end)
{
    const loop *l = context;
    int64_t width = l->repeated->size[1];
    for (int64_t row = 0; row < l->repeated->size[0]; row++) {
        run_range(context, row * width + begin, row * width + end);
    }
}

static void run_repeated(loop *l)
{
    if (is_row(l->repeated)) {
        int64_t grain = 1 + TG_GRAIN / (l->repeated->size[0] + 1);
        tg_parallel_for(l->repeated->size[1], grain < 16 ? 16 : grain, run_columns, l);
    } else {
        run_range(l, 0, l->repeated->count);
    }
}

typedef struct sum {
    real *dx;
    const real *dy;
} sum;

static void add_range(void *context, int64_t begin, int64_t end)
{
    const sum *s = context;
    add_values(s->dx + begin, end - begin, s->dy + begin);
}

static void add_in_threads(real *dx, int64_t n, const real *dy)
{
    sum s = {dx, dy};
    tg_parallel_for(n, TG_GRAIN, add_range, &s);
}

/* Returns whether all that backward has to do for input i is to add dy, value by value. */
static inline bool adds_dy(const tg_op_call *call, int i)
{
    return call->op->passes_gradient >> i & 1 && !call->overwrite[i] &&
           call->inputs[i]->count == call->outputs[0]->count;
}

/* Adds dy to the gradients for which that is all. Returns whether others are left. */
static inline bool add_dy(const tg_op_call *call)
{
    int64_t n = call->outputs[0]->count;
    bool others = false;
    for (int i = 0; i < call->input_count; i++) {
        real *dx = call->input_gradients[i];
        if (dx && !adds_dy(call, i)) {
            others = true;
        } else if (dx && n < TG_GRAIN) {
            add_values(dx, n, call->output_gradients[0]);
        } else if (dx) {
            add_in_threads(dx, n, call->output_gradients[0]);
        }
    }
    return others;
}

static void run_threads(loop *l, int64_t count)
{
    if (count < TG_GRAIN) {
        run_range(l, 0, count);
    } else {
        tg_parallel_for(count, TG_GRAIN, run_range, l);
    }
}

/* Returns whether the call is one chunk of plain inputs, and fills in k. Most calls of small models are one: for four
 * values the general loop would cost more than the op. Shapes need not be compared: an input that broadcasts to y and
 * has as many values as y differs from y only in axes of size 1. */
static bool is_one_chunk(const tg_op_call *call, tg_chunk *k)
{
    const tg_tensor *y = call->outputs[0];
    if (y->count > CHUNK || y->dtype != REAL_DTYPE) {
        return false;
    }
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        if (x->dtype != REAL_DTYPE || !x->contiguous || x->count != y->count) {
            return false;
        }
        k->in[i] = tg_values(x);
    }
    k->n = y->count;
    k->attributes = call->attributes;
    return true;
}

static void backward_of_one_chunk(const tg_op_call *call, tg_chunk *k)
{
    k->y = tg_values(call->outputs[0]);
    k->dy = call->output_gradients[0];
    for (int i = 0; i < call->input_count; i++) {
        real result[CHUNK], *dx = call->input_gradients[i];
        if (dx && !adds_dy(call, i)) {
            bool add = !call->overwrite[i];
            k->out = add ? result : dx;
            KERNEL(tg_elementwise_kernels_of)(call)->gradient[i](k);
            if (add) {
                add_values(dx, k->n, result);
            }
        }
    }
}

void KERNEL(tg_elementwise_forward)(const tg_op_call *call)
{
    tg_tensor *y = call->outputs[0];
    tg_chunk one;
    if (is_one_chunk(call, &one)) {
        one.out = tg_values(y);
        KERNEL(tg_elementwise_kernels_of)(call)->forward(&one);
        return;
    }
    loop l; /* set field by field: zeroing the walks would take time */
    l.call = call;
    l.kernel = KERNEL(tg_elementwise_kernels_of)(call)->forward;
    l.y = l.dy = NULL;
    l.out = tg_values(y);
    l.mask_out = y->dtype == TG_U8;
    l.add = l.is_dy = false;
    l.repeated = NULL;
    set_inputs(&l);
    run_threads(&l, y->count);
}

void KERNEL(tg_elementwise_backward)(const tg_op_call *call)
{
    const tg_tensor *y = call->outputs[0];
    tg_chunk one;
    if (!add_dy(call)) {
        return;
    }
    if (is_one_chunk(call, &one)) {
        backward_of_one_chunk(call, &one);
        return;
    }
    loop l;
    l.call = call;
    l.y = tg_values(y);
    l.dy = call->output_gradients[0];
    l.mask_out = false;
    set_inputs(&l);
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        if (!call->input_gradients[i] || adds_dy(call, i)) {
            continue;
        }
        tg_walk repeated;
        l.kernel = KERNEL(tg_elementwise_kernels_of)(call)->gradient[i];
        l.out = call->input_gradients[i];
        l.add = !call->overwrite[i];
        l.is_dy = false;
        l.repeated = NULL;
        if (x->count != y->count) {
            l.is_dy = call->op->passes_gradient >> i & 1;
            tg_shape shape = tg_shape_of(y);
            repeated = tg_walk_broadcast(x, &shape);
            l.repeated = &repeated;
            if (call->overwrite[i]) {
                memset(l.out, 0, (size_t)x->count * sizeof(real));
            }
            run_repeated(&l);
        } else {
            run_threads(&l, y->count);
        }
    }
}

#ifdef TG_ONCE

/* Computes the shape that all inputs broadcast to. */
static bool broadcast_inputs(tg_op_call *call, tg_shape *shape)
{
    *shape = tg_shape_of(call->inputs[0]);
    for (int i = 1; i < call->input_count; i++) {
        tg_shape own = tg_shape_of(call->inputs[i]), joined;
        if (!tg_shape_broadcast(shape, &own, &joined)) {
            char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
            return tg_op_fail(call, TG_ERROR_SHAPE, "shapes %s and %s do not broadcast: sizes must be equal or 1",
                              tg_shape_format(*shape, a), tg_shape_format(own, b));
        }
        *shape = joined;
    }
    return true;
}

/* The kernels from which a shape rule learns what inputs have gradients. */
static const tg_elementwise_kernels *kernels_of(const tg_op_call *call)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    return op->f32[TG_CPU_BASELINE];
}

static inline bool declare_output(tg_op_call *call, const tg_elementwise_kernels *kernels, tg_dtype dtype)
{
    const tg_tensor *first = call->inputs[0];
    bool equal = true;
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        if (!tg_dtype_is_float(x->dtype) && kernels->gradient[i]) {
            return tg_op_expect_float(call, i);
        }
        equal = equal && (x == first || tg_same_shape(x, first));
    }
    tg_shape shape;
    return equal ? tg_op_output_like(call, dtype, 0)
                 : broadcast_inputs(call, &shape) && tg_op_output(call, 0, dtype, shape);
}

bool tg_elementwise_output(tg_op_call *call, tg_dtype dtype)
{
    return declare_output(call, kernels_of(call), dtype);
}

bool tg_elementwise_shape(tg_op_call *call)
{
    const tg_elementwise_kernels *kernels = kernels_of(call);
    int i = 0;
    while (i < call->input_count - 1 && !kernels->gradient[i]) {
        i++;
    }
    return declare_output(call, kernels, tg_dtype_of(call->inputs[i]));
}

#endif

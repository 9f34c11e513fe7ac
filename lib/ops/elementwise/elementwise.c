/* elementwise: the loop that elementwise.h describes.
 *
 * The output is contiguous, and is cut into chunks. chunk_inputs.h decides how the inputs of a chunk are read. Chunks
 * of the forward pass are independent, and so are those of the gradient of an input that was not broadcast: these run
 * on several threads. The gradients of a broadcast input are summed by tg_sum_repeated, which asks for them part by
 * part.
 */
#include "ops/elementwise/elementwise.h"

#include "ops/elementwise/chunk_inputs.h"
#include "ops/reduce/repeated.h"
#include "tensor/strided.h"

#define CHUNK TG_ELEMENTWISE_CHUNK

const tg_elementwise_kernels *KERNEL(tg_elementwise_kernels_of)(const tg_op_call *call)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    /* NOLINTNEXTLINE(misc-redundant-expression): TG_F32 in one of two compilations */
    return (REAL_DTYPE == TG_F32 ? op->f32 : op->f64)[THIS_LEVEL];
}

/* Adds n values to a gradient, which never overlaps them. */
static inline void add_values(real *restrict dx, int64_t n, const real *restrict in)
{
    for (int64_t i = 0; i < n; i++) {
        dx[i] += in[i];
    }
}

/* ---- one call ---- */

/* Where the results of a kernel go: y, or the gradient of one input. */
typedef struct target {
    tg_chunk_kernel *kernel; /* NULL: the gradient is dy itself */
    void *out;               /* its first value is that of y at `origin` */
    int64_t origin, size;    /* of a value in bytes */
    bool add;                /* results are added to out, instead of written */
} target;

/* What is computed for each chunk, while its inputs are in the cache. */
typedef struct targets {
    int count;
    target list[TG_ELEMENTWISE_INPUTS];
    int64_t most; /* values of a chunk */
} targets;

typedef struct loop {
    const tg_op_call *call;
    chunk_inputs inputs;
    const real *y, *dy; /* NULL in the forward pass */
    targets targets;
} loop;

static inline void run_target(const target *t, tg_chunk *k, int64_t begin)
{
    void *out = (char *)t->out + (begin - t->origin) * t->size;
    real result[CHUNK];
    k->out = t->add ? result : out;
    if (t->kernel) {
        t->kernel(k);
    } else if (!t->add) {
        memcpy(out, k->dy, (size_t)k->n * sizeof(real));
    }
    if (t->add) {
        add_values(out, k->n, t->kernel ? result : k->dy);
    }
}

/* Begins to fetch the memory of results, while the inputs are copied. */
static inline void prefetch_results(const targets *t, int64_t begin, int64_t n)
{
    for (int i = 0; i < t->count; i++) {
        const target *to = &t->list[i];
        const char *out = (const char *)to->out + (begin - to->origin) * to->size;
        for (int64_t at = 0; at < n * to->size; at += 64) {
            __builtin_prefetch(out + at, 1);
        }
    }
}

/* Computes `rows` chunks of n values, which are step[i] apart in input i. The copied inputs of one chunk are in row
 * `row` of a tile, or in none (-1). */
static void run_rows(const loop *l, const targets *t, chunk_buffers *b, int64_t begin, int64_t n, int row, int64_t rows,
                     const int64_t *step)
{
    const uint32_t single = l->inputs.single >= 0 ? 1U << l->inputs.single : 0;
    tg_chunk k = {.n = n, .single = single, .attributes = l->call->attributes};
    if (!l->inputs.none_copied && n <= FEW_COPIED && row < 0) {
        prefetch_results(t, begin, n);
    }
    for (int i = 0; i < l->inputs.count; i++) {
        k.in[i] = input_at(&l->inputs, i, b, begin, n, row);
    }
    for (int64_t at = begin;;) {
        if (l->dy) {
            k.y = l->y + at;
            k.dy = l->dy + at;
        }
        for (int i = 0; i < t->count; i++) {
            run_target(&t->list[i], &k, at);
        }
        at += n;
        if (at == begin + rows * n) {
            return;
        }
        for (int i = 0; i < l->inputs.count; i++) {
            k.in[i] = k.in[i] ? (const real *)k.in[i] + step[i] : NULL;
        }
    }
}

static void run_tile(const loop *l, const targets *t, chunk_buffers *b, int64_t begin)
{
    const int64_t width = l->inputs.tile_width, row_width = l->inputs.width;
    for (int64_t column = 0, n; column < width; column += n) {
        /* a chunk ends where the tile does, or a row of another input */
        int64_t left = width - column, row_left = row_width - column % row_width;
        n = left < TILE_COLUMNS ? left : TILE_COLUMNS;
        n = row_left < n ? row_left : n;
        for (int row = 0; row < TILE_ROWS; row++) {
            prefetch_results(t, begin + row * width + column, n);
        }
        copy_tiles(&l->inputs, b, begin + column, n);
        for (int row = 0; row < TILE_ROWS; row++) {
            run_rows(l, t, b, begin + row * width + column, n, row, 1, NULL);
        }
    }
}

/* Computes the values begin .. end - 1, in tiles, or in chunks that end where rows do. */
static void run_chunks(const loop *l, const targets *t, int64_t begin, int64_t end)
{
    chunk_buffers b;
    chunk_buffers_begin(&b, l->inputs.count);
    int64_t width = l->inputs.width, row_end = begin - begin % width;
    for (int64_t at = begin, n; at < end; at += n) {
        const int64_t tiled = tile_rows(&l->inputs, at, end);
        if (tiled > 0) {
            n = tiled * l->inputs.tile_width;
            run_tile(l, t, &b, at);
            continue;
        }
        while (row_end <= at) {
            row_end += width;
        }
        n = row_end < end ? row_end - at : end - at;
        n = n < t->most ? n : t->most;
        int64_t rows = 1, step[TG_ELEMENTWISE_INPUTS];
        if (l->inputs.none_copied && n == width) {
            rows = rows_together(&l->inputs, &b, at, (end - at) / n, step);
        }
        run_rows(l, t, &b, at, n, -1, rows, step);
        n *= rows;
    }
}

static void run_range(void *context, int64_t begin, int64_t end)
{
    const loop *l = context;
    run_chunks(l, &l->targets, begin, end);
}

static void run_threads(loop *l, int64_t count)
{
    bool adds = false;
    for (int i = 0; i < l->targets.count; i++) {
        adds = adds || (l->targets.list[i].add && l->targets.list[i].kernel);
    }
    const int64_t most = l->inputs.none_copied ? MOST_COPIED : l->inputs.most;
    l->targets.most = adds && most > CHUNK ? CHUNK : most;
    if (l->targets.count == 1 && !adds && l->inputs.none_copied) {
        l->targets.most = count; /* no buffer is needed, so a row is one chunk */
    }
    if (count < TG_GRAIN) {
        run_range(l, 0, count);
    } else {
        tg_parallel_for(count, TG_GRAIN, run_range, l);
    }
}

/* ---- gradients of broadcast inputs ---- */

typedef struct part {
    const loop *loop;
    tg_chunk_kernel *kernel;
} part;

static void gradient_part(const void *context, int64_t begin, int64_t n, void *out)
{
    const part *p = context;
    targets one = {.count = 1, .list = {{p->kernel, out, begin, sizeof(real), false}}, .most = CHUNK};
    run_chunks(p->loop, &one, begin, begin + n);
}

static void sum_repeated(const loop *l, int i, tg_chunk_kernel *kernel)
{
    const tg_op_call *call = l->call;
    const tg_tensor *x = call->inputs[i];
    const part p = {l, kernel};
    tg_shape shape = tg_shape_of(call->outputs[0]), own = tg_shape_of(x);
    int64_t contiguous[TG_MAX_RANK], strides[TG_MAX_RANK];
    tg_contiguous_strides(&own, contiguous);
    for (int axis = 0; axis < shape.rank; axis++) {
        int from = axis - (shape.rank - x->rank);
        strides[axis] = from < 0 || x->shape[from] == 1 ? 0 : contiguous[from];
    }
    KERNEL(tg_sum_repeated)
    (&shape, strides, kernel ? gradient_part : NULL, kernel ? (const void *)&p : l->dy, call->overwrite[i],
     call->input_gradients[i]);
}

/* ---- whole tensors ---- */

/* Returns the kernel of the gradient of input i; NULL if that is dy itself. */
static tg_chunk_kernel *gradient_kernel(const tg_op_call *call, int i)
{
    return call->op->passes_gradient >> i & 1 ? NULL : KERNEL(tg_elementwise_kernels_of)(call)->gradient[i];
}

/* Returns whether the call is one chunk of plain inputs, and fills in k. Most calls of small models are one: for four
 * values the general loop would cost more than the op. Shapes need not be compared: an input that broadcasts to y and
 * has as many values as y differs from y only in axes of size 1. */
static bool is_one_chunk(const tg_op_call *call, tg_chunk *k)
{
    const tg_tensor *y = call->outputs[0];
    if (y->count > CHUNK) {
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
    k->single = 0;
    k->attributes = call->attributes;
    return true;
}

static void backward_of_one_chunk(const tg_op_call *call, tg_chunk *k)
{
    k->y = tg_values(call->outputs[0]);
    k->dy = call->output_gradients[0];
    for (int i = 0; i < call->input_count; i++) {
        if (call->input_gradients[i]) {
            target t = {gradient_kernel(call, i), call->input_gradients[i], 0, sizeof(real), !call->overwrite[i]};
            run_target(&t, k, 0);
        }
    }
}

/* ---- masks of masks ---- */

typedef struct mask_loop {
    const tg_op_call *call;
    tg_chunk_kernel *kernel;
    bool is_plain; /* all inputs have y's layout */
    tg_walk walks[TG_ELEMENTWISE_INPUTS];
} mask_loop;

static void combine_range(void *context, int64_t begin, int64_t end)
{
    const mask_loop *l = context;
    const int inputs = l->call->input_count;
    uint8_t copies[TG_ELEMENTWISE_INPUTS][MOST_COPIED];
    tg_cursor at[TG_ELEMENTWISE_INPUTS];
    for (int i = 0; i < inputs && !l->is_plain; i++) {
        at[i] = tg_walk_begin(&l->walks[i], begin);
    }
    for (int64_t first = begin, n; first < end; first += n) {
        n = l->is_plain || end - first < MOST_COPIED ? end - first : MOST_COPIED;
        tg_chunk k = {.n = n, .out = (uint8_t *)tg_values(l->call->outputs[0]) + first};
        for (int i = 0; i < inputs; i++) {
            const tg_tensor *x = l->call->inputs[i];
            k.in[i] = copies[i];
            if (tg_walk_is_plain(&l->walks[i])) {
                k.in[i] = (const uint8_t *)tg_values(x) + first;
            } else {
                KERNEL(tg_chunk_gather_mask)(&l->walks[i], x, &at[i], n, copies[i]);
            }
        }
        l->kernel(&k);
    }
}

/* Computes y byte by byte, if the inputs are masks. */
static bool combine_masks(const tg_op_call *call)
{
    mask_loop l = {.call = call, .kernel = KERNEL(tg_elementwise_kernels_of)(call)->masks, .is_plain = true};
    const tg_shape shape = tg_shape_of(call->outputs[0]);
    for (int i = 0; i < call->input_count; i++) {
        if (call->inputs[i]->dtype != TG_U8) {
            return false;
        }
        l.walks[i] = tg_walk_broadcast(call->inputs[i], &shape);
        l.is_plain = l.is_plain && tg_walk_is_plain(&l.walks[i]);
    }
    tg_parallel_for(call->outputs[0]->count, 8 * TG_GRAIN, combine_range, &l);
    return true;
}

void KERNEL(tg_elementwise_forward)(const tg_op_call *call)
{
    tg_tensor *y = call->outputs[0];
    tg_chunk one;
    if (KERNEL(tg_elementwise_kernels_of)(call)->masks && combine_masks(call)) {
        return;
    }
    if (is_one_chunk(call, &one)) {
        one.out = tg_values(y);
        KERNEL(tg_elementwise_kernels_of)(call)->forward(&one);
        return;
    }
    loop l; /* set field by field: zeroing the walks would take time */
    l.call = call;
    l.y = l.dy = NULL;
    const tg_elementwise_kernels *kernels = KERNEL(tg_elementwise_kernels_of)(call);
    l.targets.count = 1;
    l.targets.list[0] = (target){kernels->forward, tg_values(y), 0, (int64_t)tg_size_of(y->dtype), false};
    set_inputs(&l.inputs, call, 0, kernels->takes_value);
    if (y->dtype == REAL_DTYPE) {
        copy_only_tiled(&l.inputs, y);
    }
    run_threads(&l, y->count);
}

void KERNEL(tg_elementwise_backward)(const tg_op_call *call)
{
    const tg_tensor *y = call->outputs[0];
    tg_chunk one;
    if (is_one_chunk(call, &one)) {
        backward_of_one_chunk(call, &one);
        return;
    }
    loop l;
    l.call = call;
    l.y = tg_values(y);
    l.dy = call->output_gradients[0];
    l.targets.count = 0;
    const bool only_first = call->input_count == 2 && !call->input_gradients[1];
    const bool ignores_first = only_first && KERNEL(tg_elementwise_kernels_of)(call)->is_linear;
    set_inputs(&l.inputs, call, call->op->backward_ignores_inputs | ignores_first, false);
    for (int i = 0; i < call->input_count; i++) {
        void *dx = call->input_gradients[i];
        tg_chunk_kernel *kernel = gradient_kernel(call, i);
        if (dx && call->inputs[i]->count != y->count) {
            sum_repeated(&l, i, kernel);
        } else if (dx) {
            l.targets.list[l.targets.count++] = (target){kernel, dx, 0, sizeof(real), !call->overwrite[i]};
        }
    }
    if (l.targets.count > 0) {
        run_threads(&l, y->count);
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

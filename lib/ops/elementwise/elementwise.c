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

typedef struct loop {
    const tg_op_call *call;
    tg_chunk_kernel *kernel;
    chunk_inputs inputs;
    const real *y, *dy; /* NULL in the forward pass */
    void *out;          /* y, or the gradient of one input */
    int64_t out_size;   /* of a value in bytes */
    bool add;           /* results are added to out, instead of written */
} loop;

/* Computes a chunk, whose copied inputs are in row `row` of a tile, or in none (-1). */
static void run_chunk(const loop *l, chunk_buffers *b, int64_t begin, int64_t n, int row, void *out)
{
    tg_chunk k = {.n = n, .out = out, .attributes = l->call->attributes};
    for (int i = 0; i < l->inputs.count; i++) {
        k.in[i] = input_at(&l->inputs, i, b, begin, n, row);
    }
    if (l->dy) {
        k.y = l->y + begin;
        k.dy = l->dy + begin;
    }
    l->kernel(&k);
}

static void run_tile(const loop *l, chunk_buffers *b, int64_t begin, char *out)
{
    int64_t width = l->inputs.tile_width;
    for (int64_t column = 0; column < width; column += TILE_COLUMNS) {
        int64_t n = width - column < TILE_COLUMNS ? width - column : TILE_COLUMNS;
        copy_tiles(&l->inputs, b, begin + column, width - column);
        for (int row = 0; row < TILE_ROWS; row++) {
            int64_t at = row * width + column;
            run_chunk(l, b, begin + at, n, row, out + at * l->out_size);
        }
    }
}

/* Computes the values begin .. end - 1, in tiles, or in chunks that end where rows do. */
static void run_chunks(const loop *l, int64_t begin, int64_t end, int64_t most, char *out)
{
    chunk_buffers b;
    chunk_buffers_begin(&b, l->inputs.count);
    int64_t width = l->inputs.width, row_end = begin - begin % width;
    for (int64_t at = begin, n; at < end; at += n) {
        if (tile_begins(&l->inputs, at, end)) {
            n = TILE_ROWS * l->inputs.tile_width;
            run_tile(l, &b, at, out + (at - begin) * l->out_size);
            continue;
        }
        while (row_end <= at) {
            row_end += width;
        }
        n = row_end < end ? row_end - at : end - at;
        n = n < most ? n : most;
        run_chunk(l, &b, at, n, -1, out + (at - begin) * l->out_size);
    }
}

static void run_range(void *context, int64_t begin, int64_t end)
{
    const loop *l = context;
    if (!l->add) {
        /* If no buffer is needed, a row is one chunk. */
        run_chunks(l, begin, end, l->inputs.none_copied ? end - begin : MOST_COPIED,
                   (char *)l->out + begin * l->out_size);
        return;
    }
    for (int64_t at = begin, n; at < end; at += n) {
        real result[CHUNK];
        n = end - at < CHUNK ? end - at : CHUNK;
        run_chunks(l, at, at + n, CHUNK, (char *)result);
        add_values((real *)l->out + at, n, result);
    }
}

/* ---- gradients of broadcast inputs ---- */

static void gradient_part(const void *context, int64_t begin, int64_t n, void *out)
{
    run_chunks(context, begin, begin + n, CHUNK, out);
}

static void sum_repeated(const loop *l, int i)
{
    const tg_tensor *x = l->call->inputs[i];
    tg_shape shape = tg_shape_of(l->call->outputs[0]), own = tg_shape_of(x);
    int64_t contiguous[TG_MAX_RANK], strides[TG_MAX_RANK];
    tg_contiguous_strides(&own, contiguous);
    for (int axis = 0; axis < shape.rank; axis++) {
        int from = axis - (shape.rank - x->rank);
        strides[axis] = from < 0 || x->shape[from] == 1 ? 0 : contiguous[from];
    }
    bool is_dy = l->call->op->passes_gradient >> i & 1;
    KERNEL(tg_sum_repeated)
    (&shape, strides, is_dy ? NULL : gradient_part, is_dy ? (const void *)l->dy : l, !l->add, l->out);
}

/* ---- whole tensors ---- */

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
        } else if (dx && n <= CHUNK) {
            add_values(dx, n, call->output_gradients[0]);
        } else if (dx) {
            tg_add_values(dx, call->output_gradients[0], n, REAL_DTYPE);
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

/* ---- masks of masks ---- */

static void combine_range(void *context, int64_t begin, int64_t end)
{
    const tg_op_call *call = context;
    tg_chunk k = {.n = end - begin, .out = (uint8_t *)tg_values(call->outputs[0]) + begin};
    for (int i = 0; i < call->input_count; i++) {
        k.in[i] = (const uint8_t *)tg_values(call->inputs[i]) + begin;
    }
    ((const tg_elementwise *)call->op)->masks(&k);
}

/* Computes y byte by byte, if the op has a kernel for that and the inputs are masks with y's layout. */
static bool combine_masks(const tg_op_call *call)
{
    bool possible = ((const tg_elementwise *)call->op)->masks;
    for (int i = 0; possible && i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        possible = x->dtype == TG_U8 && x->contiguous && tg_same_shape(x, call->outputs[0]);
    }
    if (possible) {
        tg_parallel_for(call->outputs[0]->count, 8 * TG_GRAIN, combine_range, (void *)(uintptr_t)call);
    }
    return possible;
}

void KERNEL(tg_elementwise_forward)(const tg_op_call *call)
{
    tg_tensor *y = call->outputs[0];
    tg_chunk one;
    if (combine_masks(call)) {
        return;
    }
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
    l.out_size = (int64_t)tg_size_of(y->dtype);
    l.add = false;
    set_inputs(&l.inputs, call);
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
    l.out_size = sizeof(real);
    set_inputs(&l.inputs, call);
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        if (!call->input_gradients[i] || adds_dy(call, i)) {
            continue;
        }
        l.kernel = KERNEL(tg_elementwise_kernels_of)(call)->gradient[i];
        l.out = call->input_gradients[i];
        l.add = !call->overwrite[i];
        if (x->count != y->count) {
            sum_repeated(&l, i);
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

/* elementwise: the loop that elementwise.h describes.
 *
 * An input is copied if the values of a chunk do not lie side by side in memory, or have another type. Chunks end where
 * long rows do, so that a row, such as a bias, is read in place; of short rows, a chunk has as many as fit. Threads
 * divide the values. The gradients of a broadcast input are summed by tg_sum_repeated, part by part.
 */
#include "ops/elementwise/elementwise_real.h"

#include "base/least.h"
#include "ops/reduce/repeated.h"
#include "tensor/move.h"

enum { CHUNK = TG_ELEMENTWISE_CHUNK };

/* Rows with fewer values are copied together. */
enum { LONG_ROW = 128 };

/* ---- inputs ---- */

/* Copies a run of values that are `stride` apart, as masks. */
static inline void copy_masks(const tg_tensor *x, int64_t offset, int64_t stride, int64_t n, uint8_t *restrict out)
{
    const uint8_t *bytes = (const uint8_t *)tg_values(x) + offset;
    const int32_t *ids = (const int32_t *)tg_values(x) + offset;
    const real *values = (const real *)tg_values(x) + offset;
    for (int64_t i = 0; x->dtype == TG_U8 && i < n; i++) {
        out[i] = bytes[i * stride];
    }
    for (int64_t i = 0; x->dtype == TG_I32 && i < n; i++) {
        out[i] = ids[i * stride] != 0;
    }
    for (int64_t i = 0; x->dtype == real_dtype && i < n; i++) {
        out[i] = values[i * stride] != 0;
    }
}

/* The same of masks and ids, as reals. */
static inline void copy_integers(const tg_tensor *x, int64_t offset, int64_t stride, int64_t n, real *restrict out)
{
    const uint8_t *bytes = (const uint8_t *)tg_values(x) + offset;
    const int32_t *ids = (const int32_t *)tg_values(x) + offset;
    for (int64_t i = 0; x->dtype == TG_U8 && i < n; i++) {
        /* 0 or 1 without a branch, whose direction in a random mask no processor foresees */
        out[i] = (real)((bytes[i * stride] + 255) >> 8);
    }
    for (int64_t i = 0; x->dtype == TG_I32 && i < n; i++) {
        out[i] = (real)ids[i * stride];
    }
}

/* Copies a run of values to a chunk of this type. */
static void copy_run(const tg_tensor *x, int64_t offset, int64_t stride, int64_t n, tg_dtype dtype, void *out)
{
    if (dtype == TG_U8) {
        copy_masks(x, offset, stride, n, out);
    } else if (x->dtype != dtype) {
        copy_integers(x, offset, stride, n, out);
    } else {
        copy_to_row(out, (const word *)tg_values(x) + offset, stride, n);
    }
}

/* Copies rows of `width` reals, which are `apart`. */
static void copy_rows(const tg_tensor *x, int64_t offset, int64_t apart, int64_t stride, int64_t rows, int64_t width,
                      real *restrict out)
{
    const real *values = (const real *)tg_values(x) + offset;
    for (int64_t row = 0; row < rows; row++, values += apart, out += width) {
        if (stride == 0) {
            const real value = *values;
            for (int64_t i = 0; i < width; i++) {
                out[i] = value;
            }
        } else if (stride == 1) {
            memcpy(out, values, (size_t)width * sizeof *out);
        } else {
            copy_to_row(out, (const word *)values, stride, width);
        }
    }
}

/* Copies the next n values of an input. */
static void copy_chunk(const tg_walk *w, tg_cursor *at, const tg_tensor *x, tg_dtype dtype, int64_t n, real *chunk)
{
    const int last = w->rank - 1;
    const int64_t stride = w->stride[last], size = (int64_t)tg_size_of(dtype);
    for (int64_t done = 0, run; done < n; done += run) {
        run = tg_walk_run(w, at, n - done);
        if (dtype != real_dtype || x->dtype != dtype || last == 0 || run < w->size[last]) {
            copy_run(x, at->offset, stride, run, dtype, (char *)chunk + done * size);
        } else {
            const int64_t rows = least((n - done) / run, w->size[last - 1] - at->index[last - 1]);
            copy_rows(x, at->offset, w->stride[last - 1], stride, rows, run, chunk + done);
            at->index[last - 1] += rows - 1;
            at->offset += (rows - 1) * w->stride[last - 1];
            done += (rows - 1) * run;
        }
        tg_walk_advance(w, at, run);
    }
}

/* The copy of a chunk of an input. */
typedef struct copy {
    real values[CHUNK];
    int64_t repeated, offset; /* so many of the values are that of the input at this offset */
} copy;

/* Returns the next n values of an input: in place, or in the copy, where a value that is repeated may be already. */
static inline const void *next_values(const tg_walk *w, tg_cursor *at, const tg_tensor *x, tg_dtype dtype, int64_t n,
                                      copy *c)
{
    const int64_t stride = tg_walk_stride(w), offset = at->offset;
    const bool is_one_run = tg_walk_run(w, at, n) == n;
    if (is_one_run && stride == 1 && x->dtype == dtype) {
        tg_walk_advance(w, at, n);
        return (const char *)tg_values(x) + offset * (int64_t)tg_size_of(dtype);
    }
    if (is_one_run && stride == 0 && n <= c->repeated && offset == c->offset) {
        tg_walk_advance(w, at, n);
        return c->values;
    }
    copy_chunk(w, at, x, dtype, n, c->values);
    c->repeated = is_one_run && stride == 0 ? n : 0;
    c->offset = offset;
    return c->values;
}

void KERNEL(tg_elementwise_set)(tg_elementwise_call *l, const tg_op_call *call, const tg_shape *shape, uint32_t ignores)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    const int64_t count = tg_shape_count(*shape);
    int64_t width = count;
    bool copies = false;
    l->call = call;
    /* NOLINTNEXTLINE(misc-redundant-expression): TG_F32 in one of two compilations */
    l->kernels = (real_dtype == TG_F32 ? op->f32 : op->f64)[tg_level()];
    l->dtype = op->reads_masks ? TG_U8 : real_dtype;
    l->y = l->dy = NULL;
    l->dy_is_chunk = false;
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        /* an input that broadcasts to y and has as many values differs from y only in axes of size 1 */
        l->values[i] = ignores >> i & 1 ? NULL : tg_values(x);
        l->is_whole[i] = !l->values[i] || (x->dtype == l->dtype && x->contiguous && x->count == count);
        if (!l->is_whole[i]) {
            l->walks[i] = tg_walk_broadcast(x, shape);
            width = least(width, l->walks[i].size[l->walks[i].rank - 1]);
            copies = copies || x->dtype != l->dtype || tg_walk_stride(&l->walks[i]) != 1;
        }
    }
    copies = copies || width < least(count, LONG_ROW);
    l->most = copies ? CHUNK : count;
    l->period = width >= LONG_ROW || width == 0 ? width : CHUNK / width * width;
}

/* ---- chunks ---- */

void KERNEL(tg_elementwise_part)(const tg_elementwise_call *l, tg_chunk_kernel *kernel, int64_t begin, int64_t end,
                                 void *out)
{
    const int inputs = l->call->input_count;
    const int64_t value_size = (int64_t)tg_size_of(l->dtype);
    const int64_t size = l->dy ? (int64_t)sizeof(real) : (int64_t)tg_size_of(l->call->outputs[0]->dtype);
    copy copies[TG_ELEMENTWISE_INPUTS];
    tg_cursor at[TG_ELEMENTWISE_INPUTS];
    tg_chunk k = {.n = 0};
    if (l->call->attributes) {
        k.numbers = *(const tg_numbers *)l->call->attributes;
    }
    for (int i = 0; i < inputs; i++) {
        if (!l->is_whole[i]) {
            at[i] = tg_walk_begin(&l->walks[i], begin);
            copies[i].repeated = 0;
        }
    }
    for (int64_t first = begin; first < end; first += k.n) {
        k.n = least(end - first, least(l->dy_is_chunk ? CHUNK : l->most, l->period - first % l->period));
        k.out = (char *)out + (first - begin) * size;
        for (int i = 0; i < TG_ELEMENTWISE_INPUTS; i++) {
            k.in[i] = k.out;
        }
        for (int i = 0; i < inputs; i++) {
            if (!l->is_whole[i]) {
                k.in[i] = next_values(&l->walks[i], &at[i], l->call->inputs[i], l->dtype, k.n, &copies[i]);
            } else if (l->values[i]) {
                k.in[i] = (const char *)l->values[i] + first * value_size;
            }
        }
        k.y = l->y ? (const real *)l->y + first : k.out;
        k.dy = l->dy ? (const real *)l->dy + (l->dy_is_chunk ? 0 : first) : k.out;
        kernel(&k);
    }
}

/* Adds n values to a gradient, which never overlaps them. */
static void add_values(real *restrict dx, int64_t n, const real *restrict in)
{
    for (int64_t i = 0; i < n; i++) {
        dx[i] += in[i];
    }
}

void KERNEL(tg_elementwise_add)(const tg_elementwise_call *l, tg_chunk_kernel *kernel, int64_t begin, int64_t end,
                                void *dx)
{
    real gradients[CHUNK];
    for (int64_t first = begin, n; first < end; first += n) {
        n = least(end - first, CHUNK);
        KERNEL(tg_elementwise_part)(l, kernel, first, first + n, gradients);
        add_values((real *)dx + (first - begin), n, gradients);
    }
}

/* ---- whole tensors ---- */

/* What threads divide. */
typedef struct task {
    const tg_elementwise_call *l;
    tg_chunk_kernel *kernel;
    void *out;
    int64_t size; /* of a value in bytes */
    bool add;
} task;

static void run_part(void *context, int64_t begin, int64_t end)
{
    const task *t = context;
    char *out = (char *)t->out + begin * t->size;
    if (t->add) {
        KERNEL(tg_elementwise_add)(t->l, t->kernel, begin, end, out);
    } else {
        KERNEL(tg_elementwise_part)(t->l, t->kernel, begin, end, out);
    }
}

void KERNEL(tg_elementwise_forward)(const tg_op_call *call)
{
    const tg_tensor *y = call->outputs[0];
    const tg_shape shape = tg_shape_of(y);
    tg_elementwise_call l; /* set field by field: zeroing the walks would take time */
    KERNEL(tg_elementwise_set)(&l, call, &shape, 0);
    task t = {&l, l.kernels->forward, tg_values(y), (int64_t)tg_size_of(y->dtype), false};
    tg_parallel_for(y->count, TG_GRAIN, run_part, &t);
}

static void gradient_part(const void *context, int64_t begin, int64_t n, void *out)
{
    const task *t = context;
    KERNEL(tg_elementwise_part)(t->l, t->kernel, begin, begin + n, out);
}

/* Sums the gradients of input i, which was broadcast. */
static void sum_repeated(const task *t, int i)
{
    const tg_op_call *call = t->l->call;
    const tg_tensor *x = call->inputs[i];
    tg_shape shape = tg_shape_of(call->outputs[0]), own = tg_shape_of(x);
    int64_t contiguous[TG_MAX_RANK], strides[TG_MAX_RANK];
    tg_contiguous_strides(&own, contiguous);
    for (int axis = 0; axis < shape.rank; axis++) {
        int from = axis - (shape.rank - x->rank);
        strides[axis] = from < 0 || x->shape[from] == 1 ? 0 : contiguous[from];
    }
    KERNEL(tg_sum_repeated)(&shape, strides, gradient_part, t, !t->add, t->out);
}

void KERNEL(tg_elementwise_backward)(const tg_op_call *call)
{
    const tg_tensor *y = call->outputs[0];
    const tg_shape shape = tg_shape_of(y);
    tg_elementwise_call l;
    KERNEL(tg_elementwise_set)(&l, call, &shape, call->op->backward_ignores_inputs);
    l.y = tg_values(y);
    l.dy = call->output_gradients[0];
    for (int i = 0; i < call->input_count; i++) {
        task t = {&l, l.kernels->gradient[i], call->input_gradients[i], sizeof(real), !writes_gradient(call, i)};
        const bool is_repeated = call->inputs[i]->count != y->count;
        if (t.out && is_repeated) {
            sum_repeated(&t, i);
        } else if (t.out) {
            tg_parallel_for(y->count, TG_GRAIN, run_part, &t);
        }
    }
}

#ifdef TG_ONCE

const tg_op_kernels tg_elementwise_levels[TG_LEVELS][2] =
    TG_KERNELS_UP_TO(avx2, tg_elementwise_forward, tg_elementwise_backward);

/* Computes the shape that all inputs broadcast to. */
static bool broadcast_inputs(tg_op_call *call, tg_shape *shape)
{
    *shape = tg_shape_of(call->inputs[0]);
    for (int i = 1; i < call->input_count; i++) {
        tg_shape own = tg_shape_of(call->inputs[i]), joined;
        if (!tg_shape_broadcast(shape, &own, &joined)) {
            return tg_op_fail(call, TG_ERROR_SHAPE, "shapes %s and %s do not broadcast: sizes must be equal or 1",
                              tg_shape_text(*shape).text, tg_shape_text(own).text);
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

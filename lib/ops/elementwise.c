/* elementwise: the loop that elementwise.h describes.
 *
 * The output is contiguous. It is cut into chunks of CHUNK values; for each the inputs are made contiguous in buffers
 * on the stack, unless they are already. Chunks of the forward pass are independent, and so are those of a gradient
 * that broadcasting did not repeat: these run on several threads. A repeated gradient is summed chunk after chunk in
 * one thread, so that its bits are always the same.
 */
#include "ops/elementwise.h"

#define CHUNK 512

/* The functions of an elementwise op in this pass's dtype. */
#if defined TG_REAL_F32
#define FUNCTIONS f32
#define REAL_DTYPE TG_F32
#else
#define FUNCTIONS f64
#define REAL_DTYPE TG_F64
#endif

/* ---- walks ---- */

/* Where position `begin` of the walked shape is: the index on each axis, and the place in the walked tensor. */
static int64_t walk_start(const tg_walk *walk, int64_t begin, int64_t index[TG_MAX_RANK])
{
    int64_t place = 0;
    for (int axis = walk->rank - 1; axis >= 0; axis--) {
        index[axis] = begin % walk->size[axis];
        begin /= walk->size[axis];
        place += index[axis] * walk->stride[axis];
    }
    return place;
}

/* The longest run of at most `left` values along the last axis, and then a step to the next run. */
static int64_t walk_run(const tg_walk *walk, const int64_t index[TG_MAX_RANK], int64_t left)
{
    int last = walk->rank - 1;
    int64_t run = walk->size[last] - index[last];
    return run < left ? run : left;
}

static void walk_advance(const tg_walk *walk, int64_t index[TG_MAX_RANK], int64_t *place, int64_t run)
{
    int axis = walk->rank - 1;
    index[axis] += run;
    *place += run * walk->stride[axis];
    while (axis > 0 && index[axis] == walk->size[axis]) {
        *place += walk->stride[axis - 1] - walk->size[axis] * walk->stride[axis];
        index[axis] = 0;
        index[--axis]++;
    }
}

static void KERNEL(gather)(const tg_walk *walk, const tg_tensor *x, int64_t begin, int64_t n, real *out)
{
    int64_t index[TG_MAX_RANK], place = walk_start(walk, begin, index);
    int last = walk->rank - 1;
    for (int64_t done = 0; done < n;) {
        int64_t run = walk_run(walk, index, n - done), stride = walk->stride[last];
        if (x->dtype == TG_U8) {
            const uint8_t *values = (const uint8_t *)tg_values(x) + place;
            for (int64_t i = 0; i < run; i++) {
                out[done + i] = values[i * stride] != 0;
            }
        } else if (x->dtype == TG_I32) {
            const int32_t *values = (const int32_t *)tg_values(x) + place;
            for (int64_t i = 0; i < run; i++) {
                out[done + i] = (real)values[i * stride];
            }
        } else {
            const real *values = (const real *)tg_values(x) + place;
            if (stride == 1) {
                memcpy(out + done, values, (size_t)run * sizeof *out);
            } else {
                for (int64_t i = 0; i < run; i++) {
                    out[done + i] = values[i * stride];
                }
            }
        }
        walk_advance(walk, index, &place, run);
        done += run;
    }
}

/* Adds n values where the walk says; several may go to one place, in order. */
static void KERNEL(scatter_add)(const tg_walk *walk, real *x, int64_t begin, int64_t n, const real *in)
{
    int64_t index[TG_MAX_RANK], place = walk_start(walk, begin, index);
    int last = walk->rank - 1;
    for (int64_t done = 0; done < n;) {
        int64_t run = walk_run(walk, index, n - done), stride = walk->stride[last];
        real *to = x + place;
        if (stride == 1) {
            for (int64_t i = 0; i < run; i++) {
                to[i] += in[done + i];
            }
        } else {
            for (int64_t i = 0; i < run; i++) {
                to[i * stride] += in[done + i];
            }
        }
        walk_advance(walk, index, &place, run);
        done += run;
    }
}

/* ---- one call ---- */

typedef struct KERNEL(loop) {
    const tg_op_call *call;
    void (*function)(const KERNEL(chunk) *);
    bool plain[TG_ELEMENTWISE_INPUTS];
    tg_walk walks[TG_ELEMENTWISE_INPUTS];
    const real *y, *dy; /* NULL in the forward pass */
    void *out;
    bool plain_inputs;       /* all of them */
    bool mask_out;           /* out is u8 */
    bool add;                /* to what is in out, rather than overwriting it */
    const tg_walk *repeated; /* out is smaller than y: sum through this */
} KERNEL(loop);

static void KERNEL(set_inputs)(KERNEL(loop) * loop)
{
    const tg_tensor *y = loop->call->outputs[0];
    loop->plain_inputs = true;
    for (int i = 0; i < loop->call->input_count; i++) {
        const tg_tensor *x = loop->call->inputs[i];
        bool is_real = x->dtype == REAL_DTYPE;
        loop->plain[i] = is_real && x->contiguous && tg_same_shape(x, y);
        if (!loop->plain[i]) {
            tg_shape shape = tg_shape_of(y);
            tg_walk_init(&loop->walks[i], &shape, x, false);
            loop->plain[i] = is_real && tg_walk_is_plain(&loop->walks[i]);
        }
        loop->plain_inputs = loop->plain_inputs && loop->plain[i];
    }
}

static bool KERNEL(writes_directly)(const KERNEL(loop) * loop)
{
    return !loop->add && !loop->mask_out && !loop->repeated;
}

static void KERNEL(run_chunk)(const KERNEL(loop) * loop, int64_t begin, int64_t n)
{
    real gathered[TG_ELEMENTWISE_INPUTS][CHUNK], result[CHUNK];
    bool direct = KERNEL(writes_directly)(loop);
    KERNEL(chunk) k = {.n = n, .attributes = loop->call->attributes};
    for (int i = 0; i < loop->call->input_count; i++) {
        const tg_tensor *x = loop->call->inputs[i];
        if (loop->plain[i]) {
            k.in[i] = (const real *)tg_values(x) + begin;
        } else {
            KERNEL(gather)(&loop->walks[i], x, begin, n, gathered[i]);
            k.in[i] = gathered[i];
        }
    }
    if (loop->dy) {
        k.y = loop->y + begin;
        k.dy = loop->dy + begin;
    }
    k.out = direct ? (real *)loop->out + begin : result;
    loop->function(&k);
    if (loop->repeated) {
        KERNEL(scatter_add)(loop->repeated, loop->out, begin, n, result);
    } else if (loop->mask_out) {
        uint8_t *out = (uint8_t *)loop->out + begin;
        for (int64_t i = 0; i < n; i++) {
            out[i] = result[i] != 0;
        }
    } else if (loop->add) {
        real *out = (real *)loop->out + begin;
        for (int64_t i = 0; i < n; i++) {
            out[i] += result[i];
        }
    }
}

static void KERNEL(run_range)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(loop) *loop = context;
    int64_t step = loop->plain_inputs && KERNEL(writes_directly)(loop) ? end - begin : CHUNK; /* no buffer: one chunk */
    for (int64_t at = begin; at < end; at += step) {
        KERNEL(run_chunk)(loop, at, end - at < step ? end - at : step);
    }
}

static void KERNEL(run_threads)(KERNEL(loop) * loop, int64_t count)
{
    if (count < TG_GRAIN) {
        KERNEL(run_range)(loop, 0, count);
    } else {
        tg_parallel_for(count, TG_GRAIN, KERNEL(run_range), loop);
    }
}

/* Few values, and inputs that are laid out like y: one chunk, and nothing to gather. Most calls of small models are,
 * and for four values the loop would cost more than the op. (An input that broadcasts to y and has as many values
 * differs from it by axes of 1 at most.) */
static bool KERNEL(is_one_chunk)(const tg_op_call *call, KERNEL(chunk) * k)
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

static void KERNEL(backward_of_one_chunk)(const tg_op_call *call, KERNEL(chunk) * k)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    k->y = tg_values(call->outputs[0]);
    k->dy = call->output_gradients[0];
    for (int i = 0; i < call->input_count; i++) {
        real result[CHUNK], *dx = call->input_gradients[i];
        if (!dx) {
            continue;
        }
        bool add = !call->fresh[i];
        k->out = add ? result : dx;
        op->FUNCTIONS->gradient[i](k);
        if (add) {
            for (int64_t at = 0; at < k->n; at++) {
                dx[at] += result[at];
            }
        }
    }
}

void KERNEL(tg_elementwise_forward)(const tg_op_call *call)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    tg_tensor *y = call->outputs[0];
    KERNEL(chunk) one;
    if (KERNEL(is_one_chunk)(call, &one)) {
        one.out = tg_values(y);
        op->FUNCTIONS->forward(&one);
        return;
    }
    KERNEL(loop) loop;
    loop.call = call;
    loop.function = op->FUNCTIONS->forward;
    loop.y = loop.dy = NULL;
    loop.out = tg_values(y);
    loop.mask_out = y->dtype == TG_U8;
    loop.add = false;
    loop.repeated = NULL;
    KERNEL(set_inputs)(&loop);
    KERNEL(run_threads)(&loop, y->count);
}

void KERNEL(tg_elementwise_backward)(const tg_op_call *call)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    const tg_tensor *y = call->outputs[0];
    KERNEL(chunk) one;
    if (KERNEL(is_one_chunk)(call, &one)) {
        KERNEL(backward_of_one_chunk)(call, &one);
        return;
    }
    KERNEL(loop) loop;
    loop.call = call;
    loop.y = tg_values(y);
    loop.dy = call->output_gradients[0];
    loop.mask_out = false;
    KERNEL(set_inputs)(&loop);
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        if (!call->input_gradients[i]) {
            continue;
        }
        tg_walk repeated;
        loop.function = op->FUNCTIONS->gradient[i];
        loop.out = call->input_gradients[i];
        loop.add = !call->fresh[i];
        loop.repeated = NULL;
        if (x->count != y->count) {
            tg_shape shape = tg_shape_of(y);
            tg_walk_init(&repeated, &shape, x, true);
            loop.repeated = &repeated;
            if (call->fresh[i]) {
                memset(loop.out, 0, (size_t)x->count * sizeof(real));
            }
            KERNEL(run_range)(&loop, 0, y->count);
        } else {
            KERNEL(run_threads)(&loop, y->count);
        }
    }
}

#ifdef TG_ONCE

void tg_walk_init(tg_walk *walk, const tg_shape *shape, const tg_tensor *x, bool contiguous)
{
    int64_t plain[TG_MAX_RANK];
    tg_shape own = tg_shape_of(x);
    const int64_t *strides = x->strides;
    if (contiguous) {
        tg_contiguous_strides(&own, plain);
        strides = plain;
    }
    walk->rank = 0;
    for (int axis = 0; axis < shape->rank; axis++) {
        int from = axis - (shape->rank - x->rank);
        int64_t size = shape->size[axis];
        int64_t stride = from >= 0 && x->shape[from] != 1 ? strides[from] : 0;
        if (size == 1) {
            continue;
        }
        int last = walk->rank - 1;
        if (last >= 0 && walk->stride[last] == stride * size) {
            walk->size[last] *= size;
            walk->stride[last] = stride;
        } else {
            walk->size[walk->rank] = size;
            walk->stride[walk->rank++] = stride;
        }
    }
    if (walk->rank == 0) { /* one value */
        walk->rank = 1;
        walk->size[0] = 1;
        walk->stride[0] = 1;
    }
}

bool tg_any_layout(const tg_tensor *input, int i)
{
    (void)input;
    (void)i;
    return true;
}

/* The shape that all inputs broadcast to. */
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

bool tg_elementwise_output(tg_op_call *call, tg_dtype dtype)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    bool equal = true;
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        equal = equal && (i == 0 || tg_same_shape(x, call->inputs[0]));
        if (op->f32->gradient[i] && !tg_dtype_is_float((tg_dtype)x->dtype)) {
            return tg_op_expect_float(call, i);
        }
    }
    tg_shape shape;
    return equal ? tg_op_output_like(call, 0, dtype, 0)
                 : broadcast_inputs(call, &shape) && tg_op_output(call, 0, dtype, shape);
}

/* The first input that must be a float says which. */
bool tg_elementwise_shape(tg_op_call *call)
{
    const tg_elementwise *op = (const tg_elementwise *)call->op;
    int i = 0;
    while (i < call->input_count - 1 && !op->f32->gradient[i]) {
        i++;
    }
    return tg_elementwise_output(call, (tg_dtype)call->inputs[i]->dtype);
}

#endif

/* cast: the same values in another dtype.
 *
 *   forward     y = x, converted as tg_tensor_new_cast does
 *   gradient    dx += dy, converted back: between f32 and f64
 *
 * Follows torch.Tensor.to.
 */
#include "ops/kernel_real.h"
#include "tensor/strided.h"

TG_DECLARE_KERNEL(tg_cast_forward);
TG_DECLARE_KERNEL(tg_cast_backward);

enum { CAST_PART = 512 };

typedef struct conversion {
    void *out;
    tg_dtype to;
    const void *in;
    tg_dtype from;
    bool add; /* to what is there, which has the dtype of `real` */
} conversion;

static void convert_range(void *context, int64_t begin, int64_t end)
{
    const conversion *c = context;
    const char *in = (const char *)c->in + (size_t)begin * tg_size_of(c->from);
    if (!c->add) {
        tg_convert((char *)c->out + (size_t)begin * tg_size_of(c->to), c->to, in, c->from, end - begin);
        return;
    }
    real *out = (real *)c->out + begin;
    for (int64_t i = 0; i < end - begin; i += CAST_PART) {
        real values[CAST_PART];
        int64_t n = end - begin - i < CAST_PART ? end - begin - i : CAST_PART;
        tg_convert(values, c->to, in + (size_t)i * tg_size_of(c->from), c->from, n);
        for (int64_t k = 0; k < n; k++) {
            out[i + k] += values[k];
        }
    }
}

/* The same for rows of an input that is not contiguous. */
static void convert_runs(void *context, int64_t begin, int64_t end)
{
    const tg_op_call *call = context;
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    const tg_dtype from = tg_dtype_of(x), to = tg_dtype_of(y);
    const tg_walk walk = tg_walk_of(x);
    const int64_t one = 1, stride = tg_walk_stride(&walk);
    tg_cursor at = tg_walk_begin(&walk, begin);
    for (int64_t done = begin, n; done < end; done += n) {
        double values[CAST_PART]; /* as wide as any */
        n = tg_walk_run(&walk, &at, end - done);
        n = n < CAST_PART ? n : CAST_PART;
        tg_strided run = tg_strided_of(&(tg_shape){1, {n}}, &one, &stride);
        tg_strided_copy(&run, tg_size_of(from), values,
                        (const char *)tg_values(x) + at.offset * (int64_t)tg_size_of(from));
        tg_convert((char *)tg_values(y) + (size_t)done * tg_size_of(to), to, values, from, n);
        tg_walk_advance(&walk, &at, n);
    }
}

void KERNEL(tg_cast_forward)(const tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *y = call->outputs[0];
    if (!x->contiguous) {
        tg_parallel_for(x->count, TG_GRAIN, convert_runs, (void *)(uintptr_t)call);
        return;
    }
    conversion c = {tg_values(y), tg_dtype_of(y), tg_values(x), tg_dtype_of(x), false};
    tg_parallel_for(x->count, TG_GRAIN, convert_range, &c);
}

/* x has the dtype of `real`, y the other float dtype. */
void KERNEL(tg_cast_backward)(const tg_op_call *call)
{
    conversion c = {call->input_gradients[0], real_dtype, call->output_gradients[0], tg_dtype_of(call->outputs[0]),
                    !call->overwrite[0]};
    tg_parallel_for(call->outputs[0]->count, TG_GRAIN, convert_range, &c);
}

#ifdef TG_ONCE

static bool cast_shape(tg_op_call *call)
{
    tg_dtype dtype = *(const tg_dtype *)call->attributes;
    return tg_op_output(call, 0, dtype, tg_shape_of(call->inputs[0]));
}

/* Rows whose values are near each other are converted as they are read. Others are copied first, in tiles. */
static bool has_long_rows(const tg_tensor *x, int i)
{
    (void)i;
    const tg_walk walk = tg_walk_of(x);
    const int64_t stride = tg_walk_stride(&walk);
    return walk.size[walk.rank - 1] >= 64 && stride >= -4 && stride <= 4;
}

static const tg_op cast_op = {.name = "cast",
                              .shape = cast_shape,
                              .input_names = {"x"},
                              TG_KERNELS(tg_cast_forward, tg_cast_backward),
                              .accepts_layout = has_long_rows,
                              .backward_ignores_inputs = TG_OP_ALL,
                              .backward_ignores_outputs = TG_OP_ALL,
                              .can_overwrite = true};

tg_tensor *tg_cast(tg_tape *t, tg_tensor *x, tg_dtype dtype)
{
    if (!tg_tape_expect_input(t, "cast", "x", x)) {
        return NULL;
    }
    return tg_dtype_of(x) == dtype ? x : tg_apply(t, &cast_op, &x, 1, &dtype, sizeof dtype, NULL);
}

#endif

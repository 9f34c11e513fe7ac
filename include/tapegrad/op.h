/* op: how to write an op. The ops of tapegrad/ops.h are written with this header and nothing else, and so are yours.
 *
 * An op is a constant tg_op: a name, a shape rule, and for each float dtype a forward and a backward kernel. To run it:
 *     tg_tensor *y = tg_apply(tape, &my_op, inputs, input_count, &attributes, sizeof attributes);
 *
 * What happens then, in this order; whatever fails leaves everything as it was:
 *   1. inputs are checked: not NULL, float inputs all of one dtype, contiguous unless the op accepts their layout (a
 *      copy, recorded like any op, is made of those that are not);
 *   2. the shape rule checks the rest, and declares outputs, saved bytes and scratch;
 *   3. the tape reserves all of it;
 *   4. the forward kernel runs. It cannot fail;
 *   5. if recording is on and an input needs a gradient, the call is kept for backward.
 *
 * Backward runs with everything reserved and cannot fail either. A gradient is always contiguous, in its tensor's
 * shape. The kernel adds to the gradients of its inputs: the tape has zeroed those that are new, unless the op says
 * that it `overwrites_fresh`. tests/tape/test_own_op.c is a complete example of an op written from outside.
 */
#ifndef TAPEGRAD_OP_H
#define TAPEGRAD_OP_H

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_op tg_op;

#define TG_OP_MAX_OUTPUTS 4

/* One call of an op: what a shape rule and a kernel may look at. */
typedef struct tg_op_call {
    const tg_op *op;
    tg_tape *tape;
    int input_count;
    int output_count;
    tg_tensor *const *inputs;
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS]; /* made after the shape rule */
    const void *attributes;                /* a copy of what tg_apply was given, aligned to 16; NULL if nothing */
    void *saved;                           /* written by forward, read by backward; NULL if nothing was asked for */
    void *scratch;                         /* for this kernel alone */
    tg_rng *rng;                           /* the tape's; NULL if it has none */
    bool training;                         /* the tape's switch */

    /* in backward: */
    const void *output_gradients[TG_OP_MAX_OUTPUTS]; /* dy; NULL when nothing depends on that output: a zero */
    void *const *input_gradients;                    /* dx; NULL where none is needed */
    const bool *fresh; /* with overwrites_fresh: input_gradients[i] holds no values yet, write instead of adding */
} tg_op_call;

typedef void (*tg_op_kernel)(const tg_op_call *call);

typedef struct tg_op_kernels {
    tg_op_kernel forward;  /* NULL for a pure view */
    tg_op_kernel backward; /* NULL: no gradient in this dtype; a backward through it is an error */
} tg_op_kernels;

struct tg_op {
    const char *name;
    bool (*shape)(tg_op_call *call);
    tg_op_kernels f32, f64; /* chosen by the float inputs, without one by a float output 0, without any float f64 */

    /* Which layouts input i may have; NULL: contiguous ones only. Strides may be 0 or negative. */
    bool (*accepts_layout)(const tg_tensor *input, int i);

    /* What backward reads, a bit each (inputs from the 32nd on share the last bit): a tensor that was changed in place
     * since is an error and never a wrong gradient. */
    uint32_t backward_reads_inputs, backward_reads_outputs;

    uint32_t row_inputs;   /* inputs whose gradient is written through tg_op_gradient_rows */
    bool overwrites_fresh; /* see tg_op_call.fresh */
};

/* Runs an op. Returns its first output, owned by the tape, or NULL with the error in the tape. `attributes` are copied.
 * tg_apply_outputs writes all outputs, as many as the op declared. */
TG_API tg_tensor *tg_apply(tg_tape *tape, const tg_op *op, tg_tensor *const *inputs, int input_count,
                           const void *attributes, size_t attributes_size);
TG_API bool tg_apply_outputs(tg_tape *tape, const tg_op *op, tg_tensor *const *inputs, int input_count,
                             const void *attributes, size_t attributes_size, tg_tensor **outputs);

/* Calls `observer(context, call)` after each forward kernel on this tape, recorded or not; call->outputs hold the
 * results. One at a time: NULL takes it away. The observer must not run ops on the tape. */
typedef void tg_observer(void *context, const tg_op_call *call);
TG_API void tg_tape_set_observer(tg_tape *tape, tg_observer *observer, void *context);

/* ---- for shape rules ----------------------------------------------------------------------------------------- */
/* Each returns false after an error, so that a rule is one chain: a && b && c. */

/* Sets the tape's error to "<op>: <text>". Returns false. */
TG_API bool tg_op_fail(tg_op_call *call, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* The same for what is wrong before an op is called; `name` is the function. Returns NULL, as the function will. */
TG_API tg_tensor *tg_tape_fail(tg_tape *tape, tg_code code, const char *name, const char *format, ...)
    TG_PRINTF_LIKE(4, 5);

/* Makes a negative axis of x count from the end, before a call whose attributes need it; a scalar has an axis 0 as in
 * PyTorch. False, with the tape's error set, when x is NULL or has no such axis. */
TG_API bool tg_tape_axis(tg_tape *tape, const char *name, const tg_tensor *x, int *axis);

TG_API bool tg_op_expect_rank(tg_op_call *call, int input, int rank);
TG_API bool tg_op_expect_dtype(tg_op_call *call, int input, tg_dtype dtype);
TG_API bool tg_op_expect_float(tg_op_call *call, int input);
TG_API bool tg_op_expect_same_shape(tg_op_call *call, int input, int other);

/* Every value of an i32 input (contiguous) lies in [0, bound): "id 50257 at [3,1] is outside [0,50257)". */
TG_API bool tg_op_expect_ids_below(tg_op_call *call, int input, int64_t bound);

/* Declares output number `output` (0, 1, ... in order). */
TG_API bool tg_op_output(tg_op_call *call, int output, tg_dtype dtype, tg_shape shape);

/* The same with the shape of an input. */
TG_API bool tg_op_output_like(tg_op_call *call, int output, tg_dtype dtype, int input);

/* Declares an output that shares the storage of `input`: strides in values, offset from the input's first value. */
TG_API bool tg_op_output_view(tg_op_call *call, int output, int input, tg_shape shape, const int64_t *strides,
                              int64_t offset);

/* Declares count * size bytes that forward leaves for backward; several calls add up. */
TG_API bool tg_op_save(tg_op_call *call, int64_t count, size_t size);

/* Declares scratch for the forward and for the backward kernel, likewise. */
TG_API bool tg_op_scratch(tg_op_call *call, int64_t count, size_t size);
TG_API bool tg_op_backward_scratch(tg_op_call *call, int64_t count, size_t size);

/* Declares that backward will name at most `count` rows in tg_op_gradient_rows. */
TG_API bool tg_op_touches_rows(tg_op_call *call, int64_t count);

/* NumPy's rule for two shapes: aligned at the last axis, sizes equal or 1. False when they do not go together. */
TG_API bool tg_broadcast(tg_shape a, tg_shape b, tg_shape *result);

/* ---- for kernels --------------------------------------------------------------------------------------------- */

/* Where the rows of input's gradient are, in a leaf's row gradient or a dense one: returns the values of row 0 and
 * writes places[i], so that row ids[i] begins at values + places[i] * width. Rows that are new are zero. */
TG_API void *tg_op_gradient_rows(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int32_t *places);

/* Runs body(context, begin, end) over pieces of [0, count), on several threads when there are at least two pieces of
 * `grain`. Pieces do not overlap and cover the range; where they are cut depends on the number of threads, so a body
 * must give the same bits however it is cut. Nested calls run in the calling thread. */
TG_API void tg_parallel_for(int64_t count, int64_t grain, void (*body)(void *context, int64_t begin, int64_t end),
                            void *context);

#ifdef __cplusplus
}
#endif

#endif

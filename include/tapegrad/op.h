/* op: writing an op, as torch.autograd.Function does.
 *
 * An op is a constant tg_op: a name, a shape rule, and a forward and a backward kernel for each float dtype. A function
 * calls it with tg_apply. This is a whole op, y = a b^2 of floats:
 *
 * ```c
 * static bool scaled_square_shape(tg_op_call *call)
 * {
 *     const tg_tensor *a = call->inputs[0], *b = call->inputs[1];
 *     if (!tg_op_expect_float(call, 0) || !tg_op_expect_float(call, 1)) {
 *         return false;
 *     }
 *     if (!tg_shape_equal(tg_tensor_shape(a), tg_tensor_shape(b))) {
 *         return tg_op_fail(call, TG_ERROR_SHAPE, "the shapes of a and b differ");
 *     }
 *     return tg_op_output(call, 0, tg_tensor_dtype(a), tg_tensor_shape(a));
 * }
 *
 * static void scaled_square_forward(const tg_op_call *call)
 * {
 *     const float *a = tg_tensor_data(call->inputs[0]), *b = tg_tensor_data(call->inputs[1]);
 *     float *y = tg_tensor_data_mut(call->outputs[0]);
 *     for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
 *         y[i] = a[i] * b[i] * b[i];
 *     }
 * }
 *
 * static void scaled_square_backward(const tg_op_call *call)
 * {
 *     const float *a = tg_tensor_data(call->inputs[0]), *b = tg_tensor_data(call->inputs[1]);
 *     const float *dy = call->output_gradients[0];
 *     float *da = call->input_gradients[0], *db = call->input_gradients[1];
 *     for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
 *         // NULL if this input needs no gradient
 *         if (da) da[i] += b[i] * b[i] * dy[i];
 *         if (db) db[i] += 2 * a[i] * b[i] * dy[i];
 *     }
 * }
 *
 * static const tg_op scaled_square_op = {
 *     .name = "scaled_square",
 *     .shape = scaled_square_shape,
 *     .f32 = {scaled_square_forward, scaled_square_backward},
 *     .input_names = {"a", "b"},
 *     .backward_ignores_outputs = TG_OP_ALL,
 * };
 *
 * tg_tensor *scaled_square(tg_tape *tape, tg_tensor *a, tg_tensor *b)
 * {
 *     tg_tensor *inputs[] = {a, b};
 *     return tg_apply(tape, &scaled_square_op, inputs, 2, NULL, 0, NULL);
 * }
 * ```
 *
 * ```c
 * tg_tensor *volumes = scaled_square(t, x, y);
 * ```
 *
 * An op for both dtypes has two pairs of kernels from one source. Write them over a type `real`, and compile or include
 * the file twice, with `real` as float and as double, and with different function names. The library's own ops are
 * written this way (lib/ops).
 *
 * Check the gradient of each new op with tg_gradcheck: in f64, or in f32 with a reference; with both inputs, and with
 * each alone.
 *
 * A call has five steps. If a step fails, everything is as it was before the call:
 *   1. The tape checks the inputs: none is NULL, and all float inputs have one dtype. It replaces an input whose layout
 *      the op does not accept by a contiguous copy, which is recorded like any op.
 *   2. The shape rule checks the rest, and declares the outputs, the bytes to save and the scratch memory.
 *   3. The tape reserves this memory.
 *   4. The forward kernel runs. It cannot fail.
 *   5. The tape records the call if recording is on and an input requires a gradient.
 *
 * Backward also reserves its memory first, and then runs the backward kernels, which cannot fail. Gradients are
 * contiguous and have the shape of their tensor. A kernel adds to the gradients of its inputs; the tape has set new
 * ones to zero.
 *
 * The ops of tapegrad/ops.h are written in the same way. In the source tree, examples/own_op has one with its test, and
 * tests/tape/test_own_op.c has attributes and several outputs. The kernels of the library use private headers: BLAS
 * (lib/products/gemm.h), loops over strided values (lib/tensor/walk.h), random bits (lib/base/random.h) and the fields
 * of a tensor (lib/tensor/tensor.h).
 */
#ifndef TAPEGRAD_OP_H
#define TAPEGRAD_OP_H

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_op tg_op;

/* The largest number of outputs. */
#define TG_OP_MAX_OUTPUTS 4

/* What a backward kernel does with the gradient of one input. */
typedef enum tg_gradient_mode {
    /* nothing: the input needs none */
    TG_GRADIENT_NONE,
    /* adds to it */
    TG_GRADIENT_ADD,
    /* writes it, because its memory is uninitialized (tg_op.can_overwrite) */
    TG_GRADIENT_WRITE,
    /* adds rows, at the address that tg_op_grad_rows returns (tg_op.row_inputs) */
    TG_GRADIENT_ROWS
} tg_gradient_mode;

/* One call of an op: the argument of its shape rule and its kernels. */
typedef struct tg_op_call {
    const tg_op *op;
    tg_tape *tape;
    int input_count;
    /* the number of outputs that the shape rule has declared */
    int output_count;
    tg_tensor *const *inputs;
    /* the outputs, which do not exist in the shape rule; uninitialized in forward */
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS];
    /* the attributes given to tg_apply, in backward a copy of them aligned to 16 bytes; NULL without attributes */
    const void *attributes;
    /* memory that forward writes and backward reads; NULL unless the shape rule declared it (tg_op_save), so that a
     * forgotten declaration is a crash and not a wrong number */
    void *saved;
    /* memory of the running kernel, uninitialized; NULL unless the shape rule declared it (tg_op_scratch) */
    void *scratch;
    /* the tape's generator, or NULL */
    tg_rng *rng;
    /* whether training was on when the op was called */
    bool training;
    /* in forward: whether this is a repetition of an earlier call, during backward (tg_activation_checkpoint_begin). If
     * a kernel has an effect besides its outputs, such as the running mean of a batch norm, a repetition must leave it
     * out. */
    bool is_repeated;

    /* in backward: dy, the gradient of each output; NULL for an output that the result does not depend on (zero) */
    const void *output_gradients[TG_OP_MAX_OUTPUTS];
    /* in backward: what happens to the gradient of each input, and dx, its address; NULL unless the mode is ADD or
     * WRITE */
    const tg_gradient_mode *gradient_modes;
    void *const *input_gradients;

    /* private: the declarations of the shape rule */
    struct tg_op_declaration *declaration;
} tg_op_call;

/* A kernel. It may run loops on several threads with tg_parallel_for. It is not called if all outputs are empty; the
 * gradients of the inputs are then zero. */
typedef void (*tg_op_kernel)(const tg_op_call *call);

/* The kernels of one dtype. */
typedef struct tg_op_kernels {
    /* computes the outputs. If NULL, a call in this dtype is an error (DTYPE), unless all outputs are views */
    tg_op_kernel forward;
    /* adds to the gradients of the inputs. If NULL, a backward through a call in this dtype is an error (DTYPE) */
    tg_op_kernel backward;
} tg_op_kernels;

/* All inputs or all outputs, in the bit masks of tg_op. */
#define TG_OP_ALL UINT32_MAX

/* The number of inputs that an op can name. */
#define TG_OP_NAMED_INPUTS 4

/* An op. It must outlive the tapes that call it, as a constant does. */
struct tg_op {
    /* the name in errors and ledgers */
    const char *name;
    /* the shape rule: checks the inputs, and declares outputs and memory; returns false after an error */
    bool (*shape)(tg_op_call *call);

    /* the kernels. The dtype of the float inputs selects the pair; without a float input, the dtype of output 0; if
     * that is not a float either, f64 */
    tg_op_kernels f32, f64;

    /* the names of the first inputs in errors: "argument 'ids' is f32"; NULL: "input 0 is f32" */
    const char *input_names[TG_OP_NAMED_INPUTS];

    /* returns whether the kernels accept the strides of input i, which may be 0 or negative; NULL: contiguous inputs
     * only */
    bool (*accepts_layout)(const tg_tensor *input, int i);

    /* bit masks of the inputs and outputs whose values backward does not read; inputs from the 32nd on share the last
     * bit. Backward reports STATE if any other input or output was modified after the call. The ignored ones may have
     * lost their values when backward runs: the kernel may read their shapes alone. */
    uint32_t backward_ignores_inputs, backward_ignores_outputs;

    /* bit mask of the inputs whose gradients backward writes through tg_op_grad_rows */
    uint32_t row_inputs;

    /* whether backward obeys TG_GRADIENT_WRITE; if not, the tape sets new gradients to zero first, and asks to add */
    bool can_overwrite;

    /* the gradient of the inputs, written in ops, for gradients of gradients (tapegrad/grad.h); NULL: the op has none.
     * It sets dx[i], the gradient of input i, for each i whose call->gradient_modes[i] is not TG_GRADIENT_NONE. All dx
     * are NULL before, which means zero. dy[k] is the gradient of output k, and NULL for an output that the result does
     * not depend on. dx[i] may also have the shape to which input i was broadcast: it is then added up.
     *
     * It reads the attributes, the mode and the saved memory of the call, and of inputs and outputs only those values
     * that backward reads: others may have changed. Errors stay in the tape, as those of every op, so it checks
     * nothing. */
    void (*differentiate)(tg_tape *tape, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx);

    /* bit mask of the inputs that may be bf16; they have no gradient, and all other float inputs are f32 then. A call
     * with another input of bf16 is DTYPE. */
    uint32_t bf16_inputs;

    /* private: bit mask of the inputs that are tables, of which the op reads only those rows that the ids of the input
     * before name */
    uint32_t lookups;

    /* private: in the library's ops, the kernels of f32 and f64 at each CPU level; NULL: f32 and f64 above */
    const tg_op_kernels (*levels)[2];
};

/* Calls an op. Returns its first output, owned by the tape, or NULL with the error in the tape. The attributes are
 * copied; they are optional if their size is 0. `outputs` is optional and receives all outputs: an array of
 * TG_OP_MAX_OUTPUTS. */
TG_API tg_tensor *tg_apply(tg_tape *tape, const tg_op *op, tg_tensor *const *inputs, int input_count,
                           const void *attributes, size_t attributes_size, tg_tensor **outputs);

/* ---- shape rules --------------------------------------------------------------------------------------------- */
/* Each call returns false after an error, so that a shape rule can be one chain: a && b && c. Calls that declare
 * something report STATE outside of a shape rule. */

/* Sets the tape's error to "<op's name>: <text>", with a format as in printf. Returns false. */
TG_API bool tg_op_fail(tg_op_call *call, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);

/* The same for a check before tg_apply: "<name>: <text>", where `name` is the name of the function. Returns false. */
TG_API bool tg_tape_fail(tg_tape *tape, tg_code code, const char *name, const char *format, ...) TG_PRINTF_LIKE(4, 5);

/* Check the rank (SHAPE) or the dtype (DTYPE) of an input. */
TG_API bool tg_op_expect_rank(tg_op_call *call, int input, int rank);
TG_API bool tg_op_expect_dtype(tg_op_call *call, int input, tg_dtype dtype);
TG_API bool tg_op_expect_float(tg_op_call *call, int input);

/* Checks that a contiguous input is i32 (DTYPE), and that every value is in [0,bound) (RANGE): "id 50257 at [3,1] is
 * outside [0,50257)". */
TG_API bool tg_op_expect_ids_below(tg_op_call *call, int input, int64_t bound);

/* Declares output number `output`. Outputs are declared in the order 0, 1, ..., and a rule declares at least one. */
TG_API bool tg_op_output(tg_op_call *call, int output, tg_dtype dtype, tg_shape shape);

/* Declares an output that is a view of `input`. The strides, and the offset of its first value from the input's, are in
 * values, not bytes. */
TG_API bool tg_op_output_view(tg_op_call *call, int output, int input, tg_shape shape, const int64_t *strides,
                              int64_t offset);

/* Declares count * size bytes that forward writes and backward reads (tg_op_call.saved). Several calls add up. MEMORY
 * if the product is too large. */
TG_API bool tg_op_save(tg_op_call *call, int64_t count, size_t size);

/* Declare count * size bytes of scratch memory for the forward kernel, or for the backward kernel. Several calls add
 * up. */
TG_API bool tg_op_scratch(tg_op_call *call, int64_t count, size_t size);
TG_API bool tg_op_backward_scratch(tg_op_call *call, int64_t count, size_t size);

/* Declares that backward passes at most `count` ids to tg_op_grad_rows. */
TG_API bool tg_op_reserve_rows(tg_op_call *call, int64_t count);

/* ---- kernels ------------------------------------------------------------------------------------------------- */

/* Finds rows in the gradient of an input (tg_op.row_inputs), which is by rows or dense. Returns its values, of the
 * input's dtype, and writes the slots: the gradient of row ids[i] begins at values + slots[i] * width. Rows that have
 * no gradient yet are added and set to zero. NULL if the input needs no gradient. */
TG_API void *tg_op_grad_rows(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int32_t *slots);

/* Runs body(context, begin, end) over ranges that cover [0,count) and do not overlap. Several threads are used if count
 * is at least 2 * grain. The ranges depend on the number of threads, so a body must compute the same bits for any
 * ranges. A nested call runs in the calling thread. */
TG_API void tg_parallel_for(int64_t count, int64_t grain, void (*body)(void *context, int64_t begin, int64_t end),
                            void *context);

#ifdef __cplusplus
}
#endif

#endif

/* gradcheck: compares the gradient that backward computes (analytic) with differences of the function (numeric).
 *
 * Each entry is compared with a central difference. Steps and tolerances are those of torch.autograd.gradcheck. As
 * there, a check with nothing to compare fails, an infinite derivative agrees only with itself, and NaN agrees with
 * nothing.
 *
 * ```c
 * static tg_tensor *f(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
 * {
 *     return tg_softmax(tape, tg_matmul(tape, inputs[0], inputs[1]), -1);
 * }
 * ```
 *
 * ```c
 * if (!tg_gradcheck(f, NULL, inputs, 2, NULL, NULL, &error)) {
 *     puts(error.text);
 * }
 * ```
 *
 * An error reads: "gradcheck: d output [0,2] / d input 1 [3,2]: analytic 0.25, numeric -0.25; they may differ by
 * 1e-05".
 *
 * Both modes are stricter than PyTorch's. They also refuse
 *   - a check in which every number is zero, because it cannot detect a mistake;
 *   - a backward that is not linear in the gradient of the result: of either sign, large and small, zero;
 *   - a backward that does not add to an existing gradient, by rows or dense, or that gives other bits when it runs
 *     again;
 *   - a gradient that is wrong only if the input is the result of another op, or if the gradient is new
 *     (tg_op.can_overwrite);
 *   - a result that changes between two calls with the same inputs;
 *   - a kernel that writes outside of an input, an output, a gradient, the saved or the scratch memory, or that changes
 *     what it may only read: inputs, and in backward also outputs, their gradients and the saved memory. The check runs
 *     the kernels on copies between guard zones of 512 bytes, so such a write does no harm: "gradcheck: the backward
 *     kernel of 'my_op' writes value 6 of the gradient of input 0, which has 6";
 *   - a kernel that uses memory that was never written: scratch memory, the values of an output, values outside of a
 *     buffer, and inputs and outputs that backward ignores (tg_op.backward_ignores_inputs). They are NaN in one run,
 *     and a small number in the next. The gaps in the memory of a strided input are NaN.
 *
 * Saved and scratch memory that the shape rule has not declared is NULL: a kernel that uses it crashes, here as in a
 * program.
 *
 * A check knows only its own inputs: a mistake may appear at other values, sizes or strides, or only if some inputs
 * need no gradient. So check several shapes, each input alone, and the same tensor twice. Sizes that differ, and are
 * neither 1 nor squares, show exchanged indices, and where a factor comes from. Keep inputs away from kinks (relu at 0)
 * and ties (sort), where the function has no derivative: the error names the slopes on both sides, unless skip_kinks is
 * set.
 */
#ifndef TAPEGRAD_GRADCHECK_H
#define TAPEGRAD_GRADCHECK_H

#include <tapegrad/params.h>
#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function under test: returns one f32 or f64 result, computed from the inputs on the tape. `context` is the
 * argument of tg_gradcheck. The function is called many times, on a private tape and run whose generator is in the same
 * state each time, so that dropout drops the same values. It must keep nothing between calls, and must not write to its
 * inputs. Returning NULL, with an error in that run, ends the check. */
typedef tg_tensor *(*tg_gradcheck_function)(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context);

/* A reference: the same function in plain C over doubles. inputs[k] has the values of input k as doubles, row-major and
 * without gaps. After the inputs come the parameters that require a gradient (tg_gradcheck_params). `result` receives
 * the values of the result. `context` is the argument of tg_gradcheck or tg_gradcheck_params, or the context of the
 * kernels (tg_gradcheck_arrays). Pass the sizes through it: the reference gets only arrays. */
typedef void (*tg_gradcheck_reference)(void *context, const double *const *inputs, double *result);

typedef enum tg_gradcheck_mode {
    /* every entry of every Jacobian: 2 evaluations per input value, and 3 backward passes per output value */
    TG_GRADCHECK_SLOW,
    /* sums of all entries, weighted with random factors of 1/4 to 1, without and with signs: 4 evaluations per input,
     * and 11 backward passes altogether. After a failure the slow mode runs, too, to find the entry.
     *
     * A mistake is found if its sum exceeds the tolerance: atol times the root of the number of output values, plus
     * rtol times the root of the sum of the squares of all terms. So a relative mistake in all entries is found if it
     * is larger than rtol. A mistake in one of n equal entries is certain to be found only if it is larger than 5 rtol
     * sqrt(n). One in an entry that is small beside the others may be missed altogether. */
    TG_GRADCHECK_FAST,
    /* no differences, and so neither eps nor tolerances: along random directions d of all inputs together, what the
     * gradient g leaves, |f(x + h d) - f(x) - h g.d|, must fall as h^2 while h falls by 4: 9 evaluations for each of 2
     * directions, for ops and whole models, f32 and f64. The report has the orders. Where rounding hides them the
     * verdict is "cannot tell", which fails. Follows taylor_test of dolfin-adjoint (Farrell et al. 2013). Kernels are
     * watched as in the other modes */
    TG_GRADCHECK_TAYLOR
} tg_gradcheck_mode;

/* What an entry of a Jacobian is. */
typedef enum tg_gradcheck_verdict {
    TG_GRADCHECK_RIGHT,
    TG_GRADCHECK_WRONG,
    /* The function has a kink at the value, such as relu at 0 or a tie of a maximum: the slopes on both sides differ,
     * also for smaller steps, and the analytic derivative is one of them or lies between them. Differences of floats
     * tell no kink. */
    TG_GRADCHECK_KINK
} tg_gradcheck_verdict;

/* One entry, in the slow mode. */
typedef struct tg_gradcheck_pair {
    /* the input, and the flat row-major indices of its value and of the output's value */
    int input;
    int64_t input_index, output_index;
    double analytic, numeric;
    tg_gradcheck_verdict verdict;
} tg_gradcheck_pair;

/* A row (an index on axis 0) of an input that has no gradient by design, such as the padding row of an embedding. Its
 * analytic gradient must be exactly zero; no differences are computed. Frozen rows (tapegrad/rows.h) need not be
 * listed. */
typedef struct tg_gradcheck_row {
    /* the index of the input */
    int input;
    int64_t row;
} tg_gradcheck_row;

/* The defaults are PyTorch's, for f64.
 *
 * A check of f32 kernels needs differences of doubles, because a difference of floats has four digits at best. Set
 * dtype to TG_F32, and a reference. Keep eps, atol and rtol: the slow mode then finds an error of 1 % in one entry.
 *
 * ```c
 * static tg_tensor *wave(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
 * {
 *     return tg_sin(tape, inputs[0]);
 * }
 *
 * static void wave_reference(void *context, const double *const *inputs, double *result)
 * {
 *     const int64_t *count = context;
 *     for (int64_t i = 0; i < *count; i++) {
 *         result[i] = sin(inputs[0][i]);
 *     }
 * }
 * ```
 *
 * ```c
 * int64_t count = 4;
 * tg_tensor *floats = tg_tensor_new_full(TG_F32, TG_SHAPE(count), 0.5, &error);
 * tg_tensor_set_requires_grad(floats, true, &error);
 * tg_gradcheck_config config = tg_gradcheck_config_default();
 * config.dtype = TG_F32;
 * config.reference = wave_reference;
 * bool passed = tg_gradcheck(wave, &count, &floats, 1, &config, NULL, &error);
 * tg_release(floats);
 * ```
 *
 * If all ops of the function have f64 kernels, numeric_in_f64 does the same without a reference, but neither for
 * parameters nor for kernels of arrays. Without either, use eps 1e-2, relative_eps true, atol 1e-3 and rtol 1e-2: such
 * a check finds a wrong formula, but not an error of a few percent. */
typedef struct tg_gradcheck_config {
    /* private: tg_gradcheck_config_default() sets it */
    tg_config_mark mark;
    /* the first word of the messages; default "gradcheck" */
    const char *name;
    /* slow, fast or Taylor; default TG_GRADCHECK_SLOW */
    tg_gradcheck_mode mode;
    /* the dtype of all inputs that require a gradient; default TG_F64 */
    tg_dtype dtype;
    /* the step of the differences, > 0; default 1e-6 */
    double eps;
    /* whether the step is eps * max(1, |x|); default false */
    bool relative_eps;
    /* the tolerances: a pair passes if |analytic - numeric| <= atol + rtol * |numeric|; default 1e-5 and 1e-3 */
    double atol, rtol;
    /* for f32 kernels: the function whose differences are computed. Its results must agree with those of the function
     * under test within the tolerances. Default NULL, the function under test */
    tg_gradcheck_reference reference;
    /* whether differences for f32 inputs are computed on f64 copies of them; the function must work in both dtypes;
     * default false */
    bool numeric_in_f64;
    /* whether a check with nothing to compare (a result or inputs of size 0) passes; default false */
    bool allow_empty;
    /* whether training is on in the function's tape; default true */
    bool training;
    /* the state of the tape's generator before each call of the function; default NULL, seed 0 */
    const tg_rng *rng;
    /* the seed of the fast mode's vectors; default 67280421310721, that of a new torch.Generator */
    uint64_t projection_seed;
    /* the names of the inputs in messages, and their number: "input 2 'bias'"; an element may be NULL; default NULL and
     * 0 */
    const char *const *input_names;
    int input_name_count;
    /* whether an entry at a kink is skipped and counted, and not an error; default false */
    bool skip_kinks;
    /* a function that is called with `pair_context` and each entry that the slow mode compares, such as to draw a map
     * of what is wrong. A check that is refused before, such as for `=` instead of `+=`, calls it not once; default
     * NULL */
    void (*on_pair)(void *pair_context, const tg_gradcheck_pair *pair);
    void *pair_context;
    /* the rows without a gradient by design, and their number; both are set or neither; default NULL and 0 */
    const tg_gradcheck_row *rows_without_gradient;
    int row_count;
} tg_gradcheck_config;

TG_API tg_gradcheck_config tg_gradcheck_config_default(void);

/* The size of the verdict in a report. */
#define TG_GRADCHECK_TEXT 1200

typedef struct tg_gradcheck_report {
    /* whether all pairs are within their tolerance */
    bool passed;
    /* the numbers of pairs that were compared, that are wrong, and that are at a kink; of the slow mode */
    int64_t compared, wrong, kinks;

    /* the input of the worst pair that is out of tolerance, or -1, where the parameters follow the inputs in their
     * order; and the flat row-major indices of the input's value and of the output's value, -1 in the fast mode. If a
     * gradient was refused for another reason, `input` is the input of that gradient */
    int input;
    int64_t input_index, output_index;
    /* input_index as text: "[3,1]" */
    char input_position[TG_SHAPE_TEXT];
    /* the numbers of this pair, and the largest difference that passes */
    double analytic, numeric, tolerance;

    /* max |analytic - numeric| over all pairs */
    double max_absolute_error;
    /* the largest of max |analytic - numeric| / max(|analytic|, |numeric|) over the inputs, where each max is over an
     * input's pairs */
    double max_relative_error;
    /* one line for people, also for a check that passed */
    char text[TG_ERROR_TEXT];
    /* a line for each input that was compared, which counts its values (a value is wrong if one of its entries is):
     * "input 2 'bias': 64 of 64 right", or "input 0 'x': 3 of 512 wrong, rows 5, 9; analytic / numeric = 2 in all of
     * them: a factor". Patterns are named if they fit all wrong entries: a factor, the sign, zeros, a transposed
     * matrix. Of the Taylor mode the orders. "" if the check ended before */
    char verdict[TG_GRADCHECK_TEXT];
} tg_gradcheck_report;

/* Returns true if the gradients of `function` with respect to all inputs that require one are right. The function
 * receives copies with the same strides, so the inputs keep their values and gradients. A tensor that is given as
 * several inputs has one copy. No other thread may use a tensor that the function reads. `context` and `report` are
 * optional.
 *
 * Errors: VALUE for a wrong gradient or kernel, for a check in which every number is zero, for a result that changes or
 * that differs from the reference's, and for an invalid option; STATE if no input requires a gradient, if an input that
 * does overlaps itself (tg_expand), or if the function writes to its inputs; SHAPE if nothing can be compared
 * (allow_empty), or if the result's shape changes between calls; DTYPE for an input or a result of another dtype; RANGE
 * for a row that does not exist; MEMORY; and the error of the function's tape. */
TG_API bool tg_gradcheck(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                         const tg_gradcheck_config *config, tg_gradcheck_report *report, tg_error *error);

/* Returns true if the second derivatives of `function` are right: those of the gradients that tg_grad computes with
 * create_graph, with respect to all inputs that require one, and to the gradient of the result, which the check draws.
 * Follows torch.autograd.gradgradcheck. It is a tg_gradcheck of the function that returns these gradients, in the order
 * of the inputs and one after the other, and has that gradient as its last input. Before it, they must be those of the
 * backward kernels, which tg_gradcheck checks. Errors: those of tg_gradcheck and tg_grad; VALUE for a reference. */
TG_API bool tg_gradgradcheck(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                             const tg_gradcheck_config *config, tg_gradcheck_report *report, tg_error *error);

/* The largest number of inputs of tg_gradcheck_arrays. */
#define TG_GRADCHECK_ARRAYS 16

/* Two functions of arrays, which know neither tensors nor tapes. An array is contiguous, and has the C type of its
 * input: double or float, int32_t for ids. */
typedef struct tg_gradcheck_kernels {
    /* writes y. inputs[k] has the values of input k */
    void (*forward)(void *context, const void *const *inputs, void *y);
    /* adds to gradients[k], the gradient of input k, which is NULL if that needs none. dy is the gradient of y */
    void (*backward)(void *context, const void *const *inputs, const void *dy, void *const *gradients);
    /* the first argument of both, and of config.reference; optional */
    void *context;
    /* the shape of y */
    tg_shape shape;
} tg_gradcheck_kernels;

/* tg_gradcheck for such functions:
 *
 * ```c
 * static void twice(void *context, const void *const *inputs, void *y)
 * {
 *     const double *x = inputs[0];
 *     double *result = y;
 *     result[0] = 2 * x[0];
 * }
 *
 * static void twice_backward(void *context, const void *const *inputs, const void *dy, void *const *gradients)
 * {
 *     double *dx = gradients[0];
 *     dx[0] += 2 * *(const double *)dy;
 * }
 * ```
 *
 * ```c
 * tg_tensor *one = tg_tensor_new_full(TG_F64, TG_SHAPE(1), 3, &error);
 * tg_tensor_set_requires_grad(one, true, &error);
 * tg_gradcheck_kernels kernels = {twice, twice_backward, NULL, TG_SHAPE(1)};
 * bool passed = tg_gradcheck_arrays(&kernels, &one, 1, NULL, NULL, &error);
 * tg_release(one);
 * ```
 *
 * Errors: those of tg_gradcheck; STATE if a function is NULL; VALUE for more than TG_GRADCHECK_ARRAYS inputs, and for
 * numeric_in_f64, which a reference can replace; SHAPE for an invalid shape. */
TG_API bool tg_gradcheck_arrays(const tg_gradcheck_kernels *kernels, tg_tensor *const *inputs, int input_count,
                                const tg_gradcheck_config *config, tg_gradcheck_report *report, tg_error *error);

/* tg_gradcheck, also with respect to all parameters that require a gradient. The function reads them as it does in
 * training, through a module or tg_params_find, and messages have their names. So one call checks a module or a model:
 *
 * ```c
 * static tg_tensor *forward(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
 * {
 *     const tg_nn_linear *linear = context;
 *     return tg_nn_linear_forward(tape, linear, inputs[0]);
 * }
 * ```
 *
 * ```c
 * tg_params *doubles = tg_params_new(run, TG_F64);
 * tg_nn_linear head = tg_nn_linear_make(doubles, "head", 4, 3, TG_BIAS);
 * bool passed = tg_gradcheck_params(doubles, forward, &head, inputs, 1, NULL, NULL, &error);
 * tg_params_free(doubles);
 * ```
 *
 * An error reads: "gradcheck: d output [0,2] / d parameter 'head.weight' [3,2]: ...". The parameters keep their values
 * and gradients. `inputs`, `context` and `report` are optional. Errors: those of tg_gradcheck and of the params; VALUE
 * for numeric_in_f64, which a reference can replace. */
TG_API bool tg_gradcheck_params(tg_params *params, tg_gradcheck_function function, void *context,
                                tg_tensor *const *inputs, int input_count, const tg_gradcheck_config *config,
                                tg_gradcheck_report *report, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif

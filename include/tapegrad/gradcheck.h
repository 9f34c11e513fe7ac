/* gradcheck: is the gradient that backward computes the one of the function that forward computes?
 *
 * The gradient is compared with central differences, entry by entry, sign included. Follows torch.autograd.gradcheck:
 * its steps, tolerances and modes, and its rule that a check with nothing to compare is a failure. Three things are
 * stricter: a check in which every number is zero fails, because it could not have failed otherwise; a backward that is
 * run on top of an earlier one must add to it; and the gaps in the memory of a strided input are filled with NaN, so
 * that a kernel that ignores the strides is seen.
 *
 *     static tg_tensor *f(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
 *     {
 *         return tg_softmax(tape, tg_matmul(tape, inputs[0], inputs[1]), -1);
 *     }
 *
 *     tg_gradcheck_report report;
 *     if (!tg_gradcheck(f, NULL, inputs, 2, NULL, &report)) {
 *         puts(report.text);      softmax: d output [0,2] / d input 1 [3,2]: analytic 0.25, numeric -0.25; ...
 *     }
 *
 * Keep inputs away from kinks (relu at 0) and ties (max): there is no derivative there, and the check will say so.
 */
#ifndef TAPEGRAD_GRADCHECK_H
#define TAPEGRAD_GRADCHECK_H

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The function under test: computes one f32 or f64 result from the inputs, on the tape. It is called many times, on a
 * private tape whose generator is in the same state each time, so that dropout drops the same values. It must not keep
 * anything between calls and must not write to its inputs. NULL, with the tape's error, ends the check. */
typedef tg_tensor *(*tg_gradcheck_function)(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context);

typedef enum tg_gradcheck_mode {
    TG_GRADCHECK_SLOW, /* every entry of every Jacobian: 2 evaluations an input value, 3 backwards an output value */
    TG_GRADCHECK_FAST  /* a random direction an input, a random projection of the output: 2 evaluations an input and 3
                          backwards in all; after a failure the slow mode is run to name the entry */
} tg_gradcheck_mode;

/* A row (an index on axis 0) of an input that gets no gradient by design: the padding row of a lookup. Its analytic
 * gradient must be exactly zero; differences are not taken there. Frozen rows (tapegrad/rows.h) are such rows
 * unasked. */
typedef struct tg_gradcheck_row {
    int input;
    int64_t row;
} tg_gradcheck_row;

typedef struct tg_gradcheck_config {
    const char *name;       /* what messages begin with: "gradcheck" */
    tg_gradcheck_mode mode; /* slow */
    tg_dtype dtype;         /* of the inputs that require a gradient; another one is refused: f64 */
    double eps;             /* the step: 1e-6 */
    bool relative_eps;      /* the step is eps * max(1, |x|): false */
    double atol, rtol;      /* passes when |analytic - numeric| <= atol + rtol * |numeric|: 1e-5, 1e-3 */
    bool numeric_in_f64; /* take the differences of f32 inputs in f64 copies; the function must work in both: false */
    bool allow_empty;    /* nothing to compare (a result or inputs of size 0) passes: false */
    bool training;       /* the tape's switch: true */
    const tg_rng *rng;   /* the state that the tape's generator has before each call; NULL: seed 0 */
    uint64_t projection_seed; /* of the fast mode's vectors: 67280421310721, a fresh torch.Generator's */
    const tg_gradcheck_row *rows_without_gradient;
    int row_count;
} tg_gradcheck_config;

/* PyTorch's settings, for f64. */
TG_API tg_gradcheck_config tg_gradcheck_config_default(void);

/* For f32 inputs: eps 1e-2 relative to |x|, atol 1e-3, rtol 1e-2. A difference of floats is worth four digits at best,
 * so this finds a wrong formula and not a sloppy one. With numeric_in_f64 the differences are as good as in f64 and
 * what is left is the rounding of the f32 kernels: then eps 1e-6, atol 1e-5 and rtol 1e-3 hold for most functions. */
TG_API tg_gradcheck_config tg_gradcheck_config_default_f32(void);

typedef struct tg_gradcheck_report {
    bool passed;
    tg_code code;     /* TG_OK; VALUE for a wrong gradient; otherwise why there was no check: MEMORY, DTYPE, ... */
    int64_t compared; /* pairs of numbers */

    /* the worst pair that is not within tolerance; -1 in the fast mode and where there is no such thing */
    int input;
    int64_t input_index, output_index; /* flat, row-major */
    char input_place[TG_SHAPE_TEXT];   /* "[3,1]" */
    double analytic, numeric, tolerance;

    double max_absolute_error; /* max |analytic - numeric| */
    double max_relative_error; /* the largest of the inputs' max |a - n| / max(|a|, |n|), maxima over the tensor */
    char text[TG_ERROR_TEXT];  /* one line, for passed checks as well */
} tg_gradcheck_report;

/* True when the gradients of `function` with respect to all inputs that require one are right. The inputs themselves
 * are only read, and keep the gradients that they have: the function sees copies with the same strides, each a variable
 * of its own. `config` NULL: the default; `report` may be NULL.
 *
 * False, with the reason in the report, also when there is nothing that could have failed: STATE when no input requires
 * a gradient, when an input that does overlaps itself (tg_expand), when the function writes to its inputs; SHAPE when
 * there is nothing to compare (see allow_empty), or when the result's shape changes between calls; VALUE when every
 * number is zero; DTYPE; MEMORY; and the tape's code when the function fails. */
TG_API bool tg_gradcheck(tg_gradcheck_function function, void *context, tg_tensor *const *inputs, int input_count,
                         const tg_gradcheck_config *config, tg_gradcheck_report *report);

#ifdef __cplusplus
}
#endif

#endif

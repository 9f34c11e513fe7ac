/* gradcheck (private): the state of one check. gradcheck_modes.c computes the differences and compares;
 * gradcheck_call.c copies the inputs and calls the function; gradcheck_analytic.c runs backward, and checks what needs
 * no differences.
 */
#ifndef TG_GRADCHECK_GRADCHECK_H
#define TG_GRADCHECK_GRADCHECK_H

#include <math.h>

#include <tapegrad/gradcheck.h>

#include "base/random.h"
#include "gradcheck/guard.h"

/* The number of random directions of an input, and of projections of the result: without signs, and with signs. */
#define TG_CHECK_DRAWS 2

/* One input of the function, or one parameter. */
typedef struct tg_variable {
    const char *name; /* of a parameter, or the one that the config gives to an input; NULL: it has none */
    bool checked;     /* whether the input requires a gradient */
    bool is_repeated; /* whether an earlier input is the same tensor */
    uint64_t version; /* the version of the copy before a call */
    int64_t count;
    tg_shape shape;
    double *jacobian;  /* v^T J, of shape (rows, count) */
    double *before;    /* the gradient before a backward, of shape (count); the block of the next three, too */
    double *again;     /* the gradient after it, of shape (count) */
    double *direction; /* fast mode: d, of shape (count) */
    double *raw;       /* memory for all values of the moved tensor, in its dtype */
    /* slow mode, of shape (count, rows), because they are found value by value: the differences, and what the entries
     * are (tg_gradcheck_verdict) */
    double *numeric;
    uint8_t *verdicts;
    double max_error, max_value;
} tg_variable;

typedef struct tg_check {
    tg_gradcheck_function function;
    void *context, *reference_context; /* of the function, and of config.reference */
    const char *f64_refusal;           /* why numeric_in_f64 is refused; NULL: it is not */
    tg_tensor *const *given;           /* the inputs, and then the parameters */
    const char *const *names;          /* of the parameters */
    int input_count;                   /* with the parameters */
    int parameter_count;
    tg_gradcheck_config config;
    tg_gradcheck_report *report;
    tg_error *error;
    tg_variable *variables;
    tg_tensor **inputs;    /* the copies for the analytic gradient, and the parameters themselves */
    tg_tensor **moved;     /* the same for the differences; with numeric_in_f64 or a reference, f64 copies */
    const double **values; /* with a reference: the values of `moved` */
    tg_run *run;           /* a private one: an error of the function must not stop the program's */
    tg_rng *rng;
    tg_rng start; /* the state of the generator with which each call begins */
    tg_tape *tape;
    tg_shape output_shape;
    int64_t outputs;      /* the number of values of the result */
    double *raw, *first;  /* memory for the values of the result, in its dtype: of this call, and of the first one */
    double *plus, *minus; /* the values of the result after a step forward and a step back */
    double *center;       /* the same without a step */
    double *gaps;         /* the differences of the slopes on both sides, for the first step */
    int64_t rows;         /* the number of vectors v: slow mode: that of the outputs; fast mode: TG_CHECK_DRAWS */
    bool is_projected;    /* whether the vectors are `projections`, of shape (rows, outputs); else they are e_i */
    double *projections;
    tg_tensor *seed; /* the gradient of the result from which backward starts */
    tg_guard guard;
    bool mismatch, anything;
    double excess; /* of the worst mismatch: what its error exceeds the tolerance by */
} tg_check;

/* Returns the step of the differences at a value x. */
static inline double tg_check_step(const tg_check *c, double x)
{
    return c->config.eps * (c->config.relative_eps && fabs(x) > 1 ? fabs(x) : 1);
}

/* Whether differences are computed from floats, and the remark about it. */
static inline bool tg_check_differs_floats(const tg_check *c)
{
    return c->config.dtype == TG_F32 && !c->config.reference && !c->config.numeric_in_f64;
}
static inline const char *tg_check_floats_remark(const tg_check *c)
{
    return c->f64_refusal ? "; a difference of floats is no more exact: set config.reference"
                          : "; a difference of floats is no more exact: set config.reference, or numeric_in_f64";
}

/* Sets the error, unless one is set. Returns false. The functions below also return false after an error. */
bool tg_check_fail(tg_check *c, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);
bool tg_check_out_of_memory(tg_check *c);

/* Returns rows * columns + 1 uninitialized numbers; NULL when memory is exhausted. */
double *tg_check_numbers(int64_t rows, int64_t columns);

/* Checks the function, the inputs and the config of a call. */
bool tg_check_arguments(const char *call, const tg_check *c, const tg_gradcheck_config *config, tg_error *error);

/* Runs the check: sets the report and the error. */
bool tg_check_run(tg_check *c, const tg_gradcheck_config *config, tg_error *error);

/* The modes: fill the report, and set `mismatch` if a derivative is wrong. */
bool tg_check_slow(tg_check *c);
bool tg_check_fast(tg_check *c);
bool tg_check_taylor(tg_check *c);

/* Allocates the rows of every Jacobian, and frees the old ones. */
bool tg_check_make_jacobians(tg_check *c);

/* Writes x[index]. Returns the value that it has in x's dtype. Writes nothing if the function has resized x, or trains
 * it with deferred steps: then the check has failed. */
double tg_check_put(tg_tensor *x, int64_t index, double value);

/* The same for all values of moved input k: read them into `before`, or write `values`, which are rounded in place to
 * its dtype. */
void tg_check_read(const tg_check *c, int k);
void tg_check_write(const tg_check *c, int k, double *values);

/* Writes the verdict of the report, and, if `input` is not -1, the line of that input behind a "; ". */
void tg_check_describe_inputs(const tg_check *c, int input, char *line, size_t size);

/* Writes a remark about the mismatch of the report if the function has a kink there, with the value that ties with the
 * one that moves; "" if it has none. Returns `text`. */
#define TG_CHECK_KINK 400
const char *tg_check_describe_kink(tg_check *c, char text[TG_CHECK_KINK]);

/* Writes "input 2" or "parameter 'head.weight'". Returns `text`. */
#define TG_CHECK_NAME 280
const char *tg_check_name(const tg_check *c, int k, char text[TG_CHECK_NAME]);

/* Fills variables[k], inputs[k] and moved[k]. */
bool tg_check_copy_input(tg_check *c, int k);

/* Checks that config.rows_without_gradient exist. */
bool tg_check_rows(tg_check *c);

/* Returns whether a value of input k is in a row without a gradient. */
bool tg_check_without_gradient(const tg_check *c, int k, int64_t index);

/* Returns the function's result for the inputs, on the tape, or NULL after an error. The kernels run on guarded memory,
 * and the result must be the same in each call. With `as_results` the function gets the inputs as results of another
 * op; NULL without an error if it refuses them. */
tg_tensor *tg_check_record(tg_check *c, bool as_results);

/* Computes the values of the result for `moved`. */
bool tg_check_measure(tg_check *c, double *values);

/* Sets the error if a kernel made a mistake on guarded memory. The next kernels get another fill. */
bool tg_check_guard(tg_check *c);

/* Computes all rows of every Jacobian, v^T J, and checks that backward repeats them, and adds to a gradient. */
bool tg_check_analytic(tg_check *c);

/* Writes that backward must add to the gradient of input k, with what is repeated in the call: an id, the entry's if it
 * is, or the input. Returns `text`. */
#define TG_CHECK_REMARK 320
const char *tg_check_describe_adding(const tg_check *c, int k, int64_t entry, char text[TG_CHECK_REMARK]);

/* Checks that backward is linear in the gradient of the result: a combination of the vectors v gives the same
 * combination of the rows. Also if the inputs are results of other ops. */
bool tg_check_linear(tg_check *c);

/* Returns a number of 1/2 to 1, and with `is_signed` a sign, with so few digits that sums of a few are exact. */
double tg_check_draw(tg_rng *rng, bool is_signed);

#endif

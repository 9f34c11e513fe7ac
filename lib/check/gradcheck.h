/* gradcheck (private): the state of one check. gradcheck.c computes the differences and compares; gradcheck_call.c
 * copies the inputs, calls the function and runs backward.
 */
#ifndef TG_CHECK_GRADCHECK_H
#define TG_CHECK_GRADCHECK_H

#include <tapegrad/gradcheck.h>

#include "tape/tape.h"

/* One input of the function, or one parameter. */
typedef struct tg_variable {
    const char *name; /* of a parameter; NULL for an input */
    bool checked;     /* whether the input requires a gradient */
    uint64_t version; /* the version of the copy before a call */
    int64_t count;
    tg_shape shape;
    double *jacobian;  /* v^T J, of shape (number of v, count) */
    double *again;     /* the row of a repeated backward, of shape (count) */
    double *direction; /* fast mode: d, of shape (count) */
    double direction_sum;
    double max_error, max_value;
} tg_variable;

typedef struct tg_check {
    tg_gradcheck_function function;
    void *context;
    tg_tensor *const *given;  /* the inputs, and then the parameters */
    const char *const *names; /* of the parameters */
    int input_count;          /* with the parameters */
    int parameter_count;
    tg_gradcheck_config config;
    tg_gradcheck_report *report;
    tg_error *error;
    tg_variable *variables;
    tg_tensor **inputs; /* the copies for the analytic gradient, and the parameters themselves */
    tg_tensor **moved;  /* the same for the differences; with numeric_in_f64, f64 copies */
    tg_rng *rng;
    tg_tape *tape;
    tg_shape output_shape;
    int64_t outputs;      /* the number of values of the result */
    void *raw;            /* the values of the result, in its dtype */
    double *plus, *minus; /* the values of the result after a step forward and a step back */
    double *projection;   /* fast mode: v */
    tg_tensor *seed;
    bool mismatch, anything;
} tg_check;

/* Sets the error, unless one is set. Returns false. The functions below also return false after an error. */
bool tg_check_fail(tg_check *c, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);
bool tg_check_out_of_memory(tg_check *c);

/* Runs the check: sets the report and the error. */
bool tg_check_run(tg_check *c, const tg_gradcheck_config *config, tg_error *error);

/* Writes "input 2" or "parameter 'head.weight'". Returns `text`. */
#define TG_CHECK_NAME 280
const char *tg_check_name(const tg_check *c, int k, char text[TG_CHECK_NAME]);

/* Fills variables[k], inputs[k] and moved[k]. */
bool tg_check_copy_input(tg_check *c, int k);

/* Checks that config.rows_without_gradient exist. */
bool tg_check_rows(tg_check *c);

/* Returns whether a value of input k is in a row without a gradient. */
bool tg_check_without_gradient(const tg_check *c, int k, int64_t index);

/* Returns the function's result for these inputs, on the tape; NULL after an error. */
tg_tensor *tg_check_evaluate(tg_check *c, tg_tensor *const *inputs);

/* Computes the values of the result for `moved`. */
bool tg_check_measure(tg_check *c, double *values);

/* Computes row number `row` of every Jacobian: v^T J for the v in `seed`. */
bool tg_check_analytic_row(tg_check *c, tg_tensor *y, int64_t row);

/* Checks that a zero gradient of the result gives zero gradients. */
bool tg_check_zeros_give_zeros(tg_check *c, tg_tensor *y);

/* Checks that rows without a gradient have none in the first `rows` rows of the Jacobians. */
bool tg_check_silent_rows(tg_check *c, int64_t rows);

#endif

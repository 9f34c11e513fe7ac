/* gradcheck (private): one check while it runs. gradcheck.c takes the differences and judges; check_call.c copies the
 * inputs, calls the function and asks backward.
 */
#ifndef TG_TAPE_GRADCHECK_H
#define TG_TAPE_GRADCHECK_H

#include <tapegrad/gradcheck.h>

#include "tape/tape.h"

/* One input. */
typedef struct tg_variable {
    bool checked;     /* requires a gradient */
    uint64_t version; /* of the copy, before a call */
    int64_t count;
    tg_shape shape;
    double *jacobian;  /* (rows of v, count): v^T J */
    double *again;     /* (count): the same once more */
    double *direction; /* (count), fast mode: d */
    double direction_sum;
    double max_error, max_value;
} tg_variable;

typedef struct tg_check {
    tg_gradcheck_function function;
    void *context;
    tg_tensor *const *given;
    int input_count;
    tg_gradcheck_config config;
    tg_gradcheck_report *report;
    tg_variable *variables;
    tg_tensor **inputs; /* copies that backward is asked about */
    tg_tensor **moved;  /* copies that differences are taken with: the same, or f64 ones */
    tg_rng *rng;
    tg_tape *tape;
    tg_shape output_shape;
    int64_t outputs;      /* values in the result */
    void *raw;            /* room for a result in its dtype */
    double *plus, *minus; /* results on both sides */
    double *projection;   /* fast mode: v */
    tg_tensor *seed;
    bool mismatch, anything;
} tg_check;

/* The first failure stays. Returns false, as all of these do after one. */
bool tg_check_fail(tg_check *c, tg_code code, const char *format, ...) TG_PRINTF_LIKE(3, 4);
bool tg_check_out_of_memory(tg_check *c);

/* Fills variables[k], inputs[k] and moved[k]. */
bool tg_check_copy_input(tg_check *c, int k);

/* config.rows_without_gradient: that they exist, and whether an index of input k is in one. */
bool tg_check_rows(tg_check *c);
bool tg_check_without_gradient(const tg_check *c, int k, int64_t index);

/* The function's result at these inputs, on the tape; NULL after a failure. */
tg_tensor *tg_check_evaluate(tg_check *c, tg_tensor *const *inputs);

/* The result's values at the moved inputs. */
bool tg_check_measure(tg_check *c, double *values);

/* Row number `row` of every Jacobian: v^T J for the v that is in the seed. */
bool tg_check_analytic_row(tg_check *c, tg_tensor *y, int64_t row);

bool tg_check_zeros_give_zeros(tg_check *c, tg_tensor *y);

/* Among the first `rows` rows of the Jacobians. */
bool tg_check_silent_rows(tg_check *c, int64_t rows);

#endif

/* op_measure: the times of a row, forward and forward with backward. */
#ifndef TG_BENCH_OP_MEASURE_H
#define TG_BENCH_OP_MEASURE_H

#include "bench/op_inputs.h"

/* Seconds. */
typedef struct op_times {
    /* forward, and forward and backward together; the latter is 0 for an op without a gradient */
    double forward, both;
    /* their bounds (op_bound.h), the longer one of the copy and the multiplications; 0 before they are measured */
    double forward_bound, both_bound;
    /* whether the bounds are those of multiplications */
    bool multiplies;
} op_times;

typedef struct op_case op_case;

/* Returns the tensors of a row, or NULL if it does not run in this shape. Exits with a message if the op fails. */
op_case *op_case_new(const op_row *row, const op_shape *shape, tg_dtype dtype);
void op_case_free(op_case *c);

/* Its row, and the shape of its result. */
const op_row *op_case_row(const op_case *c);
tg_shape op_case_result(const op_case *c);

/* Runs each pass for about `budget` seconds, at least three times, or once if a call takes more than half a second.
 * Before each call the ids change; after it, one value of the result, and of each gradient, is read. The upstream
 * gradient is ones. */
op_times op_measure(op_case *c, double budget);

void op_measure_bounds(const op_case *c, op_times *times);

#endif

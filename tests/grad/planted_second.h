/* planted_second: ops, f64, whose forward and backward kernels are right and smooth, and whose gradient in ops
 * (tg_op.differentiate) is wrong or right, as the caller chooses: 32 whose mistake the check of second derivatives
 * finds, and two whose mistake it does not. */
#ifndef TG_TESTS_GRAD_PLANTED_SECOND_H
#define TG_TESTS_GRAD_PLANTED_SECOND_H

#include <tapegrad/op.h>

/* An input of rank `rank`. With ids: an i32 constant of these values. Else f64 values that are drawn uniformly from
 * [low,high), and that require a gradient unless `is_constant`. */
typedef struct second_input {
    int rank;
    int64_t size[2];
    double low, high;
    const int32_t *ids;
    bool is_constant;
} second_input;

typedef struct planted_second {
    const char *name;
    const char *wrong;
    tg_tensor *(*call)(tg_tape *tape, tg_tensor *const *inputs, bool is_right);
    int input_count;
    /* whether the mistake leaves the first derivatives right, at the values that the check has */
    bool first_is_right;
    /* why the check does not find the mistake; NULL if it does */
    const char *unnoticed;
    second_input inputs[2];
} planted_second;

extern const planted_second planted_seconds[];
extern const int planted_second_count;

#endif

/* planted_gradients: forty ops whose forward kernel is right and smooth, and whose backward kernel is wrong, in f64. */
#ifndef TG_TESTS_CHECK_PLANTED_GRADIENTS_H
#define TG_TESTS_CHECK_PLANTED_GRADIENTS_H

#include <tapegrad/op.h>

/* An input of rank `rank`. With ids: an i32 constant of these values, row-major. Else f64 values that are drawn
 * uniformly from [low,high), and that require a gradient. */
typedef struct planted_input {
    int rank;
    int64_t size[2];
    double low, high;
    const int32_t *ids;
} planted_input;

typedef struct planted {
    const char *name;
    const char *wrong;
    tg_tensor *(*call)(tg_tape *tape, tg_tensor *const *inputs);
    int input_count;
    planted_input inputs[2];
    /* the relative tolerance that the check needs to see the mistake; 0: the default of 1e-3 will do */
    double rtol;
} planted;

extern const planted planted_ops[];
extern const int planted_count;

/* Returns an input. */
tg_tensor *planted_make_input(const planted_input *in, tg_rng *rng);

/* A tg_gradcheck_function whose context is a planted. */
tg_tensor *planted_call(tg_tape *tape, tg_tensor *const *inputs, int count, void *context);

#endif

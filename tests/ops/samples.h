/* samples: a table of all ops with a gradient: a call, input shapes, and random values away from points where the op
 * is not differentiable. The gradient checks and the mutation test use this table. A test fails if an op is missing
 * here. */
#ifndef TG_TESTS_OPS_SAMPLES_H
#define TG_TESTS_OPS_SAMPLES_H

#include <tapegrad.h>

#define SAMPLE_INPUTS 4
#define SAMPLE_SHAPES 7

typedef enum sample_draw {
    ABSENT,   /* no such input */
    REAL,     /* uniform in [-2,2) */
    POSITIVE, /* uniform in [0.5,2) */
    NONZERO,  /* the same, with a random sign */
    DISTINCT, /* steps of 0.25, shuffled: no two are near each other, none is near 0 or another input's */
    IDS,      /* i32 in [0, bound), with duplicates */
    TARGETS,  /* the same, now and then -100 */
    MASK      /* u8: both 0 and 1 */
} sample_draw;

typedef struct sample {
    const char *op; /* the public function */
    const char *variant;
    tg_tensor *(*call)(tg_tape *tape, tg_tensor *const *inputs);
    sample_draw draw[SAMPLE_INPUTS];
    const char *shapes[SAMPLE_SHAPES]; /* one case each: sizes of every input, "2,3 3"; "-" is a scalar */
    int64_t bound;                     /* of the ids */
    double eps;                        /* 0: the default */
    bool empty;                        /* the result is, whatever the input is */
    bool padded;                       /* row 1 of input 0 gets no gradient by design */
} sample;

extern const sample samples[];
extern const int sample_count;

/* Public functions that return a tensor and have no gradient, with the reason. */
typedef struct without_gradient {
    const char *op, *reason;
} without_gradient;

extern const without_gradient without_gradients[];
extern const int without_gradient_count;

#endif

/* layout: the references of ops whose result values are input values, or 0. Their formula is a function from the index
 * of a result to the number of a value of x.
 */
#ifndef TG_TESTS_REFERENCE_LAYOUT_H
#define TG_TESTS_REFERENCE_LAYOUT_H

#include "reference.h"

enum { NOTHING = -1 };

typedef struct layout_options {
    tg_shape shape;           /* of reshape and expand, and the times of repeat */
    int axis;                 /* of several ops */
    tg_axes axes;             /* of flip and permute */
    int64_t begin, end, step; /* of slice */
    int64_t number;           /* the diagonal of tril and triu */
    double row_options[FORMULA_NUMBERS];
} layout_options;

typedef struct layout {
    /* draws the options, behind the input, whose shape is x */
    void (*draw)(trial *t, layout_options *o, tg_shape x);
    /* whether the call is valid, and the shape of its result */
    bool (*shape)(const layout_options *o, tg_shape x, tg_shape *y);
    tg_tensor *(*call)(tg_tape *tape, tg_tensor *x, const layout_options *o);
    /* the number of the value of x that the result has at this index, or NOTHING for 0 */
    int64_t (*source)(const layout_options *o, tg_shape x, const int64_t *index);
    int min_rank;
    bool has_floats; /* only */

    /* a row of tests/rows, which has the call, the shape and the source instead */
    const struct test_row *row;
} layout;

void layout_draw(trial *t);
bool layout_is_valid(const trial *t);
tg_tensor *layout_call(trial *t);
void layout_forward(trial *t);
void layout_backward(trial *t);

#define LAYOUT_REFERENCE(name, without_gradient, layout_of_op)                                                        \
    {                                                                                                                 \
        .op = name, .draw = layout_draw, .is_valid = layout_is_valid, .call = layout_call, .forward = layout_forward, \
        .backward = layout_backward, .roundings = 0, .gradient_roundings = 8, .has_no_gradient = without_gradient,    \
        .data = layout_of_op,                                                                                         \
    }

#endif

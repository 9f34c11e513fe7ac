/* pca: places vectors on the plane in which they differ most. The two directions are found by repeated products with
 * the vectors (the power method); the second one in what is left of the vectors without the first. */
#include <math.h>

#include "sentences.h"

enum { ROUNDS = 100 };

/* Returns the direction (C,1) in which vectors x (N,C) with a mean of 0 differ most: it grows fastest by x^T x. */
static tg_tensor *find_direction(tg_tape *t, tg_tensor *x)
{
    tg_tensor *direction = tg_transpose(t, tg_slice(t, x, 0, 0, 1, 1), 0, 1);
    for (int round = 0; round < ROUNDS; round++) {
        tg_tensor *norm = tg_clamp(t, tg_norm(t, direction, 2, TG_ALL_AXES, TG_DROP_AXES), 1e-30, INFINITY);
        direction = tg_div(t, direction, norm);
        if (round < ROUNDS - 1) {
            direction = tg_matmul(t, tg_transpose(t, x, 0, 1), tg_matmul(t, x, direction));
        }
    }
    return direction;
}

bool pca(tg_tape *t, tg_tensor *units, double *places)
{
    tg_tensor *x = tg_sub(t, units, tg_mean(t, units, TG_AXES(0), TG_KEEP_AXES));
    for (int axis = 0; axis < 2; axis++) {
        tg_tensor *direction = find_direction(t, x), *along = tg_matmul(t, x, direction);
        const float *values = tg_tensor_data(along);
        for (int64_t i = 0; values && i < tg_tensor_count(along); i++) {
            places[2 * i + axis] = (double)values[i];
        }
        x = tg_sub(t, x, tg_matmul(t, along, tg_transpose(t, direction, 0, 1)));
    }
    return tg_tape_error(t)->code == TG_OK || complain("%s", tg_tape_error(t)->text);
}

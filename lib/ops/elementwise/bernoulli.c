/* bernoulli: 1 with the probability that each value of p gives, else 0. No gradient.
 *
 * The draws are those of torch.bernoulli(p): one output of the generator per float, two per double, in the row-major
 * order of the shape.
 */
#include "base/random.h"
#include "ops/kernel_real.h"

TG_DECLARE_KERNEL(tg_bernoulli_forward);

void KERNEL(tg_bernoulli_forward)(const tg_op_call *call)
{
    const real *p = tg_values(call->inputs[0]);
    real *y = tg_values(call->outputs[0]);
    int64_t count = call->outputs[0]->count;
    for (int64_t portion; count > 0; p += portion, y += portion, count -= portion) {
        portion = tg_rng_portion(count, TG_RNG_CHUNK);
        TYPED(tg_rng_uniform)(call->rng, y, portion, 0, 1);
        for (int64_t i = 0; i < portion; i++) {
            y[i] = y[i] < p[i];
        }
    }
}

#ifdef TG_ONCE

/* Returns whether all values are probabilities. */
static bool are_probabilities(const tg_tensor *p)
{
    const float *floats = tg_values(p);
    const double *doubles = tg_values(p);
    unsigned bad = 0;
    for (int64_t i = 0; p->dtype == TG_F32 && i < p->count; i++) {
        bad |= !((floats[i] >= 0) & (floats[i] <= 1));
    }
    for (int64_t i = 0; p->dtype == TG_F64 && i < p->count; i++) {
        bad |= !((doubles[i] >= 0) & (doubles[i] <= 1));
    }
    return !bad;
}

static bool bernoulli_shape(tg_op_call *call)
{
    const tg_tensor *p = call->inputs[0];
    tg_shape shape = tg_shape_of(p);
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    bool valid = are_probabilities(p);
    for (int64_t i = 0; !valid && i < p->count; i++) {
        char text[TG_SHAPE_TEXT];
        if (!(tg_get(p, i) >= 0 && tg_get(p, i) <= 1)) {
            return tg_op_fail(call, TG_ERROR_VALUE, "probability %g at %s is outside [0,1]", tg_get(p, i),
                              tg_index_format(&shape, i, text));
        }
    }
    return (call->rng || tg_op_fail(call, TG_ERROR_STATE, "the tape has no generator; it needs a run (tg_run_new)")) &&
           tg_op_output(call, 0, tg_dtype_of(p), shape);
}

static const tg_op bernoulli_op = {
    .name = "bernoulli",
    .shape = bernoulli_shape,
    .input_names = {"p"},
    TG_KERNELS(tg_bernoulli_forward, TG_NO_KERNEL),
};

/* p is detached, because the draws do not depend on it smoothly. */
tg_tensor *tg_bernoulli(tg_tape *t, tg_tensor *p)
{
    if (!tg_tape_expect_input(t, "bernoulli", "p", p)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    p = tg_detach(t, p);
    return tg_tape_end(t, &point, tg_apply(t, &bernoulli_op, &p, 1, NULL, 0, NULL));
}

#endif

/* compare: a tensor of the library beside the formula's values, and the inputs beside what they were before. */
#include "trial.h"

#include <string.h>

/* Whether a value of the library agrees with a value of the formula. */
static bool agrees(tg_dtype dtype, double roundings, double got, double expected, double terms)
{
    double largest = largest_of(dtype);
    /* Below the normal numbers there are fewer digits, and some functions give 0: a sum of 1000 such numbers. */
    double smallest = 1000 * smallest_of(dtype);
    if (isnan(expected)) {
        return isnan(got);
    }
    /* Terms overflow in the dtype: several give anything, a single one its infinity, or NaN. In f64 the largest number
     * stands for infinite terms. */
    if (terms >= largest) {
        return terms != fabs(expected) || got == expected || isnan(got) || (isinf(got) && (got > 0) == (expected > 0));
    }
    if (isinf(expected) || !is_float(dtype)) {
        return got == expected;
    }
    double bound = roundings * eps_of(dtype) * terms + (roundings > 0 ? smallest : 0);
    if (isinf(got)) {
        return (got > 0) == (expected > 0) && fabs(expected) + bound >= largest;
    }
    return fabs(got - expected) <= bound;
}

double with_long_axes(const trial *t, double roundings)
{
    return roundings * (1 + (double)t->long_values / 64);
}

void compare(trial *t, const char *what, const tg_tensor *got, tg_dtype dtype, const array *expected, double roundings)
{
    char text[TG_SHAPE_TEXT], other[TG_SHAPE_TEXT];
    if (tg_tensor_dtype(got) != dtype || !tg_shape_equal(tg_tensor_shape(got), expected->shape)) {
        trial_fail(t, "%s is %s %s, expected %s %s", what, tg_dtype_name(tg_tensor_dtype(got)),
                   tg_shape_format(tg_tensor_shape(got), text), tg_dtype_name(dtype),
                   tg_shape_format(expected->shape, other));
        return;
    }
    for (int64_t i = 0; i < expected->count; i++) {
        double value = tg_tensor_value_at(got, i);
        if (!agrees(dtype, roundings, value, expected->values[i], expected->terms[i])) {
            int64_t index[TG_MAX_RANK];
            split_index(expected->shape, i, index);
            tg_shape at = expected->shape;
            memcpy(at.size, index, sizeof index);
            trial_fail(t, "%s at %s is %.17g, expected %.17g, of terms %.3g", what, tg_shape_format(at, text), value,
                       expected->values[i], expected->terms[i]);
            return;
        }
    }
}

/* ---- what a call must not change ---- */

static size_t bytes_of(const tg_tensor *x)
{
    size_t size = tg_dtype_size(tg_tensor_dtype(x));
    return (size_t)tg_tensor_count(x) * size;
}

void save_inputs(trial *t)
{
    for (int k = 0; k < t->input_count; k++) {
        input *in = &t->inputs[k];
        if (in->is_present) {
            in->before = trial_memory(t, bytes_of(in->leaf));
            memcpy(in->before, tg_tensor_data(in->leaf), bytes_of(in->leaf));
        }
    }
}

void expect_same_inputs(trial *t, const char *after)
{
    for (int k = 0; k < t->input_count; k++) {
        input *in = &t->inputs[k];
        if (in->is_present && bytes_of(in->leaf) > 0 &&
            memcmp(in->before, tg_tensor_data(in->leaf), bytes_of(in->leaf)) != 0) {
            trial_fail(t, "%s has changed the values of %s", after, in->name);
        }
    }
}

void expect_no_gradients(trial *t, const char *after)
{
    for (int k = 0; k < t->input_count; k++) {
        if (tg_tensor_grad_kind(t->inputs[k].leaf) != TG_GRAD_NONE ||
            tg_tensor_grad_kind(t->inputs[k].tensor) != TG_GRAD_NONE) {
            trial_fail(t, "%s has given %s a gradient", after, t->inputs[k].name);
        }
    }
}

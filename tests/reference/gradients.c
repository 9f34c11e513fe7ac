/* gradients: one or two passes of backward, by the library and by the formula, or by differences of the formula. */
#include "trial.h"

#include <float.h>
#include <stdio.h>

/* sum dy y over all float results. */
static double inner_product(const trial *t)
{
    double sum = 0;
    for (int k = 0; k < t->output_count; k++) {
        for (int64_t i = 0; is_float(t->outputs[k].dtype) && i < t->outputs[k].y.count; i++) {
            sum += t->outputs[k].dy.values[i] * t->outputs[k].y.values[i];
        }
    }
    return sum;
}

/* Central differences of fourth order of the formula. Their error is about 1e-11 of the sum of absolute terms. */
static void backward_by_differences(trial *t)
{
    const double h = 1e-3;
    t->reference->forward(t);
    double terms = 1;
    for (int k = 0; k < t->output_count; k++) {
        for (int64_t i = 0; is_float(t->outputs[k].dtype) && i < t->outputs[k].y.count; i++) {
            terms += fabs(t->outputs[k].dy.values[i]) * t->outputs[k].y.terms[i];
        }
    }
    for (int k = 0; k < t->input_count; k++) {
        input *in = &t->inputs[k];
        for (int64_t i = 0; in->requires_grad && i < in->x.count; i++) {
            double middle = in->x.values[i], at[4];
            const memory_block *last_kept = t->newest_block;
            for (int step = 0; step < 4; step++) {
                in->x.values[i] = middle + h * (double[]){-2, -1, 1, 2}[step];
                t->reference->forward(t);
                at[step] = inner_product(t);
                trial_free_memory(t, last_kept);
            }
            in->x.values[i] = middle;
            double slope = (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * h);
            in->dx.values[i] += slope;
            in->dx.terms[i] += (terms + fabs(slope)) * 1e-8 / DBL_EPSILON;
        }
    }
    t->reference->forward(t);
}

/* Adds a random, dense, signed gradient of each result to the gradients of the leaves; so does the formula. */
static void one_backward(trial *t, bool is_last)
{
    int differentiable = 0, done = 0;
    for (int k = 0; k < t->output_count; k++) {
        differentiable += tg_tensor_requires_grad(t->outputs[k].result);
    }
    for (int k = 0; k < t->output_count; k++) {
        output *out = &t->outputs[k];
        out->dy = array_new(t, out->y.shape);
        if (!tg_tensor_requires_grad(out->result)) {
            continue;
        }
        for (int64_t i = 0; i < out->dy.count; i++) {
            double value = draw_uniform(t, -2, 2);
            out->dy.values[i] = converted(out->dtype, value);
        }
        tg_error error = TG_NO_ERROR;
        tg_tensor *full = tg_tensor_new(TG_F64, out->y.shape, &error);
        tg_tensor_fill_from(full, out->dy.values, &error);
        tg_tensor *dy = tg_tensor_new_cast(full, out->dtype, &error);
        tg_backward_config config = tg_backward_config_default();
        config.gradient = dy;
        config.retain_graph = ++done < differentiable || !is_last;
        if (!tg_backward(t->tape, out->result, &config)) {
            trial_fail(t, "backward was refused: %s", tg_tape_error(t->tape)->text);
            tg_run_clear_error(t->run);
        }
        tg_release(full);
        tg_release(dy);
    }
    if (t->reference->backward) {
        t->reference->backward(t);
    } else {
        backward_by_differences(t);
    }
}

/* The gradient of the tensor that owns an input's: the sum over all inputs that it owns, at the positions of their
 * views. A value that occurs several times, as on an expanded axis, is rounded once more for each when it is added. */
static void compare_gradient(trial *t, const input *in)
{
    array expected = array_new(t, tg_tensor_shape(in->owner)), shares = array_new(t, expected.shape);
    double most_shares = 1;
    for (int k = 0; k < t->input_count; k++) {
        const input *other = &t->inputs[k];
        for (int64_t i = 0; other->owner == in->owner && i < other->x.count; i++) {
            int64_t at = other->in_owner[i];
            expected.values[at] += other->dx.values[i];
            expected.terms[at] += other->dx.terms[i];
            most_shares = fmax(most_shares, ++shares.values[at]);
        }
    }
    if (tg_tensor_grad_kind(in->owner) == TG_GRAD_NONE) {
        trial_fail(t, "%s has no gradient", in->name);
        return;
    }
    tg_tensor *got = tg_tensor_new_dense_grad(in->owner, NULL);
    char what[80];
    snprintf(what, sizeof what, "the gradient of %s", in->name);
    compare(t, what, got, in->dtype, &expected, with_long_axes(t, t->reference->gradient_roundings + most_shares - 1));
    tg_release(got);
}

void check_gradients(trial *t)
{
    bool can_differentiate = t->reference->backward || (t->dtype == TG_F64 && t->flavor == SMOOTH && t->is_smooth);
    if (!can_differentiate) {
        return;
    }
    int passes = draw_chance(t, 25) ? 2 : 1;
    bool calls_again = passes == 2 && draw_chance(t, 50);
    /* A row with a norm of 1e30 is scaled to a norm that is max_norm up to rounding, so whether another call scales it
     * again is chance. */
    calls_again = calls_again && !(t->changes_inputs && (t->flavor == SPECIAL || t->flavor == WIDE));
    note(t, "    passes of backward: %d%s\n", passes, calls_again ? ", each through a call of its own" : "");
    for (int pass = 0; pass < passes && !t->has_failed; pass++) {
        if (pass > 0 && calls_again) {
            tg_rng_copy(tg_run_rng(t->run), t->rng_before);
            t->outputs[0].result = t->reference->call(t);
        }
        one_backward(t, pass + 1 == passes);
    }
    if (!t->changes_inputs) {
        expect_same_inputs(t, "backward");
    }
    for (int k = 0; k < t->input_count && !t->has_failed; k++) {
        if (t->inputs[k].requires_grad) {
            compare_gradient(t, &t->inputs[k]);
        } else if (tg_tensor_grad_kind(t->inputs[k].tensor) != TG_GRAD_NONE) {
            trial_fail(t, "%s requires no gradient, but has one", t->inputs[k].name);
        }
    }
}

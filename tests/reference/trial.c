/* trial: one random call. The library computes it, the formula computes it, and every value of the results and of the
 * gradients is compared. A call that is invalid must be refused, and must change nothing. */
#include "reference.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparison ---- */

static bool is_float(tg_dtype dtype)
{
    return dtype == TG_F32 || dtype == TG_F64;
}

/* Whether a value of the library agrees with a value of the formula. */
static bool agrees(tg_dtype dtype, double roundings, double got, double expected, double terms)
{
    double eps = dtype == TG_F32 ? FLT_EPSILON : DBL_EPSILON, largest = dtype == TG_F32 ? FLT_MAX : DBL_MAX;
    /* Below the normal numbers there are fewer digits, and some functions give 0: a sum of 1000 such numbers. */
    double smallest = 1000 * (dtype == TG_F32 ? FLT_MIN : DBL_MIN);
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
    double bound = roundings * eps * terms + (roundings > 0 ? smallest : 0);
    if (isinf(got)) {
        return (got > 0) == (expected > 0) && fabs(expected) + bound >= largest;
    }
    return fabs(got - expected) <= bound;
}

/* Compares a tensor with values of the formula. */
static void compare(trial *t, const char *what, const tg_tensor *got, tg_dtype dtype, const array *expected,
                    double roundings)
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
    size_t size = tg_tensor_dtype(x) == TG_F64 ? 8 : tg_tensor_dtype(x) == TG_U8 ? 1 : 4;
    return (size_t)tg_tensor_count(x) * size;
}

static void save_inputs(trial *t)
{
    for (int k = 0; k < t->input_count; k++) {
        input *in = &t->inputs[k];
        if (in->is_present) {
            in->before = trial_memory(t, bytes_of(in->leaf));
            memcpy(in->before, tg_tensor_data(in->leaf), bytes_of(in->leaf));
        }
    }
}

static void expect_same_inputs(trial *t, const char *after)
{
    for (int k = 0; k < t->input_count; k++) {
        input *in = &t->inputs[k];
        if (in->is_present && bytes_of(in->leaf) > 0 &&
            memcmp(in->before, tg_tensor_data(in->leaf), bytes_of(in->leaf)) != 0) {
            trial_fail(t, "%s has changed the values of %s", after, in->name);
        }
    }
}

static void expect_no_gradients(trial *t, const char *after)
{
    for (int k = 0; k < t->input_count; k++) {
        if (tg_tensor_grad_kind(t->inputs[k].leaf) != TG_GRAD_NONE ||
            tg_tensor_grad_kind(t->inputs[k].tensor) != TG_GRAD_NONE) {
            trial_fail(t, "%s has given %s a gradient", after, t->inputs[k].name);
        }
    }
}

/* A refused call names itself and the reason, and changes nothing. */
static void expect_refused(trial *t, const tg_tensor *y)
{
    const tg_error *error = tg_tape_error(t->tape);
    if (y || error->code == TG_OK) {
        trial_fail(t, "the call is invalid, but it was accepted");
        return;
    }
    const char *name = t->reference->op + strlen("tg_"), *inner = t->reference->inner;
    name = inner && strncmp(error->text, inner, strlen(inner)) == 0 ? inner : name;
    if (strncmp(error->text, name, strlen(name)) != 0 || strlen(error->text) < strlen(name) + 10) {
        trial_fail(t, "the error does not name the call and a reason: \"%s\"", error->text);
    }
    if (tg_rng_position(t->rng) != tg_rng_position(t->rng_before)) {
        trial_fail(t, "the refused call has drawn from the generator");
    }
    expect_same_inputs(t, "the refused call");
    expect_no_gradients(t, "the refused call");
    tg_tape_clear_error(t->tape);
}

/* ---- gradients ---- */

static bool any_requires_grad(const trial *t)
{
    for (int k = 0; k < t->input_count; k++) {
        if (t->inputs[k].requires_grad) {
            return true;
        }
    }
    return false;
}

static bool any_result_is_float(const trial *t)
{
    for (int k = 0; k < t->output_count; k++) {
        if (is_float(t->outputs[k].dtype)) {
            return true;
        }
    }
    return false;
}

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
            out->dy.values[i] = out->dtype == TG_F32 ? (double)(float)value : value;
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
            tg_tape_clear_error(t->tape);
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

/* The gradient of a leaf: the sum over all inputs that are it, at the positions of their views. The share of each value
 * of an expanded axis is rounded once more when it is added. */
static void compare_gradient(trial *t, const input *in)
{
    const tg_tensor *leaf = in->has_recorded_view ? in->leaf : in->tensor;
    array expected = array_new(t, tg_tensor_shape(leaf)), shares = array_new(t, expected.shape);
    double most_shares = 1;
    for (int k = 0; k < t->input_count; k++) {
        const input *other = &t->inputs[k];
        for (int64_t i = 0; other->leaf == in->leaf && i < other->x.count; i++) {
            int64_t at = in->has_recorded_view ? other->positions[i] : i;
            expected.values[at] += other->dx.values[i];
            expected.terms[at] += other->dx.terms[i];
            most_shares = fmax(most_shares, ++shares.values[at]);
        }
    }
    if (tg_tensor_grad_kind(leaf) == TG_GRAD_NONE) {
        trial_fail(t, "%s has no gradient", in->name);
        return;
    }
    tg_tensor *got = tg_tensor_new_dense_grad(leaf, NULL);
    char what[80];
    snprintf(what, sizeof what, "the gradient of %s", in->name);
    compare(t, what, got, in->dtype, &expected, t->reference->gradient_roundings + most_shares - 1);
    tg_release(got);
}

static void check_gradients(trial *t)
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
            tg_rng_copy(t->rng, t->rng_before);
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

/* ---- the trial ---- */

static void check_call(trial *t)
{
    const reference *r = t->reference;
    r->draw(t);
    if (tg_tape_error(t->tape)->code != TG_OK) {
        trial_fail(t, "drawing the inputs failed: %s", tg_tape_error(t->tape)->text);
        return;
    }
    save_inputs(t);
    tg_rng_copy(t->rng_before, t->rng);
    tg_tensor *y = t->outputs[0].result = r->call(t);
    if (t->mixes_dtypes || (r->is_valid && !r->is_valid(t))) {
        expect_refused(t, y);
        return;
    }
    if (!y) {
        trial_fail(t, "the call is valid, but was refused: %s", tg_tape_error(t->tape)->text);
        return;
    }
    r->forward(t);
    bool has_gradient = t->is_recording && !r->has_no_gradient && any_requires_grad(t) && any_result_is_float(t);
    for (int k = 0; k < t->output_count && !t->has_failed; k++) {
        const output *out = &t->outputs[k];
        char what[40];
        snprintf(what, sizeof what, "result %d", k);
        compare(t, what, out->result, out->dtype, &out->y, r->roundings);
        if (t->is_recording && tg_tensor_requires_grad(out->result) != (has_gradient && is_float(out->dtype))) {
            trial_fail(t, "result %d %s a gradient", k, has_gradient ? "does not require" : "requires");
        }
    }
    if (!t->changes_inputs) {
        expect_same_inputs(t, "the call");
    }
    expect_no_gradients(t, "the call");
    if (has_gradient && !t->has_failed) {
        check_gradients(t);
    }
}

/* Draws the level and the threads, which hold for the process, and the tape's options. */
static void draw_surroundings(trial *t)
{
    tg_cpu_level level = (tg_cpu_level)draw_integer(t, TG_CPU_BASELINE, TG_CPU_AVX512);
    while (!tg_set_cpu_level(level, NULL)) {
        level--;
    }
    int threads = (int)draw_integer(t, 1, 2);
    tg_set_threads(threads, NULL);
    int64_t percent = draw_integer(t, 0, 99);
    t->flavor = percent < 55 ? SMOOTH : percent < 70 ? TIES : percent < 80 ? WIDE : SPECIAL;
    t->dtype = draw_chance(t, 50) ? TG_F32 : TG_F64;
    t->is_smooth = true;
    tg_tape_config config = tg_tape_config_default();
    config.recycle = draw_chance(t, 50);
    config.detect_freed_results = draw_chance(t, 10);
    uint64_t seed = draw_bits(t);
    t->rng = tg_rng_new(seed);
    t->rng_before = tg_rng_new(0);
    t->tape = tg_tape_new(t->rng, &config);
    t->is_recording = !draw_chance(t, 5);
    t->is_training = draw_chance(t, 70);
    tg_tape_set_recording(t->tape, t->is_recording);
    tg_tape_set_training(t->tape, t->is_training);
    note(t, "    level %s, %d threads, %s, generator seed %llu%s%s\n", tg_cpu_level_name(level), threads,
         (const char *[]){"smooth", "ties", "wide", "special"}[t->flavor], (unsigned long long)seed,
         t->is_recording ? "" : ", not recording", t->is_training ? "" : ", not training");
}

bool trial_run(const reference *r, uint64_t random, void (*describe)(const trial *t))
{
    trial *t = calloc(1, sizeof *t);
    if (!t) {
        fprintf(stderr, "reference: memory is exhausted\n");
        exit(2);
    }
    t->reference = r;
    t->random = random;
    t->describe = describe;
    draw_surroundings(t);
    check_call(t);
    tg_tape_free(t->tape);
    for (int k = 0; k < t->input_count; k++) {
        bool is_first = true;
        for (int before = 0; before < k; before++) {
            is_first = is_first && t->inputs[before].leaf != t->inputs[k].leaf;
        }
        if (is_first) {
            tg_release(t->inputs[k].leaf);
        }
    }
    tg_params_free(t->params);
    tg_rng_free(t->rng);
    tg_rng_free(t->rng_before);
    trial_free_memory(t, NULL);
    bool is_right = !t->has_failed;
    free(t);
    return is_right;
}

/* trial: one random call. The library computes it, the formula computes it, and every value of the results and of the
 * gradients is compared. A call that is invalid must be refused, and must change nothing. */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (tg_rng_position(tg_run_rng(t->run)) != tg_rng_position(t->rng_before)) {
        trial_fail(t, "the refused call has drawn from the generator");
    }
    expect_same_inputs(t, "the refused call");
    expect_no_gradients(t, "the refused call");
    tg_run_clear_error(t->run);
}

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

static void check_call(trial *t)
{
    const reference *r = t->reference;
    r->draw(t);
    if (tg_tape_error(t->tape)->code != TG_OK) {
        trial_fail(t, "drawing the inputs failed: %s", tg_tape_error(t->tape)->text);
        return;
    }
    print_shapes(t);
    save_inputs(t);
    tg_rng_copy(t->rng_before, tg_run_rng(t->run));
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
        compare(t, what, out->result, out->dtype, &out->y,
                r->counts_additions ? r->roundings : with_long_axes(t, r->roundings));
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
    t->run = tg_run_new(seed);
    t->rng_before = tg_rng_new(0);
    t->tape = tg_tape_new(t->run, &config);
    t->is_recording = !draw_chance(t, 5);
    t->is_training = draw_chance(t, 70);
    t->shares = draw_chance(t, 35);
    draw_room(t);
    tg_tape_set_recording(t->tape, t->is_recording);
    tg_tape_set_training(t->tape, t->is_training);
    note(t, "    level %s, %d threads, %s, generator seed %llu%s%s\n", tg_cpu_level_name(level), threads,
         (const char *[]){"smooth", "ties", "wide", "special"}[t->flavor], (unsigned long long)seed,
         t->is_recording ? "" : ", not recording", t->is_training ? "" : ", not training");
}

bool trial_run(const reference *r, uint64_t random, int64_t turn, void (*describe)(const trial *t))
{
    trial *t = calloc(1, sizeof *t);
    if (!t) {
        fprintf(stderr, "reference: memory is exhausted\n");
        exit(2);
    }
    t->reference = r;
    t->random = random;
    t->turn = turn;
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
    tg_run_free(t->run);
    tg_rng_free(t->rng_before);
    trial_free_memory(t, NULL);
    bool is_right = !t->has_failed;
    free(t);
    return is_right;
}

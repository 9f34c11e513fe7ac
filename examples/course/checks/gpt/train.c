#include <tapegrad.h>

#define STEPS 6
#define BATCH 2
#define TIME 4
#define VOCABULARY 9

typedef struct session {
    tg_run *shared_run;
    tg_params *params;
    tg_gpt *model;
    tg_optim *optim;
    tg_tape *tape;
} session;

/* A small model with a seed, Adam, and a tape that refuses a second backward without a reset,
 * and a result that is used after one. */
static session session_new(int seed)
{
    session s = {.shared_run = tg_run_new((uint64_t)seed)};
    s.params = tg_params_new(s.shared_run, TG_F64);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = VOCABULARY, config.context = TIME, config.width = 8, config.heads = 2, config.layers = 1;
    s.model = tg_gpt_new(s.params, &config);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.02;
    s.optim = tg_adam_new(s.params, &adam);
    tg_tape_config tape = tg_tape_config_default();
    tape.max_backwards = 1;
    tape.detect_freed_results = true;
    s.tape = tg_tape_new(s.shared_run, &tape);
    return s;
}

#ifdef COURSE_WORKER
#include <stdio.h>

#include "../worker.h"

void train(tg_tape *t, const tg_gpt *model, tg_optim *optim, int steps, int batch, int time, const int *ids,
           const int *targets, double *losses);

/* seed, steps; ids, targets -> losses, 1 if the tape has an error */
static void run(void **a)
{
    const int *n = a[0];
    int *has_error = a[4];
    session s = session_new(n[0]);
    train(s.tape, s.model, s.optim, n[1], BATCH, TIME, a[1], a[2], a[3]);
    *has_error = tg_tape_error(s.tape)->code != TG_OK;
    if (*has_error) {
        puts(tg_tape_error(s.tape)->text);
    }
    tg_tape_free(s.tape);
    tg_optim_free(s.optim);
    tg_gpt_free(s.model);
    tg_params_free(s.params);
    tg_run_free(s.shared_run);
}

const course_call course_calls[] = {{"train", run}, {NULL, NULL}};
#else
#include "../check.h"

static void expect_training(const int *ids, const int *targets, int steps)
{
    double losses[STEPS], expected[STEPS];
    int seed = draw_int(1, 1000000), has_error;
    session s = session_new(seed);
    for (int step = 0; step < steps; step++) {
        tg_tape_reset(s.tape);
        tg_tensor *loss =
            tg_gpt_loss(s.tape, s.model, tg_constant_i32(s.tape, TG_SHAPE(BATCH, TIME), ids + step * BATCH * TIME),
                        tg_constant_i32(s.tape, TG_SHAPE(BATCH, TIME), targets + step * BATCH * TIME), NULL);
        tg_optim_zero_grad(s.optim);
        tg_backward(s.tape, loss, NULL);
        tg_optim_step(s.optim);
        expected[step] = tg_tensor_item(loss, NULL);
    }
    call("train", LIST(INTS(seed, steps), IN(ids, steps * BATCH * TIME), IN(targets, steps * BATCH * TIME),
                       OUT(losses, steps), OUT(&has_error, 1)));
    if (has_error) {
        fail("gpt/train.error");
    }
    expect("the loss of step", losses, expected, steps, 0, 1e-9);
}

void course_checks(void)
{
    int ids[STEPS * BATCH * TIME], targets[STEPS * BATCH * TIME];
    draw_ids(ids, STEPS * BATCH * TIME, VOCABULARY);
    draw_ids(targets, STEPS * BATCH * TIME, VOCABULARY);
    check("first");
    describe("one step");
    expect_training(ids, targets, 1);

    check("model");
    describe("6 steps of Adam, random batches");
    expect_training(ids, targets, STEPS);
}
#endif

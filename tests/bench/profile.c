/* A step here is a forward and a backward pass, because the optimizer runs no kernels of the tape. Two tapes run it in
 * turn, one of them with a profile. Noise only adds to a time, so the least times are compared. */
#include "bench/profile.h"

#include <math.h>

#include <tapegrad.h>
#include <tapegrad_tools.h>

#include "bench/figure.h"

enum { B = 4, T = 128, V = 2048, ROUNDS = 41 };

typedef struct step {
    tg_gpt *model;
    tg_optim *optim;
    tg_tensor *inputs, *targets;
} step;

/* Returns the seconds of one step. */
static double run_step(const step *s, tg_tape *t)
{
    double begin = bench_seconds();
    tg_tape_reset(t);
    tg_tensor *logits = tg_gpt_forward(t, s->model, s->inputs, NULL);
    tg_backward(t, tg_cross_entropy(t, logits, s->targets, NULL), NULL);
    double taken = bench_seconds() - begin;
    tg_optim_zero_grad(s->optim);
    return taken;
}

static double seconds_of(const tg_profile *profile)
{
    double sum = 0;
    for (int64_t i = 0; i < tg_profile_count(profile); i++) {
        tg_profile_row row = tg_profile_at(profile, i);
        sum += row.forward_seconds + row.backward_seconds;
    }
    return sum;
}

void bench_profile(void)
{
    tg_run *run = bench_must(tg_run_new(123));
    tg_params *params = bench_must(tg_params_new(run, TG_F32));
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = T;
    config.width = 256;
    config.heads = config.layers = 4;
    step s = {.model = bench_must(tg_gpt_new(params, &config)),
              .optim = bench_must(tg_sgd_new(params, NULL)),
              .inputs = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(B, T), NULL)),
              .targets = bench_must(tg_tensor_new(TG_I32, TG_SHAPE(B, T), NULL))};
    tg_tensor_fill_randint(s.inputs, tg_run_rng(run), 0, V, NULL);
    tg_tensor_fill_randint(s.targets, tg_run_rng(run), 0, V, NULL);
    tg_tape *plain = bench_must(tg_tape_new(run, NULL)), *profiled = bench_must(tg_tape_new(run, NULL));
    tg_profile *profile = bench_must(tg_profile_new(profiled));
    double without = INFINITY, with = INFINITY, covered = 0;
    for (int round = 0; round < (bench_quick ? ROUNDS / 4 : ROUNDS); round++) {
        without = fmin(without, run_step(&s, plain));
        tg_profile_reset(profile);
        double taken = run_step(&s, profiled), kernels = seconds_of(profile);
        covered = taken < with ? kernels / taken : covered;
        with = fmin(with, taken);
    }
    bench_value("profile: its kernels, of a step of a small GPT", 100 * covered, "%");
    bench_value("profile: what it adds to the step", 100 * (with / without - 1), "%");
    tg_profile_free(profile);
    tg_tape_free(plain);
    tg_tape_free(profiled);
    tg_release(s.inputs);
    tg_release(s.targets);
    tg_optim_free(s.optim);
    tg_gpt_free(s.model);
    tg_params_free(params);
    tg_run_free(run);
}

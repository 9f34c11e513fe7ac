/* 01: Why does the learning rate rise before it falls, and what does clipping change? Appendix D: a training whose
 * learning rate rises for the first steps and then falls on half a cosine, with clipped gradients.
 *
 *     appendix_d_01_schedule --book DIR [--steps 135]
 *
 * With the book the training has 135 steps of 124 million parameters and takes minutes, so it needs --steps.
 */
#include "../fine_tuning.h"

#include <math.h>
#include <string.h>

enum { PASSES = 15 };

static const char own_text[] =
    "There was a lighthouse on a rock in the sea. The rock was black, the lighthouse was white, and at night its lamp "
    "was yellow. The keeper lit the lamp when the sun went down, and put it out when the sun came up. When the wind "
    "was "
    "strong the sea came up to the door of the lighthouse, and the keeper stayed with the lamp. Once a week a boat "
    "came "
    "to the rock, and brought bread and letters. The keeper read the letters by the light of the lamp, and wrote long "
    "answers. When the boat was late the keeper read the old letters again, and the lamp was on the whole night.";

/* The appendix's schedule, without a warm-up for `warmup_steps` 0. */
static tg_schedule_config schedule_of(int64_t steps, int64_t warmup_steps, double peak)
{
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.total_steps = steps;
    schedule.warmup_steps = warmup_steps;
    schedule.initial_lr = 0.1 * peak;
    schedule.lr = peak;
    schedule.minimum_lr = 0.01 * peak;
    return schedule;
}

static tg_loader *loader_of(tg_tokenizer *bpe, const char *text, size_t length, int64_t context, bool training,
                            tg_rng *rng)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, length, false, &tokens, &error);
    check(&error);
    tg_loader_config config = tg_loader_config_default();
    config.context = config.stride = context;
    config.batch_size = 2;
    config.shuffle = config.drop_last = training;
    tg_loader *loader = tg_loader_new(tokens.ids, tokens.count, rng, &config);
    check(tg_loader_error(loader));
    tg_tokens_free(&tokens);
    return loader;
}

/* Returns the largest gradient of all parameters. */
static double highest_gradient(const tg_params *params)
{
    double highest = -INFINITY;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *gradient = tg_tensor_new_dense_grad(tg_params_at(params, i).tensor, NULL);
        for (int64_t k = 0; k < tg_tensor_count(gradient); k++) {
            highest = fmax(highest, tg_tensor_value_at(gradient, k));
        }
        tg_release(gradient);
    }
    return highest;
}

static void train(tg_tape *t, tg_gpt *model, tg_params *params, tg_loader *loader, const tg_schedule_config *schedule,
                  int64_t steps)
{
    tg_error error = TG_NO_ERROR;
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.weight_decay = 0.1;
    tg_optim *optim = tg_adamw_new(params, &adamw);
    for (int64_t step = 0; step < steps;) {
        tg_batch batch;
        if (!tg_loader_next(loader, &batch)) {
            check(tg_loader_error(loader));
            continue; /* another pass */
        }
        double lr = tg_schedule_lr(step, schedule, &error);
        tg_optim_set_lr(optim, NULL, lr);
        tg_tape_reset(t);
        tg_tensor *loss = tg_gpt_loss(t, model, batch.inputs, batch.targets, NULL);
        tg_optim_zero_grad(optim);
        tg_backward(t, loss, NULL);
        check(tg_tape_error(t));
        bool is_clipped = step >= schedule->warmup_steps;
        double highest = step == schedule->warmup_steps ? highest_gradient(params) : 0;
        double norm = is_clipped ? tg_clip_grad_norm(params, 1) : 0;
        if (step == schedule->warmup_steps) {
            printf("Largest gradient before clipping %.4f, after %.4f\n", highest, highest_gradient(params));
        }
        tg_optim_step(optim);
        check(tg_optim_error(optim));
        check(&error);
        if (step % 15 == 0 || step + 1 == steps) {
            printf("(Iter %06lld): lr %.6f, loss %.3f", (long long)step, lr, tg_tensor_item(loss, NULL));
            is_clipped ? printf(", norm %.3f\n", norm) : printf("\n");
        }
        step++;
    }
    tg_optim_free(optim);
}

int main(int argc, char **argv)
{
    options o = begin(argc, argv, "Why does the learning rate rise before it falls, and what does clipping change?", 0);
    tg_tokenizer *bpe = tokenizer_of(&o, own_text);
    size_t length = strlen(own_text);
    char *story = o.book ? book_text(o.book, &length) : NULL;
    tg_rng *rng = tg_rng_new(123);
    int64_t context = o.book ? 256 : 16;
    tg_loader *loader = loader_of(bpe, story ? story : own_text, length * 9 / 10, context, true, rng);
    int64_t steps = tg_loader_batches(loader) * PASSES, warmup_steps = steps / 5;
    cell(12);
    printf("%lld\n", (long long)warmup_steps);
    /* the appendix's figures, which show these as curves */
    tg_schedule_config schedule = schedule_of(steps, warmup_steps, 0.001);
    cell(35);
    printf("Learning rates:");
    for (int64_t step = 0; step < steps; step += steps / 9) {
        printf(" %.6f", tg_schedule_lr(step, &schedule, NULL));
    }
    printf("\n");
    if (!o.book || o.steps > 0) {
        tg_params *params = tg_params_new(TG_F32, rng);
        tg_gpt_config config;
        tg_gpt_config_from_name("gpt2-small", &config, NULL);
        config.context = context;
        if (!o.book) {
            config.vocabulary = tg_tokenizer_vocabulary(bpe);
            config.width = 32;
            config.heads = config.layers = 2;
        }
        tg_gpt *model = tg_gpt_new(params, &config);
        check(tg_params_error(params));
        tg_tape *t = book_tape(rng);
        train(t, model, params, loader, &schedule, o.steps > 0 && o.steps < steps ? o.steps : steps);
        tg_tape_free(t);
        tg_gpt_free(model);
        tg_params_free(params);
    } else {
        printf("The training of the book's model takes minutes: --steps %lld\n", (long long)steps);
    }

    tg_loader_free(loader);
    tg_rng_free(rng);
    tg_text_free(story);
    tg_tokenizer_free(bpe);
    return book_end();
}

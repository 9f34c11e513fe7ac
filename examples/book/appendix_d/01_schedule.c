/* 01: Why does the learning rate rise before it falls, and what does clipping change? Appendix D: a training whose
 * learning rate rises for the first steps and then falls on half a cosine, with clipped gradients.
 *
 *     appendix_d_01_schedule --book DIR [--steps N]
 *
 * 15 passes are 135 steps of 124 million parameters and take some minutes; --steps N stops after N steps. The losses
 * are those that PyTorch prints on a CPU; the book's were printed on another device.
 */
#include "../ch05/training.h"

#include <math.h>

enum { PASSES = 15 };

/* The appendix's schedule; the small model of a program without the book learns at a greater rate. */
static tg_schedule_config schedule_of(int64_t steps, const char *book)
{
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.total_steps = steps;
    schedule.warmup_steps = steps / 5;
    schedule.initial_lr = 0.00001;
    schedule.lr = book ? 0.001 : 0.005;
    schedule.minimum_lr = 0.00001;
    return schedule;
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

/* The cells before these walk twice through all passes. The gradients are those of the last batch that they saw. */
static void clip_one_gradient(tg_tape *t, tg_run *run, const char *book, const tg_tokenizer *bpe, tg_loader *loader)
{
    tg_batch batch;
    for (int64_t left = 2 * PASSES * tg_loader_batches(loader); left > 0;) {
        left -= tg_loader_next(loader, &batch);
        check(tg_loader_error(loader));
    }
    tg_rng_seed(tg_run_rng(run), 123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = model_new(params, book, bpe);
    tg_tape_reset(t);
    tg_backward(t, batch_loss(t, model, batch), NULL);
    check(tg_tape_error(t));
    cell(26);
    printf("%.4f\n", highest_gradient(params));
    cell(28);
    tg_clip_grad_norm(params, book ? 1 : 0.1);
    printf("%.4f\n", highest_gradient(params));
    tg_tape_reset(t);
    tg_gpt_free(model);
    tg_params_free(params);
    tg_loader_reset(loader);
}

static void train(tg_tape *t, const tg_gpt *model, tg_params *params, story *data, const tg_schedule_config *schedule,
                  int64_t stop, tg_tokenizer *bpe, const char *start)
{
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.weight_decay = 0.1;
    tg_optim *optim = tg_adamw_new(params, &adamw);
    int64_t step = 0;
    for (int epoch = 1; epoch <= PASSES && step < stop; epoch++) {
        for (tg_batch batch; step < stop && tg_loader_next(data->train, &batch); step++) {
            tg_optim_set_lr(optim, NULL, tg_schedule_lr(step, schedule, NULL));
            tg_tape_reset(t);
            tg_tensor *loss = batch_loss(t, model, batch);
            tg_optim_zero_grad(optim);
            tg_backward(t, loss, NULL);
            /* while the rate is small a large gradient does little harm */
            if (step >= schedule->warmup_steps) {
                tg_clip_grad_norm(params, 1);
            }
            tg_optim_step(optim);
            check(tg_tape_error(t));
            if (step % 5 == 0) {
                double on_train = mean_loss(t, model, data->train_again, 1);
                printf("Ep %d (Iter %06lld): Train loss %.3f, Val loss %.3f\n", epoch, (long long)step, on_train,
                       mean_loss(t, model, data->validation, 1));
                fflush(stdout);
            }
        }
        check(tg_tape_error(t));
        if (step < stop || step == schedule->total_steps) {
            print_generated(t, model, bpe, start, 50);
        }
    }
    tg_optim_free(optim);
}

int main(int argc, char **argv)
{
    int64_t stop = INT64_MAX;
    const char *book = book_folder(argc, argv, &stop);
    question("Why does the learning rate rise before it falls, and what does clipping change?");
    tg_tokenizer *bpe = book_tokenizer(book);
    tg_run *run = tg_run_new(123);
    tg_tape *t = book_tape(run);
    story data = story_new(book, bpe, run);
    tg_schedule_config schedule = schedule_of(tg_loader_batches(data.train) * PASSES, book);
    cell(12);
    printf("%lld\n", (long long)schedule.warmup_steps);
    clip_one_gradient(t, run, book, bpe, data.train);

    cell(32);
    tg_rng_seed(tg_run_rng(run), 123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_gpt *model = model_new(params, book, bpe);
    train(t, model, params, &data, &schedule, stop < schedule.total_steps ? stop : schedule.total_steps, bpe,
          book ? "Every effort moves you" : "The old clockmaker");

    /* the appendix shows these as a curve */
    cell(35);
    printf("Learning rates:");
    for (int64_t step = 0; step < schedule.total_steps; step += schedule.total_steps / 9) {
        printf(" %.6f", tg_schedule_lr(step, &schedule, NULL));
    }
    printf("\n");

    tg_tape_free(t);
    tg_gpt_free(model);
    tg_params_free(params);
    story_free(&data);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    return book_end();
}

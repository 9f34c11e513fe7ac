/* 03: the training of chapter 5, with the book's losses: 124 million parameters, ten passes through a short story,
 * AdamW.
 *
 *     ch05_03_train --book DIR [--steps N]
 *
 * All ten passes are 90 steps and take some minutes; --steps stops earlier. The losses are the book's to three
 * decimals. The sample texts are too for the first passes; later a rounding may turn one greedy choice, and then a
 * sentence goes on differently.
 */
#include "course.h"

#include <stdlib.h>
#include <string.h>

typedef struct training {
    tg_tape *tape;
    tg_gpt *model;
    tg_optim *optim;
    course_data data;
    int64_t step; /* optimizer steps made */
} training;

static void evaluate(training *run, int epoch)
{
    double train = mean_loss(run->tape, run->model, run->data.train_again, 5);
    double validation = mean_loss(run->tape, run->model, run->data.validation, 5);
    printf("Ep %d (Step %06lld): Train loss %.3f, Val loss %.3f\n", epoch, (long long)run->step - 1, train, validation);
    fflush(stdout);
}

/* False when `steps` ended the training before the pass was over. */
static bool train_pass(training *run, int epoch, int64_t steps)
{
    for (tg_batch batch; tg_loader_next(run->data.train, &batch);) {
        if (run->step == steps) {
            return false;
        }
        tg_tape_reset(run->tape);
        tg_tensor *logits = tg_gpt_forward(run->tape, run->model, batch.inputs);
        tg_optim_zero_grad(run->optim);
        tg_backward(run->tape, tg_cross_entropy(run->tape, logits, batch.targets));
        check(tg_tape_error(run->tape));
        tg_optim_step(run->optim);
        if (run->step++ % 5 == 0) {
            evaluate(run, epoch);
        }
    }
    check(tg_loader_error(run->data.train));
    return true;
}

int main(int argc, char **argv)
{
    int64_t steps = INT64_MAX;
    if (argc == 5 && strcmp(argv[3], "--steps") == 0) {
        char *end;
        steps = strtoll(argv[4], &end, 10);
        if (*end || steps < 1) {
            fprintf(stderr, "--steps %s: a whole number from 1\n", argv[4]);
            return 2;
        }
        argc = 3;
    }
    const char *book = book_folder(argc, argv);
    tg_tokenizer *bpe = book_tokenizer(book);
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    training run = {.model = course_model_new(params), .tape = tg_tape_new(rng)};
    run.data = course_data_new(book, bpe, rng);
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.lr = 0.0004;
    adamw.weight_decay = 0.1;
    run.optim = tg_adamw_new(params, &adamw);
    check(tg_params_error(params));

    cell(77);
    for (int epoch = 1; epoch <= 10 && train_pass(&run, epoch, steps); epoch++) {
        print_generated(run.tape, run.model, bpe, "Every effort moves you", 50);
    }

    tg_optim_free(run.optim);
    tg_tape_free(run.tape);
    course_data_free(&run.data);
    tg_gpt_free(run.model);
    tg_params_free(params);
    tg_rng_free(rng);
    tg_tokenizer_free(bpe);
    return 0;
}

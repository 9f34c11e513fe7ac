/* 03: Can a model learn to write from one short story? The training of chapter 5: 124 million parameters, ten passes
 * through a short story, AdamW.
 *
 *     ch05_03_train --book DIR [--steps N]
 *
 * Ten passes are 90 steps and take some minutes; --steps N stops after N steps. The losses agree with the book's to
 * three decimals. The sample texts of the first passes are the book's. Later, a difference in rounding can change a
 * greedily chosen token, and with it the rest of a text.
 */
#include "training.h"

typedef struct training {
    tg_tape *tape;
    tg_gpt *model;
    tg_optim *optim;
    story data;
    /* optimizer steps so far, and those between two evaluations */
    int64_t step, pause;
} training;

static void evaluate(training *r, int epoch)
{
    double train = mean_loss(r->tape, r->model, r->data.train_again, 5);
    double validation = mean_loss(r->tape, r->model, r->data.validation, 5);
    printf("Ep %d (Step %06lld): Train loss %.3f, Val loss %.3f\n", epoch, (long long)r->step - 1, train, validation);
    fflush(stdout);
}

/* Trains for one pass through the story. Returns false if it stops early, after step `steps`. */
static bool train_pass(training *r, int epoch, int64_t steps)
{
    for (tg_batch batch; tg_loader_next(r->data.train, &batch);) {
        if (r->step == steps) {
            return false;
        }
        tg_tape_reset(r->tape);
        tg_tensor *loss = batch_loss(r->tape, r->model, batch);
        tg_optim_zero_grad(r->optim);
        tg_backward(r->tape, loss, NULL);
        tg_optim_step(r->optim);
        check(tg_tape_error(r->tape));
        if (r->step++ % r->pause == 0) {
            evaluate(r, epoch);
        }
    }
    check(tg_tape_error(r->tape));
    return true;
}

int main(int argc, char **argv)
{
    int64_t steps = INT64_MAX;
    const char *book = book_folder(argc, argv, &steps);
    question("Can a model learn to write from one short story?");
    tg_tokenizer *bpe = book_tokenizer(book);
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    training r = {.model = model_new(params, book, bpe), .tape = book_tape(run), .pause = book ? 5 : 20};
    r.data = story_new(book, bpe, run);
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.lr = book ? 0.0004 : 0.003;
    adamw.weight_decay = 0.1;
    r.optim = tg_adamw_new(params, &adamw);
    check(tg_tape_error(r.tape));

    cell(77);
    /* the small model needs more passes through its short text, and writes after each fifth */
    const int epochs = book ? 10 : 25, pause = book ? 1 : 5;
    for (int epoch = 1; epoch <= epochs && train_pass(&r, epoch, steps); epoch++) {
        if (epoch % pause == 0) {
            print_generated(r.tape, r.model, bpe, book ? "Every effort moves you" : "The old clockmaker", 50);
        }
    }

    tg_tape_free(r.tape);
    tg_optim_free(r.optim);
    story_free(&r.data);
    tg_gpt_free(r.model);
    tg_params_free(params);
    tg_run_free(run);
    tg_tokenizer_free(bpe);
    return book_end();
}

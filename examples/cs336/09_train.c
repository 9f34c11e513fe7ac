/* 09: How does a model learn a language? All parts together: a vocabulary of byte pairs, batches, the model, the
 * cross-entropy, AdamW, clipping, the schedule, and at the end the checkpoint that 10_generate reads. With --twin the
 * losses of some steps on the bytes of examples/lighthouse.txt are compared with PyTorch's. */
#include "cs336.h"

#include <stdlib.h>

#include <tapegrad_text.h>

#include "batches.h"
#include "small.h"

const char program_name[] = "cs336_09_train";

enum { IDS = 1024, BATCH = 16, TWIN_STEPS = 20 };

static const char end_of_text[] = "<|endoftext|>";

/* Trains the vocabulary of a text, of at most IDS ids, writes it into the folder, and encodes the text. */
static tg_tokens encode_text(const options *o, int32_t *vocabulary, tg_error *error)
{
    const char *special = end_of_text;
    tg_tokenizer_train_files_config config = tg_tokenizer_train_files_config_default();
    config.takes_greatest_pair = true;
    config.special = &special;
    config.special_count = 1;
    tg_tokens tokens = {0};
    size_t length;
    tg_tokenizer *bpe = tg_tokenizer_train_files(&o->text, 1, IDS, &config, error);
    check(error);
    char *text = tg_text_read(o->text, &length, error);
    tg_tokenizer_save(bpe, folder_file(o->out, SMALL_VOCABULARY), TG_VOCABULARY_JSON, error);
    tg_tokenizer_encode(bpe, text, length, true, &tokens, error);
    check(error);
    *vocabulary = tg_tokenizer_vocabulary(bpe);
    tg_text_free(text);
    tg_tokenizer_free(bpe);
    return tokens;
}

/* Trains in `all` steps, of which the first `steps` are made; writes the loss of each to `losses`, which is
 * optional. */
static void train(recipe *r, const model *m, const int32_t *ids, int64_t count, int64_t steps, int64_t all,
                  float *losses)
{
    tg_tape *t = r->tape;
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.weight_decay = 0.1;
    adamw.beta2 = 0.95;
    r->optim = tg_adamw_new(r->params, &adamw);
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.lr = 3e-3;
    schedule.minimum_lr = 3e-4;
    schedule.total_steps = all;
    schedule.warmup_steps = all / 10;
    for (int64_t step = 0; step < steps; step++) {
        tg_tape_reset(t);
        tg_tensor *inputs, *targets;
        get_batch(t, tg_run_rng(r->run), ids, count, BATCH, m->context, &inputs, &targets, &r->error);
        tg_tensor *loss = tg_cross_entropy(t, model_forward(t, m, inputs), targets, NULL);
        tg_optim_zero_grad(r->optim);
        tg_backward(t, loss, NULL);
        tg_clip_grad_norm(r->params, 1);
        tg_optim_set_lr(r->optim, NULL, tg_schedule_lr(step, &schedule, &r->error));
        tg_optim_step(r->optim);
        double value = tg_tensor_item(loss, &r->error);
        recipe_check(r);
        progress(step + 1, steps, "loss %.3f", value);
        if (losses) {
            losses[step] = (float)value;
        }
    }
}

/* The first steps on the bytes of the text, beside those of PyTorch with the same weights and batches. */
static void test_losses(recipe *r, const options *o)
{
    size_t length;
    char *text = tg_text_read(o->text, &length, &r->error);
    recipe_check(r);
    int32_t *ids = malloc(length * sizeof *ids);
    for (size_t i = 0; ids && i < length; i++) {
        ids[i] = (unsigned char)text[i];
    }
    model m = small_model(256);
    float losses[TWIN_STEPS];
    model_make(&m, r->params, tg_run_rng(r->run), &r->error);
    train(r, &m, ids, (int64_t)length, TWIN_STEPS, 10 * TWIN_STEPS, losses);
    test_array(r, o, "losses of a training", TWIN, 1e-4, 1e-4, tg_constant_f32(r->data, TG_SHAPE(TWIN_STEPS), losses),
               NULL, NULL);
    free(ids);
    tg_text_free(text);
}

/* Trains the model on the ids of the text, and writes the checkpoint. */
static void train_and_save(recipe *r, const options *o)
{
    int32_t vocabulary;
    tg_tokens tokens = encode_text(o, &vocabulary, &r->error);
    model m = small_model(vocabulary);
    if (tokens.count <= m.context) {
        complain("--text %s: has %lld ids; more than %lld are needed", o->text, (long long)tokens.count,
                 (long long)m.context);
        exit(program_end(1));
    }
    model_make(&m, r->params, tg_run_rng(r->run), &r->error);
    train(r, &m, tokens.ids, tokens.count, o->steps, o->steps, NULL);
    int64_t steps = o->steps;
    const tg_checkpoint_part parts[] = {
        tg_checkpoint_params("model", r->params), tg_checkpoint_optim("optim", r->optim),
        tg_checkpoint_rng("rng", tg_run_rng(r->run)), tg_checkpoint_integer("step", &steps)};
    tg_checkpoint_save(folder_file(o->out, SMALL_MODEL), parts, 4, &r->error);
    tg_tokens_free(&tokens);
}

int main(int argc, char **argv)
{
    options o = options_read(TRAIN, "trains a small model on a text", argc, argv);
    if (!o.text) {
        complain("--text FILE: must be given, such as examples/lighthouse.txt");
        return program_end(2);
    }
    recipe r = recipe_begin(336);
    if (o.twin) {
        test_losses(&r, &o);
    } else if (folder_make(o.out)) {
        train_and_save(&r, &o);
    } else {
        return program_end(1);
    }
    return tests_end(&r);
}

/* train_embeddings: trains token and position embeddings on a text.
 *
 * Two models are trained with the same seed on the same batches: one with position embeddings, and one without. The
 * difference of their losses measures what the model gains from the order of the tokens.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/curves.h"
#include "../common/program.h"
#include "../common/terminal.h"
#include "../common/vocabulary.h"
#include "checkpoint.h"
#include "model.h"
#include "options.h"
#include "report.h"

const char program_name[] = "train_embeddings";

/* The folders of the two models in --out. */
static const char *const names[] = {"without_positions", "with_positions"};

/* The input of both runs. */
typedef struct job {
    const options *o;
    tg_tokenizer *bpe;
    tg_tokens tokens;
} job;

/* The results of one run. */
typedef struct result {
    /* one per step */
    float *losses;
    /* mean loss of the last tenth of the steps */
    double final;
    /* the token table at three times, and the position table after training */
    tg_tensor *before, *halfway, *after, *positions;
} result;

/* ---- the text ---- */

static bool load(job *j)
{
    tg_error error = TG_NO_ERROR;
    size_t length;
    char *text = tg_text_read(j->o->text, &length, &error);
    if (text) {
        j->bpe = j->o->vocab ? tg_tokenizer_open(j->o->vocab, NULL, &error)
                             : vocabulary_train(&j->o->text, 1, j->o->vocab_size, &error);
    }
    bool loaded = j->bpe && tg_tokenizer_encode(j->bpe, text, length, false, &j->tokens, &error);
    tg_text_free(text);
    if (!loaded) {
        return complain("%s", error.text);
    }
    print_line(stdout, "%s: %zu bytes, %lld tokens of a vocabulary of %d (%s)", j->o->text, length,
               (long long)j->tokens.count, tg_tokenizer_vocabulary(j->bpe),
               j->o->vocab ? j->o->vocab : "byte pairs, trained on this text");
    return true;
}

/* ---- training ---- */

static tg_optim *make_optimizer(const options *o, tg_params *params)
{
    if (strcmp(o->optimizer, "sgd") == 0) {
        tg_sgd_config config = tg_sgd_config_default();
        config.lr = o->lr;
        config.momentum = o->momentum;
        config.deferred = o->deferred;
        return tg_sgd_new(params, &config);
    }
    if (strcmp(o->optimizer, "adam") == 0) {
        tg_adam_config config = tg_adam_config_default();
        config.lr = o->lr;
        config.deferred = o->deferred;
        return tg_adam_new(params, &config);
    }
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = o->lr;
    config.deferred = o->deferred;
    return tg_adamw_new(params, &config);
}

static double mean_of_last_tenth(const float *losses, int64_t count)
{
    double sum = 0;
    int64_t tenth = (count + 9) / 10;
    for (int64_t i = count - tenth; i < count; i++) {
        sum += (double)losses[i] / (double)tenth;
    }
    return sum;
}

/* Prints the progress since `first`, the step after which this program began. */
static void show_progress(const options *o, const training *run, int64_t first, double start)
{
    double spent = seconds() - start, done = (double)(run->step - first);
    progress(run->step, o->steps, "loss %.4f  %7.0f tokens/s  %.0f s left", (double)run->losses[run->step - 1],
             done * (double)(o->batch * o->context) / spent, spent / done * (double)(o->steps - run->step));
}

/* Returns false after printing the error of a run. */
static bool is_good(const tg_run *run)
{
    return tg_run_error(run)->code == TG_OK || complain("%s", tg_run_error(run)->text);
}

/* Runs one training step on a batch and sets `loss`. Returns false after printing an error. */
static bool step(tg_tape *t, const model *m, tg_optim *optim, tg_batch batch, float *loss)
{
    tg_tape_reset(t);
    tg_optim_zero_grad(optim);
    /* (B,T) -> (B,T,V) -> a scalar */
    tg_tensor *mean = tg_cross_entropy(t, model_forward(t, m, batch.inputs), batch.targets, NULL);
    tg_backward(t, mean, NULL);
    *loss = (float)tg_tensor_item(mean, NULL);
    return tg_optim_step(optim) || complain("%s", tg_tape_error(t)->text);
}

/* Runs the steps that are left, and saves a checkpoint after each tenth of all steps. */
static bool steps(const options *o, tg_tape *t, const model *m, training *run, tg_checkpoint_folder *folder)
{
    double start = seconds();
    int64_t first = run->step, tenth = (o->steps + 9) / 10;
    while (run->step < o->steps) {
        tg_batch batch;
        if (!tg_loader_next(run->loader, &batch)) {
            if (!is_good(run->run)) {
                return false;
            }
            /* the end of a pass; the next call begins another pass */
            continue;
        }
        if (!step(t, m, run->optim, batch, &run->losses[run->step])) {
            return false;
        }
        run->step++;
        bool is_halfway = run->step == (o->steps + 1) / 2;
        bool is_due = run->step % tenth == 0 || run->step == o->steps;
        if ((is_halfway || is_due) && !tg_optim_flush(run->optim)) {
            return is_good(run->run);
        }
        if (is_halfway && !(run->halfway = tg_tensor_new_copy(m->token.weight, NULL))) {
            return complain("out of memory");
        }
        show_progress(o, run, first, start);
        if (is_due && !checkpoint_save(folder, o, run)) {
            return false;
        }
    }
    return true;
}

/* Returns false after printing an error if something of the run could not be created. */
static bool is_made(const training *run)
{
    return is_good(run->run) && ((run->run && run->losses && run->before) || complain("out of memory"));
}

static bool save_model(const options *o, const tg_params *params)
{
    tg_error error = TG_NO_ERROR;
    return folder_make(o->out) && (tg_params_save(params, folder_file(o->out, "model.safetensors"), NULL, &error) ||
                                   complain("%s", error.text));
}

static bool train(const job *j, bool with_positions, result *r)
{
    const options *o = j->o;
    training run = {.run = tg_run_new((uint64_t)o->seed)};
    tg_tape *t = tg_tape_new(run.run, NULL);
    tg_tape_set_reproducible(t, o->reproducible);
    tg_rng_set_profile(tg_run_rng(run.run), o->reproducible ? TG_RNG_PORTABLE : TG_RNG_AVX2);
    model m = model_make(run.run, tg_tokenizer_vocabulary(j->bpe), o->dim, o->context, with_positions);
    tg_loader_config windows = tg_loader_config_default();
    windows.context = o->context;
    windows.stride = 1;
    windows.batch_size = o->batch;
    windows.shuffle = windows.drop_last = true;
    run.params = m.params;
    run.loader = tg_loader_new(run.run, j->tokens.ids, j->tokens.count, &windows);
    run.optim = make_optimizer(o, m.params);
    run.losses = calloc((size_t)o->steps, sizeof *run.losses);
    if (tg_tensor_set_rows_watched(m.token.weight, true, NULL)) {
        run.before = tg_tensor_new_copy(m.token.weight, NULL);
    }
    tg_checkpoint_folder *folder = NULL;
    bool good = is_made(&run);
    if (good) {
        printf("\n%s positions: %lld parameters\n", with_positions ? "With" : "Without",
               (long long)model_parameter_count(&m));
        folder = checkpoint_open(o, names[with_positions], &run);
        good = folder && steps(o, t, &m, &run, folder) && (!with_positions || save_model(o, m.params));
    }
    *r = (result){.losses = run.losses, .before = run.before, .halfway = run.halfway};
    if (good) {
        r->final = mean_of_last_tenth(run.losses, o->steps);
        r->after = tg_retain(m.token.weight);
        r->positions = tg_retain(m.position.weight);
    }
    tg_checkpoint_folder_free(folder);
    tg_tape_free(t);
    tg_optim_free(run.optim);
    tg_loader_free(run.loader);
    model_free(&m);
    tg_run_free(run.run);
    return good;
}

static void result_free(result *r)
{
    free(r->losses);
    tg_release(r->before);
    tg_release(r->halfway);
    tg_release(r->after);
    tg_release(r->positions);
}

/* ---- results ---- */

static bool report(const job *j, const result *with, const result *without)
{
    const curve curves[] = {{"with positions", with->losses, NULL, j->o->steps},
                            {"without", without->losses, NULL, j->o->steps}};
    curves_terminal(curves, 2);
    printf("\nMean loss of the last tenth of the steps: %.4f with positions, %.4f without; the difference is %.4f.\n",
           with->final, without->final, without->final - with->final);
    const tg_tensor *const tables[] = {with->before, with->halfway, with->after};
    report_neighbors(j->bpe, tables);
    report_rows(j->bpe, with->before, with->after, j->o->steps);
    bool written = folder_make(j->o->out) && curves_svg(folder_file(j->o->out, "loss.svg"), "loss", curves, 2) &&
                   report_vectors(folder_file(j->o->out, "tokens.tsv"), with->after) &&
                   report_token_labels(folder_file(j->o->out, "tokens_labels.tsv"), j->bpe, with->after) &&
                   report_vectors(folder_file(j->o->out, "positions.tsv"), with->positions) &&
                   report_position_labels(folder_file(j->o->out, "positions_labels.tsv"), j->o->context);
    if (written && !j->o->vocab) {
        tg_error error = TG_NO_ERROR;
        written = tg_tokenizer_save(j->bpe, folder_file(j->o->out, "vocab.bpe"), TG_VOCABULARY_MERGES, &error) ||
                  complain("%s", error.text);
    }
    if (written) {
        printf("\n");
        print_line(stdout,
                   "Written to %s: model.safetensors, loss.svg, tokens.tsv and positions.tsv with their labels (for "
                   "projector.tensorflow.org), checkpoints%s",
                   j->o->out, j->o->vocab ? "" : ", vocab.bpe");
    }
    return written;
}

static int run(int argc, char **argv)
{
    options o;
    int status = options_read(&o, argc, argv);
    if (status >= 0) {
        return status;
    }
    if (o.resume && !checkpoint_exists(&o, names[true])) {
        complain("there is no training in %s: run train_embeddings without --resume first, or give another --out",
                 o.out);
        return 2;
    }
    if (o.threads > 0) {
        tg_set_threads((int)o.threads, NULL);
    }
    job j = {.o = &o};
    result with = {0}, without = {0};
    bool good = load(&j) && train(&j, true, &with) && train(&j, false, &without) && report(&j, &with, &without);
    result_free(&with);
    result_free(&without);
    tg_tokens_free(&j.tokens);
    tg_tokenizer_free(j.bpe);
    return good ? 0 : 1;
}

int main(int argc, char **argv)
{
    program_begin();
    return program_end(run(argc, argv));
}

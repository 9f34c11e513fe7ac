/* train: trains a GPT, and prints and writes the results.
 *
 * --from begins with the weights of another model, and with a new optimizer. With a published model the checkpoints
 * have only what is trained, so a run that continues reads its folder again; the result is such a folder, or peft's.
 *
 * One generator draws the initial values, the order of the windows, and dropout. Validation and samples use their own
 * tape and generator, so that they do not change the run: the losses are the same bits with any number of validations.
 *
 * In gpt_mpi every rank has its part of each batch (parallel.h). --batch is the number of windows on all ranks.
 */
#include <math.h>
#include <stdlib.h>

#include "../common/products.h"
#include "../common/program.h"
#include "../common/terminal.h"
#include "commands.h"
#include "memory.h"
#include "parallel.h"
#include "training.h"

/* the exit status after Ctrl-C: that of a program which the signal ends, 128 + SIGINT */
#define STOPPED 130

/* ---- before the first step; everything that can be wrong with the options is found here ---- */

/* Returns the steps of the warmup: a twentieth, but at least 10 in a short run, or half of it: with less the moments of
 * Adam are estimates of a few gradients when the rate is full, and the loss jumps. */
static int64_t warmup_steps(const options *o)
{
    int64_t twentieth = o->decay_steps / 20, least = o->decay_steps < 20 ? o->decay_steps / 2 : 10;
    return o->warmup != AS_CONFIGURED ? o->warmup : twentieth > least ? twentieth : least;
}

/* Returns a schedule of linear warmup and cosine decay. The default learning rate is inversely proportional to the
 * width, because wider models need smaller steps (Brown et al. 2020, table 2.1). */
static tg_schedule_config make_schedule(const options *o, const model *m)
{
    double width = (double)tg_gpt_get_config(m->gpt)->width;
    double standard = !m->is_published ? 0.384 / width : options_train_lora(o) ? 2e-4 : 2e-5;
    double lr = o->lr == AS_CONFIGURED ? standard : o->lr;
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.lr = lr;
    schedule.minimum_lr = lr / 10;
    schedule.warmup_steps = warmup_steps(o);
    /* a first step with a rate of 0 would change nothing */
    schedule.initial_lr = lr / (double)(schedule.warmup_steps + 1);
    schedule.total_steps = o->decay_steps;
    return schedule;
}

/* Opens the folder of the run. A trained model in it is an error, unless it is continued or replaced. */
static bool open_folder(training *r)
{
    const options *o = r->o;
    tg_error error = TG_NO_ERROR;
    if (parallel_rank() > 0) {
        return true;
    }
    tg_checkpoint_folder_config config = tg_checkpoint_folder_config_default();
    config.keep = o->keep;
    char *found = tg_checkpoint_find(o->out, TG_CHECKPOINT_LAST, NULL);
    bool is_taken = found && !o->resume && !o->overwrite;
    bool is_foreign = !found && (is_published(o->out) || is_adapter(o->out));
    tg_text_free(found);
    if (is_foreign) {
        return complain("folder '%s': has a published model", o->out);
    }
    if (is_taken) {
        return complain("folder '%s': has a trained model; --resume %s continues it, --overwrite replaces it", o->out,
                        o->out);
    }
    if (!folder_make(o->out)) {
        return false;
    }
    r->checkpoints = tg_checkpoint_folder_open(o->out, &config, &error);
    return (r->checkpoints && (o->resume || tg_checkpoint_folder_clear(r->checkpoints, &error))) ||
           complain("%s", error.text);
}

/* Writes the vocabulary as a file for other programs; a checkpoint has its own. If the ids do not follow from the order
 * of the merges, the file is tokenizer.json, not vocab.bpe. */
static bool write_vocabulary(const training *r)
{
    tg_error error = TG_NO_ERROR;
    return parallel_rank() > 0 || !r->c.bpe || r->m.is_published ||
           tg_tokenizer_save(r->c.bpe, folder_file(r->o->out, "vocab.bpe"), TG_VOCABULARY_MERGES, NULL) ||
           tg_tokenizer_save(r->c.bpe, folder_file(r->o->out, "tokenizer.json"), TG_VOCABULARY_JSON, &error) ||
           complain("%s", error.text);
}

/* Returns the vocabulary with which the run begins, if it has one: that of the checkpoint, or that of --vocab. */
static bool first_vocabulary(const training *r, tg_tokenizer **bpe)
{
    tg_error error = TG_NO_ERROR;
    if (r->resumed) {
        return vocabulary_load(r->resumed, bpe);
    }
    *bpe = r->o->vocab ? tg_tokenizer_open(r->o->vocab, NULL, &error) : NULL;
    return *bpe || !r->o->vocab || complain("%s", error.text);
}

/* Returns the floats of the training. */
static double more_floats(const tg_gpt_config *config, int64_t values, int64_t window, const options *o)
{
    int64_t rank = 0, trained = options_train_lora(o) ? published_lora(config, o, &rank) : values;
    return training_floats(config, trained, rank, o->batch * window);
}

/* Loads the model of --from and its vocabulary, which a text needs. A run that continues has its own copy of both. */
static bool load_first_model(training *r, tg_gpt_config *config, tg_tokenizer **bpe)
{
    const options *o = r->o;
    char path[PATH_BYTES];
    const char *from = r->resumed && !is_published(o->from) ? r->resumed : o->from;
    model_use use = {.choice = TG_CHECKPOINT_BEST,
                     .is_f32 = !options_train_lora(o),
                     .activation_checkpointing = o->activation_checkpointing,
                     .window = o->context,
                     .adapter = o->adapter,
                     .more = more_floats,
                     .o = o};
    if (!(is_published(from) || model_find("another --from", from, TG_CHECKPOINT_BEST, path)) ||
        !model_load(&r->m, is_published(from) ? from : path, &use, bpe)) {
        return false;
    }
    tg_rng_seed(tg_run_rng(r->m.run), (uint64_t)o->seed);
    *config = *tg_gpt_get_config(r->m.gpt);
    bool needs_none = (r->resumed && !r->m.is_published) || (o->tokens && !o->vocab);
    if (!(needs_none || model_tokenizer(bpe, o->from, o)) || !vocabulary_fits(*bpe, &r->m) ||
        (options_train_lora(o) && !published_add_lora(&r->m, o))) {
        tg_tokenizer_free(*bpe);
        return false;
    }
    return true;
}

/* Prints the sizes of the model. */
static void show_model(const training *r)
{
    const tg_gpt_config *c = tg_gpt_get_config(r->m.gpt);
    int64_t trained = tg_params_value_count(r->trained);
    if (r->m.is_published) {
        char text[BYTES_TEXT];
        double floats = more_floats(c, trained, r->m.window, r->o);
        printf("trains %lld parameters, with windows of at most %lld tokens: about %s\n", (long long)trained,
               (long long)r->m.window, bytes_text(r->m.bytes + sizeof(float) * floats, text));
    } else {
        printf("%lld layers, %lld heads, width %lld, context %lld, head %s: %lld parameters\n", (long long)c->layers,
               (long long)c->heads, (long long)c->width, (long long)c->context, c->tied_head ? "tied" : "untied",
               (long long)trained);
    }
    char text[PRODUCTS_TEXT];
    printf("computed by %s\n", products_text(text));
}

static bool prepare(training *r)
{
    const options *o = r->o;
    tg_gpt_config config;
    tg_tokenizer *bpe;
    bool has_model =
        o->from ? load_first_model(r, &config, &bpe) : model_configure(o, &config) && first_vocabulary(r, &bpe);
    if (!has_model ||
        !(o->data ? corpus_load_examples(&r->c, o, &r->m, bpe) : corpus_load(&r->c, o, bpe, config.vocabulary))) {
        return false;
    }
    config.vocabulary = r->c.bpe ? tg_tokenizer_vocabulary(r->c.bpe) : config.vocabulary;
    if (!r->m.gpt && !model_make(&r->m, &config, (uint64_t)o->seed)) {
        return false;
    }
    r->trained = options_train_lora(o) ? tg_params_new_part(r->m.params, "*.lora_*") : r->m.params;
    int64_t stride = o->stride != AS_CONFIGURED ? o->stride : r->c.training.file ? r->m.window : 1;
    r->windows = part_loader(&r->c.training, r->m.window, stride, o->batch, true, r->m.run);
    r->optim = r->windows ? optimizer_make(o, r->trained) : NULL;
    if (!r->optim) {
        return false;
    }
    r->schedule = make_schedule(o, &r->m);
    /* The ranks drop other units. The generator of the model draws the same windows on all of them. */
    r->dropout = tg_run_new_stream(r->m.run, parallel_seed((uint64_t)o->seed));
    r->t = tape_new(parallel_rank() > 0 ? r->dropout : r->m.run, r->o->reproducible, !o->data);
    r->sampling = tg_run_new_stream(r->m.run, (uint64_t)o->seed);
    r->quiet = r->t ? quiet_tape_new(r->sampling, r->o->reproducible, !o->data) : NULL;
    if (!r->quiet || !history_make(&r->h, o->steps)) {
        return false;
    }
    if (tg_tape_error(r->t)->code != TG_OK) {
        return complain("%s", tg_tape_error(r->t)->text);
    }
    bool keeps_vocabulary = r->c.bpe && !r->m.is_published;
    r->vocabulary = keeps_vocabulary ? tg_tokenizer_text(r->c.bpe, &r->vocabulary_size, NULL) : NULL;
    if (!r->sampling || !r->dropout || (keeps_vocabulary && !r->vocabulary)) {
        return complain("out of memory");
    }
    show_model(r);
    return (!r->c.validation.name || part_fits(&r->c.validation, r->m.window)) &&
           (!r->c.bpe || generate_check(o, &r->m, r->c.bpe)) && open_folder(r) && parallel_share(r->trained) &&
           training_continue(r) && write_vocabulary(r);
}

/* Returns whether the run writes samples. Examples have no usual beginning. */
static bool has_samples(const training *r)
{
    return r->c.bpe && (!r->o->data || r->o->prompt || r->o->chat);
}

static bool ledger_begin(training *r)
{
    if (!r->o->ledger || parallel_rank() > 0) {
        return true;
    }
    r->file = file_begin(r->o->ledger);
    r->ledger = r->file ? tg_ledger_open(r->t, r->file) : NULL;
    return r->ledger || (r->file && complain("%s", tg_tape_error(r->t)->text));
}

static bool ledger_end(training *r)
{
    bool written = tg_ledger_close(r->ledger, NULL);
    return !r->file || (file_end(r->file, r->o->ledger) && written);
}

/* ---- TensorBoard ---- */

static bool log_begin(training *r)
{
    tg_error error = TG_NO_ERROR;
    r->log = r->o->tensorboard && parallel_rank() == 0
                 ? tg_tensorboard_open(folder_file(r->o->out, "tensorboard"), &error)
                 : NULL;
    return r->log || !r->o->tensorboard || parallel_rank() > 0 || complain("%s", error.text);
}

static bool log_scalar(training *r, const char *tag, double value)
{
    tg_error error = TG_NO_ERROR;
    r->is_unsaved = r->log && !tg_tensorboard_add_scalar(r->log, tag, value, r->h.steps, &error);
    return !r->is_unsaved || complain("%s", error.text);
}

static bool log_weights(training *r)
{
    tg_error error = TG_NO_ERROR;
    for (int64_t i = 0; r->log && i < tg_params_count(r->m.params); i++) {
        tg_entry entry = tg_params_at(r->m.params, i);
        if (!tg_tensorboard_add_histogram(r->log, entry.name, entry.tensor, r->h.steps, &error)) {
            r->is_unsaved = true;
            return complain("%s", error.text);
        }
    }
    return true;
}

/* ---- steps ---- */

/* Sets an error with the op that computed the first NaN. Call it before the tape is reset. */
static void diverged(const training *r, const char *what, double value, tg_error *error)
{
    tg_nan_report where;
    bool found = tg_find_nan(r->t, &where);
    error->code = TG_ERROR_VALUE;
    snprintf(error->text, sizeof error->text, "step %lld: the %s is %s%s%.250s; a smaller --lr may help",
             (long long)r->h.steps + 1, what, isnan(value) ? "nan" : "inf", found ? ": " : "", found ? where.text : "");
}

/* Runs one batch forward and backward. Adds to the gradients, and adds the batch's loss / --accumulate to `loss`.
 * Returns false, on all ranks, after printing an error. A rank without a loss still begins the reduction. */
static bool pass(training *r, bool last, double *loss)
{
    tg_error cause = TG_NO_ERROR;
    tg_batch batch;
    /* false at the end of a pass; the next call begins another pass */
    while (!tg_loader_next(r->windows, &batch) && tg_tape_error(r->t)->code == TG_OK) {
    }
    tg_tape_reset(r->t);
    part_fill(&r->c.training, r->t, &batch);
    r->tokens += (double)tg_tensor_count(batch.inputs) * parallel_ranks();
    tg_tensor *mean = model_loss(r->t, &r->m, &batch);
    double value = mean ? tg_tensor_item(mean, NULL) : 0;
    if (!isfinite(value)) {
        diverged(r, "loss", value, &cause);
    }
    *loss += value / (double)r->o->accumulate;
    return parallel_backward(r->t, mean, r->trained, last, &cause);
}

static bool step(training *r)
{
    const options *o = r->o;
    double start = seconds(), loss = 0;
    tg_error error = TG_NO_ERROR;
    /* Only rank 0's generator is in the checkpoints. That of another rank begins anew in each step, so that it does not
     * depend on them. */
    tg_rng_seed(tg_run_rng(r->dropout), parallel_seed((uint64_t)(o->seed + r->h.steps)));
    tg_optim_zero_grad(r->optim);
    for (int64_t i = 0; i < o->accumulate; i++) {
        if (!pass(r, i == o->accumulate - 1, &loss)) {
            return false;
        }
    }
    if (!parallel_reduce(r->trained)) {
        return false;
    }
    loss = parallel_sum(loss) / parallel_ranks();
    if (o->accumulate > 1) {
        tg_scale_grad(r->trained, 1.0 / (double)o->accumulate);
    }
    double norm = tg_clip_grad_norm(r->trained, o->clip);
    if (!isfinite(norm)) {
        diverged(r, "gradients' norm", norm, &error);
        return parallel_agree(&error);
    }
    double lr = tg_schedule_lr(r->h.steps, &r->schedule, NULL);
    tg_optim_set_lr(r->optim, NULL, lr);
    tg_optim_step(r->optim);
    if (tg_tape_error(r->t)->code != TG_OK) {
        return complain("%s", tg_tape_error(r->t)->text);
    }
    history_add_step(&r->h, loss, lr, norm);
    if (!log_scalar(r, "loss/train", loss) || !log_scalar(r, "lr", lr)) {
        return false;
    }
    r->busy += seconds() - start;
    double done = (double)(r->h.steps - r->first_step);
    progress(r->h.steps, o->steps, "loss %.4f  lr %.1e  |g| %5.2f  %5.0f tokens/s  %.0f s left", loss, lr, norm,
             r->tokens / r->busy, r->busy / done * (double)(o->steps - r->h.steps));
    return true;
}

static bool validate(training *r)
{
    evaluation e;
    if (!evaluate(&e, r->quiet, &r->m, &r->c.validation, r->o->batch, r->o->eval_batches)) {
        return false;
    }
    history_add_evaluation(&r->h, e.loss);
    if (!log_scalar(r, "loss/validation", e.loss) || !log_weights(r)) {
        return false;
    }
    progress_break();
    printf("step %5lld  validation loss %.4f, perplexity %.2f\n", (long long)r->h.steps, e.loss, exp(e.loss));
    fflush(stdout);
    return true;
}

/* Writes a sample. The random numbers are always the same, so that two samples differ only by the weights. */
static bool sample(training *r, FILE *file)
{
    tg_rng_seed(tg_run_rng(r->sampling), (uint64_t)r->o->seed);
    return generate_text(file, r->quiet, &r->m, r->c.bpe, r->o) >= 0;
}

static bool show_sample(training *r)
{
    progress_break();
    printf("step %5lld  sample\n\n", (long long)r->h.steps);
    bool good = parallel_rank() > 0 || sample(r, stdout);
    printf("\n");
    return good;
}

/* Runs all steps, or stops after the current one on Ctrl-C. A validation that is due is made nevertheless: the run that
 * continues begins with the next step. */
static bool steps(training *r)
{
    const options *o = r->o;
    bool stopped = false;
    while (r->h.steps < o->steps && !stopped) {
        if (!step(r)) {
            return false;
        }
        stopped = parallel_sum(interrupted()) > 0;
        bool last = r->h.steps == o->steps, due = last || r->h.steps % o->eval_every == 0;
        if ((due || stopped) && !parallel_check(r->trained)) {
            return false;
        }
        if (r->c.validation.name && due && !validate(r)) {
            return false;
        }
        if (has_samples(r) && !last && !stopped && r->h.steps % o->sample_every == 0 && !show_sample(r)) {
            return false;
        }
        if ((due || stopped) && !training_save(r)) {
            return false;
        }
    }
    return true;
}

/* ---- results ---- */

static bool write_sample(training *r)
{
    const char *path = folder_file(r->o->out, "sample.txt");
    FILE *file = file_begin(path);
    return file && sample(r, file) && file_end(file, path);
}

/* Writes the folder of the published model, or the adapter, after the last step. */
static bool write_published(const training *r)
{
    tg_error error = TG_NO_ERROR;
    const options *o = r->o;
    if (!r->m.is_published || parallel_rank() > 0) {
        return true;
    }
    bool is_lora = options_train_lora(o);
    bool is_written =
        is_lora ? tg_gpt_save_adapter(r->m.gpt, o->out, &error) : tg_gpt_save(r->m.gpt, o->out, NULL, &error);
    return is_written ? is_lora || published_copy_vocabulary(o->from, o->out) : complain("%s", error.text);
}

/* Returns what a run has written besides checkpoints and losses. */
static const char *results_of(const training *r)
{
    return r->m.is_published ? options_train_lora(r->o)
                                   ? ", adapter_model.safetensors; gpt generate --adapter takes the folder"
                                   : ", model.safetensors; gpt generate --model takes the folder"
           : r->c.bpe        ? ", vocab.bpe, sample.txt; gpt generate continues a text with this model"
                             : "";
}

/* Returns whether Ctrl-C has ended the run before its last step. */
static bool is_stopped(const training *r)
{
    return r->h.steps < r->o->steps;
}

/* Shows and writes the losses, except after an error of a file: then a run that continues does not have all of these
 * steps. */
static bool report(training *r)
{
    progress_break();
    if (is_stopped(r)) {
        printf("stopped after step %lld of %lld\n", (long long)r->h.steps, (long long)r->o->steps);
    }
    if (r->h.steps == 0 || r->is_unsaved) {
        return true;
    }
    bool is_written = parallel_rank() > 0 || history_write(&r->h, r->o->out);
    if (is_written) {
        history_show(&r->h);
    }
    return is_written;
}

/* Runs the command with the options of this run, or of the run that it continues. */
static int train_with(training *r)
{
    int status = 2;
    if (training_join_arguments(r) && prepare(r)) {
        interrupt_catch();
        bool trained = log_begin(r) && ledger_begin(r) && steps(r), recorded = ledger_end(r), reported = report(r);
        bool sampled = trained && write_published(r) &&
                       (!has_samples(r) || (show_sample(r) && (parallel_rank() > 0 || write_sample(r))));
        bool is_good = trained && recorded && reported && sampled;
        status = !is_good ? 1 : is_stopped(r) ? STOPPED : 0;
        if (is_good) {
            print_line(stdout, "Written to %s: checkpoints, losses.tsv, loss.svg%s", r->o->out, results_of(r));
        }
        if (status == STOPPED) {
            /* rank 0 may still write */
            parallel_wait();
        }
    }
    history_free(&r->h);
    tg_checkpoint_folder_free(r->checkpoints);
    tg_tensorboard_free(r->log);
    tg_text_free(r->vocabulary);
    free(r->arguments);
    tg_tape_free(r->t);
    tg_tape_free(r->quiet);
    tg_run_free(r->sampling);
    tg_run_free(r->dropout);
    tg_loader_free(r->windows);
    tg_optim_free(r->optim);
    if (r->trained != r->m.params) {
        tg_params_free(r->trained);
    }
    model_free(&r->m);
    corpus_free(&r->c);
    return status;
}

int train(const options *given)
{
    options o = *given;
    training r = {.o = &o};
    char *arguments = NULL, **argv = NULL;
    int status = given->resume ? training_read_arguments(given, &r, &o, &arguments, &argv) : -1;
    /* the options of the run that continues come from a file, of which the ranks may see different ones */
    if (status < 0 && given->resume && !(parallel_same("the checkpoint", r.resumed) && options_are_shared(&o, TRAIN))) {
        status = 2;
    }
    status = status < 0 ? train_with(&r) : status;
    free(argv);
    tg_text_free(arguments);
    return status;
}

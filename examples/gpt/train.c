/* train: trains a GPT with AdamW, and prints and writes the results.
 *
 * One generator draws the initial values, the order of the windows, and dropout. Validation and samples use their own
 * tape and generator, so that they do not change the run: the losses are the same bits with any number of validations.
 *
 * In gpt_mpi every rank has its part of each batch (parallel.h). --batch is the number of windows on all ranks.
 */
#include <math.h>

#include "../common/program.h"
#include "commands.h"
#include "history.h"
#include "parallel.h"

typedef struct run {
    const options *o;
    corpus c;
    model m;
    tg_tape *t, *quiet;
    /* generators of samples, and of the dropout of a rank above 0 */
    tg_rng *sampling, *dropout;
    tg_loader *windows;
    tg_optim *adamw;
    tg_schedule_config schedule;
    history h;
    /* seconds spent in steps */
    double busy;
    /* the file of the ledger, or NULL */
    FILE *file;
    tg_ledger *ledger;
} run;

/* ---- before the first step; everything that can be wrong with the options is found here ---- */

static tg_optim *make_optimizer(tg_params *params, double weight_decay)
{
    tg_adamw_config config = tg_adamw_config_default();
    /* an average over 100 steps; the usual 0.999, an average over 1000 steps, is too slow for short runs */
    config.beta2 = 0.99;
    config.weight_decay = weight_decay;
    tg_optim *adamw = tg_adamw_new(params, &config);
    const char *const vectors[] = {"*.bias", "*.scale", "*.shift"};
    for (int i = 0; i < 3; i++) {
        tg_optim_add_to_group(adamw, "no decay", vectors[i]);
    }
    tg_optim_set_weight_decay(adamw, "no decay", 0);
    return adamw;
}

/* Returns a schedule of linear warmup and cosine decay. The default learning rate is inversely proportional to the
 * width, because wider models need smaller steps (Brown et al. 2020, table 2.1). */
static tg_schedule_config make_schedule(const options *o, int64_t width)
{
    double lr = o->lr == AS_CONFIGURED ? 0.384 / (double)width : o->lr;
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_COSINE;
    schedule.lr = lr;
    schedule.minimum_lr = lr / 10;
    schedule.warmup_steps = o->warmup == AS_CONFIGURED ? o->steps / 20 : o->warmup;
    /* a first step with a rate of 0 would change nothing */
    schedule.initial_lr = lr / (double)(schedule.warmup_steps + 1);
    schedule.total_steps = o->steps;
    return schedule;
}

static bool prepare(run *r)
{
    const options *o = r->o;
    tg_gpt_config config;
    if (!model_configure(o, &config) || !corpus_load(&r->c, o, o->vocab, config.vocabulary)) {
        return false;
    }
    config.vocabulary = r->c.bpe ? tg_tokenizer_vocabulary(r->c.bpe) : config.vocabulary;
    if (!model_make(&r->m, &config, (uint64_t)o->seed)) {
        return false;
    }
    int64_t stride = o->stride != AS_CONFIGURED ? o->stride : r->c.training.file ? config.context : 1;
    r->windows = part_loader(&r->c.training, config.context, stride, o->batch, true, r->m.rng);
    r->adamw = make_optimizer(r->m.params, o->weight_decay);
    r->schedule = make_schedule(o, config.width);
    /* The ranks drop other units. The generator of the model draws the same windows on all of them. */
    r->dropout = tg_rng_new(parallel_seed((uint64_t)o->seed));
    r->t = tg_tape_new(parallel_rank() > 0 ? r->dropout : r->m.rng, NULL);
    r->sampling = tg_rng_new((uint64_t)o->seed);
    r->quiet = quiet_tape_new(r->sampling);
    if (!r->windows || !r->quiet || !history_make(&r->h, o->steps)) {
        return false;
    }
    if (!r->adamw || !r->t || !r->sampling || !r->dropout) {
        return complain("%s", r->adamw ? "out of memory" : tg_params_error(r->m.params)->text);
    }
    printf("%lld layers, %lld heads, width %lld, context %lld, head %s: %lld parameters\n", (long long)config.layers,
           (long long)config.heads, (long long)config.width, (long long)config.context,
           config.tied_head ? "tied" : "untied", (long long)tg_params_value_count(r->m.params));
    return (!r->c.validation.name || part_fits(&r->c.validation, config.context)) &&
           (!r->c.bpe || generate_check(o, r->m.gpt, r->c.bpe)) && (parallel_rank() > 0 || folder_make(o->out)) &&
           parallel_share(r->m.params);
}

static bool ledger_begin(run *r)
{
    if (!r->o->ledger || parallel_rank() > 0) {
        return true;
    }
    r->file = file_begin(r->o->ledger);
    r->ledger = r->file ? tg_ledger_open(r->t, r->file) : NULL;
    return r->ledger || (r->file && complain("%s", tg_tape_error(r->t)->text));
}

static bool ledger_end(run *r)
{
    bool written = tg_ledger_close(r->ledger, NULL);
    return !r->file || (file_end(r->file, r->o->ledger) && written);
}

/* ---- steps ---- */

/* Sets an error with the op that computed the first NaN, and returns false. Call it before the tape is reset. */
static bool diverged(const run *r, const char *what, double value, tg_error *error)
{
    tg_nan_report where;
    bool found = tg_find_nan(r->t, &where);
    error->code = TG_ERROR_VALUE;
    snprintf(error->text, sizeof error->text, "step %lld: the %s is %s%s%.250s; a smaller --lr may help",
             (long long)r->h.steps + 1, what, isnan(value) ? "nan" : "inf", found ? ": " : "", found ? where.text : "");
    return false;
}

/* Runs one batch forward and backward. Adds to the gradients, and adds the batch's loss / --accumulate to `loss`. */
static bool pass(run *r, bool last, double *loss, tg_error *error)
{
    tg_batch batch;
    /* false at the end of a pass; the next call begins another pass */
    while (!tg_loader_next(r->windows, &batch)) {
        if (tg_loader_error(r->windows)->code != TG_OK) {
            *error = *tg_loader_error(r->windows);
            return false;
        }
    }
    tg_tape_reset(r->t);
    /* (B,T) -> (B,T,V) -> a scalar */
    tg_tensor *mean = tg_cross_entropy(r->t, tg_gpt_forward(r->t, r->m.gpt, batch.inputs, NULL), batch.targets, NULL);
    double value = mean ? tg_tensor_item(mean, NULL) : 0;
    if (!isfinite(value)) {
        return diverged(r, "loss", value, error);
    }
    *loss += value / (double)r->o->accumulate;
    bool good = parallel_backward(r->t, mean, r->m.params, last);
    *error = *tg_tape_error(r->t);
    return good;
}

static bool step(run *r)
{
    const options *o = r->o;
    double start = seconds(), loss = 0;
    tg_error error = TG_NO_ERROR;
    tg_optim_zero_grad(r->adamw);
    for (int64_t i = 0; i < o->accumulate && pass(r, i == o->accumulate - 1, &loss, &error); i++) {
    }
    if (!parallel_reduce(r->m.params, &error)) {
        return false;
    }
    loss = parallel_sum(loss) / parallel_ranks();
    if (o->accumulate > 1) {
        tg_scale_grad(r->m.params, 1.0 / (double)o->accumulate);
    }
    double norm = tg_clip_grad_norm(r->m.params, o->clip);
    if (!isfinite(norm)) {
        diverged(r, "gradients' norm", norm, &error);
        return parallel_agree(&error);
    }
    double lr = tg_schedule_lr(r->h.steps, &r->schedule, NULL);
    if (!tg_optim_set_lr(r->adamw, NULL, lr) || !tg_optim_step(r->adamw)) {
        return complain("%s", tg_optim_error(r->adamw)->text);
    }
    history_add_step(&r->h, loss, lr, norm);
    r->busy += seconds() - start;
    double tokens = (double)o->accumulate * (double)o->batch * (double)tg_gpt_get_config(r->m.gpt)->context;
    progress(r->h.steps, o->steps, "loss %.4f  lr %.1e  |g| %5.2f  %5.0f tokens/s  %.0f s left", loss, lr, norm,
             (double)r->h.steps * tokens / r->busy, r->busy / (double)r->h.steps * (double)(o->steps - r->h.steps));
    return true;
}

static bool validate(run *r)
{
    evaluation e;
    if (!evaluate(&e, r->quiet, r->m.gpt, &r->c.validation, r->o->batch, r->o->eval_batches)) {
        return false;
    }
    history_add_evaluation(&r->h, e.loss);
    progress_break();
    printf("step %5lld  validation loss %.4f, perplexity %.2f\n", (long long)r->h.steps, e.loss, exp(e.loss));
    return true;
}

/* Writes a sample. The random numbers are always the same, so that two samples differ only by the weights. */
static bool sample(run *r, FILE *file)
{
    tg_rng_seed(r->sampling, (uint64_t)r->o->seed);
    return generate_text(file, r->quiet, r->m.gpt, r->c.bpe, r->o) >= 0;
}

static bool show_sample(run *r)
{
    progress_break();
    printf("step %5lld  sample\n\n", (long long)r->h.steps);
    bool good = parallel_rank() > 0 || sample(r, stdout);
    printf("\n");
    return good;
}

static bool save(const run *r)
{
    tg_error error = TG_NO_ERROR;
    if (parallel_rank() > 0) {
        return true;
    }
    if (r->c.bpe && !tg_tokenizer_save(r->c.bpe, folder_file(r->o->out, "vocab.bpe"), &error)) {
        return complain("%s", error.text);
    }
    return weights_save(&r->m, r->o->out);
}

/* Runs all steps, or stops after the current one on Ctrl-C. */
static bool steps(run *r)
{
    const options *o = r->o;
    bool stopped = false;
    while (r->h.steps < o->steps && !stopped) {
        if (!step(r)) {
            return false;
        }
        stopped = parallel_sum(interrupted()) > 0;
        bool last = stopped || r->h.steps == o->steps, due = r->h.steps % o->eval_every == 0;
        if ((due || last) && !parallel_check(r->m.params)) {
            return false;
        }
        if (r->c.validation.name && !stopped && (due || last) && !validate(r)) {
            return false;
        }
        if (r->c.bpe && !last && r->h.steps % o->sample_every == 0 && !show_sample(r)) {
            return false;
        }
        if ((due || last) && !save(r)) {
            return false;
        }
    }
    return true;
}

/* ---- results ---- */

static bool write_sample(run *r)
{
    const char *path = folder_file(r->o->out, "sample.txt");
    FILE *file = file_begin(path);
    return file && sample(r, file) && file_end(file, path);
}

static bool report(run *r)
{
    progress_break();
    if (r->h.steps < r->o->steps) {
        printf("stopped after step %lld of %lld\n", (long long)r->h.steps, (long long)r->o->steps);
    }
    if (r->h.steps == 0) {
        return true;
    }
    history_show(&r->h);
    return parallel_rank() > 0 || history_write(&r->h, r->o->out);
}

int train(const options *o)
{
    run r = {.o = o};
    int status = 2;
    if (prepare(&r)) {
        interrupt_catch();
        bool trained = ledger_begin(&r) && steps(&r), recorded = ledger_end(&r), reported = report(&r);
        bool sampled = trained && (!r.c.bpe || (show_sample(&r) && (parallel_rank() > 0 || write_sample(&r))));
        status = trained && recorded && reported && sampled ? 0 : 1;
        if (status == 0) {
            printf("Written to %s: model.tgw, losses.tsv, loss.svg%s\n", o->out,
                   r.c.bpe ? ", vocab.bpe, sample.txt; gpt generate continues a text with this model" : "");
        }
    }
    history_free(&r.h);
    tg_tape_free(r.t);
    tg_tape_free(r.quiet);
    tg_rng_free(r.sampling);
    tg_rng_free(r.dropout);
    tg_loader_free(r.windows);
    tg_optim_free(r.adamw);
    model_free(&r.m);
    corpus_free(&r.c);
    return status;
}

/* train: the training loop. Each query has to find its document among those of the batch. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/terminal.h"
#include "sentences.h"

enum { PARTS = 7, OPTIONS_TEXT = 9000, RECALL_TEXT = 40 };

/* Pairs, and the ids of their texts. */
typedef struct pairs {
    texts texts;
    tg_tokens *queries, *documents;
    /* the number of the first pair with the same document */
    int32_t *numbers;
} pairs;

typedef struct training {
    const options *o;
    pairs pairs, held_out;
    model model;
    tg_optim *optim;
    tg_loader *loader;
    tg_tape *tape;
    char checkpoint[PATH_BYTES];
    /* the widths of the slices that are trained (Kusupati et al. 2022), the whole one last */
    int64_t widths[MOST_WIDTHS];
    int width_count;
    int64_t step, steps;
    /* a mean of the last steps */
    double loss;
    /* the recall on the held-out pairs, as text */
    char recall[RECALL_TEXT];
    /* the time of the last checkpoint; the seconds for the vocabulary and the ids; the processor time before them */
    double saved, encoding;
    clock_t processor;
} training;

/* Returns false after printing the first error of the objects. */
static bool is_good(const training *t)
{
    return tg_run_error(t->model.run)->code == TG_OK || complain("%s", tg_run_error(t->model.run)->text);
}

/* ---- beginning ---- */

static bool encode_pairs(const model *m, pairs *p)
{
    p->numbers = malloc((size_t)p->texts.count * sizeof *p->numbers + 1);
    return (p->numbers || complain("out of memory")) && texts_number(&p->texts, p->numbers) &&
           (p->queries = model_encode(m, &p->texts, true)) && (p->documents = model_encode(m, &p->texts, false));
}

static void pairs_free(pairs *p)
{
    tokens_free(p->queries, p->texts.count);
    tokens_free(p->documents, p->texts.count);
    texts_free(&p->texts);
    free(p->numbers);
}

/* Returns the number of pairs at the beginning that have the same document as the first one. */
static int64_t count_equal(const int32_t *groups, int64_t count)
{
    int64_t equal = 1;
    while (equal < count && groups[equal] == groups[0]) {
        equal++;
    }
    return equal;
}

static int64_t count_different(const pairs *p)
{
    int64_t count = 0;
    for (int64_t i = 0; i < p->texts.count; i++) {
        count += p->numbers[i] == i;
    }
    return count;
}

/* Creates the loader: its items are the numbers of the pairs, and those of their documents. */
static bool make_loader(training *t)
{
    const int64_t count = t->pairs.texts.count;
    tg_tensor *numbers = tg_tensor_new(TG_I32, TG_SHAPE(count), NULL);
    tg_tensor *groups = tg_tensor_new_from(TG_I32, TG_SHAPE(count), t->pairs.numbers, NULL);
    int32_t *number = tg_tensor_data_mut(numbers);
    for (int32_t i = 0; number && i < count; i++) {
        number[i] = i;
    }
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = t->o->batch;
    config.shuffle = true;
    t->loader = tg_loader_new_from_tensors(t->model.run, (tg_tensor *[]){numbers, groups}, 2, &config);
    t->steps = tg_loader_batches(t->loader) * t->o->epochs;
    tg_release(numbers);
    tg_release(groups);
    return (t->loader || complain("out of memory")) && is_good(t);
}

static bool make(training *t)
{
    const options *o = t->o;
    const double start = seconds();
    t->processor = clock();
    t->width_count = widths_read(o->widths, o->width, t->widths);
    if (t->width_count == 0 || !model_make(&t->model, o, &t->pairs.texts)) {
        return false;
    }
    t->tape = tg_tape_new(t->model.run, NULL);
    tg_adam_config config = tg_adam_config_default();
    config.deferred = true;
    t->optim = tg_adam_new(t->model.params, &config);
    bool good = is_good(t) && encode_pairs(&t->model, &t->pairs) && make_loader(t) &&
                (!o->held_out || encode_pairs(&t->model, &t->held_out));
    if (good && count_equal(t->pairs.numbers, t->pairs.texts.count) == t->pairs.texts.count) {
        good = complain("%s: all pairs have the same document; at least 2 are needed", o->pairs);
    }
    t->encoding = seconds() - start;
    return good;
}

/* ---- checkpoints ---- */

static void list_parts(training *t, char settings[OPTIONS_TEXT], tg_checkpoint_part parts[PARTS])
{
    const options *o = t->o;
    snprintf(settings, OPTIONS_TEXT,
             "pairs %s columns %s tokenizer %s vocab-size %lld width %lld widths %s batch %lld epochs %lld lr %.17g "
             "warmup %.17g scale %.17g seed %lld held-out %s",
             o->pairs, o->columns, o->tokenizer ? o->tokenizer : "", (long long)o->vocab_size, (long long)o->width,
             o->widths ? o->widths : "", (long long)o->batch, (long long)o->epochs, o->lr, o->warmup, o->scale,
             (long long)o->seed, o->held_out ? o->held_out : "");
    const tg_checkpoint_part list[PARTS] = {
        tg_checkpoint_params("model", t->model.params),
        tg_checkpoint_optim("optimizer", t->optim),
        tg_checkpoint_rng("generator", tg_run_rng(t->model.run)),
        tg_checkpoint_loader("pairs", t->loader),
        tg_checkpoint_integer("step", &t->step),
        tg_checkpoint_number("loss", &t->loss),
        tg_checkpoint_expect_text("options", settings),
    };
    memcpy(parts, list, sizeof list);
}

static bool save_checkpoint(training *t)
{
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_part parts[PARTS];
    char settings[OPTIONS_TEXT];
    list_parts(t, settings, parts);
    t->saved = seconds();
    return (tg_optim_flush(t->optim) || is_good(t)) &&
           (tg_checkpoint_save(t->checkpoint, parts, PARTS, &error) || complain("%s", error.text));
}

/* Continues the training of the folder with --resume. Without it and --overwrite there must be none. */
static bool open_checkpoint(training *t)
{
    const options *o = t->o;
    char settings[OPTIONS_TEXT];
    tg_error error = TG_NO_ERROR;
    tg_checkpoint_part parts[PARTS];
    snprintf(t->checkpoint, PATH_BYTES, "%s", folder_file(o->out, "checkpoint.safetensors"));
    list_parts(t, settings, parts);
    if (o->resume) {
        const bool good = tg_checkpoint_load(t->checkpoint, parts, PARTS, &error) ||
                          complain("--resume needs the options of the training: %s", error.text);
        if (good) {
            print_line(stdout, "continues after step %lld: %s", (long long)t->step, t->checkpoint);
        }
        return good;
    }
    return model_may_write(o, "--resume continues it, ") && folder_make(o->out);
}

/* ---- steps ---- */

/* Returns the sum of the losses of the slices. */
static tg_tensor *loss_of(const training *t, tg_tensor *queries, tg_tensor *documents, tg_tensor *groups)
{
    tg_contrastive_loss_config config = tg_contrastive_loss_config_default();
    config.scale = t->o->scale;
    config.groups = groups;
    tg_tensor *loss = NULL;
    for (int i = 0; i < t->width_count; i++) {
        tg_tensor *part = tg_contrastive_loss(t->tape, tg_slice(t->tape, queries, 1, 0, t->widths[i], 1),
                                              tg_slice(t->tape, documents, 1, 0, t->widths[i], 1), NULL, &config);
        loss = loss ? tg_add(t->tape, loss, part) : part;
    }
    return loss;
}

static double rate_of(const training *t)
{
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_LINEAR;
    schedule.lr = t->o->lr;
    schedule.warmup_steps = (int64_t)(t->o->warmup * (double)t->steps);
    schedule.total_steps = t->steps;
    return tg_schedule_lr(t->step, &schedule, NULL);
}

static bool step(training *t, const tg_batch *batch)
{
    const int32_t *list = tg_tensor_data(batch->inputs);
    const int64_t count = tg_tensor_count(batch->inputs);
    if (count_equal(tg_tensor_data(batch->targets), count) == count) {
        t->step++; /* no document is a wrong one: nothing can be learned */
        return true;
    }
    tg_tape_reset(t->tape);
    tg_optim_zero_grad(t->optim);
    tg_tensor *queries = model_forward(&t->model, t->tape, t->pairs.queries, list, count);
    tg_tensor *documents = model_forward(&t->model, t->tape, t->pairs.documents, list, count);
    tg_tensor *loss = loss_of(t, queries, documents, batch->targets);
    tg_backward(t->tape, loss, NULL);
    tg_optim_set_lr(t->optim, NULL, rate_of(t));
    tg_optim_step(t->optim);
    const double now = tg_tensor_item(loss, NULL);
    t->loss = t->step == 0 ? now : t->loss + (now - t->loss) / 10;
    t->step++;
    return is_good(t);
}

/* Measures the recall of the held-out pairs, among their documents. */
static bool measure(training *t)
{
    tg_ranking ranking = {0};
    const pairs *p = &t->held_out;
    bool good = tg_optim_flush(t->optim) || is_good(t);
    tg_tensor *queries = good ? model_vectors(&t->model, p->queries, p->texts.count, t->o->width) : NULL;
    tg_tensor *documents = queries ? model_vectors(&t->model, p->documents, p->texts.count, t->o->width) : NULL;
    good = documents && ranking_measure(queries, documents, p->numbers, 10, &ranking);
    snprintf(t->recall, RECALL_TEXT, "  recall at 10 %.4f", ranking.recall / (double)p->texts.count);
    tg_release(queries);
    tg_release(documents);
    return good;
}

static bool run(training *t)
{
    const double start = seconds();
    const int64_t first = t->step, tenth = (t->steps + 9) / 10, part = t->steps < 1000 ? 10 : t->steps / 100;
    int64_t done = 0;
    t->saved = start;
    while (t->step < t->steps && !interrupted()) {
        tg_batch batch;
        if (!tg_loader_next(t->loader, &batch)) {
            if (!is_good(t)) {
                return false;
            }
            continue; /* the next call begins another pass */
        }
        done += tg_tensor_count(batch.inputs);
        bool good = step(t, &batch);
        if (good && t->o->held_out && (t->step % tenth == 0 || t->step == t->steps)) {
            good = measure(t);
        }
        const double spent = seconds() - start;
        progress(t->step, t->steps, "loss %.4f%s  %.0f pairs/s  %.0f s left", t->loss, t->recall, (double)done / spent,
                 spent / (double)(t->step - first) * (double)(t->steps - t->step));
        /* rows make up their steps after the same steps in each run, so that a checkpoint changes no bit */
        if (good && t->step % part == 0 && t->step < t->steps) {
            good = tg_optim_flush(t->optim) || is_good(t);
            good = good && (seconds() - t->saved < 60 * t->o->minutes || save_checkpoint(t));
        }
        if (!good) {
            return false;
        }
    }
    progress_break();
    const double spent = seconds() - start;
    printf("%lld pairs in %.2f s, and %.2f s for their ids: %.0f pairs/s, %.2f s of processor time; loss %.4f%s%s\n",
           (long long)done, spent, t->encoding, (double)done / (spent + t->encoding),
           (double)(clock() - t->processor) / CLOCKS_PER_SEC, t->loss, t->recall, interrupted() ? "; interrupted" : "");
    return true;
}

int train(const options *o)
{
    training t = {.o = o};
    const bool is_begun = texts_read(&t.pairs.texts, o->pairs, o->columns, true) &&
                          (!o->held_out || texts_read(&t.held_out.texts, o->held_out, o->columns, true)) && make(&t) &&
                          open_checkpoint(&t);
    bool good = is_begun;
    if (good) {
        print_line(stdout, "%s: %lld pairs of %lld different documents, a vocabulary of %d ids, in %.2f s", o->pairs,
                   (long long)t.pairs.texts.count, (long long)count_different(&t.pairs),
                   tg_tokenizer_vocabulary(t.model.tokenizer), t.encoding);
        fflush(stdout);
        interrupt_catch();
        good = run(&t) && save_checkpoint(&t) && model_save(&t.model, o->out, o->width);
    }
    if (good) {
        print_line(stdout, "written to %s: a folder that sentence-transformers opens, and a checkpoint", o->out);
    }
    tg_loader_free(t.loader);
    tg_tape_free(t.tape);
    tg_optim_free(t.optim);
    model_free(&t.model);
    pairs_free(&t.pairs);
    pairs_free(&t.held_out);
    return good ? 0 : is_begun ? 1 : 2;
}

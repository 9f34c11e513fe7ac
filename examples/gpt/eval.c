/* eval: prints the mean loss over the tokens of a part, and its exponential, the perplexity: the number of equally
 * probable tokens that have this loss. The part is the validation part of the text in the model's training, unless the
 * command line names a text.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/program.h"
#include "../common/terminal.h"
#include "commands.h"
#include "memory.h"
#include "parallel.h"
#include "training.h"

bool evaluate(evaluation *e, tg_tape *quiet, const model *m, const part *p, int64_t batch, int64_t batches)
{
    *e = (evaluation){0};
    double start = seconds(), sum = 0;
    /* a loader draws at the start of a pass; without shuffling, the draws have no effect */
    tg_run *unused = tg_run_new(0);
    tg_loader *loader = part_loader(p, m->window, m->window, batch, false, unused);
    tg_batch b;
    for (int64_t i = 0; loader && i != batches && tg_loader_next(loader, &b); i++) {
        if (i % parallel_ranks() != parallel_rank()) {
            continue;
        }
        tg_tape_reset(quiet);
        int64_t counted = part_fill(p, quiet, &b);
        tg_tensor *loss = model_loss(quiet, m, &b);
        sum += loss ? tg_tensor_item(loss, NULL) * (double)counted : 0;
        e->tokens += counted;
    }
    bool good = loader != NULL;
    const tg_error *error = tg_tape_error(quiet)->code != TG_OK ? tg_tape_error(quiet) : tg_loader_error(loader);
    tg_error named = {.code = error->code};
    snprintf(named.text, sizeof named.text, "%s: %.300s", p->name, error->text);
    good = good && parallel_agree(&named);
    if (good) {
        e->tokens = (int64_t)parallel_sum((double)e->tokens);
        e->loss = parallel_sum(sum) / (double)e->tokens;
    }
    e->seconds = seconds() - start;
    tg_loader_free(loader);
    tg_run_free(unused);
    return good;
}

/* What a checkpoint knows of its training: the options, and the identity of the text. */
typedef struct origin {
    options o;
    char *arguments, **argv, *identity;
} origin;

/* Reads what the checkpoint knows. `is_needed`: a model without a training is an error. */
static bool origin_read(origin *from, const options *o, const char *path, bool is_needed)
{
    tg_error error = TG_NO_ERROR;
    /* the options of the training set another number */
    int argc, threads = tg_threads();
    *from = (origin){0};
    bool is_read = training_arguments(path, &from->arguments, &from->argv, &argc, &error);
    from->identity = is_read ? tg_checkpoint_read_text(path, DATA_PART, &error) : NULL;
    if (!from->identity) {
        return error.code == TG_ERROR_VALUE ? !is_needed || complain("--model %s: gpt train has not written it; --text "
                                                                     "FILE or --tokens FILE must name a text",
                                                                     o->model)
                                            : complain("%s", error.text);
    }
    bool is_valid = options_read(&from->o, TRAIN, "", argc, from->argv) < 0;
    tg_set_threads(threads, NULL);
    return is_valid;
}

static void origin_free(origin *from)
{
    tg_text_free(from->arguments);
    tg_text_free(from->identity);
    free(from->argv);
}

/* Takes the text, or the token file for validation, of the training. */
static bool take_text(options *o, const origin *from)
{
    o->is_trained_text = true;
    o->text = from->o.text;
    o->val_tokens = from->o.val_tokens;
    return !from->o.tokens || o->val_tokens ||
           complain("--model %s: its training had no validation; --text FILE or --tokens FILE must name a text",
                    o->model);
}

/* Prints what is evaluated. Returns false after printing an error if the text of the training has changed. */
static bool show_part(const options *o, const corpus *c, const origin *from)
{
    bool is_same = from->identity && strcmp(from->identity, c->identity) == 0;
    if (o->val_tokens) {
        print_line(stdout, "evaluates %s%s", o->val_tokens,
                   o->is_trained_text ? ", the validation file of the training" : "");
        return true;
    }
    if (o->data) {
        print_line(stdout, "evaluates the answers of %lld examples", (long long)c->validation.count);
        return true;
    }
    if (o->is_trained_text && !o->vocab && !is_same) {
        return complain("%s: has changed since the training, from %s to %s; --text FILE names a text", c->training.name,
                        from->identity, c->identity);
    }
    print_line(stdout, "evaluates the last tenth of %s%s", c->training.name,
               is_same                       ? ", the validation part of the training"
               : from->identity && !o->vocab ? ", which is not the text of the training"
                                             : "");
    return true;
}

static bool eval_on(const options *o, model *m, const origin *from, tg_tokenizer *bpe)
{
    corpus c;
    evaluation e;
    if (!(o->data ? corpus_load_examples(&c, o, m, bpe)
                  : corpus_load(&c, o, bpe, tg_gpt_get_config(m->gpt)->vocabulary))) {
        return false;
    }
    c.validation = c.validation.name ? c.validation : c.training;
    tg_tape *quiet = quiet_tape_new(NULL, o->reproducible, !o->data);
    bool good = quiet && vocabulary_fits(c.bpe, m) && show_part(o, &c, from) &&
                evaluate(&e, quiet, m, &c.validation, o->batch, o->eval_batches);
    if (good) {
        printf("%lld tokens in windows of %lld: loss %.4f, perplexity %.2f; %.0f tokens/s\n", (long long)e.tokens,
               (long long)m->window, e.loss, exp(e.loss), (double)e.tokens / e.seconds);
    }
    tg_tape_free(quiet);
    corpus_free(&c);
    return good;
}

/* Returns the floats of a pass. */
static double more_floats(const tg_gpt_config *config, int64_t values, int64_t window, const options *o)
{
    (void)values;
    return (double)(o->batch * window) * activation_floats(config);
}

int eval(const options *given)
{
    options o = *given;
    model m = {0};
    origin from = {0};
    tg_tokenizer *bpe = NULL;
    char path[PATH_BYTES];
    bool is_given = o.text || o.val_tokens || o.data;
    model_use use = {
        .choice = TG_CHECKPOINT_BEST, .window = o.context, .adapter = o.adapter, .more = more_floats, .o = given};
    bool good = model_load(&m, o.model, &use, &bpe);
    if (good && m.is_published) {
        good = is_given ||
               complain("--model %s: gpt train has not written it; --text FILE or --tokens FILE must name a text",
                        o.model);
    } else if (good) {
        good = model_find("--model", o.model, TG_CHECKPOINT_BEST, path) && origin_read(&from, &o, path, !is_given);
    }
    good = good && (is_given || take_text(&o, &from)) && (o.val_tokens || model_tokenizer(&bpe, o.model, &o));
    if (good) {
        good = eval_on(&o, &m, &from, bpe);
    } else {
        tg_tokenizer_free(bpe);
    }
    origin_free(&from);
    model_free(&m);
    return good ? 0 : 2;
}

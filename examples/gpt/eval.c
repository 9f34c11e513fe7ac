/* eval: prints the mean loss over the tokens of a part, and its exponential, the perplexity: the number of equally
 * probable tokens that have this loss.
 */
#include <math.h>

#include "../common/program.h"
#include "commands.h"
#include "parallel.h"

bool evaluate(evaluation *e, tg_tape *quiet, const tg_gpt *gpt, const part *p, int64_t batch, int64_t batches)
{
    *e = (evaluation){0};
    double start = seconds(), sum = 0;
    int64_t context = tg_gpt_get_config(gpt)->context;
    /* a loader draws at the start of a pass; without shuffling, the draws have no effect */
    tg_run *unused = tg_run_new(0);
    tg_loader *loader = part_loader(p, context, context, batch, false, unused);
    tg_batch b;
    for (int64_t i = 0; loader && i != batches && tg_loader_next(loader, &b); i++) {
        if (i % parallel_ranks() != parallel_rank()) {
            continue;
        }
        tg_tape_reset(quiet);
        /* (B,T) -> (B,T,V) -> a scalar */
        tg_tensor *loss = tg_cross_entropy(quiet, tg_gpt_forward(quiet, gpt, b.inputs, NULL), b.targets, NULL);
        sum += loss ? tg_tensor_item(loss, NULL) * (double)tg_tensor_count(b.targets) : 0;
        e->tokens += tg_tensor_count(b.targets);
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

int eval(const options *o)
{
    model m;
    corpus c;
    evaluation e;
    tg_tokenizer *bpe;
    if (!model_load(&m, o->model, TG_CHECKPOINT_BEST, false, &bpe)) {
        return 2;
    }
    const tg_gpt_config *config = tg_gpt_get_config(m.gpt);
    tg_tape *quiet = quiet_tape_new(NULL, o->reproducible);
    bool good = quiet && (o->val_tokens || model_tokenizer(&bpe, o->model, o));
    if (good) {
        good = corpus_load(&c, o, bpe, config->vocabulary);
    } else {
        tg_tokenizer_free(bpe);
    }
    if (good) {
        good = vocabulary_fits(c.bpe, config->vocabulary) &&
               evaluate(&e, quiet, m.gpt, &c.validation, o->batch, o->eval_batches);
        corpus_free(&c);
    }
    if (good) {
        printf("%lld tokens in windows of %lld: loss %.4f, perplexity %.2f; %.0f tokens/s\n", (long long)e.tokens,
               (long long)config->context, e.loss, exp(e.loss), (double)e.tokens / e.seconds);
    }
    tg_tape_free(quiet);
    model_free(&m);
    return good ? 0 : 2;
}

/* eval: the mean loss over the tokens of a part. Its exponential, the perplexity, is the number of equally likely
 * tokens among which a guess would be as hard.
 */
#include <math.h>

#include "../common/program.h"
#include "commands.h"

bool evaluate(evaluation *e, tg_tape *quiet, const tg_gpt *gpt, const part *p, int64_t batch, int64_t batches)
{
    *e = (evaluation){0};
    double start = seconds(), sum = 0;
    int64_t context = tg_gpt_config_of(gpt)->context;
    tg_rng *unused = tg_rng_new(0); /* a loader draws at the start of a pass, but without shuffle to no effect */
    tg_loader *loader = part_loader(p, context, context, batch, false, unused);
    tg_batch b;
    for (int64_t i = 0; loader && i != batches && tg_loader_next(loader, &b); i++) {
        tg_tape_reset(quiet);
        tg_tensor *loss = tg_cross_entropy(quiet, tg_gpt_forward(quiet, gpt, b.inputs), b.targets);
        sum += loss ? tg_item(quiet, loss) * (double)tg_count(b.targets) : 0;
        e->tokens += tg_count(b.targets);
    }
    bool good = loader != NULL;
    if (good && (tg_loader_error_code(loader) != TG_OK || tg_tape_error_code(quiet) != TG_OK)) {
        good = complain("%s: %s", p->name,
                        tg_tape_error_code(quiet) != TG_OK ? tg_tape_error(quiet) : tg_loader_error(loader));
    }
    e->loss = sum / (double)e->tokens;
    e->seconds = seconds() - start;
    tg_loader_free(loader);
    tg_rng_free(unused);
    return good;
}

int eval(const options *o)
{
    model m;
    corpus c;
    evaluation e;
    if (!weights_load(&m, o->model)) {
        return 2;
    }
    const tg_gpt_config *config = tg_gpt_config_of(m.gpt);
    tg_tape *quiet = quiet_tape_new(NULL);
    const char *vocab = o->vocab ? o->vocab : o->val_tokens ? NULL : folder_file(o->model, "vocab.bpe");
    bool good = quiet && corpus_load(&c, o, vocab, config->vocabulary);
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

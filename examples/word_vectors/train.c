/* train: the training loop. A step is tg_skip_gram_loss, whose gradients are by rows, and SGD, which updates these.
 *
 * word2vec updates the tables after each pair; here the pairs of a batch see the same tables, and their gradients are
 * added up. In a large batch a frequent word has hundreds of gradients, and the sum of steps that are each right leads
 * too far. On the text of tests/bench/corpus, 1000 and 2000 pairs train, and 4000 diverge; tests/bench/README.md has
 * what the vectors of 1000 are worth beside gensim's.
 */
#include <math.h>
#include <string.h>
#include <time.h>

#include "../common/terminal.h"
#include "word_vectors.h"

typedef struct training {
    const options *o;
    corpus text;
    pairs pairs;
    bags bags; /* with n-grams */
    tg_run *shared_run;
    tg_params *params;
    /* (V,C): the vectors of words, and with n-grams further rows; and the vectors of words as contexts (V,C) */
    tg_tensor *words, *contexts;
    tg_optim *optim;
    tg_tape *tape;
    /* (B) and (B,1+N) */
    tg_tensor *centers, *targets;
    int64_t done, all;
    double loss;
} training;

/* Returns false after printing the first error of the objects. */
static bool is_good(const training *t)
{
    return tg_tape_error(t->tape)->code == TG_OK || complain("%s", tg_tape_error(t->tape)->text);
}

/* Creates the model: word2vec's tables, of which the second one begins with zeros. The first one begins with the bounds
 * of word2vec, and with n-grams with those of fastText. */
static bool make(training *t)
{
    const options *o = t->o;
    const bool has_ngrams = o->max_n > 0;
    if (has_ngrams && !bags_make(&t->bags, &t->text, o)) {
        return false;
    }
    const int64_t words = t->text.vocabulary, rows = has_ngrams ? tg_subwords_rows(t->bags.subwords) : words;
    t->shared_run = tg_run_new((uint64_t)o->seed);
    t->params = tg_params_new(t->shared_run, TG_F32);
    t->tape = tg_tape_new(t->shared_run, NULL);
    t->words = tg_params_add(t->params, "words.weight", TG_SHAPE(rows, o->width));
    t->contexts = tg_params_add(t->params, "contexts.weight", TG_SHAPE(words, o->width));
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = o->alpha;
    t->optim = tg_sgd_new(t->params, &config);
    t->centers = tg_tensor_new(TG_I32, TG_SHAPE(o->batch), NULL);
    t->targets = tg_tensor_new(TG_I32, TG_SHAPE(o->batch, 1 + o->negatives), NULL);
    if (!is_good(t)) {
        return false;
    }
    const double bound = (has_ngrams ? 1 : 0.5) / (double)o->width;
    bool is_made = pairs_make(&t->pairs, &t->text, o, tg_run_rng(t->shared_run)) && t->centers && t->targets &&
                   tg_tensor_fill_uniform(t->words, tg_run_rng(t->shared_run), -bound, bound, NULL) &&
                   tg_tensor_fill(t->contexts, 0, NULL);
    return is_made || complain("out of memory");
}

/* Returns whether the loss is at most twice that of untrained vectors, whose products are all 0. Otherwise prints that
 * the training diverges. */
static bool converges(const training *t)
{
    const double untrained = (double)(1 + t->o->negatives) * log(2);
    if (t->loss <= 2 * untrained) {
        return true;
    }
    progress_break();
    return complain("the training diverges: after %lld pairs the loss is %.3g, that of untrained vectors %.3g; "
                    "use a smaller --batch or --alpha",
                    (long long)t->done, t->loss, untrained);
}

/* Makes a step on the first pairs of the batch. */
static bool step(training *t, int64_t count)
{
    const options *o = t->o;
    tg_tensor *centers = t->centers, *targets = t->targets;
    tg_tape_reset(t->tape);
    tg_optim_zero_grad(t->optim);
    if (count < o->batch) { /* the last pairs of a pass */
        centers = tg_slice(t->tape, centers, 0, 0, count, 1);
        targets = tg_slice(t->tape, targets, 0, 0, count, 1);
    }
    tg_tensor *words =
        o->max_n > 0 ? bags_vectors(&t->bags, t->tape, t->words, tg_tensor_data_mut(centers), count) : t->words;
    tg_tensor *loss = tg_skip_gram_loss(t->tape, centers, words, targets, t->contexts, TG_REDUCTION_SUM);
    tg_backward(t->tape, loss, NULL);
    const double progress = (double)t->done / (double)t->all;
    tg_optim_set_lr(t->optim, NULL, o->alpha + (o->min_alpha - o->alpha) * progress);
    tg_optim_step(t->optim);
    /* a mean of the last hundred steps */
    const double mean = tg_tensor_item(loss, NULL) / (double)count;
    t->loss = t->done == 0 ? mean : t->loss + (mean - t->loss) / 100;
    t->done += count;
    return is_good(t) && converges(t);
}

static bool run(training *t)
{
    tg_error error = TG_NO_ERROR;
    const double start = seconds();
    const clock_t start_of_processor = clock();
    const int64_t pass = pairs_of_pass(&t->pairs);
    t->all = pass * t->o->epochs;
    for (int64_t epoch = 0; epoch < t->o->epochs && !interrupted(); epoch++) {
        pairs_begin(&t->pairs);
        int64_t count = 1;
        while (count > 0 && !interrupted()) {
            count = pairs_next(&t->pairs, t->o->batch, tg_tensor_data_mut(t->centers), tg_tensor_data_mut(t->targets),
                               &error);
            if (count < 0) {
                return complain("%s", error.text);
            }
            if (count > 0 && !step(t, count)) {
                return false;
            }
            const double spent = seconds() - start;
            progress_of("pairs", t->done, t->all, "%3.0f %%  loss %.4f  %.0f pairs/s  %.0f s left",
                        100 * (double)t->done / (double)t->all, t->loss, (double)t->done / spent,
                        spent / (double)t->done * (double)(t->all - t->done));
        }
    }
    progress_break();
    printf("%lld pairs in %.2f s, %.2f s of processor time, loss %.4f%s\n", (long long)t->done, seconds() - start,
           (double)(clock() - start_of_processor) / CLOCKS_PER_SEC, t->loss, interrupted() ? "; interrupted" : "");
    return true;
}

/* Writes the vectors of words in the formats of word2vec, and all tables in a third one. */
static bool save(const training *t)
{
    tg_error error = TG_NO_ERROR;
    const char *out = t->o->out;
    const bool has_ngrams = t->o->max_n > 0;
    const char *tables = has_ngrams ? "fasttext.bin" : "vectors.safetensors";
    tg_tensor *vectors = has_ngrams ? vectors_of_words(t->bags.subwords, t->words, &error) : tg_retain(t->words);
    bool good =
        folder_make(out) &&
        ((vectors &&
          tg_words_save_vectors(t->text.words, vectors, folder_file(out, "vectors.txt"), TG_VECTORS_TEXT, &error) &&
          tg_words_save_vectors(t->text.words, vectors, folder_file(out, "vectors.bin"), TG_VECTORS_BINARY, &error) &&
          (has_ngrams ? tg_subwords_save(t->bags.subwords, t->words, t->contexts, folder_file(out, tables), &error)
                      : tg_params_save(t->params, folder_file(out, tables), NULL, &error)) &&
          tg_words_save(t->text.words, folder_file(out, "words.txt"), &error)) ||
         complain("%s", error.text));
    tg_release(vectors);
    if (good) {
        print_line(stdout, "written to %s: vectors.txt and vectors.bin for word2vec and gensim, %s%s, words.txt", out,
                   tables, has_ngrams ? " for fastText and gensim" : "");
    }
    return good;
}

#define GRADIENTS 150
#define MOST_PAIRS 1000

/* Returns the number of pairs of a step if none is given. */
static int64_t batch_of(const options *o, const corpus *c)
{
    double words = 0, draws = 0;
    for (int32_t i = 0; i < c->vocabulary; i++) {
        words += (double)c->counts[i];
        draws += pow((double)c->counts[i], 0.75);
    }
    const double of_a_pair =
        (double)c->counts[0] / words + (double)o->negatives * pow((double)c->counts[0], 0.75) / draws;
    const double size = GRADIENTS / of_a_pair * (0.025 / o->alpha);
    return size < 1 ? 1 : size < MOST_PAIRS ? (int64_t)size : MOST_PAIRS;
}

int train(const options *given)
{
    options with_batch = *given, *o = &with_batch;
    training t = {.o = o};
    tg_error error = TG_NO_ERROR;
    if (o->threads > 0 && !tg_set_threads((int)o->threads, &error)) {
        complain("%s", error.text);
        return 2;
    }
    if (!corpus_read(&t.text, o)) {
        return 2;
    }
    o->batch = o->batch > 0 ? o->batch : batch_of(o, &t.text);
    print_line(stdout, "%s: %lld words, %d different ones, batches of %lld pairs", o->text, (long long)t.text.count,
               (int)t.text.vocabulary, (long long)o->batch);
    fflush(stdout);
    interrupt_catch();
    bool good = make(&t) && run(&t) && save(&t);
    pairs_free(&t.pairs);
    bags_free(&t.bags);
    tg_release(t.centers);
    tg_release(t.targets);
    tg_optim_free(t.optim);
    tg_tape_free(t.tape);
    tg_params_free(t.params);
    tg_run_free(t.shared_run);
    corpus_free(&t.text);
    return good ? 0 : 1;
}

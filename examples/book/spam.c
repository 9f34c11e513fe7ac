/* spam: the messages of chapter 6, their batches, and a classifier of them. */
#include "fine_tuning.h"

#include <stdlib.h>
#include <string.h>

/* Messages for a run without the book. */
static const message own_messages[] = {
    {0, false, "Are you coming to the lighthouse tonight? The keeper made soup."},
    {1, true, "WIN a FREE lamp! Call 0900 100 200 now to claim your prize"},
    {2, false, "I will be late, the boat left without me"},
    {3, false, "Thanks for the books, the second one is the best"},
    {4, true, "You have been SELECTED! Reply YES to win a prize of 1000 pounds"},
    {5, false, "The wind is strong today, stay at home"},
    {6, true, "FREE ringtones! Text RING to 80080, only 3 pounds a week"},
    {7, false, "Can you bring bread and a \"small\" lamp?"},
    {8, false, "See you at the harbor at five"},
    {9, true, "URGENT! Your prize of 500 pounds is waiting, call 0900 300 400"},
    {10, false, "The light was on the whole night, did you see it?"},
    {11, true, "Claim your FREE holiday now! Call 0900 500 600"},
    {12, false, "Happy birthday, dear keeper of the lamp"},
    {13, true, "WIN WIN WIN! Text PRIZE to 80090 to claim a FREE phone"},
    {14, false, "I was thinking of you when the ship came in"},
    {15, true, "Your phone has WON a prize, call 0900 700 800 to claim it"},
};

static char *book_path(const char *book, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", book, name);
    return path;
}

messages messages_open(const options *o)
{
    messages m = {.count = sizeof own_messages / sizeof *own_messages};
    if (o->book) {
        tg_error error = TG_NO_ERROR;
        tg_csv_config config = tg_csv_config_default();
        config.separator = '\t';
        config.has_header = false;
        config.loose_quotes = true;
        m.csv = tg_csv_open(book_path(o->book, "sms_spam_collection.tsv"), &config, &error);
        check(&error);
        m.count = tg_csv_rows(m.csv);
    }
    m.list = calloc((size_t)m.count, sizeof *m.list);
    for (int64_t i = 0; i < m.count; i++) {
        m.list[i] = m.csv ? (message){i, strcmp(tg_csv_field(m.csv, i, 0), "spam") == 0, tg_csv_field(m.csv, i, 1)}
                          : own_messages[i];
    }
    return m;
}

void messages_free(messages *m)
{
    free(m->list);
    tg_csv_free(m->csv);
}

void messages_balance(messages *m)
{
    message *others = calloc((size_t)m->count, sizeof *others), *spams = calloc((size_t)m->count, sizeof *spams);
    int64_t other_count = 0, spam_count = 0;
    for (int64_t i = 0; i < m->count; i++) {
        if (m->list[i].is_spam) {
            spams[spam_count++] = m->list[i];
        } else {
            others[other_count++] = m->list[i];
        }
    }
    int64_t *order = pandas_permutation(123, other_count);
    m->count = 2 * spam_count;
    for (int64_t i = 0; i < spam_count; i++) {
        m->list[i] = others[order[i]];
        m->list[spam_count + i] = spams[i];
    }
    free(order);
    free(others);
    free(spams);
}

void messages_shuffle(messages *m)
{
    int64_t *order = pandas_permutation(123, m->count);
    message *list = calloc((size_t)m->count, sizeof *list);
    for (int64_t i = 0; i < m->count; i++) {
        list[i] = m->list[order[i]];
    }
    free(order);
    free(m->list);
    m->list = list;
}

/* ---- batches ---- */

static int64_t length_of(tg_tokenizer *bpe, const char *text)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, strlen(text), false, &tokens, &error);
    check(&error);
    int64_t count = tokens.count;
    tg_tokens_free(&tokens);
    return count;
}

/* Returns a loader of the messages begin .. end - 1: ids (8,length), cut or filled up, and labels (8). */
static tg_loader *loader_of(const messages *m, int64_t begin, int64_t end, int64_t length, tg_tokenizer *bpe,
                            bool training, tg_run *run)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(end - begin, length), &error);
    tg_tensor *labels = tg_tensor_new(TG_I32, TG_SHAPE(end - begin), &error);
    check(&error);
    int32_t *id = tg_tensor_data_mut(ids), *label = tg_tensor_data_mut(labels);
    for (int64_t i = begin; i < end; i++) {
        tg_tokens tokens;
        tg_tokenizer_encode(bpe, m->list[i].text, strlen(m->list[i].text), false, &tokens, &error);
        check(&error);
        for (int64_t k = 0; k < length; k++) {
            *id++ = k < tokens.count ? tokens.ids[k] : tg_tokenizer_end_of_text(bpe);
        }
        *label++ = m->list[i].is_spam;
        tg_tokens_free(&tokens);
    }
    tg_loader_config config = tg_loader_config_default();
    config.batch_size = end - begin < 8 ? end - begin : 8;
    config.shuffle = training;
    config.drop_last = training;
    tg_loader *loader = tg_loader_new_from_tensors(run, (tg_tensor *[]){ids, labels}, 2, &config);
    check(tg_loader_error(loader));
    tg_release(ids);
    tg_release(labels);
    return loader;
}

spam_data spam_data_new(const messages *m, tg_tokenizer *bpe, tg_run *run)
{
    int64_t train_end = m->count * 7 / 10, validation_end = train_end + m->count / 10;
    spam_data d = {.length = 0};
    for (int64_t i = 0; i < train_end; i++) {
        int64_t length = length_of(bpe, m->list[i].text);
        d.length = length > d.length ? length : d.length;
    }
    d.train = loader_of(m, 0, train_end, d.length, bpe, true, run);
    d.validation = loader_of(m, train_end, validation_end, d.length, bpe, false, run);
    d.test = loader_of(m, validation_end, m->count, d.length, bpe, false, run);
    return d;
}

void spam_data_free(spam_data *d)
{
    tg_loader_free(d->train);
    tg_loader_free(d->validation);
    tg_loader_free(d->test);
}

void spam_data_print(const spam_data *d, int batch_cell, int count_cell)
{
    tg_batch batch = next_batch(d->train);
    cell(batch_cell);
    printf("Train loader:\nInput batch dimensions: ");
    print_shape(batch.inputs);
    printf("Label batch dimensions ");
    print_shape(batch.targets);
    tg_loader_reset(d->train);
    cell(count_cell);
    printf("%lld training batches\n%lld validation batches\n%lld test batches\n",
           (long long)tg_loader_batches(d->train), (long long)tg_loader_batches(d->validation),
           (long long)tg_loader_batches(d->test));
}

/* ---- training ---- */

/* Returns the share of right answers in the first `batches` batches: the chapter's calc_accuracy_loader. */
static double accuracy(tg_tape *t, const tg_gpt *model, tg_loader *loader, int64_t batches)
{
    int64_t right = 0, all = 0, seen = 0;
    tg_evaluation before = tg_evaluation_begin(t);
    for (tg_batch batch; seen < batches && tg_loader_next(loader, &batch); seen++) {
        tg_tape_reset(t);
        /* (B,T) -> (B,2) -> (B) */
        tg_tensor *logits = tg_gpt_last_logits(t, model, batch.inputs, NULL);
        tg_tensor *answers = tg_argmax(t, logits, -1, TG_DROP_AXES);
        for (int64_t i = 0; i < tg_tensor_count(batch.targets); i++, all++) {
            right += tg_tensor_value_at(answers, i) == tg_tensor_value_at(batch.targets, i);
        }
    }
    tg_loader_reset(loader);
    check(tg_loader_error(loader));
    check(tg_tape_error(t));
    tg_evaluation_end(t, before);
    return (double)right / (double)all;
}

static void print_accuracies(tg_tape *t, const tg_gpt *model, const spam_data *d)
{
    printf("Training accuracy: %.2f%%\n", 100 * accuracy(t, model, d->train, 10));
    printf("Validation accuracy: %.2f%%\n", 100 * accuracy(t, model, d->validation, 10));
}

void train_classifier(tg_tape *t, tg_gpt *model, tg_params *params, const spam_data *d, int64_t steps)
{
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = tg_gpt_get_config(model)->width < 100 ? 1e-3 : 5e-5;
    config.weight_decay = 0.1;
    tg_optim *optim = tg_adamw_new(params, &config);
    check(tg_params_error(params));
    print_accuracies(t, model, d);
    for (int64_t step = 0; step < steps;) {
        tg_batch batch;
        if (!tg_loader_next(d->train, &batch)) {
            check(tg_loader_error(d->train));
            continue; /* another pass */
        }
        tg_tape_reset(t);
        tg_tensor *logits = tg_gpt_last_logits(t, model, batch.inputs, NULL);
        tg_tensor *loss = tg_cross_entropy(t, logits, batch.targets, NULL);
        tg_optim_zero_grad(optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(optim);
        check(tg_tape_error(t));
        check(tg_params_error(params));
        if (step++ % 50 == 0) {
            printf("(Step %06lld): Train loss %.3f\n", (long long)step - 1, tg_tensor_item(loss, NULL));
        }
    }
    tg_loader_reset(d->train);
    tg_tape_reset(t);
    print_accuracies(t, model, d);
    tg_optim_free(optim);
}

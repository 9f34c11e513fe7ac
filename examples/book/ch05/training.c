#include "training.h"

#include <string.h>

static int64_t context_of(const char *book)
{
    return book ? 256 : 64;
}

tg_gpt *model_new(tg_params *params, const char *book, const tg_tokenizer *bpe)
{
    tg_gpt_config config;
    tg_gpt_config_from_name("gpt2-small", &config, NULL);
    config.context = context_of(book);
    config.vocabulary = tg_tokenizer_vocabulary(bpe);
    if (!book) {
        config.width = 64;
        config.heads = 4;
        config.layers = 2;
    }
    tg_gpt *model = tg_gpt_new(params, &config);
    check(tg_params_error(params));
    return model;
}

static tg_loader *loader_of(tg_tokenizer *bpe, const char *text, size_t length, int64_t context, bool training,
                            tg_run *run)
{
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    tg_tokenizer_encode(bpe, text, length, false, &tokens, &error);
    check(&error);
    tg_loader_config config = tg_loader_config_default();
    config.context = context;
    config.stride = context;
    config.batch_size = 2;
    config.shuffle = training;
    config.drop_last = training;
    tg_loader *loader = tg_loader_new(run, tokens.ids, tokens.count, &config);
    check(tg_loader_error(loader));
    tg_tokens_free(&tokens);
    return loader;
}

story story_new(const char *book, tg_tokenizer *bpe, tg_run *run)
{
    story s;
    tg_error error = TG_NO_ERROR;
    tg_tokens tokens;
    s.text = book_text(book, &s.length);
    tg_tokenizer_encode(bpe, s.text, s.length, false, &tokens, &error);
    check(&error);
    s.tokens = tokens.count;
    tg_tokens_free(&tokens);
    size_t split = s.length * 9 / 10;
    s.train = loader_of(bpe, s.text, split, context_of(book), true, run);
    s.train_again = loader_of(bpe, s.text, split, context_of(book), true, run);
    s.validation = loader_of(bpe, s.text + split, s.length - split, context_of(book), false, run);
    return s;
}

void story_free(story *s)
{
    tg_loader_free(s->train);
    tg_loader_free(s->train_again);
    tg_loader_free(s->validation);
    tg_text_free(s->text);
}

tg_tensor *batch_loss(tg_tape *t, const tg_gpt *model, tg_batch batch)
{
    /* (B,T) -> (B,T,V) -> a scalar */
    return tg_cross_entropy(t, tg_gpt_forward(t, model, batch.inputs, NULL), batch.targets, NULL);
}

double mean_loss(tg_tape *t, const tg_gpt *model, tg_loader *loader, int64_t batches)
{
    double sum = 0;
    int64_t seen = 0;
    tg_evaluation before = tg_evaluation_begin(t);
    for (tg_batch batch; seen < batches && tg_loader_next(loader, &batch); seen++) {
        tg_tape_reset(t);
        sum += tg_tensor_item(batch_loss(t, model, batch), NULL);
    }
    /* the next call begins another pass */
    tg_loader_reset(loader);
    check(tg_loader_error(loader));
    check(tg_tape_error(t));
    tg_evaluation_end(t, before);
    return sum / (double)seen;
}

void print_decoded(const tg_tokenizer *bpe, const int32_t *ids, int64_t count)
{
    tg_error error = TG_NO_ERROR;
    char *text = tg_tokenizer_decode(bpe, ids, count, NULL, &error);
    check(&error);
    for (char *c = text; *c; c++) {
        *c = *c == '\n' ? ' ' : *c;
    }
    print_line(stdout, "%s", text);
    tg_text_free(text);
}

void print_generated(tg_tape *t, const tg_gpt *model, tg_tokenizer *bpe, const char *start, int64_t count)
{
    int32_t text[256];
    tg_error error = TG_NO_ERROR;
    tg_tokens prompt;
    tg_tokenizer_encode(bpe, start, strlen(start), false, &prompt, &error);
    check(&error);
    memcpy(text, prompt.ids, (size_t)prompt.count * sizeof *text);
    tg_generate_config config = tg_generate_config_default();
    config.max_new_tokens = count;
    int64_t made = tg_gpt_generate(t, model, prompt.ids, prompt.count, text + prompt.count, &config);
    check(tg_tape_error(t));
    print_decoded(bpe, text, prompt.count + made);
    tg_tokens_free(&prompt);
}

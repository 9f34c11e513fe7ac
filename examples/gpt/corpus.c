#include "corpus.h"

#include "../common/program.h"
#include "../common/terminal.h"
#include "../common/vocabulary.h"
#include "parallel.h"

#define LIGHTHOUSE "examples/lighthouse.txt"

uint64_t ids_checksum(const int32_t *ids, int64_t count)
{
    uint64_t sum = UINT64_C(14695981039346656037);
    for (int64_t i = 0; i < count; i++) {
        sum = (sum ^ (uint32_t)ids[i]) * UINT64_C(1099511628211);
    }
    return sum;
}

static bool load_text(corpus *c, const char *path, int64_t vocabulary, tg_error *error)
{
    size_t length;
    char *text = tg_text_read(path, &length, error);
    bool is_trained = text && !c->bpe;
    if (is_trained) {
        c->bpe = vocabulary_train(&path, 1, vocabulary, error);
    }
    bool loaded = text && c->bpe && tg_tokenizer_encode(c->bpe, text, length, false, &c->tokens, error);
    tg_text_free(text);
    if (!loaded) {
        return false;
    }
    int64_t count = c->tokens.count, kept = count - count / 10;
    c->training = (part){.name = path, .ids = c->tokens.ids, .count = kept};
    c->validation =
        (part){.name = "validation, the text's last tenth", .ids = c->tokens.ids + kept, .count = count / 10};
    snprintf(c->identity, sizeof c->identity, "%lld tokens, checksum %016llx", (long long)count,
             (unsigned long long)ids_checksum(c->tokens.ids, count));
    print_line(stdout, "%s: %zu bytes, %lld tokens of a vocabulary of %d%s", path, length, (long long)count,
               tg_tokenizer_vocabulary(c->bpe), is_trained ? " (byte pairs, trained on this text)" : "");
    return true;
}

static bool open_tokens(part *p, tg_token_file **file, const char *path, int64_t vocabulary, tg_error *error)
{
    /* bytes per id, as in files of `gpt tokenize` */
    *file = tg_token_file_open(path, vocabulary <= 65536 ? 2 : 4, error);
    if (!*file) {
        return false;
    }
    *p = (part){.name = path, .file = *file, .count = tg_token_file_count(*file)};
    print_line(stdout, "%s: %lld tokens", path, (long long)p->count);
    return true;
}

bool corpus_load(corpus *c, const options *o, tg_tokenizer *bpe, int64_t vocabulary)
{
    tg_error error = TG_NO_ERROR;
    *c = (corpus){.bpe = bpe};
    vocabulary = c->bpe ? tg_tokenizer_vocabulary(c->bpe) : vocabulary;
    bool loaded = true;
    if (!o->tokens && !o->val_tokens) {
        loaded = load_text(c, o->text ? o->text : LIGHTHOUSE, vocabulary, &error);
    }
    if (loaded && o->tokens) {
        loaded = open_tokens(&c->training, &c->files[0], o->tokens, vocabulary, &error);
        snprintf(c->identity, sizeof c->identity, "%lld tokens", (long long)c->training.count);
    }
    if (loaded && o->val_tokens) {
        loaded = open_tokens(&c->validation, &c->files[1], o->val_tokens, vocabulary, &error);
    }
    if (!loaded) {
        bool is_default = !o->tokens && !o->val_tokens && !o->text;
        const char *advice = error.code != TG_ERROR_FILE ? ""
                             : is_default
                                 ? "; this story is a file of tapegrad's sources; elsewhere, --text FILE names "
                                   "a text"
                             : o->is_trained_text ? "; the model was trained with this file; --text FILE names a text"
                                                  : "";
        corpus_free(c);
        return complain("%s%s", error.text, advice);
    }
    return true;
}

void corpus_free(corpus *c)
{
    tg_tokenizer_free(c->bpe);
    tg_tokens_free(&c->tokens);
    examples_free(&c->examples);
    tg_token_file_free(c->files[0]);
    tg_token_file_free(c->files[1]);
    *c = (corpus){0};
}

bool part_fits(const part *p, int64_t context)
{
    return p->examples || p->count > context ||
           complain("%s: %lld tokens; must be at least %lld, the context and one target", p->name, (long long)p->count,
                    (long long)context + 1);
}

int64_t part_fill(const part *p, tg_tape *t, tg_batch *batch)
{
    return p->examples ? examples_fill(p->examples, t, batch) : tg_tensor_count(batch->targets);
}

tg_loader *part_loader(const part *p, int64_t context, int64_t stride, int64_t batch, bool shuffle, tg_run *run)
{
    if (!part_fits(p, context)) {
        return NULL;
    }
    tg_loader_config config = tg_loader_config_default();
    if (!p->examples) {
        config.context = context;
        config.stride = stride;
    }
    config.batch_size = batch;
    config.shuffle = shuffle;
    config.drop_last = shuffle;
    /* in training the ranks share each batch; in an evaluation they share the list of batches */
    config.parts = shuffle ? parallel_ranks() : 1;
    config.part = shuffle ? parallel_rank() : 0;
    tg_tensor *numbers =
        p->examples ? tg_tensor_new_arange(TG_I32, (double)p->first, (double)(p->first + p->count), 1, NULL) : NULL;
    tg_loader *loader = p->file       ? tg_loader_new_from_file(run, p->file, &config)
                        : p->examples ? tg_loader_new_from_tensors(run, &numbers, 1, &config)
                                      : tg_loader_new(run, p->ids, p->count, &config);
    tg_release(numbers);
    if (tg_loader_error(loader)->code != TG_OK) {
        complain("%s: %s", p->name, tg_loader_error(loader)->text);
        tg_loader_free(loader);
        return NULL;
    }
    return loader;
}

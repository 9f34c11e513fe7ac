/* tokenizer_train: builds a vocabulary from texts.
 *
 * Each text is split into words, and equal words are counted (word_counts.h). Then the most frequent pair of neighbors
 * becomes a merge, again and again (merges.c), until the vocabulary is full or no pair is frequent enough. The time and
 * the memory depend on the number of different words; the texts themselves are read piece by piece.
 *
 * Follows Sennrich, Haddow and Birch 2016, over bytes as Radford et al. 2019.
 */
#include <tapegrad/extend.h>
#include "text/merges.h"

static const char mark[] = "tg_tokenizer_train_files_config_default";

tg_tokenizer_train_files_config tg_tokenizer_train_files_config_default(void)
{
    return (tg_tokenizer_train_files_config){.mark = mark, .min_count = 2};
}

/* A training, and what its progress function is told. */
typedef struct training {
    tg_tokenizer *z;
    tg_word_counter words;
    tg_merge_config merges;
    bool (*on_progress)(void *context, const tg_text_progress *progress);
    void *context;
    tg_text_progress progress;
} training;

/* Returns false with the error set if the program stops the training. */
static bool go_on(training *t, tg_error *error)
{
    return !t->on_progress || t->on_progress(t->context, &t->progress) ||
           tg_error_set(error, TG_ERROR_STATE, "%s: on_progress has stopped the training", t->merges.call);
}

static bool on_merge(void *context, int32_t vocabulary)
{
    training *t = context;
    t->progress.vocabulary = vocabulary;
    return !t->on_progress || t->on_progress(t->context, &t->progress);
}

static bool begin(training *t, const char *call, int32_t size, tg_error *error)
{
    if (size <= TG_BYTES) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: vocabulary %d; it must be at least %d, the bytes and <|endoftext|>", call, size,
                            TG_BYTES + 1);
    }
    t->merges = (tg_merge_config){call, size, 2, on_merge, t};
    t->progress.vocabulary = TG_BYTES;
    t->z = tg_tokenizer_make(error);
    return t->z &&
           (tg_tokenizer_add_bytes(t->z) ||
            tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the ids", call)) &&
           tg_word_counter_make(&t->words, call, t->z->words, error);
}

/* Learns the merges from the words. */
static bool learn(training *t, tg_error *error)
{
    tg_error problem = TG_NO_ERROR;
    if (!tg_merges_learn(t->z, &t->words, &t->merges, &problem)) {
        return problem.code == TG_OK
                   ? tg_error_set(error, TG_ERROR_STATE, "%s: on_progress has stopped the training", t->merges.call)
                   : tg_error_copy(error, &problem);
    }
    return (tg_tokenizer_add_end_of_text(t->z) && tg_added_tokens_sort(t->z)) ||
           tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the ids", t->merges.call);
}

static tg_tokenizer *finish(training *t, bool is_trained)
{
    tg_word_counter_free(&t->words);
    if (!is_trained) {
        tg_tokenizer_free(t->z);
        return NULL;
    }
    return t->z;
}

static bool count_text(training *t, const char *text, size_t length, tg_error *error)
{
    tg_piece rest = {text, length, 0, NULL, false}, pieces[TG_MOST_PIECES];
    bool is_good = true;
    while (is_good && rest.length > 0) {
        int count = 0;
        for (; count < tg_piece_slots() && rest.length > 0; count++) {
            pieces[count] = tg_piece_cut(t->z->words, &rest);
        }
        is_good = tg_word_counter_add(&t->words, pieces, count, error);
    }
    return is_good;
}

tg_tokenizer *tg_tokenizer_train(const char *text, size_t length, int32_t size, tg_error *error)
{
    static const char call[] = "tokenizer_train";
    if (!text) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the text is NULL", call);
        return NULL;
    }
    training t = {0};
    return finish(&t, begin(&t, call, size, error) && count_text(&t, text, length, error) && learn(&t, error));
}

/* Counts the words of all files. `bytes` has room for a piece of each thread. */
static bool count_files(training *t, tg_piece_reader *reader, char *bytes, tg_error *error)
{
    tg_piece pieces[TG_MOST_PIECES];
    int found = 1;
    while (found > 0) {
        int count = 0;
        while (count < tg_piece_slots() &&
               (found = tg_piece_read(reader, t->z->words, bytes + (size_t)count * TG_PIECE_BYTES, &pieces[count],
                                      error)) > 0) {
            count++;
        }
        if (found < 0 || !tg_word_counter_add(&t->words, pieces, count, error)) {
            return false;
        }
        t->progress.bytes = (int64_t)reader->done;
        t->progress.words = tg_word_counter_words(&t->words);
        if (!go_on(t, error)) {
            return false;
        }
    }
    return true;
}

static bool count_paths(training *t, tg_piece_reader *reader, tg_error *error)
{
    t->progress.all_bytes = (int64_t)reader->total;
    char *bytes = tg_alloc((uint64_t)tg_piece_slots(), TG_PIECE_BYTES);
    bool is_good = (bytes || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", reader->call)) &&
                   count_files(t, reader, bytes, error);
    tg_free(bytes);
    return is_good;
}

tg_tokenizer *tg_tokenizer_train_files(const char *const *paths, int64_t count, int32_t size,
                                       const tg_tokenizer_train_files_config *config, tg_error *error)
{
    static const char call[] = "tokenizer_train_files";
    if (!tg_config_check(call, config, mark, error)) {
        return NULL;
    }
    tg_tokenizer_train_files_config o = config ? *config : tg_tokenizer_train_files_config_default();
    if (o.min_count < 1) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: min_count %lld; it must be at least 1", call, (long long)o.min_count);
        return NULL;
    }
    training t = {.on_progress = o.on_progress, .context = o.context};
    tg_piece_reader reader;
    bool is_trained = tg_piece_reader_begin(&reader, call, paths, count, NULL, error) && begin(&t, call, size, error);
    t.merges.min_count = o.min_count;
    is_trained = is_trained && count_paths(&t, &reader, error) && learn(&t, error);
    tg_piece_reader_end(&reader);
    return finish(&t, is_trained);
}

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

TG_CONFIG(tg_tokenizer_train_files_config, tg_tokenizer_train_files_config_default, mark, .mark = mark, .min_count = 2);

/* A training, and what its progress function is told. */
typedef struct training {
    tg_tokenizer *z, *splits; /* the second one finds the words */
    tg_word_counter words;
    const tg_tokenizer_train_files_config *config;
    tg_merge_config merges;
    bool (*on_progress)(void *context, const tg_text_progress *progress);
    void *context;
    tg_text_progress progress;
} training;

static bool on_merge(void *context, int32_t vocabulary)
{
    training *t = context;
    t->progress.vocabulary = vocabulary;
    return !t->on_progress || t->on_progress(t->context, &t->progress);
}

/* Makes the tokenizer that finds the words between the special tokens of the config. */
static bool begin_splits(training *t, const char *call, const tg_tokenizer_train_files_config *o, tg_error *error)
{
    t->splits = tg_tokenizer_make(error);
    if (!t->splits || !tg_tokenizer_use_pattern(t->splits, o->pattern, call, error)) {
        return false;
    }
    for (int64_t i = 0; i < o->special_count; i++) {
        if (!o->special[i] || !o->special[i][0]) {
            return tg_error_set(error, TG_ERROR_VALUE, "%s: special[%lld] is empty", call, (long long)i);
        }
        if (!tg_tokenizer_add_special(t->splits, o->special[i])) {
            return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the special tokens", call);
        }
    }
    return tg_tokenizer_finish(t->splits, error);
}

static bool begin(training *t, const char *call, int32_t size, const tg_tokenizer_train_files_config *o,
                  tg_error *error)
{
    int32_t special = o->special_count > 0 && o->special_count < INT32_MAX - TG_BYTES ? (int32_t)o->special_count : 1;
    if (size < TG_BYTES + special) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: vocabulary %d; it must be at least %d, the bytes and %s", call,
                            size, TG_BYTES + special, o->special_count > 0 ? "the special tokens" : TG_END_OF_TEXT);
    }
    t->config = o;
    t->merges = (tg_merge_config){call, size - special, o->min_count, o->takes_greatest_pair, on_merge, t};
    t->progress.vocabulary = TG_BYTES;
    t->z = tg_tokenizer_make(error);
    return t->z &&
           (tg_tokenizer_add_bytes(t->z) ||
            tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the ids", call)) &&
           tg_tokenizer_use_pattern(t->z, o->pattern, call, error) && begin_splits(t, call, o, error) &&
           tg_word_counter_make(&t->words, call, t->splits, error);
}

/* Learns the merges from the words, and adds the special tokens. */
static bool learn(training *t, tg_error *error)
{
    tg_error problem = TG_NO_ERROR;
    const tg_tokenizer_train_files_config *o = t->config;
    if (!tg_merges_learn(t->z, &t->words, &t->merges, &problem)) {
        return problem.code == TG_OK
                   ? tg_error_set(error, TG_ERROR_STATE, "%s: on_progress has stopped the training", t->merges.call)
                   : tg_error_copy(error, &problem);
    }
    bool is_good = o->special_count > 0 || tg_tokenizer_add_special(t->z, TG_END_OF_TEXT);
    for (int64_t i = 0; is_good && i < o->special_count; i++) {
        is_good = tg_tokenizer_add_special(t->z, o->special[i]);
    }
    return (is_good || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the ids", t->merges.call)) &&
           tg_tokenizer_finish(t->z, error);
}

static tg_tokenizer *finish(training *t, bool is_trained)
{
    tg_word_counter_free(&t->words);
    tg_tokenizer_free(t->splits);
    if (!is_trained) {
        tg_tokenizer_free(t->z);
        return NULL;
    }
    return t->z;
}

/* Counts the words of all pieces. */
static bool count_words(training *t, tg_piece_reader *reader, tg_error *error)
{
    tg_piece pieces[TG_MOST_PIECES];
    int count;
    t->progress.all_bytes = (int64_t)reader->total;
    while ((count = tg_pieces_read(reader, pieces, error)) > 0) {
        if (!tg_word_counter_add(&t->words, pieces, count, error)) {
            return false;
        }
        t->progress.bytes = (int64_t)reader->done;
        t->progress.words = t->words.table.words.count;
        if (t->on_progress && !t->on_progress(t->context, &t->progress)) {
            return tg_error_set(error, TG_ERROR_STATE, "%s: on_progress has stopped the training", t->merges.call);
        }
    }
    return count == 0;
}

tg_tokenizer *tg_tokenizer_train(const char *text, size_t length, int32_t size, tg_error *error)
{
    static const char call[] = "tokenizer_train";
    if (!text) {
        tg_error_set(error, TG_ERROR_STATE, "%s: the text is NULL", call);
        return NULL;
    }
    training t = {0};
    const tg_tokenizer_train_files_config o = tg_tokenizer_train_files_config_default();
    tg_piece_reader reader = {.file.descriptor = -1};
    bool is_trained = begin(&t, call, size, &o, error) &&
                      tg_piece_reader_begin_text(&reader, call, t.splits, text, length, error) &&
                      count_words(&t, &reader, error) && learn(&t, error);
    tg_piece_reader_end(&reader);
    return finish(&t, is_trained);
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
    if (!tg_config_check_list(call, "special", o.special, "special_count", o.special_count, error)) {
        return NULL;
    }
    training t = {.on_progress = o.on_progress, .context = o.context};
    tg_piece_reader reader = {.file.descriptor = -1};
    bool is_trained = begin(&t, call, size, &o, error) &&
                      tg_piece_reader_begin(&reader, call, t.splits, paths, count, error) &&
                      count_words(&t, &reader, error) && learn(&t, error);
    tg_piece_reader_end(&reader);
    return finish(&t, is_trained);
}

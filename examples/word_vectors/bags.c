/* bags: the rows of words with n-grams, and the vectors of the words of a step.
 *
 * A vector is the mean of its rows, but each row gets the whole gradient of the vector, and not its share: so do
 * fastText and gensim, whose learning rate is meant for that. On a tape it is m + (s - s'), where s is the sum of the
 * rows, s' the same numbers without history, and m = s' / n: the value is m, and the gradient is that of s.
 */
#include <stdlib.h>
#include <string.h>

#include "word_vectors.h"

bool bags_make(bags *b, const corpus *c, const options *o)
{
    tg_error error = TG_NO_ERROR;
    tg_subwords_config config = tg_subwords_config_default();
    config.shortest = (int32_t)o->min_n;
    config.longest = (int32_t)o->max_n;
    config.buckets = (int32_t)o->buckets;
    config.window = (int32_t)o->window;
    config.epochs = (int32_t)o->epochs;
    config.min_count = (int32_t)o->min_count;
    config.negatives = (int32_t)o->negatives;
    *b = (bags){0};
    b->subwords = tg_subwords_new(c->words, c->counts, c->vocabulary, &config, &error);
    b->rows = calloc((size_t)c->vocabulary, sizeof *b->rows);
    int64_t most = 0;
    for (int32_t id = 0; b->subwords && b->rows && id < c->vocabulary; id++) {
        if (!tg_subwords_encode(b->subwords, tg_words_at(c->words, id), &b->rows[id], &error)) {
            return complain("%s", error.text);
        }
        most = b->rows[id].count > most ? b->rows[id].count : most;
    }
    b->vocabulary = c->vocabulary;
    b->ids = malloc((size_t)(o->batch * most) * sizeof *b->ids + 1);
    b->begin = malloc((size_t)o->batch * sizeof *b->begin);
    b->shares = malloc((size_t)o->batch * sizeof *b->shares);
    return b->subwords ? (b->rows && b->ids && b->begin && b->shares) || complain("out of memory")
                       : complain("%s", error.text);
}

void bags_free(bags *b)
{
    for (int32_t id = 0; b->rows && id < b->vocabulary; id++) {
        tg_tokens_free(&b->rows[id]);
    }
    tg_subwords_free(b->subwords);
    free(b->rows);
    free(b->ids);
    free(b->begin);
    free(b->shares);
}

tg_tensor *bags_vectors(bags *b, tg_tape *tape, tg_tensor *table, int32_t *centers, int64_t count)
{
    int64_t bag_count = 0, id_count = 0;
    for (int64_t i = 0, last = -1; i < count; i++) {
        if (centers[i] != last) {
            const tg_tokens *rows = &b->rows[centers[i]];
            b->begin[bag_count] = (int32_t)id_count;
            b->shares[bag_count++] = 1 / (float)rows->count;
            memcpy(b->ids + id_count, rows->ids, (size_t)rows->count * sizeof *b->ids);
            id_count += rows->count;
        }
        last = centers[i];
        centers[i] = (int32_t)bag_count - 1;
    }
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.mode = TG_BAG_SUM;
    config.offsets = tg_constant_i32(tape, TG_SHAPE(bag_count), b->begin);
    tg_tensor *sum = tg_embedding_bag(tape, tg_constant_i32(tape, TG_SHAPE(id_count), b->ids), table, &config);
    tg_tensor *values = tg_detach(tape, sum);
    tg_tensor *mean = tg_mul(tape, values, tg_constant_f32(tape, TG_SHAPE(bag_count, 1), b->shares));
    return tg_add(tape, mean, tg_sub(tape, sum, values));
}

tg_tensor *vectors_of_words(const tg_subwords *subwords, const tg_tensor *rows, tg_error *error)
{
    const tg_words *words = tg_subwords_words(subwords);
    const int64_t count = tg_words_vocabulary(words), width = tg_tensor_size(rows, 1);
    tg_tensor *vectors = tg_tensor_new(TG_F32, TG_SHAPE(count, width), error);
    float *values = tg_tensor_data_mut(vectors);
    for (int32_t id = 0; vectors && id < count; id++) {
        if (!tg_subwords_vector(subwords, rows, tg_words_at(words, id), values + id * width, error)) {
            tg_release(vectors);
            vectors = NULL;
        }
    }
    return vectors;
}

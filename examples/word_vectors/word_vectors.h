/* word_vectors: the parts of the program. */
#ifndef WORD_VECTORS_H
#define WORD_VECTORS_H

#include <tapegrad_text.h>

#include "../common/program.h"

typedef struct options {
    const char *text, *out;
    bool as_is;
    int64_t width, window, negatives, min_count, epochs, batch, seed, threads, min_n, max_n, buckets;
    double alpha, min_alpha;
    const char *vectors, *words;
    int64_t top;
} options;

/* ---- corpus.c ---- */

/* A text as ids of words. The most frequent word has id 0. Rare words are left out. */
typedef struct corpus {
    tg_words *words;
    /* the number of different words; words[vocabulary] is the token of the words that are left out */
    int32_t vocabulary;
    int32_t *ids;
    int64_t count;
    /* how often each word occurs */
    int64_t *counts;
} corpus;

/* Returns false after printing an error. After true, call corpus_free. */
bool corpus_read(corpus *c, const options *o);
void corpus_free(corpus *c);

/* ---- pairs.c ---- */

/* The pairs of each word and the words of its window, in the order of the text, with negatives. */
typedef struct pairs {
    const corpus *corpus;
    int64_t window, negatives;
    /* the next pair: a position, and its distance to the context, -window to window */
    int64_t center, distance;
    /* for each word: the probability that it stays, in 2^-31, and the word that replaces it */
    uint32_t *stays;
    int32_t *other;
    tg_rng *rng;
    /* (B,N): random numbers */
    tg_tensor *random;
} pairs;

/* Returns false when memory is exhausted. In both cases, call pairs_free. */
bool pairs_make(pairs *p, const corpus *c, const options *o, tg_rng *rng);
void pairs_free(pairs *p);

/* Returns the number of pairs of a pass over the text. */
int64_t pairs_of_pass(const pairs *p);

/* Begins a pass. */
void pairs_begin(pairs *p);

/* Writes the next pairs, at most `most`: their centers, and for each a context and N negatives. Returns their number,
 * 0 at the end of the pass, and -1 with the error set. */
int64_t pairs_next(pairs *p, int64_t most, int32_t *centers, int32_t *targets, tg_error *error);

/* ---- bags.c ---- */

/* The rows of each word, its own and those of its n-grams, and the bags of a step. */
typedef struct bags {
    tg_subwords *subwords;
    int32_t vocabulary;
    tg_tokens *rows;
    /* of a step: the rows of all bags, where each bag begins, and 1 / its number of rows */
    int32_t *ids, *begin;
    float *shares;
} bags;

/* Returns false after printing an error. In both cases, call bags_free. */
bool bags_make(bags *b, const corpus *c, const options *o);
void bags_free(bags *b);

/* Returns the vectors of the words of a step (bags,C), and replaces each center by the number of its bag. */
tg_tensor *bags_vectors(bags *b, tg_tape *tape, tg_tensor *table, int32_t *centers, int64_t count);

/* Returns the vectors of all words (V,C), for tg_release; NULL with the error set. */
tg_tensor *vectors_of_words(const tg_subwords *subwords, const tg_tensor *rows, tg_error *error);

/* ---- commands ---- */

/* Each returns the exit status. */
int train(const options *o);
int neighbors(const options *o);
int analogy(const options *o);

#endif

/* corpus: what a model learns from and is measured by, as token ids. */
#ifndef CORPUS_H
#define CORPUS_H

#include <tapegrad.h>

#include "options.h"

/* A run of ids in memory, or a whole file. */
typedef struct part {
    const char *name; /* for messages; NULL: there is no such part */
    const int32_t *ids;
    const tg_token_file *file;
    int64_t count;
} part;

typedef struct corpus {
    tg_tokenizer *bpe; /* NULL for token files without --vocab */
    part training, validation;
    tg_tokens tokens;
    tg_token_file *files[2];
} corpus;

/* Reads the text, or opens the token files, that `o` names. `vocab` is the vocab.bpe to use, or NULL: then one of
 * `vocabulary` ids is trained on the text. On failure the corpus is empty. */
bool corpus_load(corpus *c, const options *o, const char *vocab, int64_t vocabulary);
void corpus_free(corpus *c);

/* Has the vocabulary as many ids as the model's table has rows? Complains if not; NULL fits. */
bool vocabulary_fits(const tg_tokenizer *bpe, int64_t rows);

/* Is the part long enough for one window of that context and its target? Complains if not. */
bool part_fits(const part *p, int64_t context);

/* Windows of a part, shuffled for training or in order. NULL after complaining. */
tg_loader *part_loader(const part *p, int64_t context, int64_t stride, int64_t batch, bool shuffle, tg_rng *rng);

#endif

/* corpus: the token ids for training and for validation, from a text or from token files. */
#ifndef CORPUS_H
#define CORPUS_H

#include <tapegrad.h>
#include <tapegrad_text.h>

#include "options.h"

/* The ids for training or for validation: an array, or a whole token file. */
typedef struct part {
    /* the name in messages; NULL if the part is absent */
    const char *name;
    const int32_t *ids;
    const tg_token_file *file;
    int64_t count;
} part;

typedef struct corpus {
    /* NULL with token files and without --vocab */
    tg_tokenizer *bpe;
    part training, validation;
    tg_tokens tokens;
    tg_token_file *files[2];
    /* what a run that continues must find again: the number of tokens, and of a text also a checksum */
    char identity[80];
} corpus;

/* Reads the text or opens the token files of the options. `bpe` becomes the corpus's, also after an error. If it is
 * NULL, a vocabulary of `vocabulary` ids is trained on the text, and token files must have ids below `vocabulary`.
 * Returns false after printing an error; the corpus is then empty. */
bool corpus_load(corpus *c, const options *o, tg_tokenizer *bpe, int64_t vocabulary);
void corpus_free(corpus *c);

/* Returns true if the vocabulary has as many ids as the model's table has rows, or if `bpe` is NULL. Returns false
 * after printing an error. */
bool vocabulary_fits(const tg_tokenizer *bpe, int64_t rows);

/* Returns true if the part has at least context + 1 tokens. Returns false after printing an error. */
bool part_fits(const part *p, int64_t context);

/* Returns a loader over a part, or NULL after printing an error. With `shuffle` it leaves out a last batch that is not
 * full. */
tg_loader *part_loader(const part *p, int64_t context, int64_t stride, int64_t batch, bool shuffle, tg_run *run);

#endif

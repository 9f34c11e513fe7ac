/* corpus: the token ids for training and for validation, from a text or from token files. */
#ifndef CORPUS_H
#define CORPUS_H

#include <tapegrad.h>
#include <tapegrad_text.h>

#include "model.h"
#include "options.h"

/* Texts of which only the answers count (examples.c). */
typedef struct examples {
    int64_t count;
    /* the ids of example i are ids[begins[i]] to ids[begins[i + 1] - 1], and those of its answer begin at answers[i] */
    int32_t *ids;
    int64_t *begins, *answers;
} examples;

/* The ids for training or for validation: an array, a whole token file, or the examples from number `first` on. */
typedef struct part {
    /* the name in messages; NULL if the part is absent */
    const char *name;
    const int32_t *ids;
    const tg_token_file *file;
    const examples *examples;
    int64_t first, count;
} part;

typedef struct corpus {
    /* NULL with token files and without --vocab */
    tg_tokenizer *bpe;
    part training, validation;
    tg_tokens tokens;
    examples examples;
    tg_token_file *files[2];
    /* what a run that continues must find again: the number of tokens, and but for token files also a checksum */
    char identity[80];
} corpus;

/* Reads the text or opens the token files of the options. `bpe` becomes the corpus's, also after an error. If it is
 * NULL, a vocabulary of `vocabulary` ids is trained on the text, and token files must have ids below `vocabulary`.
 * Returns false after printing an error; the corpus is then empty. */
bool corpus_load(corpus *c, const options *o, tg_tokenizer *bpe, int64_t vocabulary);
void corpus_free(corpus *c);

/* Returns FNV-1a over the ids. */
uint64_t ids_checksum(const int32_t *ids, int64_t count);

/* Gives a batch of the part's loader the inputs and the targets of its examples, as results of the tape. Of other parts
 * it has them. Returns the number of targets that count. */
int64_t part_fill(const part *p, tg_tape *t, tg_batch *batch);

/* ---- examples.c ---- */

/* Reads the examples of --data, and begins the corpus with them. The window becomes as long as the longest one. `bpe`
 * becomes the corpus's, also after an error. Returns false after printing an error, with the line. */
bool corpus_load_examples(corpus *c, const options *o, model *m, tg_tokenizer *bpe);
void examples_free(examples *e);

/* The part_fill of examples: batch->inputs has their numbers. */
int64_t examples_fill(const examples *e, tg_tape *t, tg_batch *batch);

/* Returns true if the part has at least context + 1 tokens, or an example. Returns false after printing an error. */
bool part_fits(const part *p, int64_t context);

/* Returns a loader over a part, or NULL after printing an error. With `shuffle` it leaves out a last batch that is not
 * full. */
tg_loader *part_loader(const part *p, int64_t context, int64_t stride, int64_t batch, bool shuffle, tg_run *run);

#endif

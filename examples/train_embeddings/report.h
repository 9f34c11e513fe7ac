/* report: what a reader wants to see after training. Functions that write files return false after printing why not. */
#ifndef REPORT_H
#define REPORT_H

#include <tapegrad.h>

/* The nearest neighbours, by cosine, of some frequent words: in the table before training, halfway, and after. The
 * last one was watched (tg_watch_rows). */
void report_neighbours(const tg_tokenizer *bpe, const tg_tensor *const tables[3]);

/* Which rows of the watched table training updated how often, and last when; and what became of those that it never
 * did. */
void report_rows(const tg_tokenizer *bpe, const tg_tensor *before, const tg_tensor *after, int64_t steps);

/* For the Embedding Projector (projector.tensorflow.org): a table as tab-separated vectors, and its labels. */
bool report_vectors(const char *path, const tg_tensor *table);
bool report_token_labels(const char *path, const tg_tokenizer *bpe, const tg_tensor *watched);
bool report_position_labels(const char *path, int64_t context);

#endif

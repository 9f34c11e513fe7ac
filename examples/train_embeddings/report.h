/* report: prints and writes the trained tables. Functions that write files return false after printing an error. */
#ifndef REPORT_H
#define REPORT_H

#include <tapegrad.h>
#include <tapegrad_text.h>

/* Prints the nearest neighbors, by cosine, of some frequent words. `tables` are the token table before training,
 * halfway and after; the last one was watched (tg_tensor_set_rows_watched). */
void report_neighbors(const tg_tokenizer *bpe, const tg_tensor *const tables[3]);

/* Prints how many rows training updated, and the number of updates, the last step and the norms of some rows. `after`
 * was watched. */
void report_rows(const tg_tokenizer *bpe, const tg_tensor *before, const tg_tensor *after, int64_t steps);

/* Write files for the Embedding Projector (projector.tensorflow.org): a table as tab-separated vectors, and its
 * labels. */
bool report_vectors(const char *path, const tg_tensor *table);
bool report_token_labels(const char *path, const tg_tokenizer *bpe, const tg_tensor *watched);
bool report_position_labels(const char *path, int64_t context);

#endif

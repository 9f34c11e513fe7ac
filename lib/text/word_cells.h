/* word_cells (private): the different words of a text in one array of cells, one cell per byte, with a cell that
 * separates them before each word and at the end. Words of one byte are left out.
 *
 * Words with equal counts are neighbors in the array, so a short list has the counts: it gives the first cell of each
 * run of words with the same count.
 */
#ifndef TG_TEXT_WORD_CELLS_H
#define TG_TEXT_WORD_CELLS_H

#include "text/word_counts.h"

#define TG_WORD_SEPARATOR (-1)

/* The number of cells whose first run is listed. */
#define TG_RUN_CELLS 64

typedef struct tg_word_run {
    uint32_t begin;
    int64_t count;
} tg_word_run;

typedef struct tg_word_cells {
    int32_t *cells; /* ids of bytes */
    uint32_t count;
    tg_word_run *runs; /* a last one begins at `count` */
    size_t run_count;
    uint32_t *run_of; /* of cell TG_RUN_CELLS * i, the index of its run */
} tg_word_cells;

/* Writes the words of a counter, which it frees, to *cells, which is empty. Returns false after an error, which begins
 * with `call`: then *cells may have memory to be freed. */
bool tg_word_cells_new(tg_word_cells *cells, const tg_tokenizer *tokenizer, tg_word_counter *words, const char *call,
                       tg_error *error);
void tg_word_cells_free(tg_word_cells *cells);

/* Returns how often the word of a cell occurs. */
static inline int64_t tg_word_cells_count(const tg_word_cells *cells, uint32_t cell)
{
    const tg_word_run *r = &cells->runs[cells->run_of[cell / TG_RUN_CELLS]];
    while (r[1].begin <= cell) {
        r++;
    }
    return r->count;
}

#endif

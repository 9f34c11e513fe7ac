/* word_cells: see word_cells.h. */
#include "text/word_cells.h"

#include <stdlib.h>

/* Counts from here on are sorted; there is a list for each of those below. */
#define FREQUENT 4096

static bool out_of_memory(const char *call, const char *what, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %s", call, what);
}

/* The words of one count, or of all counts from FREQUENT on. */
typedef struct bucket {
    uint64_t cells;
    int64_t words;
} bucket;

static size_t bucket_of(int64_t count)
{
    return count < FREQUENT ? (size_t)count : FREQUENT;
}

static int compare_counts(const void *a, const void *b)
{
    int64_t x = ((const tg_counted_word *)a)->count, y = ((const tg_counted_word *)b)->count;
    return x < y ? -1 : x > y;
}

/* Writes a word, and the separator after it, to the cells from `at` on. Returns the cell after them. */
static uint32_t write_word(const tg_word_cells *t, const tg_tokenizer *z, const tg_counted_word *word, uint32_t at)
{
    for (uint32_t i = 0; i < word->length; i++) {
        t->cells[at++] = z->id_of_byte[(unsigned char)word->bytes[i]];
    }
    t->cells[at++] = TG_WORD_SEPARATOR;
    return at;
}

/* Adds a run unless it is empty or has the count of the run before it. */
static void add_run(tg_word_cells *t, uint32_t begin, int64_t count)
{
    if (t->run_count == 0 || t->runs[t->run_count - 1].count != count) {
        t->runs[t->run_count++] = (tg_word_run){begin, count};
    }
}

/* Words of one byte have no pairs. */
static bool has_pairs(const tg_counted_word *word)
{
    return word->length > 1;
}

/* Adds up the words and cells of each bucket, and their numbers. */
static bool measure(const char *call, const tg_word_counter *c, bucket *buckets, uint64_t *cells, size_t *runs,
                    tg_error *error)
{
    *cells = 1;
    *runs = 1;
    for (int i = 0; i < TG_WORD_TABLES; i++) {
        for (size_t k = 0; k < c->tables[i].count; k++) {
            const tg_counted_word *word = &c->tables[i].words[k];
            if (has_pairs(word)) {
                bucket *b = &buckets[bucket_of(word->count)];
                *runs += b->words == 0 || word->count >= FREQUENT;
                b->words++;
                b->cells += (uint64_t)word->length + 1;
                *cells += (uint64_t)word->length + 1;
            }
        }
    }
    return *cells < UINT32_MAX ||
           tg_error_set(error, TG_ERROR_MEMORY, "%s: the different words have %llu bytes; at most %lu are possible",
                        call, (unsigned long long)*cells, (unsigned long)UINT32_MAX - 1);
}

/* Writes the words of the last bucket, sorted by their counts. */
static bool write_frequent(tg_word_cells *t, const tg_tokenizer *z, const tg_word_counter *c, const bucket *last,
                           uint32_t at)
{
    size_t count = 0;
    tg_counted_word *words = tg_alloc((uint64_t)last->words + 1, sizeof *words);
    if (!words) {
        return false;
    }
    for (int i = 0; i < TG_WORD_TABLES; i++) {
        for (size_t k = 0; k < c->tables[i].count; k++) {
            if (has_pairs(&c->tables[i].words[k]) && c->tables[i].words[k].count >= FREQUENT) {
                words[count++] = c->tables[i].words[k];
            }
        }
    }
    qsort(words, count, sizeof *words, compare_counts);
    for (size_t i = 0; i < count; i++) {
        add_run(t, at, words[i].count);
        at = write_word(t, z, &words[i], at);
    }
    tg_free(words);
    return true;
}

/* Writes all words; those of a bucket begin at buckets[].cells, which moves. Frees the tables of the counter. */
static bool write_words(tg_word_cells *t, const tg_tokenizer *z, tg_word_counter *c, bucket *buckets)
{
    uint64_t at = 1;
    t->cells[0] = TG_WORD_SEPARATOR;
    for (size_t i = 0; i <= FREQUENT; i++) {
        uint64_t cells = buckets[i].cells;
        if (cells > 0 && i < FREQUENT) {
            add_run(t, (uint32_t)at, (int64_t)i);
        }
        buckets[i].cells = at;
        at += cells;
    }
    if (!write_frequent(t, z, c, &buckets[FREQUENT], (uint32_t)buckets[FREQUENT].cells)) {
        return false;
    }
    t->runs[t->run_count] = (tg_word_run){t->count, 0};
    for (int i = 0; i < TG_WORD_TABLES; i++) {
        for (size_t k = 0; k < c->tables[i].count; k++) {
            const tg_counted_word *word = &c->tables[i].words[k];
            if (has_pairs(word) && word->count < FREQUENT) {
                bucket *b = &buckets[word->count];
                b->cells = write_word(t, z, word, (uint32_t)b->cells);
            }
        }
        tg_word_table_free(&c->tables[i]);
    }
    return true;
}

/* Lists the run of each TG_RUN_CELLS-th cell. */
static void list_runs(tg_word_cells *t)
{
    size_t r = 0;
    for (uint64_t i = 0; i * TG_RUN_CELLS < t->count; i++) {
        while (r + 1 < t->run_count && t->runs[r + 1].begin <= i * TG_RUN_CELLS) {
            r++;
        }
        t->run_of[i] = (uint32_t)r;
    }
}

bool tg_word_cells_new(tg_word_cells *t, const tg_tokenizer *z, tg_word_counter *c, const char *call, tg_error *error)
{
    uint64_t cells;
    size_t runs;
    bucket *buckets = tg_alloc_zeroed(FREQUENT + 1, sizeof *buckets);
    bool is_good =
        (buckets || out_of_memory(call, "the counts", error)) && measure(call, c, buckets, &cells, &runs, error);
    if (is_good) {
        t->count = (uint32_t)cells;
        t->cells = tg_alloc(cells, sizeof *t->cells);
        t->runs = tg_alloc((uint64_t)runs + 1, sizeof *t->runs);
        t->run_of = tg_alloc(cells / TG_RUN_CELLS + 1, sizeof *t->run_of);
        is_good = (t->cells && t->runs && t->run_of && write_words(t, z, c, buckets)) ||
                  out_of_memory(call, "the bytes of the words", error);
    }
    if (is_good) {
        list_runs(t);
    }
    tg_free(buckets);
    return is_good;
}

void tg_word_cells_free(tg_word_cells *t)
{
    tg_free(t->cells);
    tg_free(t->runs);
    tg_free(t->run_of);
}

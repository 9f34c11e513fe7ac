/* merges: the most frequent pair of neighbors becomes a new symbol, again and again.
 *
 * The different words stand in one array of cells, one cell per byte, with a cell that separates them before each word
 * and at the end. A symbol of n bytes covers n cells: its id is in the first, and -n in the last if n > 1. So the
 * neighbors of a symbol are found in both directions, and a word of a million bytes is no special case.
 *
 * Each pair has the list of the places where it was formed, in ascending order. A merge visits the places of its pair,
 * skips those where the pair is no more, and lowers the counts of the pairs that end there. A second pass over the new
 * symbols counts the pairs that they form. So the time of a merge is proportional to the number of places where its
 * pair was, in different words.
 *
 * Words with equal counts are neighbors in the array, so a short list has the counts: it gives the first cell of each
 * run of words with the same count.
 */
#include "text/merges.h"

#include <stdlib.h>
#include <string.h>

#include "text/pair_counts.h"

#define SEPARATOR (-1)
#define COVERED INT32_MIN /* the first cell of a symbol that was merged with the one before it */

/* Counts from here on are sorted; there is a list for each of those below. */
#define FREQUENT 4096

/* The number of cells whose first run is listed. */
#define RUN_CELLS 64

typedef struct run {
    uint32_t begin;
    int64_t count;
} run;

/* The pairs of a new symbol with one other symbol, on one side. */
typedef struct neighbor {
    int64_t count;
    uint32_t places;
    uint32_t *next; /* where the next place is written */
} neighbor;

typedef struct trainer {
    tg_tokenizer *z;
    const tg_merge_config *config;
    int32_t *cells;
    uint32_t cell_count;
    run *runs; /* a last one begins at cell_count */
    size_t run_count;
    uint32_t *run_of; /* of cell RUN_CELLS * i, the index of its run */
    tg_pair_counts pairs;
    neighbor *left, *right; /* by symbol: the pairs (symbol,new) and (new,symbol) */
    int32_t *touched;       /* symbols s with left[s] or right[s] */
    size_t left_capacity, right_capacity, touched_capacity, touched_count;
} trainer;

static bool out_of_memory(const trainer *t, const char *what, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %s", t->config->call, what);
}

/* ---- words as cells ---- */

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
static uint32_t write_word(const trainer *t, const tg_counted_word *word, uint32_t at)
{
    for (uint32_t i = 0; i < word->length; i++) {
        t->cells[at++] = t->z->id_of_byte[(unsigned char)word->bytes[i]];
    }
    t->cells[at++] = SEPARATOR;
    return at;
}

/* Adds a run unless it is empty or has the count of the run before it. */
static void add_run(trainer *t, uint32_t begin, int64_t count)
{
    if (t->run_count == 0 || t->runs[t->run_count - 1].count != count) {
        t->runs[t->run_count++] = (run){begin, count};
    }
}

/* Words of one byte have no pairs. */
static bool has_pairs(const tg_counted_word *word)
{
    return word->length > 1;
}

/* Adds up the words and cells of each bucket, and their numbers. */
static bool measure(trainer *t, const tg_word_counter *c, bucket *buckets, uint64_t *cells, size_t *runs,
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
                        t->config->call, (unsigned long long)*cells, (unsigned long)UINT32_MAX - 1);
}

/* Writes the words of the last bucket, sorted by their counts. */
static bool write_frequent(trainer *t, const tg_word_counter *c, const bucket *last, uint32_t at)
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
        at = write_word(t, &words[i], at);
    }
    tg_free(words);
    return true;
}

/* Writes all words; those of a bucket begin at buckets[].cells, which moves. Frees the tables of the counter. */
static bool write_words(trainer *t, tg_word_counter *c, bucket *buckets)
{
    uint64_t at = 1;
    t->cells[0] = SEPARATOR;
    for (size_t i = 0; i <= FREQUENT; i++) {
        uint64_t cells = buckets[i].cells;
        if (cells > 0 && i < FREQUENT) {
            add_run(t, (uint32_t)at, (int64_t)i);
        }
        buckets[i].cells = at;
        at += cells;
    }
    if (!write_frequent(t, c, &buckets[FREQUENT], (uint32_t)buckets[FREQUENT].cells)) {
        return false;
    }
    t->runs[t->run_count] = (run){t->cell_count, 0};
    for (int i = 0; i < TG_WORD_TABLES; i++) {
        for (size_t k = 0; k < c->tables[i].count; k++) {
            const tg_counted_word *word = &c->tables[i].words[k];
            if (has_pairs(word) && word->count < FREQUENT) {
                bucket *b = &buckets[word->count];
                b->cells = write_word(t, word, (uint32_t)b->cells);
            }
        }
        tg_word_table_free(&c->tables[i]);
    }
    return true;
}

/* Lists the run of each RUN_CELLS-th cell. */
static void list_runs(trainer *t)
{
    size_t r = 0;
    for (uint64_t i = 0; i * RUN_CELLS < t->cell_count; i++) {
        while (r + 1 < t->run_count && t->runs[r + 1].begin <= i * RUN_CELLS) {
            r++;
        }
        t->run_of[i] = (uint32_t)r;
    }
}

static bool spell(trainer *t, tg_word_counter *c, tg_error *error)
{
    uint64_t cells;
    size_t runs;
    bucket *buckets = tg_alloc_zeroed(FREQUENT + 1, sizeof *buckets);
    bool is_good = (buckets || out_of_memory(t, "the counts", error)) && measure(t, c, buckets, &cells, &runs, error);
    if (is_good) {
        t->cell_count = (uint32_t)cells;
        t->cells = tg_alloc(cells, sizeof *t->cells);
        t->runs = tg_alloc((uint64_t)runs + 1, sizeof *t->runs);
        t->run_of = tg_alloc(cells / RUN_CELLS + 1, sizeof *t->run_of);
        is_good = (t->cells && t->runs && t->run_of && write_words(t, c, buckets)) ||
                  out_of_memory(t, "the bytes of the words", error);
    }
    if (is_good) {
        list_runs(t);
    }
    tg_free(buckets);
    return is_good;
}

/* Returns how often the word of a cell occurs. */
static int64_t count_at(const trainer *t, uint32_t cell)
{
    const run *r = &t->runs[t->run_of[cell / RUN_CELLS]];
    while (r[1].begin <= cell) {
        r++;
    }
    return r->count;
}

/* ---- symbols ---- */

static uint32_t length_of(const trainer *t, int32_t symbol)
{
    return (uint32_t)(t->z->begin[symbol + 1] - t->z->begin[symbol]);
}

/* Returns the first cell of the symbol after the one at `at`, or the separator's. */
static uint32_t next_of(const trainer *t, uint32_t at)
{
    return at + length_of(t, t->cells[at]);
}

/* Returns the first cell of the symbol before the one at `at`, or the separator's. */
static uint32_t previous_of(const trainer *t, uint32_t at)
{
    int32_t last = t->cells[at - 1];
    return last >= SEPARATOR ? at - 1 : at - (uint32_t)-last;
}

/* ---- the pairs of bytes ---- */

/* Counts the pairs of the words, and lists their places. */
static bool find_byte_pairs(trainer *t)
{
    neighbor *found = tg_alloc_zeroed(TG_BYTES * TG_BYTES, sizeof *found);
    if (!found) {
        return false;
    }
    for (int fills = 0; fills < 2; fills++) {
        const run *r = t->runs;
        for (uint32_t i = 1; i + 1 < t->cell_count; i++) {
            r += r[1].begin <= i;
            if (t->cells[i] < 0 || t->cells[i + 1] < 0) {
                continue;
            }
            neighbor *n = &found[t->cells[i] * TG_BYTES + t->cells[i + 1]];
            if (fills && n->next) {
                *n->next++ = i;
            }
            n->count += r->count;
            n->places++;
        }
        for (int32_t pair = 0; pair < TG_BYTES * TG_BYTES && !fills; pair++) {
            neighbor *n = &found[pair];
            if (n->places > 0 && n->count >= t->config->min_count &&
                !tg_pair_counts_add(&t->pairs, pair / TG_BYTES, pair % TG_BYTES, n->count, n->places, &n->next)) {
                tg_free(found);
                return false;
            }
        }
    }
    tg_free(found);
    return true;
}

/* ---- one merge ---- */

/* Merges a pair wherever it is, and lowers the counts of the pairs that end there. Keeps the places of the new symbols,
 * and returns their number. */
static uint32_t merge_places(trainer *t, const tg_pair_candidate *pair, uint32_t *places, int32_t merged)
{
    uint32_t kept = 0, first = length_of(t, pair->left), length = length_of(t, merged);
    int64_t least = t->config->min_count;
    for (uint32_t i = 0; i < pair->places.count; i++) {
        uint32_t at = places[i], right = at + first;
        if (t->cells[at] != pair->left || t->cells[right] != pair->right) {
            continue;
        }
        int64_t count = count_at(t, at);
        int32_t before = t->cells[previous_of(t, at)], after = t->cells[right + length - first];
        if (before >= 0) { /* with a symbol that is new, too, the pair is not counted yet, and nothing happens */
            tg_pair_counts_lower(&t->pairs, before, pair->left, count, least);
        }
        if (after >= 0) {
            tg_pair_counts_lower(&t->pairs, pair->right, after, count, least);
        }
        t->cells[at] = merged;
        t->cells[right] = COVERED;
        t->cells[at + length - 1] = -(int32_t)length;
        places[kept++] = at;
    }
    return kept;
}

/* Adds a place to the pairs of the new symbol with `other`. In the first pass it is counted, in the second written. */
static void touch(trainer *t, neighbor *side, int32_t other, uint32_t place, int64_t count, bool fills)
{
    neighbor *n = &side[other];
    if (fills) {
        if (n->next) {
            *n->next++ = place;
        }
        return;
    }
    if (t->left[other].places == 0 && t->right[other].places == 0) {
        t->touched[t->touched_count++] = other;
    }
    n->count += count;
    n->places++;
}

/* Visits the neighbors of the new symbols. */
static void touch_neighbors(trainer *t, const uint32_t *places, uint32_t count, int32_t merged, bool fills)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = places[i], previous = previous_of(t, at);
        int64_t words = count_at(t, at);
        int32_t before = t->cells[previous], after = t->cells[next_of(t, at)];
        if (before >= 0 && before != merged) { /* of two new symbols, the first one lists their pair */
            touch(t, t->left, before, previous, words, fills);
        }
        if (after >= 0) {
            touch(t, t->right, after, at, words, fills);
        }
    }
}

/* Adds the pairs that the new symbol forms. */
static bool add_pairs(trainer *t, const uint32_t *places, uint32_t count, int32_t merged)
{
    int64_t least = t->config->min_count;
    bool is_good = true;
    touch_neighbors(t, places, count, merged, false);
    for (size_t i = 0; is_good && i < t->touched_count; i++) {
        int32_t other = t->touched[i];
        neighbor *left = &t->left[other], *right = &t->right[other];
        is_good = (left->places == 0 || left->count < least ||
                   tg_pair_counts_add(&t->pairs, other, merged, left->count, left->places, &left->next)) &&
                  (right->places == 0 || right->count < least ||
                   tg_pair_counts_add(&t->pairs, merged, other, right->count, right->places, &right->next));
    }
    if (is_good) {
        touch_neighbors(t, places, count, merged, true);
    }
    for (size_t i = 0; i < t->touched_count; i++) {
        t->left[t->touched[i]] = t->right[t->touched[i]] = (neighbor){0, 0, NULL};
    }
    t->touched_count = 0;
    return is_good;
}

/* ---- all merges ---- */

/* Makes room for one more symbol. The elements of left[] and right[] are zeros between merges. */
static bool reserve_symbol(trainer *t)
{
    size_t symbols = (size_t)t->z->token_count, left = t->left_capacity, right = t->right_capacity;
    if (!tg_grow(&t->left, &t->left_capacity, left, symbols + 1, sizeof *t->left)) {
        return false;
    }
    memset(t->left + left, 0, (t->left_capacity - left) * sizeof *t->left);
    if (!tg_grow(&t->right, &t->right_capacity, right, symbols + 1, sizeof *t->right)) {
        return false;
    }
    memset(t->right + right, 0, (t->right_capacity - right) * sizeof *t->right);
    return tg_grow(&t->touched, &t->touched_capacity, 0, symbols + 1, sizeof *t->touched);
}

/* Adds merges, and leaves one id for <|endoftext|>. */
static bool learn(trainer *t, tg_error *error)
{
    tg_pair_candidate best;
    while (t->z->token_count < t->config->size - 1 && tg_pair_counts_take(&t->pairs, &best)) {
        int32_t merged = t->z->token_count;
        if (!reserve_symbol(t) || !tg_tokenizer_add_merged_token(t->z, best.left, best.right)) {
            return out_of_memory(t, "the ids", error);
        }
        uint32_t *places = tg_pair_counts_places(&t->pairs, &best.places);
        uint32_t count = merge_places(t, &best, places, merged);
        if (!add_pairs(t, places, count, merged)) {
            return out_of_memory(t, "counting pairs", error);
        }
        tg_pair_counts_release(&t->pairs, &best.places);
        if (t->config->on_merge && !t->config->on_merge(t->config->context, t->z->token_count)) {
            return false;
        }
    }
    return true;
}

bool tg_merges_learn(tg_tokenizer *z, tg_word_counter *words, const tg_merge_config *config, tg_error *error)
{
    trainer t = {.z = z, .config = config};
    tg_pair_counts_begin(&t.pairs);
    bool is_good = spell(&t, words, error) && (find_byte_pairs(&t) || out_of_memory(&t, "counting pairs", error)) &&
                   learn(&t, error);
    tg_pair_counts_free(&t.pairs);
    tg_free(t.cells);
    tg_free(t.runs);
    tg_free(t.run_of);
    tg_free(t.left);
    tg_free(t.right);
    tg_free(t.touched);
    return is_good;
}

/* merges: the most frequent pair of neighbors becomes a new symbol, again and again.
 *
 * The different words stand in one array of cells, one cell per byte, with a cell that separates them before each word
 * and at the end. Words of one byte are left out. A list in the order of the cells has the first cell of each word, and
 * how often it occurs. A symbol of n bytes covers n cells: its id is in the first, and -n in the last if n > 1. So the
 * neighbors of a symbol are found in both directions, and a word of a million bytes is no special case.
 *
 * Each pair has the list of the places where it was formed, in ascending order. A merge visits the places of its pair,
 * skips those where the pair is no more, and lowers the counts of the pairs that end there. A second pass over the new
 * symbols counts the pairs that they form. So the time of a merge is proportional to the number of places where its
 * pair was, in different words.
 */
#include "text/merges.h"

#include "text/pair_counts.h"

#define COVERED INT32_MIN /* the first cell of a symbol that was merged with the one before it */

/* ---- cells ---- */

#define SEPARATOR (-1)

/* The number of cells whose first word is listed. */
#define LISTED_CELLS 16

typedef struct cell_word {
    uint32_t begin;
    int64_t count;
} cell_word;

typedef struct word_cells {
    int32_t *cells; /* ids of bytes */
    uint32_t count;
    cell_word *words;  /* a last one begins at `count` */
    uint32_t *word_of; /* of cell LISTED_CELLS * i, the index of its word */
} word_cells;

/* Writes the words that have pairs, which those of one byte have not, each with the separator after it. */
static void write_words(word_cells *t, const tg_tokenizer *z, const tg_word_table *table)
{
    cell_word *next = t->words;
    t->cells[t->count++] = SEPARATOR;
    for (int32_t k = 0; k < table->words.count; k++) {
        size_t length;
        const char *bytes = tg_names_at(&table->words, k, &length);
        if (length > 1) {
            *next++ = (cell_word){t->count, table->counts[k]};
            for (size_t b = 0; b < length; b++) {
                t->cells[t->count++] = z->id_of_byte[(unsigned char)bytes[b]];
            }
            t->cells[t->count++] = SEPARATOR;
        }
    }
    *next = (cell_word){t->count, 0};
    uint32_t w = 0;
    for (uint64_t i = 0; i * LISTED_CELLS < t->count; i++) {
        while (t->words[w].begin < t->count && t->words[w + 1].begin <= i * LISTED_CELLS) {
            w++;
        }
        t->word_of[i] = w;
    }
}

/* Writes the words of a counter, which it frees, to *t, which is empty. After an error *t may have memory, too. */
static bool make_cells(word_cells *t, const tg_tokenizer *z, tg_word_counter *c, const char *call, tg_error *error)
{
    uint64_t words = (uint64_t)c->table.words.count, cells = 1;
    for (int32_t k = 0; k < c->table.words.count; k++) {
        cells += tg_names_length(&c->table.words, k) + 1;
    }
    if (cells >= UINT32_MAX) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: the different words have %llu bytes; at most %lu are possible",
                            call, (unsigned long long)cells, (unsigned long)UINT32_MAX - 1);
    }
    t->cells = tg_alloc(cells, sizeof *t->cells);
    t->words = tg_alloc(words + 1, sizeof *t->words);
    t->word_of = tg_alloc(cells / LISTED_CELLS + 1, sizeof *t->word_of);
    if (!t->cells || !t->words || !t->word_of) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for the bytes of the words", call);
    }
    write_words(t, z, &c->table);
    tg_word_table_free(&c->table);
    return true;
}

static void free_cells(word_cells *t)
{
    tg_free(t->cells);
    tg_free(t->words);
    tg_free(t->word_of);
}

/* Returns how often the word of a cell occurs. */
static int64_t count_of(const word_cells *cells, uint32_t cell)
{
    const cell_word *word = &cells->words[cells->word_of[cell / LISTED_CELLS]];
    while (word[1].begin <= cell) {
        word++;
    }
    return word->count;
}

/* ---- a training ---- */

typedef struct trainer {
    tg_tokenizer *z;
    const tg_merge_config *config;
    word_cells words;
    tg_pair_counts pairs;
} trainer;

static bool out_of_memory(const trainer *t, const char *what, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %s", t->config->call, what);
}

/* ---- symbols ---- */

static uint32_t length_of(const trainer *t, int32_t symbol)
{
    return (uint32_t)tg_names_length(&t->z->tokens, symbol);
}

/* Returns the first cell of the symbol after the one at `at`, or the separator's. */
static uint32_t next_of(const trainer *t, uint32_t at)
{
    return at + length_of(t, t->words.cells[at]);
}

/* Returns the first cell of the symbol before the one at `at`, or the separator's. */
static uint32_t previous_of(const trainer *t, uint32_t at)
{
    int32_t last = t->words.cells[at - 1];
    return last >= SEPARATOR ? at - 1 : at - (uint32_t)-last;
}

/* Counts the pairs of bytes of the words. */
static bool count_bytes(trainer *t)
{
    const cell_word *word = t->words.words;
    const int32_t *cells = t->words.cells;
    bool is_good = true;
    for (uint32_t i = 1; is_good && i + 1 < t->words.count; i++) {
        word += word[1].begin <= i;
        is_good = cells[i] < 0 || cells[i + 1] < 0 ||
                  tg_pair_counts_raise(&t->pairs, (tg_pair){cells[i], cells[i + 1]}, word->count, i);
    }
    return is_good && tg_pair_counts_push(&t->pairs, t->config->min_count);
}

/* ---- one merge ---- */

/* Merges a pair wherever it is, and lowers the counts of the pairs that end there. Leaves the places of the new symbols
 * in the list of the pair. */
static void merge_places(trainer *t, tg_counted_pair *merge, int32_t merged)
{
    const tg_pair pair = merge->pair;
    uint32_t first = length_of(t, pair.left), length = length_of(t, merged), *link = &merge->first;
    for (uint32_t place = merge->first; place > 0; place = t->pairs.places[place].next) {
        uint32_t at = t->pairs.places[place].at, right = at + first;
        if (t->words.cells[at] != pair.left || t->words.cells[right] != pair.right) {
            continue;
        }
        int64_t count = count_of(&t->words, at);
        int32_t before = t->words.cells[previous_of(t, at)], after = t->words.cells[right + length - first];
        if (before >= 0) { /* with a symbol that is new, too, the pair is not counted yet, and nothing happens */
            tg_pair_counts_lower(&t->pairs, (tg_pair){before, pair.left}, count);
        }
        if (after >= 0) {
            tg_pair_counts_lower(&t->pairs, (tg_pair){pair.right, after}, count);
        }
        t->words.cells[at] = merged;
        t->words.cells[right] = COVERED;
        t->words.cells[at + length - 1] = -(int32_t)length;
        *link = place;
        link = &t->pairs.places[place].next;
    }
    *link = 0;
}

/* Counts the pairs that the new symbols form, from the first place of one. */
static bool count_neighbors(trainer *t, uint32_t place, int32_t merged)
{
    bool is_good = true;
    for (; is_good && place > 0; place = t->pairs.places[place].next) {
        uint32_t at = t->pairs.places[place].at, previous = previous_of(t, at);
        int64_t count = count_of(&t->words, at);
        int32_t before = t->words.cells[previous], after = t->words.cells[next_of(t, at)];
        if (before >= 0 && before != merged) { /* of two new symbols, the first one lists their pair */
            is_good = tg_pair_counts_raise(&t->pairs, (tg_pair){before, merged}, count, previous);
        }
        if (is_good && after >= 0) {
            is_good = tg_pair_counts_raise(&t->pairs, (tg_pair){merged, after}, count, at);
        }
    }
    return is_good && tg_pair_counts_push(&t->pairs, t->config->min_count);
}

/* ---- all merges ---- */

static bool learn(trainer *t, tg_error *error)
{
    tg_counted_pair *best;
    while (t->z->tokens.count < t->config->size &&
           (best = tg_pair_counts_take(&t->pairs, t->config->min_count)) != NULL) {
        int32_t merged = t->z->tokens.count;
        if (!tg_tokenizer_add_merged_token(t->z, best->pair.left, best->pair.right)) {
            return out_of_memory(t, "the ids", error);
        }
        merge_places(t, best, merged);
        if (!count_neighbors(t, best->first, merged)) {
            return out_of_memory(t, "counting pairs", error);
        }
        if (t->config->on_merge && !t->config->on_merge(t->config->context, t->z->tokens.count)) {
            return false;
        }
    }
    return true;
}

bool tg_merges_learn(tg_tokenizer *z, tg_word_counter *words, const tg_merge_config *config, tg_error *error)
{
    trainer t = {.z = z, .config = config};
    /* each cell begins a pair of bytes, and is merged at most once, when two new pairs arise */
    bool is_good =
        make_cells(&t.words, z, words, config->call, error) &&
        ((tg_pair_counts_begin(&t.pairs, config->takes_greatest_pair ? z : NULL, 3 * (uint64_t)t.words.count) &&
          count_bytes(&t)) ||
         out_of_memory(&t, "counting pairs", error)) &&
        learn(&t, error);
    tg_pair_counts_free(&t.pairs);
    free_cells(&t.words);
    return is_good;
}

/* merges: the most frequent pair of neighbors becomes a new symbol, again and again.
 *
 * The different words stand in one array of cells (word_cells.h). A symbol of n bytes covers n cells: its id is in the
 * first, and -n in the last if n > 1. So the neighbors of a symbol are found in both directions, and a word of a
 * million bytes is no special case.
 *
 * Each pair has the list of the places where it was formed, in ascending order. A merge visits the places of its pair,
 * skips those where the pair is no more, and lowers the counts of the pairs that end there. A second pass over the new
 * symbols counts the pairs that they form. So the time of a merge is proportional to the number of places where its
 * pair was, in different words.
 */
#include "text/merges.h"

#include <string.h>

#include "text/pair_counts.h"
#include "text/word_cells.h"

#define COVERED INT32_MIN /* the first cell of a symbol that was merged with the one before it */

/* The pairs of a new symbol with one other symbol, on one side. */
typedef struct neighbor {
    int64_t count;
    uint32_t places;
    uint32_t *next; /* where the next place is written */
} neighbor;

typedef struct trainer {
    tg_tokenizer *z;
    const tg_merge_config *config;
    tg_word_cells words;
    tg_pair_counts pairs;
    neighbor *left, *right; /* by symbol: the pairs (symbol,new) and (new,symbol) */
    int32_t *touched;       /* symbols s with left[s] or right[s] */
    size_t left_capacity, right_capacity, touched_capacity, touched_count;
} trainer;

static bool out_of_memory(const trainer *t, const char *what, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %s", t->config->call, what);
}

/* ---- symbols ---- */

static uint32_t length_of(const trainer *t, int32_t symbol)
{
    return (uint32_t)(t->z->begin[symbol + 1] - t->z->begin[symbol]);
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
    return last >= TG_WORD_SEPARATOR ? at - 1 : at - (uint32_t)-last;
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
        const tg_word_run *r = t->words.runs;
        for (uint32_t i = 1; i + 1 < t->words.count; i++) {
            r += r[1].begin <= i;
            if (t->words.cells[i] < 0 || t->words.cells[i + 1] < 0) {
                continue;
            }
            neighbor *n = &found[t->words.cells[i] * TG_BYTES + t->words.cells[i + 1]];
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
        if (t->words.cells[at] != pair->left || t->words.cells[right] != pair->right) {
            continue;
        }
        int64_t count = tg_word_cells_count(&t->words, at);
        int32_t before = t->words.cells[previous_of(t, at)], after = t->words.cells[right + length - first];
        if (before >= 0) { /* with a symbol that is new, too, the pair is not counted yet, and nothing happens */
            tg_pair_counts_lower(&t->pairs, before, pair->left, count, least);
        }
        if (after >= 0) {
            tg_pair_counts_lower(&t->pairs, pair->right, after, count, least);
        }
        t->words.cells[at] = merged;
        t->words.cells[right] = COVERED;
        t->words.cells[at + length - 1] = -(int32_t)length;
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
        int64_t words = tg_word_cells_count(&t->words, at);
        int32_t before = t->words.cells[previous], after = t->words.cells[next_of(t, at)];
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

static bool learn(trainer *t, tg_error *error)
{
    tg_pair_candidate best;
    while (t->z->token_count < t->config->size && tg_pair_counts_take(&t->pairs, &best)) {
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
    tg_pair_counts_begin(&t.pairs, config->takes_greatest_pair ? z : NULL);
    bool is_good = tg_word_cells_new(&t.words, z, words, config->call, error) &&
                   (find_byte_pairs(&t) || out_of_memory(&t, "counting pairs", error)) && learn(&t, error);
    tg_pair_counts_free(&t.pairs);
    tg_word_cells_free(&t.words);
    tg_free(t.left);
    tg_free(t.right);
    tg_free(t.touched);
    return is_good;
}

#include "text/word_counts.h"

#include <string.h>

#include <tapegrad/op.h>

/* A piece that one thread counts. */
typedef struct tg_word_part {
    tg_pipeline walk;
    tg_word_table table; /* its words are those of the piece */
    tg_error error;
} word_part;

/* ---- one table ---- */

void tg_word_table_free(tg_word_table *t)
{
    tg_names_free(&t->words);
    tg_free(t->counts);
    *t = (tg_word_table){0};
}

/* Adds to the count of a word. Returns false when memory is exhausted. */
static bool add(tg_word_table *t, const char *bytes, size_t length, int64_t count)
{
    int32_t word = tg_names_find(&t->words, bytes, length);
    if (word >= 0) {
        t->counts[word] += count;
        return true;
    }
    size_t words = (size_t)t->words.count;
    if (!tg_grow(&t->counts, &t->capacity, words, words + 1, sizeof *t->counts) ||
        !tg_names_append(&t->words, bytes, length, NULL, 0)) {
        return false;
    }
    t->counts[words] = count;
    return tg_names_enter(&t->words) >= 0;
}

/* ---- all words ---- */

bool tg_word_counter_make(tg_word_counter *c, const char *call, const tg_tokenizer *z, tg_error *error)
{
    *c = (tg_word_counter){.call = call, .z = z, .part_count = tg_piece_slots()};
    c->parts = tg_alloc_zeroed((uint64_t)c->part_count, sizeof *c->parts);
    return c->parts || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
}

void tg_word_counter_free(tg_word_counter *c)
{
    for (int i = 0; c->parts && i < c->part_count; i++) {
        tg_pipeline_free(&c->parts[i].walk);
        tg_word_table_free(&c->parts[i].table);
    }
    tg_free(c->parts);
    tg_word_table_free(&c->table);
    *c = (tg_word_counter){0};
}

static bool count_word(void *context, const tg_view *v, tg_error *error)
{
    word_part *part = context;
    return (v->length <= INT32_MAX && add(&part->table, v->text, v->length, 1)) ||
           tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for words", part->walk.call);
}

/* Fills the table of each part with the words of its piece. */
static void count_pieces(void *context, int64_t begin, int64_t end)
{
    const tg_word_counter *c = context;
    for (int64_t i = begin; i < end; i++) {
        word_part *part = &c->parts[i];
        const tg_piece *piece = &c->pieces[i];
        tg_names_clear(&part->table.words);
        part->walk.z = c->z;
        part->walk.call = c->call;
        part->walk.special = true;
        part->walk.on_word = count_word;
        part->walk.context = part;
        part->walk.error = &part->error;
        if (tg_piece_check(c->call, piece, &part->error)) {
            tg_pipeline_text(&part->walk, piece->text, piece->length);
        }
    }
}

bool tg_word_counter_add(tg_word_counter *c, const tg_piece *pieces, int count, tg_error *error)
{
    c->pieces = pieces;
    tg_parallel_for(count, 1, count_pieces, c);
    for (int i = 0; i < count; i++) {
        const tg_word_table *part = &c->parts[i].table;
        if (!tg_error_copy(error, &c->parts[i].error)) {
            return false;
        }
        for (int32_t k = 0; k < part->words.count; k++) {
            size_t length;
            const char *bytes = tg_names_at(&part->words, k, &length);
            if (!add(&c->table, bytes, length, part->counts[k])) {
                return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %d words", c->call,
                                    c->table.words.count);
            }
        }
    }
    return true;
}

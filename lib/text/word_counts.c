#include "text/word_counts.h"

#include <string.h>

#include <tapegrad/op.h>

/* The bytes of words, one word after the other. */
typedef struct tg_word_block {
    struct tg_word_block *next;
    size_t used, size;
    char bytes[];
} word_block;

/* A piece that one thread counts. */
typedef struct tg_word_part {
    tg_pipeline walk;
    tg_word_table table; /* its words are those of the piece */
    tg_piece piece;
    tg_error error;
} word_part;

#define FIRST_WORD_BLOCK ((size_t)1 << 12)
#define LARGEST_WORD_BLOCK ((size_t)1 << 20)

/* ---- one table ---- */

void tg_word_table_free(tg_word_table *t)
{
    for (word_block *block = t->blocks, *next; block; block = next) {
        next = block->next;
        tg_free(block);
    }
    tg_free(t->words);
    tg_free(t->slots);
    *t = (tg_word_table){0};
}

/* Removes all words, and keeps the memory. */
static void clear(tg_word_table *t)
{
    if (t->count > 0) {
        memset(t->slots, -1, t->slot_count * sizeof *t->slots);
    }
    t->count = 0;
}

/* Copies the bytes of a word into the table's blocks. NULL when memory is exhausted. */
static const char *copy(tg_word_table *t, const char *bytes, size_t length)
{
    word_block *block = t->blocks;
    if (!block || block->size - block->used < length) {
        size_t size = !block                             ? FIRST_WORD_BLOCK
                      : block->size < LARGEST_WORD_BLOCK ? 2 * block->size
                                                         : LARGEST_WORD_BLOCK;
        size = size < length ? length : size;
        block = tg_alloc((uint64_t)sizeof *block + size, 1);
        if (!block) {
            return NULL;
        }
        *block = (word_block){t->blocks, 0, size};
        t->blocks = block;
    }
    char *copied = memcpy(block->bytes + block->used, bytes, length);
    block->used += length;
    return copied;
}

/* Returns the slot of a word, or the empty slot for it. */
static size_t slot_of(const tg_word_table *t, const char *bytes, uint32_t length, uint32_t hash)
{
    size_t slot = hash & (t->slot_count - 1);
    for (; t->slots[slot] >= 0; slot = (slot + 1) & (t->slot_count - 1)) {
        const tg_counted_word *word = &t->words[t->slots[slot]];
        if (word->hash == hash && word->length == length && memcmp(word->bytes, bytes, length) == 0) {
            break;
        }
    }
    return slot;
}

static bool reserve(tg_word_table *t)
{
    bool is_new;
    if (t->count == INT32_MAX || !tg_grow(&t->words, &t->capacity, t->count, t->count + 1, sizeof *t->words) ||
        !tg_slots_reserve(&t->slots, &t->slot_count, t->count + 1, &is_new)) {
        return false;
    }
    for (size_t i = 0; is_new && i < t->count; i++) {
        size_t slot = t->words[i].hash & (t->slot_count - 1);
        while (t->slots[slot] >= 0) {
            slot = (slot + 1) & (t->slot_count - 1);
        }
        t->slots[slot] = (int32_t)i;
    }
    return true;
}

/* Adds to the count of a word. With `copies` a new word gets bytes of its own. Returns false when memory is
 * exhausted. */
static bool add(tg_word_table *t, const tg_counted_word *added, bool copies)
{
    if (!reserve(t)) {
        return false;
    }
    size_t slot = slot_of(t, added->bytes, added->length, added->hash);
    if (t->slots[slot] >= 0) {
        t->words[t->slots[slot]].count += added->count;
        return true;
    }
    tg_counted_word word = *added;
    word.bytes = copies ? copy(t, added->bytes, added->length) : added->bytes;
    if (!word.bytes) {
        return false;
    }
    t->slots[slot] = (int32_t)t->count;
    t->words[t->count++] = word;
    return true;
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
    for (int i = 0; i < TG_WORD_TABLES; i++) {
        tg_word_table_free(&c->tables[i]);
    }
    *c = (tg_word_counter){0};
}

int64_t tg_word_counter_words(const tg_word_counter *c)
{
    int64_t words = 0;
    for (int i = 0; i < TG_WORD_TABLES; i++) {
        words += (int64_t)c->tables[i].count;
    }
    return words;
}

static bool out_of_memory(const tg_word_counter *c, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld words", c->call,
                        (long long)tg_word_counter_words(c));
}

/* A part whose words are counted. */
typedef struct counted_part {
    const tg_word_counter *counter;
    word_part *part;
} counted_part;

static bool count_word(void *context, const tg_view *v, tg_error *error)
{
    const counted_part *c = context;
    tg_counted_word word = {v->text, 1, (uint32_t)v->length, (uint32_t)tg_hash_bytes(v->text, v->length)};
    return (v->length <= INT32_MAX && add(&c->part->table, &word, false)) || out_of_memory(c->counter, error);
}

/* Special tokens are no words. */
static bool skip_token(void *context, const tg_view *token, int32_t id, tg_error *error)
{
    (void)context;
    (void)token;
    (void)id;
    (void)error;
    return true;
}

/* Fills the table of a part with the words of its piece. */
static bool count_piece(const tg_word_counter *c, word_part *part)
{
    const tg_piece *piece = &part->piece;
    counted_part counted = {c, part};
    clear(&part->table);
    part->walk.z = c->z;
    part->walk.call = c->call;
    part->walk.special = true;
    part->walk.on_word = count_word;
    part->walk.on_token = skip_token;
    part->walk.context = &counted;
    part->walk.error = &part->error;
    return tg_piece_check(c->call, piece, &part->error) && tg_pipeline_text(&part->walk, piece->text, piece->length);
}

/* The two loops of tg_word_counter_add. */
typedef struct counting {
    tg_word_counter *counter;
    int pieces;
    tg_error errors[TG_WORD_TABLES];
} counting;

static void count_pieces(void *context, int64_t begin, int64_t end)
{
    counting *job = context;
    for (int64_t i = begin; i < end; i++) {
        count_piece(job->counter, &job->counter->parts[i]);
    }
}

/* Adds the words of all parts to the tables from `begin` to `end`. */
static void add_parts(void *context, int64_t begin, int64_t end)
{
    counting *job = context;
    tg_word_counter *c = job->counter;
    for (int p = 0; p < job->pieces; p++) {
        const tg_word_table *part = &c->parts[p].table;
        for (size_t i = 0; i < part->count; i++) {
            int64_t table = part->words[i].hash >> 28;
            if (table >= begin && table < end && !add(&c->tables[table], &part->words[i], true)) {
                tg_error_set(&job->errors[table], TG_ERROR_MEMORY, "%s: out of memory for words", c->call);
                return;
            }
        }
    }
}

bool tg_word_counter_add(tg_word_counter *c, const tg_piece *pieces, int count, tg_error *error)
{
    counting job = {.counter = c, .pieces = count};
    for (int i = 0; i < count; i++) {
        word_part *part = &c->parts[i];
        part->piece = pieces[i];
    }
    tg_parallel_for(count, 1, count_pieces, &job);
    for (int i = 0; i < count; i++) {
        if (c->parts[i].error.code != TG_OK) {
            return tg_error_set(error, c->parts[i].error.code, "%s", c->parts[i].error.text);
        }
    }
    tg_parallel_for(TG_WORD_TABLES, count > 1 ? 1 : TG_WORD_TABLES, add_parts, &job);
    for (int i = 0; i < TG_WORD_TABLES; i++) {
        if (job.errors[i].code != TG_OK) {
            return out_of_memory(c, error);
        }
    }
    return true;
}

/* tokenizer: the tables of a byte-pair encoding. See tokenizer.h for their layout. */
#include "text/tokenizer.h"

#include <string.h>

#include <tapegrad/extend.h>

/* ---- tokens ---- */

tg_tokenizer *tg_tokenizer_make(tg_error *error)
{
    tg_tokenizer *z = tg_alloc_zeroed(1, sizeof *z);
    if (!z) {
        tg_error_set(error, TG_ERROR_MEMORY, "tokenizer: out of memory");
        return NULL;
    }
    z->end_of_text = -1;
    z->words = tg_pretokenizer_new(error);
    if (!z->words) {
        tg_tokenizer_free(z);
        return NULL;
    }
    return z;
}

void tg_tokenizer_free(tg_tokenizer *z)
{
    if (z) {
        tg_pretokenizer_free(z->words);
        tg_free(z->bytes);
        tg_free(z->begin);
        tg_free(z->merges);
        tg_free(z->slots);
        tg_free(z->added);
        tg_free(z->entries);
        tg_free(z);
    }
}

/* Returns the number of bytes of all tokens. */
static size_t used_bytes(const tg_tokenizer *z)
{
    return z->token_count ? z->begin[z->token_count] : 0;
}

static bool reserve_tokens(tg_tokenizer *z, size_t tokens, size_t bytes)
{
    size_t used = z->token_count ? (size_t)z->token_count + 1 : 0;
    return tg_grow(&z->bytes, &z->byte_capacity, used_bytes(z), bytes, 1) &&
           tg_grow(&z->begin, &z->begin_capacity, used, tokens + 1, sizeof *z->begin);
}

bool tg_tokenizer_add_token(tg_tokenizer *z, const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t start = used_bytes(z), count = (size_t)z->token_count, end = start + a_length + b_length;
    size_t a_at = (size_t)(a - z->bytes), b_at = (size_t)(b - z->bytes);
    /* the bytes of other tokens move when z->bytes grows */
    bool is_inside = z->bytes && a >= z->bytes && a < z->bytes + start;
    if (count == INT32_MAX || !reserve_tokens(z, count + 1, end)) {
        return false;
    }
    memcpy(z->bytes + start, is_inside ? z->bytes + a_at : a, a_length);
    if (b_length > 0) {
        memcpy(z->bytes + start + a_length, is_inside ? z->bytes + b_at : b, b_length);
    }
    z->begin[count] = start;
    z->begin[count + 1] = end;
    z->token_count++;
    return true;
}

/* The bytes that are not printable are 0 to 32, 127 to 160, and 173. */
unsigned tg_character_of_byte(unsigned byte)
{
    return byte <= 32 ? 256 + byte : byte >= 127 && byte <= 160 ? 256 + 33 + byte - 127 : byte == 173 ? 256 + 67 : byte;
}

bool tg_tokenizer_add_bytes(tg_tokenizer *z)
{
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned byte = 0; byte < TG_BYTES; byte++) {
            char one = (char)byte;
            bool is_itself = tg_character_of_byte(byte) == byte; /* in vocab.bpe; these 188 bytes have the first ids */
            if (is_itself == (pass == 0)) {
                z->id_of_byte[byte] = z->token_count;
                if (!tg_tokenizer_add_token(z, &one, 1, NULL, 0)) {
                    return false;
                }
            }
        }
    }
    return true;
}

const char *tg_tokenizer_bytes(const tg_tokenizer *z, int32_t id, size_t *length)
{
    size_t unused;
    length = length ? length : &unused;
    *length = 0;
    if (!z || id < 0 || id >= z->token_count) {
        return NULL;
    }
    *length = z->begin[id + 1] - z->begin[id];
    return z->bytes + z->begin[id];
}

int32_t tg_tokenizer_vocabulary(const tg_tokenizer *z)
{
    return z ? z->token_count : 0;
}

/* ---- merges ---- */

/* Returns the slot of a pair, or the empty slot for it: linear probing. */
static size_t slot_of(const tg_tokenizer *z, int32_t left, int32_t right)
{
    size_t slot = tg_hash_pair(left, right) & (z->slot_count - 1);
    for (; z->slots[slot] >= 0; slot = (slot + 1) & (z->slot_count - 1)) {
        const tg_merge *merge = &z->merges[z->slots[slot]];
        if (merge->left == left && merge->right == right) {
            break;
        }
    }
    return slot;
}

static bool reserve_slots(tg_tokenizer *z, size_t merges)
{
    bool is_new;
    if (!tg_slots_reserve(&z->slots, &z->slot_count, merges, &is_new)) {
        return false;
    }
    for (size_t r = 0; is_new && r < z->merge_count; r++) {
        z->slots[slot_of(z, z->merges[r].left, z->merges[r].right)] = (int32_t)r;
    }
    return true;
}

static bool reserve_merges(tg_tokenizer *z, size_t merges)
{
    return tg_grow(&z->merges, &z->merge_capacity, z->merge_count, merges, sizeof *z->merges) &&
           reserve_slots(z, merges);
}

/* Allocates an array of exactly this capacity, where growing it would double the capacity. */
static void *reserve(size_t *capacity, size_t count, size_t size)
{
    void *array = tg_alloc(count, size);
    *capacity = array ? count : 0;
    return array;
}

bool tg_tokenizer_reserve(tg_tokenizer *z, size_t tokens, size_t bytes, size_t merges)
{
    z->bytes = reserve(&z->byte_capacity, bytes + 1, 1);
    z->begin = reserve(&z->begin_capacity, tokens + 1, sizeof *z->begin);
    z->merges = reserve(&z->merge_capacity, merges + 1, sizeof *z->merges);
    return z->bytes && z->begin && z->merges && reserve_slots(z, merges);
}

int64_t tg_tokenizer_rank(const tg_tokenizer *z, int32_t left, int32_t right)
{
    return z->slot_count == 0 ? -1 : z->slots[slot_of(z, left, right)];
}

bool tg_tokenizer_add_merge(tg_tokenizer *z, int32_t left, int32_t right, int32_t result)
{
    size_t rank = z->merge_count;
    if (rank == INT32_MAX || !reserve_merges(z, rank + 1)) {
        return false;
    }
    z->slots[slot_of(z, left, right)] = (int32_t)rank;
    z->merges[rank] = (tg_merge){left, right, result};
    z->merge_count++;
    return true;
}

bool tg_tokenizer_add_merged_token(tg_tokenizer *z, int32_t left, int32_t right)
{
    size_t a_length, b_length;
    const char *a = tg_tokenizer_bytes(z, left, &a_length), *b = tg_tokenizer_bytes(z, right, &b_length);
    return reserve_merges(z, z->merge_count + 1) && tg_tokenizer_add_token(z, a, a_length, b, b_length) &&
           tg_tokenizer_add_merge(z, left, right, z->token_count - 1);
}

/* ---- added tokens ---- */

bool tg_tokenizer_mark_added(tg_tokenizer *z, tg_added_token token)
{
    if (!tg_grow(&z->added, &z->added_capacity, z->added_count, z->added_count + 1, sizeof *z->added)) {
        return false;
    }
    z->added[z->added_count++] = token;
    size_t length;
    const char *bytes = tg_tokenizer_bytes(z, token.id, &length);
    if (z->end_of_text < 0 && length == sizeof TG_END_OF_TEXT - 1 && memcmp(bytes, TG_END_OF_TEXT, length) == 0) {
        z->end_of_text = token.id;
    }
    return true;
}

bool tg_tokenizer_add_end_of_text(tg_tokenizer *z)
{
    return tg_tokenizer_add_token(z, TG_END_OF_TEXT, sizeof TG_END_OF_TEXT - 1, NULL, 0) &&
           tg_tokenizer_mark_added(z, (tg_added_token){.id = z->token_count - 1, .is_special = true});
}

const tg_added_token *tg_tokenizer_added(const tg_tokenizer *z, int32_t id)
{
    size_t low = 0, high = z->added_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (z->added[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < z->added_count && z->added[low].id == id ? &z->added[low] : NULL;
}

int32_t tg_tokenizer_end_of_text(const tg_tokenizer *z)
{
    return z ? z->end_of_text : -1;
}

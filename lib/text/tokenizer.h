/* tokenizer (private): the tables of a byte-pair encoding.
 *
 *   bytes, begin[]   token i is bytes[begin[i] .. begin[i + 1])
 *   merges[]         merge r joins the tokens .left and .right into the token .result; r is its rank
 *   slots            from (left, right) to r: a hash table with open addressing
 *   added[]          the added tokens, which are found in a text before it is split, ascending by id; no merge has one
 */
#ifndef TG_TEXT_TOKENIZER_H
#define TG_TEXT_TOKENIZER_H

#include <tapegrad/tokenizer.h>

#include <tapegrad/extend.h>
#include "text/pretoken.h"

/* Fibonacci hashing of a pair of ids (Knuth, volume 3, 6.4), for a table whose number of slots is a power of two. */
static inline size_t tg_hash_pair(int32_t left, int32_t right)
{
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20);
}

#define TG_BYTES 256
#define TG_END_OF_TEXT "<|endoftext|>"

/* ---- tokenizer.c ---- */

typedef struct tg_merge {
    int32_t left, right, result;
} tg_merge;

/* An added token. */
typedef struct tg_added_token {
    int32_t id;
    bool is_special;    /* found only if the call asks for special tokens */
    bool is_normalized; /* found in what is left between the tokens that are not */
} tg_added_token;

/* The added tokens in the order in which they are searched; see added_tokens.c. */
typedef struct tg_added_entry {
    const char *bytes;
    size_t length;
    size_t added; /* the index in added[] */
} tg_added_entry;

/* The searches of a text for added tokens, one after the other: first for those that are not normalized. */
#define TG_SEARCHES 2

struct tg_tokenizer {
    tg_pretokenizer *words;
    char *bytes;
    size_t byte_capacity;
    size_t *begin; /* token_count + 1 offsets */
    size_t begin_capacity;
    int32_t token_count;
    tg_merge *merges;
    size_t merge_count, merge_capacity;
    int32_t *slots;    /* -1: empty */
    size_t slot_count; /* a power of two, or 0 */
    tg_added_token *added;
    size_t added_count, added_capacity;
    tg_added_entry *entries;
    int32_t entry_of[TG_SEARCHES]
                    [TG_BYTES + 1]; /* the first entry of a search whose first byte is this one or larger */
    size_t longest_added;
    int32_t end_of_text; /* -1: none */
    int32_t id_of_byte[TG_BYTES];
};

/* Returns a tokenizer without tokens. NULL with the error set. */
tg_tokenizer *tg_tokenizer_make(tg_error *error);

/* Reserves memory for a tokenizer without tokens; optional. Returns false when memory is exhausted, as the calls below
 * do. */
bool tg_tokenizer_reserve(tg_tokenizer *tokenizer, size_t tokens, size_t bytes, size_t merges);

/* Adds a token, whose id is the next one: the bytes a followed by the bytes b. They may be those of other tokens. */
bool tg_tokenizer_add_token(tg_tokenizer *tokenizer, const char *a, size_t a_length, const char *b, size_t b_length);

/* Returns the character of a byte in vocab.bpe: a printable byte is itself. */
unsigned tg_character_of_byte(unsigned byte);

/* Adds the 256 bytes with GPT-2's ids: 0 to 187 are the printable ones. */
bool tg_tokenizer_add_bytes(tg_tokenizer *tokenizer);

/* Adds the next merge. The pair must be new. */
bool tg_tokenizer_add_merge(tg_tokenizer *tokenizer, int32_t left, int32_t right, int32_t result);

/* Adds the next merge and a token for its result. */
bool tg_tokenizer_add_merged_token(tg_tokenizer *tokenizer, int32_t left, int32_t right);

/* Marks a token as an added one. Ids must be ascending. */
bool tg_tokenizer_mark_added(tg_tokenizer *tokenizer, tg_added_token token);

/* Adds <|endoftext|> as a special token. */
bool tg_tokenizer_add_end_of_text(tg_tokenizer *tokenizer);

/* Returns the added token with this id, or NULL. */
const tg_added_token *tg_tokenizer_added(const tg_tokenizer *tokenizer, int32_t id);

/* Returns the rank of a pair, or -1. */
int64_t tg_tokenizer_rank(const tg_tokenizer *tokenizer, int32_t left, int32_t right);

/* ---- added_tokens.c ---- */

/* Prepares the search for added tokens. To be called when all tokens have been added. */
bool tg_added_tokens_sort(tg_tokenizer *tokenizer);

/* Returns the longest added token of a search that `text` begins with, or NULL. */
const tg_added_entry *tg_added_tokens_find(const tg_tokenizer *tokenizer, int search, const char *text, size_t length);

/* ---- encode.c ---- */

/* The word that is being merged, as a linked list of symbols; the heap of pairs; and the output. Begins as zeros. */
typedef struct tg_encoder {
    int32_t *symbol, *next, *previous; /* symbol -1: merged with the previous symbol */
    size_t symbol_capacity, next_capacity, previous_capacity;
    struct tg_candidate *heap;
    size_t heap_count, heap_capacity;
    int32_t *ids;
    size_t id_count, id_capacity;
} tg_encoder;

/* Appends the ids of a word to e->ids. Only merges of a rank below `ranks` are used. Returns false when memory is
 * exhausted. */
bool tg_encoder_word(tg_encoder *encoder, const tg_tokenizer *tokenizer, const char *word, size_t length,
                     int64_t ranks);

/* What a text is encoded with. */
typedef struct tg_encoding {
    const char *call; /* for messages */
    const tg_tokenizer *z;
    tg_pretokenizer *splits;
    bool special; /* whether special tokens become their ids */
} tg_encoding;

/* Appends the ids of a text of UTF-8. */
bool tg_encoder_text(tg_encoder *encoder, const tg_encoding *encoding, const char *text, size_t length,
                     tg_error *error);

/* Frees all but the ids. */
void tg_encoder_free(tg_encoder *encoder);

#endif

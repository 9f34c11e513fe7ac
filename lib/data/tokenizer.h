/* tokenizer (private): the tables of a byte-pair encoding.
 *
 *   bytes, begin[]   token i is bytes[begin[i] .. begin[i + 1])
 *   merges[]         merge r joins merges[r].left and .right into id 256 + r
 *   pairs            from (left, right) to r: a hash table with open addressing, at most half full
 */
#ifndef TG_DATA_TOKENIZER_H
#define TG_DATA_TOKENIZER_H

#include <tapegrad/data.h>

#include "base/error.h"
#include "data/pretoken.h"

#define TG_BYTE_TOKENS 256

/* A hash table from pairs of ids to numbers. */
typedef struct tg_pair_map {
    struct tg_pair_entry {
        int32_t left, right; /* left -1: empty */
        int64_t value;
    } * entries;
    size_t size, count; /* size is a power of two, or 0 */
} tg_pair_map;

/* Returns the address of a pair's value. A new pair is added with `initial`. NULL when memory is exhausted. */
int64_t *tg_pair_map_put(tg_pair_map *map, int32_t left, int32_t right, int64_t initial);

/* Returns the value of a pair, or `otherwise` if the pair does not exist. */
int64_t tg_pair_map_get(const tg_pair_map *map, int32_t left, int32_t right, int64_t otherwise);
void tg_pair_map_free(tg_pair_map *map);

typedef struct tg_merge {
    int32_t left, right;
} tg_merge;

struct tg_tokenizer {
    tg_pretokenizer *words;
    char *bytes;
    size_t byte_capacity;
    size_t *begin; /* token_count + 1 offsets */
    size_t begin_capacity;
    int32_t token_count; /* the number of tokens without <|endoftext|> */
    tg_merge *merges;
    size_t merge_capacity;
    tg_pair_map pairs;
    uint8_t id_of_byte[TG_BYTE_TOKENS];
    uint8_t byte_of_id[TG_BYTE_TOKENS];
};

/* Returns a tokenizer with the 256 byte tokens and no merges. NULL with the error set. */
tg_tokenizer *tg_tokenizer_make(tg_error *error);

/* tg_tokenizer_open for a text in memory. */
tg_tokenizer *tg_tokenizer_parse(const char *text, size_t length, tg_error *error);

/* Adds the next merge. FORMAT if it already exists; MEMORY. */
bool tg_tokenizer_add_merge(tg_tokenizer *tokenizer, int32_t left, int32_t right, tg_error *error);

#endif

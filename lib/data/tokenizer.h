/* tokenizer (private): the tables of a byte-pair encoding.
 *
 *   bytes, begin[]   token i is bytes[begin[i] .. begin[i + 1])
 *   merges[]         merge r joins merges[r].left and .right into id 256 + r
 *   pairs            from (left, right) to r, by open addressing: never more than half full
 */
#ifndef TG_DATA_TOKENIZER_H
#define TG_DATA_TOKENIZER_H

#include <tapegrad/data.h>

#include "data/pretoken.h"

#define TG_BYTE_TOKENS 256

/* A table from pairs of ids to numbers. */
typedef struct tg_pair_map {
    struct tg_pair_entry {
        int32_t left, right; /* left -1: empty */
        int64_t value;
    } * entries;
    size_t size, count; /* size is a power of two, or 0 */
} tg_pair_map;

/* The value of a pair, made with `initial` if it is new; NULL when out of memory. */
int64_t *tg_pair_map_put(tg_pair_map *map, int32_t left, int32_t right, int64_t initial);
int64_t tg_pair_map_get(const tg_pair_map *map, int32_t left, int32_t right, int64_t otherwise);
void tg_pair_map_free(tg_pair_map *map);

typedef struct tg_merge {
    int32_t left, right;
} tg_merge;

struct tg_tokenizer {
    tg_pretokenizer *words;
    char *bytes;
    size_t byte_capacity;
    size_t *begin; /* token_count + 1 of them */
    size_t begin_capacity;
    int32_t token_count; /* without <|endoftext|> */
    tg_merge *merges;
    size_t merge_capacity;
    tg_pair_map pairs;
    uint8_t id_of_byte[TG_BYTE_TOKENS];
    uint8_t byte_of_id[TG_BYTE_TOKENS];
};

/* One with the 256 bytes and no merge. */
tg_tokenizer *tg_tokenizer_make(tg_error *error);

/* Adds the next merge. FORMAT when it is there already. */
bool tg_tokenizer_add_merge(tg_tokenizer *tokenizer, int32_t left, int32_t right, tg_error *error);

#endif

/* merges (private): learns the merges of a byte-pair encoding from counted words. */
#ifndef TG_TEXT_MERGES_H
#define TG_TEXT_MERGES_H

#include "text/word_counts.h"

/* Is called after each merge; returns false to stop. */
typedef bool tg_merge_listener(void *context, int32_t vocabulary);

typedef struct tg_merge_config {
    const char *call;            /* for messages */
    int32_t size;                /* the ids of bytes and merges */
    int64_t min_count;           /* pairs that occur less often are not merged */
    bool takes_greatest_pair;    /* of equally frequent pairs: that with the greatest bytes */
    tg_merge_listener *on_merge; /* optional */
    void *context;
} tg_merge_config;

/* Adds merges to a tokenizer of 256 bytes. Frees the words of the counter. Returns false without an error if on_merge
 * has stopped it. */
bool tg_merges_learn(tg_tokenizer *tokenizer, tg_word_counter *words, const tg_merge_config *config, tg_error *error);

#endif

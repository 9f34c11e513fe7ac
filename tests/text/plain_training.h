/* plain_training: byte-pair training in the plainest way, to compare with. The text is split by PCRE2 with the pattern
 * of openai/gpt-2 (src/encoder.py), and all pairs of all words are counted again for each merge. */
#ifndef TG_TESTS_PLAIN_TRAINING_H
#define TG_TESTS_PLAIN_TRAINING_H

#include <stddef.h>
#include <stdint.h>

typedef struct plain_word {
    const char *bytes;
    size_t length;
} plain_word;

/* Splits a text of UTF-8 into words. Returns their number; the caller frees *words. */
size_t plain_split(const char *text, size_t length, plain_word **words);

typedef struct plain_merge {
    int32_t left, right;
    int64_t count; /* how often the pair occurs */
} plain_merge;

/* Writes up to `most` merges, and returns their number. Of equally frequent pairs the one with the smaller ids is
 * first. Merge number i makes the id 256 + i. */
int32_t plain_train(const char *text, size_t length, int32_t most, plain_merge *merges);

#endif

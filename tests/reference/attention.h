/* attention: what the files of tg_scaled_dot_product_attention share. */
#ifndef TG_TESTS_REFERENCE_ATTENTION_H
#define TG_TESTS_REFERENCE_ATTENTION_H

#include "reference.h"

enum { QUERIES, KEYS, VALUES, BIAS, LENGTHS, KEY_MASK, FIRST_KEYS };

typedef struct attention_call {
    bool has_config, is_causal, has_groups;
    double dropout, scale;
    int64_t window;
    tg_attention_path path;
    double *kept; /* the factors of the weights by dropout; NULL: not known yet */
    tg_shape weights;
} attention_call;

/* The shape without rows and width. Keys and values count with the heads of the queries that share them. */
tg_shape attention_batch(const trial *t, int which);

/* The shape of the result; false if queries, keys and values do not broadcast. */
bool attention_result(const trial *t, tg_shape *result);

void attention_forward(trial *t);
void attention_backward(trial *t);

#endif

/* products: the matrix products of a training step of GPT-2 small, alone, or of a prompt. They are its bound. */
#ifndef TG_BENCH_PRODUCTS_H
#define TG_BENCH_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>

enum { BENCH_C = 768, BENCH_V = 50257, BENCH_H = 12, BENCH_LAYERS = 12 };

typedef struct bench_products {
    int b, t; /* the batch and the length */
    bool is_prompt;
    float *values;
    size_t used;
} bench_products;

bench_products bench_products_new(int b, int t);

/* Those of a prompt of t tokens: no gradients, and logits after the last token alone. */
bench_products bench_products_of_prompt(int t);

void bench_products_free(bench_products *products);

/* Runs them once. `context` is a bench_products. */
void bench_products_run(void *context);

void bench_products_print(const bench_products *products);

#endif

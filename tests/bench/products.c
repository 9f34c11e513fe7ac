#include "bench/products.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/figure.h"
#include "products/gemm.h"

enum { C = BENCH_C, V = BENCH_V, H = BENCH_H, LAYERS = BENCH_LAYERS, PRODUCTS = 15, PROMPT_PRODUCTS = 6 };

/* (M,K) x (K,N), `count` times */
typedef struct product {
    const char *what;
    int m, n, k, count;
    int transpose_a, transpose_b;
} product;

static product product_of(const bench_products *p, int i)
{
    const int rows = p->b * p->t, t = p->t, pairs = p->b * H * LAYERS;
    const product prompt[PROMPT_PRODUCTS] = {
        {"projections", rows, C, C, 4 * LAYERS, 0, 1},       {"feed-forward up", rows, 4 * C, C, LAYERS, 0, 1},
        {"feed-forward down", rows, C, 4 * C, LAYERS, 0, 1}, {"head", 1, V, C, 1, 0, 1},
        {"attention, q k^T", t, t, C / H, pairs, 0, 1},      {"attention, P v", t, C / H, t, pairs, 0, 0},
    };
    const product all[PRODUCTS] = {
        {"projections", rows, C, C, 4 * LAYERS, 0, 1},
        {"projections, dx", rows, C, C, 4 * LAYERS, 0, 0},
        {"projections, dW", C, C, rows, 4 * LAYERS, 1, 0},
        {"feed-forward up", rows, 4 * C, C, LAYERS, 0, 1},
        {"feed-forward up, dx", rows, C, 4 * C, LAYERS, 0, 0},
        {"feed-forward up, dW", 4 * C, C, rows, LAYERS, 1, 0},
        {"feed-forward down", rows, C, 4 * C, LAYERS, 0, 1},
        {"feed-forward down, dx", rows, 4 * C, C, LAYERS, 0, 0},
        {"feed-forward down, dW", C, 4 * C, rows, LAYERS, 1, 0},
        {"head", rows, V, C, 1, 0, 1},
        {"head, dx", rows, C, V, 1, 0, 0},
        {"head, dW", V, C, rows, 1, 1, 0},
        {"attention, q k^T and dP", t, t, C / H, 2 * pairs, 0, 1},
        {"attention, P v and dq", t, C / H, t, 2 * pairs, 0, 0},
        {"attention, dk and dv", t, C / H, t, 2 * pairs, 1, 0},
    };
    return p->is_prompt ? prompt[i] : all[i];
}

/* 400 MiB, about the memory of the model: a product takes the next stretch each time, so nothing is in a cache that
 * would not be there in the model. */
static const size_t size = (size_t)400 << 18;

static float *take(bench_products *p, size_t count)
{
    if (p->used + count > size) {
        p->used = 0;
    }
    float *taken = p->values + p->used;
    p->used += count;
    return taken;
}

bench_products bench_products_new(int b, int t)
{
    bench_products p = {.b = b, .t = t, .values = bench_must(malloc(size * sizeof(float)))};
    for (size_t i = 0; i < size; i++) {
        p.values[i] = (float)(i % 1024) * 1e-3f;
    }
    return p;
}

bench_products bench_products_of_prompt(int t)
{
    bench_products p = bench_products_new(1, t);
    p.is_prompt = true;
    return p;
}

void bench_products_free(bench_products *p)
{
    free(p->values);
}

void bench_products_run(void *context)
{
    bench_products *all = context;
    for (int i = 0; i < (all->is_prompt ? PROMPT_PRODUCTS : PRODUCTS); i++) {
        const product p = product_of(all, i);
        for (int n = 0; n < p.count; n++) {
            float *left = take(all, (size_t)p.m * (size_t)p.k), *right = take(all, (size_t)p.k * (size_t)p.n);
            float *out = take(all, (size_t)p.m * (size_t)p.n);
            const tg_gemm gemm = {p.m,
                                  p.n,
                                  p.k,
                                  .transpose_a = p.transpose_a,
                                  .b_layout = p.transpose_b ? TG_TRANSPOSED : TG_ROW_MAJOR,
                                  .lda = p.transpose_a ? p.m : p.k,
                                  .ldb = p.transpose_b ? p.k : p.n,
                                  .ldc = p.n};
            tg_gemm_f32(&gemm, left, right, out);
        }
    }
}

void bench_products_print(const bench_products *all)
{
    double flops = 0;
    for (int i = 0; i < PRODUCTS; i++) {
        const product p = product_of(all, i);
        flops += 2.0 * p.m * p.n * p.k * p.count;
    }
    printf("\nthe matrix products of a step (B %d, T %d, 124M parameters), %.1f Gflop:\n", all->b, all->t,
           flops * 1e-9);
    for (int i = 0; i < PRODUCTS; i++) {
        const product p = product_of(all, i);
        printf("  %-26s M %5d  N %5d  K %5d  x %d\n", p.what, p.m, p.n, p.k, p.count);
    }
}

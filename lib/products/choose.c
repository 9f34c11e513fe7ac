/* choose: what computes a matrix product, and in which threads (gemm.h).
 *
 * The table of kernels has the whole choice: the first kernel whose condition holds computes the product.
 */
#include <tapegrad/extend.h>

#include "base/least.h"
#include "math/fma.h"
#include "products/kernels.h"

/* ---- the backend ---- */

/* The backend of all products, or AUTO until the first product or its query. */
static atomic_int backend_in_use;

tg_matmul_backend tg_get_matmul_backend(void)
{
    int backend = atomic_load_explicit(&backend_in_use, memory_order_relaxed);
    if (backend == TG_BACKEND_AUTO) {
        int chosen = tg_blas_has_level(tg_level()) ? TG_BACKEND_BLAS : TG_BACKEND_BUILTIN;
        if (atomic_compare_exchange_strong(&backend_in_use, &backend, chosen)) {
            backend = chosen;
        }
    }
    return (tg_matmul_backend)backend;
}

bool tg_set_matmul_backend(tg_matmul_backend backend, tg_error *error)
{
    if (backend != TG_BACKEND_AUTO && backend != TG_BACKEND_BLAS && backend != TG_BACKEND_BUILTIN) {
        return tg_error_set(error, TG_ERROR_VALUE, "set_matmul_backend: %d is no backend", (int)backend);
    }
    if (backend == TG_BACKEND_BLAS && !*tg_get_blas().library) {
        return tg_error_set(error, TG_ERROR_VALUE, "set_matmul_backend: BLAS; this build has none (-Dblas=builtin)");
    }
    int before = TG_BACKEND_AUTO;
    return atomic_compare_exchange_strong(&backend_in_use, &before, (int)backend) || before == (int)backend ||
           tg_error_set(error, TG_ERROR_STATE, "set_matmul_backend: it is %s since the first product or query",
                        before == TG_BACKEND_BLAS ? "BLAS" : "the built-in loops");
}

/* ---- the table ---- */

/* Returns whether a kernel computes this product; `builtin`: where the backend is the built-in loops. */
typedef bool condition(const tg_gemm *g, bool builtin);

static bool is_small(const tg_gemm *g, bool builtin)
{
    return builtin && g->n <= 64 && g->k <= 64 && g->m <= 64 && g->m * g->n * g->k <= 4096;
}

/* A single row takes less time than in BLAS, which copies B. */
static bool is_row(const tg_gemm *g, bool builtin)
{
    return g->m == 1 || (builtin && g->m < 4 && g->b_layout == TG_ROW_MAJOR);
}

static bool is_builtin(const tg_gemm *g, bool builtin)
{
    (void)g;
    return builtin;
}

/* With AVX2 and AVX-512 up to 16 rows of a large B, of 2^17 values, take less time than in BLAS. Of a small B, which
 * stays in the cache, 4 rows do with AVX2, and with AVX-512 OpenBLAS has faster kernels (tests/bench/README.md). The
 * limits are the same at each level, and so are the bits. A dot product has 16 lanes. */
static bool has_few_rows(const tg_gemm *g, bool builtin)
{
    return !builtin && g->b_layout == TG_TRANSPOSED && !g->transpose_a && g->k >= 32 &&
           g->m <= (g->n >= 131072 / (g->k + 1) ? 16 : 8);
}

static bool is_any(const tg_gemm *g, bool builtin)
{
    (void)g, (void)builtin;
    return true;
}

typedef struct kernels {
    tg_gemm_kernel *f32[TG_LEVELS], *f64[TG_LEVELS]; /* NULL: that of the baseline */
    tg_gemm_kernel *bf16[TG_LEVELS]; /* those that read the transpose of B in bf16 where it is; NULL: none */
} kernels;

static const kernels tiles = {.f32 = {TG_EACH_LEVEL(avx512, tg_tile_gemm_f32)},
                              .f64 = {TG_EACH_LEVEL(avx512, tg_tile_gemm_f64)}};
static const kernels by_rows = {.f32 = {TG_EACH_LEVEL(avx512, tg_row_gemm_f32)},
                                .f64 = {TG_EACH_LEVEL(avx512, tg_row_gemm_f64)},
                                .bf16 = {TG_EACH_LEVEL(avx512, tg_row_of_bf16_f32)}};
static const kernels small = {.f32 = {TG_EACH_LEVEL(avx512, tg_small_gemm_f32)},
                              .f64 = {TG_EACH_LEVEL(avx512, tg_small_gemm_f64)}};
static const kernels few = {.f32 = {TG_EACH_LEVEL(avx2, tg_few_rows_gemm_f32)},
                            .f64 = {TG_EACH_LEVEL(avx2, tg_few_rows_gemm_f64)},
                            .bf16 = {TG_EACH_LEVEL(avx2, tg_few_rows_of_bf16_f32)}};
static const kernels blas = {.f32 = {tg_blas_gemm_f32}, .f64 = {tg_blas_gemm_f64}};

/* The multiplications that are worth the wake-up of a thread. */
#define GRAIN (96 * 64 * 64)

typedef struct choice {
    condition *fits;
    const kernels *kernels;
    int64_t grain; /* multiplications for each thread */
} choice;

/* The first that fits computes a product. A row of tests/bench/special_cases.md is in quotes. */
static const choice choices[] = {
    {is_small, &small, GRAIN},      /* a copy of B would take longer than the product */
    {has_few_rows, &few, TG_GRAIN}, /* BLAS copies B: "products of a few rows read the weight where it is" */
    {is_row, &by_rows, TG_GRAIN},   /* likewise, in the order of the built-in loops */
    {is_builtin, &tiles, GRAIN},    /* of many rows */
    {is_any, &blas, GRAIN},         /* likewise, where BLAS has kernels for the processor */
};

static const choice *choose(const tg_gemm *g, bool builtin)
{
    const choice *c = choices;
    while (!c->fits(g, builtin)) {
        c++;
    }
    return c;
}

/* Returns whether reproducible multiply-adds have to be computed by other means. */
static bool is_exact(int level)
{
#if defined TG_HAS_FMA
    (void)level;
    return false;
#else
    return tg_thread_mode && level == TG_CPU_BASELINE;
#endif
}

/* ---- the blocks of C ---- */

/* Blocks begin at a multiple of these, so that a tile of a kernel is not cut. */
#define BLOCK_ROWS 24
#define BLOCK_COLUMNS 96
#define COPY 16

typedef struct product {
    tg_gemm g;
    const char *a, *b;
    char *c;
    size_t size, b_size; /* of a value */
    bool is_converted;   /* whether B is bf16, and the kernel's floats */
    tg_gemm_kernel *kernel;
    int64_t row_blocks, column_blocks;
} product;

/* Returns the begin of block number i of `blocks`; that of number `blocks` is the end. */
static int64_t block_begin(int64_t size, int64_t blocks, int64_t i, int64_t multiple)
{
    int64_t units = (size + multiple - 1) / multiple, begin = units * i / blocks * multiple;
    return begin < size ? begin : size;
}

/* The terms of a block: a multiple of those that the built-in loops add up before they add to C, so that the bits are
 * those of the whole product. */
#define BLOCK_DEPTH ((int64_t)3 * 384)

/* Computes a product of floats with B in bf16 by way of blocks of B, which are converted, and stay in the cache. For a
 * few rows a block has all terms if 16 columns of these fit: so B is read from its begin to its end. */
static void multiply_bf16(tg_gemm_kernel *kernel, const tg_gemm *g, const float *a, const uint16_t *b, float *c)
{
    static tg_conversion *const convert[] = {TG_EACH_LEVEL(avx512, tg_floats_of_bf16)};
    float column[BLOCK_DEPTH], *memory = tg_builtin_memory(), *block = column;
    int64_t room = BLOCK_DEPTH;
    if (memory) {
        block = memory + (TG_BUILTIN_MEMORY + TG_BUILTIN_PANEL) / sizeof *block;
        room = TG_BUILTIN_BLOCK / sizeof *block;
    }
    const bool by_columns = g->b_layout == TG_TRANSPOSED;
    const int64_t depth = g->k <= room / (g->m > 16 && g->n > 16 ? g->n : 16) ? room : BLOCK_DEPTH;
    tg_gemm part = *g;
    for (int64_t term = 0; term == 0 || term < g->k; term += depth) {
        part.k = least(depth, g->k - term);
        part.add = g->add || term > 0;
        const int64_t most = part.k > 0 ? room / part.k : g->n;
        for (int64_t first = 0; first < g->n; first += part.n) {
            part.n = least(most, g->n - first);
            part.ldb = by_columns ? part.k : part.n;
            convert[tg_level()](block, b + (by_columns ? first * g->ldb + term : term * g->ldb + first),
                                by_columns ? part.n : part.k, part.ldb, g->ldb);
            kernel(&part, a + term * (g->transpose_a ? g->lda : 1), block, c + first);
        }
    }
}

static void multiply_blocks(void *context, int64_t begin, int64_t end)
{
    const product *p = context;
    for (int64_t block = begin; block < end; block++) {
        int64_t i = block / p->column_blocks, j = block % p->column_blocks;
        int64_t row = block_begin(p->g.m, p->row_blocks, i, BLOCK_ROWS);
        int64_t column = block_begin(p->g.n, p->column_blocks, j, BLOCK_COLUMNS);
        tg_gemm part = p->g;
        part.m = block_begin(p->g.m, p->row_blocks, i + 1, BLOCK_ROWS) - row;
        part.n = block_begin(p->g.n, p->column_blocks, j + 1, BLOCK_COLUMNS) - column;
        int64_t a = row * (part.transpose_a ? 1 : part.lda),
                b = column * (part.b_layout == TG_ROW_MAJOR ? 1 : part.ldb);
        const void *from_a = p->a + (size_t)a * p->size, *from_b = p->b + (size_t)b * p->b_size;
        void *to = p->c + (size_t)(row * part.ldc + column) * p->size;
        if (p->is_converted) {
            multiply_bf16(p->kernel, &part, from_a, from_b, to);
        } else {
            p->kernel(&part, from_a, from_b, to);
        }
    }
}

/* Returns the size of the largest of `blocks` blocks. */
static double block_most(int64_t size, int64_t blocks, int64_t multiple)
{
    int64_t units = (size + multiple - 1) / multiple;
    return (double)least(size, (units + blocks - 1) / blocks * multiple);
}

/* Sets the numbers of blocks: at most `most`, of a form for which the largest takes the least time. A copy of its
 * columns of B, and of its rows of A, takes as long as COPY rows, or columns, of C. */
static void divide(product *p, int64_t grain, int64_t most)
{
    const tg_gemm *g = &p->g;
    double multiplications = (double)g->m * (double)g->n * (double)g->k, best = INFINITY;
    int64_t threads =
        multiplications < (double)most * (double)grain ? (int64_t)(multiplications / (double)grain) : most;
    for (int64_t rows = 1; rows <= least(threads, (g->m + BLOCK_ROWS - 1) / BLOCK_ROWS); rows++) {
        int64_t columns = least(threads / rows, (g->n + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS);
        double height = block_most(g->m, rows, BLOCK_ROWS), width = block_most(g->n, columns, BLOCK_COLUMNS);
        double time = (height + COPY) * (width + COPY);
        if (time < best) {
            best = time;
            p->row_blocks = rows;
            p->column_blocks = columns;
        }
    }
}

/* Turns a column of C into a row of its transpose: (A b)^T = b^T A^T. */
static void transpose(product *p)
{
    const tg_gemm g = p->g;
    const char *a = p->a;
    p->g.m = 1;
    p->g.n = g.m;
    p->g.transpose_a = g.b_layout == TG_ROW_MAJOR;
    p->g.b_layout = g.transpose_a ? TG_ROW_MAJOR : TG_TRANSPOSED;
    p->g.lda = g.ldb;
    p->g.ldb = g.lda;
    p->g.ldc = g.m;
    p->a = p->b;
    p->b = a;
}

static void multiply(const tg_gemm *g, const void *a, const void *b, void *c, size_t size, size_t b_size)
{
    const int level = tg_level();
    const bool builtin = tg_thread_mode || tg_get_matmul_backend() == TG_BACKEND_BUILTIN;
    product p = {*g, a, b, c, size, b_size, b_size < size, NULL, 1, 1};
    if (g->n == 1 && g->m > 1 && g->ldc <= 1 && size == b_size) {
        transpose(&p);
    }
    const choice *chosen = choose(&p.g, builtin);
    tg_gemm_kernel *const *versions = size == sizeof(double) ? chosen->kernels->f64 : chosen->kernels->f32;
    p.kernel = versions[level] ? versions[level] : versions[0];
    p.g.exact = is_exact(level);
    if (p.is_converted && chosen->kernels->bf16[level] && p.g.b_layout == TG_TRANSPOSED && !p.g.exact) {
        p.kernel = chosen->kernels->bf16[level];
        p.is_converted = false;
    }
    if (g->in_thread) {
        multiply_blocks(&p, 0, 1);
        return;
    }
    divide(&p, chosen->grain, chosen->kernels == &blas ? least(tg_threads(), tg_blas_callers()) : tg_threads());
    tg_parallel_for(p.row_blocks * p.column_blocks, 1, multiply_blocks, &p);
}

void tg_gemm_f32(const tg_gemm *g, const float *a, const float *b, float *c)
{
    multiply(g, a, b, c, sizeof(float), sizeof(float));
}

void tg_gemm_f64(const tg_gemm *g, const double *a, const double *b, double *c)
{
    multiply(g, a, b, c, sizeof(double), sizeof(double));
}

void tg_gemm_bf16(const tg_gemm *g, const float *a, const uint16_t *b, float *c)
{
    multiply(g, a, b, c, sizeof(float), sizeof(uint16_t));
}

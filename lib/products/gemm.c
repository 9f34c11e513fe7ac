/* gemm: divides matrix products among the library's threads, and chooses the backend (gemm.h). */
#include "products/gemm.h"

#include <tapegrad/extend.h>

#include "base/least.h"
#include "base/parallel.h"
#include "math/fma.h"

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

bool tg_products_are_builtin(void)
{
    return tg_thread_mode || tg_get_matmul_backend() == TG_BACKEND_BUILTIN;
}

bool tg_products_are_exact(void)
{
#if defined TG_HAS_FMA
    return false;
#else
    return tg_thread_mode && tg_level() == TG_CPU_BASELINE;
#endif
}

static tg_gemm_kernel *kernel_f32(void)
{
    static tg_gemm_kernel *const builtin[] = {TG_EACH_WIDE_LEVEL(tg_builtin_gemm_f32)};
    return !tg_products_are_builtin() ? tg_blas_gemm_f32
           : tg_products_are_exact()  ? tg_builtin_gemm_f32_exact
                                      : builtin[tg_level()];
}

static tg_gemm_kernel *kernel_f64(void)
{
    static tg_gemm_kernel *const builtin[] = {TG_EACH_WIDE_LEVEL(tg_builtin_gemm_f64)};
    return !tg_products_are_builtin() ? tg_blas_gemm_f64
           : tg_products_are_exact()  ? tg_builtin_gemm_f64_exact
                                      : builtin[tg_level()];
}

/* ---- the blocks of C ---- */

/* The multiplications that are worth the wake-up of a thread. */
#define GRAIN (64 * 64 * 64)

/* Blocks begin at a multiple of these, so that a tile of a backend is not cut. */
#define BLOCK_ROWS 48
#define BLOCK_COLUMNS 96

typedef struct product {
    const tg_gemm *g;
    const char *a, *b;
    char *c;
    bool add;
    size_t size; /* of a value */
    tg_gemm_kernel *kernel;
    int64_t row_blocks, column_blocks;
} product;

/* Returns the begin of block number i of `blocks`; that of number `blocks` is the end. */
static int64_t block_begin(int64_t size, int64_t blocks, int64_t i, int64_t multiple)
{
    int64_t units = (size + multiple - 1) / multiple, begin = units * i / blocks * multiple;
    return begin < size ? begin : size;
}

static void multiply_blocks(void *context, int64_t begin, int64_t end)
{
    const product *p = context;
    for (int64_t block = begin; block < end; block++) {
        int64_t i = block / p->column_blocks, j = block % p->column_blocks;
        int64_t row = block_begin(p->g->m, p->row_blocks, i, BLOCK_ROWS);
        int64_t column = block_begin(p->g->n, p->column_blocks, j, BLOCK_COLUMNS);
        tg_gemm part = *p->g;
        part.m = block_begin(p->g->m, p->row_blocks, i + 1, BLOCK_ROWS) - row;
        part.n = block_begin(p->g->n, p->column_blocks, j + 1, BLOCK_COLUMNS) - column;
        int64_t a = row * (part.transpose_a ? 1 : part.lda), b = column * (part.transpose_b ? part.ldb : 1);
        p->kernel(&part, p->a + (size_t)a * p->size, p->b + (size_t)b * p->size, p->add,
                  p->c + (size_t)(row * part.ldc + column) * p->size);
    }
}

/* Sets the numbers of blocks: as many as there are threads, of a form for which A and B are read the least. */
static void divide(product *p)
{
    const tg_gemm *g = p->g;
    double multiplications = (double)g->m * (double)g->n * (double)g->k;
    int64_t most = tg_products_are_builtin() ? tg_threads() : least(tg_threads(), tg_blas_callers());
    int64_t threads = multiplications < (double)most * GRAIN ? (int64_t)(multiplications / GRAIN) : most;
    double best = 0;
    p->row_blocks = p->column_blocks = 1;
    for (int64_t rows = 1; rows <= threads; rows++) {
        int64_t columns = least(threads / rows, (g->n + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS);
        if (rows <= (g->m + BLOCK_ROWS - 1) / BLOCK_ROWS) {
            double speed = (double)(rows * columns),
                   read = (double)g->m / (double)rows + (double)g->n / (double)columns;
            if (speed / read > best) {
                best = speed / read;
                p->row_blocks = rows;
                p->column_blocks = columns;
            }
        }
    }
}

static void multiply(product *p)
{
    divide(p);
    tg_parallel_for(p->row_blocks * p->column_blocks, 1, multiply_blocks, p);
}

void tg_gemm_f32(const tg_gemm *g, const float *a, const float *b, bool add, float *c)
{
    product p = {g, (const char *)a, (const char *)b, (char *)c, add, sizeof *a, kernel_f32(), 1, 1};
    multiply(&p);
}

void tg_gemm_f64(const tg_gemm *g, const double *a, const double *b, bool add, double *c)
{
    product p = {g, (const char *)a, (const char *)b, (char *)c, add, sizeof *a, kernel_f64(), 1, 1};
    multiply(&p);
}

void tg_gemm_in_thread_f32(const tg_gemm *g, const float *a, const float *b, bool add, float *c)
{
    kernel_f32()(g, a, b, add, c);
}

void tg_gemm_in_thread_f64(const tg_gemm *g, const double *a, const double *b, bool add, double *c)
{
    kernel_f64()(g, a, b, add, c);
}

/* few_rows: the products that few_rows.h describes.
 *
 * A product of a row of A and a row of B is a sum in 32 lanes, joined in a fixed tree: the same bits at every level and
 * for every number of rows. What differs is which of these sums are computed together.
 *
 * - A group of rows (8 in f32 with AVX-512): each row of B meets all of them, whose lanes stay in registers. Rows that
 *   are a power of two apart would push each other out of the cache, so they are copied first, 32 values of each in
 *   turn. The loop is slower than the memory, and B is read ahead by 16 KB.
 * - Fewer rows: two columns of C, from halves of B that lie apart. The processor reads both halves ahead by itself, as
 *   it would not with neighboring rows of B in turn; and while one sum is joined, the other goes on.
 */
#include "ops/linear_algebra/few_rows.h"

#if defined TG_LEVEL_AVX512
#define VECTOR_BYTES 64
#elif defined TG_LEVEL_AVX2
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define VECTOR_LANES ((int)(VECTOR_BYTES / sizeof(real)))

typedef real vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(real)), may_alias));

/* ---- sums ---- */

#define DOT_LANES 32
#define PARTS (DOT_LANES / VECTOR_LANES)

/* The rows whose sums stay in registers, with one column, and with two: 8 and 4 in f32 with AVX-512. */
#define GROUP (VECTOR_BYTES == 64 ? 16 / PARTS : 1)
#define TILE_ROWS (GROUP > 1 ? GROUP / 2 : 1)
#define BYTES_AHEAD 16384

typedef struct product {
    const tg_gemm *g;
    const real *a, *b;
    bool add;
    real *c;
} product;

typedef real vector16 __attribute__((vector_size(16 * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef real vector8 __attribute__((vector_size(8 * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef real vector4 __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));

/* Returns the sum of the lanes, and of the products of the last n values of two rows, fewer than there are lanes. */
static inline __attribute__((always_inline)) real sum_of(const vector lanes[PARTS], const real *a, const real *b,
                                                         int64_t n)
{
    real lane[DOT_LANES];
    memcpy(lane, lanes, sizeof lane);
    for (int64_t i = 0; i < n; i++) {
        lane[i] += a[i] * b[i];
    }
    *(vector16 *)lane += *(const vector16 *)(lane + 16);
    *(vector8 *)lane += *(const vector8 *)(lane + 8);
    *(vector4 *)lane += *(const vector4 *)(lane + 4);
    return (lane[0] + lane[2]) + (lane[1] + lane[3]);
}

static inline void store(const product *p, int64_t row, int64_t column, real sum)
{
    real *c = p->c + row * p->g->ldc + column;
    *c = p->add ? *c + sum : sum;
}

/* Computes `rows` times `columns` values of C, of columns that are `apart`. Both numbers are constants in each call. */
static inline __attribute__((always_inline)) void multiply_tile(int rows, int columns, const product *p, int64_t row,
                                                                int64_t column, int64_t apart)
{
    const int64_t n = p->g->k, lda = p->g->lda, ldb = apart * p->g->ldb;
    const real *a = p->a + row * lda, *b = p->b + column * p->g->ldb;
    vector lanes[TILE_ROWS][2][PARTS];
    for (int i = 0; i < rows * columns * PARTS; i++) {
        lanes[i / PARTS / columns][i / PARTS % columns][i % PARTS] = (vector){0};
    }
    int64_t at = 0;
    for (; at + DOT_LANES <= n; at += DOT_LANES) {
        for (int part = 0; part < PARTS; part++) {
            for (int i = 0; i < rows; i++) {
                const vector of_a = *(const vector *)(a + i * lda + at + part * VECTOR_LANES);
                for (int j = 0; j < columns; j++) {
                    lanes[i][j][part] += of_a * *(const vector *)(b + j * ldb + at + part * VECTOR_LANES);
                }
            }
        }
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            store(p, row + i, column + j * apart, sum_of(lanes[i][j], a + i * lda + at, b + j * ldb + at, n - at));
        }
    }
}

/* The same for the rows from `row` on. */
static inline __attribute__((always_inline)) void multiply_rows(int columns, const product *p, int64_t row,
                                                                int64_t column, int64_t apart)
{
    for (; row + TILE_ROWS <= p->g->m; row += TILE_ROWS) {
        multiply_tile(TILE_ROWS, columns, p, row, column, apart);
    }
    for (; row < p->g->m; row++) {
        multiply_tile(1, columns, p, row, column, apart);
    }
}

/* Computes GROUP values of a column of C; `copied` are the rows of A. */
static inline void multiply_group(const product *p, const real *copied, int64_t row, int64_t column)
{
    const int64_t n = p->g->k;
    const real *a = p->a + row * p->g->lda, *b = p->b + column * p->g->ldb;
    vector lanes[GROUP][PARTS];
    for (int i = 0; i < GROUP * PARTS; i++) {
        lanes[i / PARTS][i % PARTS] = (vector){0};
    }
    int64_t at = 0;
    for (; at + DOT_LANES <= n; at += DOT_LANES, copied += GROUP * DOT_LANES) {
        for (int part = 0; part < PARTS; part++) {
            const vector of_b = *(const vector *)(b + at + part * VECTOR_LANES);
            __builtin_prefetch((const char *)(b + at + part * VECTOR_LANES) + BYTES_AHEAD, 0, 2);
            for (int i = 0; i < GROUP; i++) {
                lanes[i][part] += *(const vector *)(copied + i * DOT_LANES + part * VECTOR_LANES) * of_b;
            }
        }
    }
    for (int i = 0; i < GROUP; i++) {
        store(p, row + i, column, sum_of(lanes[i], a + i * p->g->lda + at, b + at, n - at));
    }
}

/* Returns copies of the groups of rows, in memory of the thread; NULL if they are too few, or too long. */
static const real *copy_groups(const product *p)
{
    const int64_t chunks = p->g->k / DOT_LANES, rows = p->g->m / GROUP * GROUP;
    const bool fits = (uint64_t)(rows * chunks) <= TG_BUILTIN_MEMORY / (DOT_LANES * sizeof(real));
    real *copied = GROUP > 1 && rows > 0 && fits ? tg_builtin_memory() : NULL, *to = copied;
    for (int64_t row = 0; copied && row < rows; row += GROUP) {
        for (int64_t chunk = 0; chunk < chunks; chunk++) {
            for (int i = 0; i < GROUP; i++, to += DOT_LANES) {
                memcpy(to, p->a + (row + i) * p->g->lda + chunk * DOT_LANES, DOT_LANES * sizeof *to);
            }
        }
    }
    return copied;
}

/* Computes the columns begin .. end - 1 of C. */
static void multiply_columns(void *context, int64_t begin, int64_t end)
{
    const product *p = context;
    const int64_t group_values = p->g->k / DOT_LANES * DOT_LANES * GROUP, half = (end - begin) / 2;
    const real *copied = copy_groups(p);
    int64_t column = begin;
    for (; !copied && column < begin + half; column++) {
        multiply_rows(2, p, 0, column, half);
    }
    for (column = copied ? begin : begin + 2 * half; column < end; column++) {
        int64_t row = 0;
        for (; copied && row + GROUP <= p->g->m; row += GROUP) {
            multiply_group(p, copied + row / GROUP * group_values, row, column);
        }
        multiply_rows(1, p, row, column, 0);
    }
}

void KERNEL(tg_multiply_few_rows)(const tg_gemm *g, const real *a, const real *b, bool add, real *c)
{
    product p = {g, a, b, add, c};
    tg_parallel_for(g->n, 1 + TG_GRAIN / (1 + g->m * g->k), multiply_columns, &p);
}

/* ---- a row times a row-major matrix ---- */

/* The columns whose sums stay in registers: 64 or fewer. */
#define SUM_VECTORS (VECTOR_BYTES == 64 ? 4 : 8)
#define SUM_COLUMNS (SUM_VECTORS * VECTOR_LANES)

static void add_sums(int64_t k, const real *a, const real *b, int64_t ldb, real *c)
{
    vector sum[SUM_VECTORS];
    memcpy(sum, c, sizeof sum);
    for (int64_t i = 0; i < k; i++) {
        for (int v = 0; v < SUM_VECTORS; v++) {
            sum[v] += a[i] * *(const vector *)(b + i * ldb + v * VECTOR_LANES);
        }
    }
    memcpy(c, sum, sizeof sum);
}

void KERNEL(tg_add_row_product)(const tg_gemm *g, const real *a, const real *b, real *c)
{
    int64_t column = 0;
    for (; column + SUM_COLUMNS <= g->n; column += SUM_COLUMNS) {
        add_sums(g->k, a, b + column, g->ldb, c + column);
    }
    for (; column < g->n; column++) {
        for (int64_t i = 0; i < g->k; i++) {
            c[column] += a[i] * b[i * g->ldb + column];
        }
    }
}

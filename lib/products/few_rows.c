/* few_rows: C = A B^T for a matrix A of a few rows, where the backend is BLAS.
 *
 * When a model generates text, the next token of each sequence is one row, and the step reads every weight once, and
 * the keys and values of all tokens before: its time is that of reading them. BLAS copies B into another order before
 * it multiplies, which takes longer than so few products. Here B is read where it is.
 *
 * A product of a row of A and a row of B is a sum in 16 lanes, joined in a fixed tree: the same bits at every level and
 * for every number of rows. What differs is which of these sums are computed together: those of a tile of C, whose
 * lanes stay in registers, so that each vector of A and of B is read once for several sums.
 *
 * B may be bf16. Its values are then floats as soon as they are read, with the same sums.
 *
 * - For one or two rows, the columns of a tile lie a third of B apart. The processor reads three long streams ahead by
 *   itself, and as fast as memory allows, but not three that take turns, as neighboring rows of B would.
 * - For more rows it would not read far enough ahead, because each vector of B takes longer. So the columns are
 *   neighbors, and the program asks for B 16 KB ahead.
 */
#include "base/vector.h"
#include "products/kernels.h"

/* ---- tiles ---- */

#define DOT_LANES 16
#define DOT_PARTS (DOT_LANES / VECTOR_LANES)

/* The sums of a tile are 24 vectors, of 32 registers, or 12 of 16: 8 x 3 values in f32 with AVX-512. */
#define DOT_SUMS (VECTOR_BYTES == 64 ? 24 : 12)
#define DOT_COLUMNS (DOT_PARTS > DOT_SUMS / 3 ? 1 : 3)
#define DOT_ROWS (DOT_SUMS / DOT_COLUMNS / DOT_PARTS)
#define DOT_BYTES_AHEAD 16384

typedef struct product {
    const tg_gemm *g;
    const real *a;
    const char *b;
    real *c;
} product;

typedef real vector8 __attribute__((vector_size(8 * sizeof(real)), aligned(sizeof(real)), may_alias));
typedef real vector4 __attribute__((vector_size(4 * sizeof(real)), aligned(sizeof(real)), may_alias));

/* Returns the sum of the lanes. */
static inline __attribute__((always_inline)) real sum_of(const vector lanes[DOT_PARTS])
{
    real lane[DOT_LANES];
    memcpy(lane, lanes, sizeof lane);
    const vector8 eight = *(const vector8 *)lane + *(const vector8 *)(lane + 8);
    memcpy(lane, &eight, sizeof eight);
    const vector4 four = *(const vector4 *)lane + *(const vector4 *)(lane + 4);
    return (four[0] + four[2]) + (four[1] + four[3]);
}

typedef float floats __attribute__((vector_size(VECTOR_LANES * sizeof(float))));
typedef uint32_t words __attribute__((vector_size(VECTOR_LANES * sizeof(float))));

/* Reads a vector of B, whose values have `size` bytes: those of a real, or 2 for bf16, the upper halves of floats. */
static inline __attribute__((always_inline)) vector read_b(size_t size, const char *b)
{
    const uint16_t *halves = (const void *)b;
    words bits = {0};
    if (size == sizeof(real)) {
        return *(const vector *)b;
    }
    for (int lane = 0; lane < VECTOR_LANES; lane++) { /* gcc 12 has more instructions for a conversion of vectors */
        bits[lane] = (uint32_t)halves[lane] << 16;
    }
    return __builtin_convertvector((floats)bits, vector);
}

/* Adds DOT_LANES products to each sum of a tile. The distances are in values for A, and in bytes for B. */
static inline __attribute__((always_inline)) void add_terms(int64_t size, int rows, int columns, const real *a,
                                                            int64_t a_row, const char *b, int64_t b_column,
                                                            vector lanes[DOT_ROWS][DOT_COLUMNS][DOT_PARTS])
{
#pragma GCC unroll 8
    for (int part = 0; part < DOT_PARTS; part++) {
        vector of_b[DOT_COLUMNS];
        for (int j = 0; j < columns; j++) {
            of_b[j] = read_b((size_t)size, b + j * b_column + part * VECTOR_LANES * size);
        }
        for (int i = 0; i < rows; i++) {
            /* volatile: gcc would read it again for each column */
            const vector of_a = *(const volatile vector *)(a + i * a_row + part * VECTOR_LANES);
            for (int j = 0; j < columns; j++) {
                lanes[i][j][part] += of_a * of_b[j];
            }
        }
    }
}

/* Computes a tile of C, of columns that are `apart`. The first three numbers are constants in each call. */
static inline __attribute__((always_inline)) void
dot_multiply_tile(int64_t size, int rows, int columns, const product *p, int64_t row, int64_t column, int64_t apart)
{
    const int64_t n = p->g->k, lda = p->g->lda, b_column = apart * p->g->ldb * size;
    const real *a = p->a + row * lda;
    const char *b = p->b + column * p->g->ldb * size;
    vector lanes[DOT_ROWS][DOT_COLUMNS][DOT_PARTS];
    for (int i = 0; i < rows * columns * DOT_PARTS; i++) {
        lanes[i / DOT_PARTS / columns][i / DOT_PARTS % columns][i % DOT_PARTS] = (vector){0};
    }
    int64_t at = 0;
    for (; at + DOT_LANES <= n; at += DOT_LANES) {
        for (int j = 0; j < columns && apart == 1; j++) {
            for (int64_t line = 0; line < DOT_LANES * size; line += 64) {
                __builtin_prefetch(b + j * b_column + at * size + line + DOT_BYTES_AHEAD, 0, 2);
            }
        }
        add_terms(size, rows, columns, a + at, lda, b + at * size, b_column, lanes);
    }
    if (at < n) { /* the last values, and zeros */
        const size_t rest = (size_t)(n - at);
        real last_a[DOT_ROWS][DOT_LANES] = {{0}}, last_b[DOT_COLUMNS][DOT_LANES] = {{0}};
        for (int i = 0; i < rows; i++) {
            memcpy(last_a[i], a + i * lda + at, rest * sizeof(real));
        }
        for (int j = 0; j < columns; j++) {
            memcpy(last_b[j], b + j * b_column + at * size, rest * (size_t)size);
        }
        add_terms(size, rows, columns, last_a[0], DOT_LANES, (const char *)last_b, sizeof *last_b, lanes);
    }
    for (int i = 0; i < rows; i++) {
        for (int j = 0; j < columns; j++) {
            const real sum = sum_of(lanes[i][j]);
            real *c = p->c + (row + i) * p->g->ldc + column + j * apart;
            *c = p->g->add ? *c + sum : sum;
        }
    }
}

/* ---- columns of C ---- */

/* Returns the rows of the next tile, where `left` rows are left: a power of two. */
static inline int64_t next_rows(int64_t left)
{
    int64_t rows = DOT_ROWS;
    while (rows > left) {
        rows /= 2;
    }
    return rows;
}

/* Computes `columns` columns of C that are `apart`. The first two numbers are constants in each call. */
static inline __attribute__((always_inline)) void dot_multiply_rows(int64_t size, int columns, const product *p,
                                                                    int64_t column, int64_t apart)
{
    for (int64_t row = 0, rows; row < p->g->m; row += rows) {
        rows = next_rows(p->g->m - row);
        if (rows == DOT_ROWS) {
            dot_multiply_tile(size, DOT_ROWS, columns, p, row, column, apart);
        } else if (DOT_ROWS > 4 && rows == 4) {
            dot_multiply_tile(size, 4, columns, p, row, column, apart);
        } else if (DOT_ROWS > 2 && rows == 2) {
            dot_multiply_tile(size, 2, columns, p, row, column, apart);
        } else {
            dot_multiply_tile(size, 1, columns, p, row, column, apart);
        }
    }
}

/* `size` is a constant in each call. */
static inline __attribute__((always_inline)) void multiply_few_rows(int64_t size, const tg_gemm *g, const void *a,
                                                                    const void *b, void *c)
{
    const product p = {g, a, b, c};
    const int64_t tiles = g->n / DOT_COLUMNS, apart = g->m <= 2 ? tiles : 1;
    for (int64_t tile = 0; tile < tiles; tile++) {
        dot_multiply_rows(size, DOT_COLUMNS, &p, tile * (apart == 1 ? DOT_COLUMNS : 1), apart);
    }
    for (int64_t column = tiles * DOT_COLUMNS; column < g->n; column++) {
        dot_multiply_rows(size, 1, &p, column, 1);
    }
}

void KERNEL(tg_few_rows_gemm)(const tg_gemm *g, const void *a, const void *b, void *c)
{
    multiply_few_rows(sizeof(real), g, a, b, c);
}

#if defined TG_REAL_F32

void KERNEL(tg_few_rows_of_bf16)(const tg_gemm *g, const void *a, const void *b, void *c)
{
    multiply_few_rows(sizeof(uint16_t), g, a, b, c);
}

#endif

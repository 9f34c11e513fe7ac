/* exact_tile: the sums of a tile whose fused multiply-adds are computed by other means, two values at a time. */
#include "products/exact_tile.h"

#if !defined TG_HAS_FMA

typedef double two __attribute__((vector_size(16)));
typedef int64_t two_bits __attribute__((vector_size(16)));
typedef int32_t four_bits __attribute__((vector_size(16)));
typedef real two_values __attribute__((vector_size(2 * sizeof(real)), aligned(sizeof(real)), may_alias));

/* As in math/fma.h, for two values. A comparison is -1 or 0. */
static inline two odd_of(two sum, two error)
{
    const two_bits bits = (two_bits)sum, is_negative = (two_bits)(sum < 0);
    const two_bits away = ((two_bits)(error < 0) - (two_bits)(error > 0)) ^ is_negative;
    return (two)(bits + ((away - is_negative) & ((bits & 1) - 1)));
}

static inline two error_of(two a, two b, two sum)
{
    const two of_b = sum - a;
    return (a - (sum - of_b)) + (b - of_b);
}

static inline two two_of(const real *values)
{
    return __builtin_convertvector(*(const two_values *)values, two);
}

enum { PAIRS = VECTOR_LANES / 2 };

/* Of numbers that are all 0 the smallest is infinite. */
static inline void extend(gemm_range *r, real value)
{
    double size = fabs((double)value);
    r->least = size > 0 && size < r->least ? size : r->least;
    r->largest = size > r->largest ? size : r->largest;
}

gemm_range TYPED(tg_exact_range)(const gemm_factors *f)
{
    gemm_range r = {(double)INFINITY, 0};
    for (int64_t term = 0; term < f->terms; term++) {
        for (int j = 0; j < GEMM_COLUMNS; j++) {
            extend(&r, f->b[term * f->b_step + j]);
        }
    }
    return r;
}

#if defined TG_REAL_F32

/* The factors are read where they are. */
typedef two split;

static inline split split_of(two x)
{
    return x;
}

/* Returns a b + sum. */
static inline two add_product(split a, split b, two sum)
{
    const two product = a * b, next = product + sum;
    const two_values rounded = __builtin_convertvector(odd_of(next, error_of(product, sum, next)), two_values);
    return __builtin_convertvector(rounded, two);
}

/* Returns whether sums can be rounded like normal numbers: they cannot overflow, and products are whole multiples of
 * the smallest subnormal number. */
static inline bool is_plain(gemm_range a, gemm_range b)
{
    return a.largest * b.largest < 0x1p118 && a.least * b.least >= 0x1p-101;
}

/* Computes the sums of two columns. Each sum of a product is a double that is rounded again, to 24 bits. That is right
 * unless the double is in the middle between two floats. Returns false if one is. Two columns at a time: more than
 * these sums and a mark for each row do not fit into the registers. */
static inline __attribute__((always_inline)) bool sum_quickly(int rows, const two *a, const gemm_factors *f, int column,
                                                              two sum[GEMM_ROWS])
{
    const two_bits half = {0x10000000, 0x10000000}, upper = ~(two_bits){0x1fffffff, 0x1fffffff};
    const real *b = f->b + column;
    four_bits is_middle[GEMM_ROWS]; /* the upper halves are always equal */
    for (int i = 0; i < rows; i++) {
        sum[i] = (two){0, 0};
        is_middle[i] = (four_bits){0, 0, 0, 0};
    }
    for (int64_t term = 0; term < f->terms; term++, b += f->b_step, a += GEMM_ROWS) {
        const two of_b = {(double)b[0], (double)b[1]};
        for (int i = 0; i < rows; i++) {
            const two_bits next = (two_bits)(a[i] * of_b + sum[i]) + half;
            sum[i] = (two)(next & upper);
            is_middle[i] |= (four_bits)next == (four_bits)sum[i];
        }
    }
    for (int i = 1; i < rows; i++) {
        is_middle[0] |= is_middle[i];
    }
    return ((two_bits)is_middle[0])[0] != -1 && ((two_bits)is_middle[0])[1] != -1;
}

#else

/* A factor is the sum of two numbers with half of its bits. */
typedef struct split {
    two all, upper, lower;
} split;

static inline split split_of(two x)
{
    const two scaled = 0x8000001p0 * x, upper = scaled - (scaled - x);
    return (split){x, upper, x - upper};
}

static inline two add_product(split a, split b, two sum)
{
    const two product = a.all * b.all;
    const two rest = a.upper * b.upper - product + a.upper * b.lower + a.lower * b.upper + a.lower * b.lower;
    const two low = sum + rest, low_error = error_of(sum, rest, low);
    const two high = product + low, error = error_of(product, low, high), tail = error + low_error;
    return high + odd_of(tail, error_of(error, low_error, tail));
}

/* Returns whether the sums can be computed by add_product: the numbers are neither too large nor too small. */
static inline bool is_plain(gemm_range a, gemm_range b)
{
    return a.largest <= 0x1p450 && b.largest <= 0x1p450 && a.least >= 0x1p-450 && b.least >= 0x1p-450;
}

#endif

/* Computes the sums of a vector's columns. */
static inline __attribute__((always_inline)) void sum_exactly(int rows, const two *a, const gemm_factors *f, int v,
                                                              two sum[GEMM_ROWS][PAIRS])
{
    for (int i = 0; i < rows; i++) {
        for (int pair = 0; pair < PAIRS; pair++) {
            sum[i][pair] = (two){0, 0};
        }
    }
    for (int64_t term = 0; term < f->terms; term++) {
        const real *b = f->b + term * f->b_step + v * VECTOR_LANES;
        split of_b[PAIRS];
        for (int pair = 0; pair < PAIRS; pair++) {
            of_b[pair] = split_of(two_of(b + 2 * pair));
        }
        for (int i = 0; i < rows; i++) {
            const split of_a = split_of(a[term * GEMM_ROWS + i]);
            for (int pair = 0; pair < PAIRS; pair++) {
                sum[i][pair] = add_product(of_a, of_b[pair], sum[i][pair]);
            }
        }
    }
}

#if defined TG_REAL_F64

/* Computes them for numbers of any size, one by one. */
static void sum_one_by_one(int rows, const gemm_factors *f, int v, two sum[GEMM_ROWS][PAIRS])
{
    for (int i = 0; i < rows; i++) {
        for (int lane = 0; lane < VECTOR_LANES; lane++) {
            real total = 0;
            for (int64_t term = 0; term < f->terms; term++) {
                const real a = f->a[i * f->a_row + term * f->a_step];
                total = TYPED(tg_exact_fma)(a, f->b[term * f->b_step + v * VECTOR_LANES + lane], total);
            }
            sum[i][lane / 2][lane % 2] = total;
        }
    }
}

#endif

/* Computes the sums of a tile. The number of rows is a constant in each call. */
static inline __attribute__((always_inline)) void sum_tile(int rows, const gemm_factors *f,
                                                           vector sums[GEMM_ROWS][GEMM_VECTORS])
{
    two a[GEMM_DEPTH * GEMM_ROWS], sum[GEMM_ROWS][PAIRS];
    gemm_range of_a = {(double)INFINITY, 0};
    for (int64_t term = 0; term < f->terms; term++) {
        for (int i = 0; i < rows; i++) {
            const real value = f->a[i * f->a_row + term * f->a_step];
            extend(&of_a, value);
            a[term * GEMM_ROWS + i] = (two){(double)value, (double)value};
        }
    }
    const bool plain = is_plain(of_a, f->of_b);
    for (int v = 0; v < GEMM_VECTORS; v++) {
        bool is_done = false;
#if defined TG_REAL_F32
        for (int pair = 0; pair < PAIRS; pair++) {
            two of_pair[GEMM_ROWS];
            is_done = plain && (pair == 0 || is_done) && sum_quickly(rows, a, f, v * VECTOR_LANES + 2 * pair, of_pair);
            for (int i = 0; i < rows && is_done; i++) {
                sum[i][pair] = of_pair[i];
            }
        }
#else
        if (!plain) {
            sum_one_by_one(rows, f, v, sum);
            is_done = true;
        }
#endif
        if (!is_done) {
            sum_exactly(rows, a, f, v, sum);
        }
        for (int i = 0; i < rows; i++) {
            for (int lane = 0; lane < VECTOR_LANES; lane++) {
                sums[i][v][lane] = (real)sum[i][lane / 2][lane % 2];
            }
        }
    }
}

void TYPED(tg_exact_tile)(int rows, const gemm_factors *f, vector sums[GEMM_ROWS][GEMM_VECTORS])
{
    if (rows == 1) {
        sum_tile(1, f, sums);
    } else {
        sum_tile(GEMM_ROWS, f, sums);
    }
}

#endif

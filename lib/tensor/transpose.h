/* transpose (private): copies a tile of values whose rows and columns change places.
 *
 * Squares of values are transposed in registers of 16 bytes: one load, one store and two instructions between them for
 * each register, where a loop over values has a load and a store for each value. Compilers do not find that themselves.
 */
#ifndef TG_TENSOR_TRANSPOSE_H
#define TG_TENSOR_TRANSPOSE_H

#include "tensor/move.h"

#if defined __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define TG_HAS_SHUFFLES
#endif
#endif

/* The side of a square. */
#define TG_SQUARE ((int64_t)(16 / sizeof(word)))

#ifdef TG_HAS_SHUFFLES

typedef word tg_words __attribute__((vector_size(16), aligned(sizeof(word)), may_alias));

static inline tg_words load_words(const word *from)
{
    return *(const tg_words *)from;
}

static inline void store_words(word *to, tg_words values)
{
    *(tg_words *)to = values;
}

#endif

/* to[r,c] = from[c,r] for the rows and columns of a square. */
static inline void transpose_square(word *to, int64_t to_stride, const word *from, int64_t from_stride)
{
#if defined TG_HAS_SHUFFLES && defined TG_REAL_F32
    const tg_words a = load_words(from), b = load_words(from + from_stride), c = load_words(from + 2 * from_stride),
                   d = load_words(from + 3 * from_stride);
    const tg_words ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7),
                   cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    store_words(to, __builtin_shufflevector(ab, cd, 0, 1, 4, 5));
    store_words(to + to_stride, __builtin_shufflevector(ab, cd, 2, 3, 6, 7));
    store_words(to + 2 * to_stride, __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5));
    store_words(to + 3 * to_stride, __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7));
#elif defined TG_HAS_SHUFFLES
    const tg_words a = load_words(from), b = load_words(from + from_stride);
    store_words(to, __builtin_shufflevector(a, b, 0, 2));
    store_words(to + to_stride, __builtin_shufflevector(a, b, 1, 3));
#else
    for (int64_t c = 0; c < TG_SQUARE; c++) {
        for (int64_t r = 0; r < TG_SQUARE; r++) {
            to[r * to_stride + c] = from[c * from_stride + r];
        }
    }
#endif
}

/* to[r,c] = from[c,r], where the values of a column of `to` are neighbors in `from`. */
static inline void transpose_tile(word *to, int64_t to_stride, const word *from, int64_t from_stride, int64_t rows,
                                  int64_t columns)
{
    const int64_t whole_rows = rows - rows % TG_SQUARE, whole_columns = columns - columns % TG_SQUARE;
    for (int64_t c = 0; c < columns; c += TG_SQUARE) {
        int64_t r = 0;
        for (; c < whole_columns && r < whole_rows; r += TG_SQUARE) {
            transpose_square(to + r * to_stride + c, to_stride, from + c * from_stride + r, from_stride);
        }
        for (; r < rows; r++) {
            for (int64_t i = c; i < columns && i < c + TG_SQUARE; i++) {
                to[r * to_stride + i] = from[i * from_stride + r];
            }
        }
    }
}

#endif

/* bf16: copies of values of bf16 as floats, for a product (products/choose.c). */
#include "math/half.h"
#include "products/kernels.h"

/* The values of a line of the cache, and how far ahead they are fetched: the processor alone would read one stream too
 * slowly. */
enum { STEP = 32, AHEAD = 4096 };

void LEVEL(tg_floats_of_bf16)(float *to, const uint16_t *from, int64_t rows, int64_t width, int64_t distance)
{
    for (int64_t row = 0; row < rows; row++, to += width, from += distance) {
        int64_t i = 0;
        for (; i + STEP <= width; i += STEP) {
            __builtin_prefetch(from + i + AHEAD, 0, 2);
            for (int k = 0; k < STEP; k++) {
                to[i + k] = tg_from_bf16(from[i + k]);
            }
        }
        for (; i < width; i++) {
            to[i] = tg_from_bf16(from[i]);
        }
    }
}

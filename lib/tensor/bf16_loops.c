/* bf16_loops: the loops of bf16.h, a version per level (base/level.h). */
#include "tensor/bf16.h"

#include <string.h>

/* Returns the bits of x rounded to bf16. */
static inline uint16_t rounded(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t upper = bits >> 16, magnitude = bits & 0x7fffffff;
    uint32_t nearest = (bits + 0x7fff + (upper & 1)) >> 16;
    uint32_t number = magnitude < 0x00800000 ? upper & 0x8000 : nearest;
    return (uint16_t)(magnitude > 0x7f800000 ? upper | 0x40 : number);
}

void LEVEL(tg_round_to_bf16)(const float *from, int64_t stride, int64_t count, void *to)
{
    uint16_t *out = to;
    if (stride == 1) {
        for (int64_t i = 0; i < count; i++) {
            out[i] = rounded(from[i]);
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = rounded(from[i * stride]);
    }
}

void LEVEL(tg_round_to_float)(const float *from, int64_t stride, int64_t count, void *to)
{
    uint32_t *out = to;
    if (stride == 1) {
        for (int64_t i = 0; i < count; i++) {
            out[i] = (uint32_t)rounded(from[i]) << 16;
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        out[i] = (uint32_t)rounded(from[i * stride]) << 16;
    }
}

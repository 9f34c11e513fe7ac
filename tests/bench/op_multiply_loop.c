#include <stdint.h>

#include "base/level.h"

#if defined __AVX512F__
#define BYTES 64
#elif defined __AVX2__
#define BYTES 32
#else
#define BYTES 16
#endif

typedef float vector __attribute__((vector_size(BYTES)));

/* As many as hide the latency of an operation and fit into the registers of each level. */
enum { VECTORS = 12, LANES = BYTES / (int)sizeof(float) };

int64_t LEVEL(bench_multiply_loop)(int64_t rounds, float *values);

int64_t LEVEL(bench_multiply_loop)(int64_t rounds, float *values)
{
    vector x[VECTORS], factor, term;
    for (int lane = 0; lane < LANES; lane++) {
        factor[lane] = values[0];
        term[lane] = values[1];
    }
    for (int v = 0; v < VECTORS; v++) {
        x[v] = term;
    }
    for (int64_t round = 0; round < rounds; round++) {
        for (int v = 0; v < VECTORS; v++) {
            x[v] = x[v] * factor + term;
        }
    }
    for (int v = 1; v < VECTORS; v++) {
        x[0] += x[v];
    }
    values[2] = x[0][0];
    return (int64_t)2 * VECTORS * LANES;
}

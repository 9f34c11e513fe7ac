#include "bench/op_multiply.h"

#include "base/level.h"

typedef int64_t multiply_loop(int64_t rounds, float *values);

multiply_loop TG_EACH_LEVEL(avx2, bench_multiply_loop);

int64_t bench_multiply(int64_t rounds)
{
    static multiply_loop *const versions[] = {TG_EACH_LEVEL(avx2, bench_multiply_loop)};
    float values[3] = {0.5f, 1, 0};
    return versions[tg_level()](rounds, values);
}

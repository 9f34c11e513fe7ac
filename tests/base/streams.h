/* streams: shared by the tests of the random generator: comparison with the streams in goldens/random/streams.txt,
 * whose format is in tests/goldens/make_random.py. */
#ifndef TG_TESTS_STREAMS_H
#define TG_TESTS_STREAMS_H

#include "base/random.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 400000
#define COUNT(array) (int64_t)(sizeof(array) / sizeof(array)[0])

/* A stream in the making: values of `size` bytes, one after the other. */
typedef struct stream {
    int size;
    int64_t count;
    uint8_t *bytes;
} stream;

static inline stream stream_of(size_t size)
{
    stream s = {(int)size, 0, malloc(MOST * size)};
    assert_non_null(s.bytes);
    return s;
}

/* Adds `count` values to a stream, and returns the address to write them to. */
static inline void *stream_extend(stream *s, int64_t count)
{
    assert_true(s->count + count <= MOST);
    s->count += count;
    return s->bytes + (s->count - count) * s->size;
}

static inline uint64_t bits_at(const stream *s, int64_t i)
{
    uint32_t half;
    uint64_t bits;
    switch (s->size) {
    case 1: return s->bytes[i];
    case 4: memcpy(&half, s->bytes + i * 4, sizeof half); return half;
    default: memcpy(&bits, s->bytes + i * 8, sizeof bits); return bits;
    }
}

static inline uint64_t digest(const stream *s)
{
    uint64_t state = 0xcbf29ce484222325;
    for (int64_t i = 0; i < s->count; i++) {
        for (int b = 0; b < s->size; b++) { /* the lowest byte first, on every machine */
            state = (state ^ (bits_at(s, i) >> 8 * b & 0xff)) * 0x100000001b3;
        }
    }
    return state;
}

typedef struct golden {
    int size;
    long long count, stride, stored;
    unsigned long long digest, values[2000];
} golden;

static inline void read_golden(const char *name, golden *g)
{
    FILE *file = fopen(TG_TEST_GOLDENS "/random/streams.txt", "r");
    assert_non_null(file);
    char line[64];
    assert_int_equal(fscanf(file, "#%*[^\n]"), 0);
    bool found = false;
    while (!found && fscanf(file, "%63s", line) == 1) {
        assert_int_equal(
            fscanf(file, "%d %lld %lld %lld %llx", &g->size, &g->count, &g->stride, &g->stored, &g->digest), 5);
        assert_in_range(g->stored, 1, COUNT(g->values));
        for (int i = 0; i < g->stored; i++) {
            assert_int_equal(fscanf(file, "%llx", &g->values[i]), 1);
        }
        found = strcmp(line, name) == 0;
    }
    fclose(file);
    if (!found) {
        fail_msg("no stream %s among the goldens", name);
    }
}

/* Whether this libm is the one that PyTorch ran on, or at least gives the same bits. */
static inline bool is_same_libm(void)
{
    static int known = -1;
    if (known < 0) {
        stream s = stream_of(sizeof(double));
        for (int k = 1; k < 32768; k++) {
            double x = k / 32768.0, angle = k / 5215.0;
            float x32 = (float)x, angle32 = (float)angle;
            double values[] = {log1p(-x),
                               log(x),
                               sin(angle),
                               cos(angle),
                               (double)logf(x32),
                               (double)sinf(angle32),
                               (double)cosf(angle32)};
            memcpy(stream_extend(&s, COUNT(values)), values, sizeof values);
        }
        golden g;
        read_golden("libm", &g);
        known = digest(&s) == g.digest;
        free(s.bytes);
    }
    return known == 1;
}

static inline double as_double(uint64_t bits, int size)
{
    if (size == 4) {
        float value;
        uint32_t low = (uint32_t)bits;
        memcpy(&value, &low, sizeof value);
        return (double)value;
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Compares all bits, unless the stream went `through_libm` and this is another libm: then the stored values, to `ulps`
 * of the larger of value and `scale` (the mean that was added: what cancels keeps its error). Frees the stream. */
static inline void check_stream(stream s, const char *name, bool through_libm, double ulps, double scale)
{
    golden g;
    read_golden(name, &g);
    assert_int_equal(s.size, g.size);
    assert_int_equal(s.count, g.count);
    bool exact = !through_libm || is_same_libm();
    for (int i = 0; i < g.stored; i++) {
        uint64_t bits = bits_at(&s, i * g.stride);
        bool good = bits == g.values[i];
        if (!good && !exact) {
            double want = as_double(g.values[i], g.size), got = as_double(bits, g.size);
            double ulp = fmax(fabs(want), scale) * (g.size == 4 ? 0x1p-23 : 0x1p-52);
            good = fabs(got - want) <= ulps * ulp;
        }
        if (!good) {
            fail_msg("%s: value %lld is %llx, not %llx", name, i * g.stride, (unsigned long long)bits, g.values[i]);
        }
    }
    if (exact && digest(&s) != g.digest) {
        fail_msg("%s: another digest, though the stored values agree", name);
    }
    free(s.bytes);
}

static inline void assert_same_state(const tg_rng *a, const tg_rng *b)
{
    uint8_t of_a[TG_RNG_TORCH_STATE_SIZE], of_b[TG_RNG_TORCH_STATE_SIZE];
    assert_true(tg_rng_save_torch_state(a, of_a, NULL));
    assert_true(tg_rng_save_torch_state(b, of_b, NULL));
    assert_memory_equal(of_a, of_b, sizeof of_a);
    assert_int_equal(tg_rng_position(a), tg_rng_position(b));
    assert_int_equal(a->profile, b->profile);
}

static inline void assert_error(const tg_error *error, tg_code code, const char *part)
{
    assert_int_equal(error->code, code);
    if (!strstr(error->text, part)) {
        fail_msg("the error is \"%s\", without \"%s\"", error->text, part);
    }
}

#endif

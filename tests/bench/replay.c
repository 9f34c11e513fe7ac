#include "bench/replay.h"

#include <stdio.h>
#include <stdlib.h>

#include <tapegrad/extend.h>

#include "bench/figure.h"

static struct {
    replay *to; /* NULL: nothing is recorded */
    int64_t loop, loops, parts;
} recording;

bool replay_is_recording(void)
{
    return recording.to;
}

void replay_begin_loop(int64_t parts)
{
    recording.loop = ++recording.loops;
    recording.parts = parts;
}

void replay_end_loop(void)
{
    recording.loop = 0;
}

void replay_add(const replay_call *call)
{
    replay *r = recording.to;
    if (!r || call->g.m < 1 || call->g.n < 1 || call->g.k < 1) {
        return;
    }
    if (r->count == r->capacity) {
        r->capacity = 2 * r->capacity + 1024;
        r->calls = bench_must(realloc(r->calls, (size_t)r->capacity * sizeof *r->calls));
    }
    r->calls[r->count] = *call;
    r->calls[r->count].loop = recording.loop;
    r->calls[r->count++].parts = recording.parts;
}

void replay_record(replay *r)
{
    recording.to = r;
}

int64_t replay_count(const replay *r)
{
    return r->count;
}

/* ---- memory ---- */

/* A factor or a result: where a call has its address, and its bytes. */
typedef struct place {
    void **address;
    char *begin, *end;
    replay_kind kind;
} place;

static place place_of(const void *address, int64_t rows, int64_t columns, int64_t distance, replay_kind kind)
{
    static const int64_t sizes[] = {sizeof(float), sizeof(double), sizeof(uint16_t)};
    char *begin = *(char *const *)address;
    return (place){(void **)(uintptr_t)address, begin, begin + ((rows - 1) * distance + columns) * sizes[kind], kind};
}

static int compare(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static void fill(void *block, size_t bytes, replay_kind kind)
{
    for (size_t i = 0; kind == REPLAY_F64 && i < bytes / sizeof(double); i++) {
        ((double *)block)[i] = (double)(i % 1023) * 1e-3 - 0.511;
    }
    for (size_t i = 0; kind == REPLAY_F32 && i < bytes / sizeof(float); i++) {
        ((float *)block)[i] = (float)(i % 1023) * 1e-3f - 0.511f;
    }
    for (size_t i = 0; kind == REPLAY_BF16 && i < bytes / sizeof(uint16_t); i++) {
        ((uint16_t *)block)[i] = (uint16_t)(0x3e00 + i % 127);
    }
}

/* Gives each stretch of overlapping places a block, and each place its part of it. */
static void move_places(replay *r, place *places, int64_t count)
{
    qsort(places, (size_t)count, sizeof *places, compare);
    for (int64_t first = 0, next; first < count; first = next) {
        char *begin = places[first].begin, *end = places[first].end;
        for (next = first + 1; next < count && places[next].begin < end; next++) {
            end = places[next].end > end ? places[next].end : end;
        }
        /* a block begins in a cache line where the memory of the step does, and has pages of the same size */
        const size_t offset = (uintptr_t)begin % 64, bytes = (size_t)(end - begin);
        char *block = bench_must(tg_alloc(offset + bytes, 1));
        fill(block, offset + bytes, places[first].kind);
        r->blocks[r->block_count++] = block;
        for (int64_t i = first; i < next; i++) {
            *places[i].address = block + offset + (places[i].begin - begin);
        }
    }
}

void replay_prepare(replay *r)
{
    recording.to = NULL;
    place *factors = bench_must(malloc((size_t)(2 * r->count + 1) * sizeof *factors));
    place *results = bench_must(malloc((size_t)(r->count + 1) * sizeof *results));
    r->blocks = bench_must(malloc((size_t)(3 * r->count + 1) * sizeof *r->blocks));
    for (int64_t i = 0; i < r->count; i++) {
        replay_call *c = &r->calls[i];
        const tg_gemm *g = &c->g;
        const replay_kind kind = c->kind == REPLAY_BF16 ? REPLAY_F32 : c->kind;
        const bool by_columns = g->b_layout == TG_TRANSPOSED;
        factors[2 * i] = place_of(&c->a, g->transpose_a ? g->k : g->m, g->transpose_a ? g->m : g->k, g->lda, kind);
        factors[2 * i + 1] = place_of(&c->b, by_columns ? g->n : g->k, by_columns ? g->k : g->n, g->ldb, c->kind);
        results[i] = place_of(&c->c, g->m, g->n, g->ldc, kind);
    }
    move_places(r, factors, 2 * r->count);
    move_places(r, results, r->count);
    free(factors);
    free(results);
}

void replay_free(replay *r)
{
    for (int64_t i = 0; i < r->block_count; i++) {
        tg_free(r->blocks[i]);
    }
    free(r->blocks);
    free(r->calls);
}

/* ---- runs ---- */

static void multiply(void *context, int64_t begin, int64_t end)
{
    const replay_call *calls = context;
    for (int64_t i = begin; i < end; i++) {
        const replay_call *c = &calls[i];
        switch (c->kind) {
        case REPLAY_F32: tg_gemm_f32(&c->g, c->a, c->b, c->c); break;
        case REPLAY_F64: tg_gemm_f64(&c->g, c->a, c->b, c->c); break;
        case REPLAY_BF16: tg_gemm_bf16(&c->g, c->a, c->b, c->c); break;
        }
    }
}

void replay_run(const replay *r)
{
    for (int64_t first = 0, next; first < r->count; first = next) {
        replay_call *calls = &r->calls[first];
        next = first + 1;
        if (calls->loop == 0) {
            multiply(calls, 0, 1);
            continue;
        }
        while (next < r->count && r->calls[next].loop == calls->loop) {
            next++;
        }
        /* as many parts as the loop could have */
        const int64_t count = next - first, parts = calls->parts < 1 ? 1 : calls->parts;
        tg_parallel_for(count, (count + parts - 1) / parts, multiply, calls);
    }
}

void replay_run_outer(const replay *r)
{
    for (int64_t i = 0; i < r->count; i++) {
        if (r->calls[i].loop == 0) {
            multiply(&r->calls[i], 0, 1);
        }
    }
}

void replay_print_outer(const replay *r)
{
    const char *before = "[";
    for (int64_t i = 0; i < r->count; i++) {
        const replay_call *c = &r->calls[i];
        if (c->loop == 0 && c->kind != REPLAY_BF16) {
            printf("%s[%lld, %lld, %lld, %d, %d, %d, %llu, %llu]", before, (long long)c->g.m, (long long)c->g.n,
                   (long long)c->g.k, c->g.transpose_a, c->g.b_layout == TG_TRANSPOSED, c->kind == REPLAY_F64,
                   (unsigned long long)(uintptr_t)c->a, (unsigned long long)(uintptr_t)c->b);
            before = ", ";
        }
    }
    printf("%s]\n", *before == '[' ? "[" : "");
    fflush(stdout);
}

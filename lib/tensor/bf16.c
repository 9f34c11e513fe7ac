#include "tensor/bf16.h"

#include "base/parallel.h"

typedef struct rounding {
    const tg_walk *walk;
    const float *from;
    tg_rounded kind;
    char *to;
} rounding;

static void round_range(void *context, int64_t begin, int64_t end)
{
    static tg_round_loop *const to_bf16[] = {TG_EACH_WIDE_LEVEL(tg_round_to_bf16)};
    static tg_round_loop *const to_float[] = {TG_EACH_WIDE_LEVEL(tg_round_to_float)};
    const rounding *r = context;
    tg_round_loop *loop = r->kind == TG_ROUNDED_BF16 ? to_bf16[tg_level()] : to_float[tg_level()];
    tg_cursor at = tg_walk_begin(r->walk, begin);
    for (int64_t done = begin, run; done < end; done += run) {
        run = tg_walk_run(r->walk, &at, end - done);
        loop(r->from + at.offset, tg_walk_stride(r->walk), run, r->to + (size_t)done * (size_t)r->kind);
        tg_walk_advance(r->walk, &at, run);
    }
}

void tg_round_walk(const tg_walk *walk, const float *from, tg_rounded kind, void *to)
{
    rounding r = {walk, from, kind, to};
    tg_parallel_for(walk->count, TG_GRAIN, round_range, &r);
}

void tg_round_values(const float *from, int64_t count, tg_rounded kind, void *to)
{
    tg_walk walk = tg_walk_new();
    tg_walk_add_axis(&walk, count, 1, 0);
    tg_round_walk(&walk, from, kind, to);
}

/* tape_stats: what a tape holds. */
#ifndef TG_TESTS_TAPE_STATS_H
#define TG_TESTS_TAPE_STATS_H

#include "tape/tape.h"

typedef struct tape_stats {
    int64_t records, results;
    size_t idle_bytes;
} tape_stats;

/* Returns the bytes of the blocks that a pool keeps. */
static inline size_t pool_idle(const tg_pool *pool)
{
    size_t idle = 0;
    for (int i = 0; i < TG_POOL_CLASSES; i++) {
        for (const tg_block *waiting = pool->waiting[i]; waiting; waiting = waiting->next) {
            idle += waiting->size;
        }
    }
    return idle;
}

static inline tape_stats tape_stats_of(const tg_tape *t)
{
    return (tape_stats){(int64_t)t->record_count, (int64_t)t->result_count, pool_idle(t->pool)};
}

#endif

/* settings: runs a check at each level of the processor with one thread and with several. */
#ifndef TG_TESTS_SETTINGS_H
#define TG_TESTS_SETTINGS_H

#include "support.h"

#include "base/level.h"

/* Calls check(context, first) for each setting; `first` in the first one, the baseline with one thread. */
static inline void over_settings(void (*check)(void *context, bool first), void *context)
{
    static const int threads[] = {1, 2, 3};
    tg_cpu_level level_before = tg_get_cpu_level();
    int threads_before = tg_threads();
    for (int level = 0; level <= tg_level_highest(); level++) {
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
            assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL) && tg_set_threads(threads[i], NULL));
            check(context, level == 0 && i == 0);
        }
    }
    assert_true(tg_set_cpu_level(level_before, NULL) && tg_set_threads(threads_before, NULL));
}

/* The next number of a sequence, in [0,below). */
static inline int64_t draw_number(uint64_t *state, int64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((*state >> 33) % (uint64_t)below);
}

#endif

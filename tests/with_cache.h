/* with_cache: not in support.c, which tests/mutate links with the folders up to the ops alone. */
#ifndef TESTS_WITH_CACHE_H
#define TESTS_WITH_CACHE_H

#include <tapegrad.h>

/* Returns a config with this cache for one pass of a tg_gpt; the next call changes it. */
static inline const tg_gpt_forward_config *with_cache(tg_kv_cache *cache)
{
    static tg_gpt_forward_config config;
    config = tg_gpt_forward_config_default();
    config.cache = cache;
    return &config;
}

#endif

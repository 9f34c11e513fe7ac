/* kv_cache (private): the cache as attention uses it. */
#ifndef TG_NN_KV_CACHE_H
#define TG_NN_KV_CACHE_H

#include <tapegrad/nn.h>
#include <tapegrad/op.h>

#include "tensor/tensor.h"

typedef struct tg_kv_layer {
    tg_tensor *keys, *values; /* (B,H,rows,D) */
    int64_t window;           /* the number of positions that a query sees; 0: all */
    int64_t first;            /* the position of the first row; the rows up to the cache's length are committed */
    int64_t pending;          /* the number of positions written since the last commit */
} tg_kv_layer;

struct tg_kv_cache {
    int64_t layers, context;
    int64_t length; /* committed positions, complete in every layer */
    tg_kv_layer layer[];
};

/* Drops the positions that were written since the last commit. */
void tg_kv_cache_abandon(tg_kv_cache *cache);

/* Return and set the number of positions that a layer has written since the last commit, so that a call that fails can
 * restore it. A NULL cache, or a layer that it does not have, is 0. */
int64_t tg_kv_cache_pending(const tg_kv_cache *cache, int64_t layer);
void tg_kv_cache_set_pending(tg_kv_cache *cache, int64_t layer, int64_t positions);

/* Returns the window of a layer; 0 for none, and as above. */
int64_t tg_kv_cache_window(const tg_kv_cache *cache, int64_t layer);

#endif

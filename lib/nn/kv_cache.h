/* kv_cache (private): the cache as attention uses it. */
#ifndef TG_NN_KV_CACHE_H
#define TG_NN_KV_CACHE_H

#include <tapegrad/nn.h>
#include <tapegrad/op.h>

#include "tensor/tensor.h"

struct tg_kv_cache {
    int64_t layers, context;
    int64_t length;      /* committed positions, complete in every layer */
    int64_t *pending;    /* one per layer: the number of positions written since the last commit */
    tg_tensor *values[]; /* of layer l: keys at 2 l, values at 2 l + 1, each (B,H,context,D) */
};

/* Writes new keys and values (B,H,T,D) to a layer, after the committed positions, and replaces *keys and *values by
 * views of all its positions. False after an error, which is in the tape. */
bool tg_kv_cache_extend(tg_tape *tape, tg_kv_cache *cache, int64_t layer, tg_tensor **keys, tg_tensor **values);

/* Drops the positions that were written since the last commit. */
void tg_kv_cache_abandon(tg_kv_cache *cache);

/* Return and set the number of positions that a layer has written since the last commit, so that a call that fails can
 * restore it. A NULL cache, or a layer that it does not have, is 0. */
int64_t tg_kv_cache_pending(const tg_kv_cache *cache, int64_t layer);
void tg_kv_cache_set_pending(tg_kv_cache *cache, int64_t layer, int64_t positions);

#endif

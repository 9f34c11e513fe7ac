/* kv_cache (private): what attention does with a cache. */
#ifndef TG_NN_KV_CACHE_H
#define TG_NN_KV_CACHE_H

#include <tapegrad/nn.h>
#include <tapegrad/op.h>

#include "tensor/tensor.h"

struct tg_kv_cache {
    tg_tensor **tensors; /* of layer l: keys at 2 l, values at 2 l + 1 */
    int64_t layers, context;
    int64_t length; /* positions that are complete in every layer */
};

/* Adds new keys and values (B,H,T,D) to a layer, and replaces them by views of all its positions. The last layer
 * moves the length on. False, with the tape's error set and the length as it was, when they do not fit. */
bool tg_kv_cache_extend(tg_tape *tape, tg_kv_cache *cache, int64_t layer, tg_tensor **keys, tg_tensor **values);

#endif

/* kv_cache: keys and values of positions that were computed before.
 *
 * Two tensors a layer, (B,H,context,D), of which the first positions hold values. A forward writes the new positions of
 * its layer behind the old ones and attends over all; the length moves on when the last layer has written. So a pass
 * that fails in the middle leaves the length, and the next one writes over what it began.
 */
#include "nn/kv_cache.h"

#include "base/alloc.h"

tg_kv_cache *tg_kv_cache_new(tg_dtype dtype, int64_t layers, int64_t batch, int64_t heads, int64_t context,
                             int64_t width, tg_error *error)
{
    if (layers < 1 || layers > INT32_MAX || batch < 1 || heads < 1 || context < 1 || width < 1 || width % heads != 0 ||
        !tg_dtype_is_float(dtype)) {
        tg_error_set(
            error, TG_ERROR_VALUE,
            "kv_cache: %lld layers, batch %lld, %lld heads, context %lld, width %lld, %s; all must be at least "
            "1, the heads divide the width, and the dtype is f32 or f64",
            (long long)layers, (long long)batch, (long long)heads, (long long)context, (long long)width,
            tg_dtype_name(dtype));
        return NULL;
    }
    tg_kv_cache *cache = tg_alloc_zeroed(1, sizeof *cache);
    tg_tensor **tensors = tg_alloc_zeroed((size_t)layers * 2, sizeof *tensors);
    if (!cache || !tensors) {
        tg_free(cache);
        tg_free(tensors);
        tg_error_set(error, TG_ERROR_MEMORY, "kv_cache: out of memory");
        return NULL;
    }
    *cache = (tg_kv_cache){.tensors = tensors, .layers = layers, .context = context};
    tg_shape shape = tg_shape_make(4, (int64_t[]){batch, heads, context, width / heads});
    for (int64_t i = 0; i < layers * 2; i++) {
        tensors[i] = tg_tensor_new(dtype, shape, error);
        if (!tensors[i]) {
            tg_kv_cache_free(cache);
            return NULL;
        }
    }
    return cache;
}

void tg_kv_cache_free(tg_kv_cache *cache)
{
    if (cache) {
        for (int64_t i = 0; i < cache->layers * 2; i++) {
            tg_release(cache->tensors[i]);
        }
        tg_free(cache->tensors);
        tg_free(cache);
    }
}

void tg_kv_cache_clear(tg_kv_cache *cache)
{
    cache->length = 0;
}

int64_t tg_kv_cache_length(const tg_kv_cache *cache)
{
    return cache->length;
}

/* One of the layer's two tensors with `added` (B,H,T,D) written behind the cached positions, as a view of all of
 * them. */
static tg_tensor *extended(tg_tape *t, tg_tensor *cached, int64_t length, tg_tensor *added)
{
    int64_t end = length + tg_size(added, -2);
    return tg_copy_into(t, tg_slice(t, cached, -2, length, end, 1), added) ? tg_slice(t, cached, -2, 0, end, 1) : NULL;
}

bool tg_kv_cache_extend(tg_tape *t, tg_kv_cache *cache, int64_t layer, tg_tensor **keys, tg_tensor **values)
{
    if (!*keys || !*values) {
        return false;
    }
    if (tg_tape_recording(t)) {
        tg_tape_fail(t, TG_ERROR_STATE, "kv_cache", "recording is on; a cache is for generation, without gradients");
        return false;
    }
    if (layer < 0 || layer >= cache->layers) {
        tg_tape_fail(t, TG_ERROR_RANGE, "kv_cache", "layer %lld is outside [0,%lld)", (long long)layer,
                     (long long)cache->layers);
        return false;
    }
    int64_t added = tg_size(*keys, -2);
    if (added > cache->context - cache->length) {
        tg_tape_fail(t, TG_ERROR_RANGE, "kv_cache", "%lld positions after %lld; there is room for %lld (the context)",
                     (long long)added, (long long)cache->length, (long long)cache->context);
        return false;
    }
    tg_tensor *cached = cache->tensors[2 * layer];
    if (tg_size(*keys, 0) != tg_size(cached, 0) || tg_size(*keys, 1) != tg_size(cached, 1) ||
        tg_size(*keys, 3) != tg_size(cached, 3) || tg_dtype_of(*keys) != tg_dtype_of(cached)) {
        char found[TG_SHAPE_TEXT], room[TG_SHAPE_TEXT];
        tg_tape_fail(t, TG_ERROR_SHAPE, "kv_cache", "%s %s does not go into a cache of %s %s (B,H,context,D)",
                     tg_dtype_name(tg_dtype_of(*keys)), tg_shape_format(tg_shape_of(*keys), found),
                     tg_dtype_name(tg_dtype_of(cached)), tg_shape_format(tg_shape_of(cached), room));
        return false;
    }
    *keys = extended(t, cached, cache->length, *keys);
    *values = extended(t, cache->tensors[2 * layer + 1], cache->length, *values);
    if (!*keys || !*values) {
        return false;
    }
    cache->length += layer == cache->layers - 1 ? added : 0;
    return true;
}

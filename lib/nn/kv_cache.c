/* kv_cache: keys and values of earlier positions, kept so that they are computed only once.
 *
 * In a pass each layer writes its new positions after the committed ones, and attends to all of them. When the whole
 * pass has succeeded, tg_kv_cache_commit adds the new positions to the length. A pass that failed is overwritten by the
 * next one.
 */
#include "nn/kv_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "tape/tape.h"

static bool check_cache_sizes(tg_dtype dtype, int64_t layers, int64_t batch, int64_t heads, int64_t context,
                              int64_t width, tg_error *error)
{
    static const char call[] = "kv_cache_new";
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"layers", layers}, {"batch", batch}, {"heads", heads}, {"context", context}, {"width", width}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > INT32_MAX) {
            return tg_error_set(error, TG_ERROR_VALUE, "%s: %s %lld; it must be 1 to %d", call, sizes[i].name,
                                (long long)sizes[i].value, INT32_MAX);
        }
    }
    if (width % heads != 0) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: heads %lld do not divide width %lld", call, (long long)heads,
                            (long long)width);
    }
    return tg_dtype_is_float((int)dtype) ||
           tg_error_set(error, TG_ERROR_DTYPE, "%s: dtype %s; it must be f32 or f64", call, tg_dtype_name(dtype));
}

tg_kv_cache *tg_kv_cache_new(tg_dtype dtype, int64_t layers, int64_t batch, int64_t heads, int64_t context,
                             int64_t width, tg_error *error)
{
    if (!check_cache_sizes(dtype, layers, batch, heads, context, width, error)) {
        return NULL;
    }
    /* on 32 bits no memory holds as many layers as fit an int32_t */
    const size_t most = (SIZE_MAX - sizeof(tg_kv_cache)) / (2 * sizeof(tg_tensor *));
    size_t count = (size_t)layers;
    tg_kv_cache *cache = count <= most ? tg_alloc_zeroed(1, sizeof *cache + 2 * count * sizeof *cache->values) : NULL;
    if (cache) {
        cache->layers = layers;
        cache->context = context;
        cache->pending = tg_alloc_zeroed(count, sizeof *cache->pending);
    }
    if (!cache || !cache->pending) {
        tg_kv_cache_free(cache);
        tg_error_set(error, TG_ERROR_MEMORY, "kv_cache_new: out of memory");
        return NULL;
    }
    tg_shape shape = tg_shape_make(4, (int64_t[]){batch, heads, context, width / heads});
    for (size_t i = 0; i < 2 * count; i++) {
        cache->values[i] = tg_tensor_new(dtype, shape, error);
        if (!cache->values[i]) {
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
            tg_release(cache->values[i]);
        }
        tg_free(cache->pending);
        tg_free(cache);
    }
}

void tg_kv_cache_abandon(tg_kv_cache *cache)
{
    memset(cache->pending, 0, (size_t)cache->layers * sizeof *cache->pending);
}

void tg_kv_cache_clear(tg_kv_cache *cache)
{
    if (cache) {
        cache->length = 0;
        tg_kv_cache_abandon(cache);
    }
}

int64_t tg_kv_cache_length(const tg_kv_cache *cache)
{
    return cache ? cache->length : 0;
}

bool tg_kv_cache_commit(tg_kv_cache *cache, tg_error *error)
{
    static const char call[] = "kv_cache_commit";
    if (!cache) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the cache is NULL", call);
    }
    for (int64_t layer = 0; layer < cache->layers; layer++) {
        if (cache->pending[layer] != cache->pending[0]) {
            return tg_error_set(
                error, TG_ERROR_STATE,
                "%s: layer %lld has written %lld positions and layer 0 has written %lld; a pass writes the "
                "same positions to every layer",
                call, (long long)layer, (long long)cache->pending[layer], (long long)cache->pending[0]);
        }
    }
    cache->length += cache->pending[0];
    tg_kv_cache_abandon(cache);
    return true;
}

/* ---- for attention ---- */

static bool has_layer(const tg_kv_cache *cache, int64_t layer)
{
    return cache && layer >= 0 && layer < cache->layers;
}

int64_t tg_kv_cache_pending(const tg_kv_cache *cache, int64_t layer)
{
    return has_layer(cache, layer) ? cache->pending[layer] : 0;
}

void tg_kv_cache_set_pending(tg_kv_cache *cache, int64_t layer, int64_t positions)
{
    if (has_layer(cache, layer)) {
        cache->pending[layer] = positions;
    }
}

static bool check_extension(tg_tape *t, const tg_kv_cache *cache, int64_t layer, const tg_tensor *added)
{
    static const char call[] = "kv_cache";
    if (tg_tape_is_recording(t)) {
        return tg_tape_fail(t, TG_ERROR_STATE, call,
                            "recording is on; with a cache it must be off (tg_tape_set_recording)");
    }
    if (!has_layer(cache, layer)) {
        return tg_tape_fail(t, TG_ERROR_RANGE, call, "layer %lld is outside [0,%lld)", (long long)layer,
                            (long long)cache->layers);
    }
    int64_t positions = added->shape[2];
    if (positions > cache->context - cache->length) {
        return tg_tape_fail(t, TG_ERROR_RANGE, call, "%lld positions after %lld; the capacity is %lld",
                            (long long)positions, (long long)cache->length, (long long)cache->context);
    }
    const tg_tensor *cached = cache->values[2 * layer];
    if (added->shape[0] != cached->shape[0] || added->shape[1] != cached->shape[1] ||
        added->shape[3] != cached->shape[3] || added->dtype != cached->dtype) {
        char found[TG_SHAPE_TEXT], expected[TG_SHAPE_TEXT];
        return tg_tape_fail(t, TG_ERROR_SHAPE, call, "%s %s does not fit in a cache of %s %s (B,H,context,D)",
                            tg_dtype_name(tg_dtype_of(added)), tg_shape_format(tg_shape_of(added), found),
                            tg_dtype_name(tg_dtype_of(cached)), tg_shape_format(tg_shape_of(cached), expected));
    }
    return true;
}

/* Writes `added` after the first `length` positions of a cached tensor. Returns a view of all these positions. */
static tg_tensor *extended(tg_tape *t, tg_tensor *cached, int64_t length, const tg_tensor *added)
{
    int64_t end = length + added->shape[2];
    tg_tensor *target = tg_slice(t, cached, 2, length, end, 1);
    return target && tg_tensor_copy_from(target, added, NULL) ? tg_slice(t, cached, 2, 0, end, 1) : NULL;
}

bool tg_kv_cache_extend(tg_tape *t, tg_kv_cache *cache, int64_t layer, tg_tensor **keys, tg_tensor **values)
{
    if (!*keys || !*values || !check_extension(t, cache, layer, *keys)) {
        return false;
    }
    int64_t added = (*keys)->shape[2];
    *keys = extended(t, cache->values[2 * layer], cache->length, *keys);
    *values = extended(t, cache->values[2 * layer + 1], cache->length, *values);
    cache->pending[layer] = *keys && *values ? added : 0;
    return *keys && *values;
}

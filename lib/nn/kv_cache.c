/* kv_cache: keys and values of earlier positions, kept so that they are computed only once.
 *
 * In a pass each layer writes its new positions after the committed ones, and attends to all of them. When the whole
 * pass has succeeded, tg_kv_cache_commit adds the new positions to the length. A pass that failed is overwritten by the
 * next one.
 *
 * A layer with a window of W positions has rows for 2 W: a query sees itself and the W - 1 positions before it. New
 * positions are appended, and when they no longer fit, the last W - 1 committed ones move to the front. So a position
 * moves once, however small the passes are. Of a pass that does not fit even then the layer stores the last rows, which
 * are more than W: they move to the front when the pass is committed, because until then the rows before them are what
 * the next pass sees if this one fails. Its queries attend to a joined copy.
 */
#include "nn/kv_cache.h"

#include <string.h>

#include "base/alloc.h"
#include "tape/tape.h"

TG_CONFIG(tg_kv_cache_config, tg_kv_cache_config_default, mark, .mark = mark);

static bool check_cache_sizes(tg_dtype dtype, int64_t layers, int64_t batch, int64_t heads, int64_t context,
                              int64_t width, const tg_kv_cache_config *config, tg_error *error)
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
    if (!tg_dtype_is_float((int)dtype)) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: dtype %s; it must be f32 or f64", call, tg_dtype_name(dtype));
    }
    if (!tg_config_check(call, config, mark, error) ||
        (config &&
         !tg_config_check_list(call, "windows", config->windows, "window_count", config->window_count, error))) {
        return false;
    }
    for (int64_t i = 0; config && i < config->window_count; i++) {
        if (config->windows[i] < 0) {
            return tg_error_set(error, TG_ERROR_VALUE,
                                "%s: windows[%lld] is %lld; it must be at least 1, or 0 for all positions", call,
                                (long long)i, (long long)config->windows[i]);
        }
    }
    return true;
}

tg_kv_cache *tg_kv_cache_new(tg_dtype dtype, int64_t layers, int64_t batch, int64_t heads, int64_t context,
                             int64_t width, const tg_kv_cache_config *config, tg_error *error)
{
    if (!check_cache_sizes(dtype, layers, batch, heads, context, width, config, error)) {
        return NULL;
    }
    /* on 32 bits no memory holds as many layers as fit an int32_t */
    const size_t most = (SIZE_MAX - sizeof(tg_kv_cache)) / sizeof(tg_kv_layer), count = (size_t)layers;
    tg_kv_cache *cache = count <= most ? tg_alloc_zeroed(1, sizeof *cache + count * sizeof *cache->layer) : NULL;
    if (!cache) {
        tg_error_set(error, TG_ERROR_MEMORY, "kv_cache_new: out of memory");
        return NULL;
    }
    cache->layers = layers;
    cache->context = context;
    for (int64_t i = 0; i < layers; i++) {
        tg_kv_layer *layer = &cache->layer[i];
        layer->window = config && config->windows ? config->windows[i % config->window_count] : 0;
        bool is_short = layer->window > 0 && layer->window < context / 2;
        tg_shape shape = {.rank = 4, .size = {batch, heads, is_short ? 2 * layer->window : context, width / heads}};
        layer->keys = tg_tensor_new(dtype, shape, error);
        layer->values = layer->keys ? tg_tensor_new(dtype, shape, error) : NULL;
        if (!layer->values) {
            tg_kv_cache_free(cache);
            return NULL;
        }
    }
    return cache;
}

void tg_kv_cache_free(tg_kv_cache *cache)
{
    if (cache) {
        for (int64_t i = 0; i < cache->layers; i++) {
            tg_release(cache->layer[i].keys);
            tg_release(cache->layer[i].values);
        }
        tg_free(cache);
    }
}

void tg_kv_cache_abandon(tg_kv_cache *cache)
{
    for (int64_t i = 0; i < cache->layers; i++) {
        cache->layer[i].pending = 0;
    }
}

void tg_kv_cache_clear(tg_kv_cache *cache)
{
    if (cache) {
        cache->length = 0;
        tg_kv_cache_abandon(cache);
        for (int64_t i = 0; i < cache->layers; i++) {
            cache->layer[i].first = 0;
        }
    }
}

int64_t tg_kv_cache_length(const tg_kv_cache *cache)
{
    return cache ? cache->length : 0;
}

/* ---- rows of a layer ---- */

/* Moves rows of keys or values to the front. */
static void move_rows(tg_tensor *x, int64_t from, int64_t count)
{
    size_t row = (size_t)x->shape[3] * tg_size_of(x->dtype), head = (size_t)x->shape[2] * row;
    char *rows = tg_values(x);
    for (int64_t i = 0; i < x->shape[0] * x->shape[1]; i++, rows += head) {
        memmove(rows, rows + (size_t)from * row, (size_t)count * row);
    }
    tg_touch(x);
}

/* Keeps `count` rows of a layer from row `from` on, the first of which is at position `first`. */
static void keep_rows(tg_kv_layer *layer, int64_t from, int64_t count, int64_t first)
{
    move_rows(layer->keys, from, count);
    move_rows(layer->values, from, count);
    layer->first = first;
}

/* Returns how many committed rows of a layer the next position sees. */
static int64_t seen_rows(const tg_kv_layer *layer, int64_t rows)
{
    return layer->window > 0 && rows >= layer->window ? layer->window - 1 : rows;
}

/* Returns how many of `added` positions a layer stores after `rows` committed ones. */
static int64_t stored_rows(const tg_kv_layer *layer, int64_t rows, int64_t added)
{
    int64_t room = layer->keys->shape[2] - rows;
    return added < room ? added : room;
}

bool tg_kv_cache_commit(tg_kv_cache *cache, tg_error *error)
{
    static const char call[] = "kv_cache_commit";
    if (!cache) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the cache is NULL", call);
    }
    const int64_t added = cache->layer[0].pending;
    for (int64_t i = 0; i < cache->layers; i++) {
        if (cache->layer[i].pending != added) {
            return tg_error_set(
                error, TG_ERROR_STATE,
                "%s: layer %lld has written %lld positions and layer 0 has written %lld; a pass writes the "
                "same positions to every layer",
                call, (long long)i, (long long)cache->layer[i].pending, (long long)added);
        }
    }
    for (int64_t i = 0; i < cache->layers; i++) {
        tg_kv_layer *layer = &cache->layer[i];
        int64_t rows = cache->length - layer->first, stored = stored_rows(layer, rows, added);
        if (stored < added) {
            keep_rows(layer, rows, stored, cache->length + added - stored);
        }
    }
    cache->length += added;
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
    return has_layer(cache, layer) ? cache->layer[layer].pending : 0;
}

void tg_kv_cache_set_pending(tg_kv_cache *cache, int64_t layer, int64_t positions)
{
    if (has_layer(cache, layer)) {
        cache->layer[layer].pending = positions;
    }
}

int64_t tg_kv_cache_window(const tg_kv_cache *cache, int64_t layer)
{
    return has_layer(cache, layer) ? cache->layer[layer].window : 0;
}

/* Checks the keys or values of `positions` positions. */
static bool check_added(tg_tape *t, const char *call, const char *name, const tg_tensor *cached, int64_t positions,
                        const tg_tensor *added)
{
    if (!tg_tape_expect_input(t, call, name, added)) {
        return false;
    }
    if (added->rank != 4 || added->shape[2] != positions || added->shape[0] != cached->shape[0] ||
        added->shape[1] != cached->shape[1] || added->shape[3] != cached->shape[3] || added->dtype != cached->dtype) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call,
                            "%s are %s %s, which does not fit %lld positions of a cache of %s %s (B,H,context,D)", name,
                            tg_dtype_name(tg_dtype_of(added)), tg_shape_text_of(added).text, (long long)positions,
                            tg_dtype_name(tg_dtype_of(cached)), tg_shape_text_of(cached).text);
    }
    return true;
}

static bool check_append(tg_tape *t, const tg_kv_cache *cache, int64_t layer, tg_tensor **keys, tg_tensor **values)
{
    static const char call[] = "kv_cache_append";
    if (!tg_tape_is_usable(t)) {
        return false;
    }
    if (!cache || !keys || !values) {
        return tg_tape_fail(t, TG_ERROR_STATE, call, "the cache, the keys or the values are NULL");
    }
    if (tg_tape_is_recording(t)) {
        return tg_tape_fail(t, TG_ERROR_STATE, call,
                            "recording is on; with a cache it must be off (tg_tape_set_recording)");
    }
    if (!has_layer(cache, layer)) {
        return tg_tape_fail(t, TG_ERROR_RANGE, call, "layer %lld is outside [0,%lld)", (long long)layer,
                            (long long)cache->layers);
    }
    int64_t positions = tg_tensor_size(*keys, 2);
    if (!check_added(t, call, "keys", cache->layer[layer].keys, positions, *keys) ||
        !check_added(t, call, "values", cache->layer[layer].values, positions, *values)) {
        return false;
    }
    return positions <= cache->context - cache->length ||
           tg_tape_fail(t, TG_ERROR_RANGE, call, "%lld positions after %lld; the capacity is %lld",
                        (long long)positions, (long long)cache->length, (long long)cache->context);
}

/* Writes the last of `added` after the first `rows` rows of a cached tensor. Returns the last `seen` of these rows and
 * `added`: a view, or a copy of both if not all of `added` is stored. */
static tg_tensor *extended(tg_tape *t, tg_tensor *cached, int64_t rows, int64_t seen, int64_t stored, tg_tensor *added)
{
    int64_t count = added->shape[2], begin = rows - seen;
    tg_tensor *target = tg_slice(t, cached, 2, rows, rows + stored, 1);
    tg_tensor *last = tg_slice(t, added, 2, count - stored, count, 1);
    if (!target || !last || !tg_tensor_copy_from(target, last, NULL)) {
        return NULL;
    }
    return stored == count ? tg_slice(t, cached, 2, begin, rows + count, 1)
                           : tg_cat(t, (tg_tensor *[]){tg_slice(t, cached, 2, begin, rows, 1), added}, 2, 2);
}

bool tg_kv_cache_append(tg_tape *t, tg_kv_cache *cache, int64_t layer, tg_tensor **keys, tg_tensor **values)
{
    if (!check_append(t, cache, layer, keys, values)) {
        return false;
    }
    tg_kv_layer *at = &cache->layer[layer];
    int64_t added = (*keys)->shape[2], rows = cache->length - at->first, seen = seen_rows(at, rows);
    if (stored_rows(at, rows, added) < added) {
        keep_rows(at, rows - seen, seen, cache->length - seen);
        rows = seen;
    }
    int64_t stored = stored_rows(at, rows, added);
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *all_keys = extended(t, at->keys, rows, seen, stored, *keys);
    tg_tensor *all_values = all_keys ? extended(t, at->values, rows, seen, stored, *values) : NULL;
    at->pending = all_values ? added : 0;
    if (!tg_tape_end(t, &point, all_values)) {
        return false;
    }
    *keys = all_keys;
    *values = all_values;
    return true;
}

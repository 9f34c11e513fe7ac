/* windows: loaders of sliding windows over token ids, in memory or in a file. */
#include <string.h>

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "data/loader.h"

typedef struct windows {
    int32_t *ids; /* a copy of the ids; NULL if they come from a file */
    const tg_token_file *file;
    int64_t context, stride;
    int32_t *window; /* a buffer for the context + 1 ids of a window of the file */
} windows;

static tg_tensor *new_tensor(const void *source, int i, int64_t count, int64_t columns)
{
    (void)columns;
    (void)i;
    const windows *w = source;
    return tg_tensor_new(TG_I32, TG_SHAPE(count, w->context), NULL);
}

static bool fill(const void *source, const int64_t *order, int64_t first, tg_tensor *const *batch, tg_error *error)
{
    const windows *w = source;
    int64_t rows = tg_tensor_size(batch[0], 0), length = w->context;
    int32_t *inputs = tg_tensor_data_mut(batch[0]), *targets = tg_tensor_data_mut(batch[1]);
    for (int64_t row = 0; row < rows; row++) {
        int64_t start = tg_loader_item(order, first + row) * w->stride;
        const int32_t *ids = w->ids ? w->ids + start : w->window;
        if (!w->ids && !tg_token_file_read(w->file, start, length + 1, w->window, error)) {
            return false;
        }
        memcpy(inputs + row * length, ids, (size_t)length * sizeof *ids);
        memcpy(targets + row * length, ids + 1, (size_t)length * sizeof *ids);
    }
    return true;
}

static void free_source(void *source)
{
    windows *w = source;
    tg_free(w->ids);
    tg_free(w->window);
    tg_free(w);
}

static const tg_loader_kind kind = {
    .items = "windows",
    .options = TG_LOADER_WINDOWS,
    .new_tensor = new_tensor,
    .fill = fill,
    .free = free_source,
};

static bool check(tg_loader *l, int64_t count)
{
    const tg_loader_config *c = &l->config;
    if (!tg_loader_check_size(l, "context", c->context) || !tg_loader_check_size(l, "stride", c->stride)) {
        return false;
    }
    return count > c->context ||
           tg_error_set(l->run->error, TG_ERROR_SHAPE,
                        "%s: the text has %lld ids; a window of %lld and its target need %llu", l->call,
                        (long long)count, (long long)c->context, (unsigned long long)c->context + 1);
}

static bool open_source(tg_loader *l, const int32_t *ids, const tg_token_file *file, int64_t count)
{
    const tg_loader_config *c = &l->config;
    windows *w = l->source = tg_alloc_zeroed(1, sizeof *w);
    if (w) {
        *w = (windows){.file = file, .context = c->context, .stride = c->stride};
        w->ids = ids ? tg_alloc((uint64_t)count, sizeof *ids) : NULL;
        w->window = ids ? NULL : tg_alloc((uint64_t)c->context + 1, sizeof *w->window);
    }
    if (!w || (!w->ids && !w->window)) {
        return tg_error_set(l->run->error, TG_ERROR_MEMORY, "%s: out of memory for %lld ids", l->call,
                            (long long)count);
    }
    if (ids) {
        memcpy(w->ids, ids, (size_t)count * sizeof *ids);
    }
    return true;
}

static tg_loader *new_loader(tg_loader *l, const int32_t *ids, const tg_token_file *file, int64_t count)
{
    if (tg_loader_is_begun(l) && check(l, count) && open_source(l, ids, file, count)) {
        tg_loader_begin(l, (count - l->config.context - 1) / l->config.stride + 1, 2);
    }
    return l;
}

tg_loader *tg_loader_new(tg_run *run, const int32_t *ids, int64_t count, const tg_loader_config *config)
{
    return new_loader(tg_loader_make(run, "loader_new", &kind, ids ? NULL : "array of ids", config), ids, NULL, count);
}

tg_loader *tg_loader_new_from_file(tg_run *run, const tg_token_file *file, const tg_loader_config *config)
{
    return new_loader(tg_loader_make(run, "loader_new_from_file", &kind, file ? NULL : "token file", config), NULL,
                      file, tg_token_file_count(file));
}

/* lists: loaders of lists of ids of different lengths, padded batch by batch as the book's custom_collate_fn does.
 *
 * All ids are one array, and list i begins at ends[i - 1].
 */
#include <limits.h>
#include <string.h>

#include "base/alloc.h"
#include "data/loader.h"
#include "tensor/tensor.h"

enum { LIST_INPUTS, LIST_TARGETS, LIST_MASK, LIST_TENSORS };

typedef struct lists {
    int32_t *ids;
    int64_t *ends;
    int32_t pad_id, ignored_target;
    int64_t max_length; /* INT64_MAX if no list is cut */
} lists;

static int64_t begin_of(const lists *s, int64_t list)
{
    return list > 0 ? s->ends[list - 1] : 0;
}

/* Returns the number of ids of a row of this list. */
static int64_t length_of(const lists *s, int64_t list)
{
    int64_t length = s->ends[list] - begin_of(s, list);
    return length < s->max_length ? length : s->max_length;
}

static int64_t columns(const void *source, const int64_t *order, int64_t first, int64_t count)
{
    int64_t longest = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t length = length_of(source, tg_loader_item(order, first + i));
        longest = length > longest ? length : longest;
    }
    return longest;
}

static tg_tensor *new_tensor(const void *source, int i, int64_t count, int64_t width)
{
    (void)source;
    return tg_tensor_new(i == LIST_MASK ? TG_U8 : TG_I32, tg_shape_make(2, (int64_t[]){count, width}), NULL);
}

/* Fills one row of each tensor. The ids of a list that was cut go on in its targets. */
static void fill_row(const lists *s, int64_t list, int64_t width, int32_t *inputs, int32_t *targets, uint8_t *mask)
{
    const int32_t *ids = s->ids + begin_of(s, list);
    int64_t length = s->ends[list] - begin_of(s, list);
    bool has_ended = false;
    for (int64_t t = 0; t < width; t++) {
        inputs[t] = t < length ? ids[t] : s->pad_id;
        mask[t] = t < length;
        int32_t target = t + 1 < length ? ids[t + 1] : s->pad_id;
        targets[t] = target == s->pad_id && has_ended ? s->ignored_target : target;
        has_ended = has_ended || target == s->pad_id;
    }
}

static bool fill(const void *source, const int64_t *order, int64_t first, tg_tensor *const *batch, tg_error *error)
{
    (void)error;
    int64_t count = batch[LIST_INPUTS]->shape[0], width = batch[LIST_INPUTS]->shape[1];
    int32_t *inputs = tg_tensor_data_mut(batch[LIST_INPUTS]), *targets = tg_tensor_data_mut(batch[LIST_TARGETS]);
    uint8_t *mask = tg_tensor_data_mut(batch[LIST_MASK]);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = i * width;
        fill_row(source, tg_loader_item(order, first + i), width, inputs + at, targets + at, mask + at);
    }
    return true;
}

static void free_source(void *source)
{
    lists *s = source;
    tg_free(s->ids);
    tg_free(s->ends);
    tg_free(s);
}

static const tg_loader_kind kind = {
    .items = "lists",
    .options = TG_LOADER_LISTS,
    .columns = columns,
    .new_tensor = new_tensor,
    .fill = fill,
    .free = free_source,
};

/* ---- constructor ---- */

static bool check_options(tg_loader *l, int64_t count)
{
    const tg_loader_config *c = &l->config;
    if (c->pad_id < 0) {
        return tg_error_set(l->run->error, TG_ERROR_RANGE, "%s: pad_id %d; it must be set to at least 0", l->call,
                            (int)c->pad_id);
    }
    if (c->max_length != TG_NO_MAX_LENGTH && c->max_length < 1) {
        return tg_error_set(l->run->error, TG_ERROR_VALUE,
                            "%s: max_length %lld; it must be at least 1, or TG_NO_MAX_LENGTH", l->call,
                            (long long)c->max_length);
    }
    return count >= 1 || tg_error_set(l->run->error, TG_ERROR_SHAPE, "%s: %lld lists; at least 1 is needed", l->call,
                                      (long long)count);
}

/* Checks all lists, and writes the number of their ids to *total. */
static bool check_lists(tg_loader *l, const int32_t *ids, const int64_t *lengths, int64_t count, int64_t *total)
{
    *total = 0;
    for (int64_t i = 0; i < count; i++) {
        if (lengths[i] < 1 || lengths[i] > INT32_MAX - 1) {
            return tg_error_set(l->run->error, TG_ERROR_SHAPE, "%s: list %lld has %lld ids; it must have 1 to %d",
                                l->call, (long long)i, (long long)lengths[i], INT32_MAX - 1);
        }
        for (int64_t k = 0; k < lengths[i]; k++) {
            if (ids[*total + k] < 0) {
                return tg_error_set(l->run->error, TG_ERROR_RANGE,
                                    "%s: id %d at [%lld] of list %lld; it must be at least 0", l->call,
                                    (int)ids[*total + k], (long long)k, (long long)i);
            }
        }
        *total += lengths[i];
    }
    return true;
}

static bool open_source(tg_loader *l, const int32_t *ids, const int64_t *lengths, int64_t count, int64_t total)
{
    const tg_loader_config *c = &l->config;
    lists *s = l->source = tg_alloc_zeroed(1, sizeof *s);
    if (s) {
        s->ids = tg_alloc((uint64_t)total, sizeof *s->ids);
        s->ends = tg_alloc((uint64_t)count, sizeof *s->ends);
    }
    if (!s || !s->ids || !s->ends) {
        return tg_error_set(l->run->error, TG_ERROR_MEMORY, "%s: out of memory for %lld ids", l->call,
                            (long long)total);
    }
    memcpy(s->ids, ids, (size_t)total * sizeof *ids);
    for (int64_t i = 0, end = 0; i < count; i++) {
        end += lengths[i];
        s->ends[i] = end;
    }
    s->pad_id = c->pad_id;
    s->ignored_target = c->ignored_target;
    s->max_length = c->max_length == TG_NO_MAX_LENGTH ? INT64_MAX : c->max_length;
    return true;
}

tg_loader *tg_loader_new_from_lists(tg_run *run, const int32_t *ids, const int64_t *lengths, int64_t count,
                                    const tg_loader_config *config)
{
    const char *missing = !ids ? "array of ids" : !lengths ? "array of lengths" : NULL;
    tg_loader *l = tg_loader_make(run, "loader_new_from_lists", &kind, missing, config);
    int64_t total;
    if (tg_loader_is_begun(l) && check_options(l, count) && check_lists(l, ids, lengths, count, &total) &&
        open_source(l, ids, lengths, count, total)) {
        tg_loader_begin(l, count, LIST_TENSORS);
    }
    return l;
}

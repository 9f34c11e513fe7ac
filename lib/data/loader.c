/* loader: sliding windows over ids, in the order of torch's DataLoader.
 *
 * A pass begins with the draws of the DataLoader (torch/utils/data, num_workers=0): one 64-bit number, which only
 * workers would use, and with shuffle a second one, which seeds another generator for the permutation. So a training
 * program that shares its generator with the loader draws the same numbers as in PyTorch.
 *
 * The loader reuses its batches. A batch is filled again when nobody else holds its tensors. While a record of a tape
 * holds them, another batch is used. Two batches are enough for the usual loop.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/config.h"
#include "base/random.h"
#include "base/file.h"
#include "data/loader.h"
#include "data/pass.h"
#include "tensor/tensor.h"

struct tg_loader {
    tg_error error;
    tg_loader_config config;
    tg_rng *rng, *sampler; /* the given generator, and one of the loader for permutations */
    int32_t *ids;          /* a copy of the ids; NULL if they come from a file */
    const tg_token_file *file;
    /* the numbers of windows and batches in a pass; the index of the next batch, 0 at the beginning of a pass */
    int64_t windows, batches, next;
    int64_t *order; /* the order of the windows in this pass; NULL without shuffle */
    tg_batch *kept;
    size_t kept_count, kept_capacity;
    int32_t *window; /* a buffer for the context + 1 ids of a window */
};

static const char call[] = "loader_new";
static const char mark[] = "tg_loader_config_default";

tg_loader_config tg_loader_config_default(void)
{
    return (tg_loader_config){.mark = mark, .shuffle = true, .drop_last = true, .ranks = 1};
}

/* Checks that every batch can be divided among the ranks. */
static bool check_ranks(tg_loader *l)
{
    const tg_loader_config *c = &l->config;
    long long ranks = c->ranks, left = c->drop_last ? 0 : l->windows % c->batch_size;
    if (c->rank < 0 || c->rank >= ranks) {
        return tg_error_set(&l->error, TG_ERROR_RANGE, "%s: rank %lld is outside [0,%lld)", call, (long long)c->rank,
                            ranks);
    }
    if (l->windows < ranks) {
        return tg_error_set(&l->error, TG_ERROR_SHAPE, "%s: %lld windows for %lld ranks; each rank needs one", call,
                            (long long)l->windows, ranks);
    }
    if (c->batch_size % ranks != 0) {
        return tg_error_set(&l->error, TG_ERROR_VALUE, "%s: batch_size %lld is not a multiple of %lld ranks", call,
                            (long long)c->batch_size, ranks);
    }
    return left % ranks == 0 ||
           tg_error_set(&l->error, TG_ERROR_VALUE,
                        "%s: the last batch has %lld windows, which is not a multiple of %lld ranks; drop_last leaves "
                        "it out",
                        call, left, ranks);
}

static bool check(tg_loader *l, int64_t count)
{
    const tg_loader_config *c = &l->config;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = {{"context", c->context}, {"stride", c->stride}, {"batch_size", c->batch_size}, {"ranks", c->ranks}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1) {
            return tg_error_set(&l->error, TG_ERROR_VALUE, "%s: %s %lld; it must be set to at least 1", call,
                                sizes[i].name, (long long)sizes[i].value);
        }
    }
    if (count <= c->context) {
        return tg_error_set(&l->error, TG_ERROR_SHAPE,
                            "%s: the text has %lld ids; a window of %lld and its target need %llu", call,
                            (long long)count, (long long)c->context, (unsigned long long)c->context + 1);
    }
    l->windows = (count - c->context - 1) / c->stride + 1;
    l->batches = l->windows / c->batch_size + (!c->drop_last && l->windows % c->batch_size != 0);
    if (!check_ranks(l)) {
        return false;
    }
    return l->batches > 0 ||
           tg_error_set(
               &l->error, TG_ERROR_SHAPE,
               "%s: %lld windows do not fill a batch of %lld, and drop_last leaves out a batch that is not full", call,
               (long long)l->windows, (long long)c->batch_size);
}

static bool allocate(tg_loader *l, const int32_t *ids, int64_t count)
{
    l->ids = ids ? tg_alloc((uint64_t)count, sizeof *l->ids) : NULL;
    l->order = l->config.shuffle ? tg_alloc((uint64_t)l->windows, sizeof *l->order) : NULL;
    l->sampler = l->config.shuffle ? tg_rng_new(0) : NULL;
    l->window = tg_alloc((uint64_t)l->config.context + 1, sizeof *l->window);
    if ((ids && !l->ids) || (l->config.shuffle && (!l->order || !l->sampler)) || !l->window) {
        return tg_error_set(&l->error, TG_ERROR_MEMORY, "%s: out of memory for %lld ids and %lld windows", call,
                            (long long)count, (long long)l->windows);
    }
    if (ids) {
        memcpy(l->ids, ids, (size_t)count * sizeof *ids);
    }
    return true;
}

static tg_loader *new_loader(const char *source, const int32_t *ids, const tg_token_file *file, int64_t count,
                             tg_rng *rng, const tg_loader_config *given)
{
    tg_loader *l = tg_alloc_zeroed(1, sizeof *l);
    if (!l) {
        return NULL;
    }
    if ((!ids && !file) || !rng) {
        tg_error_set(&l->error, TG_ERROR_STATE, "%s: the %s is NULL", call, rng ? source : "generator");
        return l;
    }
    if (!tg_config_check(call, given, mark, &l->error)) {
        return l;
    }
    l->config = given ? *given : tg_loader_config_default();
    l->rng = rng;
    l->file = file;
    if (!check(l, count) || !allocate(l, ids, count)) {
        l->windows = l->batches = 0;
    }
    return l;
}

tg_loader *tg_loader_new(const int32_t *ids, int64_t count, tg_rng *rng, const tg_loader_config *config)
{
    return new_loader("array of ids", ids, NULL, count, rng, config);
}

tg_loader *tg_loader_new_from_file(const tg_token_file *file, tg_rng *rng, const tg_loader_config *config)
{
    return new_loader("token file", NULL, file, tg_token_file_count(file), rng, config);
}

void tg_loader_free(tg_loader *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->kept_count; i++) {
        tg_release(l->kept[i].inputs);
        tg_release(l->kept[i].targets);
    }
    tg_free(l->kept);
    tg_free(l->ids);
    tg_free(l->order);
    tg_free(l->window);
    tg_rng_free(l->sampler);
    tg_free(l);
}

/* Returns a batch with this number of rows that nobody else holds, an old one or a new one. NULL with the error set. */
static tg_batch *unused_batch(tg_loader *l, int64_t rows)
{
    for (size_t i = 0; i < l->kept_count; i++) {
        const tg_batch *b = &l->kept[i];
        if (tg_tensor_references(b->inputs) == 1 && tg_tensor_references(b->targets) == 1 &&
            tg_tensor_size(b->inputs, 0) == rows) {
            return &l->kept[i];
        }
    }
    tg_shape shape = tg_shape_make(2, (int64_t[]){rows, l->config.context});
    tg_batch added = {NULL, NULL};
    bool is_ready = tg_grow((void **)&l->kept, &l->kept_capacity, l->kept_count, l->kept_count + 1, sizeof *l->kept) &&
                    (added.inputs = tg_tensor_new(TG_I32, shape, &l->error)) &&
                    (added.targets = tg_tensor_new(TG_I32, shape, &l->error));
    if (!is_ready) {
        tg_release(added.inputs);
        tg_error_set(&l->error, TG_ERROR_MEMORY, "loader_next: out of memory for a batch");
        return NULL;
    }
    l->kept[l->kept_count] = added;
    return &l->kept[l->kept_count++];
}

static bool fill(tg_loader *l, const tg_batch *batch, int64_t first, int64_t rows)
{
    int64_t length = l->config.context;
    int32_t *inputs = tg_tensor_data_mut(batch->inputs), *targets = tg_tensor_data_mut(batch->targets);
    for (int64_t row = 0; row < rows; row++) {
        int64_t window = l->order ? l->order[first + row] : first + row, start = window * l->config.stride;
        const int32_t *ids = l->window;
        if (l->ids) {
            ids = l->ids + start;
        } else if (!tg_token_file_read(l->file, start, length + 1, l->window, &l->error)) {
            return false;
        }
        memcpy(inputs + row * length, ids, (size_t)length * sizeof *ids);
        memcpy(targets + row * length, ids + 1, (size_t)length * sizeof *ids);
    }
    return true;
}

bool tg_loader_next(tg_loader *l, tg_batch *batch)
{
    if (batch) {
        *batch = (tg_batch){NULL, NULL};
    }
    if (!l || l->error.code != TG_OK) {
        return false;
    }
    if (!batch) {
        return tg_error_set(&l->error, TG_ERROR_STATE, "loader_next: the batch is NULL");
    }
    if (l->next == l->batches) {
        l->next = 0;
        return false;
    }
    int64_t first = l->next * l->config.batch_size;
    int64_t rows = l->windows - first < l->config.batch_size ? l->windows - first : l->config.batch_size;
    rows /= l->config.ranks;
    first += l->config.rank * rows;
    tg_batch *next = unused_batch(l, rows);
    if (!next) {
        return false;
    }
    tg_rng before;
    tg_rng_copy(&before, l->rng);
    if (l->next == 0) {
        tg_begin_pass(l->rng, l->sampler, l->order, l->windows);
    }
    if (!fill(l, next, first, rows)) {
        tg_rng_copy(l->rng, &before);
        return false;
    }
    l->next++;
    *batch = *next;
    return true;
}

const tg_error *tg_loader_error(const tg_loader *l)
{
    static const tg_error none = {TG_ERROR_MEMORY, "the loader is NULL: it could not be created"};
    return l ? &l->error : &none;
}

void tg_loader_clear_error(tg_loader *l)
{
    if (l) {
        tg_error_clear(&l->error);
    }
}

int64_t tg_loader_batches(const tg_loader *l)
{
    return l ? l->batches : 0;
}

/* ---- for checkpoints ---- */

tg_loader_position tg_loader_get_position(const tg_loader *l)
{
    return (tg_loader_position){l->sampler ? l->sampler->seed : 0, l->next};
}

void tg_loader_set_position(tg_loader *l, tg_loader_position position)
{
    l->next = position.next;
    if (l->order) {
        tg_rng_seed(l->sampler, position.seed);
        tg_rng_randperm(l->sampler, l->order, l->windows);
    }
}

const tg_loader_config *tg_loader_get_config(const tg_loader *l)
{
    return &l->config;
}

int64_t tg_loader_windows(const tg_loader *l)
{
    return l->windows;
}

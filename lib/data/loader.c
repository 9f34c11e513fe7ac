/* loader: sliding windows over ids, in the order of torch's DataLoader.
 *
 * A pass begins with what the DataLoader draws (torch/utils/data, num_workers=0): one 64-bit number, which only
 * workers would use, and with shuffle a second one, which seeds a generator of its own for the permutation. So
 * training that shares its generator with the loader stays in step with PyTorch.
 *
 * Batches are tensors that the loader keeps in a ring. One that nobody else holds is filled again; one that a tape's
 * record still holds is left alone, and another taken: two are enough for the usual loop.
 */
#include <string.h>

#include "base/alloc.h"
#include "data/file.h"
#include "tensor/tensor.h"

struct tg_loader {
    tg_error error;
    tg_loader_config config;
    tg_rng *rng, *sampler; /* the sampler's own generator, for permutations */
    int32_t *ids;          /* a copy, or NULL with a file */
    const tg_token_file *file;
    int64_t windows, batches, next; /* next: the batch that comes, 0 at the beginning of a pass */
    int64_t *order;                 /* of the windows in this pass; NULL without shuffle */
    tg_batch *ring;
    size_t ring_count, ring_capacity;
    int32_t *window; /* T + 1 ids */
};

tg_loader_config tg_loader_config_default(void)
{
    return (tg_loader_config){.max_length = 256, .stride = 128, .batch_size = 4, .shuffle = true, .drop_last = true};
}

static bool check(const tg_loader_config *c, int64_t count, const tg_rng *rng, tg_error *error)
{
    if (c->max_length < 1 || c->stride < 1 || c->batch_size < 1) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "loader: max_length %lld, stride %lld, batch_size %lld; each must be at least 1",
                            (long long)c->max_length, (long long)c->stride, (long long)c->batch_size);
    }
    if (count <= c->max_length) {
        return tg_error_set(error, TG_ERROR_SHAPE,
                            "loader: the text has %lld ids; one window of %lld and its target need %lld",
                            (long long)count, (long long)c->max_length, (long long)c->max_length + 1);
    }
    return rng || tg_error_set(error, TG_ERROR_STATE, "loader: the generator is NULL");
}

static tg_loader *make(const int32_t *ids, const tg_token_file *file, int64_t count, const tg_loader_config *given,
                       tg_rng *rng, tg_error *error)
{
    tg_loader_config config = given ? *given : tg_loader_config_default();
    if (!check(&config, count, rng, error)) {
        return NULL;
    }
    int64_t windows = (count - config.max_length - 1) / config.stride + 1;
    int64_t batches = windows / config.batch_size + (!config.drop_last && windows % config.batch_size != 0);
    if (batches == 0) {
        tg_error_set(error, TG_ERROR_SHAPE,
                     "loader: %lld windows do not fill a batch of %lld, and drop_last leaves out what is not full",
                     (long long)windows, (long long)config.batch_size);
        return NULL;
    }
    tg_loader *l = tg_alloc_zeroed(1, sizeof *l);
    if (l) {
        l->config = config;
        l->rng = rng;
        l->file = file;
        l->windows = windows;
        l->batches = batches;
        l->ids = file ? NULL : tg_alloc((size_t)count, sizeof *l->ids);
        l->order = config.shuffle ? tg_alloc((size_t)windows, sizeof *l->order) : NULL;
        l->sampler = config.shuffle ? tg_rng_new(0) : NULL;
        l->window = tg_alloc((size_t)config.max_length + 1, sizeof *l->window);
    }
    if (!l || (!file && !l->ids) || (config.shuffle && (!l->order || !l->sampler)) || !l->window) {
        tg_loader_free(l);
        tg_error_set(error, TG_ERROR_MEMORY, "loader: out of memory for %lld ids and %lld windows", (long long)count,
                     (long long)windows);
        return NULL;
    }
    if (l->ids && ids) {
        memcpy(l->ids, ids, (size_t)count * sizeof *ids);
    }
    return l;
}

tg_loader *tg_loader_new(const int32_t *ids, int64_t count, const tg_loader_config *config, tg_rng *rng,
                         tg_error *error)
{
    if (!ids) {
        tg_error_set(error, TG_ERROR_STATE, "loader: the ids are NULL");
        return NULL;
    }
    return make(ids, NULL, count, config, rng, error);
}

tg_loader *tg_loader_new_from_file(const tg_token_file *file, const tg_loader_config *config, tg_rng *rng,
                                   tg_error *error)
{
    if (!file) {
        tg_error_set(error, TG_ERROR_STATE, "loader: the token file is NULL");
        return NULL;
    }
    return make(NULL, file, tg_token_file_count(file), config, rng, error);
}

void tg_loader_free(tg_loader *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->ring_count; i++) {
        tg_release(l->ring[i].inputs);
        tg_release(l->ring[i].targets);
    }
    tg_free(l->ring);
    tg_free(l->ids);
    tg_free(l->order);
    tg_free(l->window);
    tg_rng_free(l->sampler);
    tg_free(l);
}

static void begin_pass(tg_loader *l)
{
    tg_rng_int64(l->rng); /* the base seed, for workers that are not there */
    if (l->order) {
        tg_rng_seed(l->sampler, tg_rng_int64(l->rng));
        tg_rng_randperm(l->sampler, l->order, l->windows);
    }
}

/* A batch of this many rows that nobody else holds: an old one, or a new one. */
static tg_batch *free_batch(tg_loader *l, int64_t rows)
{
    for (size_t i = 0; i < l->ring_count; i++) {
        const tg_batch *b = &l->ring[i];
        if (tg_tensor_references(b->inputs) == 1 && tg_tensor_references(b->targets) == 1 &&
            tg_size(b->inputs, 0) == rows) {
            return &l->ring[i];
        }
    }
    tg_shape shape = tg_shape_make(2, (int64_t[]){rows, l->config.max_length});
    tg_batch made = {NULL, NULL};
    bool room = tg_grow((void **)&l->ring, &l->ring_capacity, l->ring_count, l->ring_count + 1, sizeof *l->ring) &&
                (made.inputs = tg_tensor_new(TG_I32, shape, &l->error)) &&
                (made.targets = tg_tensor_new(TG_I32, shape, &l->error));
    if (!room) {
        tg_release(made.inputs);
        tg_error_set(&l->error, TG_ERROR_MEMORY, "loader: out of memory for a batch");
        return NULL;
    }
    l->ring[l->ring_count] = made;
    return &l->ring[l->ring_count++];
}

static bool fill(tg_loader *l, const tg_batch *batch, int64_t first, int64_t rows)
{
    int64_t length = l->config.max_length;
    int32_t *inputs = tg_data_mut(batch->inputs), *targets = tg_data_mut(batch->targets);
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
    *batch = (tg_batch){NULL, NULL};
    if (!l || l->error.code != TG_OK) {
        return false;
    }
    if (l->next == l->batches) {
        l->next = 0;
        return false;
    }
    int64_t first = l->next * l->config.batch_size;
    int64_t rows = l->windows - first < l->config.batch_size ? l->windows - first : l->config.batch_size;
    tg_batch *taken = free_batch(l, rows);
    if (!taken) {
        return false;
    }
    if (l->next == 0) {
        begin_pass(l);
    }
    if (!fill(l, taken, first, rows)) {
        return false;
    }
    l->next++;
    *batch = *taken;
    return true;
}

const char *tg_loader_error(const tg_loader *l)
{
    return l ? l->error.text : "the loader is NULL: the error of tg_loader_new says why";
}

tg_code tg_loader_error_code(const tg_loader *l)
{
    return l ? l->error.code : TG_ERROR_STATE;
}

int64_t tg_loader_windows(const tg_loader *l)
{
    return l->windows;
}

int64_t tg_loader_batches(const tg_loader *l)
{
    return l->batches;
}

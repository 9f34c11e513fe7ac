/* loader: the order of items, and their batches, as torch's DataLoader has them.
 *
 * A pass begins with the draws of the DataLoader (torch/utils/data, num_workers=0): one 64-bit number, which only
 * workers would use, and with shuffle a second one, which seeds another generator for the permutation. So a training
 * program that shares its generator with the loader draws the same numbers as in PyTorch.
 *
 * The loader reuses its batches. A batch is filled again when nobody else holds its tensors. While a record of a tape
 * holds them, another batch is used. Two batches are enough for the usual loop.
 */
#include "data/loader.h"

#include <stdio.h>

#include <tapegrad/extend.h>

#include "base/alloc.h"
#include "base/random.h"
#include "tensor/tensor.h"

/* The storage of batches that are not valid any more: it has a guard and no values. It is one block, because a tensor
 * that somebody retains refers to it after the loader was freed. */
typedef struct tg_stale_values {
    tg_storage storage; /* must be the first */
    tg_value_guard guard;
} tg_stale_values;

TG_CONFIG(tg_loader_config, tg_loader_config_default, mark, .mark = mark, .parts = 1, .pad_id = -1,
          .max_length = TG_NO_MAX_LENGTH, .ignored_target = -100);

/* ---- constructors ---- */

/* Checks that no option is set that other loaders have. */
static bool check_options(tg_loader *l)
{
    static const char *const has[] = {"windows", "tensors", "lists"};
    static const char *const of[] = {"windows of ids (tg_loader_new)", "tg_loader_new_from_tensors",
                                     "tg_loader_new_from_lists"};
    const tg_loader_config *c = &l->config, usual = tg_loader_config_default();
    const struct {
        const char *name;
        int64_t value, usual;
        tg_loader_options of;
    } options[] = {
        {"context", c->context, 0, TG_LOADER_WINDOWS},
        {"stride", c->stride, 0, TG_LOADER_WINDOWS},
        {"rows", c->rows != NULL, 0, TG_LOADER_TENSORS},
        {"row_count", c->row_count, 0, TG_LOADER_TENSORS},
        {"pad_id", c->pad_id, usual.pad_id, TG_LOADER_LISTS},
        {"max_length", c->max_length, usual.max_length, TG_LOADER_LISTS},
        {"ignored_target", c->ignored_target, usual.ignored_target, TG_LOADER_LISTS},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char value[24] = "set";
        if (options[i].value != options[i].usual && options[i].of != l->kind->options) {
            if (options[i].of != TG_LOADER_TENSORS) {
                snprintf(value, sizeof value, "%lld", (long long)options[i].value);
            }
            return tg_error_set(l->run->error, TG_ERROR_VALUE, "%s: %s is %s; it is an option of %s, and %s have none",
                                l->call, options[i].name, value, of[options[i].of], has[l->kind->options]);
        }
    }
    return true;
}

tg_loader *tg_loader_make(tg_run *given_run, const char *call, const tg_loader_kind *kind, const char *missing,
                          const tg_loader_config *given)
{
    tg_run *run = tg_run_keep(given_run);
    tg_loader *l = run ? tg_alloc_zeroed(1, sizeof *l) : NULL;
    if (!l) {
        if (run) {
            tg_error_set(run->error, TG_ERROR_MEMORY, "%s: out of memory", call);
        }
        tg_run_free(run);
        return NULL;
    }
    l->run = run;
    l->call = call;
    l->kind = kind;
    if (missing) {
        tg_error_set(run->error, TG_ERROR_STATE, "%s: the %s is NULL", call, missing);
    } else if (tg_config_check(call, given, mark, run->error)) {
        l->config = given ? *given : tg_loader_config_default();
        check_options(l);
    }
    return l;
}

bool tg_loader_check_size(tg_loader *l, const char *name, int64_t value)
{
    return value >= 1 || tg_error_set(l->run->error, TG_ERROR_VALUE, "%s: %s %lld; it must be set to at least 1",
                                      l->call, name, (long long)value);
}

/* Checks that every batch can be divided into parts. */
static bool check_parts(tg_loader *l)
{
    const tg_loader_config *c = &l->config;
    const char *items = l->kind->items;
    long long parts = c->parts, left = c->drop_last ? 0 : l->count % c->batch_size;
    if (c->part < 0 || c->part >= parts) {
        return tg_error_set(l->run->error, TG_ERROR_RANGE, "%s: part %lld is outside [0,%lld)", l->call,
                            (long long)c->part, parts);
    }
    if (l->count < parts) {
        return tg_error_set(l->run->error, TG_ERROR_SHAPE, "%s: %lld %s for %lld parts; each part needs one", l->call,
                            (long long)l->count, items, parts);
    }
    if (c->batch_size % parts != 0) {
        return tg_error_set(l->run->error, TG_ERROR_VALUE, "%s: batch_size %lld is not a multiple of %lld parts",
                            l->call, (long long)c->batch_size, parts);
    }
    return left % parts == 0 ||
           tg_error_set(l->run->error, TG_ERROR_VALUE,
                        "%s: the last batch has %lld %s, which is not a multiple of %lld parts; drop_last leaves it "
                        "out",
                        l->call, left, items, parts);
}

static bool check(tg_loader *l)
{
    const tg_loader_config *c = &l->config;
    if (!tg_loader_check_size(l, "batch_size", c->batch_size) || !tg_loader_check_size(l, "parts", c->parts) ||
        !check_parts(l)) {
        return false;
    }
    return !c->drop_last || l->count >= c->batch_size ||
           tg_error_set(l->run->error, TG_ERROR_SHAPE,
                        "%s: %lld %s do not fill a batch of %lld, and drop_last leaves out a batch that is not full",
                        l->call, (long long)l->count, l->kind->items, (long long)c->batch_size);
}

static bool allocate_order(tg_loader *l)
{
    if (!tg_run_rng(l->run)) {
        return tg_error_set(l->run->error, TG_ERROR_STATE, "%s: shuffle needs a generator; give the loader a run",
                            l->call);
    }
    l->order = tg_alloc((uint64_t)l->count, sizeof *l->order);
    l->sampler = tg_rng_new(0);
    return (l->order && l->sampler) ||
           tg_error_set(l->run->error, TG_ERROR_MEMORY, "%s: out of memory for the order of %lld %s", l->call,
                        (long long)l->count, l->kind->items);
}

static bool refuse_stale(const tg_value_guard *guard, const char *call, const char *name, const tg_tensor *x,
                         tg_error *error)
{
    (void)guard, (void)name, (void)x;
    return tg_error_set(error, TG_ERROR_STATE,
                        "%s%sa tensor of a batch is used after the next call of tg_loader_next; tg_retain keeps it",
                        call ? call : "", call ? ": " : "");
}

static bool begin_detection(tg_loader *l)
{
    tg_stale_values *made = l->stale_values = tg_pool_take(NULL, sizeof *made);
    if (!made) {
        return tg_error_set(l->run->error, TG_ERROR_MEMORY, "%s: out of memory", l->call);
    }
    atomic_init(&made->storage.references, 1);
    atomic_init(&made->storage.version, 0);
    made->storage.first_version = 0;
    made->storage.guard = &made->guard;
    made->guard = (tg_value_guard){.refuse = refuse_stale, .run = l->run};
    return true;
}

void tg_loader_begin(tg_loader *l, int64_t count, int tensors)
{
    const tg_loader_config *c = &l->config;
    l->count = count;
    l->tensors = tensors;
    if (check(l) && (!c->shuffle || allocate_order(l)) && (!c->detect_stale_batches || begin_detection(l))) {
        l->batches = count / c->batch_size + (!c->drop_last && count % c->batch_size != 0);
        l->is_made = true;
    }
}

static void free_batch(tg_tensor **batch, int tensors)
{
    for (int i = 0; batch && i < tensors; i++) {
        tg_release(batch[i]);
    }
    tg_free(batch);
}

void tg_loader_free(tg_loader *l)
{
    if (!l) {
        return;
    }
    for (size_t i = 0; i < l->kept_count; i++) {
        free_batch(l->kept[i], l->tensors);
    }
    if (l->stale_values) {
        tg_value_guard_end(&l->stale_values->guard);
        tg_storage_drop(NULL, &l->stale_values->storage);
    }
    tg_free(l->kept);
    tg_free(l->order);
    tg_rng_free(l->sampler);
    if (l->source) {
        l->kind->free(l->source);
    }
    tg_run_free(l->run);
    tg_free(l);
}

/* ---- batches ---- */

/* Returns whether anybody else holds a tensor of the batch. */
static bool is_held(const tg_loader *l, tg_tensor *const *batch)
{
    for (int i = 0; i < l->tensors; i++) {
        if (tg_tensor_references(batch[i]) != 1) {
            return true;
        }
    }
    return false;
}

/* Takes the values from all batches that nobody else holds. */
static void retire_batches(tg_loader *l)
{
    for (size_t k = l->stale_count; k < l->kept_count; k++) {
        tg_tensor **batch = l->kept[k];
        if (is_held(l, batch)) {
            continue;
        }
        for (int i = 0; i < l->tensors; i++) {
            tg_storage_drop(NULL, batch[i]->storage);
            batch[i]->storage = &l->stale_values->storage;
            atomic_fetch_add_explicit(&l->stale_values->storage.references, 1, memory_order_relaxed);
        }
        l->kept[k] = l->kept[l->stale_count];
        l->kept[l->stale_count++] = batch;
    }
}

/* Returns NULL when memory is exhausted. */
static tg_tensor **new_batch(const tg_loader *l, int64_t rows, int64_t columns)
{
    tg_tensor **batch = tg_alloc_zeroed((size_t)l->tensors, sizeof *batch);
    for (int i = 0; batch && i < l->tensors; i++) {
        batch[i] = l->kind->new_tensor(l->source, i, rows, columns);
        if (!batch[i]) {
            free_batch(batch, l->tensors);
            return NULL;
        }
    }
    return batch;
}

/* Returns a batch of these sizes that nobody else holds, an old or a new one; NULL when memory is exhausted. If the
 * number of columns varies, a batch with another number is freed for it: there are more sizes than batches needed. */
static tg_tensor **unused_batch(tg_loader *l, int64_t rows, int64_t columns)
{
    size_t other = l->kept_count;
    for (size_t i = l->stale_count; i < l->kept_count; i++) {
        bool fits = tg_tensor_size(l->kept[i][0], 0) == rows &&
                    (!l->kind->columns || tg_tensor_size(l->kept[i][0], 1) == columns);
        if (is_held(l, l->kept[i])) {
            continue;
        }
        if (fits) {
            return l->kept[i];
        }
        other = l->kind->columns ? i : other;
    }
    if (other < l->kept_count) {
        tg_tensor **instead = new_batch(l, rows, columns);
        if (instead) {
            free_batch(l->kept[other], l->tensors);
            l->kept[other] = instead;
        }
        return instead;
    }
    bool is_ready = tg_grow(&l->kept, &l->kept_capacity, l->kept_count, l->kept_count + 1, sizeof *l->kept);
    tg_tensor **added = is_ready ? new_batch(l, rows, columns) : NULL;
    if (added) {
        l->kept[l->kept_count++] = added;
    }
    return added;
}

static void begin_pass(tg_loader *l)
{
    tg_rng *rng = tg_run_rng(l->run);
    if (rng) {
        tg_rng_int64(rng);
    }
    if (l->order) {
        tg_rng_seed(l->sampler, tg_rng_int64(rng));
        tg_rng_randperm(l->sampler, l->order, l->count);
    }
}

bool tg_loader_next(tg_loader *l, tg_batch *batch)
{
    if (batch) {
        *batch = (tg_batch){.inputs = NULL};
    }
    if (!tg_loader_is_usable(l)) {
        return false;
    }
    if (!batch) {
        return tg_error_set(l->run->error, TG_ERROR_STATE, "loader_next: the batch is NULL");
    }
    if (l->stale_values) {
        retire_batches(l);
    }
    if (l->next == l->batches) {
        l->next = 0;
        return false;
    }
    if (l->kind->check && !l->kind->check(l->source, l->run->error)) {
        return false;
    }
    int64_t first = l->next * l->config.batch_size;
    int64_t rows = l->count - first < l->config.batch_size ? l->count - first : l->config.batch_size;
    tg_rng before;
    tg_rng_copy(&before, tg_run_rng(l->run));
    if (l->next == 0) {
        begin_pass(l);
    }
    /* all parts of a batch have the columns of the whole */
    int64_t columns = l->kind->columns ? l->kind->columns(l->source, l->order, first, rows) : 0;
    rows /= l->config.parts;
    first += l->config.part * rows;
    tg_tensor **next = unused_batch(l, rows, columns);
    if (!next) {
        tg_error_set(l->run->error, TG_ERROR_MEMORY, "loader_next: out of memory for a batch");
    }
    if (!next || !l->kind->fill(l->source, l->order, first, next, l->run->error)) {
        tg_rng_copy(tg_run_rng(l->run), &before);
        return false;
    }
    l->next++;
    *batch = (tg_batch){next[0], l->tensors > 1 ? next[1] : NULL, next, l->tensors};
    return true;
}

void tg_loader_reset(tg_loader *l)
{
    if (l) {
        l->next = 0;
    }
}

bool tg_loader_is_usable(const tg_loader *l)
{
    return tg_loader_is_begun(l) &&
           (l->is_made || tg_error_set(l->run->error, TG_ERROR_STATE,
                                       "the loader was not made: %s has reported why; make another", l->call));
}

const tg_error *tg_loader_error(const tg_loader *l)
{
    static const tg_error none = {TG_ERROR_MEMORY, "the loader is NULL: it could not be created", -1, -1};
    return l ? l->run->error : &none;
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
        tg_rng_randperm(l->sampler, l->order, l->count);
    }
}

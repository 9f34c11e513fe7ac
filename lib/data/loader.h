/* loader (private): what loaders of windows (windows.c), of tensors (tensors.c) and of lists (lists.c) share, and the
 * position of a loader, which a checkpoint saves.
 */
#ifndef TG_DATA_LOADER_H
#define TG_DATA_LOADER_H

#include <tapegrad/data.h>

#include "base/run.h"

/* The options that only some loaders have. */
typedef enum tg_loader_options { TG_LOADER_WINDOWS, TG_LOADER_TENSORS, TG_LOADER_LISTS } tg_loader_options;

/* Where the items of a loader come from. `source` is the first argument of each function, and belongs to the loader. */
typedef struct tg_loader_kind {
    /* in messages: "windows", "rows" */
    const char *items;
    tg_loader_options options; /* which it has beside those of all loaders */
    /* checks before each batch that the items still exist; NULL: nothing can change */
    bool (*check)(const void *source, tg_error *error);
    /* returns the number of columns of a batch of `count` items from the first one on, which is below 2^31; NULL: the
     * number does not depend on the items */
    int64_t (*columns)(const void *source, const int64_t *order, int64_t first, int64_t count);
    /* returns tensor i of a batch of `count` items; NULL when memory is exhausted */
    tg_tensor *(*new_tensor)(const void *source, int i, int64_t count, int64_t columns);
    /* Fills a batch with the items order[first], order[first + 1], ..., or, without an order, first, first + 1, ...
     * Returns false with the error set. */
    bool (*fill)(const void *source, const int64_t *order, int64_t first, tg_tensor *const *batch, tg_error *error);
    void (*free)(void *source);
} tg_loader_kind;

struct tg_loader {
    tg_run *run;
    bool is_made; /* whether the constructor succeeded */
    tg_loader_config config;
    const char *call; /* that made the loader, for messages */
    const tg_loader_kind *kind;
    void *source;
    tg_rng *sampler; /* of permutations; NULL without shuffle */
    int tensors;     /* per batch */
    /* the numbers of items and batches in a pass; the index of the next batch, 0 at the beginning of a pass */
    int64_t count, batches, next;
    int64_t *order;    /* the order of the items in this pass; NULL without shuffle */
    tg_tensor ***kept; /* batches, each an array of tensors */
    size_t kept_count, kept_capacity;
    /* with detect_stale_batches: the first batches are not valid any more, and their tensors have this storage without
     * values */
    size_t stale_count;
    struct tg_stale_values *stale_values;
};

/* Item i of a pass. */
static inline int64_t tg_loader_item(const int64_t *order, int64_t i)
{
    return order ? order[i] : i;
}

/* Returns a loader without a source. `missing` names an argument that is NULL, or is NULL itself. The error is in the
 * run; NULL when memory is exhausted. */
tg_loader *tg_loader_make(tg_run *run, const char *call, const tg_loader_kind *kind, const char *missing,
                          const tg_loader_config *config);

/* Returns whether the constructor may go on. */
static inline bool tg_loader_is_begun(const tg_loader *loader)
{
    return loader && tg_run_is_clear(loader->run);
}

/* Returns whether the loader exists and was made, and its run has no error. */
bool tg_loader_is_usable(const tg_loader *loader);

/* Completes a loader whose source has `count` items, with `tensors` of them in a batch. The error is in the run. */
void tg_loader_begin(tg_loader *loader, int64_t count, int tensors);

/* Sets VALUE for a size below 1. Returns whether it is valid. */
bool tg_loader_check_size(tg_loader *loader, const char *name, int64_t value);

/* ---- for checkpoints ---- */

/* A position in a pass. */
typedef struct tg_loader_position {
    uint64_t seed; /* of the order of this pass; without shuffle it has no meaning */
    int64_t next;  /* the index of the next batch, 0 at the beginning of a pass */
} tg_loader_position;

tg_loader_position tg_loader_get_position(const tg_loader *loader);

/* Sets the position. `next` must be at most the number of batches. */
void tg_loader_set_position(tg_loader *loader, tg_loader_position position);

#endif

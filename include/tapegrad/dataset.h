/* dataset: tensors that share their first axis, in batches.
 *
 * ```c
 * tg_tensor *features = tg_tensor_new(TG_F32, TG_SHAPE(150, 4), &error);
 * tg_tensor *labels = tg_tensor_new(TG_I32, TG_SHAPE(150), &error);
 * tg_dataset_loader_config config = tg_dataset_loader_config_default();
 * config.batch_size = 16;
 * config.shuffle = true;
 * tg_dataset_loader *loader = tg_dataset_loader_new((tg_tensor *[]){features, labels}, 2, rng, &config);
 * for (tg_tensor *batch[2]; tg_dataset_loader_next(loader, batch);) {
 *     tg_tensor_print(batch[0], stdout, NULL, NULL);                  // (16,4); batch[1] is (16)
 * }
 * ```
 *
 * Errors. A call can also report MEMORY. The comments repeat neither that nor STATE for a NULL.
 */
#ifndef TAPEGRAD_DATASET_H
#define TAPEGRAD_DATASET_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- loader: torch.utils.data.DataLoader over a TensorDataset ---------------------------------------------------- */
/* A pass draws what the DataLoader without workers draws: one 64-bit number, and with shuffle a second one, which seeds
 * the permutation of the rows. */

typedef struct tg_dataset_loader tg_dataset_loader;

typedef struct tg_dataset_loader_config {
    /* private: tg_dataset_loader_config_default() sets it */
    tg_config_mark mark;
    /* the number of rows per batch; must be set */
    int64_t batch_size;
    /* a new random order in each pass; default false */
    bool shuffle;
    /* no last batch with fewer rows than the others; default false */
    bool drop_last;
    /* the indices of the rows that belong to the dataset, of which the loader keeps a copy: torch.utils.data.Subset;
     * default NULL, all rows */
    const int64_t *rows;
    /* the number of these indices; default 0 */
    int64_t row_count;
} tg_dataset_loader_config;

TG_API tg_dataset_loader_config tg_dataset_loader_config_default(void);

/* Returns a loader over `count` tensors of any dtypes that have the same size on axis 0, the number of rows. The loader
 * retains them. Yours to free. `rng` stays yours and must outlive the loader. The error is in the loader: VALUE for a
 * batch_size or a count below 1; SHAPE for tensors without a common size, for a dataset without rows, and, with
 * drop_last, for fewer rows than a batch has; RANGE, with its position, for an index of a row that does not exist. NULL
 * when memory is exhausted. */
TG_API tg_dataset_loader *tg_dataset_loader_new(tg_tensor *const *tensors, int count, tg_rng *rng,
                                                const tg_dataset_loader_config *config);
TG_API void tg_dataset_loader_free(tg_dataset_loader *loader);

/* Writes the next batch to batch[0 .. count), one tensor (rows,..) for each tensor of the dataset. They are owned by
 * the loader and valid until the next call; a tensor that is retained keeps its values, because the loader then uses
 * another, and a tape retains those that it recorded. Returns false, and writes NULLs, at the end of the pass and after
 * an error. The call after the end of a pass begins another pass. STATE if a tensor of the dataset was resized
 * (tg_tensor_resize_rows) or has deferred steps (tg_optim_flush). */
TG_API bool tg_dataset_loader_next(tg_dataset_loader *loader, tg_tensor **batch);

/* Returns the first error since the last clear; never NULL. MEMORY for a NULL loader. */
TG_API const tg_error *tg_dataset_loader_error(const tg_dataset_loader *loader);

/* Clears the error, so that the loader accepts calls again. */
TG_API void tg_dataset_loader_clear_error(tg_dataset_loader *loader);

/* Returns the number of batches in a pass: len(dataloader). */
TG_API int64_t tg_dataset_loader_batches(const tg_dataset_loader *loader);

/* Divides the indices 0 .. n - 1 at random into parts of these lengths, n = their sum: torch.utils.data.random_split.
 * Writes all n indices to `rows`, part after part. SHAPE for less than 1 part, a negative length, and for no rows at
 * all. */
TG_API bool tg_random_split(tg_rng *rng, const int64_t *lengths, int parts, int64_t *rows, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif

/* rows: single rows of a table: frozen rows, counts of updates, norms and neighbors, and resizing.
 *
 * A row is one index on axis 0: row `id` of an embedding (V,C) is the vector of token `id`.
 *
 * Frozen rows and counts belong to the tensor, so every op, module and optimizer that uses the tensor respects them.
 * tg_detach returns a tensor with the same values but without frozen rows and counts.
 */
#ifndef TAPEGRAD_ROWS_H
#define TAPEGRAD_ROWS_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- frozen rows ------------------------------------------------------------------------------------------------- */
/* A frozen row keeps its bits while the rest of its table is trained. No op gives it a gradient. Optimizer steps,
 * weight decay and max_norm skip it and its moments. Only your own writes change it (tg_tensor_data_mut, fills).
 *
 * So a padding row stays zero even under a tied output head. PyTorch's padding_idx blocks the gradient of the lookup,
 * but neither the gradient of the head nor decoupled weight decay. Another use: keep a pretrained table, and train only
 * the rows that were added to it. */

/* Freezes the rows first .. first + count - 1, or unfreezes them. Freezing also drops the gradient that a row has now.
 * STATE if x is the result of an op, or has deferred steps (tg_optim_flush); SHAPE for a scalar; DTYPE for i32 and u8;
 * RANGE for rows that do not exist; MEMORY. */
TG_API bool tg_tensor_set_rows_frozen(tg_tensor *x, int64_t first, int64_t count, bool frozen, tg_error *error);

/* Returns whether a row is frozen; false for a row that does not exist. */
TG_API bool tg_tensor_row_is_frozen(const tg_tensor *x, int64_t row);

/* ---- updates ----------------------------------------------------------------------------------------------------- */
/* Updates are counted on request; this takes 16 bytes per row. Each optimizer step then counts the rows that have a
 * gradient: the listed rows of a gradient by rows, and the rows of a dense gradient that are not all zeros. */

typedef struct tg_row_updates {
    /* the number of steps that updated the row */
    int64_t count;
    /* the tensor's step number in the last of them, from 1 (tg_optim_steps); 0 if no step updated the row */
    int64_t last_step;
} tg_row_updates;

/* Starts to count from 0, or stops and drops the counts. STATE if x is the result of an op; SHAPE for a scalar; DTYPE
 * for i32 and u8; MEMORY. */
TG_API bool tg_tensor_set_rows_watched(tg_tensor *x, bool watched, tg_error *error);

/* Returns the counts of a row; zeros for a row that does not exist, and for a tensor that is not watched. */
TG_API tg_row_updates tg_tensor_row_updates(const tg_tensor *x, int64_t row);

/* Returns the number of rows that no step has updated since the counts began. Writes the indices of the first
 * `capacity` of them to `ids`, in ascending order; `ids` is optional if the capacity is 0. -1 and STATE for a tensor
 * that is not watched. */
TG_API int64_t tg_tensor_rows_never_updated(const tg_tensor *x, int32_t *ids, int64_t capacity, tg_error *error);

/* ---- norms and neighbors ----------------------------------------------------------------------------------------- */

/* Returns the p-norm of a row, (sum of |value|^p)^(1/p), summed in double; for p = INFINITY the largest |value|. NaN
 * after an error: RANGE for a row that does not exist, VALUE unless p > 0. */
TG_API double tg_tensor_row_norm(const tg_tensor *x, int64_t row, double p, tg_error *error);

/* How near two vectors are. */
typedef enum tg_similarity {
    /* the cosine of the angle between them, in [-1,1]; 0 if one of them is all zeros */
    TG_SIMILARITY_COSINE,
    /* their dot product */
    TG_SIMILARITY_DOT
} tg_similarity;

typedef struct tg_row_neighbor {
    /* the index of the neighbor, or -1: there are no more */
    int64_t row;
    /* of the two vectors; for tg_tensor_row_neighbors their cosine */
    double similarity;
} tg_row_neighbor;

/* Writes the `count` rows with the largest cosine to `row` to `neighbors`, nearest first; on ties the smaller index
 * comes first. Returns the number of rows that it wrote, which is smaller if the table has fewer. `row` itself is left
 * out. `among` is optional and has one byte per row: rows with 0 are left out, such as
 * those of padding and of words that the training never saw. A row with a NaN or an infinity has no
 * neighbors and is no neighbor. Takes one pass over the table. -1 and RANGE for a row that does not exist or a negative
 * count. */
TG_API int64_t tg_tensor_row_neighbors(const tg_tensor *x, int64_t row, const uint8_t *among,
                                       tg_row_neighbor *neighbors, int64_t count, tg_error *error);

/* Searches a table (V,C) for the `count` rows with the largest similarity to each of the queries (N,C), and writes them
 * to `neighbors` (N,count), nearest first; on ties the smaller index comes first. Each row of the table is visited: the
 * result is exact, up to the roundings of products in the dtype of the table, f32 or f64, which the queries have, too.
 * `among` is optional and has one byte per row, as above. A vector with a NaN or an infinity has no neighbors and is no
 * neighbor. If a query has fewer than `count`, the rest is row -1 with a similarity of -INFINITY. Takes one pass over
 * the table for each 1,024 queries, on all threads, and no copy of a table that is contiguous. The bits do not depend
 * on the number of threads. RANGE for a count that is negative or above V; VALUE for a similarity that does not exist;
 * SHAPE; DTYPE; MEMORY. */
TG_API bool tg_tensor_neighbors(const tg_tensor *table, const tg_tensor *queries, tg_similarity similarity,
                                const uint8_t *among, int64_t count, tg_row_neighbor *neighbors, tg_error *error);

/* ---- resizing ---------------------------------------------------------------------------------------------------- */

/* Changes the number of rows to 1 or more. Rows that remain keep their values, counts and frozen state; new rows are
 * zeros. The tensor stays the same object, so modules, params and optimizers that hold it continue to work, if the rest
 * of a module allows the size. A Linear with a bias or with LoRA, attention and relative positions do not: they report
 * SHAPE until the rows fit again. An optimizer's moments follow at its next step. Addresses from tg_tensor_data become
 * invalid. A backward through a call that was recorded before the resize reports STATE. To draw initial values for the
 * new rows, use tg_nn_embedding_resize (tapegrad/nn.h).
 *
 * STATE, and nothing changed, if
 *   - x is the result of an op, or not contiguous;
 *   - x has a gradient (tg_tensor_zero_grad drops it), or a backward in progress adds to it;
 *   - another tensor shares its values (a view on a tape that was not reset, a detached tensor);
 *   - a row that would be removed is frozen, or was updated while watched;
 *   - an optimizer with moments of x has not made a step since the last resize;
 *   - rows have deferred steps (tg_optim_flush);
 *   - x is itself a gradient, the state of an optimizer, or a shard.
 *
 * SHAPE for a scalar, and for a number of rows that is not allowed; DTYPE for i32 and u8; MEMORY. */
TG_API bool tg_tensor_resize_rows(tg_tensor *x, int64_t rows, tg_error *error);

/* ---- shards ------------------------------------------------------------------------------------------------------ */

/* Declares x a shard of a table of `rows` rows: x has the rows first, first + 1, .... Together the shards must have
 * each row once. Files have the whole table: tg_params_load and tg_checkpoint_load read only the rows of the shard, and
 * tg_checkpoint_save_together writes them.
 *
 * STATE if x is the result of an op; SHAPE for a scalar; DTYPE for i32 and u8; RANGE if the table does not have all
 * rows of x; MEMORY. */
TG_API bool tg_tensor_set_shard(tg_tensor *x, int64_t first, int64_t rows, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif

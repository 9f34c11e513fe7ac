/* rows: the single rows of a table: frozen ones, what training did to each, norms and neighbours; and resizing.
 *
 * A row is what one index on axis 0 names: row `id` of an embedding (V,C) is the vector of token `id`. Row calls take a
 * tensor of rank 1 or more.
 *
 * What is said about rows here belongs to the tensor, so that every op, optimizer and module that meets the tensor
 * keeps to it, whoever asked for it. Another tensor over the same values (a detached one) knows nothing of it.
 */
#ifndef TAPEGRAD_ROWS_H
#define TAPEGRAD_ROWS_H

#include <tapegrad/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- frozen rows ------------------------------------------------------------------------------------------------- */
/* A frozen row stays bit for bit what it is, though the rest of its table is trained: it gets no gradient from any op,
 * steps of optimizers pass over it and its buffers, weight decay included, and tg_embedding_renorm leaves it. Only
 * your own writes (tg_data_mut, fills) change it.
 *
 * So a padding row stays one, also where a tied output head would train it: PyTorch's padding_idx keeps the gradient of
 * the lookup away, not the head's, and decoupled weight decay not either. The other use: keep a pretrained table, and
 * train the rows that were added to it.
 */

/* Freezes rows first .. first + count - 1, or frees them again. Freezing drops the gradient that a row has now. x is
 * a leaf of f32 or f64 (STATE, DTYPE); RANGE for rows that are not there; MEMORY. */
TG_API bool tg_set_rows_frozen(tg_tensor *x, int64_t first, int64_t count, bool frozen, tg_error *error);

TG_API bool tg_row_is_frozen(const tg_tensor *x, int64_t row); /* false for a row that is not there */

/* ---- what training did to each row ------------------------------------------------------------------------------- */
/* Counted on request, because it costs 16 bytes a row: from then on each step of an optimizer notes the rows that it
 * had a gradient for. Of a gradient by rows these are its rows; of a dense one the rows that are not all zeros. */

typedef struct tg_row_updates {
    int64_t count;     /* steps that updated the row */
    int64_t last_step; /* the tensor's step number that did so last, from 1 (tg_optim_steps); 0: none has */
} tg_row_updates;

/* Starts with zero counts, or stops and forgets them. STATE for the result of an op, DTYPE unless f32 or f64, MEMORY. */
TG_API bool tg_watch_rows(tg_tensor *x, bool watch, tg_error *error);

/* Zeros for a row that is not there, and for a tensor that is not watched. */
TG_API tg_row_updates tg_row_updates_of(const tg_tensor *x, int64_t row);

/* The rows that no step has updated since the watch began, in ascending order: the first `capacity` of them are
 * written to `ids`, which may be NULL when capacity is 0. Returns how many there are; -1 for a tensor that is not
 * watched. */
TG_API int64_t tg_rows_never_updated(const tg_tensor *x, int32_t *ids, int64_t capacity);

/* ---- norms and neighbours ---------------------------------------------------------------------------------------- */

/* (sum of |value|^p)^(1/p) over the row, p > 0; p INFINITY: the largest |value|. Summed in double. NaN for a row that
 * is not there and for p that means nothing. */
TG_API double tg_row_norm(const tg_tensor *x, int64_t row, double p);

typedef struct tg_row_neighbour {
    int64_t row;
    double cosine; /* of the angle to the row asked about, -1 .. 1; 0 when one of the two is all zeros */
} tg_row_neighbour;

/* The `count` rows nearest to `row` by cosine, nearest first, of equals the smaller index, without `row` itself. `among`
 * says, a byte a row, which rows may be named (0: not); NULL for all. A row with a NaN or an infinity has no neighbours
 * and is nobody's. Writes and returns as many as there are; -1, nothing written, for a row that is not there. One pass
 * over the table. */
TG_API int64_t tg_row_neighbours(const tg_tensor *x, int64_t row, const uint8_t *among, tg_row_neighbour *neighbours,
                                 int64_t count);

/* ---- resizing ---------------------------------------------------------------------------------------------------- */

/* Gives x a new number of rows, >= 1 (SHAPE). Rows that it had keep their values and what is said of them above; new
 * ones are zeros. The tensor stays the same object, so modules, params and optimizers that hold it go on with it; an
 * optimizer's buffers follow at its next step, old rows kept. tg_embedding_resize (tapegrad/nn.h) draws initial
 * values as well.
 *
 * What would lose or confuse something is refused with STATE: while x has a gradient (tg_zero_grad drops it); while
 * another tensor shares its values (a view on a tape that was not reset, a detached copy); and when a row that would
 * go is in use: frozen, or updated since tg_watch_rows. A backward through a call that was recorded before the resize
 * is refused when it comes. DTYPE unless f32 or f64; MEMORY. What tg_data returned is gone. */
TG_API bool tg_resize_rows(tg_tensor *x, int64_t rows, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif

/* embedding (private): the functions that embedding and embedding_bag share. */
#ifndef TG_OPS_EMBEDDING_EMBEDDING_H
#define TG_OPS_EMBEDDING_EMBEDDING_H

#include <tapegrad/ops.h>

#include "tape/tape.h"

/* ---- frequencies ---- */

/* Sorts ids in ascending order, in place. Allocates nothing, so that kernels may call it. */
void tg_sort_ids(int32_t *ids, int64_t count);

/* Computes scales[i] = 1 / n_i, where n_i is the number of ids that are equal to ids[i]. `sorted` is scratch memory for
 * `count` ids. */
typedef void tg_frequency_f32(const int32_t *ids, int64_t count, int32_t *sorted, float *scales);
typedef void tg_frequency_f64(const int32_t *ids, int64_t count, int32_t *sorted, double *scales);
tg_frequency_f32 TG_EACH_LEVEL(avx2, tg_frequency_scales_f32);
tg_frequency_f64 TG_EACH_LEVEL(avx2, tg_frequency_scales_f64);

/* ---- max_norm ---- */

typedef struct tg_norm_limit {
    double norm; /* the largest norm of a row; 0: no limit */
    double p;    /* the p of the norm */
} tg_norm_limit;

/* Checks the limit, in a shape rule. VALUE for an invalid option; STATE if input number `table` is not a contiguous
 * leaf, because it is changed in place. */
bool tg_check_norm_limit(tg_op_call *call, int table, const tg_norm_limit *limit);

/* Scales rows of the table, input 1, down to the limit, in place: those that the ids, input 0, name, and whose norm is
 * above it. The scratch memory has as many i32 as ids. Does nothing without recording (tg_limits_copies), and in a
 * repeated call: the rows were scaled. */
void tg_limit_norms(const tg_op_call *call, const tg_norm_limit *limit);

/* Returns whether a call limits norms without changing the table. So it is without recording, because several threads
 * may then read one table. */
bool tg_limits_copies(const tg_op_call *call, const tg_norm_limit *limit);

/* Scales copies of the rows that the ids name, (N,C), down to the limit. */
void tg_limit_copies(const tg_op_call *call, const tg_norm_limit *limit, void *copies);

/* ---- padding ---- */

/* Converts a padding index, which may be negative, to a row counted from the front; -1 for TG_NO_PADDING. False, with
 * the tape's error set, if the table is not (V,C) or has no such row. */
bool tg_padding_row(tg_tape *tape, const char *call, const tg_tensor *table, int64_t padding_index, int64_t *row);

/* Calls tg_find_grad_rows for all ids except those of the padding row, whose rows[i] becomes -1; the new rows
 * of these calls follow each other. Returns the values of the gradient; NULL if the input needs no gradient, or if all
 * ids are the padding row's. */
void *tg_rows_of_ids(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int64_t padding,
                     int32_t *rows, int32_t *first_new);

#endif

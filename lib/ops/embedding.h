/* embedding (private): what lookups and bags share. */
#ifndef TG_OPS_EMBEDDING_H
#define TG_OPS_EMBEDDING_H

#include "ops/real.h"

/* The row of a padding index, counted from the front; -1 for TG_NO_PADDING. False, with the tape's error set, when
 * the table has no such row. */
bool tg_padding_row(tg_tape *tape, const char *name, const tg_tensor *table, int64_t padding_index, int64_t *row);

/* scales[i] = 1 / how often ids[i] is among the ids. `sorted` is room for them. */
void tg_frequency_scales_f32(const int32_t *ids, int64_t count, int32_t *sorted, float *scales);
void tg_frequency_scales_f64(const int32_t *ids, int64_t count, int32_t *sorted, double *scales);

#endif

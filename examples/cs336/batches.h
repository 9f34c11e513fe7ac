/* batches: the course's get_batch. */
#ifndef BATCHES_H
#define BATCHES_H

#include <tapegrad.h>

/* Draws `batch` places of a text of ids. Writes the `context` ids from each place on, (B,T) i32, and the ids one later,
 * the targets; the tape owns both. */
void get_batch(tg_tape *t, tg_rng *rng, const int32_t *ids, int64_t count, int64_t batch, int64_t context,
               tg_tensor **inputs, tg_tensor **targets, tg_error *error);

#endif

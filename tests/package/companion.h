/* companion: counts of the ops that a tape runs. */
#ifndef COMPANION_H
#define COMPANION_H

#include <tapegrad.h>

typedef struct op_counts op_counts;

/* Counts from now on. Yours to free, before the tape. */
op_counts *op_counts_new(tg_tape *tape, tg_error *error);
void op_counts_free(op_counts *counts);

/* Writes the number of forward kernels of each op. */
bool op_counts_save(const op_counts *counts, const char *path, tg_error *error);

/* Reads that of one op; -1 if the file does not have it, or after an error. */
int64_t op_counts_read(const char *path, const char *op, tg_error *error);

#endif

/* samples (private): sums of the gradients of samples, in a fixed order. */
#ifndef TG_MPI_SAMPLES_H
#define TG_MPI_SAMPLES_H

#include "mpi/state.h"

/* ---- nodes (node.c) ---- */

/* Returns the number of bytes of the gradients that the params have. */
size_t tg_mpi_node_bytes(const tg_mpi *mpi);

/* Writes these gradients. `keys` has space for one number per row of the gradient with the most rows. */
void tg_mpi_node_write(const tg_mpi *mpi, char *bytes, int64_t *keys);

/* Writes a + b to `out`, which has space for the bytes of both. Returns the number of bytes. */
size_t tg_mpi_node_merge(const tg_mpi *mpi, char *out, const char *a, const char *b);

/* Reserves the memory for the next function, which cannot fail then. */
void tg_mpi_node_reserve(const tg_mpi *mpi, const char *bytes, tg_error *error);

/* Sets the gradients, which must be none, to share * node. Changes the node. */
void tg_mpi_node_write_back(const tg_mpi *mpi, char *bytes, double share);

/* ---- samples (samples.c) ---- */

/* Checks that this rank has added all of its samples, or none, and that the params have no other gradients. */
bool tg_mpi_samples_check(const tg_mpi *mpi, tg_error *error);

/* Adds the sums of all ranks, and replaces every gradient by share * sum. */
bool tg_mpi_samples_reduce(tg_mpi *mpi, double share, tg_error *error);

/* Removes the samples. */
void tg_mpi_samples_clear(tg_mpi *mpi);

#endif

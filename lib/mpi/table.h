/* table (private): a table that is sharded by rows. */
#ifndef TG_MPI_TABLE_H
#define TG_MPI_TABLE_H

#include "mpi/state.h"

/* The rows that a recorded lookup has fetched. */
typedef struct tg_mpi_lookup {
    tg_tensor *rows; /* (count,width), a leaf, whose gradient belongs to the owners */
    tg_tensor *ids;  /* their numbers in the whole table, ascending, (count) i32 */
} tg_mpi_lookup;

struct tg_mpi_table {
    tg_mpi_buffer self; /* the memory of this struct */
    tg_mpi *mpi;
    tg_params *shards;
    tg_tensor *shard; /* owned by the shards */
    int64_t number;   /* of the tables of its tg_mpi, from 0; equal on all ranks */
    int64_t rows, width, per_rank;
    tg_dtype dtype;
    tg_mpi_lookup *lookups; /* since the last reduction */
    size_t lookup_count, lookup_capacity;
    tg_mpi_buffer lookup_memory;
    /* buffers of an exchange: the counts and offsets of both directions, ids and rows to send and to receive */
    tg_mpi_buffer counts, sent_ids, received_ids, sent_rows, received_rows, keys;
};

/* The numbers of rows that travel between this rank and each other, and their offsets: arrays of `ranks` ints. */
typedef struct tg_mpi_exchange {
    int *send, *send_at, *receive, *receive_at;
    int64_t sent, received;
} tg_mpi_exchange;

/* Counts the rows for each owner among ascending ids, and exchanges the counts. Collective; does not fail unless MPI
 * does. */
bool tg_mpi_exchange_counts(tg_mpi_table *table, const char *call, const int32_t *ids, int64_t count,
                            tg_mpi_exchange *exchange, tg_error *error);

/* Sends ids to their owners: received_ids has those of rank 0, then of rank 1, ... */
bool tg_mpi_exchange_ids(tg_mpi_table *table, const char *call, const tg_mpi_exchange *exchange, const int32_t *ids,
                         tg_error *error);

/* Sends rows in the same direction (`back` is false), or rows for received ids back. */
bool tg_mpi_exchange_rows(tg_mpi_table *table, const char *call, const tg_mpi_exchange *exchange, const void *from,
                          void *to, bool back, tg_error *error);

/* Returns the fact that all ranks are in a call with this table. */
tg_mpi_fact tg_mpi_table_fact(const tg_mpi_table *table);

/* Removes the lookups. */
void tg_mpi_table_clear(tg_mpi_table *table);

#endif

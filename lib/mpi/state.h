/* state (private): the state of a training over MPI.
 *
 * This library uses only the public headers of the core, extend.h among them.
 */
#ifndef TG_MPI_STATE_H
#define TG_MPI_STATE_H

#include <tapegrad_mpi.h>
#include <tapegrad/extend.h>

/* ---- errors ---- */

/* Returns true if `result`, of an MPI call, is MPI_SUCCESS. Otherwise sets an error that begins with `call`. */
bool tg_mpi_succeeded(const char *call, int result, tg_error *error);

/* Checks that the object which knows the ranks, a tg_mpi or a table, is not NULL. The error begins with `call`. */
bool tg_mpi_expect(const char *call, const char *name, const void *pointer, tg_error *error);

/* Check another argument, before the ranks agree: that it is not NULL; that a config is NULL or begins with this mark.
 * The error has no call before it. */
bool tg_mpi_expect_argument(const char *name, const void *pointer, tg_error *local);
bool tg_mpi_expect_config(const void *config, const char *mark, tg_error *local);

/* ---- memory ---- */

typedef struct tg_mpi_buffer {
    void *block;
    size_t size;
} tg_mpi_buffer;

/* Returns at least `bytes` bytes, whose contents are undefined. NULL when memory is exhausted. */
void *tg_mpi_buffer_reserve(tg_mpi_buffer *buffer, size_t bytes);
void tg_mpi_buffer_free(tg_mpi_buffer *buffer);

/* ---- values ---- */

static inline MPI_Datatype tg_mpi_type_of(tg_dtype dtype)
{
    return dtype == TG_F64 ? MPI_DOUBLE : MPI_FLOAT;
}

/* out = factor * in. The arrays may be the same. */
void tg_mpi_scale(tg_dtype dtype, void *out, const void *in, int64_t count, double factor);

/* sum = sum + more */
void tg_mpi_add(tg_dtype dtype, void *sum, const void *more, int64_t count);

/* ---- the state ---- */

/* One parameter during a reduction. */
typedef struct tg_mpi_leaf {
    tg_tensor *tensor;
    int64_t count;     /* the number of its values when the reduction, or the first sample, began */
    uint8_t kind;      /* this rank's tg_grad_kind, later that of the sum */
    bool is_announced; /* whether `kind` is set, and the gradient is final */
    bool was_dense;    /* whether the last reduction gave a dense gradient; equal on all ranks */
    bool is_early;     /* whether the gradient travels before the kinds of all ranks are known */
} tg_mpi_leaf;

/* The number of buckets in memory. */
#define TG_MPI_RING 4

typedef struct tg_mpi_bucket {
    char *values;   /* the packed values, in one chunk per rank; then the sums over all ranks */
    char *received; /* this rank's chunk from every rank */
    int64_t chunk;  /* the number of values per chunk */
    MPI_Request request;
} tg_mpi_bucket;

/* The dense gradients of some leaves, one after the other, are one array, which is cut into buckets (buckets.c).
 * Buckets finished .. summed - 1 wait for the sums of other ranks, and summed .. started - 1 for their values. */
typedef struct tg_mpi_flat {
    tg_mpi_leaf **leaves;
    int64_t *ends; /* the index in the array where each leaf ends */
    int64_t leaf_count, values;
    int64_t ready; /* the number of leaves at the beginning of the list that are announced */
    tg_dtype dtype;
    double share;
    int64_t bucket_values, buckets, started, summed, finished;
    bool is_abandoned; /* whether zeros travel, and no gradient is read or written */
    tg_mpi_bucket ring[TG_MPI_RING];
    tg_mpi_buffer list, memory; /* of leaves and ends, and of the ring */
} tg_mpi_flat;

/* The sum of the gradients of some samples (samples.c). */
typedef struct tg_mpi_node {
    tg_mpi_buffer buffer;
    size_t bytes;
} tg_mpi_node;

#define TG_MPI_LEVELS 65

/* The samples of this rank in the present step. */
typedef struct tg_mpi_samples {
    int64_t samples, added; /* the number on all ranks, 0 before the first; and the number that this rank has added */
    tg_mpi_node stack[TG_MPI_LEVELS], spare[2];
    int depth;
    tg_mpi_buffer keys; /* for sorting rows */
} tg_mpi_samples;

/* The ranks as the writers of a checkpoint (checkpoint.c), and the call that an error names. */
typedef struct tg_mpi_files {
    tg_checkpoint_group group; /* must be the first */
    tg_mpi *mpi;
    const char *call;
} tg_mpi_files;

struct tg_mpi {
    tg_mpi_buffer self; /* the memory of this struct */
    MPI_Comm comm;
    /* The two steps of a bucket. MPI matches the requests of a communicator by their order, and the order of the
     * second steps among the first ones differs between ranks. */
    MPI_Comm scatter, gather;
    int rank, size;
    int64_t step; /* the number of finished reductions */
    int64_t bucket_bytes;
    int64_t tables; /* the number of tables that were made */
    /* the text of the last error on which the ranks have agreed: the next call meets it in a run, and reports it as it
     * is */
    char agreed[TG_ERROR_TEXT];

    const tg_params *params; /* those of the last broadcast; NULL before the first */
    int64_t entries;         /* the number of their entries then */
    tg_mpi_leaf *leaves;     /* the parameters, in reverse order */
    int64_t leaf_count, next_leaf;
    tg_mpi_buffer leaf_memory, kind_memory, count_memory, id_memory, row_memory;
    tg_mpi_flat flat;
    bool has_begun;   /* whether tg_mpi_begin was called, and tg_mpi_reduce was not; equal on all ranks */
    double share;     /* of the reduction that has begun */
    tg_error pending; /* an error since then */
    tg_mpi_samples samples;
    tg_mpi_files files; /* tg_mpi_checkpoint_group returns its group */
};

/* Ends a collective call on params: if it has failed, all ranks have the same error, and the run of the params gets it
 * instead of what it has, so that no rank goes on alone. Returns whether the call has succeeded. */
bool tg_mpi_report(tg_mpi *mpi, tg_run *run, const tg_error *agreed, tg_error *error);

/* Returns the config of a reduction. `local` gets its cause, or an error if its mark or its share is wrong. */
tg_mpi_reduce_config tg_mpi_read_reduce_config(const tg_mpi_reduce_config *given, tg_error *local);

/* Checks that the run of the params has no error, and that they are those of the last broadcast. */
bool tg_mpi_expect_params(const tg_mpi *mpi, const tg_params *params, tg_error *local);

/* Remembers the sizes of the parameters; and checks that none was resized since then. */
void tg_mpi_note_sizes(tg_mpi *mpi);
bool tg_mpi_expect_sizes(const tg_mpi *mpi, tg_error *local);

/* Returns the sum of the ranks' values, added in the order of the ranks, in a call on which they have agreed. */
double tg_mpi_sum_agreed(tg_mpi *mpi, const char *call, double value, tg_error *error);

/* ---- agreement (agree.c) ---- */

/* What must be equal on all ranks: a text, or a number; or the sizes of the params' entries, and whether they require a
 * gradient, whose checksum is the number. */
typedef struct tg_mpi_fact {
    const char *what; /* as in "<what> is 3 on rank 0, and 4 on rank 1" */
    int64_t number;
    const char *text; /* NULL for a number */
    const tg_params *entries;
} tg_mpi_fact;

tg_mpi_fact tg_mpi_entries_fact(const tg_params *params);

/* Returns true if all ranks are in this call, none has an error in `local`, and all have the same facts. Otherwise all
 * ranks get the same error. It begins with "<call>: ", with the number of the step unless that is 0, and with the rank.
 * The number of facts is that of the call. */
bool tg_mpi_agree_facts(tg_mpi *mpi, const char *call, int64_t step, const tg_error *local, const tg_mpi_fact *facts,
                        int count, tg_error *error);

/* The same without facts. */
bool tg_mpi_agree_on(tg_mpi *mpi, const char *call, int64_t step, const tg_error *local, tg_error *error);

/* Sets an error on all ranks unless they have the same entries (broadcast.c). */
bool tg_mpi_compare_entries(tg_mpi *mpi, const char *call, const tg_params *params, tg_error *error);

/* The order of numbers of 64 bits, for qsort. */
int tg_mpi_compare_keys(const void *a, const void *b);

/* FNV-1a (Fowler, Noll and Vo) over words of eight bytes, so that it runs at a few GB/s. The first `sum` is
 * TG_MPI_CHECKSUM. */
#define TG_MPI_CHECKSUM UINT64_C(0xcbf29ce484222325)
uint64_t tg_mpi_checksum(uint64_t sum, const void *bytes, int64_t count);

/* ---- messages ---- */

/* The largest number of bytes of one message: counts of MPI are int. */
#define TG_MPI_MESSAGE ((size_t)1 << 30)

/* Copies bytes of rank 0 to all ranks. */
bool tg_mpi_broadcast_bytes(tg_mpi *mpi, const char *call, void *bytes, int64_t count, tg_error *error);

/* ---- dense gradients (buckets.c) ---- */

/* Reserves the memory for `leaf_count` leaves with `values` values together, and the ring. Returns false when memory is
 * exhausted. */
bool tg_mpi_flat_reserve(tg_mpi *mpi, int64_t leaf_count, int64_t values, tg_dtype dtype);

/* Empties the list of leaves; adds a leaf; and computes the buckets. */
void tg_mpi_flat_clear(tg_mpi_flat *flat, double share);
void tg_mpi_flat_append(tg_mpi_flat *flat, tg_mpi_leaf *leaf);

/* Sends the buckets whose leaves are announced, as far as memory allows, and receives what has arrived. With `wait` it
 * returns when all buckets are finished; then all leaves must be announced. */
bool tg_mpi_flat_advance(tg_mpi *mpi, bool wait, tg_error *error);

/* Ends a reduction that tg_mpi_begin has started, if one has: the requests that are open on some rank are completed on
 * all, with zeros for what was not sent. It reads no parameter, which may be freed. */
void tg_mpi_flat_abandon(tg_mpi *mpi);

#endif

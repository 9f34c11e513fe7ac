/* buckets: the sum of dense gradients over the ranks, in pieces, while backward computes further gradients.
 *
 * The gradients of a list of leaves, one after the other, are one array of N values. It is cut into buckets, and a
 * bucket of n values into one chunk of n / ranks values per rank. A bucket takes two steps:
 *
 *   scatter   rank r gets chunk r of every rank (MPI_Ialltoall), and adds them in the order of the ranks
 *   gather    every rank gets all sums (MPI_Iallgather)
 *
 * Each rank sends and receives 2 n (ranks - 1) / ranks values, which is the least that a sum on all ranks can take
 * (Patarasuk and Yuan 2009), and the order of the additions is the library's own. An MPI_Allreduce would send as much,
 * in an order that depends on the MPI library, the size of the message and the network.
 *
 * All ranks start the requests of a communicator in the same order: scatters in the order of the buckets, and gathers,
 * which have a communicator of their own, too. TG_MPI_RING buckets are in memory at a time.
 */
#include <string.h>

#include "mpi/state.h"

bool tg_mpi_flat_reserve(tg_mpi *mpi, int64_t leaf_count, int64_t values, tg_dtype dtype)
{
    tg_mpi_flat *flat = &mpi->flat;
    int64_t size = (int64_t)tg_dtype_size(dtype), ranks = mpi->size;
    flat->dtype = dtype;
    /* A small model is one bucket, which has its size. At least 1, because a resize may add values later. */
    int64_t most = mpi->bucket_bytes / size;
    flat->bucket_values = values < 1 ? 1 : values < most ? values : most;
    char *list = tg_mpi_buffer_reserve(&flat->list, (size_t)leaf_count * (sizeof *flat->leaves + sizeof *flat->ends));
    int64_t chunk = (flat->bucket_values + ranks - 1) / ranks, bytes = chunk * ranks * size;
    char *memory = tg_mpi_buffer_reserve(&flat->memory, (size_t)(2 * TG_MPI_RING * bytes));
    if (!list || !memory) {
        return false;
    }
    flat->ends = (int64_t *)list;
    flat->leaves = (tg_mpi_leaf **)(flat->ends + leaf_count);
    for (int i = 0; i < TG_MPI_RING; i++) {
        flat->ring[i] = (tg_mpi_bucket){memory + 2 * i * bytes, memory + (2 * i + 1) * bytes, 0, MPI_REQUEST_NULL};
    }
    return true;
}

void tg_mpi_flat_clear(tg_mpi_flat *flat, double share)
{
    flat->share = share;
    flat->leaf_count = flat->values = flat->ready = 0;
    flat->buckets = flat->started = flat->summed = flat->finished = 0;
    flat->is_abandoned = false;
}

void tg_mpi_flat_append(tg_mpi_flat *flat, tg_mpi_leaf *leaf)
{
    flat->values += leaf->count;
    flat->leaves[flat->leaf_count] = leaf;
    flat->ends[flat->leaf_count++] = flat->values;
    flat->buckets = (flat->values + flat->bucket_values - 1) / flat->bucket_values;
}

/* Returns the number of values of a bucket; only the last one may be smaller. */
static int64_t count_of(const tg_mpi_flat *flat, int64_t bucket)
{
    int64_t left = flat->values - bucket * flat->bucket_values;
    return left < flat->bucket_values ? left : flat->bucket_values;
}

/* Copies the gradients that are in a bucket to its values, times the share, or back from them. */
static void copy(tg_mpi_flat *flat, int64_t number, bool back)
{
    tg_mpi_bucket *bucket = &flat->ring[number % TG_MPI_RING];
    int64_t begin = number * flat->bucket_values, end = begin + count_of(flat, number);
    size_t size = tg_dtype_size(flat->dtype);
    for (int64_t i = 0; i < flat->leaf_count; i++) {
        int64_t leaf_begin = i > 0 ? flat->ends[i - 1] : 0, leaf_end = flat->ends[i];
        int64_t from = leaf_begin > begin ? leaf_begin : begin, to = leaf_end < end ? leaf_end : end;
        if (from >= to) {
            continue;
        }
        char *values = bucket->values + (size_t)(from - begin) * size;
        const tg_mpi_leaf *leaf = flat->leaves[i];
        tg_tensor *dense = flat->is_abandoned ? NULL : tg_tensor_grad(leaf->tensor);
        if (!dense || tg_tensor_count(dense) != leaf->count) { /* tg_mpi_reduce reports a tensor that was resized */
            memset(values, 0, (size_t)(to - from) * size);
            continue;
        }
        char *gradient = (char *)tg_tensor_data_mut(dense) + (size_t)(from - leaf_begin) * size;
        if (back) {
            memcpy(gradient, values, (size_t)(to - from) * size);
        } else {
            tg_mpi_scale(flat->dtype, values, gradient, to - from, flat->share);
        }
    }
}

static bool start(tg_mpi *mpi, tg_error *error)
{
    tg_mpi_flat *flat = &mpi->flat;
    tg_mpi_bucket *bucket = &flat->ring[flat->started % TG_MPI_RING];
    int64_t count = count_of(flat, flat->started);
    size_t size = tg_dtype_size(flat->dtype);
    MPI_Datatype type = tg_mpi_type_of(flat->dtype);
    bucket->chunk = (count + mpi->size - 1) / mpi->size;
    copy(flat, flat->started, false);
    memset(bucket->values + (size_t)count * size, 0, (size_t)(bucket->chunk * mpi->size - count) * size);
    int result = MPI_Ialltoall(bucket->values, (int)bucket->chunk, type, bucket->received, (int)bucket->chunk, type,
                               mpi->scatter, &bucket->request);
    flat->started++;
    return tg_mpi_succeeded("mpi_reduce", result, error);
}

/* Adds the chunks of all ranks in the order of the ranks, and starts to gather the sums. */
static bool sum(tg_mpi *mpi, tg_error *error)
{
    tg_mpi_flat *flat = &mpi->flat;
    tg_mpi_bucket *bucket = &flat->ring[flat->summed % TG_MPI_RING];
    size_t bytes = (size_t)bucket->chunk * tg_dtype_size(flat->dtype);
    char *mine = bucket->values + (size_t)mpi->rank * bytes;
    memcpy(mine, bucket->received, bytes);
    for (int rank = 1; rank < mpi->size; rank++) {
        tg_mpi_add(flat->dtype, mine, bucket->received + (size_t)rank * bytes, bucket->chunk);
    }
    int result = MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, bucket->values, (int)bucket->chunk,
                                tg_mpi_type_of(flat->dtype), mpi->gather, &bucket->request);
    flat->summed++;
    return tg_mpi_succeeded("mpi_reduce", result, error);
}

/* Returns whether the request of a bucket is complete. With `wait` it waits for it. */
static bool is_complete(tg_mpi_bucket *bucket, bool wait, tg_error *error)
{
    int complete = 1;
    int result =
        wait ? MPI_Wait(&bucket->request, MPI_STATUS_IGNORE) : MPI_Test(&bucket->request, &complete, MPI_STATUS_IGNORE);
    return tg_mpi_succeeded("mpi_reduce", result, error) && complete;
}

/* Moves the oldest buckets one step further. Returns whether one moved. */
static bool move(tg_mpi *mpi, bool wait, tg_error *error)
{
    tg_mpi_flat *flat = &mpi->flat;
    bool moved = false;
    if (flat->summed < flat->started && is_complete(&flat->ring[flat->summed % TG_MPI_RING], wait, error)) {
        moved = sum(mpi, error);
    }
    /* Without this order, waiting for the first gather would leave the second bucket's values unsummed meanwhile. */
    bool all_summed = flat->summed == flat->started;
    if (flat->finished < flat->summed &&
        is_complete(&flat->ring[flat->finished % TG_MPI_RING], wait && all_summed, error)) {
        copy(flat, flat->finished++, true);
        moved = true;
    }
    return moved;
}

/* Starts the next bucket if the ring has space and its leaves are announced. Returns whether it did. */
static bool start_next(tg_mpi *mpi, tg_error *error)
{
    tg_mpi_flat *flat = &mpi->flat;
    while (flat->ready < flat->leaf_count && flat->leaves[flat->ready]->is_announced) {
        flat->ready++;
    }
    int64_t ready = flat->ready > 0 ? flat->ends[flat->ready - 1] : 0;
    return flat->started < flat->buckets && flat->started - flat->finished < TG_MPI_RING &&
           flat->started * flat->bucket_values + count_of(flat, flat->started) <= ready && start(mpi, error);
}

bool tg_mpi_flat_advance(tg_mpi *mpi, bool wait, tg_error *error)
{
    tg_mpi_flat *flat = &mpi->flat;
    tg_error local = TG_NO_ERROR;
    for (bool moved = true; local.code == TG_OK && (moved || wait) && flat->finished < flat->buckets;) {
        moved = start_next(mpi, &local);
        moved = (local.code == TG_OK && move(mpi, wait && !moved, &local)) || moved;
    }
    return tg_error_copy(error, &local);
}

void tg_mpi_flat_abandon(tg_mpi *mpi)
{
    if (mpi->has_begun) {
        mpi->has_begun = false;
        mpi->flat.is_abandoned = true;
        for (int64_t i = 0; i < mpi->leaf_count; i++) {
            mpi->leaves[i].is_announced = true;
        }
        tg_mpi_flat_advance(mpi, true, NULL);
    }
}

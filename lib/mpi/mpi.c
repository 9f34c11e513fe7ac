/* mpi: ranks, errors, sums, and the memory of this library. */
#include "mpi/state.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

bool tg_mpi_succeeded(const char *call, int result, tg_error *error)
{
    if (result == MPI_SUCCESS) {
        return true;
    }
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(result, text, &length);
    return tg_error_set(error, TG_ERROR_STATE, "%s: MPI: %.*s", call, TG_CUT(text, 300));
}

bool tg_mpi_expect(const char *call, const char *name, const void *pointer, tg_error *error)
{
    return pointer || tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, name);
}

bool tg_mpi_expect_argument(const char *name, const void *pointer, tg_error *local)
{
    return pointer || tg_error_set(local, TG_ERROR_STATE, "the %s is NULL", name);
}

bool tg_mpi_expect_config(const void *config, const char *mark, tg_error *local)
{
    return !config || *(const tg_config_mark *)config == mark ||
           tg_error_set(local, TG_ERROR_VALUE, "the config does not come from %s(); call it, then set fields", mark);
}

bool tg_mpi_report(tg_mpi *mpi, tg_run *run, const tg_error *agreed, tg_error *error)
{
    if (agreed->code != TG_OK) {
        memcpy(mpi->agreed, agreed->text, sizeof mpi->agreed);
        tg_run_clear_error(run);
        tg_run_set_error(run, agreed);
    }
    return tg_error_copy(error, agreed);
}

/* ---- memory ---- */

void *tg_mpi_buffer_reserve(tg_mpi_buffer *buffer, size_t bytes)
{
    if (bytes > buffer->size || !buffer->block) {
        /* a buffer that grows once may grow in each step */
        size_t larger = buffer->block && bytes < SIZE_MAX / 4 ? bytes + bytes / 2 + 64 : bytes;
        void *block = tg_alloc(larger > 0 ? larger : 1, 1);
        if (!block) {
            return NULL;
        }
        tg_free(buffer->block);
        *buffer = (tg_mpi_buffer){block, larger};
    }
    return buffer->block;
}

void tg_mpi_buffer_free(tg_mpi_buffer *buffer)
{
    tg_free(buffer->block);
    *buffer = (tg_mpi_buffer){NULL, 0};
}

/* ---- values ---- */

void tg_mpi_scale(tg_dtype dtype, void *out, const void *in, int64_t count, double factor)
{
    for (int64_t i = 0; dtype == TG_F32 && i < count; i++) {
        ((float *)out)[i] = ((const float *)in)[i] * (float)factor;
    }
    for (int64_t i = 0; dtype == TG_F64 && i < count; i++) {
        ((double *)out)[i] = ((const double *)in)[i] * factor;
    }
}

void tg_mpi_add(tg_dtype dtype, void *sum, const void *more, int64_t count)
{
    for (int64_t i = 0; dtype == TG_F32 && i < count; i++) {
        ((float *)sum)[i] += ((const float *)more)[i];
    }
    for (int64_t i = 0; dtype == TG_F64 && i < count; i++) {
        ((double *)sum)[i] += ((const double *)more)[i];
    }
}

/* ---- ranks ---- */

TG_CONFIG(tg_mpi_config, tg_mpi_config_default, mark, .mark = mark, .bucket_bytes = (int64_t)4 << 20);

/* Checks that the ranks of a communicator can send messages, so that they can agree on all else. */
static bool check_communicator(const char *call, MPI_Comm communicator, tg_error *error)
{
    int initialized = 0, finalized = 0, is_inter = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    if (!initialized || finalized) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: MPI %s", call,
                            finalized ? "was finalized" : "is not initialized; call MPI_Init_thread first");
    }
    if (communicator == MPI_COMM_NULL) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the communicator is MPI_COMM_NULL", call);
    }
    MPI_Comm_test_inter(communicator, &is_inter);
    return !is_inter || tg_error_set(error, TG_ERROR_STATE, "%s: the communicator is an inter-communicator", call);
}

/* Checks that MPI can be used from this thread while others compute. */
static bool check_threads(tg_error *local)
{
    int level = 0;
    MPI_Query_thread(&level);
    return level >= MPI_THREAD_FUNNELED ||
           tg_error_set(local, TG_ERROR_STATE,
                        "MPI was initialized with MPI_THREAD_SINGLE; it must be at least MPI_THREAD_FUNNELED "
                        "(MPI_Init_thread), because kernels run on several threads");
}

static bool check_config(const tg_mpi_config *given, tg_error *local)
{
    return tg_mpi_expect_config(given, mark, local) &&
           (!given || (given->bucket_bytes >= 64 && given->bucket_bytes <= INT32_MAX) ||
            tg_error_set(local, TG_ERROR_VALUE, "bucket_bytes %lld; it must be 64 to %d",
                         (long long)given->bucket_bytes, INT32_MAX));
}

tg_mpi *tg_mpi_new(MPI_Comm communicator, const tg_mpi_config *given, tg_error *error)
{
    static const char call[] = "mpi_new";
    if (!check_communicator(call, communicator, error)) {
        return NULL;
    }
    /* on the stack until all ranks have the memory for it */
    tg_mpi made = {.comm = MPI_COMM_NULL, .scatter = MPI_COMM_NULL, .gather = MPI_COMM_NULL};
    MPI_Comm *copies[] = {&made.comm, &made.scatter, &made.gather};
    bool is_ready = true;
    for (int i = 0; i < 3; i++) {
        is_ready = is_ready && tg_mpi_succeeded(call, MPI_Comm_dup(communicator, copies[i]), error) &&
                   tg_mpi_succeeded(call, MPI_Comm_set_errhandler(*copies[i], MPI_ERRORS_RETURN), error);
    }
    tg_mpi *mpi = NULL;
    if (is_ready) {
        MPI_Comm_rank(made.comm, &made.rank);
        MPI_Comm_size(made.comm, &made.size);
        tg_error local = TG_NO_ERROR;
        (void)(check_config(given, &local) && check_threads(&local));
        made.bucket_bytes = local.code == TG_OK && given ? given->bucket_bytes : tg_mpi_config_default().bucket_bytes;
        mpi = tg_mpi_buffer_reserve(&made.self, sizeof *mpi);
        if (!mpi || !tg_mpi_buffer_reserve(&made.count_memory, (size_t)made.size * 2 * sizeof(double))) {
            tg_error_set(&local, TG_ERROR_MEMORY, "out of memory");
        }
        const tg_mpi_fact fact = {.what = "bucket_bytes", .number = made.bucket_bytes};
        is_ready = tg_mpi_agree_facts(&made, call, 0, &local, &fact, 1, error);
    }
    if (!is_ready) {
        tg_mpi_free(&made);
        return NULL;
    }
    *mpi = made;
    return mpi;
}

void tg_mpi_free(tg_mpi *mpi)
{
    if (!mpi) {
        return;
    }
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) {
        tg_mpi_flat_abandon(mpi);
    }
    MPI_Comm *copies[] = {&mpi->comm, &mpi->scatter, &mpi->gather};
    for (int i = 0; !finalized && i < 3; i++) {
        if (*copies[i] != MPI_COMM_NULL) {
            MPI_Comm_free(copies[i]);
        }
    }
    tg_mpi_buffer *buffers[] = {&mpi->leaf_memory, &mpi->kind_memory, &mpi->count_memory, &mpi->id_memory,
                                &mpi->row_memory,  &mpi->flat.memory, &mpi->flat.list};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        tg_mpi_buffer_free(buffers[i]);
    }
    for (int i = 0; i < TG_MPI_LEVELS; i++) {
        tg_mpi_buffer_free(&mpi->samples.stack[i].buffer);
    }
    tg_mpi_buffer_free(&mpi->samples.spare[0].buffer);
    tg_mpi_buffer_free(&mpi->samples.spare[1].buffer);
    tg_mpi_buffer_free(&mpi->samples.keys);
    tg_mpi_buffer self = mpi->self;
    tg_mpi_buffer_free(&self);
}

int tg_mpi_rank(const tg_mpi *mpi)
{
    return mpi ? mpi->rank : 0;
}

int tg_mpi_size(const tg_mpi *mpi)
{
    return mpi ? mpi->size : 0;
}

uint64_t tg_mpi_seed(uint64_t seed, uint64_t stream)
{
    if (stream == 0) {
        return seed;
    }
    uint64_t z = seed + stream * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* ---- sums ---- */

/* Gathers two numbers of every rank. NULL after an error of MPI. */
static const double *gather_pairs(tg_mpi *mpi, const char *call, double a, double b, tg_error *error)
{
    double mine[2] = {a, b};
    /* tg_mpi_new has reserved the memory */
    double *all = tg_mpi_buffer_reserve(&mpi->count_memory, (size_t)mpi->size * sizeof mine);
    return tg_mpi_succeeded(call, MPI_Allgather(mine, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, mpi->comm), error) ? all
                                                                                                            : NULL;
}

double tg_mpi_sum_agreed(tg_mpi *mpi, const char *call, double value, tg_error *error)
{
    const double *all = gather_pairs(mpi, call, value, 0, error);
    double sum = all ? 0 : NAN;
    for (int rank = 0; all && rank < mpi->size; rank++) {
        sum += all[2 * rank];
    }
    return sum;
}

double tg_mpi_sum(tg_mpi *mpi, double value, tg_error *error)
{
    static const char call[] = "mpi_sum";
    return tg_mpi_expect(call, "tg_mpi", mpi, error) && tg_mpi_agree_on(mpi, call, 0, NULL, error)
               ? tg_mpi_sum_agreed(mpi, call, value, error)
               : NAN;
}

double tg_mpi_mean(tg_mpi *mpi, double value, double weight, tg_error *error)
{
    static const char call[] = "mpi_mean";
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error)) {
        return NAN;
    }
    tg_error local = TG_NO_ERROR;
    if (!(weight >= 0) || !isfinite(weight)) {
        tg_error_set(&local, TG_ERROR_VALUE, "the weight is %g; it must be finite and at least 0", weight);
    }
    const double *all =
        tg_mpi_agree_on(mpi, call, 0, &local, error) ? gather_pairs(mpi, call, value, weight, error) : NULL;
    double sum = 0, weights = 0;
    for (int rank = 0; all && rank < mpi->size; rank++) {
        double w = all[2 * rank + 1];
        sum += w > 0 ? all[2 * rank] * w : 0;
        weights += w;
    }
    if (all && weights == 0) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: the weights of all ranks are 0", call);
    }
    return all && weights > 0 ? sum / weights : NAN;
}

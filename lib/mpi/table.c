/* table: a table whose rows are divided among the ranks, and the messages between the ranks that use rows and the ranks
 * that own them. lookup.c has the lookups.
 *
 * Row `id` belongs to rank id / per_rank. Ascending ids are therefore grouped by owner, in the order of the ranks.
 */
#include "mpi/table.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tapegrad/optim.h>
#include <tapegrad/rows.h>

/* ---- the shard ---- */

/* Draws the values of the whole table, and keeps those of this rank. The values of a large tensor are drawn in blocks
 * of 16 (random.h), so a part that begins and ends at a multiple of 16 values can be drawn alone, unless it is the
 * last. */
static bool draw(const tg_mpi_table *table, tg_rng *rng, tg_error *error)
{
    int64_t step = 16 * (1 + 4096 / table->width), first = tg_mpi_table_first_row(table);
    int64_t own = tg_tensor_size(table->shard, 0);
    size_t row = (size_t)table->width * tg_dtype_size(table->dtype);
    for (int64_t begin = 0; begin < table->rows;) {
        int64_t count = table->rows - begin < 2 * step ? table->rows - begin : step;
        tg_tensor *part = tg_tensor_new(table->dtype, tg_shape_make(2, (int64_t[]){count, table->width}), error);
        if (!tg_tensor_fill_normal(part, rng, 0, 1, error)) {
            tg_release(part);
            return false;
        }
        int64_t from = begin > first ? begin : first, to = begin + count < first + own ? begin + count : first + own;
        if (from < to) {
            memcpy((char *)tg_tensor_data_mut(table->shard) + (size_t)(from - first) * row,
                   (const char *)tg_tensor_data(part) + (size_t)(from - begin) * row, (size_t)(to - from) * row);
        }
        tg_release(part);
        begin += count;
    }
    return true;
}

/* Returns a checksum of a generator's state; 0 for NULL. */
static int64_t checksum_of(const tg_rng *rng)
{
    uint8_t state[TG_RNG_TORCH_STATE_SIZE];
    return tg_rng_save_torch_state(rng, state, NULL) ? (int64_t)tg_mpi_checksum(TG_MPI_CHECKSUM, state, sizeof state)
                                                     : 0;
}

#define NAME_SIZE 256

/* Checks the arguments of a new table on this rank, and writes the name of the shard. */
static bool check(const tg_mpi *mpi, const tg_params *shards, const char *name, int64_t rows, int64_t width,
                  char full[NAME_SIZE], tg_error *local)
{
    if (!tg_mpi_expect_argument("params", shards, local) || !tg_error_copy(local, tg_params_error(shards)) ||
        !tg_mpi_expect_argument("name", name, local)) {
        return false;
    }
    if (!tg_run_rng(tg_params_run(shards))) {
        return tg_error_set(local, TG_ERROR_STATE, "the shards have no generator; they need a run (tg_run_new)");
    }
    if (snprintf(full, NAME_SIZE, "%s.weight", name) >= NAME_SIZE) {
        return tg_error_set(local, TG_ERROR_VALUE, "the name has more than %d characters", NAME_SIZE - 8);
    }
    if (tg_params_find(shards, full)) {
        return tg_error_set(local, TG_ERROR_VALUE, "the name '%s' is in use", full);
    }
    int64_t per_rank = rows <= INT32_MAX ? (rows + mpi->size - 1) / mpi->size : 0;
    return (width >= 1 && width <= INT32_MAX && per_rank * (mpi->size - 1) < rows && per_rank > 0) ||
           tg_error_set(local, TG_ERROR_SHAPE,
                        "%lld rows of width %lld on %d ranks; every rank must own a row, with at most %d rows "
                        "altogether and a width of at least 1",
                        (long long)rows, (long long)width, mpi->size, INT32_MAX);
}

/* Creates this rank's part. */
static tg_mpi_table *make(tg_mpi *mpi, tg_params *shards, const char *full, int64_t rows, int64_t width,
                          tg_error *error)
{
    tg_mpi_buffer self = {NULL, 0};
    tg_mpi_table *table = tg_mpi_buffer_reserve(&self, sizeof *table);
    if (!table) {
        tg_error_set(error, TG_ERROR_MEMORY, "out of memory");
        return NULL;
    }
    *table =
        (tg_mpi_table){.self = self, .mpi = mpi, .shards = shards, .number = mpi->tables, .rows = rows, .width = width};
    table->per_rank = (rows + mpi->size - 1) / mpi->size;
    int64_t left = rows - mpi->rank * table->per_rank, own = left < table->per_rank ? left : table->per_rank;
    if (!tg_mpi_buffer_reserve(&table->counts, 4 * (size_t)mpi->size * sizeof(int))) {
        tg_error_set(error, TG_ERROR_MEMORY, "out of memory");
    } else if (!(table->shard = tg_params_add(shards, full, tg_shape_make(2, (int64_t[]){own, width})))) {
        tg_error_copy(error, tg_params_error(shards));
    } else if (tg_tensor_set_shard(table->shard, mpi->rank * table->per_rank, rows, error)) {
        table->dtype = tg_tensor_dtype(table->shard);
        return draw(table, tg_run_rng(tg_params_run(shards)), error) ? table : (tg_mpi_table_free(table), NULL);
    }
    tg_mpi_table_free(table);
    return NULL;
}

/* Creates the table on all ranks, or on none. */
static tg_mpi_table *make_together(tg_mpi *mpi, const char *call, tg_params *shards, const char *name, int64_t rows,
                                   int64_t width, tg_error *error)
{
    tg_error local = TG_NO_ERROR;
    char full[NAME_SIZE] = "";
    check(mpi, shards, name, rows, width, full, &local);
    const tg_mpi_fact facts[] = {
        {.what = "the number of rows", .number = rows},
        {.what = "the width", .number = width},
        {.what = "the name", .text = full},
        {.what = "the checksum of the generator's state", .number = checksum_of(tg_run_rng(tg_params_run(shards)))},
    };
    if (!tg_mpi_agree_facts(mpi, call, 0, &local, facts, sizeof facts / sizeof *facts, error)) {
        return NULL;
    }
    tg_mpi_table *table = make(mpi, shards, full, rows, width, &local);
    const tg_mpi_fact dtype = {.what = "the dtype", .text = tg_dtype_name(table ? table->dtype : TG_F32)};
    if (!tg_mpi_agree_facts(mpi, call, 0, &local, &dtype, 1, error)) {
        tg_mpi_table_free(table);
        return NULL;
    }
    mpi->tables++;
    return table;
}

tg_mpi_table *tg_mpi_table_new(tg_mpi *mpi, tg_params *shards, const char *name, int64_t rows, int64_t width,
                               tg_error *error)
{
    static const char call[] = "mpi_table_new";
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error)) {
        return NULL;
    }
    tg_error agreed = TG_NO_ERROR;
    tg_mpi_table *table = make_together(mpi, call, shards, name, rows, width, &agreed);
    tg_mpi_report(mpi, tg_params_run(shards), &agreed, error);
    return table;
}

tg_mpi_fact tg_mpi_table_fact(const tg_mpi_table *table)
{
    return (tg_mpi_fact){.what = "the table's number in the order of tg_mpi_table_new", .number = table->number};
}

void tg_mpi_table_clear(tg_mpi_table *table)
{
    for (size_t i = 0; i < table->lookup_count; i++) {
        tg_release(table->lookups[i].rows);
        tg_release(table->lookups[i].ids);
    }
    table->lookup_count = 0;
}

void tg_mpi_table_free(tg_mpi_table *table)
{
    if (!table) {
        return;
    }
    tg_mpi_table_clear(table);
    tg_mpi_buffer *buffers[] = {&table->lookup_memory, &table->counts,        &table->sent_ids, &table->received_ids,
                                &table->sent_rows,     &table->received_rows, &table->keys};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        tg_mpi_buffer_free(buffers[i]);
    }
    tg_mpi_buffer self = table->self;
    tg_mpi_buffer_free(&self);
}

tg_tensor *tg_mpi_table_shard(const tg_mpi_table *table)
{
    return table ? table->shard : NULL;
}

int64_t tg_mpi_table_first_row(const tg_mpi_table *table)
{
    return table ? table->mpi->rank * table->per_rank : 0;
}

/* ---- messages ---- */

bool tg_mpi_exchange_counts(tg_mpi_table *table, const char *call, const int32_t *ids, int64_t count,
                            tg_mpi_exchange *exchange, tg_error *error)
{
    tg_mpi *mpi = table->mpi;
    int *counts = tg_mpi_buffer_reserve(&table->counts, 0); /* tg_mpi_table_new has reserved the memory */
    tg_mpi_exchange e = {counts, counts + mpi->size, counts + 2 * mpi->size, counts + 3 * mpi->size, 0, 0};
    memset(e.send, 0, (size_t)mpi->size * sizeof *e.send);
    for (int64_t i = 0; i < count; i++) {
        e.send[ids[i] / table->per_rank]++;
    }
    if (!tg_mpi_succeeded(call, MPI_Alltoall(e.send, 1, MPI_INT, e.receive, 1, MPI_INT, mpi->comm), error)) {
        return false;
    }
    for (int rank = 0; rank < mpi->size; rank++) {
        e.send_at[rank] = (int)e.sent;
        e.receive_at[rank] = (int)e.received;
        e.sent += e.send[rank];
        e.received += e.receive[rank];
    }
    *exchange = e;
    return true;
}

bool tg_mpi_exchange_ids(tg_mpi_table *table, const char *call, const tg_mpi_exchange *e, const int32_t *ids,
                         tg_error *error)
{
    return tg_mpi_succeeded(call,
                            MPI_Alltoallv(ids, e->send, e->send_at, MPI_INT32_T, table->received_ids.block, e->receive,
                                          e->receive_at, MPI_INT32_T, table->mpi->comm),
                            error);
}

bool tg_mpi_exchange_rows(tg_mpi_table *table, const char *call, const tg_mpi_exchange *e, const void *from, void *to,
                          bool back, tg_error *error)
{
    MPI_Datatype row;
    if (!tg_mpi_succeeded(call, MPI_Type_contiguous((int)table->width, tg_mpi_type_of(table->dtype), &row), error)) {
        return false;
    }
    MPI_Type_commit(&row);
    int result =
        back ? MPI_Alltoallv(from, e->receive, e->receive_at, row, to, e->send, e->send_at, row, table->mpi->comm)
             : MPI_Alltoallv(from, e->send, e->send_at, row, to, e->receive, e->receive_at, row, table->mpi->comm);
    MPI_Type_free(&row);
    return tg_mpi_succeeded(call, result, error);
}

/* ---- the norm of replicated and sharded gradients ---- */

/* Multiplies all gradients by NaN, which tg_scale_grad refuses as a factor. */
static void set_nan(const tg_params *params)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_tensor *x = tg_params_at(params, i).tensor;
        tg_grad_rows rows = tg_tensor_grad_rows(x);
        tg_mpi_scale(tg_tensor_dtype(x), rows.values, rows.values, rows.count * rows.width, NAN);
        tg_tensor_fill(tg_tensor_grad(x), NAN, NULL);
    }
}

/* Checks one of the params of a norm. */
static void expect_usable(const char *name, const tg_params *params, tg_error *local)
{
    if (tg_mpi_expect_argument(name, params, local)) {
        tg_error_copy(local, tg_params_error(params));
    }
}

static double clip_grad_norm(tg_mpi *mpi, const char *call, tg_params *params, tg_params *shards, double max_norm,
                             tg_error *error)
{
    tg_error local = TG_NO_ERROR;
    expect_usable("params", params, &local);
    expect_usable("shards", shards, &local);
    if (!(max_norm >= 0)) {
        tg_error_set(&local, TG_ERROR_VALUE, "max_norm %g; it must be at least 0", max_norm);
    }
    char text[40];
    snprintf(text, sizeof text, "%.17g", max_norm);
    const tg_mpi_fact fact = {.what = "max_norm", .text = text};
    if (!tg_mpi_agree_facts(mpi, call, 0, &local, &fact, 1, error)) {
        return NAN;
    }
    /* This limit is above every finite norm, so it only measures. The factor of an infinite norm is 0, that of NaN is
     * NaN, and the clipping below does the same to the gradients. */
    double replicated = tg_clip_grad_norm(params, DBL_MAX), sharded = tg_clip_grad_norm(shards, DBL_MAX);
    tg_error failed = TG_NO_ERROR;
    double squares = tg_mpi_sum_agreed(mpi, call, sharded * sharded, &failed);
    if (failed.code != TG_OK) {
        tg_error_copy(error, &failed);
        return NAN;
    }
    double norm = sqrt(replicated * replicated + squares), factor = max_norm / (norm + 1e-6);
    if (factor < 1) {
        tg_scale_grad(params, factor);
        tg_scale_grad(shards, factor);
    } else if (isnan(factor)) {
        set_nan(params);
        set_nan(shards);
    }
    return norm;
}

double tg_mpi_clip_grad_norm(tg_mpi *mpi, tg_params *params, tg_params *shards, double max_norm, tg_error *error)
{
    static const char call[] = "mpi_clip_grad_norm";
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error)) {
        return NAN;
    }
    tg_error agreed = TG_NO_ERROR;
    double norm = clip_grad_norm(mpi, call, params, shards, max_norm, &agreed);
    tg_mpi_report(mpi, tg_params_run(shards), &agreed, NULL);
    tg_mpi_report(mpi, tg_params_run(params), &agreed, error);
    return norm;
}

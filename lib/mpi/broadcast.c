/* broadcast: the same model on all ranks: copies rank 0's values, and finds ranks whose models differ. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mpi/state.h"

bool tg_mpi_broadcast_bytes(tg_mpi *mpi, const char *call, void *bytes, int64_t count, tg_error *error)
{
    for (size_t done = 0, all = (size_t)count; done < all; done += TG_MPI_MESSAGE) {
        int size = (int)(all - done < TG_MPI_MESSAGE ? all - done : TG_MPI_MESSAGE);
        if (!tg_mpi_succeeded(call, MPI_Bcast((char *)bytes + done, size, MPI_BYTE, 0, mpi->comm), error)) {
            return false;
        }
    }
    return true;
}

static int64_t bytes_of(const tg_tensor *x)
{
    return tg_tensor_count(x) * (int64_t)tg_dtype_size(tg_tensor_dtype(x));
}

/* ---- the first entry that differs ---- */

/* Finds the lowest of the ranks' indices `mine`, INT64_MAX if all of them are, and writes the ranks that have it as
 * text: "1, 3". `lowest_rank` is the first of them. */
static bool find_first(tg_mpi *mpi, const char *call, int64_t mine, int64_t *first, int *lowest_rank, char *text,
                       size_t size, tg_error *error)
{
    int64_t *all = tg_mpi_buffer_reserve(&mpi->count_memory, (size_t)mpi->size * sizeof *all);
    if (!tg_mpi_succeeded(call, MPI_Allgather(&mine, 1, MPI_INT64_T, all, 1, MPI_INT64_T, mpi->comm), error)) {
        return false;
    }
    size_t used = 0;
    *first = INT64_MAX;
    for (int rank = 0; rank < mpi->size; rank++) {
        if (all[rank] < *first) {
            *first = all[rank];
            *lowest_rank = rank;
            used = 0;
        }
        if (all[rank] == *first && *first != INT64_MAX && used + 16 < size) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", used ? ", " : "", rank);
        } else if (all[rank] == *first && *first != INT64_MAX) {
            snprintf(text + used, size - used, " ...");
        }
    }
    return true;
}

/* ---- names, shapes and dtypes ---- */

/* All that must be equal on all ranks. Unused bytes are zeros. */
typedef struct description {
    char name[256];
    int64_t sizes[TG_MAX_RANK];
    int32_t rank, dtype, kind, requires_grad;
} description;

static description describe(const tg_params *params, int64_t index)
{
    description d;
    memset(&d, 0, sizeof d);
    tg_entry entry = tg_params_at(params, index);
    if (!entry.tensor) {
        return d;
    }
    tg_shape shape = tg_tensor_shape(entry.tensor);
    snprintf(d.name, sizeof d.name, "%s", entry.name);
    memcpy(d.sizes, shape.size, (size_t)shape.rank * sizeof *d.sizes);
    d.rank = shape.rank;
    d.dtype = (int32_t)tg_tensor_dtype(entry.tensor);
    d.kind = (int32_t)entry.kind;
    d.requires_grad = tg_tensor_requires_grad(entry.tensor);
    return d;
}

#define DESCRIPTION_TEXT 120

static const char *description_format(const description *d, char text[DESCRIPTION_TEXT])
{
    static const char *const kinds[] = {"parameter", "buffer", "alias"};
    char shape[TG_SHAPE_TEXT];
    if (!d->name[0]) {
        snprintf(text, DESCRIPTION_TEXT, "absent");
        return text;
    }
    tg_shape_format(tg_shape_make(d->rank, d->sizes), shape);
    snprintf(text, DESCRIPTION_TEXT, "%s '%.*s' %.*s %s%s", kinds[d->kind], TG_CUT(d->name, 40), TG_CUT(shape, 40),
             tg_dtype_name((tg_dtype)d->dtype), d->requires_grad || d->kind == TG_ENTRY_BUFFER ? "" : ", not trained");
    return text;
}

bool tg_mpi_compare_entries(tg_mpi *mpi, const char *call, const tg_params *params, tg_error *error)
{
    int64_t count = tg_params_count(params), expected = count;
    int64_t different = INT64_MAX, first;
    if (!tg_mpi_broadcast_bytes(mpi, call, &expected, sizeof expected, error)) {
        return false;
    }
    for (int64_t i = 0; i < expected; i++) {
        description mine = describe(params, i), rank0 = mine;
        if (!tg_mpi_broadcast_bytes(mpi, call, &rank0, sizeof rank0, error)) {
            return false;
        }
        if (memcmp(&mine, &rank0, sizeof mine) != 0 && i < different) {
            different = i;
        }
    }
    if (count > expected && expected < different) {
        different = expected;
    }
    char ranks[100], a[DESCRIPTION_TEXT], b[DESCRIPTION_TEXT];
    int lowest = 0;
    if (!find_first(mpi, call, different, &first, &lowest, ranks, sizeof ranks, error)) {
        return false;
    }
    if (first == INT64_MAX) {
        return true;
    }
    description rank0 = describe(params, first), other = rank0;
    return tg_mpi_succeeded(call, MPI_Bcast(&rank0, sizeof rank0, MPI_BYTE, 0, mpi->comm), error) &&
           tg_mpi_succeeded(call, MPI_Bcast(&other, sizeof other, MPI_BYTE, lowest, mpi->comm), error) &&
           tg_error_set(error, TG_ERROR_VALUE,
                        "%s: entry %lld differs from rank 0's on rank %s: it is %s on rank 0, and %s on rank %d", call,
                        (long long)first, ranks, description_format(&rank0, a), description_format(&other, b), lowest);
}

/* Returns the dtype of the parameters that can be trained; f32 if none exists. */
static tg_dtype dtype_of(const tg_params *params)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind == TG_ENTRY_PARAMETER && tg_tensor_dtype(entry.tensor) != TG_BF16) {
            return tg_tensor_dtype(entry.tensor);
        }
    }
    return TG_F32;
}

/* Checks that all values may be read: that no table has missed steps. */
static bool expect_values(const tg_params *params, tg_error *error)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        if (!tg_tensor_data(tg_params_at(params, i).tensor)) {
            return tg_error_set(error, TG_ERROR_STATE,
                                "the values of '%.*s' cannot be read, because the optimizer has deferred steps; call "
                                "tg_optim_flush first",
                                TG_CUT(tg_params_at(params, i).name, 200));
        }
    }
    return true;
}

/* Checks the arguments of a broadcast on this rank. */
static bool check(const tg_mpi *mpi, const tg_params *params, tg_error *local)
{
    if (!tg_mpi_expect_argument("params", params, local)) {
        return false;
    }
    if (!tg_error_copy(local, tg_params_error(params))) {
        return false;
    }
    if (mpi->has_begun || mpi->samples.added > 0) {
        return tg_error_set(local, TG_ERROR_STATE, "%s; finish it with tg_mpi_reduce",
                            mpi->has_begun ? "tg_mpi_begin has started a reduction"
                                           : "tg_mpi_add_sample has started a step");
    }
    return expect_values(params, local);
}

static bool broadcast(tg_mpi *mpi, const char *call, tg_params *params, tg_error *error)
{
    tg_error local = TG_NO_ERROR;
    check(mpi, params, &local);
    if (!tg_mpi_agree_on(mpi, call, 0, &local, error)) {
        return false;
    }
    int64_t count = tg_params_count(params);
    mpi->params = NULL;
    mpi->leaf_count = 0;
    tg_mpi_leaf *leaves = tg_mpi_buffer_reserve(&mpi->leaf_memory, (size_t)count * sizeof *leaves);
    if (!leaves || !tg_mpi_buffer_reserve(&mpi->kind_memory, (size_t)count + 8) ||
        !tg_mpi_buffer_reserve(&mpi->count_memory, ((size_t)mpi->size + 1) * ((size_t)count + 2) * sizeof(int64_t)) ||
        !tg_mpi_flat_reserve(mpi, count, tg_params_value_count(params), dtype_of(params))) {
        tg_error_set(&local, TG_ERROR_MEMORY, "out of memory for %lld entries", (long long)count);
    }
    if (!tg_mpi_agree_on(mpi, call, 0, &local, error) || !tg_mpi_compare_entries(mpi, call, params, error)) {
        return false;
    }
    for (int64_t i = count - 1; i >= 0; i--) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind == TG_ENTRY_PARAMETER) {
            leaves[mpi->leaf_count++] = (tg_mpi_leaf){.tensor = entry.tensor};
        }
        if (entry.kind != TG_ENTRY_ALIAS &&
            !tg_mpi_broadcast_bytes(mpi, call, tg_tensor_data_mut(entry.tensor), bytes_of(entry.tensor), error)) {
            return false;
        }
    }
    mpi->leaves = leaves;
    mpi->params = params;
    mpi->entries = count;
    return true;
}

bool tg_mpi_broadcast(tg_mpi *mpi, tg_params *params, tg_error *error)
{
    static const char call[] = "mpi_broadcast";
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error)) {
        return false;
    }
    tg_error agreed = TG_NO_ERROR;
    broadcast(mpi, call, params, &agreed);
    return tg_mpi_report(mpi, tg_params_run(params), &agreed, error);
}

/* ---- checksums ---- */

static bool check_values(tg_mpi *mpi, const char *call, const tg_params *params, tg_error *error)
{
    tg_error local = TG_NO_ERROR;
    (void)(tg_mpi_expect_params(mpi, params, &local) && expect_values(params, &local));
    const tg_mpi_fact fact = tg_mpi_entries_fact(params);
    if (!tg_mpi_agree_facts(mpi, call, 0, &local, &fact, 1, error)) {
        return false;
    }
    int64_t different = INT64_MAX, first;
    for (int64_t i = 0; i < mpi->entries; i++) {
        tg_tensor *x = tg_params_at(params, i).tensor;
        uint64_t mine = tg_mpi_checksum(TG_MPI_CHECKSUM, tg_tensor_data(x), bytes_of(x)), rank0 = mine;
        if (!tg_mpi_broadcast_bytes(mpi, call, &rank0, sizeof rank0, error)) {
            return false;
        }
        if (mine != rank0 && i < different) {
            different = i;
        }
    }
    char ranks[100];
    int lowest = 0;
    if (!find_first(mpi, call, different, &first, &lowest, ranks, sizeof ranks, error)) {
        return false;
    }
    return first == INT64_MAX ||
           tg_error_set(error, TG_ERROR_VALUE,
                        "%s: after step %lld the values of '%.*s' differ from rank 0's on rank %s", call,
                        (long long)mpi->step, TG_CUT(tg_params_at(params, first).name, 200), ranks);
}

bool tg_mpi_check(tg_mpi *mpi, const tg_params *params, tg_error *error)
{
    static const char call[] = "mpi_check";
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error)) {
        return false;
    }
    tg_error agreed = TG_NO_ERROR;
    check_values(mpi, call, params, &agreed);
    return tg_mpi_report(mpi, tg_params_run(params), &agreed, error);
}

/* reduce: the sum of the gradients over the ranks.
 *
 *   1. After tg_mpi_begin: gradients that were dense in the last reduction, in buckets (buckets.c), during backward.
 *   2. tg_mpi_reduce begins: all ranks agree on its arguments (agree.c), and finish these buckets.
 *   3. All ranks learn whether one has failed since then, and the kind of every gradient of the sum.
 *   4. Every rank reserves the memory for the rest, and all ranks learn whether one could not.
 *   5. Other dense gradients: in buckets.
 *   6. Gradients by rows: the rows of all ranks, added in the order of the ranks.
 *
 * Step 1 cannot wait for step 3: nobody knows the kinds of a backward before its end. So all ranks predict the kinds
 * from the last reduction, which gave the same kinds to all.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "mpi/samples.h"

static const char call[] = "mpi_reduce";

TG_CONFIG(tg_mpi_reduce_config, tg_mpi_reduce_config_default, mark, .mark = mark, .share = TG_MPI_EQUAL_SHARE);

tg_mpi_reduce_config tg_mpi_read_reduce_config(const tg_mpi_reduce_config *given, tg_error *local)
{
    if (!given || !tg_mpi_expect_config(given, mark, local)) {
        return tg_mpi_reduce_config_default();
    }
    if (given->cause) {
        tg_error_copy(local, given->cause);
    }
    if (given->share != TG_MPI_EQUAL_SHARE && !(given->share >= 0 && isfinite(given->share))) {
        tg_error_set(local, TG_ERROR_VALUE, "the share is %g; it must be finite and at least 0, or TG_MPI_EQUAL_SHARE",
                     given->share);
    }
    return *given;
}

/* ---- the params ---- */

/* Returns whether the parameters are those of the last broadcast: a model may have replaced some, as
 * tg_gpt_replace_head does. The leaves are in reverse order. */
static bool has_leaves(const tg_mpi *mpi, const tg_params *params)
{
    int64_t leaf = mpi->leaf_count;
    for (int64_t i = 0; i < mpi->entries; i++) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind == TG_ENTRY_PARAMETER && (--leaf < 0 || mpi->leaves[leaf].tensor != entry.tensor)) {
            return false;
        }
    }
    return leaf == 0;
}

bool tg_mpi_expect_params(const tg_mpi *mpi, const tg_params *params, tg_error *local)
{
    if (!tg_mpi_expect_argument("params", params, local) || !tg_error_copy(local, tg_params_error(params))) {
        return false;
    }
    return (params == mpi->params && tg_params_count(params) == mpi->entries && has_leaves(mpi, params)) ||
           tg_error_set(local, TG_ERROR_STATE, "%s",
                        mpi->params ? "the params are not those of the last tg_mpi_broadcast, or have other entries "
                                      "since then"
                                    : "call tg_mpi_broadcast first");
}

void tg_mpi_note_sizes(tg_mpi *mpi)
{
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        mpi->leaves[i].count = tg_tensor_count(mpi->leaves[i].tensor);
    }
}

bool tg_mpi_expect_sizes(const tg_mpi *mpi, tg_error *local)
{
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        const tg_mpi_leaf *leaf = &mpi->leaves[i];
        if (tg_tensor_count(leaf->tensor) != leaf->count) {
            return tg_error_set(local, TG_ERROR_STATE,
                                "a parameter of %lld values had %lld when this step's reduction began; resize it "
                                "between two steps",
                                (long long)tg_tensor_count(leaf->tensor), (long long)leaf->count);
        }
    }
    return true;
}

/* ---- before and during backward ---- */

/* Returns whether a gradient travels early in a reduction that tg_mpi_begin starts. */
static bool is_expected_dense(const tg_mpi_leaf *leaf)
{
    return leaf->was_dense && tg_tensor_requires_grad(leaf->tensor);
}

/* Begins a reduction. With `early` the gradients that the last one made dense are expected to travel early. */
static void begin(tg_mpi *mpi, double share, bool early)
{
    int64_t parts = mpi->samples.added > 0 ? mpi->samples.samples : mpi->size;
    mpi->share = share == TG_MPI_EQUAL_SHARE ? 1.0 / (double)parts : share;
    tg_error_clear(&mpi->pending);
    tg_mpi_flat_clear(&mpi->flat, mpi->share);
    tg_mpi_note_sizes(mpi);
    mpi->next_leaf = 0;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        tg_mpi_leaf *leaf = &mpi->leaves[i];
        leaf->kind = TG_GRAD_NONE;
        leaf->is_announced = false;
        leaf->is_early = early && is_expected_dense(leaf);
        if (leaf->is_early) {
            tg_mpi_flat_append(&mpi->flat, leaf);
        }
    }
}

bool tg_mpi_begin(tg_mpi *mpi, tg_params *params, const tg_mpi_reduce_config *given, tg_error *error)
{
    static const char begin_call[] = "mpi_begin";
    if (!tg_mpi_expect(begin_call, "tg_mpi", mpi, error)) {
        return false;
    }
    tg_error local = TG_NO_ERROR, agreed = TG_NO_ERROR;
    tg_mpi_reduce_config config = tg_mpi_read_reduce_config(given, &local);
    if (mpi->has_begun) {
        tg_error_set(&local, TG_ERROR_STATE, "a reduction has begun; finish it with tg_mpi_reduce");
    } else if (mpi->samples.added > 0) {
        tg_error_set(&local, TG_ERROR_STATE, "tg_mpi_add_sample was called; finish the step with tg_mpi_reduce");
    }
    bool has_params = tg_mpi_expect_params(mpi, params, &local);
    for (int64_t i = 0; has_params && local.code == TG_OK && i < mpi->leaf_count; i++) {
        if (is_expected_dense(&mpi->leaves[i])) {
            tg_tensor_reserve_grad(mpi->leaves[i].tensor, TG_GRAD_DENSE, 0, &local);
        }
    }
    const tg_mpi_fact fact = tg_mpi_entries_fact(params);
    if (!tg_mpi_agree_facts(mpi, begin_call, mpi->step + 1, &local, &fact, 1, &agreed)) {
        return tg_mpi_report(mpi, tg_params_run(params), &agreed, error);
    }
    begin(mpi, config.share, true);
    mpi->has_begun = true;
    return true;
}

/* Sets the kind of a leaf's gradient, which is final. An early gradient becomes dense. */
static void announce(tg_mpi *mpi, tg_mpi_leaf *leaf)
{
    leaf->kind = (uint8_t)tg_tensor_grad_kind(leaf->tensor);
    leaf->is_announced = true;
    if (leaf->is_early) {
        tg_tensor_make_grad_dense(leaf->tensor, &mpi->pending);
    }
}

void tg_mpi_on_gradient(void *context, tg_tensor *tensor)
{
    tg_mpi *mpi = context;
    for (int64_t i = 0; mpi && mpi->has_begun && i < mpi->leaf_count; i++) {
        /* backward announces the leaves about in this order */
        int64_t at = (mpi->next_leaf + i) % mpi->leaf_count;
        tg_mpi_leaf *leaf = &mpi->leaves[at];
        if (leaf->tensor != tensor) {
            continue;
        }
        mpi->next_leaf = at + 1;
        if (leaf->is_announced) {
            tg_error_set(&mpi->pending, TG_ERROR_STATE,
                         "a gradient was announced twice; set on_gradient only in the last backward of a step");
            return;
        }
        announce(mpi, leaf);
        tg_mpi_flat_advance(mpi, false, &mpi->pending);
        return;
    }
}

/* ---- the sum ---- */

/* All ranks learn whether one has failed, and the highest kind of every gradient. */
static bool exchange_kinds(tg_mpi *mpi, const tg_error *local, tg_error *error)
{
    /* tg_mpi_broadcast has reserved the memory */
    uint8_t *kinds = tg_mpi_buffer_reserve(&mpi->kind_memory, 0), *has_failed = kinds + mpi->leaf_count;
    *has_failed = local->code != TG_OK;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        kinds[i] = mpi->leaves[i].kind;
    }
    int count = (int)mpi->leaf_count + 1;
    if (!tg_mpi_succeeded(call, MPI_Allreduce(MPI_IN_PLACE, kinds, count, MPI_UINT8_T, MPI_MAX, mpi->comm), error)) {
        return false;
    }
    if (*has_failed) {
        return tg_mpi_agree_on(mpi, call, mpi->step + 1, local, error);
    }
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        mpi->leaves[i].kind = kinds[i];
    }
    return true;
}

static bool travels_by_rows(const tg_mpi_leaf *leaf)
{
    return leaf->kind == TG_GRAD_ROWS && !leaf->is_early;
}

/* Returns the numbers of rows of all ranks, one array of `ranks` numbers per leaf that travels by rows, or NULL. */
static const int64_t *exchange_row_counts(tg_mpi *mpi, tg_error *error)
{
    /* tg_mpi_broadcast has reserved the memory, in two parts: this rank's numbers, and all */
    int64_t *mine = tg_mpi_buffer_reserve(&mpi->count_memory, 0), *all = mine + mpi->leaf_count;
    int tables = 0;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        if (travels_by_rows(&mpi->leaves[i])) {
            mine[tables++] = tg_tensor_grad_rows(mpi->leaves[i].tensor).count;
        }
    }
    return tables == 0 ||
                   tg_mpi_succeeded(call, MPI_Allgather(mine, tables, MPI_INT64_T, all, tables, MPI_INT64_T, mpi->comm),
                                    error)
               ? all
               : NULL;
}

/* Reserves the memory for the gradients that have not travelled yet. */
static void reserve_rest(tg_mpi *mpi, const int64_t *counts, tg_error *error)
{
    int64_t largest = 0, width = 0;
    int tables = 0, table = 0;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        tables += travels_by_rows(&mpi->leaves[i]);
    }
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        const tg_mpi_leaf *leaf = &mpi->leaves[i];
        if (travels_by_rows(leaf)) {
            int64_t total = 0;
            for (int rank = 0; rank < mpi->size; rank++) {
                total += counts[rank * tables + table];
            }
            table++;
            if (total > INT_MAX) {
                tg_error_set(error, TG_ERROR_VALUE, "the ranks have %lld rows together; at most %d fit",
                             (long long)total, INT_MAX);
                return;
            }
            tg_tensor_reserve_grad(leaf->tensor, TG_GRAD_ROWS, total, error);
            largest = total > largest ? total : largest;
            width = tg_tensor_size(leaf->tensor, 1) > width ? tg_tensor_size(leaf->tensor, 1) : width;
        } else if (leaf->kind == TG_GRAD_DENSE && !leaf->is_early) {
            tg_tensor_reserve_grad(leaf->tensor, TG_GRAD_DENSE, 0, error);
        }
    }
    size_t row = (size_t)width * tg_dtype_size(mpi->flat.dtype), ints = 2 * (size_t)mpi->size;
    if (!tg_mpi_buffer_reserve(&mpi->id_memory, ((size_t)largest + ints) * sizeof(int32_t)) ||
        !tg_mpi_buffer_reserve(&mpi->row_memory, (size_t)largest * row)) {
        tg_error_set(error, TG_ERROR_MEMORY, "out of memory for %lld rows", (long long)largest);
    }
}

/* Replaces a gradient by rows by the sum of the ranks' gradients. counts[rank * stride] is the number of rows of a
 * rank. */
static bool sum_rows(tg_mpi *mpi, tg_tensor *x, const int64_t *counts, int stride, tg_error *error)
{
    /* reserve_rest has reserved the memory */
    int *number = tg_mpi_buffer_reserve(&mpi->id_memory, 0), *first = number + mpi->size;
    int32_t *ids = first + mpi->size;
    void *values = tg_mpi_buffer_reserve(&mpi->row_memory, 0);
    tg_dtype dtype = tg_tensor_dtype(x);
    tg_grad_rows mine = tg_tensor_grad_rows(x);
    int total = 0;
    for (int rank = 0; rank < mpi->size; rank++) {
        number[rank] = (int)counts[(int64_t)rank * stride];
        first[rank] = total;
        total += number[rank];
    }
    tg_mpi_scale(dtype, mine.values, mine.values, mine.count * mine.width, mpi->share);
    MPI_Datatype row;
    bool moved =
        tg_mpi_succeeded(call, MPI_Type_contiguous((int)tg_tensor_size(x, 1), tg_mpi_type_of(dtype), &row), error);
    if (moved) {
        MPI_Type_commit(&row);
        moved =
            tg_mpi_succeeded(
                call,
                MPI_Allgatherv(mine.ids, (int)mine.count, MPI_INT32_T, ids, number, first, MPI_INT32_T, mpi->comm),
                error) &&
            tg_mpi_succeeded(
                call, MPI_Allgatherv(mine.values, (int)mine.count, row, values, number, first, row, mpi->comm), error);
        MPI_Type_free(&row);
    }
    if (moved) {
        tg_tensor_zero_grad(x);
        moved = tg_tensor_add_grad_rows(x, ids, values, total, error);
    }
    return moved;
}

static bool sum_all_rows(tg_mpi *mpi, const int64_t *counts, tg_error *error)
{
    int tables = 0, table = 0;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        tables += travels_by_rows(&mpi->leaves[i]);
    }
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        if (travels_by_rows(&mpi->leaves[i]) &&
            !sum_rows(mpi, mpi->leaves[i].tensor, counts + table++, tables, error)) {
            return false;
        }
    }
    return true;
}

/* Sums the dense gradients that have not travelled yet. */
static bool sum_late_dense(tg_mpi *mpi, tg_error *error)
{
    tg_mpi_flat_clear(&mpi->flat, mpi->share);
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        tg_mpi_leaf *leaf = &mpi->leaves[i];
        if (leaf->kind == TG_GRAD_DENSE && !leaf->is_early) {
            tg_tensor_make_grad_dense(leaf->tensor, NULL); /* reserve_rest has reserved the memory */
            tg_mpi_flat_append(&mpi->flat, leaf);
        }
    }
    return tg_mpi_flat_advance(mpi, true, error);
}

/* Sums what has not travelled early. `local` is an error of this rank. */
static bool sum_rest(tg_mpi *mpi, tg_error *local, tg_error *error)
{
    if (!exchange_kinds(mpi, local, error)) {
        return false;
    }
    if (mpi->samples.added > 0) {
        return tg_mpi_samples_reduce(mpi, mpi->share, error);
    }
    const int64_t *counts = exchange_row_counts(mpi, error);
    if (!counts) {
        return false;
    }
    reserve_rest(mpi, counts, local);
    if (!tg_mpi_agree_on(mpi, call, mpi->step + 1, local, error) || !sum_late_dense(mpi, error) ||
        !sum_all_rows(mpi, counts, error)) {
        return false;
    }
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        tg_mpi_leaf *leaf = &mpi->leaves[i];
        leaf->was_dense = leaf->kind == TG_GRAD_DENSE || (leaf->is_early && leaf->kind == TG_GRAD_ROWS);
        if (leaf->kind == TG_GRAD_NONE) {
            tg_tensor_zero_grad(leaf->tensor); /* an early gradient that no rank has */
        }
    }
    return true;
}

/* Reduces after all ranks have agreed. */
static bool reduce(tg_mpi *mpi, double share, tg_error *error)
{
    if (!mpi->has_begun) {
        begin(mpi, share, false);
    }
    mpi->has_begun = false;
    for (int64_t i = 0; i < mpi->leaf_count; i++) {
        if (!mpi->leaves[i].is_announced) {
            announce(mpi, &mpi->leaves[i]);
        }
    }
    return tg_mpi_flat_advance(mpi, true, error) && sum_rest(mpi, &mpi->pending, error);
}

bool tg_mpi_reduce(tg_mpi *mpi, tg_params *params, const tg_mpi_reduce_config *given, tg_error *error)
{
    if (!tg_mpi_expect(call, "tg_mpi", mpi, error)) {
        return false;
    }
    tg_error local = TG_NO_ERROR, agreed = TG_NO_ERROR;
    tg_mpi_reduce_config config = tg_mpi_read_reduce_config(given, &local);
    (void)(tg_mpi_expect_params(mpi, params, &local) && tg_mpi_samples_check(mpi, &local) &&
           (!(mpi->has_begun || mpi->samples.added > 0) || tg_mpi_expect_sizes(mpi, &local)));
    const tg_mpi_fact facts[] = {
        tg_mpi_entries_fact(params),
        {.what = "the number of samples of tg_mpi_add_sample", .number = mpi->samples.samples}};
    bool reduced =
        tg_mpi_agree_facts(mpi, call, mpi->step + 1, &local, facts, 2, &agreed) && reduce(mpi, config.share, &agreed);
    tg_mpi_flat_abandon(mpi);
    tg_mpi_samples_clear(mpi);
    mpi->step += reduced;
    return tg_mpi_report(mpi, tg_params_run(params), &agreed, error);
}

/* lookup: lookups in a table that is sharded by rows, and the way back of their gradients.
 *
 * A lookup sorts this rank's ids, and fetches the U different rows from their owners into a leaf (U,C). The op is that
 * of an ordinary table, with this leaf as its table and the index of each row in it as its id. After backward the
 * gradient of the leaf, by rows, is sent to the owners.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad/op.h>

#include "mpi/table.h"

static bool report_memory(tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "out of memory for the rows");
}

static bool expect_received(const tg_mpi_exchange *exchange, tg_error *error)
{
    return (exchange->sent <= INT_MAX && exchange->received <= INT_MAX) ||
           tg_error_set(error, TG_ERROR_VALUE, "a rank sends or receives %lld rows; at most %d fit",
                        (long long)(exchange->sent > exchange->received ? exchange->sent : exchange->received),
                        INT_MAX);
}

/* ---- forward ---- */

/* What a lookup needs on this rank before it can fetch. */
typedef struct request {
    tg_tensor *ids;       /* contiguous */
    tg_tensor *positions; /* the index in `lookup.rows` of each id, in the shape of the ids */
    tg_mpi_lookup lookup;
    int64_t count; /* the number of different ids */
} request;

static void request_free(request *r)
{
    tg_release(r->ids);
    tg_release(r->positions);
    tg_release(r->lookup.rows);
    tg_release(r->lookup.ids);
}

static bool check_ids(const tg_mpi_table *table, const tg_tensor *ids, tg_error *error)
{
    if (!ids) {
        return tg_error_set(error, TG_ERROR_STATE, "the ids are NULL");
    }
    if (tg_tensor_dtype(ids) != TG_I32 || tg_tensor_count(ids) > INT32_MAX) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%lld ids of %s; they must be i32, and at most %d",
                            (long long)tg_tensor_count(ids), tg_dtype_name(tg_tensor_dtype(ids)), INT32_MAX);
    }
    const int32_t *id = tg_tensor_data(ids);
    for (int64_t i = 0; i < tg_tensor_count(ids); i++) {
        if (id[i] < 0 || id[i] >= table->rows) {
            tg_shape shape = tg_tensor_shape(ids);
            char index[TG_SHAPE_TEXT];
            return tg_error_set(error, TG_ERROR_RANGE, "id %d at %s is outside [0,%lld)", (int)id[i],
                                tg_index_format(&shape, i, index), (long long)table->rows);
        }
    }
    return true;
}

/* Finds the different ids, and creates the tensors of a lookup. */
static bool prepare(tg_mpi_table *table, tg_tensor *ids, request *r, tg_error *error)
{
    r->ids = ids && !tg_tensor_is_contiguous(ids) ? tg_tensor_new_copy(ids, error) : tg_retain(ids);
    if ((ids && !r->ids) || !check_ids(table, r->ids, error)) {
        return false;
    }
    int64_t count = tg_tensor_count(r->ids), different = 0;
    int64_t *keys = tg_mpi_buffer_reserve(&table->keys, (size_t)count * sizeof *keys);
    r->positions = tg_tensor_new(TG_I32, tg_tensor_shape(r->ids), error);
    if (!keys || !r->positions) {
        return report_memory(error);
    }
    const int32_t *id = tg_tensor_data(r->ids);
    for (int64_t i = 0; i < count; i++) {
        keys[i] = ((int64_t)id[i] << 32) + i;
    }
    qsort(keys, (size_t)count, sizeof *keys, tg_mpi_compare_keys);
    for (int64_t i = 0; i < count; i++) {
        different += i == 0 || keys[i] >> 32 != keys[i - 1] >> 32;
    }
    r->count = different;
    r->lookup.ids = tg_tensor_new(TG_I32, tg_shape_make(1, &different), error);
    r->lookup.rows = tg_tensor_new(table->dtype, tg_shape_make(2, (int64_t[]){different, table->width}), error);
    if (!r->lookup.ids || !r->lookup.rows) {
        return report_memory(error);
    }
    int32_t *sorted = tg_tensor_data_mut(r->lookup.ids), *position = tg_tensor_data_mut(r->positions), next = -1;
    for (int64_t i = 0; i < count; i++) {
        if (i == 0 || keys[i] >> 32 != keys[i - 1] >> 32) {
            sorted[++next] = (int32_t)(keys[i] >> 32);
        }
        position[keys[i] & UINT32_MAX] = next;
    }
    return true;
}

/* Reserves an entry in the list of lookups. */
static bool reserve_lookup(tg_mpi_table *table)
{
    if (table->lookup_count < table->lookup_capacity) {
        return true;
    }
    tg_mpi_buffer larger = {NULL, 0};
    size_t capacity = 2 * table->lookup_capacity + 4;
    tg_mpi_lookup *lookups = tg_mpi_buffer_reserve(&larger, capacity * sizeof *lookups);
    if (!lookups) {
        return false;
    }
    if (table->lookup_count > 0) {
        memcpy(lookups, table->lookups, table->lookup_count * sizeof *lookups);
    }
    tg_mpi_buffer_free(&table->lookup_memory);
    table->lookup_memory = larger;
    table->lookups = lookups;
    table->lookup_capacity = capacity;
    return true;
}

/* Reads the rows that other ranks need, and sends them. */
static bool fetch_rows(tg_mpi_table *table, const char *call, const tg_mpi_exchange *exchange, const request *r,
                       tg_error *error)
{
    if (!tg_mpi_exchange_ids(table, call, exchange, tg_tensor_data(r->lookup.ids), error)) {
        return false;
    }
    const int32_t *id = table->received_ids.block;
    const char *shard = tg_tensor_data(table->shard);
    char *rows = table->sent_rows.block;
    size_t row = (size_t)table->width * tg_dtype_size(table->dtype);
    for (int64_t i = 0; i < exchange->received; i++) {
        memcpy(rows + (size_t)i * row, shard + (size_t)(id[i] - tg_mpi_table_first_row(table)) * row, row);
    }
    return tg_mpi_exchange_rows(table, call, exchange, rows, tg_tensor_data_mut(r->lookup.rows), true, error);
}

/* Checks a padding index of the whole table. A negative one is replaced by that of the same row, from 0. */
static bool check_padding(const tg_mpi_table *table, int64_t *padding, tg_error *error)
{
    if (*padding != TG_NO_PADDING && (*padding < -table->rows || *padding >= table->rows)) {
        return tg_error_set(error, TG_ERROR_RANGE, "padding_index %lld is outside [%lld,%lld)", (long long)*padding,
                            (long long)-table->rows, (long long)table->rows);
    }
    *padding += *padding < 0 && *padding != TG_NO_PADDING ? table->rows : 0;
    return true;
}

static int64_t local_padding(const request *r, int64_t padding)
{
    const int32_t *ids = tg_tensor_data(r->lookup.ids);
    for (int64_t i = 0; padding != TG_NO_PADDING && i < r->count; i++) {
        if (ids[i] == padding) {
            return i;
        }
    }
    return TG_NO_PADDING;
}

/* Checks the arguments of a lookup on this rank, finds the different ids, and replaces the padding index of the whole
 * table. */
static bool check(tg_tape *t, tg_mpi_table *table, tg_tensor *ids, int64_t *padding, request *r, tg_error *local)
{
    if (tg_tape_error(t)->code != TG_OK) {
        *local = *tg_tape_error(t); /* NULL, too */
        return false;
    }
    if (!tg_tensor_data(table->shard)) {
        return tg_error_set(local, TG_ERROR_STATE,
                            "the optimizer has deferred steps of a sharded table; create it without `deferred`");
    }
    return local->code == TG_OK && check_padding(table, padding, local) && prepare(table, ids, r, local) &&
           (reserve_lookup(table) || report_memory(local));
}

/* Fetches the rows of `ids` after a check on all ranks. `local` may have an error of this rank. Returns false with the
 * error in the tape. */
static bool fetch(tg_tape *t, tg_mpi_table *table, const char *call, tg_tensor *ids, int64_t *padding, request *r,
                  tg_error *local)
{
    tg_error error = TG_NO_ERROR;
    tg_mpi_exchange exchange;
    check(t, table, ids, padding, r, local);
    bool is_recorded = tg_tape_is_recording(t) && tg_tensor_requires_grad(table->shard);
    const tg_mpi_fact facts[] = {
        tg_mpi_table_fact(table),
        {.what = "whether the tape records, and the shard requires a gradient,", .text = is_recorded ? "yes" : "no"}};
    bool fetched = tg_mpi_agree_facts(table->mpi, call, 0, local, facts, 2, &error) &&
                   tg_mpi_exchange_counts(table, call, tg_tensor_data(r->lookup.ids), r->count, &exchange, &error);
    if (fetched) {
        size_t row = (size_t)table->width * tg_dtype_size(table->dtype), received = (size_t)exchange.received;
        if (expect_received(&exchange, local) &&
            (!tg_mpi_buffer_reserve(&table->received_ids, received * sizeof(int32_t)) ||
             !tg_mpi_buffer_reserve(&table->sent_rows, received * row))) {
            report_memory(local);
        }
        fetched = tg_mpi_agree_on(table->mpi, call, 0, local, &error) && fetch_rows(table, call, &exchange, r, &error);
    }
    if (!fetched) {
        return tg_mpi_report(table->mpi, tg_tape_run(t), &error, NULL);
    }
    tg_tensor_set_requires_grad(r->lookup.rows, is_recorded, NULL);
    *padding = local_padding(r, *padding);
    return true;
}

/* Ends a lookup whose rows were fetched: returns y, the result of the op, or NULL on all ranks if the op has failed on
 * one. */
static tg_tensor *finish(tg_tape *t, tg_mpi_table *table, const char *call, tg_tensor *y, const request *r)
{
    tg_error local = y ? (tg_error)TG_NO_ERROR : *tg_tape_error(t), error = TG_NO_ERROR;
    if (!tg_mpi_agree_on(table->mpi, call, 0, &local, &error)) {
        tg_mpi_report(table->mpi, tg_tape_run(t), &error, NULL);
        return NULL;
    }
    if (tg_tensor_requires_grad(r->lookup.rows)) {
        table->lookups[table->lookup_count++] = (tg_mpi_lookup){tg_retain(r->lookup.rows), tg_retain(r->lookup.ids)};
    }
    return y;
}

/* What the configs of both functions have, besides the padding. */
typedef struct options {
    tg_config_mark given, standard;
    double max_norm;
    bool scale_by_frequency;
} options;

/* Fetches the rows of `ids`, after a check of the table, and that the options are possible for a sharded one. Returns
 * false with the error in the tape. */
static bool begin(tg_tape *t, tg_mpi_table *table, const char *call, tg_tensor *ids, const options *o, int64_t *padding,
                  request *r)
{
    *r = (request){NULL, NULL, {NULL, NULL}, 0};
    if (!table) {
        return tg_tape_fail(t, TG_ERROR_STATE, call, "the table is NULL");
    }
    tg_error local = TG_NO_ERROR;
    if (tg_mpi_expect_config(&o->given, o->standard, &local) && (o->max_norm != 0 || o->scale_by_frequency)) {
        tg_error_set(&local, TG_ERROR_VALUE, "%s is not possible for a sharded table",
                     o->max_norm != 0 ? "max_norm" : "scale_by_frequency");
    }
    return fetch(t, table, call, ids, padding, r, &local);
}

tg_tensor *tg_mpi_embedding(tg_tape *t, tg_mpi_table *table, tg_tensor *ids, const tg_embedding_config *given)
{
    static const char call[] = "mpi_embedding";
    const tg_embedding_config standard = tg_embedding_config_default();
    tg_embedding_config config = given ? *given : standard;
    const options o = {config.mark, standard.mark, config.max_norm, config.scale_by_frequency};
    request r;
    tg_tensor *y = NULL;
    if (begin(t, table, call, ids, &o, &config.padding_index, &r)) {
        y = finish(t, table, call, tg_embedding(t, r.positions, r.lookup.rows, &config), &r);
    }
    request_free(&r);
    return y;
}

tg_tensor *tg_mpi_embedding_bag(tg_tape *t, tg_mpi_table *table, tg_tensor *ids, const tg_embedding_bag_config *given)
{
    static const char call[] = "mpi_embedding_bag";
    const tg_embedding_bag_config standard = tg_embedding_bag_config_default();
    tg_embedding_bag_config config = given ? *given : standard;
    const options o = {config.mark, standard.mark, config.max_norm, config.scale_by_frequency};
    request r;
    tg_tensor *y = NULL;
    if (begin(t, table, call, ids, &o, &config.padding_index, &r)) {
        y = finish(t, table, call, tg_embedding_bag(t, r.positions, r.lookup.rows, &config), &r);
    }
    request_free(&r);
    return y;
}

/* ---- gradients ---- */

/* One row of the gradients of all lookups. */
typedef struct source {
    int32_t id;
    const char *values;
} source;

/* Returns row number `index` of the gradients of all lookups, or, for an index after the last one, NULL values. */
static source row_of(const tg_mpi_table *table, int64_t index)
{
    size_t row = (size_t)table->width * tg_dtype_size(table->dtype);
    for (size_t i = 0; i < table->lookup_count; i++) {
        const tg_mpi_lookup *lookup = &table->lookups[i];
        const int32_t *ids = tg_tensor_data(lookup->ids);
        tg_grad_rows rows = tg_tensor_grad_rows(lookup->rows);
        const tg_tensor *dense = tg_tensor_grad(lookup->rows);
        int64_t count = dense ? tg_tensor_count(lookup->ids) : rows.count;
        if (index < count) {
            int64_t at = dense ? index : rows.ids[index];
            const char *values = dense ? tg_tensor_data(dense) : rows.values;
            return (source){ids[at], values + (size_t)index * row};
        }
        index -= count;
    }
    return (source){0, NULL};
}

static int64_t count_rows(const tg_mpi_table *table)
{
    int64_t count = 0;
    for (size_t i = 0; i < table->lookup_count; i++) {
        const tg_tensor *rows = table->lookups[i].rows;
        count += tg_tensor_grad(rows) ? tg_tensor_size(rows, 0) : tg_tensor_grad_rows(rows).count;
    }
    return count;
}

/* Writes the gradients of all lookups, times the share, to sent_ids and sent_rows, ids ascending. */
static bool pack(tg_mpi_table *table, int64_t count, double share, tg_error *error)
{
    size_t row = (size_t)table->width * tg_dtype_size(table->dtype);
    int64_t *keys = tg_mpi_buffer_reserve(&table->keys, (size_t)count * sizeof *keys);
    int32_t *ids = tg_mpi_buffer_reserve(&table->sent_ids, (size_t)count * sizeof *ids);
    char *rows = tg_mpi_buffer_reserve(&table->sent_rows, (size_t)count * row);
    if (!keys || !ids || !rows) {
        return report_memory(error);
    }
    for (int64_t i = 0; i < count; i++) {
        keys[i] = ((int64_t)row_of(table, i).id << 32) + i;
    }
    qsort(keys, (size_t)count, sizeof *keys, tg_mpi_compare_keys);
    for (int64_t i = 0; i < count; i++) {
        ids[i] = (int32_t)(keys[i] >> 32);
        tg_mpi_scale(table->dtype, rows + (size_t)i * row, row_of(table, keys[i] & UINT32_MAX).values, table->width,
                     share);
    }
    return true;
}

/* Sends the packed gradients to their owners, which add them. */
static bool send_gradients(tg_mpi_table *table, const char *call, int64_t count, tg_error *error)
{
    tg_error local = TG_NO_ERROR;
    tg_mpi_exchange exchange;
    const int32_t *ids = table->sent_ids.block;
    if (!tg_mpi_exchange_counts(table, call, ids, count, &exchange, error)) {
        return false;
    }
    size_t row = (size_t)table->width * tg_dtype_size(table->dtype), received = (size_t)exchange.received;
    int32_t *received_ids = tg_mpi_buffer_reserve(&table->received_ids, received * sizeof *received_ids);
    char *rows = tg_mpi_buffer_reserve(&table->received_rows, received * row);
    if (!received_ids || !rows) {
        report_memory(&local);
    }
    expect_received(&exchange, &local);
    tg_tensor_reserve_grad(table->shard, TG_GRAD_ROWS, exchange.received, &local);
    if (!tg_mpi_agree_on(table->mpi, call, 0, &local, error) ||
        !tg_mpi_exchange_ids(table, call, &exchange, ids, error) ||
        !tg_mpi_exchange_rows(table, call, &exchange, table->sent_rows.block, rows, false, error)) {
        return false;
    }
    for (int64_t i = 0; i < exchange.received; i++) {
        received_ids[i] -= (int32_t)tg_mpi_table_first_row(table);
    }
    return tg_tensor_add_grad_rows(table->shard, received_ids, rows, exchange.received, error);
}

bool tg_mpi_table_reduce(tg_mpi_table *table, const tg_mpi_reduce_config *given, tg_error *error)
{
    static const char call[] = "mpi_table_reduce";
    if (!tg_mpi_expect(call, "table", table, error)) {
        return false;
    }
    tg_error local = TG_NO_ERROR, agreed = TG_NO_ERROR;
    tg_mpi_reduce_config config = tg_mpi_read_reduce_config(given, &local);
    tg_error_copy(&local, tg_params_error(table->shards));
    double share = config.share == TG_MPI_EQUAL_SHARE ? 1.0 / table->mpi->size : config.share;
    int64_t count = count_rows(table);
    if (local.code == TG_OK) {
        pack(table, count, share, &local);
    }
    const tg_mpi_fact facts[] = {tg_mpi_table_fact(table),
                                 {.what = "the number of lookups", .number = (int64_t)table->lookup_count}};
    (void)(tg_mpi_agree_facts(table->mpi, call, 0, &local, facts, 2, &agreed) &&
           (table->lookup_count == 0 || send_gradients(table, call, count, &agreed)));
    tg_mpi_table_clear(table);
    return tg_mpi_report(table->mpi, tg_params_run(table->shards), &agreed, error);
}

/* checkpoint_parts: params with the state of their rows, generators and loaders as parts of a checkpoint. */
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "files/checkpoint.h"
#include "params/params.h"
#include "tensor/gradient.h"

/* ---- params ---- */

/* Adds the frozen rows of a table. A shard writes them also if it has none, because another shard may have some. */
static bool add_frozen(tg_safetensors_writer *writer, const char *prefix, const char *name, const tg_tensor *table,
                       tg_error *error)
{
    int64_t rows = table->shape[0];
    const uint8_t *frozen = table->rows->frozen;
    uint8_t *none = frozen ? NULL : tg_alloc_zeroed((size_t)rows + 1, 1);
    bool is_added = frozen || none ? tg_saving_add_rows(writer, prefix, name, TG_U8, tg_shape_make(1, &rows),
                                                        tg_shard_of(table), frozen ? frozen : none, error)
                                   : tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", tg_save_call);
    tg_free(none);
    return is_added;
}

/* Adds the frozen rows and the counts of one tensor. A count is exact as a double up to 2^53. */
static bool add_rows(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_entry entry, tg_error *error)
{
    char frozen[TG_PART_NAME], updates[TG_PART_NAME];
    const tg_row_state *state = entry.tensor->rows;
    const tg_shard shard = tg_shard_of(entry.tensor);
    int64_t rows = state && entry.tensor->rank > 0 ? entry.tensor->shape[0] : 0;
    tg_part_name(part, "_frozen_rows.", frozen);
    tg_part_name(part, "_row_updates.", updates);
    if ((tg_has_frozen_rows(entry.tensor) || shard.rows > 0) &&
        !add_frozen(writer, frozen, entry.name, entry.tensor, error)) {
        return false;
    }
    if (!state || !state->updates) {
        return true;
    }
    double *counts = tg_alloc((size_t)rows + 1, 2 * sizeof *counts);
    for (int64_t row = 0; counts && row < rows; row++) {
        counts[2 * row] = (double)state->updates[row].count;
        counts[2 * row + 1] = (double)state->updates[row].last_step;
    }
    bool is_added = counts ? tg_saving_add_rows(writer, updates, entry.name, TG_F64,
                                                tg_shape_make(2, (int64_t[]){rows, 2}), shard, counts, error)
                           : tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", tg_save_call);
    tg_free(counts);
    return is_added;
}

static bool add_params(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    char prefix[TG_PART_NAME];
    if (!tg_params_check(tg_save_call, part->params, error) ||
        !tg_params_add_to_file(part->params, writer, tg_part_name(part, ".", prefix), TG_SAVE_FLOATS_KEEP, error)) {
        return false;
    }
    for (int64_t i = 0; i < tg_params_count(part->params); i++) {
        tg_entry entry = tg_params_at(part->params, i);
        if (entry.kind == TG_ENTRY_PARAMETER && !add_rows(writer, part, entry, error)) {
            return false;
        }
    }
    return true;
}

static bool no_memory(int64_t rows, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld rows", tg_load_call, (long long)rows);
}

/* Reads the counts of a table's rows; none if the file has none. */
static bool read_updates(const tg_loading *loading, const tg_checkpoint_part *part, tg_entry entry, int64_t rows,
                         tg_row_state *state, tg_error *error)
{
    char prefix[TG_PART_NAME];
    tg_part_name(part, "_row_updates.", prefix);
    if (!tg_safetensors_find(loading->file, prefix, entry.name)) {
        return true;
    }
    double *counts = tg_alloc((size_t)rows + 1, 2 * sizeof *counts);
    state->updates = tg_alloc((size_t)rows + 1, sizeof *state->updates);
    bool is_read = ((counts && state->updates) || no_memory(rows, error)) &&
                   tg_loading_read_rows(loading, prefix, entry.name, TG_F64, tg_shape_make(2, (int64_t[]){rows, 2}),
                                        tg_shard_of(entry.tensor), counts, error);
    for (int64_t row = 0; is_read && row < rows; row++) {
        double count = counts[2 * row], last = counts[2 * row + 1];
        is_read = (tg_is_count(count) && tg_is_count(last)) ||
                  tg_loading_refuse(loading, error,
                                    "row %lld of '%s%s' has the counts %g and %g; both must be whole numbers from 0 to "
                                    "2^53",
                                    (long long)row, prefix, entry.name, count, last);
        state->updates[row] = is_read ? (tg_row_updates){(int64_t)count, (int64_t)last} : (tg_row_updates){0, 0};
    }
    tg_free(counts);
    return is_read;
}

/* Reads which rows of a table are frozen; none if the file has none. */
static bool read_frozen(const tg_loading *loading, const tg_checkpoint_part *part, tg_entry entry, int64_t rows,
                        tg_row_state *state, tg_error *error)
{
    char prefix[TG_PART_NAME];
    tg_part_name(part, "_frozen_rows.", prefix);
    if (!tg_safetensors_find(loading->file, prefix, entry.name)) {
        return true;
    }
    state->frozen = tg_alloc((size_t)rows + 1, 1);
    bool is_read = (state->frozen || no_memory(rows, error)) &&
                   tg_loading_read_rows(loading, prefix, entry.name, TG_U8, tg_shape_make(1, &rows),
                                        tg_shard_of(entry.tensor), state->frozen, error);
    for (int64_t row = 0; is_read && row < rows; row++) {
        is_read =
            state->frozen[row] <= 1 || tg_loading_refuse(loading, error, "row %lld of '%s%s' is %d; it must be 0 or 1",
                                                         (long long)row, prefix, entry.name, state->frozen[row]);
        state->frozen_count += state->frozen[row];
    }
    return is_read;
}

/* Sets the state of a table's rows; a table without one has no state in the file, either. */
static void finish_rows(const tg_pending_values *pending, bool replaces)
{
    tg_tensor *table = pending->to;
    tg_row_state *read = pending->values, *now = table->rows;
    if (replaces && now) {
        tg_row_state old = *now;
        now->frozen = read->frozen;
        now->frozen_count = read->frozen_count;
        now->updates = read->updates;
        *read = old;
        tg_gradient_drop_frozen(table);
    }
    tg_free(read->frozen);
    tg_free(read->updates);
}

/* Reads the state of a table's rows. */
static bool prepare_rows(tg_loading *loading, const tg_checkpoint_part *part, tg_entry entry, tg_error *error)
{
    int64_t rows = entry.tensor->rank > 0 ? entry.tensor->shape[0] : 0;
    tg_row_state *state =
        tg_pending_add(&loading->values, tg_load_call, entry.name, entry.tensor, sizeof *state, finish_rows, error);
    if (!state) {
        return false;
    }
    *state = (tg_row_state){.frozen = NULL};
    return read_frozen(loading, part, entry, rows, state, error) &&
           read_updates(loading, part, entry, rows, state, error) &&
           ((!state->frozen && !state->updates) || tg_row_state_reserve(tg_load_call, entry.tensor, error));
}

static bool prepare_params(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
{
    char prefix[TG_PART_NAME];
    tg_params_load_config config = tg_params_load_config_default();
    config.prefix = tg_part_name(part, ".", prefix);
    bool is_ready = tg_params_check(tg_load_call, part->params, error) &&
                    tg_params_read_from_file(part->params, tg_load_call, loading->file, loading->path, &config,
                                             &loading->values, error);
    for (int64_t i = 0; is_ready && i < tg_params_count(part->params); i++) {
        tg_entry entry = tg_params_at(part->params, i);
        is_ready = entry.kind != TG_ENTRY_PARAMETER || prepare_rows(loading, part, entry, error);
    }
    return is_ready;
}

static const tg_part_kind params_kind = {.object = "tg_params", .add = add_params, .prepare = prepare_params};

tg_checkpoint_part tg_checkpoint_params(const char *name, tg_params *params)
{
    return (tg_checkpoint_part){.name = name, .kind = &params_kind, .params = params};
}

/* ---- generators ---- */

static tg_shape state_shape(void)
{
    return tg_shape_make(1, (int64_t[]){TG_RNG_TORCH_STATE_SIZE});
}

static bool add_rng(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    uint8_t state[TG_RNG_TORCH_STATE_SIZE];
    char prefix[TG_PART_NAME];
    tg_part_name(part, ".", prefix);
    return tg_rng_save_torch_state(part->rng, state, error) &&
           tg_saving_add(writer, "", part->name, TG_U8, state_shape(), state, error) &&
           tg_saving_add_integer(writer, prefix, "position", (int64_t)part->rng->position, error) &&
           tg_saving_add_integer(writer, prefix, "profile", part->rng->profile, error);
}

static bool prepare_rng(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
{
    uint8_t state[TG_RNG_TORCH_STATE_SIZE];
    char prefix[TG_PART_NAME];
    int64_t position = 0, profile = 0;
    tg_rng *rng = tg_loading_replace(loading, part, part->rng, sizeof *rng, error);
    tg_part_name(part, ".", prefix);
    if (!rng || !tg_loading_read(loading, "", part->name, TG_U8, state_shape(), state, error) ||
        !tg_rng_load_torch_state(rng, state, error) ||
        !tg_loading_read_integer(loading, prefix, "position", &position, error) ||
        !tg_loading_read_integer(loading, prefix, "profile", &profile, error)) {
        return false;
    }
    rng->position = (uint64_t)position;
    rng->profile = (tg_rng_profile)profile;
    return (profile >= TG_RNG_AVX2 && profile <= TG_RNG_PORTABLE) ||
           tg_loading_refuse(loading, error, "'%sprofile' is %lld, which does not exist", prefix, (long long)profile);
}

static const tg_part_kind rng_kind = {.object = "tg_rng", .add = add_rng, .prepare = prepare_rng};

tg_checkpoint_part tg_checkpoint_rng(const char *name, tg_rng *rng)
{
    return (tg_checkpoint_part){.name = name, .kind = &rng_kind, .rng = rng};
}

/* ---- loaders ---- */

#define LOADER_FACTS 6

typedef struct loader_fact {
    const char *name;
    int64_t value;
} loader_fact;

/* Writes what must be equal in a loader that continues. A loader of tensors has context and stride 0, and its rows are
 * counted as windows. */
static void facts_of(const tg_loader *loader, loader_fact facts[LOADER_FACTS])
{
    const tg_loader_config *c = &loader->config;
    const loader_fact all[LOADER_FACTS] = {{"context", c->context},       {"stride", c->stride},
                                           {"batch_size", c->batch_size}, {"shuffle", c->shuffle},
                                           {"drop_last", c->drop_last},   {"windows", loader->count}};
    memcpy(facts, all, sizeof all);
}

static bool check_loader(const tg_loader *loader, tg_error *error)
{
    return tg_loader_is_usable(loader) || tg_error_copy(error, tg_loader_error(loader));
}

static bool add_loader(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    char prefix[TG_PART_NAME];
    loader_fact facts[LOADER_FACTS];
    if (!check_loader(part->loader, error)) {
        return false;
    }
    tg_loader_position position = tg_loader_get_position(part->loader);
    tg_part_name(part, ".", prefix);
    facts_of(part->loader, facts);
    for (int i = 0; i < LOADER_FACTS; i++) {
        if (!tg_saving_add_integer(writer, prefix, facts[i].name, facts[i].value, error)) {
            return false;
        }
    }
    return tg_saving_add_integer(writer, prefix, "next_batch", position.next, error) &&
           tg_saving_add_integer(writer, prefix, "seed", (int64_t)position.seed, error);
}

static void finish_loader(const tg_pending_values *pending, bool replaces)
{
    const tg_loader_position *position = pending->values;
    if (replaces) {
        tg_loader_set_position(pending->to, *position);
    }
}

static bool prepare_loader(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
{
    char prefix[TG_PART_NAME];
    loader_fact facts[LOADER_FACTS];
    int64_t seed = 0, next = 0;
    if (!check_loader(part->loader, error)) {
        return false;
    }
    tg_part_name(part, ".", prefix);
    facts_of(part->loader, facts);
    for (int i = 0; i < LOADER_FACTS; i++) {
        int64_t saved = 0;
        if (!tg_loading_read_integer(loading, prefix, facts[i].name, &saved, error)) {
            return false;
        }
        if (saved != facts[i].value) {
            return tg_loading_refuse(loading, error, "'%s%s' is %lld in the file and %lld here", prefix, facts[i].name,
                                     (long long)saved, (long long)facts[i].value);
        }
    }
    if (!tg_loading_read_integer(loading, prefix, "next_batch", &next, error) ||
        !tg_loading_read_integer(loading, prefix, "seed", &seed, error)) {
        return false;
    }
    int64_t batches = tg_loader_batches(part->loader);
    if (next < 0 || next > batches) {
        return tg_loading_refuse(loading, error, "'%snext_batch' is %lld, outside [0,%lld]", prefix, (long long)next,
                                 (long long)batches);
    }
    tg_loader_position *position = tg_pending_add(&loading->values, tg_load_call, part->name, part->loader,
                                                  sizeof *position, finish_loader, error);
    if (position) {
        *position = (tg_loader_position){(uint64_t)seed, next};
    }
    return position;
}

static const tg_part_kind loader_kind = {.object = "tg_loader", .add = add_loader, .prepare = prepare_loader};

tg_checkpoint_part tg_checkpoint_loader(const char *name, tg_loader *loader)
{
    return (tg_checkpoint_part){.name = name, .kind = &loader_kind, .loader = loader};
}

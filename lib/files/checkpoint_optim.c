/* checkpoint_optim: an optimizer as a part of a checkpoint.
 *
 *   "P.exp_avg.NAME", ...    the state tensors, under the keys of torch's state_dict
 *   "P.step.NAME" ()         the number of steps of a parameter, as a double
 *   "P.group.GROUP" (2)      the learning rate and the weight decay of a group
 *
 * Which parameter is in which group is the program's choice, made before the checkpoint is loaded.
 */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/text.h"
#include "files/checkpoint.h"
#include "optim/optim.h"

static const char *step_prefix(const tg_checkpoint_part *part, char out[TG_PART_NAME])
{
    return tg_part_name(part, ".step.", out);
}

static const char *group_prefix(const tg_checkpoint_part *part, char out[TG_PART_NAME])
{
    return tg_part_name(part, ".group.", out);
}

/* Returns the shard of the parameter to which state tensor number `index` belongs. */
static tg_shard shard_of(const tg_optim *optim, int64_t index)
{
    return tg_shard_of(optim->slots[index / optim->states].tensor);
}

/* Writes the prefix of the state tensors of one kind: "optim.exp_avg." */
static const char *state_prefix(const tg_checkpoint_part *part, const char *kind, char out[TG_PART_NAME])
{
    char text[TG_PART_NAME];
    snprintf(text, sizeof text, ".%s.", kind);
    return tg_part_name(part, text, out);
}

static bool check_optim(const char *call, tg_optim *optim, tg_error *error)
{
    if (!tg_optim_is_usable(optim)) {
        return tg_error_copy(error, optim->run->error);
    }
    if (!tg_optim_is_complete(optim, call, error)) {
        return false;
    }
    for (int64_t i = 0; i < optim->count; i++) {
        if (tg_slot_is_behind(optim, &optim->slots[i])) {
            return tg_error_set(error, TG_ERROR_STATE,
                                "%s: '%s' was resized, and the moments follow in the next step of the optimizer", call,
                                optim->slots[i].name);
        }
    }
    return true;
}

static bool add_optim(tg_saving *saving, const tg_checkpoint_part *part, tg_error *error)
{
    tg_optim *optim = part->optim;
    char prefix[TG_PART_NAME];
    if (!check_optim(tg_save_call, optim, error)) {
        return false;
    }
    for (int64_t i = 0; i < optim->count * optim->states; i++) {
        tg_optim_state state = tg_optim_state_at(optim, i);
        if (!tg_safetensors_add(saving->writer, state_prefix(part, state.kind, prefix), state.name, state.tensor,
                                shard_of(optim, i), TG_SAVE_FLOATS_KEEP, error)) {
            return false;
        }
    }
    for (int64_t i = 0; i < optim->count; i++) {
        double steps = (double)optim->slots[i].steps;
        if (!tg_saving_add(saving, step_prefix(part, prefix), optim->slots[i].name, TG_F64, TG_SCALAR, &steps, error)) {
            return false;
        }
    }
    for (size_t i = 0; i < optim->group_count; i++) {
        const tg_group *group = &optim->groups[i];
        if (!tg_saving_add(saving, group_prefix(part, prefix), group->name, TG_F64, TG_SHAPE(2),
                           (double[]){group->lr, group->weight_decay}, error)) {
            return false;
        }
    }
    return true;
}

/* The memory of a prepared optimizer: the steps of all parameters, then two numbers per group. */
static bool prepare_numbers(const tg_loading *loading, const tg_checkpoint_part *part, double *numbers, tg_error *error)
{
    const tg_optim *optim = part->optim;
    char prefix[TG_PART_NAME];
    step_prefix(part, prefix);
    for (int64_t i = 0; i < optim->count; i++) {
        const char *name = optim->slots[i].name;
        if (!tg_loading_read(loading, prefix, name, TG_F64, TG_SCALAR, &numbers[i], error)) {
            return false;
        }
        if (!tg_is_count(numbers[i])) {
            return tg_loading_refuse(loading, error, "'%s%s' is %g; it must be a whole number from 0 to 2^53", prefix,
                                     name, numbers[i]);
        }
    }
    group_prefix(part, prefix);
    for (size_t i = 0; i < optim->group_count; i++) {
        double *pair = numbers + optim->count + 2 * i;
        if (!tg_loading_read(loading, prefix, optim->groups[i].name, TG_F64, TG_SHAPE(2), pair, error)) {
            return false;
        }
        if (!(pair[0] >= 0 && pair[1] >= 0 && isfinite(pair[0]) && isfinite(pair[1]))) {
            return tg_loading_refuse(loading, error, "'%s%s' is (%g, %g); both must be finite and at least 0", prefix,
                                     optim->groups[i].name, pair[0], pair[1]);
        }
    }
    return true;
}

static bool prepare_optim(tg_loading *loading, const tg_checkpoint_part *part, tg_prepared *prepared, tg_error *error)
{
    tg_optim *optim = part->optim;
    char prefix[TG_PART_NAME];
    if (!check_optim(tg_load_call, optim, error)) {
        return false;
    }
    for (int64_t i = 0; i < optim->count * optim->states; i++) {
        tg_optim_state state = tg_optim_state_at(optim, i);
        const tg_shard shard = shard_of(optim, i);
        const tg_array *array =
            tg_loading_find(loading, state_prefix(part, state.kind, prefix), state.name, tg_tensor_dtype(state.tensor),
                            tg_whole_shape(tg_tensor_shape(state.tensor), shard), error);
        if (!array ||
            !tg_pending_read(&loading->values, tg_load_call, loading->file, array, state.tensor, shard, error)) {
            return false;
        }
    }
    prepared->memory = tg_alloc((size_t)optim->count + 2 * optim->group_count, sizeof(double));
    if (!prepared->memory) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", tg_load_call);
    }
    if (!prepare_numbers(loading, part, prepared->memory, error)) {
        return false;
    }
    int64_t known = optim->count * (optim->states + 1) + (int64_t)optim->group_count;
    int64_t found = tg_loading_count(loading, tg_part_name(part, ".", prefix));
    return found == known ||
           tg_loading_refuse(loading, error,
                             "'%s' has %lld tensors in the file and %lld here; it was saved by another optimizer",
                             part->name, (long long)found, (long long)known);
}

static void commit_optim(const tg_checkpoint_part *part, tg_prepared *prepared)
{
    tg_optim *optim = part->optim;
    const double *numbers = prepared->memory, *pairs = numbers + optim->count;
    for (int64_t i = 0; i < optim->count; i++) {
        optim->slots[i].steps = (int64_t)numbers[i];
    }
    for (size_t i = 0; i < optim->group_count; i++) {
        optim->groups[i].lr = pairs[2 * i];
        optim->groups[i].weight_decay = pairs[2 * i + 1];
    }
}

static void release_optim(const tg_checkpoint_part *part, tg_prepared *prepared)
{
    (void)part;
    tg_free(prepared->memory);
}

static const tg_part_kind optim_kind = {
    .object = "tg_optim",
    .add = add_optim,
    .prepare = prepare_optim,
    .commit = commit_optim,
    .release = release_optim,
};

tg_checkpoint_part tg_checkpoint_optim(const char *name, tg_optim *optim)
{
    return (tg_checkpoint_part){.name = name, .kind = &optim_kind, .optim = optim};
}

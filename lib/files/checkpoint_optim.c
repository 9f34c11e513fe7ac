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

static bool add_optim(tg_safetensors_writer *writer, const tg_checkpoint_part *part, tg_error *error)
{
    tg_optim *optim = part->optim;
    char prefix[TG_PART_NAME];
    if (!check_optim(tg_save_call, optim, error)) {
        return false;
    }
    for (int64_t i = 0; i < optim->count * optim->states; i++) {
        tg_optim_state state = tg_optim_state_at(optim, i);
        if (!tg_safetensors_add(writer, state_prefix(part, state.kind, prefix), state.name, state.tensor,
                                shard_of(optim, i), TG_SAVE_FLOATS_KEEP, error)) {
            return false;
        }
    }
    tg_part_name(part, ".step.", prefix);
    for (int64_t i = 0; i < optim->count; i++) {
        double steps = (double)optim->slots[i].steps;
        if (!tg_saving_add(writer, prefix, optim->slots[i].name, TG_F64, TG_SCALAR, &steps, error)) {
            return false;
        }
    }
    tg_part_name(part, ".group.", prefix);
    for (size_t i = 0; i < optim->group_count; i++) {
        const tg_group *group = &optim->groups[i];
        if (!tg_saving_add(writer, prefix, group->name, TG_F64, TG_SHAPE(2), (double[]){group->lr, group->weight_decay},
                           error)) {
            return false;
        }
    }
    return true;
}

static bool prepare_steps(tg_loading *loading, const tg_checkpoint_part *part, tg_slot *slot, tg_error *error)
{
    char prefix[TG_PART_NAME];
    double number = 0;
    int64_t *steps = tg_loading_replace(loading, part, &slot->steps, sizeof *steps, error);
    tg_part_name(part, ".step.", prefix);
    if (!steps || !tg_loading_read(loading, prefix, slot->name, TG_F64, TG_SCALAR, &number, error)) {
        return false;
    }
    if (!tg_is_count(number)) {
        return tg_loading_refuse(loading, error, "'%s%s' is %g; it must be a whole number from 0 to 2^53", prefix,
                                 slot->name, number);
    }
    *steps = (int64_t)number;
    return true;
}

static bool prepare_group(tg_loading *loading, const tg_checkpoint_part *part, tg_group *group, tg_error *error)
{
    char prefix[TG_PART_NAME];
    double pair[2] = {0, 0};
    double *lr = tg_loading_replace(loading, part, &group->lr, sizeof *lr, error);
    double *weight_decay = tg_loading_replace(loading, part, &group->weight_decay, sizeof *weight_decay, error);
    tg_part_name(part, ".group.", prefix);
    if (!lr || !weight_decay || !tg_loading_read(loading, prefix, group->name, TG_F64, TG_SHAPE(2), pair, error)) {
        return false;
    }
    *lr = pair[0];
    *weight_decay = pair[1];
    return (*lr >= 0 && *weight_decay >= 0 && isfinite(*lr) && isfinite(*weight_decay)) ||
           tg_loading_refuse(loading, error, "'%s%s' is (%g, %g); both must be finite and at least 0", prefix,
                             group->name, *lr, *weight_decay);
}

static bool prepare_optim(tg_loading *loading, const tg_checkpoint_part *part, tg_error *error)
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
        if (!array || !tg_pending_read(&loading->values, tg_load_call, array, state.tensor, shard, error)) {
            return false;
        }
    }
    bool is_ready = true;
    for (int64_t i = 0; is_ready && i < optim->count; i++) {
        is_ready = prepare_steps(loading, part, &optim->slots[i], error);
    }
    for (size_t i = 0; is_ready && i < optim->group_count; i++) {
        is_ready = prepare_group(loading, part, &optim->groups[i], error);
    }
    if (!is_ready) {
        return false;
    }
    int64_t known = optim->count * (optim->states + 1) + (int64_t)optim->group_count;
    int64_t found = tg_loading_count(loading, tg_part_name(part, ".", prefix));
    return found == known ||
           tg_loading_refuse(loading, error,
                             "'%s' has %lld tensors in the file and %lld here; it was saved by another optimizer",
                             part->name, (long long)found, (long long)known);
}

static const tg_part_kind optim_kind = {.object = "tg_optim", .add = add_optim, .prepare = prepare_optim};

tg_checkpoint_part tg_checkpoint_optim(const char *name, tg_optim *optim)
{
    return (tg_checkpoint_part){.name = name, .kind = &optim_kind, .optim = optim};
}

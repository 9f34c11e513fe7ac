/* step: the loops of a step, for all methods.
 *
 * A gradient by rows gives the same result as the same gradient in dense form (except in sparse_adam), without a dense
 * array. If the method allows it, only the listed rows are visited (tg_unlisted). Otherwise every row is visited,
 * because moments and weight decay also change a row without a gradient. Runs of such rows read zeros from one small
 * array, which stays in the cache. Frozen rows are skipped in all cases.
 *
 * If a table was resized after the last step, its state tensors are resized before anything is updated.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "base/text.h"
#include "optim/deferred.h"
#include "tensor/gradient.h"

void tg_optim_zero_grad(tg_optim *optim)
{
    for (int64_t i = 0; tg_optim_is_usable(optim) && i < optim->count; i++) {
        tg_tensor_zero_grad(optim->slots[i].tensor);
    }
}

/* The update of one parameter in one step. Positions are in values. */
typedef struct sweep {
    tg_optim_kernel *kernel;
    tg_optim_factors factors;
    size_t size; /* the size of a value in bytes */
    char *theta, *state[TG_OPTIM_STATES];
    const char *gradient;     /* the values of the dense gradient, or of the listed rows */
    int64_t width, per_state; /* the number of values of a row, and of those that share one value of each state */
    const int32_t *ids, *slot;
    const uint8_t *frozen; /* one byte per row; NULL: no row is frozen */
} sweep;

static void update(const sweep *s, int64_t position, const void *gradient, int64_t count)
{
    void *state[TG_OPTIM_STATES];
    size_t bytes = (size_t)position * s->size, state_bytes = (size_t)(position / s->per_state) * s->size;
    for (int k = 0; k < TG_OPTIM_STATES; k++) {
        state[k] = s->state[k] ? s->state[k] + state_bytes : NULL;
    }
    s->kernel(&s->factors, s->theta + bytes, gradient, state, count);
}

static void update_dense(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    update(s, begin, s->gradient + (size_t)begin * s->size, end - begin);
}

/* Updates the runs between frozen rows, from a dense gradient. */
static void update_dense_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    int64_t from = begin;
    for (int64_t row = begin; row <= end; row++) {
        if (row == end || (s->frozen && s->frozen[row])) {
            update_dense(context, from * s->width, row * s->width);
            from = row + 1;
        }
    }
}

/* Updates the listed rows. A frozen row is never listed. They lie on different pages of a large table, so some are read
 * ahead. */
static void update_listed_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    size_t row = (size_t)s->width * s->size;
    for (int64_t i = begin; i < end; i++) {
        update(s, s->ids[i] * s->width, s->gradient + (size_t)i * row, s->width);
    }
}

static void update_without_gradient(const sweep *s, int64_t position, int64_t count)
{
    static const double zeros[512];
    const int64_t most = (int64_t)(sizeof zeros / s->size);
    for (int64_t done = 0; done < count; done += most) {
        update(s, position + done, zeros, count - done < most ? count - done : most);
    }
}

static void update_all_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    size_t row = (size_t)s->width * s->size;
    int64_t pending = begin; /* rows pending .. id - 1 have no gradient, and are updated as one run */
    for (int64_t id = begin; id < end; id++) {
        bool listed = s->slot[id] >= 0;
        if (listed || (s->frozen && s->frozen[id])) {
            update_without_gradient(s, pending * s->width, (id - pending) * s->width);
            pending = id + 1;
        }
        if (listed) {
            update(s, id * s->width, s->gradient + (size_t)s->slot[id] * row, s->width);
        }
    }
    update_without_gradient(s, pending * s->width, (end - pending) * s->width);
}

static void sweep_dense(sweep *s, const tg_tensor *x, const void *gradient)
{
    s->gradient = gradient;
    if (!s->frozen && s->per_state == 1) {
        tg_parallel_for(x->count, TG_GRAIN, update_dense, s);
        return;
    }
    tg_parallel_for(x->shape[0], 1 + TG_GRAIN / (s->width + 1), update_dense_rows, s);
}

static void sweep_rows(sweep *s, const tg_tensor *x, bool listed_only)
{
    const tg_gradient *gradient = x->gradient;
    s->gradient = gradient->values;
    s->ids = gradient->ids;
    s->slot = gradient->slot;
    tg_parallel_for(listed_only ? gradient->count : x->shape[0], 1 + TG_GRAIN / (s->width + 1),
                    listed_only ? update_listed_rows : update_all_rows, s);
}

static tg_optim_kernel *kernel_of(const tg_optim *optim, tg_optim_kernel *const *f32, tg_optim_kernel *const *f64)
{
    return (tg_params_dtype(optim->params) == TG_F32 ? f32 : f64)[tg_level()];
}

/* A direction from the gradient, changed as a whole, and then the update. That of a frozen row is 0. */
static void sweep_whole(tg_optim *optim, const tg_slot *slot, sweep *s)
{
    const tg_optim_method *method = optim->method;
    sweep direction = *s;
    direction.kernel = kernel_of(optim, method->direction_f32, method->direction_f64);
    direction.theta = optim->working_memory;
    memset(optim->working_memory, 0, (size_t)slot->tensor->count * s->size);
    sweep_dense(&direction, slot->tensor, tg_values(slot->tensor->gradient->dense));
    method->redirect(optim, slot, &s->factors);
    sweep_dense(s, slot->tensor, optim->working_memory);
}

static void step_slot(tg_optim *optim, tg_slot *slot)
{
    tg_tensor *x = slot->tensor;
    const tg_gradient *gradient = x->gradient;
    if (!gradient || gradient->kind == TG_GRAD_NONE) {
        return;
    }
    const tg_group *g = &optim->groups[slot->group];
    sweep s = {.kernel = kernel_of(optim, optim->method->update_f32, optim->method->update_f64),
               .size = optim->value_size,
               .theta = tg_values(x)};
    for (int k = 0; k < optim->states; k++) {
        s.state[k] = tg_values(slot->state[k]);
    }
    s.frozen = tg_has_frozen_rows(x) ? x->rows->frozen : NULL;
    s.width = x->rank > 0 && x->shape[0] > 0 ? x->count / x->shape[0] : x->count;
    s.per_state = optim->method->states_by_rows && s.width > 0 ? s.width : 1;
    s.factors =
        (tg_optim_factors){.config = &optim->config, .lr = g->lr, .weight_decay = g->weight_decay, .width = s.width};
    slot->steps++;
    if (optim->method->prepare) {
        optim->method->prepare(&s.factors, slot->steps);
    }
    if (gradient->kind == TG_GRAD_ROWS && tg_deferred_accepts(slot->deferred, &s.factors)) {
        tg_deferred_begin_step(slot->deferred, gradient->ids, gradient->count);
        sweep_rows(&s, x, true);
        tg_deferred_end_step(slot->deferred, &s.factors, gradient->ids, gradient->count);
    } else if (gradient->kind == TG_GRAD_DENSE) {
        tg_deferred_flush(slot->deferred);
        if (optim->method->redirect) {
            sweep_whole(optim, slot, &s);
        } else {
            sweep_dense(&s, x, tg_values(gradient->dense));
        }
    } else {
        tg_deferred_flush(slot->deferred);
        tg_unlisted unlisted = optim->method->unlisted;
        bool rests = optim->states == 0 || unlisted == TG_UNLISTED_REST;
        sweep_rows(&s, x, unlisted == TG_UNLISTED_SKIP || (rests && g->weight_decay == 0));
    }
    tg_rows_updated(x, slot->steps);
    tg_touch(x);
    for (int k = 0; k < optim->states; k++) {
        tg_touch(slot->state[k]);
    }
}

/* ---- resized tables ---- */

/* The resizes of the state tensors of resized tables, all of which are prepared before one is carried out. */
typedef struct resizes {
    tg_resize *list;
    size_t count, capacity;
} resizes;

static bool prepare_resizes(tg_optim *optim, const tg_slot *slot, resizes *r)
{
    for (int k = 0; k < optim->states; k++) {
        tg_error error = TG_NO_ERROR;
        if (!tg_grow(&r->list, &r->capacity, r->count, r->count + 1, sizeof *r->list)) {
            return tg_error_set(optim->run->error, TG_ERROR_MEMORY, "optim_step: out of memory");
        }
        if (!tg_resize_prepare(&r->list[r->count], slot->state[k], slot->tensor->shape[0], &error)) {
            return tg_error_set(
                optim->run->error, error.code, "optim_step: %s of '%s' cannot follow its table to %lld rows: %.*s",
                optim->method->states[k], slot->name, (long long)slot->tensor->shape[0], TG_CUT(error.text, 200));
        }
        r->count++;
    }
    return true;
}

/* Sets the values from `first` on to the method's initial value. */
static void initialize_from(const tg_optim *optim, tg_tensor *state, int64_t first)
{
    for (int64_t i = first; optim->initial != 0 && i < state->count; i++) {
        tg_convert((char *)tg_values(state) + (size_t)i * optim->value_size, tg_dtype_of(state), &optim->initial,
                   TG_F64, 1);
    }
}

/* Resizes the logs of deferred steps. A table without state tensors may have one, too. */
static bool resize_logs(tg_optim *optim)
{
    for (int64_t i = 0; i < optim->count; i++) {
        const tg_slot *slot = &optim->slots[i];
        if (slot->deferred && !tg_deferred_resize(slot->deferred, slot->tensor->shape[0])) {
            return tg_error_set(optim->run->error, TG_ERROR_MEMORY, "optim_step: out of memory for the rows of '%s'",
                                slot->name);
        }
    }
    return true;
}

/* Resizes the state tensors of resized tables, all or none. */
static bool follow_resizes(tg_optim *optim)
{
    resizes r = {.count = 0};
    bool is_ready = true;
    for (int64_t i = 0; is_ready && i < optim->count; i++) {
        const tg_slot *slot = &optim->slots[i];
        is_ready = !tg_slot_is_behind(optim, slot) || prepare_resizes(optim, slot, &r);
    }
    for (int64_t i = 0; is_ready && i < optim->count; i++) {
        if (tg_slot_is_behind(optim, &optim->slots[i])) {
            optim->slots[i].tensor->rows->followers_behind--;
        }
    }
    for (size_t i = 0; i < r.count; i++) {
        if (is_ready) {
            int64_t kept = r.list[i].table->count;
            tg_resize_commit(&r.list[i]);
            initialize_from(optim, r.list[i].table, kept);
        } else {
            tg_resize_abandon(&r.list[i]);
        }
    }
    tg_free(r.list);
    return is_ready;
}

/* Checks that no parameter has missed steps of another optimizer. */
static bool is_only_optimizer(tg_optim *optim)
{
    for (int64_t i = 0; i < optim->count; i++) {
        const tg_slot *slot = &optim->slots[i];
        if (slot->tensor->storage->guard && !tg_deferred_is_behind(slot->deferred)) {
            return tg_tensor_refuse("optim_step", NULL, slot->tensor, optim->run->error);
        }
    }
    return true;
}

bool tg_optim_flush(tg_optim *optim)
{
    for (int64_t i = 0; optim && i < optim->count; i++) {
        tg_deferred_flush(optim->slots[i].deferred);
        tg_deferred_clear_error(optim->slots[i].deferred);
    }
    return tg_optim_is_usable(optim);
}

bool tg_optim_step(tg_optim *optim)
{
    if (!tg_optim_is_usable(optim) || !tg_optim_is_complete(optim, "optim_step", optim->run->error) ||
        !is_only_optimizer(optim) || (optim->method->begin && !optim->method->begin(optim)) || !resize_logs(optim) ||
        !follow_resizes(optim)) {
        return false;
    }
    for (int64_t i = 0; i < optim->count; i++) {
        step_slot(optim, &optim->slots[i]);
    }
    return true;
}

/* step: the loops of a step, for all methods.
 *
 * Gradients by rows give the dense result without a dense gradient. Some methods, without weight decay, do not move
 * where the gradient is zero, and then only the listed rows are visited (tg_unlisted). Otherwise every row is swept,
 * since moments and decay go on without a gradient: runs of rows that have none read zeros from one small array,
 * which stays in the cache. Frozen rows are passed over, in all of these.
 *
 * Parameters are counted when the optimizer is made and looked at again only when the params have grown since. A
 * table that was resized is met here: its buffers follow before anything moves.
 */
#include "base/parallel.h"
#include "optim/optim.h"
#include "params/params.h"
#include "tensor/tensor.h"

void tg_optim_zero_grad(tg_optim *optim)
{
    for (int64_t i = 0; optim && i < optim->count; i++) {
        tg_zero_grad(optim->slots[i].tensor);
    }
}

/* One parameter in one step. Places are counted in values. */
typedef struct sweep {
    tg_optim_kernel *kernel;
    double factors[TG_OPTIM_FACTORS];
    size_t size; /* bytes of a value */
    char *theta, *state[TG_OPTIM_STATES];
    const char *gradient; /* dense values, or those of the rows */
    int64_t width;
    const int32_t *ids, *slot;
    const uint8_t *frozen; /* one a row; NULL: no row is */
} sweep;

static void update(const sweep *s, int64_t place, const void *gradient, int64_t count)
{
    void *state[TG_OPTIM_STATES];
    size_t bytes = (size_t)place * s->size;
    for (int k = 0; k < TG_OPTIM_STATES; k++) {
        state[k] = s->state[k] ? s->state[k] + bytes : NULL;
    }
    s->kernel(s->factors, s->theta + bytes, gradient, state, count);
}

static void update_dense(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    update(s, begin, s->gradient + (size_t)begin * s->size, end - begin);
}

/* A dense gradient of a table with frozen rows: the runs between them. */
static void update_dense_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    int64_t from = begin;
    for (int64_t row = begin; row <= end; row++) {
        if (row == end || s->frozen[row]) {
            update_dense(context, from * s->width, row * s->width);
            from = row + 1;
        }
    }
}

/* Frozen rows are not listed. */
static void update_listed_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    size_t row = (size_t)s->width * s->size;
    for (int64_t i = begin; i < end; i++) {
        update(s, s->ids[i] * s->width, s->gradient + (size_t)i * row, s->width);
    }
}

static void update_without_gradient(const sweep *s, int64_t place, int64_t count)
{
    static const double zeros[512];
    const int64_t most = (int64_t)(sizeof zeros / s->size);
    for (int64_t done = 0; done < count; done += most) {
        update(s, place + done, zeros, count - done < most ? count - done : most);
    }
}

static void update_all_rows(void *context, int64_t begin, int64_t end)
{
    const sweep *s = context;
    size_t row = (size_t)s->width * s->size;
    int64_t pending = begin; /* rows pending .. id - 1 have no gradient and wait */
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

static void sweep_dense(sweep *s, const tg_tensor *x)
{
    s->gradient = tg_values(x->gradient->dense);
    if (!tg_has_frozen_rows(x)) {
        tg_parallel_for(x->count, TG_GRAIN, update_dense, s);
        return;
    }
    s->width = x->count / x->shape[0];
    tg_parallel_for(x->shape[0], 1 + TG_GRAIN / (s->width + 1), update_dense_rows, s);
}

static void sweep_rows(sweep *s, const tg_tensor *x, bool listed_only)
{
    const tg_gradient *gradient = x->gradient;
    s->gradient = gradient->values;
    s->width = x->shape[1];
    s->ids = gradient->ids;
    s->slot = gradient->slot;
    tg_parallel_for(listed_only ? gradient->count : x->shape[0], 1 + TG_GRAIN / (s->width + 1),
                    listed_only ? update_listed_rows : update_all_rows, s);
}

static void step_slot(tg_optim *optim, tg_slot *parameter)
{
    tg_tensor *x = parameter->tensor;
    const tg_gradient *gradient = x->gradient;
    if (!gradient || gradient->kind == TG_GRADIENT_NONE) {
        return;
    }
    const tg_group *g = &optim->groups[parameter->group];
    sweep s = {.kernel = optim->kernel, .size = optim->value_size, .theta = tg_values(x)};
    for (int k = 0; k < optim->states; k++) {
        s.state[k] = tg_values(parameter->state[k]);
    }
    s.frozen = tg_has_frozen_rows(x) ? gradient->rows.frozen : NULL;
    optim->method->prepare(&optim->config, g->lr, g->weight_decay, ++parameter->steps, s.factors);
    if (gradient->kind == TG_GRADIENT_DENSE) {
        sweep_dense(&s, x);
    } else {
        tg_unlisted unlisted = optim->method->unlisted;
        bool rests = optim->states == 0 || unlisted == TG_UNLISTED_REST;
        sweep_rows(&s, x, unlisted == TG_UNLISTED_ARE_LEFT || (rests && g->weight_decay == 0));
    }
    tg_rows_updated(x, parameter->steps);
    tg_touch(x);
    for (int k = 0; k < optim->states; k++) {
        tg_touch(parameter->state[k]);
    }
}

/* Values from `first` on begin as in a new buffer. */
static void begin_values(const tg_optim *optim, tg_tensor *state, int64_t first)
{
    for (int64_t i = first; i < state->count; i++) {
        char *place = (char *)tg_values(state) + (size_t)i * optim->value_size;
        tg_convert(place, (tg_dtype)state->dtype, &optim->initial, TG_F64, 1);
    }
}

/* After a resize of the parameter's table: buffers keep what belongs to rows that were there all the time. */
static bool follow_resize(tg_optim *optim, tg_slot *parameter)
{
    const tg_tensor *x = parameter->tensor;
    if (x->storage->born == parameter->seen) {
        return true;
    }
    int64_t rows = x->shape[0], kept = tg_least_rows_since(x, parameter->seen);
    kept = kept < parameter->rows ? kept : parameter->rows;
    for (int k = 0; k < optim->states; k++) {
        tg_error error = TG_NO_ERROR;
        if (!tg_resize_rows(parameter->state[k], rows, &error)) {
            return tg_error_set(&optim->error, error.code,
                                "optim_step: %s of '%s' cannot follow its table to %lld rows: %s",
                                optim->method->states[k], parameter->name, (long long)rows, error.text);
        }
    }
    for (int k = 0; k < optim->states; k++) {
        begin_values(optim, parameter->state[k], kept * (x->count / rows));
    }
    parameter->seen = x->storage->born;
    parameter->rows = rows;
    return true;
}

/* Whether the optimizer has all parameters that the params have. */
static bool is_complete(tg_optim *optim)
{
    for (; optim->entries < tg_params_count(optim->params); optim->entries++) {
        tg_entry entry = tg_params_at(optim->params, optim->entries);
        if (entry.kind == TG_ENTRY_PARAMETER) {
            return tg_error_set(&optim->error, TG_ERROR_STATE,
                                "optim_step: the parameter '%s' was added after the optimizer was made; make a new one",
                                entry.name);
        }
    }
    return true;
}

bool tg_optim_step(tg_optim *optim)
{
    if (!optim || optim->error.code != TG_OK || !is_complete(optim)) {
        return false;
    }
    for (int64_t i = 0; i < optim->count; i++) {
        if (!follow_resize(optim, &optim->slots[i])) {
            return false;
        }
    }
    for (int64_t i = 0; i < optim->count; i++) {
        step_slot(optim, &optim->slots[i]);
    }
    return true;
}

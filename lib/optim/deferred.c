/* deferred: steps of an optimizer for tables, with the time of the rows that a step uses.
 *
 * In a step in which a row has no gradient, momentum and weight decay move it, too, but in a way that is known in
 * advance. So a step visits the rows with a gradient, and adds its factors to a log. Every other row applies the steps
 * that it has missed when it is needed next, in one formula. The log and the formula are the method's
 * (tg_deferred_kind); here is what all methods share.
 *
 * Each step also applies the steps of the next rows of the table, in turn. So the log has a fixed size. Of narrow rows
 * these are ROWS_PER_STEP, because an entry of the log is as large as a few of them, and of wide rows as many as have
 * VALUES_PER_STEP values, which cost a step little. In a small table they are as many as bring each row its turn after
 * STEPS_TO_TURN steps.
 *
 * While rows have missed steps, the storages of the table and its moments have the guard that is here. It refuses
 * every call that reads or writes values (tests/lint/values lists these calls), except a recorded lookup
 * (tg_op.lookups): tg_apply has the guard apply the missed steps of the rows that the ids name, before the kernel
 * runs. So no read writes, and a forgotten flush is an error instead of an old value. Catching a row up does not bump
 * its version, because nothing recorded can have read it.
 */
#include "optim/deferred.h"

#include "base/alloc.h"
#include "base/parallel.h"
#include "base/text.h"

#define ROWS_PER_STEP 8
#define VALUES_PER_STEP 256
#define STEPS_TO_TURN 1024
#define PENDING_ROWS 1024

typedef struct pending_row {
    int32_t row;
    uint32_t age; /* the number of missed steps */
} pending_row;

struct tg_deferred {
    tg_value_guard guard; /* must be the first */
    const tg_deferred_kind *kind;
    tg_optim *optim;
    tg_slot *slot;
    void *log;
    int64_t rows, next_row; /* next_row: the row whose turn it is */
    int64_t rows_per_step;
    uint32_t *last; /* of each row: the number of the last step that it has made */
    uint32_t now;   /* the number of the last step, modulo 2^32; counts only steps in the log */
    pending_row pending[PENDING_ROWS];
};

/* ---- making up steps ---- */

static void make_up_row(const tg_deferred *d, const pending_row *pending, size_t bytes, int64_t width)
{
    size_t at = (size_t)pending->row * bytes;
    void *state[TG_OPTIM_STATES] = {NULL};
    for (int k = 0; k < d->optim->states; k++) {
        state[k] = (char *)tg_values(d->slot->state[k]) + at;
    }
    d->kind->make_up(d->log, d->now, pending->age, (char *)tg_values(d->slot->tensor) + at, state, width);
}

static void make_up_pending(void *context, int64_t begin, int64_t end)
{
    const tg_deferred *d = context;
    const tg_tensor *x = d->slot->tensor;
    const uint8_t *frozen = tg_has_frozen_rows(x) ? x->rows->frozen : NULL;
    int64_t width = x->shape[1];
    size_t bytes = (size_t)width * tg_size_of(x->dtype);
    for (int64_t i = begin; i < end; i++) {
        if (!frozen || !frozen[d->pending[i].row]) {
            make_up_row(d, &d->pending[i], bytes, width);
        }
    }
}

/* Applies the steps of the rows ids[0 .. count), or, if `ids` is NULL, of the rows first .. first + count - 1. Threads
 * divide the rows of a list without repetitions. */
static void make_up_rows(tg_deferred *d, const int32_t *ids, int64_t first, int64_t count)
{
    int64_t listed = 0, grain = 1 + TG_GRAIN / (d->slot->tensor->shape[1] + 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t row = ids ? ids[i] : first + i;
        if (d->last[row] != d->now) {
            d->pending[listed] = (pending_row){(int32_t)row, d->now - d->last[row]};
            listed++;
            d->last[row] = d->now;
        }
        if (listed == PENDING_ROWS || i == count - 1) {
            tg_parallel_for(listed, grain, make_up_pending, d);
            listed = 0;
        }
    }
}

/* ---- the guard of the table and of its moments ---- */

/* Of a lookup. The rows of a view or of a moment are not prepared. */
static bool prepare(tg_value_guard *guard, const tg_tensor *x, const int32_t *ids, int64_t count)
{
    tg_deferred *d = (tg_deferred *)guard;
    if (x != d->slot->tensor) {
        return false;
    }
    make_up_rows(d, ids, 0, count);
    return true;
}

static bool refuse(const tg_value_guard *guard, const char *call, const char *name, const tg_tensor *x, tg_error *error)
{
    (void)name;
    (void)x;
    const tg_deferred *d = (const tg_deferred *)guard;
    return tg_error_set(error, TG_ERROR_STATE,
                        "%s: rows of '%.*s' have deferred steps that are not made up; call tg_optim_flush first", call,
                        TG_CUT(d->slot->name, 200));
}

static void set_guard(const tg_deferred *d, tg_value_guard *guard)
{
    d->slot->tensor->storage->guard = guard;
    for (int k = 0; k < d->optim->states; k++) {
        d->slot->state[k]->storage->guard = guard;
    }
}

bool tg_deferred_is_behind(const tg_deferred *d)
{
    return d && d->slot->tensor->storage->guard == &d->guard;
}

void tg_deferred_flush(tg_deferred *d)
{
    if (tg_deferred_is_behind(d)) {
        make_up_rows(d, NULL, 0, d->rows);
        /* as in a new optimizer, so that a training that continues from here has the same bits */
        d->next_row = 0;
        set_guard(d, NULL);
    }
}

/* ---- steps ---- */

bool tg_deferred_accepts(const tg_deferred *d, const tg_optim_factors *factors)
{
    return d && d->kind->accepts(factors);
}

void tg_deferred_begin_step(tg_deferred *d, const int32_t *ids, int64_t count)
{
    if (tg_deferred_is_behind(d)) {
        make_up_rows(d, ids, 0, count);
    } else if (d->kind->begin) {
        d->kind->begin(d->log, d->now, d->slot->steps - 1);
    }
}

void tg_deferred_end_step(tg_deferred *d, const tg_optim_factors *factors, const int32_t *ids, int64_t count)
{
    d->now++;
    d->kind->add(d->log, d->now, d->slot->steps, factors);
    for (int64_t i = 0; i < count; i++) {
        d->last[ids[i]] = d->now;
    }
    int64_t turn = d->rows - d->next_row < d->rows_per_step ? d->rows - d->next_row : d->rows_per_step;
    make_up_rows(d, NULL, d->next_row, turn);
    d->next_row = d->next_row + turn < d->rows ? d->next_row + turn : 0;
    set_guard(d, &d->guard);
}

/* ---- constructor ---- */

bool tg_deferred_check_tables(tg_params *params, const char *method)
{
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind == TG_ENTRY_ALIAS && tg_tensor_rank(entry.tensor) == 2) {
            return tg_params_fail(params, TG_ERROR_STATE,
                                  "%s: deferred, but '%.*s' is tied to another name; a tied table is read as a whole "
                                  "in each step, so no step can be deferred",
                                  method, TG_CUT(entry.name, 200));
        }
    }
    return true;
}

/* Returns whether a parameter can have gradients by rows. */
static bool is_table(const tg_tensor *x)
{
    return x->rank == 2 && x->count > 0 && x->shape[0] <= INT32_MAX;
}

bool tg_deferred_new(tg_optim *optim, tg_slot *slot, const tg_deferred_kind *kind)
{
    if (!is_table(slot->tensor)) {
        return true;
    }
    tg_deferred *d = tg_alloc_zeroed(1, sizeof *d);
    if (!d) {
        return false;
    }
    d->guard = (tg_value_guard){refuse, prepare, optim->run};
    d->kind = kind;
    d->optim = optim;
    d->slot = slot;
    if (!tg_deferred_resize(d, slot->tensor->shape[0])) {
        tg_deferred_free(d);
        return false;
    }
    slot->deferred = d;
    return true;
}

void tg_deferred_clear_error(tg_deferred *d)
{
    if (d) {
        tg_run_clear_error_by(d->optim->run, &d->guard);
    }
}

void tg_deferred_free(tg_deferred *d)
{
    if (d) {
        tg_value_guard_end(&d->guard);
        d->kind->free_log(d->log);
        tg_free(d->last);
        tg_free(d);
    }
}

static int64_t rows_per_step_of(int64_t rows, int64_t width)
{
    int64_t wide = (VALUES_PER_STEP + width - 1) / width, small = rows / STEPS_TO_TURN + 1;
    int64_t count = wide < ROWS_PER_STEP ? wide : ROWS_PER_STEP;
    count = small < count ? small : count;
    /* with one row in a step, the log of more rows would have 2^32 entries */
    return rows < INT32_MAX / 2 || count > 1 ? count : 2;
}

bool tg_deferred_resize(tg_deferred *d, int64_t rows)
{
    if (rows == d->rows) {
        return true;
    }
    int64_t rows_per_step = rows_per_step_of(rows, d->slot->tensor->shape[1]);
    uint32_t capacity = 2;
    while (capacity < rows / rows_per_step + 2) {
        capacity *= 2;
    }
    uint32_t *last = tg_alloc((uint64_t)rows, sizeof *last);
    void *log = d->kind->new_log(d->optim, d->slot, capacity);
    if (!last || !log) {
        tg_free(last);
        d->kind->free_log(log);
        return false;
    }
    tg_free(d->last);
    d->kind->free_log(d->log);
    for (int64_t row = 0; row < rows; row++) {
        last[row] = d->now;
    }
    d->last = last;
    d->log = log;
    d->rows = rows;
    d->rows_per_step = rows_per_step;
    d->next_row = 0;
    return true;
}

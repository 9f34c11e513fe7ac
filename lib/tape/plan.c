/* plan: the first pass of backward. It finds the records on which the result depends, checks them, and decides where
 * the gradient of each of their inputs goes (tg_input_plan).
 *
 * The gradient of an intermediate result, its adjoint, is in a block of memory. A record is the last reader of the
 * adjoints of its outputs. So after it is planned, their blocks return to the pool, where the adjoint of an earlier
 * record may reuse them: a chain of any length needs the memory of a few adjoints. The second pass writes to these
 * blocks in the same order, and takes none from the pool, so nobody else gets them in between.
 *
 * If this pass fails, it is undone: no gradient has changed.
 *
 * Backward reads all inputs and outputs of a record, but those that the op ignores (backward_ignores_inputs). An op
 * that forgets to ignore one only refuses harmless changes in place. If ops declared what they read, an op that forgot
 * one would compute a wrong gradient.
 */
#include "base/alloc.h"
#include "tape/backward.h"
#include "tensor/gradient.h"

static bool matters(const tg_tape *t, const tg_record *record)
{
    for (int i = 0; i < record->output_count; i++) {
        if (tg_record_outputs(t, record)[i]->adjoint) {
            return true;
        }
    }
    return false;
}

/* ---- checks ---- */

/* Values that were dropped will be computed again. */
bool tg_check_versions(tg_tape *t, const char *call, const tg_record *record)
{
    const tg_op *op = record->op;
    if ((op->backward_ignores_inputs & op->backward_ignores_outputs) == TG_OP_ALL) {
        return true;
    }
    const tg_tensor_state *states = t->states + record->first_tensor;
    tg_tensor *const *tensors = t->tensors + record->first_tensor;
    for (int i = 0; i < record->input_count + record->output_count; i++) {
        bool output = i >= record->input_count;
        int number = output ? i - record->input_count : i;
        if (!tg_backward_ignores(record, i) && !tg_is_dropped(tensors[i]) &&
            tg_storage_version(tensors[i]) != states[i].version) {
            return tg_tape_fail(
                t, TG_ERROR_STATE, call,
                "%s %d of '%s' was changed in place after it was recorded (version %llu then, %llu now); "
                "change a copy, or change it after backward",
                output ? "output" : "input", number, op->name, (unsigned long long)states[i].version,
                (unsigned long long)tg_storage_version(tensors[i]));
        }
    }
    return true;
}

bool tg_check_unfreed(tg_tape *t, const char *call, const tg_record *record)
{
    return !record->freed ||
           tg_tape_fail(
               t, TG_ERROR_STATE, call,
               "an earlier backward has freed the record of '%s'; set retain_graph in every backward but the last",
               record->op->name);
}

static bool check_record(const tg_pass *pass, const tg_record *record)
{
    if (!record->kernels->backward) {
        bool f64 = record->kernels == tg_op_kernels_of(record->op, true);
        return tg_tape_fail(pass->tape, TG_ERROR_DTYPE, pass->call, "'%s' has no gradient for %s", record->op->name,
                            f64 ? "f64" : "f32");
    }
    return tg_check_unfreed(pass->tape, pass->call, record);
}

/* Returns whether two inputs are the same tensor. Then a kernel may not overwrite gradients: it would overwrite what it
 * has added for the other input. */
static bool has_duplicates(tg_tensor *const *inputs, int count)
{
    for (int i = 1; i < count; i++) {
        for (int k = 0; k < i; k++) {
            if (inputs[i] == inputs[k]) {
                return true;
            }
        }
    }
    return false;
}

/* ---- memory ---- */

/* Gives tensor x a new adjoint. Returns false when memory is exhausted. */
static bool take_adjoint(const tg_pass *pass, tg_tensor *x)
{
    void *block = tg_pool_take(pass->tape->pool, tg_bytes_of(x));
    if (block) {
        x->adjoint = block;
    }
    return block != NULL;
}

static inline void drop_adjoints(const tg_pass *pass, const tg_record *record)
{
    for (int i = 0; i < record->output_count; i++) {
        tg_tensor *y = tg_record_outputs(pass->tape, record)[i];
        tg_pool_give(pass->tape->pool, y->adjoint);
        y->adjoint = NULL;
    }
}

/* Returns whether input i, a leaf, may collect its gradient by rows: it has no dense contribution of an earlier
 * backward, nor of this record, if it is another input, too. */
static bool may_add_rows(const tg_pass *pass, const tg_record *record, int i)
{
    tg_tensor *const *inputs = tg_record_inputs(pass->tape, record), *leaf = inputs[i];
    if (!tg_has_bit(record->op->row_inputs, i) || leaf->rank != 2 || tg_tensor_grad_kind(leaf) == TG_GRAD_DENSE) {
        return false;
    }
    for (int k = 0; k < record->input_count; k++) {
        if (inputs[k] == leaf && !tg_has_bit(record->op->row_inputs, k)) {
            return false;
        }
    }
    return true;
}

/* Plan the gradient of input i. Return false when memory is exhausted. */

static bool plan_leaf(const tg_pass *pass, const tg_record *record, int i, tg_tensor *x, uint8_t *plan)
{
    /* the pass goes from last to first: the record that is planned last contributes last */
    x->last_use = 1 + (int32_t)(record - pass->tape->records);
    bool by_rows = may_add_rows(pass, record, i);
    *plan = by_rows ? TG_PLAN_ROWS : TG_PLAN_DENSE;
    return tg_gradient_plan(x, by_rows ? TG_GRAD_ROWS : TG_GRAD_DENSE, record->rows);
}

static bool plan_result(const tg_pass *pass, const tg_record *record, int i, tg_tensor *x, uint8_t *plan)
{
    *plan = x->adjoint ? TG_PLAN_ADD : TG_PLAN_NEW;
    if (!x->adjoint && !take_adjoint(pass, x)) {
        return false;
    }
    pass->tape->gradients[record->first_tensor + (size_t)i] = x->adjoint;
    return true;
}

/* Decides where the gradients of a record's inputs go. Returns false after an error, and when memory is exhausted; then
 * the caller sets the error. */
static bool plan_inputs(const tg_pass *pass, tg_record *record)
{
    tg_tape *t = pass->tape;
    tg_tensor *const *inputs = tg_record_inputs(t, record);
    const tg_tensor_state *states = t->states + record->first_tensor;
    void **gradients = t->gradients + record->first_tensor;
    uint8_t *plans = t->plans + record->first_tensor;
    record->overwrites = record->op->can_overwrite && !has_duplicates(inputs, record->input_count);
    for (int i = 0; i < record->input_count; i++) {
        tg_tensor *x = inputs[i];
        bool is_leaf = x->node < 0;
        gradients[i] = NULL;
        plans[i] = TG_PLAN_NONE;
        if (is_leaf && states[i].version < x->storage->first_version) {
            return tg_tape_fail(t, TG_ERROR_STATE, pass->call,
                                "input %d of '%s' was resized after it was recorded; run backward before the resize", i,
                                record->op->name);
        }
        if (states[i].requires_grad && x->requires_grad && tg_is_wanted(pass, x) &&
            !(is_leaf ? plan_leaf(pass, record, i, x, &plans[i]) : plan_result(pass, record, i, x, &plans[i]))) {
            return false;
        }
    }
    return true;
}

/* ---- the pass ---- */

/* Undoes a plan that failed. */
static void abandon(tg_pass *pass)
{
    tg_tape *t = pass->tape;
    tg_spans_plan_end(pass);
    for (int32_t k = pass->result->node; k >= 0; k--) {
        drop_adjoints(pass, &t->records[k]);
        for (int i = 0; i < t->records[k].input_count; i++) {
            tg_tensor *x = tg_record_inputs(t, &t->records[k])[i];
            tg_gradient_abandon_plan(x);
            x->last_use = 0;
        }
    }
    tg_pool_give(t->pool, pass->scratch);
}

/* Takes the memory of the whole pass. Returns false when memory is exhausted. */
static bool begin(tg_pass *pass)
{
    tg_tape *t = pass->tape;
    tg_tensor *y = pass->result;
    size_t largest = 0;
    for (int32_t k = y->node; k >= 0; k--) {
        if (t->records[k].scratch > largest) {
            largest = t->records[k].scratch;
        }
    }
    if (!tg_grow(&t->plans, &t->plan_capacity, 0, t->tensor_count, sizeof *t->plans) ||
        !tg_grow(&t->gradients, &t->gradient_capacity, 0, t->tensor_count, sizeof *t->gradients) ||
        !tg_grow(&t->gradient_modes, &t->mode_capacity, 0, t->tensor_count, sizeof *t->gradient_modes)) {
        return false;
    }
    pass->scratch = tg_pool_take(t->pool, largest);
    if (!pass->scratch || !take_adjoint(pass, y)) {
        tg_pool_give(t->pool, pass->scratch);
        return false;
    }
    pass->first = y->adjoint;
    return true;
}

bool tg_plan_backward(tg_pass *pass)
{
    tg_tape *t = pass->tape;
    if (!begin(pass)) {
        return tg_tape_fail(t, TG_ERROR_MEMORY, pass->call, "out of memory");
    }
    for (int32_t k = pass->result->node; k >= 0; k--) {
        tg_record *record = &t->records[k];
        record->planned = matters(t, record);
        if (!record->planned) {
            continue;
        }
        /* the versions come last, because a record may read the gradient of a leaf to which it contributes */
        if ((t->spans.count > 0 && !tg_spans_plan(pass, k)) || !check_record(pass, record) ||
            !plan_inputs(pass, record) || !tg_check_versions(t, pass->call, record)) {
            /* a more precise error stays, because it is the first */
            tg_tape_fail(t, TG_ERROR_MEMORY, pass->call, "out of memory for the gradients of '%s'", record->op->name);
            abandon(pass);
            return false;
        }
        drop_adjoints(pass, record);
    }
    tg_spans_plan_end(pass);
    return true;
}

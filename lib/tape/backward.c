/* backward: reverse-mode differentiation, in two passes over the records from last to first.
 *
 * The first pass plans. It finds the records on which the result depends, checks them, and assigns a block of memory to
 * the gradient of every intermediate result (its adjoint). A record is the last reader of the adjoints of its outputs.
 * So after it is planned, their blocks return to the pool, where the adjoint of an earlier record may reuse them: a
 * chain of any length needs the memory of a few adjoints. If this pass fails, it is undone: no gradient has changed.
 *
 * The second pass runs the kernels in the same order on the planned blocks. It cannot fail.
 *
 * Invariants. A record is planned if one of its outputs has an adjoint. An adjoint is contiguous, has its tensor's
 * shape, is complete when the record that computed the tensor runs, and is NULL outside of backward. With
 * `overwrite_adjoint` it is uninitialized: the first record that contributes to it sets it to zero or overwrites it.
 *
 * As in PyTorch, the state at recording counts: an input gets a gradient if it required one when the call was recorded.
 * Exception: a leaf for which requires_grad was turned off since then gets none.
 */
#include <string.h>

#include "base/alloc.h"
#include "tape/tape.h"

static bool matters(const tg_tape *t, const tg_record *record)
{
    for (int i = 0; i < record->output_count; i++) {
        if (tg_record_outputs(t, record)[i]->adjoint) {
            return true;
        }
    }
    return false;
}

static const tg_op_kernels *kernels_of(const tg_record *record)
{
    return tg_op_kernels_of(record->op, record->f64);
}

static bool bit(uint32_t bits, int i)
{
    return bits >> (i < 31 ? i : 31) & 1;
}

/* Returns whether input i gets a gradient. */
static bool is_needed(const tg_tape *t, const tg_record *record, int i)
{
    size_t tensor = record->first_tensor + (size_t)i;
    return t->states[tensor].requires_grad && t->tensors[tensor]->requires_grad;
}

/* ---- the first pass ---- */

/* Checks that no value that backward reads was modified after forward (tg_op.backward_ignores_inputs). */
static bool check_versions(tg_tape *t, const tg_record *record)
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
        bool ignored = bit(output ? op->backward_ignores_outputs : op->backward_ignores_inputs, number);
        if (!ignored && tg_storage_version(tensors[i]) != states[i].version) {
            return tg_tape_fail(
                t, TG_ERROR_STATE, "backward",
                "%s %d of '%s' was changed in place after it was recorded (version %llu then, %llu now); "
                "change a copy, or change it after backward",
                output ? "output" : "input", number, op->name, (unsigned long long)states[i].version,
                (unsigned long long)tg_storage_version(tensors[i]));
        }
    }
    return true;
}

static bool check_record(tg_tape *t, const tg_record *record)
{
    if (record->freed) {
        return tg_tape_fail(
            t, TG_ERROR_STATE, "backward",
            "an earlier backward has freed the record of '%s'; set retain_graph in every backward but the last",
            record->op->name);
    }
    if (!kernels_of(record)->backward) {
        return tg_tape_fail(t, TG_ERROR_DTYPE, "backward", "'%s' has no gradient for %s", record->op->name,
                            record->f64 ? "f64" : "f32");
    }
    return check_versions(t, record);
}

/* Returns whether input i collects its gradient by rows, which it does until a dense contribution arrives. */
static bool wants_rows(const tg_tape *t, const tg_record *record, int i)
{
    const tg_tensor *x = tg_record_inputs(t, record)[i];
    return bit(record->op->row_inputs, i) && x->node < 0 && x->rank == 2 && tg_tensor_grad_kind(x) != TG_GRAD_DENSE;
}

/* Assigns memory to the gradients of a record's inputs. Returns false after an error, and when memory is exhausted;
 * then the caller sets the error. */
static bool plan_inputs(tg_tape *t, const tg_record *record)
{
    size_t count = (size_t)record->input_count;
    if (!tg_grow((void **)&t->input_gradients, &t->gradient_capacity, 0, count, sizeof *t->input_gradients) ||
        !tg_grow((void **)&t->overwrite, &t->overwrite_capacity, 0, count, sizeof *t->overwrite)) {
        return false;
    }
    tg_tensor *const *inputs = tg_record_inputs(t, record);
    for (int i = 0; i < record->input_count; i++) {
        tg_tensor *x = inputs[i];
        if (x->node < 0 && t->states[record->first_tensor + (size_t)i].version < x->storage->first_version) {
            return tg_tape_fail(t, TG_ERROR_STATE, "backward",
                                "input %d of '%s' was resized after it was recorded; run backward before the resize", i,
                                record->op->name);
        }
        if (!is_needed(t, record, i)) {
            continue;
        }
        if (x->node < 0) {
            /* the pass goes from last to first: the record that is planned last contributes last */
            x->last_use = (int32_t)(record - t->records);
            if (wants_rows(t, record, i) ? !tg_gradient_reserve_rows(x, record->rows) : !tg_gradient_reserve_dense(x)) {
                return false;
            }
        } else if (!x->adjoint) {
            x->adjoint = tg_pool_take(t->pool, tg_bytes_of(x));
            x->overwrite_adjoint = true;
            if (!x->adjoint) {
                return false;
            }
        }
    }
    return true;
}

static void give_adjoints(tg_tape *t, const tg_record *record)
{
    for (int i = 0; i < record->output_count; i++) {
        tg_pool_give(t->pool, tg_record_outputs(t, record)[i]->adjoint);
    }
}

static void clear_adjoints(tg_tape *t, const tg_record *record)
{
    for (int i = 0; i < record->output_count; i++) {
        tg_record_outputs(t, record)[i]->adjoint = NULL;
    }
    for (int i = 0; record->rows > 0 && i < record->input_count; i++) {
        tg_gradient_end_reservations(tg_record_inputs(t, record)[i]);
    }
}

/* Undoes a plan that failed at record `at`. The blocks of later records were already returned to the pool. */
static void abandon(tg_tape *t, int32_t last, int32_t at)
{
    for (int32_t k = last; k >= 0; k--) {
        if (k <= at) {
            give_adjoints(t, &t->records[k]);
        }
        clear_adjoints(t, &t->records[k]);
    }
}

static bool plan(tg_tape *t, tg_tensor *y, void **scratch)
{
    size_t largest = 0;
    int32_t last = y->node;
    for (int32_t k = last; k >= 0; k--) {
        if (t->records[k].backward_scratch > largest) {
            largest = t->records[k].backward_scratch;
        }
    }
    *scratch = tg_pool_take(t->pool, largest);
    y->adjoint = *scratch ? tg_pool_take(t->pool, tg_bytes_of(y)) : NULL;
    if (!y->adjoint) {
        tg_pool_give(t->pool, *scratch);
        return tg_tape_fail(t, TG_ERROR_MEMORY, "backward", "out of memory");
    }
    for (int32_t k = last; k >= 0; k--) {
        tg_record *record = &t->records[k];
        record->planned = matters(t, record);
        if (!record->planned) {
            continue;
        }
        if (!check_record(t, record) || !plan_inputs(t, record)) {
            tg_tape_fail(t, TG_ERROR_MEMORY, "backward", "out of memory for the gradients of '%s'", record->op->name);
            abandon(t, last, k);
            tg_pool_give(t->pool, *scratch);
            return false;
        }
        give_adjoints(t, record);
    }
    return true;
}

/* ---- the second pass ---- */

/* Returns whether two inputs are the same tensor. Then a kernel may not overwrite gradients: it would overwrite what it
 * has added for the other input. */
static bool has_duplicates(tg_tensor *const *inputs, int count)
{
    if (count == 2) {
        return inputs[0] == inputs[1];
    }
    for (int i = 1; i < count; i++) {
        for (int k = 0; k < i; k++) {
            if (inputs[i] == inputs[k]) {
                return true;
            }
        }
    }
    return false;
}

/* The work that is left for a record. */
typedef struct work {
    bool any;    /* whether an input needs a gradient */
    bool frozen; /* whether one of these inputs is a leaf with frozen rows */
} work;

/* For AddressSanitizer: the plan returned the blocks of adjoints to the pool, so only the adjoints that are in use now
 * may be accessed. */
static void begin_adjoint(const tg_tensor *x)
{
    tg_unpoison(x->adjoint, tg_bytes_of(x));
}

static void end_adjoints(const tg_tape *t, const tg_record *record)
{
    for (int i = 0; TG_HAS_POISON && i < record->output_count; i++) {
        const tg_tensor *y = tg_record_outputs(t, record)[i];
        if (y->adjoint) {
            tg_poison(y->adjoint, tg_bytes_of(y));
        }
    }
}

/* Sets the addresses of the gradients of the inputs, for the kernel. */
static work prepare_inputs(tg_tape *t, const tg_record *record)
{
    tg_tensor *const *inputs = tg_record_inputs(t, record);
    bool may_overwrite = record->op->can_overwrite && !has_duplicates(inputs, record->input_count);
    work found = {false, false};
    for (int i = 0; i < record->input_count; i++) {
        tg_tensor *x = inputs[i];
        t->input_gradients[i] = NULL;
        t->overwrite[i] = false;
        if (!is_needed(t, record, i)) {
            continue;
        }
        found.any = true;
        if (x->node >= 0) {
            if (x->overwrite_adjoint) {
                begin_adjoint(x);
            }
            t->overwrite[i] = may_overwrite && x->overwrite_adjoint;
            if (x->overwrite_adjoint && !may_overwrite) {
                memset(x->adjoint, 0, tg_bytes_of(x));
            }
            x->overwrite_adjoint = false;
            t->input_gradients[i] = x->adjoint;
            continue;
        }
        found.frozen |= tg_has_frozen_rows(x);
        if (wants_rows(t, record, i)) {
            t->overwrite[i] = true; /* and no address: tg_op_grad_rows returns it */
        } else {
            t->overwrite[i] = tg_gradient_make_dense(x, may_overwrite);
            t->input_gradients[i] = tg_values(x->gradient->dense);
        }
    }
    return found;
}

static void add_into(tg_tensor *sum, const void *more)
{
    for (int64_t i = 0; i < sum->count; i++) {
        if (sum->dtype == TG_F32) {
            ((float *)tg_values(sum))[i] += ((const float *)more)[i];
        } else {
            ((double *)tg_values(sum))[i] += ((const double *)more)[i];
        }
    }
}

/* Adds an adjoint to the gradient of a leaf, or of a result for which tg_retain_grad was called. */
static void keep_gradient(tg_tensor *x, const void *adjoint)
{
    if (tg_gradient_make_dense(x, true)) {
        memcpy(tg_values(x->gradient->dense), adjoint, tg_bytes_of(x));
    } else {
        add_into(x->gradient->dense, adjoint);
    }
}

/* Sets the uninitialized gradients of the inputs to zero. A gradient by rows has no address, and no rows. */
static void zero_gradients(const tg_op_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        if (call->overwrite[i] && call->input_gradients[i]) {
            memset(call->input_gradients[i], 0, tg_bytes_of(call->inputs[i]));
        }
    }
}

static void run_record(tg_tape *t, tg_record *record, void *scratch)
{
    work found = prepare_inputs(t, record);
    /* Set field by field: zeroing the unused outputs would take as long as a small kernel. */
    tg_op_call call;
    call.op = record->op;
    call.tape = t;
    call.input_count = record->input_count;
    call.output_count = record->output_count;
    call.inputs = tg_record_inputs(t, record);
    call.attributes = record->attributes == SIZE_MAX ? NULL : t->attributes + record->attributes;
    call.saved = record->saved;
    call.scratch = scratch;
    call.rng = t->rng;
    call.training = record->training;
    call.input_gradients = t->input_gradients;
    call.overwrite = t->overwrite;
    call.declaration = NULL;
    for (int i = 0; i < record->output_count; i++) {
        tg_tensor *y = tg_record_outputs(t, record)[i];
        call.outputs[i] = y;
        call.output_gradients[i] = y->adjoint;
        if (y->gradient && y->adjoint) {
            keep_gradient(y, y->adjoint);
        }
    }
    if (found.any && tg_op_is_empty(&call)) {
        zero_gradients(&call);
    } else if (found.any) {
        double begin = t->timer ? tg_clock() : 0;
        kernels_of(record)->backward(&call);
        if (t->timer) {
            t->timer(t->timer_context, &call, true, tg_clock() - begin);
        }
    }
    for (int i = 0; found.frozen && i < record->input_count; i++) {
        tg_gradient_drop_frozen(call.inputs[i]);
    }
    end_adjoints(t, record);
    clear_adjoints(t, record);
}

/* Writes the gradient that the pass starts from: the given one, or 1. */
static void write_first_adjoint(const tg_tensor *y, const tg_tensor *gradient, void *adjoint)
{
    if (gradient) {
        tg_copy_to_contiguous(gradient, adjoint);
    } else {
        double one = 1;
        tg_convert(adjoint, tg_dtype_of(y), &one, TG_F64, 1);
    }
}

/* Calls the function of the config for each leaf to whose gradient record k has contributed last. */
static void announce(const tg_tape *t, int32_t k, const tg_backward_config *config)
{
    const tg_record *record = &t->records[k];
    for (int i = 0; config->on_gradient && i < record->input_count; i++) {
        tg_tensor *x = tg_record_inputs(t, record)[i];
        if (x->node < 0 && is_needed(t, record, i) && x->last_use == k) {
            x->last_use = -1; /* the leaf may be another input, too */
            config->on_gradient(config->context, x);
        }
    }
}

static void run(tg_tape *t, tg_tensor *y, void *scratch, const tg_backward_config *config)
{
    y->overwrite_adjoint = false;
    begin_adjoint(y);
    write_first_adjoint(y, config->gradient, y->adjoint);
    for (int32_t k = y->node; k >= 0; k--) {
        tg_record *record = &t->records[k];
        if (!record->planned) {
            continue;
        }
        run_record(t, record, scratch);
        announce(t, k, config);
        if (!config->retain_graph) {
            tg_pool_give(t->pool, record->saved);
            record->saved = NULL;
            record->freed = true;
        }
    }
}

/* ---- public ---- */

static const char mark[] = "tg_backward_config_default";

tg_backward_config tg_backward_config_default(void)
{
    return (tg_backward_config){.mark = mark};
}

static bool check_result(tg_tape *t, const tg_tensor *y, const tg_tensor *gradient)
{
    char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
    if (!tg_tape_expect_tensor(t, "backward", "result", y) ||
        (gradient && !tg_tape_expect_tensor(t, "backward", "gradient", gradient))) {
        return false;
    }
    if (!y->requires_grad || (y->node >= 0 && y->tape != t)) {
        return tg_tape_fail(t, TG_ERROR_STATE, "backward",
                            y->requires_grad
                                ? "the result was recorded on another tape"
                                : "the result does not require a gradient: recording was off, no input required "
                                  "one, or it is a mask or an index");
    }
    if (!gradient && y->count != 1) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "backward",
                            "the result has shape %s; it must have one value, unless config.gradient is set",
                            tg_shape_format(tg_shape_of(y), a));
    }
    if (gradient && gradient->dtype != y->dtype) {
        return tg_tape_fail(t, TG_ERROR_DTYPE, "backward", "the gradient is %s, and the result %s",
                            tg_dtype_name(tg_dtype_of(gradient)), tg_dtype_name(tg_dtype_of(y)));
    }
    return !gradient || tg_same_shape(gradient, y) ||
           tg_tape_fail(t, TG_ERROR_SHAPE, "backward", "the gradient has shape %s, and the result %s",
                        tg_shape_format(tg_shape_of(gradient), a), tg_shape_format(tg_shape_of(y), b));
}

/* Backward of a result that is itself a leaf: adds the gradient that the pass starts from. */
static bool backward_of_leaf(tg_tape *t, tg_tensor *leaf, const tg_tensor *gradient)
{
    void *adjoint = tg_pool_take(t->pool, tg_bytes_of(leaf));
    bool reserved = adjoint && tg_gradient_reserve_dense(leaf);
    if (reserved) {
        write_first_adjoint(leaf, gradient, adjoint);
        keep_gradient(leaf, adjoint);
        tg_gradient_drop_frozen(leaf);
    }
    tg_pool_give(t->pool, adjoint);
    return reserved || tg_tape_fail(t, TG_ERROR_MEMORY, "backward", "out of memory");
}

bool tg_backward(tg_tape *t, tg_tensor *y, const tg_backward_config *given)
{
    tg_backward_config config = given ? *given : tg_backward_config_default();
    if (!tg_tape_expect_config(t, "backward", given, mark) || !check_result(t, y, config.gradient)) {
        return false;
    }
    if (y->node < 0) {
        bool added = backward_of_leaf(t, y, config.gradient);
        if (added && config.on_gradient) {
            config.on_gradient(config.context, y);
        }
        return added;
    }
    void *scratch;
    /* The second pass uses blocks that the plan returns to the pool. */
    tg_pool_hold(t->pool, true);
    bool planned = plan(t, y, &scratch);
    if (planned) {
        run(t, y, scratch, &config);
        tg_pool_give(t->pool, scratch);
    }
    tg_pool_hold(t->pool, false);
    return planned;
}

bool tg_retain_grad(tg_tape *t, tg_tensor *x)
{
    if (!tg_tape_expect_tensor(t, "retain_grad", "tensor", x)) {
        return false;
    }
    if (!tg_tape_recorded(t, x) || !x->requires_grad) {
        return tg_tape_fail(t, TG_ERROR_STATE, "retain_grad", "the tensor was not recorded on this tape");
    }
    return tg_gradient_reserve_dense(x) || tg_tape_fail(t, TG_ERROR_MEMORY, "retain_grad", "out of memory");
}

void *tg_op_grad_rows(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int32_t *slots)
{
    tg_tensor *leaf = call && input >= 0 && input < call->input_count ? call->inputs[input] : NULL;
    if (!leaf || !ids || !slots || (!call->input_gradients[input] && !call->overwrite[input])) {
        return NULL;
    }
    if (call->input_gradients[input]) {
        if (count > 0) {
            memcpy(slots, ids, (size_t)count * sizeof *slots);
        }
        return call->input_gradients[input];
    }
    for (int64_t i = 0; i < count; i++) {
        slots[i] = (int32_t)tg_gradient_row(leaf, ids[i]);
    }
    return leaf->gradient->values;
}

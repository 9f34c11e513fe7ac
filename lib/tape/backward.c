/* backward: one loop over the records, last to first, in two passes.
 *
 * The first pass plans: it finds which records matter, checks them, and gives every intermediate gradient (an
 * adjoint) a block of memory. When the last user of an adjoint has been planned, its block goes back into the pool,
 * where an adjoint further down takes it up again; so a chain of any length needs the memory of a few links. All of
 * this can fail, and is undone then: no gradient has changed.
 *
 * The second pass runs the kernels in the same order over the blocks that were planned, and cannot fail.
 *
 * Invariants. A record matters when one of its outputs has an adjoint. An adjoint is contiguous, in its tensor's shape,
 * complete when its producer's turn comes, and NULL outside of a backward. `adjoint_fresh` says that it holds no values
 * yet: the first record that contributes zeroes it, or is told to overwrite it.
 */
#include <string.h>

#include "tape/tape.h"

/* Asked once, by the plan: until the run it stays. */
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
    return record->f64 ? &record->op->f64 : &record->op->f32;
}

static bool bit(uint32_t bits, int i)
{
    return bits != 0 && (bits >> (i < 31 ? i : 31) & 1);
}

/* ---- the first pass ---- */

/* What an op saved must be what it saw: see tg_op.backward_reads_inputs. */
static bool check_versions(tg_tape *t, const tg_record *record)
{
    if (!(record->op->backward_reads_inputs | record->op->backward_reads_outputs)) {
        return true;
    }
    const uint64_t *versions = t->versions + record->first_tensor;
    tg_tensor *const *tensors = t->tensors + record->first_tensor;
    for (int i = 0; i < record->input_count + record->output_count; i++) {
        bool output = i >= record->input_count;
        int number = output ? i - record->input_count : i;
        bool read = bit(output ? record->op->backward_reads_outputs : record->op->backward_reads_inputs, number);
        if (read && tg_version_of(tensors[i]) != versions[i]) {
            tg_tape_fail(t, TG_ERROR_STATE, "backward",
                         "%s %d of '%s' was changed in place after it was recorded (version %llu then, %llu now)",
                         output ? "output" : "input", number, record->op->name, (unsigned long long)versions[i],
                         (unsigned long long)tg_version_of(tensors[i]));
            return false;
        }
    }
    return true;
}

static bool check_record(tg_tape *t, const tg_record *record)
{
    if (record->freed) {
        tg_tape_fail(t, TG_ERROR_STATE, "backward",
                     "the record of '%s' was freed by an earlier backward; use tg_backward_keep for all but the last",
                     record->op->name);
        return false;
    }
    if (!kernels_of(record)->backward) {
        tg_tape_fail(t, TG_ERROR_DTYPE, "backward", "'%s' has no gradient for %s", record->op->name,
                     record->f64 ? "f64" : "f32");
        return false;
    }
    return check_versions(t, record);
}

/* The gradient of input i is collected as rows while nothing has made it dense. */
static bool wants_rows(const tg_tape *t, const tg_record *record, int i)
{
    const tg_tensor *x = tg_record_inputs(t, record)[i];
    return bit(record->op->row_inputs, i) && x->node < 0 && x->rank == 2 && tg_gradient_kind_of(x) != TG_GRADIENT_DENSE;
}

/* False after an error, or when out of memory. */
static bool plan_inputs(tg_tape *t, const tg_record *record)
{
    size_t count = (size_t)record->input_count;
    if (!tg_grow((void **)&t->input_gradients, &t->gradient_capacity, 0, count, sizeof *t->input_gradients) ||
        !tg_grow((void **)&t->fresh, &t->fresh_capacity, 0, count, sizeof *t->fresh)) {
        return false;
    }
    tg_tensor *const *inputs = tg_record_inputs(t, record);
    for (int i = 0; i < record->input_count; i++) {
        tg_tensor *x = inputs[i];
        if (x->node < 0 && t->versions[record->first_tensor + (size_t)i] < x->storage->born) {
            tg_tape_fail(t, TG_ERROR_STATE, "backward", "input %d of '%s' was resized after it was recorded", i,
                         record->op->name);
            return false;
        }
        if (!x->requires_grad) {
            continue;
        }
        if (x->node < 0) {
            if (wants_rows(t, record, i) ? !tg_gradient_reserve_rows(x, record->rows) : !tg_gradient_reserve_dense(x)) {
                return false;
            }
        } else if (!x->adjoint) {
            x->adjoint = tg_pool_take(t->pool, tg_bytes_of(x));
            x->adjoint_fresh = true;
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

static void forget_adjoints(tg_tape *t, const tg_record *record)
{
    for (int i = 0; i < record->output_count; i++) {
        tg_record_outputs(t, record)[i]->adjoint = NULL;
    }
    for (int i = 0; record->rows > 0 && i < record->input_count; i++) {
        tg_gradient_end_promises(tg_record_inputs(t, record)[i]);
    }
}

/* Undoes a plan that failed at record `at`: blocks of the records above it are in the pool already. */
static void abandon(tg_tape *t, int32_t last, int32_t at)
{
    for (int32_t k = last; k >= 0; k--) {
        if (k <= at) {
            give_adjoints(t, &t->records[k]);
        }
        forget_adjoints(t, &t->records[k]);
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
        tg_tape_fail(t, TG_ERROR_MEMORY, "backward", "out of memory");
        return false;
    }
    for (int32_t k = last; k >= 0; k--) {
        tg_record *record = &t->records[k];
        record->planned = matters(t, record);
        if (!record->planned) {
            continue;
        }
        if (!check_record(t, record) || !plan_inputs(t, record)) {
            if (t->error.code == TG_OK) {
                tg_tape_fail(t, TG_ERROR_MEMORY, "backward", "out of memory for the gradients of '%s'",
                             record->op->name);
            }
            abandon(t, last, k);
            tg_pool_give(t->pool, *scratch);
            return false;
        }
        give_adjoints(t, record);
    }
    return true;
}

/* ---- the second pass ---- */

/* A kernel that writes one input's gradient and then adds another's must not meet the same gradient twice. */
static bool has_duplicates(tg_tensor *const *inputs, int count)
{
    if (count == 2) { /* what most ops have */
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

/* Says where the gradients of the inputs are. True when one is a leaf with frozen rows. */
static bool prepare_inputs(tg_tape *t, const tg_record *record)
{
    tg_tensor *const *inputs = tg_record_inputs(t, record);
    bool overwrites = record->op->overwrites_fresh && !has_duplicates(inputs, record->input_count), frozen = false;
    for (int i = 0; i < record->input_count; i++) {
        tg_tensor *x = inputs[i];
        t->input_gradients[i] = NULL;
        t->fresh[i] = false;
        if (!x->requires_grad) {
            continue;
        }
        if (x->node >= 0) {
            t->fresh[i] = overwrites && x->adjoint_fresh;
            if (x->adjoint_fresh && !overwrites) {
                memset(x->adjoint, 0, tg_bytes_of(x));
            }
            x->adjoint_fresh = false;
            t->input_gradients[i] = x->adjoint;
            continue;
        }
        frozen |= tg_has_frozen_rows(x);
        if (!wants_rows(t, record, i)) {
            t->fresh[i] = overwrites;
            tg_gradient_make_dense(x, &t->fresh[i]);
            t->input_gradients[i] = tg_values(x->gradient->dense);
        }
    }
    return frozen;
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

/* For outputs of which tg_keep_grad asked that the gradient be kept. */
static void keep_gradients(const tg_op_call *call)
{
    for (int i = 0; i < call->output_count; i++) {
        tg_tensor *y = call->outputs[i];
        if (y->gradient && y->adjoint) {
            bool fresh = true;
            tg_gradient_make_dense(y, &fresh);
            if (fresh) {
                memcpy(tg_values(y->gradient->dense), y->adjoint, tg_bytes_of(y));
            } else {
                add_into(y->gradient->dense, y->adjoint);
            }
        }
    }
}

static void run_record(tg_tape *t, tg_record *record, void *scratch)
{
    bool frozen = prepare_inputs(t, record);
    tg_op_call call; /* field by field: zeros for outputs that are not there would cost as much as a small kernel */
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
    call.fresh = t->fresh;
    for (int i = 0; i < record->output_count; i++) {
        call.outputs[i] = tg_record_outputs(t, record)[i];
        call.output_gradients[i] = call.outputs[i]->adjoint;
    }
    keep_gradients(&call);
    kernels_of(record)->backward(&call);
    for (int i = 0; frozen && i < record->input_count; i++) {
        tg_gradient_drop_frozen(call.inputs[i]);
    }
    forget_adjoints(t, record);
}

static void seed_adjoint(tg_tensor *y, const tg_tensor *seed)
{
    y->adjoint_fresh = false;
    if (seed) {
        tg_copy_to_contiguous(seed, y->adjoint);
    } else {
        double one = 1;
        tg_convert(y->adjoint, (tg_dtype)y->dtype, &one, TG_F64, 1);
    }
}

static void run(tg_tape *t, tg_tensor *y, const tg_tensor *seed, void *scratch, bool keep)
{
    seed_adjoint(y, seed);
    for (int32_t k = y->node; k >= 0; k--) {
        tg_record *record = &t->records[k];
        if (!record->planned) {
            continue;
        }
        run_record(t, record, scratch);
        if (!keep) {
            tg_pool_give(t->pool, record->saved);
            record->saved = NULL;
            record->freed = true;
        }
    }
}

/* ---- public ---- */

static bool check_root(tg_tape *t, const tg_tensor *y, const tg_tensor *seed, bool seeded)
{
    char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
    if (!y || (seeded && !seed)) {
        tg_tape_fail(t, TG_ERROR_STATE, "backward", "the %s is NULL", y ? "seed" : "loss");
    } else if (!tg_tape_recorded(t, y)) {
        tg_tape_fail(t, TG_ERROR_STATE, "backward",
                     "the loss was not recorded on this tape: recording was off, or no input required a gradient");
    } else if (!y->requires_grad) {
        tg_tape_fail(t, TG_ERROR_DTYPE, "backward", "the loss is %s; it must be f32 or f64",
                     tg_dtype_name((tg_dtype)y->dtype));
    } else if (!seeded && y->count != 1) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "backward", "the loss has shape %s; it must have one value, or a seed gradient",
                     tg_shape_format(tg_shape_of(y), a));
    } else if (seeded && seed->dtype != y->dtype) {
        tg_tape_fail(t, TG_ERROR_DTYPE, "backward", "the seed is %s, the result %s",
                     tg_dtype_name((tg_dtype)seed->dtype), tg_dtype_name((tg_dtype)y->dtype));
    } else if (seeded && !tg_shape_equal(tg_shape_of(seed), tg_shape_of(y))) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "backward", "the seed has shape %s, the result %s",
                     tg_shape_format(tg_shape_of(seed), a), tg_shape_format(tg_shape_of(y), b));
    } else {
        return true;
    }
    return false;
}

static bool backward(tg_tape *t, tg_tensor *y, const tg_tensor *seed, bool seeded, bool keep)
{
    if (!t || t->error.code != TG_OK || !check_root(t, y, seed, seeded)) {
        return false;
    }
    void *scratch;
    tg_pool_hold(t->pool, true); /* blocks that the plan gives back are still to be written by the run */
    bool planned = plan(t, y, &scratch);
    if (planned) {
        run(t, y, seed, scratch, keep);
        tg_pool_give(t->pool, scratch);
    }
    tg_pool_hold(t->pool, false);
    return planned;
}

bool tg_backward(tg_tape *t, tg_tensor *loss)
{
    return backward(t, loss, NULL, false, false);
}

bool tg_backward_keep(tg_tape *t, tg_tensor *loss)
{
    return backward(t, loss, NULL, false, true);
}

bool tg_backward_seed(tg_tape *t, tg_tensor *y, const tg_tensor *seed)
{
    return backward(t, y, seed, true, false);
}

bool tg_backward_seed_keep(tg_tape *t, tg_tensor *y, const tg_tensor *seed)
{
    return backward(t, y, seed, true, true);
}

bool tg_keep_grad(tg_tape *t, tg_tensor *x)
{
    if (!t || t->error.code != TG_OK) {
        return false;
    }
    if (!x || !tg_tape_recorded(t, x) || !x->requires_grad) {
        tg_tape_fail(t, TG_ERROR_STATE, "keep_grad", "the tensor %s", x ? "was not recorded on this tape" : "is NULL");
        return false;
    }
    if (!tg_gradient_reserve_dense(x)) {
        tg_tape_fail(t, TG_ERROR_MEMORY, "keep_grad", "out of memory");
        return false;
    }
    return true;
}

void *tg_op_gradient_rows(const tg_op_call *call, int input, const int32_t *ids, int64_t count, int32_t *places)
{
    tg_tensor *leaf = call->inputs[input];
    if (!leaf->requires_grad) {
        return NULL;
    }
    if (call->input_gradients[input]) {
        if (count > 0) {
            memcpy(places, ids, (size_t)count * sizeof *places);
        }
        return call->input_gradients[input];
    }
    for (int64_t i = 0; i < count; i++) {
        places[i] = (int32_t)tg_gradient_row(leaf, ids[i]);
    }
    return leaf->gradient->values;
}

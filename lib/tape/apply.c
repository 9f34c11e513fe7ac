/* apply: one call of an op, from the check of its inputs to its record.
 *
 * Everything that can fail comes before the forward kernel, and whatever was reserved until then is given back on the
 * way out: so a failed call leaves the tape, the generator and every tensor as they were. (A contiguous copy that was
 * made for the call may stay behind as one more result; it changes nothing.)
 */
#include <string.h>

#include "tape/tape.h"

/* What the shape rule declares: the call that the op sees, and behind it what only apply sees. */
typedef struct pending_call {
    tg_op_call call;
    struct {
        tg_dtype dtype;
        tg_shape shape;
        const tg_tensor *like; /* the shape is this one's; NULL: it is `shape` */
        tg_tensor *viewed;     /* NULL: storage of its own */
        int64_t offset;
        int64_t strides[TG_MAX_RANK];
    } outputs[TG_OP_MAX_OUTPUTS];
    size_t saved, scratch, backward_scratch;
    int64_t rows;
} pending_call;

/* ---- what shape rules call ---- */

bool tg_op_expect_rank(tg_op_call *call, int input, int rank)
{
    const tg_tensor *x = call->inputs[input];
    char text[TG_SHAPE_TEXT];
    return x->rank == rank || tg_op_fail(call, TG_ERROR_SHAPE, "input %d has shape %s; it must have rank %d", input,
                                         tg_shape_format(tg_shape_of(x), text), rank);
}

bool tg_op_expect_dtype(tg_op_call *call, int input, tg_dtype dtype)
{
    tg_dtype found = tg_dtype_of(call->inputs[input]);
    return found == dtype || tg_op_fail(call, TG_ERROR_DTYPE, "input %d is %s; it must be %s (tg_cast converts)", input,
                                        tg_dtype_name(found), tg_dtype_name(dtype));
}

bool tg_op_expect_float(tg_op_call *call, int input)
{
    tg_dtype found = tg_dtype_of(call->inputs[input]);
    return tg_dtype_is_float(found) ||
           tg_op_fail(call, TG_ERROR_DTYPE, "input %d is %s; it must be f32 or f64 (tg_cast converts)", input,
                      tg_dtype_name(found));
}

bool tg_op_expect_same_shape(tg_op_call *call, int input, int other)
{
    tg_shape a = tg_shape_of(call->inputs[input]), b = tg_shape_of(call->inputs[other]);
    char a_text[TG_SHAPE_TEXT], b_text[TG_SHAPE_TEXT];
    return tg_shape_equal(a, b) ||
           tg_op_fail(call, TG_ERROR_SHAPE, "inputs %d and %d have shapes %s and %s; they must be equal", input, other,
                      tg_shape_format(a, a_text), tg_shape_format(b, b_text));
}

bool tg_tape_axis(tg_tape *t, const char *name, const tg_tensor *x, int *axis)
{
    if (!t || t->error.code != TG_OK) {
        return false;
    }
    if (!x) {
        tg_tape_fail(t, TG_ERROR_STATE, name, "input 0 is NULL");
        return false;
    }
    int asked = *axis, rank = x->rank > 0 ? x->rank : 1;
    if (!tg_axis_normalize(rank, axis)) {
        tg_tape_fail(t, TG_ERROR_RANGE, name, "axis %d is outside [%d,%d) for rank %d", asked, -rank, rank, x->rank);
        return false;
    }
    return true;
}

bool tg_op_expect_ids_below(tg_op_call *call, int input, int64_t bound)
{
    if (!tg_op_expect_dtype(call, input, TG_I32)) {
        return false;
    }
    const tg_tensor *x = call->inputs[input];
    const int32_t *ids = tg_values(x);
    bool all_inside = true;
    for (int64_t i = 0; i < x->count; i++) {
        all_inside &= ids[i] >= 0 && ids[i] < bound;
    }
    for (int64_t i = 0; !all_inside && i < x->count; i++) {
        if (ids[i] < 0 || ids[i] >= bound) {
            tg_shape shape = tg_shape_of(x);
            char text[TG_SHAPE_TEXT];
            return tg_op_fail(call, TG_ERROR_RANGE, "id %d at %s is outside [0,%lld)", ids[i],
                              tg_index_format(&shape, i, text), (long long)bound);
        }
    }
    return true;
}

/* Shapes of outputs are sums and products of what exists, but a user's op may declare anything. */
static bool declare(pending_call *pending, int output, tg_dtype dtype, const tg_shape *shape)
{
    size_t bytes;
    if (output != pending->call.output_count || output >= TG_OP_MAX_OUTPUTS) {
        return tg_op_fail(&pending->call, TG_ERROR_VALUE, "output %d is declared out of order, or is not below %d",
                          output, TG_OP_MAX_OUTPUTS);
    }
    if (tg_shape_count(*shape) < 0) {
        return tg_shape_bytes(pending->call.op->name, dtype, shape, &bytes, &pending->call.tape->error);
    }
    pending->call.output_count++;
    pending->outputs[output].dtype = dtype;
    pending->outputs[output].shape = *shape;
    pending->outputs[output].like = NULL;
    return true;
}

bool tg_op_output(tg_op_call *call, int output, tg_dtype dtype, tg_shape shape)
{
    pending_call *pending = (pending_call *)call;
    if (!declare(pending, output, dtype, &shape)) {
        return false;
    }
    pending->outputs[output].viewed = NULL;
    return true;
}

bool tg_op_output_like(tg_op_call *call, int output, tg_dtype dtype, int input)
{
    pending_call *pending = (pending_call *)call;
    const tg_tensor *x = call->inputs[input];
    if (output != call->output_count || output >= TG_OP_MAX_OUTPUTS) {
        return tg_op_output(call, output, dtype, tg_shape_of(x));
    }
    call->output_count++;
    pending->outputs[output].viewed = NULL;
    pending->outputs[output].dtype = dtype;
    pending->outputs[output].like = x;
    return true;
}

bool tg_op_output_view(tg_op_call *call, int output, int input, tg_shape shape, const int64_t *strides, int64_t offset)
{
    pending_call *pending = (pending_call *)call;
    if (!declare(pending, output, tg_dtype_of(call->inputs[input]), &shape)) {
        return false;
    }
    pending->outputs[output].viewed = call->inputs[input];
    pending->outputs[output].offset = offset;
    for (int axis = 0; axis < shape.rank; axis++) {
        pending->outputs[output].strides[axis] = strides[axis];
    }
    return true;
}

static bool add_bytes(tg_op_call *call, size_t *bytes, int64_t count, size_t size)
{
    size_t more;
    if (count < 0 || !tg_checked_mul((size_t)count, size, &more) || !tg_checked_add(*bytes, more, bytes)) {
        return tg_op_fail(call, TG_ERROR_MEMORY, "%lld times %zu bytes do not fit into memory", (long long)count, size);
    }
    return true;
}

bool tg_op_save(tg_op_call *call, int64_t count, size_t size)
{
    return add_bytes(call, &((pending_call *)call)->saved, count, size);
}

bool tg_op_scratch(tg_op_call *call, int64_t count, size_t size)
{
    return add_bytes(call, &((pending_call *)call)->scratch, count, size);
}

bool tg_op_backward_scratch(tg_op_call *call, int64_t count, size_t size)
{
    return add_bytes(call, &((pending_call *)call)->backward_scratch, count, size);
}

bool tg_op_touches_rows(tg_op_call *call, int64_t count)
{
    ((pending_call *)call)->rows = count;
    return true;
}

bool tg_broadcast(tg_shape a, tg_shape b, tg_shape *result)
{
    return tg_shape_broadcast(&a, &b, result);
}

/* ---- the steps of a call ---- */

/* What one look at the inputs finds. */
typedef struct input_facts {
    tg_dtype dtype;    /* of the first float input: it chooses the kernels */
    bool any_float;    /* without any, dtype says nothing */
    bool needs_record; /* one requires a gradient */
    bool needs_copy;   /* one has a layout that the op does not take */
} input_facts;

static bool check_inputs(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int count, input_facts *facts)
{
    *facts = (input_facts){.dtype = TG_F32};
    for (int i = 0; i < count; i++) {
        const tg_tensor *x = inputs[i];
        if (!x) {
            tg_tape_fail(t, TG_ERROR_STATE, op->name, "input %d is NULL", i);
            return false;
        }
        if (x->node >= 0 && x->tape != t) {
            tg_tape_fail(t, TG_ERROR_STATE, op->name,
                         "input %d was recorded on another tape; tg_tensor_new_detached cuts it off", i);
            return false;
        }
        if (tg_dtype_is_float((tg_dtype)x->dtype)) {
            if (facts->any_float && x->dtype != facts->dtype) {
                tg_tape_fail(t, TG_ERROR_DTYPE, op->name,
                             "inputs are %s and %s; nothing is promoted: convert one with tg_cast",
                             tg_dtype_name(facts->dtype), tg_dtype_name((tg_dtype)x->dtype));
                return false;
            }
            facts->any_float = true;
            facts->dtype = (tg_dtype)x->dtype;
        }
        facts->needs_record |= x->requires_grad;
        facts->needs_copy |= !x->contiguous && !(op->accepts_layout && op->accepts_layout(x, i));
    }
    facts->needs_record &= t->recording;
    return true;
}

/* Room for one more record with its tensors and attributes. */
static bool reserve_record(tg_tape *t, size_t tensors, size_t attributes_size)
{
    size_t needed = t->tensor_count + tensors;
    return tg_grow((void **)&t->records, &t->record_capacity, t->record_count, t->record_count + 1,
                   sizeof *t->records) &&
           tg_grow((void **)&t->tensors, &t->tensor_capacity, t->tensor_count, needed, sizeof *t->tensors) &&
           tg_grow((void **)&t->versions, &t->version_capacity, t->tensor_count, needed, sizeof *t->versions) &&
           tg_grow((void **)&t->attributes, &t->attribute_capacity, t->attribute_bytes,
                   t->attribute_bytes + attributes_size + 16, 1);
}

static bool make_outputs(tg_tape *t, pending_call *pending)
{
    tg_op_call *call = &pending->call;
    for (int i = 0; i < call->output_count; i++) {
        if (pending->outputs[i].like) {
            call->outputs[i] = tg_tensor_make_like(t->pool, pending->outputs[i].dtype, pending->outputs[i].like);
        } else if (pending->outputs[i].viewed) {
            call->outputs[i] = tg_tensor_make_view(t->pool, pending->outputs[i].viewed, &pending->outputs[i].shape,
                                                   pending->outputs[i].strides, pending->outputs[i].offset);
        } else {
            call->outputs[i] = tg_tensor_make(t->pool, pending->outputs[i].dtype, &pending->outputs[i].shape);
        }
        if (!call->outputs[i]) {
            while (i-- > 0) {
                tg_tensor_drop(t->pool, call->outputs[i]);
            }
            return false;
        }
    }
    return true;
}

/* Keeps the call for backward. Everything is reserved. */
static void record(tg_tape *t, const pending_call *pending, bool f64, size_t attributes_size)
{
    const tg_op_call *call = &pending->call;
    tg_record *made = &t->records[t->record_count];
    *made = (tg_record){.op = call->op,
                        .saved = call->saved,
                        .first_tensor = t->tensor_count,
                        .attributes = SIZE_MAX,
                        .backward_scratch = pending->backward_scratch,
                        .rows = pending->rows,
                        .input_count = call->input_count,
                        .output_count = (uint8_t)call->output_count,
                        .f64 = f64,
                        .training = call->training};
    if (attributes_size > 0) {
        made->attributes = (t->attribute_bytes + 15) & ~(size_t)15;
        memcpy(t->attributes + made->attributes, call->attributes, attributes_size);
        t->attribute_bytes = made->attributes + attributes_size;
    }
    for (int i = 0; i < call->input_count; i++) {
        tg_tensor *x = call->inputs[i];
        t->versions[t->tensor_count] = tg_storage_version(x);
        t->tensors[t->tensor_count++] = tg_tape_recorded(t, x) ? x : tg_retain(x);
    }
    for (int i = 0; i < call->output_count; i++) {
        tg_tensor *y = call->outputs[i];
        t->versions[t->tensor_count] = tg_storage_version(y);
        t->tensors[t->tensor_count++] = y;
        y->node = (int32_t)t->record_count;
        y->requires_grad = tg_dtype_is_float((tg_dtype)y->dtype);
    }
    t->record_count++;
}

/* Apart, so that a tape without an observer pays for one branch. */
static void run_observed(tg_tape *t, const tg_op_kernels *kernels, const tg_op_call *call)
{
    t->position_before = t->rng ? tg_rng_position(t->rng) : 0;
    if (kernels->forward) {
        kernels->forward(call);
    }
    t->observer(t->observer_context, call);
}

static bool run(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int input_count, const void *attributes,
                size_t attributes_size, const input_facts *facts, tg_tensor **outputs)
{
    tg_dtype dtype = facts->dtype;
    pending_call pending;
    tg_op_call *call = &pending.call;
    call->op = op;
    call->tape = t;
    call->input_count = input_count;
    call->output_count = 0;
    call->inputs = inputs;
    call->attributes = attributes_size > 0 ? attributes : NULL;
    call->saved = call->scratch = NULL;
    call->rng = t->rng;
    call->training = t->training;
    pending.saved = pending.scratch = pending.backward_scratch = 0;
    pending.rows = 0;
    if (!op->shape(call)) {
        return false;
    }
    if (!facts->any_float) { /* without any float at all f64, which holds every id exactly */
        bool float_output = call->output_count > 0 && tg_dtype_is_float(pending.outputs[0].dtype);
        dtype = float_output ? pending.outputs[0].dtype : TG_F64;
    }
    const tg_op_kernels *kernels = dtype == TG_F64 ? &op->f64 : &op->f32;
    bool recorded = facts->needs_record;
    bool reserved = (!recorded || reserve_record(t, (size_t)(input_count + call->output_count), attributes_size)) &&
                    tg_tape_reserve_results(t, (size_t)call->output_count) &&
                    (pending.saved == 0 || (call->saved = tg_pool_take(t->pool, pending.saved))) &&
                    (pending.scratch == 0 || (call->scratch = tg_pool_take(t->pool, pending.scratch))) &&
                    make_outputs(t, &pending);
    if (!reserved) {
        tg_pool_give(t->pool, call->saved);
        tg_pool_give(t->pool, call->scratch);
        return tg_op_fail(call, TG_ERROR_MEMORY, "out of memory");
    }
    if (t->observer) {
        run_observed(t, kernels, call);
    } else if (kernels->forward) {
        kernels->forward(call);
    }
    tg_pool_give(t->pool, call->scratch);
    if (recorded) {
        record(t, &pending, dtype == TG_F64, attributes_size);
    } else {
        tg_pool_give(t->pool, call->saved);
    }
    for (int i = 0; i < call->output_count; i++) {
        tg_tape_adopt(t, call->outputs[i]);
        outputs[i] = call->outputs[i];
    }
    return true;
}

/* The inputs, those of a layout that the op does not take replaced by contiguous copies: a block for the pool, or
 * NULL. */
static tg_tensor **copy_inputs(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int input_count)
{
    tg_tensor **copies = tg_pool_take(t->pool, (size_t)input_count * sizeof *inputs);
    if (!copies) {
        tg_tape_fail(t, TG_ERROR_MEMORY, op->name, "out of memory");
        return NULL;
    }
    for (int i = 0; i < input_count; i++) {
        bool accepted = inputs[i]->contiguous || (op->accepts_layout && op->accepts_layout(inputs[i], i));
        copies[i] = accepted ? inputs[i] : tg_make_contiguous(t, inputs[i]);
        if (!copies[i]) {
            tg_pool_give(t->pool, copies);
            return NULL;
        }
    }
    return copies;
}

bool tg_apply_outputs(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int input_count, const void *attributes,
                      size_t attributes_size, tg_tensor **outputs)
{
    if (!t || t->error.code != TG_OK) {
        return false;
    }
    input_facts facts;
    tg_tensor **copies = NULL;
    if (!check_inputs(t, op, inputs, input_count, &facts) ||
        (facts.needs_copy && !(copies = copy_inputs(t, op, inputs, input_count)))) {
        return false;
    }
    bool made = run(t, op, copies ? copies : inputs, input_count, attributes, attributes_size, &facts, outputs);
    tg_pool_give(t->pool, copies);
    return made;
}

tg_tensor *tg_apply(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int input_count, const void *attributes,
                    size_t attributes_size)
{
    tg_tensor *outputs[TG_OP_MAX_OUTPUTS];
    return tg_apply_outputs(t, op, inputs, input_count, attributes, attributes_size, outputs) ? outputs[0] : NULL;
}

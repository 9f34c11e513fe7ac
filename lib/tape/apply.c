/* apply: one call of an op, from the check of its inputs to its record.
 *
 * Everything that can fail is done before the forward kernel. After a failure, the memory reserved so far is returned,
 * and the tape, the generator and every tensor are unchanged.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "tape/declare.h"

/* Properties of the inputs, found in one pass. The shape rule comes after it, because it may read values. */
typedef struct input_facts {
    bool valid;        /* if not, the error is set, and the rest has no meaning */
    tg_dtype dtype;    /* the dtype of the first float input, which selects the kernels */
    bool any_float;    /* whether a float input exists; if not, `dtype` has no meaning */
    bool needs_record; /* whether recording is on and an input requires a gradient */
    bool needs_copy;   /* whether an input has a layout that the op does not accept */
    bool reads_rows;   /* whether the call is a lookup in a table whose rows have to be prepared */
} input_facts;

/* Has the guard of x, whose values are not there, prepare rows of it. Returns false if it cannot. */
static bool prepare_rows(const tg_tensor *x, const int32_t *ids, int64_t count)
{
    tg_value_guard *guard = x->storage->guard;
    return guard->prepare && guard->prepare(guard, x, ids, count);
}

/* Returns whether input i is a table without up-to-date values that the call may read all the same: a recorded call
 * that reads rows by ids, which are prepared first. */
static bool is_lookup(const tg_tape *t, const tg_op *op, const tg_tensor *x, int i)
{
    return x && tg_has_bit(op->lookups, i) && t->recording && x->requires_grad && prepare_rows(x, NULL, 0);
}

/* Prepares the rows that a call reads. */
static void prepare_lookups(const tg_op_call *call)
{
    for (int i = 1; i < call->input_count; i++) {
        const tg_tensor *table = call->inputs[i], *ids = call->inputs[i - 1];
        if (tg_has_bit(call->op->lookups, i) && !tg_has_values(table)) {
            prepare_rows(table, tg_values(ids), ids->count);
        }
    }
}

/* Sets the error of an input without values (tg_has_values). Returns false. */
static bool report_input(tg_tape *t, const char *call, const char *name, const tg_tensor *x)
{
    if (!x || (x->is_freed && !x->freed_op)) {
        return tg_tape_fail(t, TG_ERROR_STATE, call, "%s %s", name, x ? "was freed" : "is NULL");
    }
    if (x->is_freed) {
        char text[TG_FREED_TEXT];
        tg_tape_fail(t, TG_ERROR_STATE, call, "%s is %s", name, tg_freed_text(x, text));
        return tg_tensor_refuse_getter(call, x);
    }
    if (tg_is_dropped(x) && tg_tape_recorded(t, x)) {
        return tg_tape_fail(t, TG_ERROR_STATE, call,
                            "%s is a result of '%s' whose values activation_checkpoint_end has dropped; "
                            "tg_retain before the end keeps them",
                            name, t->records[x->node].op->name);
    }
    return tg_tensor_refuse(call, NULL, x, t->error);
}

bool tg_tape_expect_input(tg_tape *t, const char *call, const char *name, const tg_tensor *x)
{
    char text[TG_INPUT_TEXT];
    return tg_tape_is_usable(t) &&
           ((x && !x->is_freed) ||
            report_input(t, call, tg_op_input_text(&(const tg_op){.input_names = {name}}, 0, text), x));
}

/* Returns whether inputs of bf16 are those that the op accepts, and that no input is f64. */
static bool check_bf16(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int count, const input_facts *facts)
{
    char name[TG_INPUT_TEXT];
    for (int i = 0; i < count; i++) {
        if (inputs[i]->dtype == TG_BF16 && !tg_has_bit(op->bf16_inputs, i)) {
            return tg_tape_fail(t, TG_ERROR_DTYPE, op->name,
                                "%s is bf16; only the table of tg_embedding and the weight of tg_linear and "
                                "tg_linear_cross_entropy may be (tg_tensor_new_cast converts)",
                                tg_op_input_text(op, i, name));
        }
        if (inputs[i]->dtype == TG_BF16 && facts->any_float && facts->dtype != TG_F32) {
            return tg_tape_fail(t, TG_ERROR_DTYPE, op->name, "%s is bf16, and another input f64; it must be f32",
                                tg_op_input_text(op, i, name));
        }
    }
    return true;
}

static input_facts check_inputs(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int count)
{
    input_facts found = {.dtype = TG_F32};
    bool has_bf16 = false;
    for (int i = 0; i < count; i++) {
        const tg_tensor *x = inputs[i];
        bool has_values = tg_has_values(x);
        char name[TG_INPUT_TEXT];
        if (!has_values && !is_lookup(t, op, x, i)) {
            report_input(t, op->name, tg_op_input_text(op, i, name), x);
            return found;
        }
        found.reads_rows |= !has_values;
        if (x->node >= 0 && x->owner != &t->owner) {
            tg_tape_fail(t, TG_ERROR_STATE, op->name,
                         "%s was recorded on another tape; tg_detach gives its values without the history",
                         tg_op_input_text(op, i, name));
            return found;
        }
        if (tg_dtype_is_float(x->dtype)) {
            if (found.any_float && x->dtype != found.dtype) {
                tg_tape_fail(t, TG_ERROR_DTYPE, op->name,
                             "inputs are %s and %s; no dtype is promoted: convert one with tg_cast",
                             tg_dtype_name(found.dtype), tg_dtype_name(tg_dtype_of(x)));
                return found;
            }
            found.any_float = true;
            found.dtype = tg_dtype_of(x);
        }
        has_bf16 |= x->dtype == TG_BF16;
        found.needs_record |= x->requires_grad;
        found.needs_copy |= !x->contiguous && !(op->accepts_layout && op->accepts_layout(x, i));
    }
    found.needs_record &= t->recording;
    found.valid = !has_bf16 || check_bf16(t, op, inputs, count, &found);
    return found;
}

/* Reserves space for `needed` tensors of records. Returns false when memory is exhausted. */
static bool grow_tensors(tg_tape *t, size_t needed)
{
    size_t tensors = t->tensor_capacity, states = tensors, held = tensors;
    bool grown = tg_grow(&t->tensors, &tensors, t->tensor_count, needed, sizeof *t->tensors) &&
                 tg_grow(&t->states, &states, t->tensor_count, needed, sizeof *t->states) &&
                 tg_grow(&t->held, &held, t->held_count, needed, sizeof *t->held);
    t->tensor_capacity = grown ? tensors : t->tensor_capacity;
    return grown;
}

/* Reserves space for one more record with its tensors and attributes. */
static bool reserve_record(tg_tape *t, size_t tensors, size_t attributes_size)
{
    size_t needed = t->tensor_count + tensors;
    return tg_grow(&t->records, &t->record_capacity, t->record_count, t->record_count + 1, sizeof *t->records) &&
           (needed <= t->tensor_capacity || grow_tensors(t, needed)) &&
           (attributes_size == 0 || tg_grow(&t->attributes, &t->attribute_capacity, t->attribute_bytes,
                                            t->attribute_bytes + attributes_size + 16, 1));
}

static bool make_outputs(tg_tape *t, tg_op_call *call)
{
    for (int i = 0; i < call->output_count; i++) {
        const tg_declared_output *y = &call->declaration->outputs[i];
        if (y->viewed) {
            call->outputs[i] = tg_tensor_make_view(t->pool, y->viewed, &y->shape, y->strides, y->offset);
        } else {
            call->outputs[i] = tg_tensor_make(t->pool, y->dtype, &y->shape);
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

/* Takes a reference until the record is removed, unless the tape has one already. */
static void hold(tg_tape *t, tg_tensor *x)
{
    if (atomic_load_explicit(&x->holder, memory_order_relaxed) != &t->owner) {
        atomic_store_explicit(&x->holder, &t->owner, memory_order_relaxed);
        t->held[t->held_count++] = tg_retain(x);
    }
}

/* Records the call, in space that reserve_record has reserved. */
static void record(tg_tape *t, const tg_op_call *call, const struct tg_op_declaration *d, const tg_op_kernels *kernels,
                   size_t attributes_size)
{
    const int input_count = call->input_count, output_count = call->output_count;
    tg_record *made = &t->records[t->record_count];
    *made = (tg_record){.op = call->op,
                        .kernels = kernels,
                        .saved = call->saved,
                        .first_tensor = t->tensor_count,
                        .attributes = SIZE_MAX,
                        .saved_bytes = d->saved,
                        .scratch = d->scratch > d->backward_scratch ? d->scratch : d->backward_scratch,
                        .backward_scratch = d->backward_scratch,
                        .rows = d->rows,
                        .input_count = input_count,
                        .output_count = (uint8_t)output_count,
                        .training = call->training,
                        .reproducible = t->reproducible};
    if (attributes_size > 0) {
        made->attributes = (t->attribute_bytes + 15) & ~(size_t)15;
        memcpy(t->attributes + made->attributes, call->attributes, attributes_size);
        t->attribute_bytes = made->attributes + attributes_size;
    }
    tg_tensor **tensors = t->tensors + t->tensor_count;
    tg_tensor_state *states = t->states + t->tensor_count;
    for (int i = 0; i < input_count; i++) {
        tg_tensor *x = call->inputs[i];
        *states++ = (tg_tensor_state){tg_storage_version(x), x->requires_grad};
        *tensors++ = x;
        if (!tg_tape_recorded(t, x)) {
            hold(t, x);
        }
    }
    for (int i = 0; i < output_count; i++) {
        tg_tensor *y = call->outputs[i];
        y->node = (int32_t)t->record_count;
        y->requires_grad = tg_dtype_is_float(y->dtype);
        *states++ = (tg_tensor_state){tg_storage_version(y), y->requires_grad};
        *tensors++ = y;
    }
    t->tensor_count += (size_t)(input_count + output_count);
    t->record_count++;
}

/* Runs a call whose op, tape, inputs and attributes are set. */
static bool run(tg_op_call *call, size_t attributes_size, const input_facts *facts)
{
    tg_tape *t = call->tape;
    const tg_op *op = call->op;
    tg_dtype dtype = facts->dtype;
    struct tg_op_declaration d;
    d.saved = d.scratch = d.backward_scratch = 0;
    d.rows = 0;
    d.only_views = true;
    call->output_count = 0;
    call->saved = call->scratch = NULL;
    call->rng = t->rng;
    call->training = t->training;
    call->is_repeated = false;
    call->declaration = &d;
    /* an error that the shape rule has set stays: a tape keeps its first error */
    if (!op->shape(call) || t->error->code != TG_OK) {
        return tg_op_fail(call, TG_ERROR_STATE, "the shape rule refused the inputs without an error");
    }
    if (call->output_count == 0) {
        return tg_op_fail(call, TG_ERROR_VALUE, "the shape rule declares no output");
    }
    /* Without any float, the kernels for f64 run: a double holds every id exactly. */
    if (!facts->any_float) {
        bool float_output = tg_dtype_is_float(d.outputs[0].dtype);
        dtype = float_output ? d.outputs[0].dtype : TG_F64;
    }
    const tg_op_kernels *kernels = tg_op_kernels_of(op, dtype == TG_F64);
    if (!kernels->forward && !d.only_views) {
        return tg_op_fail(call, TG_ERROR_DTYPE, "the op has no forward kernel for %s", tg_dtype_name(dtype));
    }
    bool recorded = facts->needs_record;
    bool reserved =
        (!recorded || reserve_record(t, (size_t)(call->input_count + call->output_count), attributes_size)) &&
        tg_tape_reserve_results(t, (size_t)call->output_count) &&
        (d.saved == 0 || (call->saved = tg_pool_take(t->pool, d.saved))) &&
        (d.scratch == 0 || (call->scratch = tg_pool_take(t->pool, d.scratch))) && make_outputs(t, call);
    if (!reserved) {
        tg_pool_give(t->pool, call->saved);
        tg_pool_give(t->pool, call->scratch);
        return tg_op_fail(call, TG_ERROR_MEMORY, "out of memory");
    }
    call->declaration = NULL;
    if (facts->reads_rows) {
        prepare_lookups(call);
    }
    if (t->spans.open) {
        tg_spans_watch(t);
    }
    tg_watch_before(t, call, false);
    tg_run_kernel(t, call, kernels->forward, false, t->reproducible, d.saved, d.scratch);
    if (t->spans.open && recorded) {
        t->spans.position = tg_rng_position(t->rng);
    }
    tg_watch_after(t, call, false);
    tg_pool_give(t->pool, call->scratch);
    if (recorded) {
        record(t, call, &d, kernels, attributes_size);
    } else {
        tg_pool_give(t->pool, call->saved);
    }
    for (int i = 0; i < call->output_count; i++) {
        tg_tape_adopt(t, call->outputs[i], op->name);
    }
    return true;
}

/* Returns a copy of the array of inputs, in which inputs with a layout that the op does not accept are replaced by
 * contiguous copies. The array is a block of the pool. NULL with the error set. */
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

/* tg_apply with contiguous copies of inputs. The copies are recorded, so a failure removes them. */
static tg_tensor *apply_to_copies(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int input_count,
                                  const void *attributes, size_t attributes_size, tg_tensor **outputs)
{
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor **copies = copy_inputs(t, op, inputs, input_count);
    tg_tensor *y = copies ? tg_apply(t, op, copies, input_count, attributes, attributes_size, outputs) : NULL;
    tg_pool_give(t->pool, copies);
    return tg_tape_end(t, &point, y);
}

/* Returns what is wrong if an argument is NULL that must not be, else NULL. */
static inline const char *missing_argument(const tg_op *op, tg_tensor *const *inputs, int input_count,
                                           const void *attributes, size_t attributes_size)
{
    if (!op) {
        return "the op is NULL";
    }
    if (!op->name) {
        return "the op's name is NULL";
    }
    if (!op->shape) {
        return "the op's shape rule is NULL";
    }
    if (!inputs && input_count > 0) {
        return "the inputs are NULL";
    }
    return !attributes && attributes_size > 0 ? "the attributes are NULL" : NULL;
}

tg_tensor *tg_apply(tg_tape *t, const tg_op *op, tg_tensor *const *inputs, int input_count, const void *attributes,
                    size_t attributes_size, tg_tensor **outputs)
{
    if (!tg_tape_is_usable(t)) {
        return NULL;
    }
    const char *missing = missing_argument(op, inputs, input_count, attributes, attributes_size);
    if (missing) {
        tg_tape_fail(t, TG_ERROR_STATE, "apply", "%s", missing);
        return NULL;
    }
    if (input_count < 0) {
        tg_tape_fail(t, TG_ERROR_VALUE, op->name, "%d inputs; it must be 0 or more", input_count);
        return NULL;
    }
    const input_facts facts = check_inputs(t, op, inputs, input_count);
    if (!facts.valid) {
        return NULL;
    }
    if (facts.needs_copy) {
        return apply_to_copies(t, op, inputs, input_count, attributes, attributes_size, outputs);
    }
    tg_op_call call; /* set field by field: zeroing the whole structure would take as long as a small kernel */
    call.op = op;
    call.tape = t;
    call.input_count = input_count;
    call.inputs = inputs;
    call.attributes = attributes_size > 0 ? attributes : NULL;
    if (!run(&call, attributes_size, &facts)) {
        return NULL;
    }
    for (int i = 0; outputs && i < call.output_count; i++) {
        outputs[i] = call.outputs[i];
    }
    return call.outputs[0];
}

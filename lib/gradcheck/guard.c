#include "base/text.h"
#include "gradcheck/guard.h"
#include "tensor/gradient.h"

#include <stdio.h>
#include <string.h>

/* The bytes of a zone: a multiple of the alignment, and wide enough for a row of 64 doubles. */
#define ZONE ((size_t)512)

/* A copy of a buffer, between two zones; or a view of the tensor of another buffer, which has no bytes of its own. */
typedef struct guarded {
    tg_storage *storage; /* the block: a zone, `bytes` bytes, and a zone of `behind` bytes */
    char *values;        /* between the zones */
    char *original;
    size_t bytes, behind;
    size_t unit; /* the size of a value; 1 for memory without a type */
    unsigned char fill;
    bool is_constant, is_hidden, is_discarded; /* as in `use` */
    bool is_view;
    const char *what; /* "input", "the gradient of output" */
    int number;       /* of the input or output; -1: none */

    tg_tensor *tensor; /* whose values these are, or NULL */
    tg_storage *tensor_storage;
    int64_t tensor_offset;
    tg_gradient *rows; /* the gradient by rows whose values these are, or NULL */
} guarded;

/* What a kernel may do with a buffer. */
typedef enum use {
    READS,   /* it has values, which must not change */
    IGNORES, /* it has no values, and must not change */
    ADDS,    /* it has values, and receives results */
    WRITES,  /* it has no values, and receives results */
    WORKS    /* it has no values, and none are kept */
} use;

typedef struct run {
    tg_guard *guard;
    const tg_op_call *call;
    bool backward, out_of_memory;
    guarded *buffers;
    int count;
} run;

/* ---- before the kernel ---- */

static guarded *find(const run *r, const void *original, const tg_tensor *tensor)
{
    for (int i = 0; i < r->count; i++) {
        if (tensor ? r->buffers[i].tensor == tensor : !r->buffers[i].tensor && r->buffers[i].original == original) {
            return &r->buffers[i];
        }
    }
    return NULL;
}

/* Adds the copy of a buffer, with space for `behind` more bytes. Returns NULL when memory is exhausted. */
static guarded *add(run *r, void *original, size_t bytes, size_t behind, size_t unit, use how)
{
    guarded *made = &r->buffers[r->count];
    *made = (guarded){.storage = tg_storage_new(NULL, ZONE + bytes + behind + ZONE),
                      .original = original,
                      .bytes = bytes,
                      .behind = behind + ZONE,
                      .unit = unit,
                      .fill = r->guard->fill,
                      .is_constant = how == READS || how == IGNORES,
                      .is_hidden = how == IGNORES,
                      .is_discarded = how == WORKS,
                      .number = -1};
    if (!made->storage) {
        r->out_of_memory = true;
        return NULL;
    }
    made->values = (char *)tg_storage_values(made->storage) + ZONE;
    r->count++;
    return made;
}

/* Writes the zones and the values. */
static void fill_block(guarded *b, use how)
{
    memset(b->values - ZONE, b->fill, ZONE + b->bytes + b->behind);
    if ((how == READS || how == ADDS) && b->bytes > 0) {
        memcpy(b->values, b->original, b->bytes);
    }
}

/* Guards memory that has no tensor. Returns its copy. NULL stays NULL, and memory that has a copy keeps it. */
static void *guard_memory(run *r, void *memory, size_t bytes, size_t unit, use how, const char *what, int number)
{
    guarded *known = memory ? find(r, memory, NULL) : NULL;
    if (!memory || known) {
        return known ? known->values : NULL;
    }
    guarded *made = add(r, memory, bytes, 0, unit, how);
    if (!made) {
        return memory;
    }
    made->what = what;
    made->number = number;
    fill_block(made, how);
    return made->values;
}

/* Returns the buffer of a tensor of which x is a view, so that it stays one; or NULL. */
static const guarded *find_viewed(const run *r, const tg_tensor *x, const char *original, size_t bytes, use how)
{
    for (int i = 0; i < r->count; i++) {
        const guarded *b = &r->buffers[i];
        if (b->tensor && !b->is_view && b->tensor_storage == x->storage && b->is_hidden == (how == IGNORES) &&
            original >= b->original && original + bytes <= b->original + b->bytes) {
            return b;
        }
    }
    return NULL;
}

/* Gives x a guarded copy of its values, with the same strides. */
static void guard_tensor(run *r, tg_tensor *x, use how, const char *what, int number)
{
    if (!tg_has_values(x) || find(r, NULL, x)) {
        return;
    }
    int64_t low = 0, high = x->count > 0 ? 1 : 0; /* the addresses of its values, from the first one on */
    for (int axis = 0; x->count > 0 && axis < x->rank; axis++) {
        int64_t last = (x->shape[axis] - 1) * x->strides[axis];
        low += last < 0 ? last : 0;
        high += last > 0 ? last : 0;
    }
    size_t size = tg_size_of(x->dtype);
    char *original = (char *)tg_values(x) + low * (int64_t)size;
    size_t bytes = (size_t)(high - low) * size;
    const guarded *viewed = find_viewed(r, x, original, bytes, how);
    if (viewed) {
        atomic_fetch_add(&viewed->storage->references, 1);
        r->buffers[r->count++] = (guarded){.storage = viewed->storage,
                                           .is_view = true,
                                           .tensor = x,
                                           .tensor_storage = x->storage,
                                           .tensor_offset = x->offset};
        x->storage = viewed->storage;
        x->offset += viewed->tensor->offset - viewed->tensor_offset;
        return;
    }
    guarded *made = add(r, original, bytes, 0, size, how);
    if (!made) {
        return;
    }
    made->what = what;
    made->number = number;
    made->fill = tg_dtype_is_float(x->dtype) ? made->fill : TG_GUARD_NAN; /* -1: an id that is near to the others */
    fill_block(made, how);
    made->tensor = x;
    made->tensor_storage = x->storage;
    made->tensor_offset = x->offset;
    atomic_store(&made->storage->version, tg_storage_version(x));
    x->storage = made->storage;
    x->offset = (int64_t)(ZONE / size) - low;
}

/* Guards the values of a gradient by rows, once, also if two inputs are the leaf. Those of rows that have no gradient
 * yet are a part of the zone. */
static void guard_rows(run *r, const tg_tensor *leaf, int number)
{
    tg_gradient *gradient = leaf->gradient;
    size_t size = tg_size_of(leaf->dtype), row = (size_t)leaf->shape[1] * size;
    for (int i = 0; i < r->count; i++) {
        if (r->buffers[i].rows == gradient) {
            return;
        }
    }
    if (gradient->capacity == 0) {
        return;
    }
    guarded *made = add(r, gradient->values, (size_t)gradient->count * row,
                        (size_t)(gradient->capacity - gradient->count) * row, size, ADDS);
    if (made) {
        made->what = "the gradient of input";
        made->number = number;
        made->rows = gradient;
        fill_block(made, ADDS);
        gradient->values = made->values;
    }
}

/* ---- after the kernel ---- */

/* Sets the text, unless there is one. */
static void report(const run *r, const guarded *b, const char *verb, int64_t byte)
{
    char number[16] = "";
    if (r->guard->text[0] != '\0') {
        return;
    }
    if (b->number >= 0) {
        snprintf(number, sizeof number, " %d", b->number);
    }
    int64_t unit = (int64_t)b->unit, value = byte < 0 ? -((-byte + unit - 1) / unit) : byte / unit;
    snprintf(r->guard->text, sizeof r->guard->text, "the %s kernel of '%.*s' %s %s %lld of %s%s, which has %lld",
             r->backward ? "backward" : "forward", TG_CUT(r->call->op->name, 100), verb, b->unit > 1 ? "value" : "byte",
             (long long)value, b->what, number, (long long)((int64_t)b->bytes / unit));
}

/* Returns whether all bytes have a value: the first one has it, and each other one that of its neighbor. The loops over
 * bytes below only find the place of a mistake; as the test itself they would take a fifth of a check. */
static bool are_all(const char *bytes, size_t count, unsigned char value)
{
    return count == 0 || ((unsigned char)*bytes == value && memcmp(bytes, bytes + 1, count - 1) == 0);
}

static void check_zones(const run *r, const guarded *b)
{
    if (are_all(b->values - ZONE, ZONE, b->fill) && are_all(b->values + b->bytes, b->behind, b->fill)) {
        return;
    }
    for (size_t i = 1; i <= ZONE; i++) {
        if ((unsigned char)b->values[-(int64_t)i] != b->fill) {
            report(r, b, "writes", -(int64_t)i);
            return;
        }
    }
    for (size_t i = b->bytes; i < b->bytes + b->behind; i++) {
        if ((unsigned char)b->values[i] != b->fill) {
            report(r, b, "writes", (int64_t)i);
            return;
        }
    }
}

static void check_constant(const run *r, const guarded *b)
{
    if (b->bytes == 0 ||
        (b->is_hidden ? are_all(b->values, b->bytes, b->fill) : memcmp(b->values, b->original, b->bytes) == 0)) {
        return;
    }
    for (size_t i = 0; i < b->bytes; i++) {
        if ((unsigned char)b->values[i] != (b->is_hidden ? b->fill : (unsigned char)b->original[i])) {
            report(r, b, "may only read, but changes", (int64_t)i);
            return;
        }
    }
}

/* Gives the tensor its values back, with the version that the kernel has made of it. */
static void restore_tensor(const guarded *b)
{
    b->tensor->storage = b->tensor_storage;
    b->tensor->offset = b->tensor_offset;
    atomic_store(&b->tensor_storage->version, atomic_load(&b->storage->version));
}

static void end(run *r, guarded *b)
{
    if (b->rows) {
        size_t all = b->bytes + b->behind;
        b->bytes = (size_t)b->rows->count * (all - ZONE) / (size_t)b->rows->capacity;
        b->behind = all - b->bytes;
        b->rows->values = b->original;
    }
    if (b->tensor) {
        restore_tensor(b);
    }
    if (!b->is_view) {
        check_zones(r, b);
    }
    if (b->is_constant) {
        check_constant(r, b);
    } else if (!b->is_discarded && b->bytes > 0) {
        memcpy(b->original, b->values, b->bytes);
    }
    tg_storage_drop(NULL, b->storage);
}

/* ---- the call ---- */

static void guard_inputs_and_outputs(run *r)
{
    const tg_op_call *call = r->call;
    for (int i = 0; i < call->input_count; i++) {
        tg_tensor *x = call->inputs[i];
        bool ignored = r->backward && tg_has_bit(call->op->backward_ignores_inputs, i) && tg_dtype_is_float(x->dtype);
        if (ignored) {
            r->guard->ignores_inputs = tg_guard_choose(r->guard->ignores_inputs, call->op);
        }
        guard_tensor(r, x, ignored ? IGNORES : READS, "input", i);
    }
    for (int i = 0; i < call->output_count; i++) {
        tg_tensor *y = call->outputs[i];
        bool ignored = tg_has_bit(call->op->backward_ignores_outputs, i) && tg_dtype_is_float(y->dtype);
        bool is_view = tg_storage_references(y) > 1;
        if (r->backward && ignored) {
            r->guard->ignores_outputs = tg_guard_choose(r->guard->ignores_outputs, call->op);
        }
        guard_tensor(r, y, r->backward ? ignored ? IGNORES : READS : is_view ? READS : WRITES, "output", i);
    }
}

/* Sets gradients[i], for the call, to the guarded gradient of input i. */
static void guard_gradients(run *r, tg_op_call *guarded_call, void **gradients)
{
    const tg_op_call *call = r->call;
    for (int i = 0; i < call->output_count; i++) {
        void *dy = (void *)(uintptr_t)call->output_gradients[i];
        guarded_call->output_gradients[i] =
            guard_memory(r, dy, tg_bytes_of(call->outputs[i]), tg_size_of(call->outputs[i]->dtype), READS,
                         "the gradient of output", i);
    }
    for (int i = 0; i < call->input_count; i++) {
        const tg_tensor *x = call->inputs[i];
        void *dx = call->input_gradients[i];
        if (call->gradient_modes[i] == TG_GRADIENT_WRITE) {
            r->guard->overwrites = tg_guard_choose(r->guard->overwrites, call->op);
        }
        gradients[i] =
            guard_memory(r, dx, tg_bytes_of(x), tg_size_of(x->dtype),
                         call->gradient_modes[i] == TG_GRADIENT_WRITE ? WRITES : ADDS, "the gradient of input", i);
        if (call->gradient_modes[i] == TG_GRADIENT_ROWS) {
            guard_rows(r, x, i);
        }
    }
    guarded_call->input_gradients = gradients;
}

void tg_guard_run(void *guard, const tg_op_call *call, tg_op_kernel kernel, bool backward, size_t saved, size_t scratch)
{
    run r = {.guard = guard, .call = call, .backward = backward};
    size_t inputs = (size_t)call->input_count, outputs = (size_t)call->output_count;
    r.buffers = tg_alloc(2 * (inputs + outputs) + 2, sizeof *r.buffers);
    void **gradients = tg_alloc(inputs + 1, sizeof *gradients);
    if (!r.buffers || !gradients) {
        r.out_of_memory = true;
        kernel(call);
    } else {
        tg_op_call guarded_call = *call;
        if (backward) {
            guard_gradients(&r, &guarded_call, gradients);
        }
        guarded_call.saved = guard_memory(&r, call->saved, saved, 1, backward ? READS : WRITES, "the saved memory", -1);
        guarded_call.scratch = guard_memory(&r, call->scratch, scratch, 1, WORKS, "the scratch memory", -1);
        guard_inputs_and_outputs(&r); /* last: the others read the sizes of the tensors only */
        kernel(&guarded_call);
        for (int i = 0; i < r.count; i++) {
            end(&r, &r.buffers[i]);
        }
    }
    r.guard->out_of_memory |= r.out_of_memory;
    tg_free(r.buffers);
    tg_free(gradients);
}

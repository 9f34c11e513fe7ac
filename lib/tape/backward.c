/* backward: reverse-mode differentiation, in two passes over the records from last to first.
 *
 * The first pass plans (plan.c): it checks the records, and reserves all memory. If it fails, no gradient has changed.
 * The second pass runs the kernels in the same order on the planned memory. It cannot fail.
 *
 * Invariants. A record is planned if one of its outputs has an adjoint. An adjoint is contiguous, has its tensor's
 * shape, is complete when the record that computed the tensor runs, and is NULL outside of a pass.
 *
 * As in PyTorch, the state at recording counts: an input gets a gradient if it required one when the call was recorded.
 * Exception: a leaf for which requires_grad was turned off since then gets none.
 */
#include <string.h>

#include "base/alloc.h"
#include "tape/backward.h"
#include "tensor/gradient.h"
#include "tensor/strided.h"

/* ---- the second pass ---- */

/* For AddressSanitizer: the plan returned the blocks of adjoints to the pool, so only the adjoints that are in use now
 * may be accessed. */
static void begin_adjoint(const tg_tensor *x, void *adjoint)
{
    if (TG_HAS_POISON) {
        tg_unpoison(adjoint, tg_bytes_of(x));
    }
}

static void end_adjoint(const tg_tensor *x)
{
    if (TG_HAS_POISON && x->adjoint) {
        tg_poison(x->adjoint, tg_bytes_of(x));
    }
}

/* The work that is left for a record. */
typedef struct work {
    bool any;    /* whether the kernel has to compute the gradient of an input */
    bool frozen; /* whether one of these inputs is a leaf with frozen rows */
} work;

/* Carries out the plan of one input, and returns what the kernel does with its gradient. *gradient is what the plan
 * wrote, and becomes the address for the kernel: NULL if it has none. */
static tg_gradient_mode prepare_input(tg_input_plan plan, bool overwrite, tg_tensor *x, void **gradient)
{
    void *adjoint = *gradient;
    tg_gradient_mode mode = TG_GRADIENT_ADD;
    switch (plan) {
    case TG_PLAN_NONE: return TG_GRADIENT_NONE;
    case TG_PLAN_ROWS:
        if (x->gradient->kind == TG_GRAD_DENSE) {
            *gradient = tg_gradient_write(x, NULL);
            return TG_GRADIENT_ADD;
        }
        /* if no id counts, the gradient exists, too: without rows, all zeros */
        tg_gradient_rows(x, NULL, 0, NULL, false);
        return TG_GRADIENT_ROWS;
    case TG_PLAN_DENSE:
        *gradient = tg_gradient_write(x, &overwrite);
        return overwrite ? TG_GRADIENT_WRITE : TG_GRADIENT_ADD;
    case TG_PLAN_ADD: return TG_GRADIENT_ADD;
    case TG_PLAN_NEW:
        begin_adjoint(x, adjoint);
        if (overwrite) {
            mode = TG_GRADIENT_WRITE;
        } else {
            tg_zero_values(adjoint, x->count, tg_size_of(x->dtype));
        }
        break;
    }
    x->adjoint = adjoint;
    return mode;
}

/* Sets the modes and the addresses of the gradients of the inputs, for the kernel. */
static work prepare_inputs(const tg_pass *pass, const tg_record *record, const tg_op_call *call, void **gradients,
                           tg_gradient_mode *modes)
{
    const uint8_t *plans = pass->tape->plans + record->first_tensor;
    work found = {false, false};
    for (int i = 0; i < record->input_count; i++) {
        tg_input_plan plan = (tg_input_plan)plans[i];
        modes[i] = prepare_input(plan, record->overwrites, call->inputs[i], &gradients[i]);
        found.any |= plan != TG_PLAN_NONE;
        found.frozen |= (plan == TG_PLAN_ROWS || plan == TG_PLAN_DENSE) && tg_has_frozen_rows(call->inputs[i]);
    }
    return found;
}

/* Adds an adjoint to the gradient of a leaf, or of a result for which tg_retain_grad was called. */
static void keep_gradient(tg_tensor *x, const void *adjoint)
{
    bool overwrite = true;
    void *values = tg_gradient_write(x, &overwrite);
    if (overwrite) {
        tg_copy_values(values, adjoint, x->count, tg_size_of(x->dtype));
    } else {
        tg_add_values(values, adjoint, x->count, tg_dtype_of(x));
    }
}

/* Sets the uninitialized gradients of the inputs to zero. A gradient by rows has no address, and no rows. */
static void zero_gradients(const tg_op_call *call)
{
    for (int i = 0; i < call->input_count; i++) {
        if (call->gradient_modes[i] == TG_GRADIENT_WRITE) {
            const tg_tensor *x = call->inputs[i];
            tg_zero_values(call->input_gradients[i], x->count, tg_size_of(x->dtype));
        }
    }
}

static void run_record(const tg_pass *pass, tg_record *record)
{
    tg_tape *t = pass->tape;
    tg_op_call call;
    tg_call_again(pass, record, &call);
    void **gradients = t->gradients + record->first_tensor;
    tg_gradient_mode *modes = t->gradient_modes + record->first_tensor;
    call.input_gradients = gradients;
    call.gradient_modes = modes;
    work found = prepare_inputs(pass, record, &call, gradients, modes);
    for (int i = 0; i < record->output_count; i++) {
        tg_tensor *y = call.outputs[i];
        call.output_gradients[i] = y->adjoint;
        if (y->gradient && y->adjoint &&
            (!pass->targets || tg_find_tensor(pass->targets, pass->target_count, y) >= 0)) {
            keep_gradient(y, y->adjoint);
        }
    }
    if (found.any && tg_op_is_empty(&call)) {
        zero_gradients(&call);
    } else if (found.any) {
        tg_watch_before(t, &call, true);
        tg_run_kernel(t, &call, record->kernels->backward, true, record->reproducible, record->saved_bytes,
                      record->backward_scratch);
        tg_watch_after(t, &call, true);
    }
    for (int i = 0; found.frozen && i < record->input_count; i++) {
        tg_gradient_drop_frozen(call.inputs[i]);
    }
    for (int i = 0; i < record->output_count; i++) {
        end_adjoint(call.outputs[i]);
        call.outputs[i]->adjoint = NULL;
    }
    for (int i = 0; record->rows > 0 && i < record->input_count; i++) {
        tg_gradient_end_plan(call.inputs[i]);
    }
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

/* Tells of each leaf to whose gradient record k has contributed last, by the function of the config. */
static void announce(const tg_tape *t, int32_t k, const tg_backward_config *config)
{
    const tg_record *record = &t->records[k];
    for (int i = 0; i < record->input_count; i++) {
        tg_tensor *x = tg_record_inputs(t, record)[i];
        if (x->node < 0 && x->last_use == k + 1) {
            x->last_use = 0; /* the leaf may be another input, too */
            if (config->on_gradient) {
                config->on_gradient(config->context, x);
            }
        }
    }
}

static void run(tg_pass *pass, const tg_backward_config *config)
{
    tg_tape *t = pass->tape;
    tg_tensor *y = pass->result;
    y->adjoint = pass->first;
    begin_adjoint(y, y->adjoint);
    write_first_adjoint(y, config->gradient, y->adjoint);
    for (int32_t k = y->node; k >= 0; k--) {
        tg_record *record = &t->records[k];
        if (!record->planned) {
            continue;
        }
        if (t->spans.count > 0) {
            tg_spans_replay(pass, k);
        }
        run_record(pass, record);
        announce(t, k, config);
        if (!config->retain_graph) {
            /* the plan has returned what a replay saved */
            tg_pool_give(t->pool, pass->span ? NULL : record->saved);
            record->saved = NULL;
            record->freed = true;
        }
    }
    tg_spans_replay_end(pass);
}

/* ---- public ---- */

TG_CONFIG(tg_backward_config, tg_backward_config_default, mark, .mark = mark);

static bool check_result(tg_tape *t, const tg_tensor *y, const tg_tensor *gradient)
{
    if (!tg_tape_expect_tensor(t, "backward", "result", y) ||
        (gradient && !tg_tensor_check("backward", "gradient", gradient, t->error))) {
        return false;
    }
    if (!y->requires_grad || (y->node >= 0 && y->owner != &t->owner)) {
        return tg_tape_fail(t, TG_ERROR_STATE, "backward",
                            y->requires_grad
                                ? "the result was recorded on another tape"
                                : "the result does not require a gradient: recording was off, no input required "
                                  "one, or it is a mask, an index, or a gradient without create_graph");
    }
    if (!gradient && y->count != 1) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "backward",
                            "the result has shape %s; it must have one value, unless config.gradient is set",
                            tg_shape_text_of(y).text);
    }
    if (gradient && gradient->dtype != y->dtype) {
        return tg_tape_fail(t, TG_ERROR_DTYPE, "backward", "the gradient is %s, and the result %s",
                            tg_dtype_name(tg_dtype_of(gradient)), tg_dtype_name(tg_dtype_of(y)));
    }
    return !gradient || tg_same_shape(gradient, y) ||
           tg_tape_fail(t, TG_ERROR_SHAPE, "backward", "the gradient has shape %s, and the result %s",
                        tg_shape_text_of(gradient).text, tg_shape_text_of(y).text);
}

/* Backward of a result that is itself a leaf: adds the gradient that the pass starts from. */
static bool backward_of_leaf(tg_tape *t, tg_tensor *leaf, const tg_tensor *gradient)
{
    void *adjoint = tg_pool_take(t->pool, tg_bytes_of(leaf));
    bool reserved = adjoint && tg_gradient_reserve(leaf, TG_GRAD_DENSE, 0);
    if (reserved) {
        write_first_adjoint(leaf, gradient, adjoint);
        keep_gradient(leaf, adjoint);
        tg_gradient_drop_frozen(leaf);
    }
    tg_pool_give(t->pool, adjoint);
    return reserved || tg_tape_fail(t, TG_ERROR_MEMORY, "backward", "out of memory");
}

static bool check_backwards(tg_tape *t, const char *call)
{
    return t->max_backwards == 0 || t->backwards < t->max_backwards ||
           tg_tape_fail(t, TG_ERROR_STATE, call,
                        "%lld backwards since the last reset, and the tape keeps the records of all; begin each "
                        "step with tg_tape_reset (tg_tape_config.max_backwards)",
                        (long long)t->backwards);
}

bool tg_run_backward(tg_pass *pass, const tg_backward_config *config)
{
    tg_tape *t = pass->tape;
    if (!check_backwards(t, pass->call)) {
        return false;
    }
    pass->spans_left = t->spans.count;
    /* The second pass uses blocks that the plan returns to the pool. */
    tg_pool_hold(t->pool, true);
    bool planned = tg_plan_backward(pass);
    if (planned) {
        run(pass, config);
        t->backwards += !config->retain_graph;
        tg_pool_give(t->pool, pass->scratch);
    }
    tg_pool_hold(t->pool, false);
    return planned;
}

bool tg_backward(tg_tape *t, tg_tensor *y, const tg_backward_config *given)
{
    tg_backward_config config = given ? *given : tg_backward_config_default();
    if (!tg_tape_expect_config(t, "backward", given, mark) || !check_result(t, y, config.gradient)) {
        return false;
    }
    if (y->node < 0) {
        bool added = check_backwards(t, "backward") && backward_of_leaf(t, y, config.gradient);
        if (added && config.on_gradient) {
            config.on_gradient(config.context, y);
        }
        return added;
    }
    tg_pass pass = {.call = "backward", .tape = t, .result = y};
    return tg_run_backward(&pass, &config);
}

bool tg_retain_grad(tg_tape *t, tg_tensor *x)
{
    if (!tg_tape_expect_tensor(t, "retain_grad", "tensor", x)) {
        return false;
    }
    if (!tg_tape_recorded(t, x) || !x->requires_grad) {
        return tg_tape_fail(t, TG_ERROR_STATE, "retain_grad", "the tensor was not recorded on this tape");
    }
    return tg_gradient_reserve(x, TG_GRAD_DENSE, 0) || tg_tape_fail(t, TG_ERROR_MEMORY, "retain_grad", "out of memory");
}

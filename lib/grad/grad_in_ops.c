/* grad_in_ops: reverse-mode differentiation by ops, which the tape records.
 *
 * It is the loop of tape/backward.c, last record first, but each record adds tensors to the gradients of its inputs
 * (tg_op.differentiate). The ops append to the arrays of the tape, which may move, so the loop reads copies of the
 * tensors and of the attributes, and finds a record by its number.
 */
#include <string.h>

#include "base/alloc.h"
#include "grad/grad.h"
#include "tape/backward.h"

#include <tapegrad/ops.h>

typedef struct pass {
    const tg_grad_call *g;
    tg_tape *tape;
    /* blocks of the pool: copies, and the gradients of the results, parallel to `tensors`, and of the inputs */
    tg_tensor **tensors, **of_results, **of_inputs;
    unsigned char *attributes;
    void *scratch; /* of the largest record */
} pass;

static bool begin(pass *p)
{
    tg_tape *t = p->tape;
    size_t scratch = 0, bytes = t->tensor_count * sizeof(tg_tensor *);
    size_t inputs = (size_t)p->g->input_count * sizeof(tg_tensor *);
    for (size_t k = 0; k < t->record_count; k++) {
        scratch = t->records[k].scratch > scratch ? t->records[k].scratch : scratch;
    }
    p->tensors = tg_pool_take(t->pool, bytes);
    p->of_results = tg_pool_take(t->pool, bytes);
    p->of_inputs = tg_pool_take(t->pool, inputs);
    p->attributes = tg_pool_take(t->pool, t->attribute_bytes + 1);
    p->scratch = tg_pool_take(t->pool, scratch);
    if (!p->tensors || !p->of_results || !p->of_inputs || !p->attributes || !p->scratch) {
        return tg_tape_fail(t, TG_ERROR_MEMORY, "grad", "out of memory");
    }
    memset(p->of_results, 0, bytes);
    memset(p->of_inputs, 0, inputs);
    if (bytes > 0) {
        memcpy(p->tensors, t->tensors, bytes);
    }
    if (t->attribute_bytes > 0) {
        memcpy(p->attributes, t->attributes, t->attribute_bytes);
    }
    return true;
}

static void end(pass *p)
{
    tg_pool *pool = p->tape->pool;
    tg_pool_give(pool, p->tensors);
    tg_pool_give(pool, p->of_results);
    tg_pool_give(pool, p->of_inputs);
    tg_pool_give(pool, p->attributes);
    tg_pool_give(pool, p->scratch);
}

/* Returns where the gradient of x adds up, a result or an input; NULL if nobody needs it. */
static tg_tensor **slot_of(const pass *p, const tg_tensor *x)
{
    if (x->node < 0) {
        int i = tg_find_tensor(p->g->inputs, p->g->input_count, x);
        return i < 0 ? NULL : &p->of_inputs[i];
    }
    const tg_record *record = &p->tape->records[x->node];
    size_t first = record->first_tensor + (size_t)record->input_count;
    return &p->of_results[first + (size_t)tg_find_tensor(p->tensors + first, record->output_count, x)];
}

/* Returns the sum of x over the axes along which `shape` was broadcast to it: a tensor of that shape. */
static tg_tensor *sum_to(tg_tape *t, tg_tensor *x, tg_shape shape)
{
    int axes[TG_MAX_RANK], count = 0, added = x->rank - shape.rank;
    for (int i = 0; i < x->rank; i++) {
        if (i < added || (shape.size[i - added] == 1 && x->shape[i] != 1)) {
            axes[count++] = i;
        }
    }
    x = count > 0 ? tg_sum(t, x, tg_axes_make(count, axes), TG_KEEP_AXES) : x;
    return x && !tg_shape_equal(tg_shape_of(x), shape) ? tg_reshape(t, x, shape) : x;
}

static bool add_gradient(const pass *p, const char *op, tg_tensor *x, tg_tensor *dx)
{
    tg_tape *t = p->tape;
    tg_shape shape = tg_shape_of(x), broadcast, whole = tg_shape_of(dx);
    if (dx->dtype != x->dtype || !tg_shape_broadcast(&shape, &whole, &broadcast) || !tg_shape_equal(broadcast, whole)) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "grad", "differentiate of '%s' gives %s %s for an input that is %s %s",
                            op, tg_dtype_name(tg_dtype_of(dx)), tg_shape_text(whole).text,
                            tg_dtype_name(tg_dtype_of(x)), tg_shape_text(shape).text);
    }
    tg_tensor **slot = slot_of(p, x);
    dx = sum_to(t, dx, shape);
    if (dx && slot) {
        dx = *slot = *slot ? tg_add(t, *slot, dx) : dx;
    }
    return dx != NULL;
}

/* Checks that the values that differentiate reads are there. */
static bool check_record(tg_tape *t, const tg_record *record)
{
    if (!record->op->differentiate) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "grad", "'%s' has no second derivative", record->op->name);
    }
    for (int i = 0; i < record->input_count + record->output_count; i++) {
        if (!tg_backward_ignores(record, i) && tg_is_dropped(t->tensors[record->first_tensor + (size_t)i])) {
            return tg_tape_fail(t, TG_ERROR_STATE, "grad",
                                "activation_checkpoint_end has dropped values that '%s' needs; with create_graph the "
                                "way must have no span",
                                record->op->name);
        }
    }
    return tg_check_unfreed(t, "grad", record) && tg_check_versions(t, "grad", record);
}

/* Adds to the gradients of the inputs of record k, if its results have any. */
static bool differentiate(const pass *p, size_t k)
{
    tg_tape *t = p->tape;
    const tg_record record = t->records[k];
    tg_tensor *const *inputs = p->tensors + record.first_tensor, *const *outputs = inputs + record.input_count;
    tg_tensor *const *dy = p->of_results + record.first_tensor + record.input_count;
    bool any = false;
    for (int i = 0; i < record.output_count; i++) {
        any |= dy[i] != NULL;
    }
    if (!any) {
        return true;
    }
    if (!check_record(t, &record)) {
        return false;
    }
    size_t count = (size_t)record.input_count;
    tg_tensor **dx = tg_pool_take(t->pool, count * sizeof *dx);
    tg_gradient_mode *modes = tg_pool_take(t->pool, count * sizeof *modes);
    bool done = dx && modes;
    tg_pass wanted = {.tape = t, .targets = p->g->inputs, .target_count = p->g->input_count};
    for (size_t i = 0; done && i < count; i++) {
        bool needs = t->states[record.first_tensor + i].requires_grad && inputs[i]->requires_grad;
        modes[i] = needs && tg_is_wanted(&wanted, inputs[i]) ? TG_GRADIENT_ADD : TG_GRADIENT_NONE;
        dx[i] = NULL;
    }
    if (done) {
        tg_op_call call = {.op = record.op,
                           .tape = t,
                           .input_count = record.input_count,
                           .output_count = record.output_count,
                           .inputs = inputs,
                           .attributes = record.attributes == SIZE_MAX ? NULL : p->attributes + record.attributes,
                           .saved = record.saved,
                           .scratch = p->scratch,
                           .training = record.training,
                           .is_repeated = true,
                           .gradient_modes = modes};
        for (int i = 0; i < record.output_count; i++) {
            call.outputs[i] = outputs[i];
        }
        bool reproducible = t->reproducible;
        t->reproducible = record.reproducible;
        record.op->differentiate(t, &call, dy, dx);
        t->reproducible = reproducible;
        done = t->error->code == TG_OK;
    } else {
        tg_tape_fail(t, TG_ERROR_MEMORY, "grad", "out of memory");
    }
    for (size_t i = 0; done && i < count; i++) {
        if (modes[i] != TG_GRADIENT_NONE && dx[i]) {
            done = add_gradient(p, record.op->name, inputs[i], dx[i]);
        }
    }
    tg_pool_give(t->pool, dx);
    tg_pool_give(t->pool, modes);
    return done;
}

/* Returns the gradient with zeros in the frozen rows of x. */
static tg_tensor *without_frozen_rows(tg_tape *t, const tg_tensor *x, tg_tensor *gradient)
{
    tg_shape shape = {.rank = x->rank};
    for (int i = 0; i < x->rank; i++) {
        shape.size[i] = i == 0 ? x->shape[0] : 1;
    }
    tg_tensor *kept = tg_tape_new_tensor(t, "grad", tg_dtype_of(x), shape);
    for (int64_t row = 0; kept && row < x->shape[0]; row++) {
        tg_put(kept, row, !x->rows->frozen[row]);
    }
    return tg_mul(t, gradient, kept);
}

/* Returns the result for an input: one of the tape's own, contiguous, which is no other's gradient either. */
static tg_tensor *finish(tg_tape *t, const tg_tensor *x, tg_tensor *gradient)
{
    gradient = tg_has_frozen_rows(x) ? without_frozen_rows(t, x, gradient) : gradient;
    return gradient && gradient->contiguous ? tg_mul_scalar(t, gradient, 1) : tg_contiguous(t, gradient);
}

static bool run(const pass *p)
{
    const tg_grad_call *g = p->g;
    tg_tape *t = p->tape;
    for (int i = 0; i < g->output_count; i++) {
        tg_tensor *y = g->outputs[i], *dy = tg_given_gradient(g, i);
        dy = dy ? dy : tg_full(t, tg_dtype_of(y), tg_shape_of(y), 1);
        if (!dy || !add_gradient(p, "output", y, dy)) {
            return false;
        }
    }
    for (size_t k = t->record_count; k-- > 0;) {
        if (t->records[k].on_path && !differentiate(p, k)) {
            return false;
        }
    }
    for (int i = 0; i < g->input_count; i++) {
        tg_tensor *x = g->inputs[i], *gradient = *slot_of(p, x);
        if (!gradient && tg_has_path(t, g->outputs, g->output_count, x)) { /* ops without a slope */
            gradient = tg_full(t, tg_dtype_of(x), tg_shape_of(x), 0);
        }
        int first = tg_find_tensor(g->inputs, g->input_count, x);
        g->gradients[i] = first < i ? g->gradients[first] : gradient ? finish(t, x, gradient) : NULL;
        if (t->error->code != TG_OK) {
            return false;
        }
    }
    return true;
}

bool tg_grad_in_ops(const tg_grad_call *g)
{
    pass p = {.g = g, .tape = g->tape};
    bool done = begin(&p) && run(&p);
    end(&p);
    return done;
}

/* grad: the gradients of results with respect to leaves and results, as results of the same tape.
 *
 * Without create_graph the kernels of backward run, along the paths from the outputs to the inputs alone. A gradient is
 * added to that of its tensor, so each input gets an empty one for the time of the pass, which then becomes the result.
 * A pass starts from one result. Several outputs, and a leaf as output, become one: the sum of outputs times gradients,
 * whose records are removed afterwards.
 *
 * With create_graph the gradients are computed by ops (grad_in_ops.c).
 */
#include "base/alloc.h"
#include "grad/grad.h"
#include "tape/backward.h"
#include "tensor/gradient.h"

#include <tapegrad/ops.h>

TG_CONFIG(tg_grad_config, tg_grad_config_default, mark, .mark = mark);

/* ---- checks ---- */

static bool check_tensor(tg_tape *t, const char *kind, int i, const tg_tensor *x)
{
    char name[32];
    snprintf(name, sizeof name, "%s %d", kind, i);
    if (!tg_tape_expect_tensor(t, "grad", name, x)) {
        return false;
    }
    if (x->node >= 0 && x->owner != &t->owner) {
        return tg_tape_fail(t, TG_ERROR_STATE, "grad", "%s was recorded on another tape", name);
    }
    return x->requires_grad ||
           tg_tape_fail(t, TG_ERROR_STATE, "grad",
                        "%s does not require a gradient; a result of tg_grad does with create_graph", name);
}

static bool check_output(const tg_grad_call *g, int i)
{
    tg_tape *t = g->tape;
    const tg_tensor *y = g->outputs[i], *dy = tg_given_gradient(g, i);
    if (!check_tensor(t, "output", i, y)) {
        return false;
    }
    if (y->dtype != g->outputs[0]->dtype) {
        return tg_tape_fail(t, TG_ERROR_DTYPE, "grad", "output %d is %s, and output 0 %s; all need one dtype", i,
                            tg_dtype_name(tg_dtype_of(y)), tg_dtype_name(tg_dtype_of(g->outputs[0])));
    }
    if (!dy) {
        return y->count == 1 ||
               tg_tape_fail(t, TG_ERROR_SHAPE, "grad",
                            "output %d has shape %s; it must have one value, unless config.output_gradients has its "
                            "gradient",
                            i, tg_shape_text_of(y).text);
    }
    if (!tg_tensor_check("grad", "output gradient", dy, t->error)) {
        return false;
    }
    if (dy->dtype != y->dtype) {
        return tg_tape_fail(t, TG_ERROR_DTYPE, "grad", "output gradient %d is %s, and output %d %s", i,
                            tg_dtype_name(tg_dtype_of(dy)), i, tg_dtype_name(tg_dtype_of(y)));
    }
    return tg_same_shape(dy, y) ||
           tg_tape_fail(t, TG_ERROR_SHAPE, "grad", "output gradient %d has shape %s, and output %d %s", i,
                        tg_shape_text_of(dy).text, i, tg_shape_text_of(y).text);
}

static bool check(const tg_grad_call *g, const tg_grad_config *given)
{
    tg_tape *t = g->tape;
    if (!tg_tape_expect_config(t, "grad", given, mark)) {
        return false;
    }
    if (!g->outputs || !g->inputs || !g->gradients) {
        return tg_tape_fail(t, TG_ERROR_STATE, "grad", "the %s are NULL",
                            !g->outputs  ? "outputs"
                            : !g->inputs ? "inputs"
                                         : "gradients");
    }
    if (g->output_count < 1 || g->input_count < 1) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "grad", "%d outputs and %d inputs; there must be at least one of each",
                            g->output_count, g->input_count);
    }
    if (!tg_config_check_list("grad", "output_gradients", g->config.output_gradients, "output_gradient_count",
                              g->config.output_gradient_count, t->error)) {
        return false;
    }
    if (g->config.output_gradients && g->config.output_gradient_count != g->output_count) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "grad", "%d output_gradients for %d outputs",
                            g->config.output_gradient_count, g->output_count);
    }
    for (int i = 0; i < g->output_count; i++) {
        if (!check_output(g, i)) {
            return false;
        }
    }
    for (int i = 0; i < g->input_count; i++) {
        if (!check_tensor(t, "input", i, g->inputs[i])) {
            return false;
        }
    }
    return t->spans.open == 0 ||
           tg_tape_fail(t, TG_ERROR_STATE, "grad", "a span is open; call activation_checkpoint_end before");
}

static bool check_used(const tg_grad_call *g)
{
    for (int i = 0; !g->config.allow_unused && i < g->input_count; i++) {
        if (!tg_has_path(g->tape, g->outputs, g->output_count, g->inputs[i])) {
            return tg_tape_fail(g->tape, TG_ERROR_STATE, "grad",
                                "no output depends on input %d; config.allow_unused gives it the gradient NULL", i);
        }
    }
    return true;
}

/* ---- by the kernels ---- */

/* Returns the sum of the outputs times their gradients. Its records come after those of the outputs. */
static tg_tensor *add_up(const tg_grad_call *g)
{
    tg_tape *t = g->tape;
    tg_tensor *total = NULL;
    for (int i = 0; i < g->output_count; i++) {
        tg_tensor *y = g->outputs[i], *dy = tg_given_gradient(g, i);
        y = tg_sum(t, dy ? tg_mul(t, y, dy) : y, TG_ALL_AXES, TG_DROP_AXES);
        total = total ? tg_add(t, total, y) : y;
    }
    return total;
}

/* Gives each input an empty gradient, and keeps the one it had. An input that is given twice has one. */
static bool hide_gradients(const tg_grad_call *g, tg_gradient **hidden)
{
    for (int i = 0; i < g->input_count; i++) {
        tg_tensor *x = g->inputs[i];
        hidden[i] = x->gradient;
        x->gradient = NULL;
    }
    for (int i = 0; i < g->input_count; i++) {
        if (!tg_gradient_reserve(g->inputs[i], TG_GRAD_DENSE, 0)) {
            return tg_tape_fail(g->tape, TG_ERROR_MEMORY, "grad", "out of memory");
        }
    }
    return true;
}

/* Gives each input its gradient back. Those of the pass become results, for which there is space, unless `failed`. */
static void restore_gradients(const tg_grad_call *g, tg_gradient *const *hidden, bool failed)
{
    for (int i = 0; i < g->input_count; i++) {
        tg_tensor *x = g->inputs[i];
        int first = tg_find_tensor(g->inputs, g->input_count, x);
        if (first < i) {
            g->gradients[i] = g->gradients[first];
            continue;
        }
        if (!failed && tg_tensor_grad_kind(x) != TG_GRAD_NONE) {
            tg_gradient_write(x, NULL); /* rows become dense */
            tg_tensor *dense = x->gradient->dense;
            x->gradient->dense = NULL;
            dense->is_gradient = false;
            tg_tape_adopt(g->tape, dense, "grad");
            g->gradients[i] = dense;
        }
        tg_gradient_free(x);
        x->gradient = hidden[i];
    }
}

static bool run_kernels(const tg_grad_call *g)
{
    tg_tape *t = g->tape;
    tg_gradient **hidden = tg_pool_take(t->pool, (size_t)g->input_count * sizeof(tg_gradient *));
    if (!hidden || !tg_tape_reserve_results(t, (size_t)g->input_count)) {
        tg_pool_give(t->pool, hidden);
        return tg_tape_fail(t, TG_ERROR_MEMORY, "grad", "out of memory");
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    bool is_one = g->output_count == 1 && g->outputs[0]->node >= 0;
    bool recording = t->recording;
    t->recording = true;
    tg_tensor *y = is_one ? g->outputs[0] : add_up(g);
    t->recording = recording;
    bool done = false;
    if (y) {
        tg_find_paths(t, &y, 1, g->inputs, g->input_count);
    }
    if (y && check_used(g)) {
        tg_pass pass = {.call = "grad", .tape = t, .result = y, .targets = g->inputs, .target_count = g->input_count};
        tg_backward_config config = tg_backward_config_default();
        config.gradient = is_one ? tg_given_gradient(g, 0) : NULL;
        config.retain_graph = g->config.retain_graph;
        done = hide_gradients(g, hidden) && tg_run_backward(&pass, &config);
        if (!is_one) {
            tg_tape_end(t, &point, NULL);
        }
        restore_gradients(g, hidden, !done);
    } else {
        tg_tape_end(t, &point, NULL);
    }
    tg_pool_give(t->pool, hidden);
    return done;
}

/* ---- by ops ---- */

static bool record_ops(const tg_grad_call *g)
{
    tg_tape *t = g->tape;
    tg_find_paths(t, g->outputs, g->output_count, g->inputs, g->input_count);
    if (!check_used(g)) {
        return false;
    }
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    bool recording = t->recording;
    t->recording = true;
    bool done = tg_grad_in_ops(g);
    t->recording = recording;
    if (!done) {
        tg_tape_end(t, &point, NULL);
    }
    return done;
}

bool tg_grad(tg_tape *t, tg_tensor *const *outputs, int output_count, tg_tensor *const *inputs, int input_count,
             tg_tensor **gradients, const tg_grad_config *given)
{
    tg_grad_call g = {.tape = t,
                      .outputs = outputs,
                      .inputs = inputs,
                      .output_count = output_count,
                      .input_count = input_count,
                      .gradients = gradients,
                      .config = given ? *given : tg_grad_config_default()};
    for (int i = 0; gradients && i < input_count; i++) {
        gradients[i] = NULL;
    }
    bool done = check(&g, given) && (g.config.create_graph ? record_ops(&g) : run_kernels(&g));
    for (int i = 0; !done && gradients && i < input_count; i++) {
        gradients[i] = NULL;
    }
    return done;
}

/* hvp: products of a Hessian and a vector, by two passes of differentiation or by differences of gradients.
 *
 * All that a call records is removed at its end but the products.
 */
#include <math.h>

#include "base/alloc.h"
#include "grad/grad.h"

#include <tapegrad/ops.h>

TG_CONFIG(tg_hvp_config, tg_hvp_config_default, mark, .mark = mark);

typedef struct hvp {
    tg_tape *tape;
    tg_loss_function loss;
    void *context;
    tg_tensor *const *inputs, *const *vectors;
    tg_tensor **products;
    int count;
    /* a block of the pool: the gradients; and, by two passes, those that depend on an input, with their vectors, or, by
     * differences, copies of the inputs, and the gradients at x + h v */
    tg_tensor **gradients, **outputs, **directions;
} hvp;

static bool check(const hvp *h, const tg_hvp_config *given, double step)
{
    tg_tape *t = h->tape;
    if (!tg_tape_expect_config(t, "hvp", given, mark)) {
        return false;
    }
    if (!h->loss || !h->inputs || !h->vectors || !h->products) {
        return tg_tape_fail(t, TG_ERROR_STATE, "hvp", "the %s NULL",
                            !h->loss      ? "loss is"
                            : !h->inputs  ? "inputs are"
                            : !h->vectors ? "vectors are"
                                          : "products are");
    }
    if (h->count < 1) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "hvp", "%d inputs; there must be at least one", h->count);
    }
    if (!(step >= 0 && isfinite(step))) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "hvp", "step %g; it must be finite, and 0 or more", step);
    }
    for (int i = 0; i < h->count; i++) {
        const tg_tensor *x = h->inputs[i], *v = h->vectors[i];
        if (!tg_tape_expect_values(t, "hvp", "input", x) || !tg_tape_expect_values(t, "hvp", "vector", v)) {
            return false;
        }
        if (x->node >= 0 || !x->requires_grad) {
            return tg_tape_fail(t, TG_ERROR_STATE, "hvp", "input %d is no leaf that requires a gradient", i);
        }
        if (!tg_same_shape(x, v) || x->dtype != v->dtype) {
            return tg_tape_fail(t, TG_ERROR_SHAPE, "hvp", "vector %d is %s %s, and the input %s %s", i,
                                tg_dtype_name(tg_dtype_of(v)), tg_shape_text_of(v).text, tg_dtype_name(tg_dtype_of(x)),
                                tg_shape_text_of(x).text);
        }
    }
    return true;
}

/* Computes the gradients of the loss. One on which it does not depend is NULL. */
static bool differentiate(const hvp *h, bool create_graph, tg_tensor **gradients)
{
    tg_tensor *y = h->loss(h->tape, h->context);
    tg_grad_config config = tg_grad_config_default();
    config.create_graph = create_graph;
    config.allow_unused = true;
    return tg_grad(h->tape, &y, 1, h->inputs, h->count, gradients, &config);
}

static bool by_two_passes(const hvp *h)
{
    int count = 0;
    if (!differentiate(h, true, h->gradients)) {
        return false;
    }
    for (int i = 0; i < h->count; i++) {
        if (h->gradients[i] && h->gradients[i]->requires_grad) {
            h->outputs[count] = h->gradients[i];
            h->directions[count++] = h->vectors[i];
        }
    }
    tg_grad_config config = tg_grad_config_default();
    config.output_gradients = h->directions;
    config.output_gradient_count = count;
    config.allow_unused = true;
    return count == 0 || tg_grad(h->tape, h->outputs, count, h->inputs, h->count, h->products, &config);
}

/* Computes the gradients at x + factor v, with the generator as it was, and moves the inputs back. */
static bool differentiate_at(const hvp *h, const tg_tape_point *point, double factor, tg_tensor **gradients)
{
    tg_tape *t = h->tape;
    bool done = true;
    if (point->draws) {
        tg_rng_copy(t->rng, &point->rng);
    }
    t->recording = false;
    for (int i = 0; i < h->count; i++) {
        tg_tensor *moved = tg_add(t, h->outputs[i], tg_mul_scalar(t, h->vectors[i], factor));
        done = moved && tg_tensor_copy_from(h->inputs[i], moved, t->error) && done;
    }
    t->recording = true;
    done = done && differentiate(h, false, gradients);
    for (int i = 0; i < h->count; i++) {
        tg_tensor_copy_from(h->inputs[i], h->outputs[i], t->error);
    }
    return done;
}

static bool by_differences(const hvp *h, const tg_tape_point *point, double step)
{
    tg_tape *t = h->tape;
    bool done = true;
    t->recording = false;
    for (int i = 0; i < h->count; i++) {
        h->outputs[i] = tg_mul_scalar(t, h->inputs[i], 1); /* a copy */
        done &= h->outputs[i] != NULL;
    }
    done = done && differentiate_at(h, point, step, h->directions) && differentiate_at(h, point, -step, h->gradients);
    for (int i = 0; done && i < h->count; i++) {
        if (h->directions[i] && h->gradients[i]) {
            h->products[i] = tg_div_scalar(t, tg_sub(t, h->directions[i], h->gradients[i]), 2 * step);
            done = h->products[i] != NULL;
        }
    }
    return done;
}

/* Removes what was recorded since the point. With `done` the products stay, and those that are NULL become zeros. */
static bool end(const hvp *h, const tg_tape_point *point, bool done)
{
    tg_tape *t = h->tape;
    for (int i = 0; done && i < h->count; i++) {
        const tg_tensor *x = h->inputs[i];
        h->products[i] = h->products[i] ? h->products[i] : tg_full(t, tg_dtype_of(x), tg_shape_of(x), 0);
        done = h->products[i] != NULL;
    }
    for (int i = 0; done && i < h->count; i++) {
        tg_retain(h->products[i]);
    }
    tg_tape_end(t, point, NULL);
    for (int i = 0; i < h->count; i++) {
        if (done) {
            tg_tape_adopt(t, h->products[i], "hvp"); /* there is space: more results were removed */
        } else {
            h->products[i] = NULL;
        }
    }
    return done;
}

bool tg_hvp(tg_tape *t, tg_loss_function loss, void *context, tg_tensor *const *inputs, int count,
            tg_tensor *const *vectors, tg_tensor **products, const tg_hvp_config *given)
{
    hvp h = {t, loss, context, inputs, vectors, products, count, NULL, NULL, NULL};
    const double step = given ? given->step : 0;
    for (int i = 0; products && i < count; i++) {
        products[i] = NULL;
    }
    if (!check(&h, given, step)) {
        return false;
    }
    h.gradients = tg_pool_take(t->pool, 3 * (size_t)count * sizeof(tg_tensor *));
    if (!h.gradients) {
        return tg_tape_fail(t, TG_ERROR_MEMORY, "hvp", "out of memory");
    }
    h.outputs = h.gradients + count;
    h.directions = h.outputs + count;
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    bool recording = t->recording;
    int64_t backwards = t->backwards;
    t->recording = true;
    bool done = step > 0 ? by_differences(&h, &point, step) : by_two_passes(&h);
    t->recording = recording;
    t->backwards = backwards; /* nothing of them is kept */
    done = end(&h, &point, done);
    tg_pool_give(t->pool, h.gradients);
    return done;
}

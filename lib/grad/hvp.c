/* hvp: products of a Hessian and a vector, by two passes of differentiation or by differences of gradients.
 *
 * All that a call records is removed at its end but the products.
 */
#include <math.h>

#include "base/alloc.h"
#include "grad/grad.h"

#include <tapegrad/ops.h>

static const char mark[] = "tg_hvp_config_default";

tg_hvp_config tg_hvp_config_default(void)
{
    return (tg_hvp_config){.mark = mark};
}

typedef struct hvp {
    tg_tape *tape;
    tg_loss_function loss;
    void *context;
    tg_tensor *const *inputs, *const *vectors;
    int count;
    double step;
    /* blocks of the pool: the gradients at x, and at x + h v; and those that depend on x, with their vectors */
    tg_tensor **gradients, **ahead, **outputs, **directions;
    tg_tensor **products;
} hvp;

static bool check(const hvp *h, const tg_hvp_config *given)
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
    if (!(h->step >= 0 && isfinite(h->step))) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "hvp", "step %g; it must be finite, and 0 or more", h->step);
    }
    for (int i = 0; i < h->count; i++) {
        const tg_tensor *x = h->inputs[i], *v = h->vectors[i];
        char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
        if (!tg_tape_expect_values(t, "hvp", "input", x) || !tg_tape_expect_values(t, "hvp", "vector", v)) {
            return false;
        }
        if (x->node >= 0 || !x->requires_grad) {
            return tg_tape_fail(t, TG_ERROR_STATE, "hvp", "input %d is no leaf that requires a gradient", i);
        }
        if (!tg_same_shape(x, v) || x->dtype != v->dtype) {
            return tg_tape_fail(t, TG_ERROR_SHAPE, "hvp", "vector %d is %s %s, and the input %s %s", i,
                                tg_dtype_name(tg_dtype_of(v)), tg_shape_format(tg_shape_of(v), a),
                                tg_dtype_name(tg_dtype_of(x)), tg_shape_format(tg_shape_of(x), b));
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

/* Sets the inputs to kept + factor v. */
static void move(const hvp *h, tg_tensor *const *kept, double factor)
{
    for (int i = 0; i < h->count; i++) {
        tg_tensor *x = h->inputs[i], *to = h->outputs[i];
        for (int64_t k = 0; k < x->count; k++) {
            tg_put(to, k, tg_get(kept[i], k) + (factor != 0 ? factor * tg_value_at(h->vectors[i], k) : 0));
        }
        tg_copy_from_contiguous(x, tg_values(to));
        tg_touch(x);
    }
}

static bool by_differences(const hvp *h)
{
    tg_tape *t = h->tape;
    for (int i = 0; i < h->count; i++) {
        const tg_tensor *x = h->inputs[i];
        h->directions[i] = tg_tape_new_tensor(t, "hvp", tg_dtype_of(x), tg_shape_of(x));
        h->outputs[i] = tg_tape_new_tensor(t, "hvp", tg_dtype_of(x), tg_shape_of(x));
        if (!h->directions[i] || !h->outputs[i]) {
            return false;
        }
        tg_copy_to_contiguous(x, tg_values(h->directions[i]));
    }
    tg_rng before;
    if (t->rng) {
        tg_rng_copy(&before, t->rng);
    }
    move(h, h->directions, h->step);
    bool done = differentiate(h, false, h->ahead);
    if (t->rng) {
        tg_rng_copy(t->rng, &before);
    }
    move(h, h->directions, -h->step);
    done = done && differentiate(h, false, h->gradients);
    move(h, h->directions, 0);
    for (int i = 0; done && i < h->count; i++) {
        if (h->ahead[i] && h->gradients[i]) {
            h->products[i] = tg_div_scalar(t, tg_sub(t, h->ahead[i], h->gradients[i]), 2 * h->step);
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
    hvp h = {.tape = t,
             .loss = loss,
             .context = context,
             .inputs = inputs,
             .vectors = vectors,
             .count = count,
             .step = given ? given->step : 0,
             .products = products};
    for (int i = 0; products && i < count; i++) {
        products[i] = NULL;
    }
    if (!check(&h, given)) {
        return false;
    }
    tg_tensor **lists = tg_pool_take(t->pool, 4 * (size_t)count * sizeof *lists);
    if (!lists) {
        return tg_tape_fail(t, TG_ERROR_MEMORY, "hvp", "out of memory");
    }
    h.gradients = lists;
    h.ahead = lists + count;
    h.outputs = lists + 2 * count;
    h.directions = lists + 3 * count;
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    bool recording = t->recording;
    int64_t backwards = t->backwards;
    t->recording = true;
    bool done = h.step > 0 ? by_differences(&h) : by_two_passes(&h);
    t->recording = recording;
    t->backwards = backwards; /* nothing of them is kept */
    done = end(&h, &point, done);
    tg_pool_give(t->pool, lists);
    return done;
}

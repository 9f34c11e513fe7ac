/* maml: model-agnostic meta-learning (Finn et al. 2017). Each task is a sine wave of its own amplitude and phase, of
 * which ten points are seen. One step of gradient descent on these shall be enough to know the whole wave. What is
 * learned are the weights from which that step starts: the loss after the step is differentiated through the step,
 * whose gradient is a part of the graph. Prints the mean loss on new waves before and after a step, from the first
 * weights and from the learned ones. */
#include "recipe.h"

const char program_name[] = "cookbook_maml";

enum { SEEN = 10, WIDTH = 40, TASKS = 4, STEPS = 500, TESTS = 100, WEIGHTS = 6 };
static const double rate = 0.05, pi = 3.14159265358979;

/* x (N,1) -> y (N,1), by three layers with the weights w[0], w[2], w[4] and the biases w[1], w[3], w[5] */
static tg_tensor *forward(tg_tape *t, tg_tensor *const *w, tg_tensor *x)
{
    x = tg_tanh(t, tg_linear(t, x, w[0], w[1]));
    x = tg_tanh(t, tg_linear(t, x, w[2], w[3]));
    return tg_linear(t, x, w[4], w[5]);
}

static tg_tensor *uniform(recipe *r, tg_shape shape, double low, double high)
{
    tg_tensor *x = tg_full(r->tape, TG_F32, shape, 0);
    tg_tensor_fill_uniform(x, tg_run_rng(r->run), low, high, &r->error);
    return x;
}

/* Returns the loss of a new wave, y = amplitude sin(x + phase), after a step w - rate dloss/dw; *before has the one
 * before it. */
static tg_tensor *losses(recipe *r, tg_tensor *const *w, tg_tensor **before)
{
    tg_tape *t = r->tape;
    tg_tensor *amplitude = uniform(r, TG_SHAPE(1), 0.1, 5), *phase = uniform(r, TG_SHAPE(1), 0, pi);
    tg_tensor *x = uniform(r, TG_SHAPE(2 * SEEN, 1), -5, 5);
    tg_tensor *y = tg_mul(t, amplitude, tg_sin(t, tg_add(t, x, phase)));
    /* the step sees the first half of the points; the loss after it is that of the others */
    tg_tensor *xs[2], *ys[2], *slopes[WEIGHTS], *stepped[WEIGHTS];
    tg_split(t, x, SEEN, 0, xs, 2);
    tg_split(t, y, SEEN, 0, ys, 2);
    *before = tg_mse_loss(t, forward(t, w, xs[0]), ys[0], TG_REDUCTION_MEAN);
    tg_grad_config recorded = tg_grad_config_default();
    recorded.create_graph = true;
    tg_grad(t, before, 1, w, WEIGHTS, slopes, &recorded);
    for (int i = 0; i < WEIGHTS; i++) {
        stepped[i] = tg_sub(t, w[i], tg_mul_scalar(t, slopes[i], rate));
    }
    return tg_mse_loss(t, forward(t, stepped, xs[1]), ys[1], TG_REDUCTION_MEAN);
}

static void test(recipe *r, tg_tensor *const *w, const char *name)
{
    double total_before = 0, total_after = 0;
    for (int i = 0; i < TESTS; i++) {
        tg_tape_reset(r->tape);
        tg_tensor *before, *after = losses(r, w, &before);
        total_before += tg_tensor_item(before, &r->error);
        total_after += tg_tensor_item(after, &r->error);
        recipe_check(r);
    }
    printf("%s weights: loss %.2f, after a step %.2f\n", name, total_before / TESTS, total_after / TESTS);
}

int main(int argc, char **argv)
{
    recipe_options("learns weights from which one step learns a sine wave", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    tg_nn_linear_make(r.params, "first", 1, WIDTH, TG_BIAS);
    tg_nn_linear_make(r.params, "second", WIDTH, WIDTH, TG_BIAS);
    tg_nn_linear_make(r.params, "head", WIDTH, 1, TG_BIAS);
    tg_tensor *w[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) {
        w[i] = tg_params_at(r.params, i).tensor;
    }
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.01;
    r.optim = tg_adam_new(r.params, &adam);

    test(&r, w, "first");
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor *loss = NULL;
        for (int task = 0; task < TASKS; task++) {
            tg_tensor *before, *after = losses(&r, w, &before);
            loss = loss ? tg_add(t, loss, after) : after;
        }
        tg_optim_zero_grad(r.optim);
        tg_backward(t, tg_div_scalar(t, loss, TASKS), NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    test(&r, w, "learned");
    return recipe_end(&r);
}

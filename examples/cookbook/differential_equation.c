/* differential_equation: a network solves y'' = -y with y(0) = 0 and y'(0) = 1 (Raissi et al. 2019). The derivatives of
 * y with respect to x are two calls of grad. The loss is how far they are from the equation; it knows no solution.
 * Prints the loss of the last step, and the largest distance from the solution, which is sin(x). */
#include "recipe.h"

const char program_name[] = "cookbook_differential_equation";

enum { POINTS = 64, WIDTH = 32, STEPS = 1000 };
static const double pi = 3.14159265358979;

/* dy/dx (POINTS,1): each y depends on its own x alone, so the gradient of their sum has the derivative of each. */
static tg_tensor *derivative(tg_tape *t, tg_tensor *y, tg_tensor *x)
{
    tg_grad_config recorded = tg_grad_config_default();
    recorded.create_graph = true;
    tg_tensor *total = tg_sum_all(t, y), *slope;
    tg_grad(t, &total, 1, &x, 1, &slope, &recorded);
    return slope;
}

int main(int argc, char **argv)
{
    recipe_options("a network solves y'' = -y", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    tg_nn_linear first = tg_nn_linear_make(r.params, "first", 1, WIDTH, TG_BIAS);
    tg_nn_linear second = tg_nn_linear_make(r.params, "second", WIDTH, WIDTH, TG_BIAS);
    tg_nn_linear head = tg_nn_linear_make(r.params, "head", WIDTH, 1, TG_BIAS);
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.003;
    r.optim = tg_adam_new(r.params, &adam);

    tg_tensor *x = tg_full(r.data, TG_F32, TG_SHAPE(POINTS, 1), 0), *y = NULL, *loss = NULL;
    tg_tensor_set_requires_grad(x, true, &r.error);
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor_fill_uniform(x, tg_run_rng(r.run), 0, pi, &r.error);
        /* y = x + x^2 net(x) has the wanted y(0) and y'(0), whatever the network computes */
        tg_tensor *net = tg_tanh(t, tg_nn_linear_forward(t, &first, x));
        net = tg_nn_linear_forward(t, &head, tg_tanh(t, tg_nn_linear_forward(t, &second, net)));
        y = tg_add(t, x, tg_mul(t, tg_mul(t, x, x), net));
        tg_tensor *residual = tg_add(t, derivative(t, derivative(t, y, x), x), y);
        loss = tg_mean_all(t, tg_mul(t, residual, residual));
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    tg_tensor *error = tg_amax(t, tg_abs(t, tg_sub(t, y, tg_sin(t, x))), TG_ALL_AXES, TG_DROP_AXES);
    printf("loss %.4f, largest error %.3f\n", tg_tensor_item(loss, &r.error), tg_tensor_item(error, &r.error));
    return recipe_end(&r);
}

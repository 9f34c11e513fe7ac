/* gradient_penalty: the critic of a WGAN-GP (Gulrajani et al. 2017). A critic f whose slopes have a norm of at most 1,
 * and which is high at real points and low at fake ones, tells how far apart the two are: the mean way on which the
 * ones are moved to become the others (Wasserstein's distance). The penalty keeps the norm of the slope near 1, so its
 * gradient is a gradient of a gradient. Here the points are on circles of radius 1 and 3, whose distance is 2. A
 * penalty of weight 10 lets the slope grow to 1 + 2 / (2 * 10) = 1.1, so the critic will tell 2.2. Prints what it tells
 * in the last step, and the mean norm of its slope. */
#include "recipe.h"

const char program_name[] = "cookbook_gradient_penalty";

enum { POINTS = 64, WIDTH = 64, STEPS = 1000, WEIGHT = 10 };

/* x (POINTS,2) -> f(x) (POINTS,1) */
static tg_tensor *forward(tg_tape *t, const tg_nn_linear *f, tg_tensor *x)
{
    x = tg_silu(t, tg_nn_linear_forward(t, &f[0], x));
    x = tg_silu(t, tg_nn_linear_forward(t, &f[1], x));
    return tg_nn_linear_forward(t, &f[2], x);
}

/* Points (POINTS,2) on a circle. */
static tg_tensor *circle(recipe *r, double radius)
{
    tg_tape *t = r->tape;
    tg_tensor *x = tg_full(t, TG_F32, TG_SHAPE(POINTS, 2), 0);
    tg_tensor_fill_normal(x, tg_run_rng(r->run), 0, 1, &r->error);
    return tg_mul_scalar(t, tg_div(t, x, tg_norm(t, x, 2, TG_AXES(-1), TG_KEEP_AXES)), radius);
}

int main(int argc, char **argv)
{
    recipe_options("the critic of a WGAN-GP tells how far apart two circles are", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    tg_nn_linear f[] = {tg_nn_linear_make(r.params, "first", 2, WIDTH, TG_BIAS),
                        tg_nn_linear_make(r.params, "second", WIDTH, WIDTH, TG_BIAS),
                        tg_nn_linear_make(r.params, "head", WIDTH, 1, TG_BIAS)};
    tg_adam_config adam = tg_adam_config_default();
    adam.lr = 0.002;
    adam.beta1 = 0.5;
    adam.beta2 = 0.9;
    r.optim = tg_adam_new(r.params, &adam);

    tg_grad_config recorded = tg_grad_config_default();
    recorded.create_graph = true;
    tg_tensor *distance = NULL, *norm = NULL;
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor *real = circle(&r, 3), *fake = circle(&r, 1), *part = tg_full(t, TG_F32, TG_SHAPE(POINTS, 1), 0);
        tg_tensor_fill_uniform(part, tg_run_rng(r.run), 0, 1, &r.error);
        tg_tensor *between = tg_add(t, fake, tg_mul(t, part, tg_sub(t, real, fake)));
        tg_tensor_set_requires_grad(between, true, &r.error);
        /* the mean of f(real) - the mean of f(fake) */
        distance = tg_sub(t, tg_mean_all(t, forward(t, f, real)), tg_mean_all(t, forward(t, f, fake)));
        /* slope (POINTS,2) = df/dx at points between the two; penalty = the mean of (|slope| - 1)^2 */
        tg_tensor *total = tg_sum_all(t, forward(t, f, between)), *slope;
        tg_grad(t, &total, 1, &between, 1, &slope, &recorded);
        norm = tg_norm(t, slope, 2, TG_AXES(-1), TG_DROP_AXES);
        tg_tensor *penalty = tg_mean_all(t, tg_pow_scalar(t, tg_add_scalar(t, norm, -1), 2));
        tg_tensor *loss = tg_sub(t, tg_mul_scalar(t, penalty, WEIGHT), distance);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r.optim);
        recipe_check(&r);
    }
    printf("distance %.3f, slope %.3f\n", tg_tensor_item(distance, &r.error),
           tg_tensor_item(tg_mean_all(t, norm), &r.error));
    return recipe_end(&r);
}

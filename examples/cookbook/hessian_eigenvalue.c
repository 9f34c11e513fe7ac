/* hessian_eigenvalue: the largest eigenvalue of the Hessian H of a small GPT's loss, by power iteration: v <- Hv /
 * |Hv|. The product Hv needs no H, which would have a billion values. Gradient descent of rate a is stable only along
 * directions whose curvature is below 2 / a. Training raises the largest curvature to that edge (Cohen et al. 2021).
 * Prints the loss and the largest eigenvalue, v . Hv for |v| = 1, during a training. */
#include "recipe.h"

#include <math.h>

const char program_name[] = "cookbook_hessian_eigenvalue";

static const char text[] =
    "The lamp turned slowly over the black water, and the keeper counted: one, two, three, dark. "
    "One, two, three, dark. He had counted it for thirty years.";
enum { V = 128, T = 16, C = 32, HEADS = 2, LAYERS = 2, TEXTS = 8, ITERATIONS = 20, STEPS = 100, WEIGHTS = 31 };
static const double rate = 0.2;

/* inputs and targets (TEXTS,T); w is all weights */
typedef struct training {
    tg_gpt *model;
    tg_tensor *inputs, *targets, *w[WEIGHTS];
} training;

static tg_tensor *loss_of(tg_tape *t, void *context)
{
    const training *a = context;
    return tg_cross_entropy(t, tg_gpt_forward(t, a->model, a->inputs, NULL), a->targets, NULL);
}

static double dot(recipe *r, tg_tensor *const *a, tg_tensor *const *b)
{
    double total = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        total += tg_tensor_item(tg_sum_all(r->tape, tg_mul(r->tape, a[i], b[i])), &r->error);
    }
    return total;
}

static double largest_eigenvalue(recipe *r, training *a)
{
    tg_tape *t = r->tape;
    tg_tensor *v[WEIGHTS], *products[WEIGHTS]; /* one for each weight */
    double eigenvalue = 0;
    for (int i = 0; i < WEIGHTS; i++) {
        v[i] = recipe_randn(r, tg_tensor_shape(a->w[i]));
    }
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        tg_tape_reset(t);
        double norm = sqrt(dot(r, v, v));
        for (int i = 0; i < WEIGHTS; i++) {
            tg_tensor_copy_from(v[i], tg_div_scalar(t, v[i], norm), &r->error);
        }
        /* Hv = d(g . v)/dw with the gradient g = dloss/dw */
        tg_hvp(t, loss_of, a, a->w, WEIGHTS, v, products, NULL);
        eigenvalue = dot(r, v, products);
        for (int i = 0; i < WEIGHTS; i++) {
            tg_tensor_copy_from(v[i], products[i], &r->error);
        }
        recipe_check(r);
    }
    return eigenvalue;
}

int main(int argc, char **argv)
{
    recipe_options("the largest curvature of a GPT's loss", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    tg_gpt_config gpt = tg_gpt_config_default();
    gpt.vocabulary = V;
    gpt.context = T;
    gpt.width = C;
    gpt.heads = HEADS;
    gpt.layers = LAYERS;
    training a = {.model = tg_gpt_new(r.params, &gpt)};
    for (int i = 0; i < WEIGHTS; i++) {
        a.w[i] = tg_params_at(r.params, i).tensor;
    }
    tg_sgd_config sgd = tg_sgd_config_default();
    sgd.lr = rate;
    r.optim = tg_sgd_new(r.params, &sgd);
    int32_t ids[sizeof text];
    for (size_t i = 0; i < sizeof text; i++) {
        ids[i] = text[i];
    }
    a.inputs = tg_constant_i32(r.data, TG_SHAPE(TEXTS, T), ids);
    a.targets = tg_constant_i32(r.data, TG_SHAPE(TEXTS, T), ids + 1);

    printf("stable below %.1f\n", 2 / rate);
    for (int step = 1; step <= STEPS; step++) {
        tg_tape_reset(t);
        tg_tensor *loss = loss_of(t, &a);
        tg_optim_zero_grad(r.optim);
        tg_backward(t, loss, NULL);
        double value = tg_tensor_item(loss, &r.error);
        tg_optim_step(r.optim);
        recipe_check(&r);
        if (step % (STEPS / 4) == 0) {
            printf("step %d: loss %.3f, largest eigenvalue %.2f\n", step, value, largest_eigenvalue(&r, &a));
        }
    }
    tg_gpt_free(a.model);
    return recipe_end(&r);
}

/* makemore_gradients: the gradients of a network by hand, from the loss back to the table: cross-entropy, linear
 * layers, tanh, batch norm and lookup. Prints for each parameter the length of its gradient, and whether backward
 * computes the same one, to 1e-5 of its largest value. Then the gradients by hand train the network. Prints its loss
 * before and after, and compares the gradients again. */
#include "makemore_names.h"

#include <math.h>

const char program_name[] = "cookbook_makemore_gradients";

enum { NAMES = 1600, CONTEXT = 3, WIDTH = 8, HIDDEN = 64, BATCH = 32, STEPS = 500 };
static const double eps = 1e-5, rate = 0.3;

/* the parameters, in their order */
enum { TABLE, HIDDEN_WEIGHT, SCALE, SHIFT, HEAD_WEIGHT, HEAD_BIAS, PARAMETERS };

/* ids (N,CONTEXT) -> logits (N,CHARACTERS) */
static tg_tensor *forward(tg_tape *t, const void *parameters, tg_tensor *ids)
{
    tg_tensor *const *w = parameters;
    tg_tensor *x = tg_reshape(t, tg_embedding(t, ids, w[TABLE], NULL), TG_SHAPE(-1, CONTEXT * WIDTH));
    x = tg_batch_norm(t, tg_linear(t, x, w[HIDDEN_WEIGHT], NULL), NULL, NULL, w[SCALE], w[SHIFT], 0, eps);
    return tg_linear(t, tg_tanh(t, x), w[HEAD_WEIGHT], w[HEAD_BIAS]);
}

/* The mean and the sum over the batch. */
static tg_tensor *mean(tg_tape *t, tg_tensor *x)
{
    return tg_mean(t, x, TG_AXES(0), TG_DROP_AXES);
}

static tg_tensor *sum(tg_tape *t, tg_tensor *x)
{
    return tg_sum(t, x, TG_AXES(0), TG_DROP_AXES);
}

/* Computes the gradients of the parameters, without the tape's help; dx is the gradient of x. */
static void by_hand(tg_tape *t, tg_tensor *const *w, tg_tensor *ids, tg_tensor *targets, tg_tensor **gradients)
{
    tg_evaluation before = tg_evaluation_begin(t);
    tg_tensor *x = tg_reshape(t, tg_embedding(t, ids, w[TABLE], NULL), TG_SHAPE(-1, CONTEXT * WIDTH));
    tg_tensor *h = tg_linear(t, x, w[HIDDEN_WEIGHT], NULL), *centered = tg_sub(t, h, mean(t, h));
    tg_tensor *inverse = tg_pow_scalar(t, tg_add_scalar(t, mean(t, tg_mul(t, centered, centered)), eps), -0.5);
    tg_tensor *normed = tg_mul(t, centered, inverse);
    tg_tensor *y = tg_tanh(t, tg_add(t, tg_mul(t, normed, w[SCALE]), w[SHIFT]));
    tg_tensor *logits = tg_linear(t, y, w[HEAD_WEIGHT], w[HEAD_BIAS]);

    /* the mean cross-entropy: the probabilities, less 1 for the target */
    tg_tensor *dlogits = tg_sub(t, tg_softmax(t, logits, -1), tg_one_hot(t, targets, CHARACTERS, TG_F32));
    dlogits = tg_div_scalar(t, dlogits, (double)tg_tensor_count(targets));
    gradients[HEAD_BIAS] = sum(t, dlogits);
    gradients[HEAD_WEIGHT] = tg_matmul(t, tg_transpose(t, dlogits, 0, 1), y);
    tg_tensor *dy = tg_matmul(t, dlogits, w[HEAD_WEIGHT]);
    /* tanh has the slope 1 - tanh^2 */
    dy = tg_sub(t, dy, tg_mul(t, dy, tg_mul(t, y, y)));
    gradients[SHIFT] = sum(t, dy);
    gradients[SCALE] = sum(t, tg_mul(t, dy, normed));
    /* batch norm: a value changes its channel's mean and variance, too */
    tg_tensor *dnormed = tg_mul(t, dy, w[SCALE]);
    tg_tensor *by_variance = tg_mul(t, normed, mean(t, tg_mul(t, dnormed, normed)));
    tg_tensor *dh = tg_mul(t, inverse, tg_sub(t, tg_sub(t, dnormed, mean(t, dnormed)), by_variance));
    gradients[HIDDEN_WEIGHT] = tg_matmul(t, tg_transpose(t, dh, 0, 1), x);
    /* lookup: the gradients of all places that used a row add up */
    tg_tensor *dx = tg_reshape(t, tg_matmul(t, dh, w[HIDDEN_WEIGHT]), TG_SHAPE(-1, WIDTH));
    tg_tensor *zeros = tg_full(t, TG_F32, TG_SHAPE(CHARACTERS, WIDTH), 0);
    gradients[TABLE] = tg_index_add(t, zeros, 0, tg_reshape(t, ids, TG_SHAPE(-1)), dx);
    tg_evaluation_end(t, before);
}

static double norm(recipe *r, tg_tensor *x, double p)
{
    return tg_tensor_item(tg_norm(r->tape, x, p, TG_ALL_AXES, TG_DROP_AXES), &r->error);
}

/* Compares the gradients by hand with those of backward, on a new batch. */
static void compare(recipe *r, tg_tensor *const *w, const windows *all)
{
    tg_tensor *gradients[PARAMETERS];
    tg_tape_reset(r->tape);
    windows batch = names_batch(r, BATCH, all);
    tg_optim_zero_grad(r->optim);
    tg_backward(r->tape, tg_cross_entropy(r->tape, forward(r->tape, w, batch.inputs), batch.targets, NULL), NULL);
    by_hand(r->tape, w, batch.inputs, batch.targets, gradients);
    for (int i = 0; i < PARAMETERS; i++) {
        tg_tensor_make_grad_dense(w[i], &r->error);
        double difference = norm(r, tg_sub(r->tape, gradients[i], tg_tensor_grad(w[i])), INFINITY);
        const char *verdict = difference <= 1e-5 * norm(r, gradients[i], INFINITY) ? "same" : "different";
        printf("%s %.3f %s%s", tg_params_at(r->params, i).name, norm(r, gradients[i], 2), verdict,
               i + 1 < PARAMETERS ? ", " : "\n");
        recipe_check(r);
    }
}

int main(int argc, char **argv)
{
    recipe_options("the gradients of a network by hand", NULL, argc, argv);
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    windows all = names_draw(&r, NAMES, CONTEXT);
    tg_tensor *w[PARAMETERS], *gradients[PARAMETERS];
    tg_nn_batch_norm_config config = tg_nn_batch_norm_config_default();
    config.track_running_stats = false;
    tg_nn_embedding_make(r.params, "table", CHARACTERS, WIDTH, NULL);
    tg_nn_linear_make(r.params, "hidden", CONTEXT * WIDTH, HIDDEN, TG_NO_BIAS);
    tg_nn_batch_norm_make(r.params, "norm", HIDDEN, &config);
    tg_nn_linear_make(r.params, "head", HIDDEN, CHARACTERS, TG_BIAS);
    for (int i = 0; i < PARAMETERS; i++) {
        w[i] = tg_params_at(r.params, i).tensor;
    }
    r.optim = tg_sgd_new(r.params, NULL);

    compare(&r, w, &all);
    double before = names_loss(&r, forward, w, &all);
    for (int step = 0; step < STEPS; step++) {
        tg_tape_reset(t);
        windows batch = names_batch(&r, BATCH, &all);
        by_hand(t, w, batch.inputs, batch.targets, gradients);
        for (int i = 0; i < PARAMETERS; i++) {
            tg_tensor_copy_from(w[i], tg_sub(t, w[i], tg_mul_scalar(t, gradients[i], rate)), &r.error);
        }
        recipe_check(&r);
    }
    printf("loss %.3f before, %.3f after\n", before, names_loss(&r, forward, w, &all));
    compare(&r, w, &all);
    return recipe_end(&r);
}

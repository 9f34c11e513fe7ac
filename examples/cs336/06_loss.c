/* 06: How wrong is a model, and how far may a step go? The cross-entropy of logits, and the clipping of gradients to a
 * norm. */
#include "cs336.h"

const char program_name[] = "cs336_06_loss";

/* log(sum(e^logits)) - logits[target], averaged: logits (N,V), targets (N) i32 */
static tg_tensor *cross_entropy(tg_tape *t, tg_tensor *logits, tg_tensor *targets)
{
    tg_tensor *right = tg_gather(t, logits, 1, tg_unsqueeze(t, targets, 1));
    return tg_mean_all(t, tg_sub(t, tg_logsumexp(t, logits, TG_AXES(1), TG_KEEP_AXES), right));
}

static void test_cross_entropy(recipe *r, const options *o)
{
    static const char test[] = "test_cross_entropy", file[] = "test_nn_utils.py";
    tg_tape *t = r->data;
    if (!test_begin(o, test, TWIN) || !test_begin(o, test, FIXTURE)) {
        return;
    }
    tg_tensor *logits = course_tensor(r, o, file, test, "inputs = torch.tensor(", TG_SHAPE(8, 5));
    tg_tensor *targets = tg_cast(t, course_tensor(r, o, file, test, "targets = torch.tensor(", TG_SHAPE(8)), TG_I32);
    tg_tensor *large = tg_mul_scalar(t, logits, 1000);
    test_array(r, o, test, TWIN, 1e-7, 1e-4, cross_entropy(t, logits, targets), "tg_cross_entropy",
               tg_cross_entropy(t, logits, targets, NULL));
    test_array(r, o, "test_cross_entropy (1000 x)", TWIN, 1e-7, 1e-4, cross_entropy(t, large, targets),
               "tg_cross_entropy", tg_cross_entropy(t, large, targets, NULL));
}

/* The loss is the sum of six parameters, of which the last one is frozen. */
static void test_clipping(recipe *r, const options *o)
{
    static const char test[] = "test_gradient_clipping";
    tg_tape *t = r->tape;
    if (!test_begin(o, test, TWIN)) {
        return;
    }
    tg_tensor *parts[6], *gradients[5];
    for (int i = 0; i < 6; i++) {
        parts[i] = tg_params_add_normal(r->params, (char[]){(char)('a' + i), 0}, TG_SHAPE(5, 5), 0, 1);
    }
    tg_params_set_frozen(r->params, "f", true);
    tg_backward(t, tg_sum_all(t, tg_cat(t, parts, 6, 0)), NULL);
    double norm = tg_clip_grad_norm(r->params, 0.01);
    for (int i = 0; i < 5; i++) {
        gradients[i] = tg_tensor_grad(parts[i]);
    }
    test_array(r, o, test, TWIN, 1e-7, 1e-6, tg_cat(t, gradients, 5, 0), NULL, NULL);
    test_line("test_gradient_clipping (the frozen one)", ITSELF, !tg_tensor_grad(parts[5]),
              "it has no gradient; the norm was %.4f", norm);
}

int main(int argc, char **argv)
{
    options o = options_read(LAYERS, "cross-entropy, and gradient clipping", argc, argv);
    recipe r = recipe_begin(0);
    test_cross_entropy(&r, &o);
    test_clipping(&r, &o);
    return tests_end(&r);
}

/* 07: How does a model step downhill? AdamW over a thousand steps, and a learning rate that warms up and then falls on
 * half a cosine. */
#include "cs336.h"

#include <math.h>

const char program_name[] = "cs336_07_optimizer";

enum { RATES = 25 };

/* A linear layer learns x0 + x1 and -x2 from random x. Layer and numbers are those of torch.manual_seed(42). */
static void test_adamw(recipe *r, const options *o)
{
    tg_tape *t = r->tape;
    tg_rng *rng = tg_run_rng(r->run);
    tg_rng_seed(rng, 42);
    tg_nn_linear layer = tg_nn_linear_make(r->params, "layer", 3, 2, TG_NO_BIAS);
    tg_adamw_config config = tg_adamw_config_default();
    config.lr = 1e-3;
    config.weight_decay = 0.01;
    r->optim = tg_adamw_new(r->params, &config);
    for (int step = 0; step < 1000; step++) {
        tg_tape_reset(t);
        tg_tensor *x = tg_full(t, TG_F32, TG_SHAPE(3), 0);
        tg_tensor_fill_uniform(x, rng, 0, 1, &r->error);
        tg_tensor *first = tg_add(t, tg_select(t, x, 0, 0), tg_select(t, x, 0, 1));
        tg_tensor *y = tg_stack(t, (tg_tensor *[]){first, tg_neg(t, tg_select(t, x, 0, 2))}, 2, 0);
        tg_tensor *loss = tg_mse_loss(t, tg_nn_linear_forward(t, &layer, x), y, TG_REDUCTION_SUM);
        tg_optim_zero_grad(r->optim);
        tg_backward(t, loss, NULL);
        tg_optim_step(r->optim);
        recipe_check(r);
    }
    test_array(r, o, "test_adamw", SNAPSHOT, 1e-4, 1e-4, layer.weight, NULL, NULL);
}

static void test_schedule(recipe *r, const options *o)
{
    static const char test[] = "test_get_lr_cosine_schedule";
    double expected[RATES], largest = 0;
    course_numbers(o, "test_optimizer.py", test, "expected_lrs = ", expected, RATES);
    tg_schedule_config config = tg_schedule_config_default();
    config.kind = TG_SCHEDULE_COSINE;
    config.lr = 1;
    config.minimum_lr = 0.1;
    config.warmup_steps = 7;
    config.total_steps = 21;
    for (int step = 0; step < RATES; step++) {
        double rate = tg_schedule_lr(step, &config, &r->error);
        largest = fmax(largest, fabs(rate - expected[step]) / fmax(expected[step], 1e-300));
    }
    recipe_check(r);
    test_line(test, FIXTURE, largest <= 1e-7, "%d rates, largest relative difference %.1e", RATES, largest);
}

int main(int argc, char **argv)
{
    options o = options_read(LAYERS, "AdamW, and a schedule of the learning rate", argc, argv);
    recipe r = recipe_begin(0);
    if (test_begin(&o, "test_adamw", SNAPSHOT)) {
        test_adamw(&r, &o);
    }
    if (test_begin(&o, "test_get_lr_cosine_schedule", FIXTURE)) {
        test_schedule(&r, &o);
    }
    return tests_end(&r);
}

/* 02: layer normalisation. A layer's outputs have any mean and variance; subtracting the mean and dividing by the
 * standard deviation gives every row mean 0 and variance 1, which keeps training steady. */
#include "../chapter.h"

/* By hand: mean and variance of each row. `correction` 1 divides by n - 1, 0 by n. */
static void print_mean_and_variance(tg_tape *t, tg_tensor *x, int correction, const tg_print_options *options)
{
    printf("Mean:\n");
    tg_print_with(stdout, tg_mean(t, x, TG_AXES(-1), TG_KEEP_AXES), options);
    printf("Variance:\n");
    tg_print_with(stdout, tg_var(t, x, TG_AXES(-1), correction, TG_KEEP_AXES), options);
}

int main(void)
{
    tg_rng *rng = tg_rng_new(123);
    tg_params *params = tg_params_new(TG_F32, rng);
    tg_tape *t = tg_tape_new(rng);
    tg_tensor *batch = tg_tensor_new(TG_F32, TG_SHAPE(2, 5), NULL);
    tg_fill_normal(batch, rng, 0, 1, NULL);
    tg_linear layer = tg_linear_make(params, "layer", 5, 6, TG_BIAS);
    tg_layernorm norm = tg_layernorm_make(params, "norm", 6, 1e-5);
    check(tg_params_error(params));

    tg_tensor *out = tg_relu(t, tg_linear_forward(t, &layer, batch));
    cell(22);
    tg_print(stdout, out);
    cell(24);
    print_mean_and_variance(t, out, 1, NULL);

    tg_tensor *mean = tg_mean(t, out, TG_AXES(-1), TG_KEEP_AXES);
    tg_tensor *variance = tg_var(t, out, TG_AXES(-1), 1, TG_KEEP_AXES);
    tg_tensor *normal = tg_div(t, tg_sub(t, out, mean), tg_sqrt(t, variance));
    cell(28);
    printf("Normalized layer outputs:\n");
    tg_print(stdout, normal);
    print_mean_and_variance(t, normal, 1, NULL);

    /* the means are not quite 0: what rounding left. Without exponents that is easier to see */
    tg_print_options plain = tg_print_options_default();
    plain.plain = true;
    cell(30);
    print_mean_and_variance(t, normal, 1, &plain);

    /* the module: the biased variance, and an eps under the root */
    cell(35);
    print_mean_and_variance(t, tg_layernorm_forward(t, &norm, out), 0, &plain);

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(batch);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}

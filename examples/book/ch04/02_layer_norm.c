/* 02: What does layer normalization do to the mean and the variance of a row? Layer normalization. The outputs of a
 * layer can have any mean and variance. Subtracting the mean and dividing by the standard deviation gives every row
 * mean 0 and variance 1, which stabilizes training. */
#include "../book.h"

/* Prints the mean and variance of each row. The variance divides by n - `correction`. */
static void print_mean_and_variance(tg_tape *t, tg_tensor *x, int correction, const tg_tensor_print_config *config)
{
    printf("Mean:\n");
    tg_tensor_print(tg_mean(t, x, TG_AXES(-1), TG_KEEP_AXES), stdout, config, NULL);
    printf("Variance:\n");
    tg_tensor_print(tg_var(t, x, TG_AXES(-1), correction, TG_KEEP_AXES), stdout, config, NULL);
}

int main(int argc, char **argv)
{
    book_begin(argc, argv);
    question("What does layer normalization do to the mean and the variance of a row?");
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *t = book_tape(run);
    tg_tensor *batch = tg_tensor_new(TG_F32, TG_SHAPE(2, 5), NULL);
    tg_tensor_fill_normal(batch, tg_run_rng(run), 0, 1, NULL);
    tg_nn_linear layer = tg_nn_linear_make(params, "layer", 5, 6, TG_BIAS);
    tg_nn_layer_norm norm = tg_nn_layer_norm_make(params, "norm", 6, NULL);
    check(tg_params_error(params));

    /* (2,5) -> (2,6) */
    tg_tensor *out = tg_relu(t, tg_nn_linear_forward(t, &layer, batch));
    cell(22);
    print_tensor(out);
    cell(24);
    print_mean_and_variance(t, out, 1, NULL);

    /* per row: (2,6) -> (2,1) */
    tg_tensor *mean = tg_mean(t, out, TG_AXES(-1), TG_KEEP_AXES);
    tg_tensor *variance = tg_var(t, out, TG_AXES(-1), 1, TG_KEEP_AXES);
    tg_tensor *normal = tg_div(t, tg_sub(t, out, mean), tg_sqrt(t, variance));
    cell(28);
    printf("Normalized layer outputs:\n");
    print_tensor(normal);
    print_mean_and_variance(t, normal, 1, NULL);

    /* the means differ from 0 by rounding errors, which is easier to see without exponents */
    tg_tensor_print_config plain = tg_tensor_print_config_default();
    plain.plain = true;
    cell(30);
    print_mean_and_variance(t, normal, 1, &plain);

    /* the module divides the variance by n, and adds eps under the root */
    cell(35);
    print_mean_and_variance(t, tg_nn_layer_norm_forward(t, &norm, out), 0, &plain);

    check(tg_tape_error(t));
    tg_tape_free(t);
    tg_release(batch);
    tg_params_free(params);
    tg_run_free(run);
    return book_end();
}

/* gradcheck: compares the gradients of a function of one's own, and of a module, with differences. The function is a
 * sum of bumps whose centers and widths are parameters with names. */
#include "recipe.h"

const char program_name[] = "cookbook_gradcheck";

/* The sum over k of exp(-((x - center_k) / width_k)^2), for x (N,1) and parameters (K) -> (N). */
static tg_tensor *bumps(tg_tape *t, tg_tensor *const *inputs, int input_count, void *params)
{
    (void)input_count;
    tg_tensor *distance = tg_sub(t, inputs[0], tg_params_find(params, "center"));
    tg_tensor *scaled = tg_div(t, distance, tg_params_find(params, "width"));
    return tg_sum(t, tg_exp(t, tg_neg(t, tg_mul(t, scaled, scaled))), TG_AXES(-1), TG_DROP_AXES);
}

static tg_tensor *layer(tg_tape *t, tg_tensor *const *inputs, int input_count, void *gru)
{
    (void)input_count;
    return tg_nn_gru_forward(t, gru, inputs[0], NULL, NULL);
}

int main(int argc, char **argv)
{
    recipe_options("checks the gradients of a function and of a module", NULL, argc, argv);
    recipe r = recipe_begin(123);
    /* f64: differences of floats have too few digits */
    tg_params *function = tg_params_new(r.run, TG_F64), *module = tg_params_new(r.run, TG_F64);
    tg_params_add_normal(function, "center", TG_SHAPE(3), 0, 1);
    tg_params_add_uniform(function, "width", TG_SHAPE(3), 0.5, 1.5);
    tg_nn_gru gru = tg_nn_gru_make(module, "gru", 2, 3, NULL);
    tg_tensor *column = tg_full(r.data, TG_F64, TG_SHAPE(8, 1), 0);
    tg_tensor *text = tg_full(r.data, TG_F64, TG_SHAPE(2, 4, 2), 0);
    tg_tensor_fill_normal(column, tg_run_rng(r.run), 0, 1, &r.error);
    tg_tensor_fill_normal(text, tg_run_rng(r.run), 0, 1, &r.error);

    tg_gradcheck_report report;
    bool good = tg_gradcheck_params(function, bumps, function, &column, 1, NULL, &report, &r.error);
    printf("bumps: %s\n", report.text);
    good = tg_gradcheck_params(module, layer, &gru, &text, 1, NULL, &report, &r.error) && good;
    printf("GRU: %s\n", report.text);

    tg_params_free(function);
    tg_params_free(module);
    int status = recipe_end(&r);
    return good ? status : 1;
}

/* gradients: the gradient of a gradient, and a Hessian-vector product, of f(x) = sum of x^3. */
#include <stdio.h>

#include <tapegrad.h>

static tg_tensor *f(tg_tape *tape, void *x)
{
    return tg_sum_all(tape, tg_pow_scalar(tape, x, 3));
}

int main(void)
{
    tg_run *run = tg_run_new(1);
    tg_tape *tape = tg_tape_new(run, NULL);
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = tg_tensor_new_from_f64(TG_SHAPE(3), (double[]){1, 2, -1}, &error);
    tg_tensor *v = tg_tensor_new_from_f64(TG_SHAPE(3), (double[]){1, 0, 10}, &error);
    tg_tensor_set_requires_grad(x, true, &error);

    tg_grad_config config = tg_grad_config_default();
    config.create_graph = true;
    tg_tensor *y = f(tape, x), *slope, *curvature, *product;
    tg_grad(tape, &y, 1, &x, 1, &slope, &config);
    tg_tensor *sum = tg_sum_all(tape, slope);
    tg_grad(tape, &sum, 1, &x, 1, &curvature, NULL);
    tg_hvp(tape, f, x, &x, 1, &v, &product, NULL);
    if (tg_run_error(run)->code != TG_OK) {
        puts(tg_run_error(run)->text);
        return 1;
    }
    tg_tensor *const results[] = {slope, curvature, product};
    static const char *const names[] = {"3 x^2", "6 x", "H v"};
    for (int i = 0; i < 3; i++) {
        printf("%-6s", names[i]);
        for (int j = 0; j < 3; j++) {
            printf(" %g", tg_tensor_value_at(results[i], j));
        }
        puts("");
    }
    tg_release(x);
    tg_release(v);
    tg_tape_free(tape);
    tg_run_free(run);
    return 0;
}

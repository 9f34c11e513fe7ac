/* dot: records a model of two layers and its loss, and writes the graph to stdout. The script beside this file compiles
 * it, and lets Graphviz draw the graph. */
#include <stdio.h>

#include <tapegrad.h>
#include <tapegrad_tools.h>

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_nn_linear hidden = tg_nn_linear_make(params, "hidden", 3, 5, TG_BIAS);
    tg_nn_linear head = tg_nn_linear_make(params, "head", 5, 2, TG_BIAS);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(4, 3), &error), *y = tg_tensor_new(TG_F32, TG_SHAPE(4, 2), &error);
    tg_tensor *result = tg_nn_linear_forward(t, &head, tg_relu(t, tg_nn_linear_forward(t, &hidden, x)));
    tg_mse_loss(t, result, y, TG_REDUCTION_MEAN);
    bool is_written = tg_tape_write_dot(t, stdout, &error) && tg_tape_error(t)->code == TG_OK;
    if (!is_written) {
        fprintf(stderr, "dot: %s%s\n", error.text, tg_tape_error(t)->text);
    }
    tg_release(x);
    tg_release(y);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
    return is_written ? 0 : 1;
}

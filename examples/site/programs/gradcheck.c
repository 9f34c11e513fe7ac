/* gradcheck: what a test sees when a backward kernel is wrong. The op is y = x^3, and its first backward forgets the
 * factor 3. */
#include <stdio.h>

#include <tapegrad.h>

static bool cube_shape(tg_op_call *call)
{
    return tg_op_expect_dtype(call, 0, TG_F64) && tg_op_output(call, 0, TG_F64, tg_tensor_shape(call->inputs[0]));
}

static void cube_forward(const tg_op_call *call)
{
    const double *x = tg_tensor_data(call->inputs[0]);
    double *y = tg_tensor_data_mut(call->outputs[0]);
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        y[i] = x[i] * x[i] * x[i];
    }
}

static void backward_with_factor(const tg_op_call *call, double factor)
{
    const double *x = tg_tensor_data(call->inputs[0]), *dy = call->output_gradients[0];
    double *dx = call->input_gradients[0];
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        dx[i] += factor * x[i] * x[i] * dy[i];
    }
}

static void wrong_backward(const tg_op_call *call)
{
    backward_with_factor(call, 1);
}

static void right_backward(const tg_op_call *call)
{
    backward_with_factor(call, 3);
}

static const tg_op wrong = {.name = "cube", .shape = cube_shape, .f64 = {cube_forward, wrong_backward}};
static const tg_op right = {.name = "cube", .shape = cube_shape, .f64 = {cube_forward, right_backward}};

static tg_tensor *call(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *op)
{
    return tg_apply(tape, *(const tg_op **)op, inputs, input_count, NULL, 0, NULL);
}

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_tensor *x = tg_tensor_new_from_f64(TG_SHAPE(2, 2), (double[]){0.5, -1, 2, 1.5}, &error);
    tg_tensor_set_requires_grad(x, true, &error);
    const tg_op *ops[] = {&wrong, &right};
    int passed = 0;
    for (int i = 0; i < 2; i++) {
        tg_error reason = TG_NO_ERROR;
        if (tg_gradcheck(call, &ops[i], &x, 1, NULL, NULL, &reason)) {
            printf("passed\n");
            passed++;
        } else {
            printf("%s\n", reason.text);
        }
    }
    tg_release(x);
    /* in a test of yours: assert that the right one passed */
    return passed == 1 ? 0 : 1;
}

/* own_op: y = a b^2 as an op with a backward of its own, checked by tg_gradcheck. */
#include <stdio.h>

#include <tapegrad.h>

/* 1. The shape rule checks the inputs and declares the output. */
static bool scaled_square_shape(tg_op_call *call)
{
    const tg_tensor *a = call->inputs[0], *b = call->inputs[1];
    if (!tg_op_expect_dtype(call, 0, TG_F64) || !tg_op_expect_dtype(call, 1, TG_F64)) {
        return false;
    }
    if (!tg_shape_equal(tg_tensor_shape(a), tg_tensor_shape(b))) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "the shapes of a and b differ");
    }
    return tg_op_output(call, 0, tg_tensor_dtype(a), tg_tensor_shape(a));
}

/* 2. Forward computes the values. It cannot fail. */
static void scaled_square_forward(const tg_op_call *call)
{
    const double *a = tg_tensor_data(call->inputs[0]), *b = tg_tensor_data(call->inputs[1]);
    double *y = tg_tensor_data_mut(call->outputs[0]);
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        y[i] = a[i] * b[i] * b[i];
    }
}

/* 3. Backward adds to the gradients of the inputs: da = b^2 dy, db = 2 a b dy. */
static void scaled_square_backward(const tg_op_call *call)
{
    const double *a = tg_tensor_data(call->inputs[0]), *b = tg_tensor_data(call->inputs[1]);
    const double *dy = call->output_gradients[0];
    double *da = call->input_gradients[0], *db = call->input_gradients[1];
    for (int64_t i = 0; i < tg_tensor_count(call->inputs[0]); i++) {
        if (da)
            da[i] += b[i] * b[i] * dy[i];
        if (db)
            db[i] += 2 * a[i] * b[i] * dy[i];
    }
}

/* 4. The op is a constant, and a function calls it. */
static const tg_op scaled_square_op = {
    .name = "scaled_square",
    .shape = scaled_square_shape,
    .f64 = {scaled_square_forward, scaled_square_backward},
    .input_names = {"a", "b"},
    .backward_ignores_outputs = TG_OP_ALL,
};

static tg_tensor *scaled_square(tg_tape *tape, tg_tensor *a, tg_tensor *b)
{
    tg_tensor *inputs[] = {a, b};
    return tg_apply(tape, &scaled_square_op, inputs, 2, NULL, 0, NULL);
}

/* 5. The check calls it with inputs of its own choice. */
static tg_tensor *checked(tg_tape *tape, tg_tensor *const *inputs, int input_count, void *context)
{
    (void)input_count, (void)context;
    return scaled_square(tape, inputs[0], inputs[1]);
}

int main(void)
{
    tg_error error = TG_NO_ERROR;
    tg_run *run = tg_run_new(1);
    tg_tensor *inputs[2];
    for (int i = 0; i < 2; i++) {
        inputs[i] = tg_tensor_new(TG_F64, TG_SHAPE(2, 3), &error);
        tg_tensor_fill_normal(inputs[i], tg_run_rng(run), 0, 1, &error);
        tg_tensor_set_requires_grad(inputs[i], true, &error);
    }
    tg_gradcheck_report report;
    bool passed = tg_gradcheck(checked, NULL, inputs, 2, NULL, &report, &error);
    printf("%s\n", report.text);

    /* a wrong call: the tape has an error, and the message names the op */
    tg_tape *t = tg_tape_new(run, NULL);
    scaled_square(t, inputs[0], tg_constant_f64(t, TG_SHAPE(3), (double[]){1, 2, 3}));
    printf("%s\n", tg_tape_error(t)->text);

    tg_tape_free(t);
    tg_release(inputs[0]);
    tg_release(inputs[1]);
    tg_run_free(run);
    return passed ? 0 : 1;
}

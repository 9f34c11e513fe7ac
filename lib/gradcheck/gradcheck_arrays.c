/* gradcheck_arrays: checks two functions of arrays, which know neither tensors nor tapes, as the kernels of an op. */
#include <string.h>

#include "gradcheck/gradcheck.h"

static const char call_name[] = "gradcheck_arrays";

/* The attributes of the op: `kernels` is that of the caller. */
typedef struct arrays_attributes {
    const tg_gradcheck_kernels *kernels;
} arrays_attributes;

static const tg_gradcheck_kernels *kernels_of(const tg_op_call *call)
{
    const arrays_attributes *attributes = call->attributes;
    return attributes->kernels;
}

static bool arrays_shape(tg_op_call *call)
{
    tg_dtype dtype = TG_F64;
    for (int i = 0; i < call->input_count; i++) {
        tg_dtype given = tg_dtype_of(call->inputs[i]);
        dtype = tg_dtype_is_float(given) ? given : dtype;
    }
    return tg_op_output(call, 0, dtype, kernels_of(call)->shape);
}

static void collect(const tg_op_call *call, const void *inputs[TG_GRADCHECK_ARRAYS])
{
    for (int i = 0; i < call->input_count; i++) {
        inputs[i] = tg_tensor_data(call->inputs[i]);
    }
}

static void run_forward(const tg_op_call *call)
{
    const void *inputs[TG_GRADCHECK_ARRAYS];
    const tg_gradcheck_kernels *kernels = kernels_of(call);
    collect(call, inputs);
    kernels->forward(kernels->context, inputs, tg_tensor_data_mut(call->outputs[0]));
}

static void run_backward(const tg_op_call *call)
{
    const void *inputs[TG_GRADCHECK_ARRAYS];
    const tg_gradcheck_kernels *kernels = kernels_of(call);
    collect(call, inputs);
    kernels->backward(kernels->context, inputs, call->output_gradients[0], call->input_gradients);
}

static const tg_op arrays_op = {
    .name = "the kernels",
    .shape = arrays_shape,
    .f32 = {run_forward, run_backward},
    .f64 = {run_forward, run_backward},
    .backward_ignores_outputs = TG_OP_ALL,
};

static tg_tensor *call_arrays(tg_tape *t, tg_tensor *const *inputs, int input_count, void *kernels)
{
    arrays_attributes attributes = {kernels};
    return tg_apply(t, &arrays_op, inputs, input_count, &attributes, sizeof attributes, NULL);
}

/* Checks the arguments that tg_gradcheck does not know. */
static bool check_kernels(const tg_gradcheck_kernels *kernels, int input_count, tg_error *error)
{
    if (!kernels || !kernels->forward || !kernels->backward) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: %s is NULL", call_name,
                            !kernels            ? "the argument 'kernels'"
                            : !kernels->forward ? "kernels.forward"
                                                : "kernels.backward");
    }
    return input_count <= TG_GRADCHECK_ARRAYS ||
           tg_error_set(error, TG_ERROR_VALUE, "%s: %d inputs; it must be at most %d", call_name, input_count,
                        TG_GRADCHECK_ARRAYS);
}

bool tg_gradcheck_arrays(const tg_gradcheck_kernels *kernels, tg_tensor *const *inputs, int input_count,
                         const tg_gradcheck_config *config, tg_gradcheck_report *report, tg_error *error)
{
    tg_error own_error = TG_NO_ERROR;
    if (!check_kernels(kernels, input_count, &own_error)) {
        if (report) {
            *report = (tg_gradcheck_report){.input = -1, .input_index = -1, .output_index = -1};
            memcpy(report->text, own_error.text, sizeof report->text);
        }
        return tg_error_copy(error, &own_error);
    }
    tg_gradcheck_kernels copy = *kernels;
    tg_check c = {.function = call_arrays,
                  .context = &copy,
                  .reference_context = kernels->context,
                  .f64_refusal = "is not for kernels of arrays, which are of one dtype; set config.reference, the same "
                                 "function over doubles",
                  .given = inputs,
                  .input_count = input_count,
                  .report = report};
    return tg_check_run(&c, config, error);
}

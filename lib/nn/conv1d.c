/* conv1d: tg_conv1d with a trained weight and bias. */
#include <tapegrad/sequence.h>

#include <math.h>

#include "nn/module.h"

TG_CONFIG(tg_nn_conv1d_config, tg_nn_conv1d_config_default, mark, .mark = mark, .conv = tg_conv1d_config_default(),
          .bias = true);

tg_nn_conv1d tg_nn_conv1d_make(tg_params *params, const char *name, int64_t in, int64_t out, int64_t kernel,
                               const tg_nn_conv1d_config *given)
{
    static const char call[] = "nn_conv1d_make";
    tg_nn_conv1d made = {.module = {params, false}};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, given, mark, &point)) {
        return made;
    }
    tg_nn_conv1d_config c = given ? *given : tg_nn_conv1d_config_default();
    if (!tg_params_expect_config(params, call, &c.conv, tg_conv1d_config_default().mark)) {
        return made;
    }
    int64_t groups = c.conv.groups;
    if (in < 1 || out < 1 || kernel < 1 || groups < 1 || in % groups != 0 || out % groups != 0) {
        tg_params_fail(params, TG_ERROR_SHAPE,
                       "%s: '%s' has %lld inputs, %lld outputs, a kernel of %lld and %lld groups; all must be at least "
                       "1, inputs and outputs multiples of groups",
                       call, name, (long long)in, (long long)out, (long long)kernel, (long long)groups);
        return made;
    }
    /* torch draws the weight by kaiming_uniform_(a=sqrt(5)), in the same steps as that of a linear layer */
    double fan_in = (double)(in / groups) * (double)kernel, gain = sqrt(2.0 / (1 + sqrt(5.0) * sqrt(5.0)));
    tg_shape shape = tg_shape_make(3, (int64_t[]){out, in / groups, kernel});
    tg_tensor *weight = tg_module_add_uniform(params, name, "weight", shape, sqrt(3.0) * (gain / sqrt(fan_in)));
    tg_tensor *bias = NULL;
    if (c.bias) {
        bias = tg_module_add_uniform(params, name, "bias", tg_shape_make(1, &out), 1 / sqrt(fan_in));
    }
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? (tg_nn_conv1d){made.module, weight, bias, c.conv} : made;
}

tg_tensor *tg_nn_conv1d_forward(tg_tape *t, const tg_nn_conv1d *conv, tg_tensor *x)
{
    return tg_module_is_ready(t, "nn_conv1d_forward", conv) ? tg_conv1d(t, x, conv->weight, conv->bias, &conv->conv)
                                                            : NULL;
}

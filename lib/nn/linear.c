/* linear: y = x W^T + b as a module. The weight is (out,in), as in PyTorch; lib/ops/linear_algebra/linear.c computes
 * the product. */
#include <math.h>

#include "nn/module.h"

static const char mark[] = "tg_nn_linear_config_default";

tg_nn_linear_config tg_nn_linear_config_default(void)
{
    return (tg_nn_linear_config){.mark = mark, .bias = true};
}

tg_nn_linear tg_nn_linear_make(tg_params *params, const char *name, int64_t in, int64_t out,
                               const tg_nn_linear_config *config)
{
    static const char call[] = "nn_linear_make";
    tg_nn_linear made = {.module = {params, false}};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, config, mark, &point)) {
        return made;
    }
    if (in < 1 || out < 1) {
        tg_params_fail(params, TG_ERROR_SHAPE, "%s: '%s' has %lld inputs and %lld outputs; both must be at least 1",
                       call, name, (long long)in, (long long)out);
        return made;
    }
    /* torch.nn.Linear draws the weight by kaiming_uniform_(a=sqrt(5)). Its bound is 1 / sqrt(in), but computed in steps
     * that round differently. */
    double gain = sqrt(2.0 / (1 + sqrt(5.0) * sqrt(5.0))), bound = sqrt(3.0) * (gain / sqrt((double)in));
    tg_shape shape = tg_shape_make(2, (int64_t[]){out, in});
    tg_tensor *weight = tg_module_add_uniform(params, name, "weight", shape, bound), *bias = NULL;
    if (!config || config->bias) {
        bias = tg_module_add_uniform(params, name, "bias", tg_shape_make(1, &out), 1 / sqrt((double)in));
    }
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? (tg_nn_linear){made.module, weight, bias} : made;
}

tg_tensor *tg_nn_linear_forward(tg_tape *t, const tg_nn_linear *linear, tg_tensor *x)
{
    return tg_module_is_ready(t, "nn_linear_forward", linear) ? tg_linear(t, x, linear->weight, linear->bias) : NULL;
}

/* layer_norm: tg_layer_norm with a trained weight and bias. */
#include "nn/module.h"

static const char call[] = "nn_layer_norm_make";
static const char mark[] = "tg_nn_layer_norm_config_default";

tg_nn_layer_norm_config tg_nn_layer_norm_config_default(void)
{
    return (tg_nn_layer_norm_config){.mark = mark, .eps = 1e-5};
}

tg_nn_layer_norm tg_make_layer_norm(tg_params *params, const char *name, int64_t width,
                                    const tg_nn_layer_norm_config *config, const char *weight_name,
                                    const char *bias_name)
{
    tg_nn_layer_norm made = {.module = {params, false}};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, config, mark, &point)) {
        return made;
    }
    double eps = config ? config->eps : 1e-5;
    if (width < 1 || !(eps > 0)) {
        tg_params_fail(params, TG_ERROR_VALUE,
                       "%s: '%s' has width %lld and eps %g; width must be at least 1, eps above 0", call, name,
                       (long long)width, eps);
        return made;
    }
    tg_tensor *weight = tg_module_add(params, name, weight_name, tg_shape_make(1, &width), 1);
    tg_tensor *bias = tg_module_add(params, name, bias_name, tg_shape_make(1, &width), 0);
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? (tg_nn_layer_norm){made.module, weight, bias, eps} : made;
}

tg_nn_layer_norm tg_nn_layer_norm_make(tg_params *params, const char *name, int64_t width,
                                       const tg_nn_layer_norm_config *config)
{
    return tg_make_layer_norm(params, name, width, config, "weight", "bias");
}

tg_tensor *tg_nn_layer_norm_forward(tg_tape *t, const tg_nn_layer_norm *norm, tg_tensor *x)
{
    return tg_module_is_ready(t, "nn_layer_norm_forward", norm)
               ? tg_layer_norm(t, x, norm->weight, norm->bias, norm->eps)
               : NULL;
}

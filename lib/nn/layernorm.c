/* layernorm: tg_layer_norm with a weight and a bias that are trained. */
#include "nn/module.h"

static tg_layernorm make(tg_params *params, const char *name, int64_t width, double eps, const char *weight_name,
                         const char *bias_name)
{
    tg_layernorm made = {.params = params, .eps = eps};
    char full[TG_NAME_SIZE];
    if (!tg_module_name(params, name, weight_name, full)) {
        return made;
    }
    if (width < 1 || !(eps > 0)) {
        tg_params_fail(params, TG_ERROR_VALUE,
                       "layernorm %s: a width of %lld and an eps of %g; allowed are at least 1 and above 0", name,
                       (long long)width, eps);
        return made;
    }
    tg_shape shape = tg_shape_make(1, &width);
    tg_tensor *weight = tg_params_add(params, full, shape);
    if (weight) {
        tg_fill(weight, 1, NULL);
    }
    if (weight && tg_module_name(params, name, bias_name, full)) {
        made.bias = tg_params_add(params, full, shape);
        made.weight = made.bias ? weight : NULL;
    }
    return made;
}

tg_layernorm tg_layernorm_make(tg_params *params, const char *name, int64_t width, double eps)
{
    return make(params, name, width, eps, "weight", "bias");
}

tg_layernorm tg_layernorm_make_scale_shift(tg_params *params, const char *name, int64_t width, double eps)
{
    return make(params, name, width, eps, "scale", "shift");
}

tg_tensor *tg_layernorm_forward(tg_tape *t, const tg_layernorm *norm, tg_tensor *x)
{
    if (!tg_module_ready(t, "layernorm", norm->params, norm->weight)) {
        return NULL;
    }
    return tg_layer_norm(t, x, norm->weight, norm->bias, norm->eps);
}

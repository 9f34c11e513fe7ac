/* norm: tg_layer_norm and tg_rms_norm with trained parameters, and a norm whose kind is a value, as in a block. */
#include <float.h>

#include "nn/module.h"
#include "tape/tape.h"

TG_CONFIG(tg_nn_layer_norm_config, tg_nn_layer_norm_config_default, layer_mark, .mark = layer_mark, .eps = 1e-5);

TG_CONFIG(tg_nn_rms_norm_config, tg_nn_rms_norm_config_default, rms_mark, .mark = rms_mark, .eps = TG_EPS_OF_DTYPE);

/* Makes a norm of a kind and an eps. A name that is NULL adds no parameter. */
static tg_nn_norm make_norm_of(tg_params *params, const char *call, const char *name, int64_t width, tg_norm_kind kind,
                               double eps, const char *weight, const char *bias, const tg_params_point *point)
{
    tg_nn_norm made = {.kind = kind, .eps = eps};
    if (eps == TG_EPS_OF_DTYPE) {
        made.eps = tg_params_dtype(params) == TG_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    }
    if (width < 1 || !(made.eps > 0)) {
        tg_params_fail(params, TG_ERROR_VALUE,
                       "%s: '%s' has width %lld and eps %g; width must be at least 1, eps above 0 or TG_EPS_OF_DTYPE",
                       call, name, (long long)width, made.eps);
    }
    tg_shape shape = tg_shape_make(1, &width);
    made.weight = weight ? tg_module_add(params, name, weight, shape, kind == TG_NORM_RMS_PLUS_ONE ? 0 : 1) : NULL;
    made.bias = bias ? tg_module_add(params, name, bias, shape, 0) : NULL;
    made.module = tg_module_end(params, point);
    return made.module.is_made ? made : (tg_nn_norm){.module = made.module};
}

tg_nn_layer_norm tg_nn_layer_norm_make(tg_params *params, const char *name, int64_t width,
                                       const tg_nn_layer_norm_config *config)
{
    static const char call[] = "nn_layer_norm_make";
    tg_params_point point;
    if (!tg_module_begin(params, call, name, config, layer_mark, &point)) {
        return (tg_nn_layer_norm){.module = {params, false}};
    }
    double eps = config ? config->eps : 1e-5;
    tg_nn_norm n = make_norm_of(params, call, name, width, TG_NORM_LAYER, eps, "weight", "bias", &point);
    return (tg_nn_layer_norm){n.module, n.weight, n.bias, n.eps};
}

tg_nn_rms_norm tg_nn_rms_norm_make(tg_params *params, const char *name, int64_t width,
                                   const tg_nn_rms_norm_config *given)
{
    static const char call[] = "nn_rms_norm_make";
    tg_params_point point;
    if (!tg_module_begin(params, call, name, given, rms_mark, &point)) {
        return (tg_nn_rms_norm){.module = {params, false}};
    }
    tg_nn_rms_norm_config config = given ? *given : tg_nn_rms_norm_config_default();
    tg_norm_kind kind = config.plus_one ? TG_NORM_RMS_PLUS_ONE : TG_NORM_RMS;
    const char *weight = config.no_weight ? NULL : "weight";
    tg_nn_norm n = make_norm_of(params, call, name, width, kind, config.eps, weight, NULL, &point);
    return (tg_nn_rms_norm){n.module, n.weight, n.eps, config.plus_one && !config.no_weight};
}

tg_nn_norm tg_nn_norm_make(tg_params *params, const char *name, int64_t width, tg_norm_kind kind, double eps)
{
    static const char call[] = "nn_norm_make";
    tg_params_point point;
    if (!tg_module_begin(params, call, name, NULL, NULL, &point)) {
        return (tg_nn_norm){.module = {params, false}};
    }
    if ((unsigned)kind > TG_NORM_RMS_PLUS_ONE) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has kind %d, which does not exist; it must be 0 to %d", call,
                       name, (int)kind, TG_NORM_RMS_PLUS_ONE);
    }
    const char *weight = kind == TG_NORM_NONE ? NULL : "scale", *bias = kind == TG_NORM_LAYER ? "shift" : NULL;
    return make_norm_of(params, call, name, width, kind, eps, weight, bias, &point);
}

tg_tensor *tg_nn_layer_norm_forward(tg_tape *t, const tg_nn_layer_norm *norm, tg_tensor *x)
{
    return tg_module_is_ready(t, "nn_layer_norm_forward", norm)
               ? tg_layer_norm(t, x, norm->weight, norm->bias, norm->eps)
               : NULL;
}

tg_tensor *tg_nn_rms_norm_forward(tg_tape *t, const tg_nn_rms_norm *norm, tg_tensor *x)
{
    if (!tg_module_is_ready(t, "nn_rms_norm_forward", norm)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *weight = norm->plus_one ? tg_add_scalar(t, norm->weight, 1) : norm->weight;
    return tg_tape_end(t, &point, tg_rms_norm(t, x, weight, norm->eps));
}

tg_tensor *tg_nn_norm_forward(tg_tape *t, const tg_nn_norm *norm, tg_tensor *x)
{
    static const char call[] = "nn_norm_forward";
    if (!tg_module_is_ready(t, call, norm) || !tg_tape_expect_input(t, call, "x", x)) {
        return NULL;
    }
    bool plus_one = norm->kind == TG_NORM_RMS_PLUS_ONE;
    return norm->kind == TG_NORM_NONE ? x
           : norm->kind == TG_NORM_LAYER
               ? tg_layer_norm(t, x, norm->weight, norm->bias, norm->eps)
               : tg_nn_rms_norm_forward(t, &(tg_nn_rms_norm){norm->module, norm->weight, norm->eps, plus_one}, x);
}

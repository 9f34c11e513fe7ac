/* rms_norm: tg_rms_norm with a trained weight. */
#include <float.h>

#include "nn/module.h"

static const char mark[] = "tg_nn_rms_norm_config_default";

tg_nn_rms_norm_config tg_nn_rms_norm_config_default(void)
{
    return (tg_nn_rms_norm_config){.mark = mark, .eps = TG_EPS_OF_DTYPE};
}

tg_nn_rms_norm tg_nn_rms_norm_make(tg_params *params, const char *name, int64_t width,
                                   const tg_nn_rms_norm_config *config)
{
    static const char call[] = "nn_rms_norm_make";
    tg_nn_rms_norm made = {.module = {params, false}};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, config, mark, &point)) {
        return made;
    }
    made.eps = config ? config->eps : TG_EPS_OF_DTYPE;
    if (made.eps == TG_EPS_OF_DTYPE) {
        made.eps = tg_params_dtype(params) == TG_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    }
    if (width < 1 || !(made.eps > 0)) {
        tg_params_fail(params, TG_ERROR_VALUE,
                       "%s: '%s' has width %lld and eps %g; width must be at least 1, eps above 0 or TG_EPS_OF_DTYPE",
                       call, name, (long long)width, made.eps);
        return made;
    }
    made.weight = tg_module_add(params, name, "weight", tg_shape_make(1, &width), 1);
    made.module = tg_module_end(params, &point);
    return made;
}

tg_tensor *tg_nn_rms_norm_forward(tg_tape *t, const tg_nn_rms_norm *norm, tg_tensor *x)
{
    return tg_module_is_ready(t, "nn_rms_norm_forward", norm) ? tg_rms_norm(t, x, norm->weight, norm->eps) : NULL;
}

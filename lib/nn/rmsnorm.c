/* rmsnorm: tg_rms_norm with a weight that is trained. */
#include "nn/module.h"

tg_rmsnorm tg_rmsnorm_make(tg_params *params, const char *name, int64_t width, double eps)
{
    tg_rmsnorm made = {.params = params, .eps = eps};
    char full[TG_NAME_SIZE];
    if (!tg_module_name(params, name, "weight", full)) {
        return made;
    }
    if (width < 1 || !(eps > 0)) {
        tg_params_fail(params, TG_ERROR_VALUE,
                       "rmsnorm %s: a width of %lld and an eps of %g; allowed are at least 1 and above 0", name,
                       (long long)width, eps);
        return made;
    }
    made.weight = tg_params_add(params, full, tg_shape_make(1, &width));
    if (made.weight) {
        tg_fill(made.weight, 1, NULL);
    }
    return made;
}

tg_tensor *tg_rmsnorm_forward(tg_tape *t, const tg_rmsnorm *norm, tg_tensor *x)
{
    if (!tg_module_ready(t, "rmsnorm", norm->params, norm->weight)) {
        return NULL;
    }
    return tg_rms_norm(t, x, norm->weight, norm->eps);
}

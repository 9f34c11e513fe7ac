/* linear: y = x W^T + b. The weight is stored (out,in) as in PyTorch; the product is lib/ops/linear.c. */
#include "nn/module.h"

#include <math.h>

tg_linear tg_linear_make(tg_params *params, const char *name, int64_t in, int64_t out, tg_bias bias)
{
    tg_linear made = {.params = params, .has_bias = bias == TG_BIAS};
    char full[TG_NAME_SIZE];
    if (!tg_module_name(params, name, "weight", full)) {
        return made;
    }
    if (in < 1 || out < 1) {
        tg_params_fail(params, TG_ERROR_SHAPE, "linear %s: %lld inputs and %lld outputs; both must be at least 1", name,
                       (long long)in, (long long)out);
        return made;
    }
    /* torch.nn.Linear: kaiming_uniform_(a=sqrt(5)) for the weight, whose bound is 1/sqrt(in) but for its rounding */
    double gain = sqrt(2.0 / (1 + sqrt(5.0) * sqrt(5.0))), bound = sqrt(3.0) * (gain / sqrt((double)in));
    made.weight = tg_params_add_uniform(params, full, tg_shape_make(2, (int64_t[]){out, in}), -bound, bound);
    if (made.weight && made.has_bias && tg_module_name(params, name, "bias", full)) {
        bound = 1 / sqrt((double)in);
        made.bias = tg_params_add_uniform(params, full, tg_shape_make(1, &out), -bound, bound);
    }
    return made;
}

tg_tensor *tg_linear_forward(tg_tape *t, const tg_linear *linear, tg_tensor *x)
{
    if (!tg_module_ready(t, "linear", linear->params, linear->has_bias && !linear->bias ? NULL : linear->weight)) {
        return NULL;
    }
    return linear->has_bias ? tg_linear_map_bias(t, x, linear->weight, linear->bias)
                            : tg_linear_map(t, x, linear->weight);
}

/* linear: y = x W^T + b as a module. The weight is (out,in), as in PyTorch; lib/ops/linear_algebra/linear.c computes
 * the product. With LoRA s (x A^T) B^T is added; the scale is applied to x A^T, which is the smallest. */
#include <math.h>

#include "nn/module.h"
#include "tape/tape.h"

/* torch.nn.Linear draws the weight by kaiming_uniform_(a=sqrt(5)), which computes its bound in these steps. */
double tg_linear_bound(int64_t in)
{
    double gain = sqrt(2.0 / (1 + sqrt(5.0) * sqrt(5.0)));
    return sqrt(3.0) * (gain / sqrt((double)in));
}

tg_nn_linear tg_nn_linear_make(tg_params *params, const char *name, int64_t in, int64_t out, tg_bias bias)
{
    static const char call[] = "nn_linear_make";
    tg_nn_linear made = {.module = {params, false}};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, NULL, NULL, &point)) {
        return made;
    }
    if (in < 1 || out < 1) {
        tg_params_fail(params, TG_ERROR_SHAPE, "%s: '%s' has %lld inputs and %lld outputs; both must be at least 1",
                       call, name, (long long)in, (long long)out);
        return made;
    }
    if (bias != TG_BIAS && bias != TG_NO_BIAS) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: bias %d of '%s'; it must be TG_BIAS or TG_NO_BIAS", call, (int)bias,
                       name);
        return made;
    }
    tg_shape shape = tg_shape_make(2, (int64_t[]){out, in});
    made.weight = tg_module_add_uniform(params, name, "weight", shape, tg_linear_bound(in));
    if (bias == TG_BIAS) {
        made.bias = tg_module_add_uniform(params, name, "bias", tg_shape_make(1, &out), 1 / sqrt((double)in));
    }
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : (tg_nn_linear){.module = made.module};
}

bool tg_lora_check_shapes(const char *call, const tg_nn_linear *linear, tg_error *error)
{
    const tg_tensor *w = linear->weight, *a = linear->lora_a, *b = linear->lora_b;
    return (a->shape[1] == w->shape[1] && b->shape[0] == w->shape[0] && a->shape[0] == b->shape[1]) ||
           tg_error_set(error, TG_ERROR_SHAPE,
                        "%s: the weight is %s, lora_A.weight %s and lora_B.weight %s; they must be (out,in), (rank,in) "
                        "and (out,rank). A weight and its lora_B are resized together",
                        call, tg_shape_text_of(w).text, tg_shape_text_of(a).text, tg_shape_text_of(b).text);
}

tg_tensor *tg_nn_linear_forward(tg_tape *t, const tg_nn_linear *linear, tg_tensor *x)
{
    static const char call[] = "nn_linear_forward";
    if (!tg_module_is_ready(t, call, linear)) {
        return NULL;
    }
    if (!linear->lora_a) {
        return tg_linear(t, x, linear->weight, linear->bias);
    }
    if (!tg_tape_is_usable(t) || !tg_lora_check_shapes(call, linear, t->error)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *y = tg_linear(t, x, linear->weight, linear->bias);
    tg_tensor *thin = y ? tg_mul_scalar(t, tg_linear(t, x, linear->lora_a, NULL), linear->lora_scale) : NULL;
    return tg_tape_end(t, &point, thin ? tg_add(t, y, tg_linear(t, thin, linear->lora_b, NULL)) : NULL);
}

/* batch_norm: normalizes each channel over the batch; the module with trained parameters and running statistics.
 *
 *   training     y = (x - mean(x)) / sqrt(var(x) + eps) w + b          mean and biased variance of the channel
 *                mean' = mean' + momentum (mean(x) - mean')            the running statistics, and
 *                var'  = var' + momentum (n / (n - 1) var(x) - var')   n values of the channel
 *   evaluation   y = (x - mean') / sqrt(var' + eps) w + b
 *
 * (Ioffe and Szegedy 2015.) Follows torch.nn.functional.batch_norm. Composed of ops, so it has all derivatives.
 */
#include <float.h>

#include "nn/module.h"
#include "tape/tape.h"

/* Returns a tensor (C), as broadcast along the axes of x behind the channels. */
static tg_tensor *along_channels(tg_tape *t, const tg_tensor *x, tg_tensor *channels)
{
    tg_shape shape = {x->rank - 1, {x->shape[1]}};
    for (int axis = 1; axis < shape.rank; axis++) {
        shape.size[axis] = 1;
    }
    return tg_reshape(t, channels, shape);
}

/* Returns all axes but that of the channels. */
static tg_axes axes_of(const tg_tensor *x)
{
    tg_axes axes = {x->rank - 1, {0}};
    for (int i = 1; i < axes.count; i++) {
        axes.axis[i] = i + 1;
    }
    return axes;
}

/* Moves running statistics toward those of a batch, multiplied by a factor. */
static void move(tg_tensor *running, const tg_tensor *batch, double momentum, double factor)
{
    size_t size = tg_size_of(running->dtype);
    for (int64_t i = 0; i < running->count; i++) {
        double value = (1 - momentum) * tg_value_at(running, i) + momentum * factor * tg_value_at(batch, i);
        tg_convert((char *)tg_values(running) + (size_t)i * size, tg_dtype_of(running), &value, TG_F64, 1);
    }
    tg_touch(running);
}

/* Checks a tensor (C) of the dtype of x; running statistics are written, and so are contiguous leaves. */
static bool check_channels(tg_tape *t, const tg_tensor *x, const char *name, const tg_tensor *channels, bool is_running)
{
    if (is_running ? !tg_tape_expect_values(t, "batch_norm", name, channels)
                   : !tg_tape_expect_input(t, "batch_norm", name, channels)) {
        return false;
    }
    if (channels->rank != 1 || channels->shape[0] != x->shape[1] || channels->dtype != x->dtype) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "batch_norm", "%s is %s %s; x has %lld channels of %s", name,
                            tg_dtype_name(tg_dtype_of(channels)), tg_shape_text_of(channels).text,
                            (long long)x->shape[1], tg_dtype_name(tg_dtype_of(x)));
    }
    return !is_running || (tg_tensor_is_contiguous(channels) && !tg_tensor_requires_grad(channels)) ||
           tg_tape_fail(t, TG_ERROR_STATE, "batch_norm", "%s must be contiguous, and without a gradient", name);
}

static bool check(tg_tape *t, const tg_tensor *x, const tg_tensor *const channels[4], double momentum, double eps)
{
    static const char *const names[] = {"running_mean", "running_var", "weight", "bias"};
    if (!tg_tape_expect_floats(t, "batch_norm", (const char *[]){"x"}, &x, 1)) {
        return false;
    }
    if (x->rank < 2 || x->shape[1] < 1) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "batch_norm", "x is %s; it must be (N,C,..) with C >= 1",
                            tg_shape_text_of(x).text);
    }
    for (int i = 0; i < 4; i++) {
        if (channels[i] && !check_channels(t, x, names[i], channels[i], i < 2)) {
            return false;
        }
    }
    if (!channels[0] != !channels[1]) {
        return tg_tape_fail(t, TG_ERROR_VALUE, "batch_norm", "only one of running_mean and running_var is NULL");
    }
    return (momentum >= 0 && momentum <= 1 && eps > 0) ||
           tg_tape_fail(t, TG_ERROR_VALUE, "batch_norm",
                        "momentum %g and eps %g; momentum must be in [0,1], and eps above 0", momentum, eps);
}

tg_tensor *tg_batch_norm(tg_tape *t, tg_tensor *x, tg_tensor *running_mean, tg_tensor *running_var, tg_tensor *weight,
                         tg_tensor *bias, double momentum, double eps)
{
    const tg_tensor *channels[] = {running_mean, running_var, weight, bias};
    if (!check(t, x, channels, momentum, eps)) {
        return NULL;
    }
    const bool by_batch = !running_mean || tg_tape_is_training(t);
    const int64_t values = x->count / x->shape[1];
    if (by_batch && values < 2) {
        tg_tape_fail(t, TG_ERROR_SHAPE, "batch_norm", "x is %s; the statistics of a batch need 2 values per channel",
                     tg_shape_text_of(x).text);
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    const tg_axes axes = axes_of(x);
    tg_tensor *mean = by_batch ? tg_mean(t, x, axes, TG_KEEP_AXES) : along_channels(t, x, running_mean);
    tg_tensor *var = by_batch ? tg_var(t, x, axes, 0, TG_KEEP_AXES) : along_channels(t, x, running_var);
    tg_tensor *y = tg_div(t, tg_sub(t, x, mean), tg_sqrt(t, tg_add_scalar(t, var, eps)));
    y = weight ? tg_mul(t, y, along_channels(t, x, weight)) : y;
    y = bias ? tg_add(t, y, along_channels(t, x, bias)) : y;
    if (y && by_batch && running_mean) {
        move(running_mean, mean, momentum, 1);
        move(running_var, var, momentum, (double)values / (double)(values - 1));
    }
    return tg_tape_end(t, &point, y);
}

/* ---- the module ---- */

TG_CONFIG(tg_nn_batch_norm_config, tg_nn_batch_norm_config_default, mark, .mark = mark, .eps = 1e-5, .momentum = 0.1,
          .affine = true, .track_running_stats = true);

/* Adds the buffer "<name>.<part>". */
static tg_tensor *add_statistics(tg_params *params, const char *name, const char *part, tg_shape shape, double value)
{
    tg_tensor *added = tg_params_add_buffer(params, TG_MODULE_NAME(params, name, part), shape);
    if (!tg_params_has_source(params)) {
        tg_tensor_fill(added, value, NULL);
    }
    return added;
}

tg_nn_batch_norm tg_nn_batch_norm_make(tg_params *params, const char *name, int64_t channels,
                                       const tg_nn_batch_norm_config *given)
{
    static const char call[] = "nn_batch_norm_make";
    tg_params_point point;
    tg_nn_batch_norm made = {.module = {params, false}};
    if (!tg_module_begin(params, call, name, given, mark, &point)) {
        return made;
    }
    tg_nn_batch_norm_config c = given ? *given : tg_nn_batch_norm_config_default();
    if (c.eps == TG_EPS_OF_DTYPE) {
        c.eps = tg_params_dtype(params) == TG_F32 ? (double)FLT_EPSILON : DBL_EPSILON;
    }
    if (channels < 1 || !(c.eps > 0) || !(c.momentum >= 0 && c.momentum <= 1)) {
        tg_params_fail(
            params, TG_ERROR_VALUE,
            "%s: '%s' has %lld channels, eps %g and momentum %g; channels must be at least 1, eps above 0 or "
            "TG_EPS_OF_DTYPE, momentum in [0,1]",
            call, name, (long long)channels, c.eps, c.momentum);
    }
    tg_shape shape = tg_shape_make(1, &channels);
    if (c.affine) {
        made.weight = tg_module_add(params, name, "weight", shape, 1);
        made.bias = tg_module_add(params, name, "bias", shape, 0);
    }
    if (c.track_running_stats) {
        made.running_mean = add_statistics(params, name, "running_mean", shape, 0);
        made.running_var = add_statistics(params, name, "running_var", shape, 1);
    }
    made.eps = c.eps;
    made.momentum = c.momentum;
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : (tg_nn_batch_norm){.module = made.module};
}

tg_tensor *tg_nn_batch_norm_forward(tg_tape *t, const tg_nn_batch_norm *norm, tg_tensor *x)
{
    return tg_module_is_ready(t, "nn_batch_norm_forward", norm)
               ? tg_batch_norm(t, x, norm->running_mean, norm->running_var, norm->weight, norm->bias, norm->momentum,
                               norm->eps)
               : NULL;
}

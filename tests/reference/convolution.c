/* convolution: tg_conv1d, its module, tg_max_pool1d and tg_avg_pool1d.
 *
 * Window t of a sequence has the positions t stride + k dilation - padding, k = 0, 1, .. kernel - 1. Those outside of
 * the sequence count as 0 in a convolution and in a mean, and as -inf in a maximum.
 */
#include "reference.h"

#include <string.h>

typedef struct windows {
    int64_t kernel, stride, padding, dilation, groups;
    bool has_config;
} windows;

/* The number of windows, or -1 if none fits. The options are valid, but may be as large as an int64_t. */
static int64_t count_windows(const windows *w, int64_t length)
{
    long double span = (long double)w->dilation * (long double)(w->kernel - 1) + 1;
    long double padded = (long double)length + 2 * (long double)w->padding;
    return span > padded ? -1 : (int64_t)((padded - span) / (long double)w->stride) + 1;
}

static bool is_inside(int64_t position, int64_t length)
{
    return position >= 0 && position < length;
}

/* ---- pooling ---- */

static void draw_pool(trial *t)
{
    windows *w = OPTIONS(t, windows);
    bool is_mean = strcmp(t->reference->op, "tg_avg_pool1d") == 0;
    draw_input(t, "x", draw_shape(t, draw_chance(t, 3) ? 0 : 1, TG_MAX_RANK));
    *w = (windows){draw_chance(t, 4) ? DRAW_ONE_OF(t, 0, -1, INT64_MAX, INT64_MIN) : draw_integer(t, 1, 7),
                   0,
                   0,
                   1,
                   1,
                   draw_chance(t, 90)};
    note_integer(t, "kernel", w->kernel);
    note_bool(t, "has_config", w->has_config);
    if (w->has_config) {
        w->stride = draw_chance(t, 3) ? DRAW_ONE_OF(t, -1, INT64_MAX, INT64_MIN) : draw_integer(t, 0, 5);
        w->padding = draw_chance(t, 3) ? DRAW_ONE_OF(t, -1, INT64_MAX, INT64_MIN) : draw_integer(t, 0, 3);
        w->dilation = draw_chance(t, 3) ? DRAW_ONE_OF(t, 0, -1, INT64_MAX) : draw_integer(t, 1, is_mean ? 1 : 4);
        note_integer(t, "stride", w->stride);
        note_integer(t, "padding", w->padding);
        note_integer(t, "dilation", w->dilation);
    }
}

/* The windows with the stride that 0 stands for. */
static windows pool_windows(const trial *t)
{
    windows w = *OPTIONS(t, windows);
    w.stride = w.stride == 0 ? w.kernel : w.stride;
    return w;
}

static bool is_valid_pool(const trial *t)
{
    windows w = pool_windows(t);
    tg_shape shape = t->inputs[0].x.shape;
    bool is_mean = strcmp(t->reference->op, "tg_avg_pool1d") == 0;
    return shape.rank >= 1 && shape.size[shape.rank - 1] >= 1 && w.kernel >= 1 && w.stride >= 1 && w.padding >= 0 &&
           w.padding <= w.kernel / 2 && w.dilation >= 1 && (!is_mean || w.dilation == 1) &&
           count_windows(&w, shape.size[shape.rank - 1]) >= 0;
}

static tg_tensor *call_pool(trial *t)
{
    const windows *w = OPTIONS(t, windows);
    tg_tensor *(*pool)(tg_tape *, tg_tensor *, int64_t, const tg_pool1d_config *) =
        strcmp(t->reference->op, "tg_avg_pool1d") == 0 ? tg_avg_pool1d : tg_max_pool1d;
    tg_pool1d_config config = tg_pool1d_config_default();
    config.stride = w->stride;
    config.padding = w->padding;
    config.dilation = w->dilation;
    return pool(t->tape, t->inputs[0].tensor, w->kernel, w->has_config ? &config : NULL);
}

static array *new_pool_output(trial *t, const windows *w)
{
    tg_shape shape = t->inputs[0].x.shape;
    shape.size[shape.rank - 1] = count_windows(w, shape.size[shape.rank - 1]);
    return output_new(t, 0, shape);
}

/* The position in x of the maximum of window `window` of sequence `sequence`: of the first one, or of the last NaN, as
 * in torch. -1 if no value of the window is inside of the sequence. */
static int64_t find_maximum(const array *x, const windows *w, int64_t length, int64_t sequence, int64_t window)
{
    int64_t best = -1;
    for (int64_t k = 0; k < w->kernel; k++) {
        int64_t position = window * w->stride + k * w->dilation - w->padding;
        if (is_inside(position, length)) {
            int64_t i = sequence * length + position;
            if (best < 0 || x->values[i] > x->values[best] || isnan(x->values[i])) {
                best = i;
            }
        }
    }
    return best;
}

static void max_pool_forward(trial *t)
{
    const array *x = &t->inputs[0].x;
    windows w = pool_windows(t);
    array *y = new_pool_output(t, &w);
    int64_t length = x->shape.size[x->shape.rank - 1], outputs = y->shape.size[x->shape.rank - 1];
    for (int64_t i = 0; i < y->count; i++) {
        int64_t at = find_maximum(x, &w, length, i / outputs, i % outputs);
        put(y, i, at < 0 ? -INFINITY : x->values[at]);
    }
}

static void max_pool_backward(trial *t)
{
    input *x = &t->inputs[0];
    const array *dy = &t->outputs[0].dy;
    windows w = pool_windows(t);
    int64_t length = x->x.shape.size[x->x.shape.rank - 1], outputs = dy->shape.size[dy->shape.rank - 1];
    for (int64_t i = 0; i < dy->count; i++) {
        int64_t at = find_maximum(&x->x, &w, length, i / outputs, i % outputs);
        if (at >= 0) {
            add(&x->dx, at, dy->values[i]);
        }
    }
}

static void avg_pool_forward(trial *t)
{
    const array *x = &t->inputs[0].x;
    windows w = pool_windows(t);
    array *y = new_pool_output(t, &w);
    int64_t length = x->shape.size[x->shape.rank - 1], outputs = y->shape.size[x->shape.rank - 1];
    for (int64_t i = 0; i < y->count; i++) {
        for (int64_t k = 0; k < w.kernel; k++) {
            int64_t position = i % outputs * w.stride + k - w.padding;
            if (is_inside(position, length)) {
                add(y, i, x->values[i / outputs * length + position] / (double)w.kernel);
            }
        }
    }
}

static void avg_pool_backward(trial *t)
{
    input *x = &t->inputs[0];
    const array *dy = &t->outputs[0].dy;
    windows w = pool_windows(t);
    int64_t length = x->x.shape.size[x->x.shape.rank - 1], outputs = dy->shape.size[dy->shape.rank - 1];
    for (int64_t i = 0; i < dy->count; i++) {
        for (int64_t k = 0; k < w.kernel; k++) {
            int64_t position = i % outputs * w.stride + k - w.padding;
            if (is_inside(position, length)) {
                add(&x->dx, i / outputs * length + position, dy->values[i] / (double)w.kernel);
            }
        }
    }
}

/* ---- convolution ---- */

static void draw_conv1d(trial *t)
{
    windows *w = OPTIONS(t, windows);
    int64_t groups = draw_chance(t, 50) ? 1 : draw_integer(t, 2, 4), kernel = draw_integer(t, 1, 6);
    /* now and then so many channels that each tap is a product of matrices */
    int64_t in = draw_chance(t, 15) ? draw_integer(t, 7, 17) : draw_integer(t, 1, 3);
    int64_t out = groups * draw_integer(t, 1, 3), batch = draw_integer(t, 0, 3);
    int64_t length = draw_size(t);
    tg_shape x = TG_SHAPE(batch, in * groups, length), weight = TG_SHAPE(out, in, kernel), bias = TG_SHAPE(out);
    if (draw_chance(t, 6)) { /* a size that does not match, or none at all */
        int64_t *sizes[] = {&x.size[1], &weight.size[0], &weight.size[1], &weight.size[2], &bias.size[0]};
        *sizes[draw_integer(t, 0, 4)] = draw_integer(t, 0, 4);
    }
    x.rank = draw_chance(t, 1) ? 2 : 3;
    weight.rank = draw_chance(t, 1) ? 2 : 3;
    *w = (windows){weight.size[2], 1, 0, 1, 1, groups > 1 || draw_chance(t, 85)};
    note_bool(t, "has_config", w->has_config);
    if (w->has_config) {
        w->groups = draw_chance(t, 3) ? DRAW_ONE_OF(t, 0, -1, 2, INT64_MAX) : groups;
        w->stride = draw_chance(t, 3) ? DRAW_ONE_OF(t, 0, -1, INT64_MAX) : draw_integer(t, 1, 4);
        w->padding = draw_chance(t, 3) ? DRAW_ONE_OF(t, -1, INT64_MAX, INT64_MIN) : draw_integer(t, 0, 7);
        w->dilation = draw_chance(t, 3) ? DRAW_ONE_OF(t, 0, -1, INT64_MAX) : draw_integer(t, 1, 4);
        note_integer(t, "stride", w->stride);
        note_integer(t, "padding", w->padding);
        note_integer(t, "dilation", w->dilation);
        note_integer(t, "groups", w->groups);
    }
    draw_input(t, "x", x);
    draw_input(t, "weight", weight);
    if (draw_chance(t, 60)) {
        draw_input(t, "bias", bias);
    } else {
        draw_absent(t, "bias");
    }
}

static bool is_valid_conv1d(const trial *t)
{
    const windows *w = OPTIONS(t, windows);
    tg_shape x = t->inputs[0].x.shape, weight = t->inputs[1].x.shape, bias = t->inputs[2].x.shape;
    bool has_valid_options = w->stride >= 1 && w->padding >= 0 && w->dilation >= 1 && w->groups >= 1;
    return has_valid_options && x.rank == 3 && weight.rank == 3 && weight.size[0] >= 1 && weight.size[1] >= 1 &&
           weight.size[2] >= 1 && weight.size[0] % w->groups == 0 && x.size[1] % w->groups == 0 &&
           x.size[1] / w->groups == weight.size[1] && (!t->inputs[2].is_present || bias.size[0] == weight.size[0]) &&
           w->padding < INT32_MAX && count_windows(w, x.size[2]) >= 0;
}

static tg_tensor *call_conv1d(trial *t)
{
    const windows *w = OPTIONS(t, windows);
    tg_conv1d_config config = tg_conv1d_config_default();
    config.stride = w->stride;
    config.padding = w->padding;
    config.dilation = w->dilation;
    config.groups = w->groups;
    return tg_conv1d(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, t->inputs[2].tensor,
                     w->has_config ? &config : NULL);
}

/* Calls `visit` for each product of a weight and a value of x that an output is a sum of, with their numbers; that of x
 * is -1 for a zero of the padding. */
static void for_each_product(trial *t, const array *y, void (*visit)(trial *t, int64_t y, int64_t weight, int64_t x))
{
    const windows *w = OPTIONS(t, windows);
    const tg_shape *x = &t->inputs[0].x.shape, *weight = &t->inputs[1].x.shape;
    int64_t in = weight->size[1], out_of_group = weight->size[0] / w->groups;
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; i < y->count; i++) {
        split_index(y->shape, i, index);
        int64_t batch = index[0], out = index[1], window = index[2], group = out / out_of_group;
        for (int64_t c = 0; c < in; c++) {
            for (int64_t k = 0; k < w->kernel; k++) {
                int64_t position = window * w->stride + k * w->dilation - w->padding;
                int64_t row = (batch * x->size[1] + group * in + c) * x->size[2];
                visit(t, i, (out * in + c) * w->kernel + k, is_inside(position, x->size[2]) ? row + position : -1);
            }
        }
    }
}

/* A weight that is not finite times a zero of the padding is NaN, or left out; torch does either. */
static void add_product(trial *t, int64_t y, int64_t weight, int64_t x)
{
    double w = t->inputs[1].x.values[weight];
    if (x >= 0) {
        add(&t->outputs[0].y, y, w * t->inputs[0].x.values[x]);
    } else if (!isfinite(w)) {
        add_terms(&t->outputs[0].y, y, 0, INFINITY);
    }
}

static void add_gradients_of_product(trial *t, int64_t y, int64_t weight, int64_t x)
{
    double dy = t->outputs[0].dy.values[y];
    if (x >= 0) {
        add(&t->inputs[0].dx, x, dy * t->inputs[1].x.values[weight]);
        add(&t->inputs[1].dx, weight, dy * t->inputs[0].x.values[x]);
    }
}

static void conv1d_forward(trial *t)
{
    const windows *w = OPTIONS(t, windows);
    const input *x = &t->inputs[0], *weight = &t->inputs[1], *bias = &t->inputs[2];
    array *y =
        output_new(t, 0, TG_SHAPE(x->x.shape.size[0], weight->x.shape.size[0], count_windows(w, x->x.shape.size[2])));
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; bias->is_present && i < y->count; i++) {
        split_index(y->shape, i, index);
        add(y, i, bias->x.values[index[1]]);
    }
    for_each_product(t, y, add_product);
}

static void conv1d_backward(trial *t)
{
    const array *dy = &t->outputs[0].dy;
    input *bias = &t->inputs[2];
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; bias->is_present && i < dy->count; i++) {
        split_index(dy->shape, i, index);
        add(&bias->dx, index[1], dy->values[i]);
    }
    for_each_product(t, dy, add_gradients_of_product);
}

/* ---- the module ---- */

typedef struct module_call {
    windows w; /* first, so that OPTIONS(t, windows) is valid */
    tg_nn_conv1d conv;
} module_call;

static void draw_module(trial *t)
{
    module_call *m = OPTIONS(t, module_call);
    windows *w = &m->w;
    int64_t groups = draw_chance(t, 50) ? 1 : draw_integer(t, 2, 4), in = groups * draw_integer(t, 1, 3);
    *w = (windows){note_integer(t, "kernel", draw_integer(t, 1, 6)), 1, 0, 1, groups, groups > 1 || draw_chance(t, 80)};
    tg_nn_conv1d_config config = tg_nn_conv1d_config_default();
    if (note_bool(t, "has_config", w->has_config)) {
        config.bias = draw_chance(t, 50);
        config.conv.stride = w->stride = note_integer(t, "stride", draw_integer(t, 1, 4));
        config.conv.padding = w->padding = note_integer(t, "padding", draw_integer(t, 0, 7));
        config.conv.dilation = w->dilation = note_integer(t, "dilation", draw_integer(t, 1, 4));
        config.conv.groups = note_integer(t, "groups", groups);
    }
    draw_input(t, "x", TG_SHAPE(draw_integer(t, 0, 3), draw_chance(t, 2) ? draw_size(t) : in, draw_size(t)));
    t->params = tg_params_new(t->run, t->dtype);
    m->conv = tg_nn_conv1d_make(t->params, "m", in, groups * draw_integer(t, 1, 3), w->kernel,
                                w->has_config ? &config : NULL);
    draw_parameter(t, "m.weight");
    draw_parameter(t, "m.bias");
}

static tg_tensor *call_module(trial *t)
{
    return tg_nn_conv1d_forward(t->tape, &OPTIONS(t, module_call)->conv, t->inputs[0].tensor);
}

static const reference references[] = {
    {
        .op = "tg_max_pool1d",
        .draw = draw_pool,
        .is_valid = is_valid_pool,
        .call = call_pool,
        .forward = max_pool_forward,
        .backward = max_pool_backward,
        .roundings = 0,
        .gradient_roundings = 8,
    },
    {
        .op = "tg_avg_pool1d",
        .draw = draw_pool,
        .is_valid = is_valid_pool,
        .call = call_pool,
        .forward = avg_pool_forward,
        .backward = avg_pool_backward,
        .roundings = 8,
        .gradient_roundings = 8,
    },
    {
        .op = "tg_conv1d",
        .draw = draw_conv1d,
        .is_valid = is_valid_conv1d,
        .call = call_conv1d,
        .forward = conv1d_forward,
        .backward = conv1d_backward,
        .roundings = 16,
        .gradient_roundings = 32,
    },
    {
        .op = "tg_nn_conv1d_forward",
        .inner = "conv1d",
        .draw = draw_module,
        .is_valid = is_valid_conv1d,
        .call = call_module,
        .forward = conv1d_forward,
        .backward = conv1d_backward,
        .roundings = 16,
        .gradient_roundings = 32,
    },
};

reference_family convolution = {"convolution", references, sizeof references / sizeof *references, 40000, NULL};

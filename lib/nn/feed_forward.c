/* feed_forward: the network that a transformer block applies to each position separately.
 *
 *   gelu      down(gelu(up(x)))                 GPT-2, with the tanh form of GELU (Radford et al. 2019)
 *   swiglu    down(silu(gate(x)) up(x))         Shazeer 2020; Llama
 *   geglu     down(gelu(gate(x)) up(x))         the same paper; Gemma, with the tanh form
 */
#include "nn/module.h"
#include "tape/tape.h"

TG_CONFIG(tg_nn_feed_forward_config, tg_nn_feed_forward_config_default, mark, .mark = mark, .bias = TG_BIAS_OF_KIND);

tg_nn_feed_forward tg_nn_feed_forward_make(tg_params *params, const char *name, int64_t width, int64_t hidden,
                                           tg_feed_forward_kind kind, const tg_nn_feed_forward_config *config)
{
    static const char call[] = "nn_feed_forward_make";
    tg_nn_feed_forward none = {.module = {params, false}}, made = {.kind = kind};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, config, mark, &point)) {
        return none;
    }
    if ((unsigned)kind > TG_FEED_FORWARD_GEGLU) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has kind %d, which does not exist", call, name, (int)kind);
        return none;
    }
    bool is_gated = kind != TG_FEED_FORWARD_GELU;
    tg_bias bias = config ? config->bias : TG_BIAS_OF_KIND;
    if (bias == TG_BIAS_OF_KIND) {
        bias = is_gated ? TG_NO_BIAS : TG_BIAS;
    }
    if (is_gated) {
        made.gate = tg_nn_linear_make(params, TG_MODULE_NAME(params, name, "fc1"), width, hidden, bias);
    }
    const char *up = TG_MODULE_NAME(params, name, is_gated ? "fc2" : "layers.0");
    const char *down = TG_MODULE_NAME(params, name, is_gated ? "fc3" : "layers.2");
    made.up = tg_nn_linear_make(params, up, width, hidden, bias);
    made.down = tg_nn_linear_make(params, down, hidden, width, bias);
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : none;
}

/* Checks that gate and up are of one width, to which one of them would be broadcast. */
static bool check_widths(tg_tape *t, const tg_tensor *gate, const tg_tensor *up)
{
    return tg_same_shape(gate, up) ||
           tg_tape_fail(t, TG_ERROR_SHAPE, "nn_feed_forward_forward",
                        "the gate is %s, and what it multiplies %s; both must be (..,hidden)",
                        tg_shape_text_of(gate).text, tg_shape_text_of(up).text);
}

tg_tensor *tg_nn_feed_forward_forward(tg_tape *t, const tg_nn_feed_forward *f, tg_tensor *x)
{
    if (!tg_module_is_ready(t, "nn_feed_forward_forward", f)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, false, &point);
    tg_tensor *y;
    if (f->kind == TG_FEED_FORWARD_GELU) {
        y = tg_gelu_tanh(t, tg_nn_linear_forward(t, &f->up, x));
    } else {
        tg_tensor *gate = tg_nn_linear_forward(t, &f->gate, x);
        gate = f->kind == TG_FEED_FORWARD_SWIGLU ? tg_silu(t, gate) : tg_gelu_tanh(t, gate);
        tg_tensor *up = tg_nn_linear_forward(t, &f->up, x);
        y = gate && up && check_widths(t, gate, up) ? tg_mul(t, gate, up) : NULL;
    }
    return tg_tape_end(t, &point, tg_nn_linear_forward(t, &f->down, y));
}

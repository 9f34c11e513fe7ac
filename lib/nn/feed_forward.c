/* feed_forward: what a transformer does at each position alone.
 *
 *   gelu      down(gelu(up(x)))                 GPT-2's, with the tanh form of GELU (Radford et al. 2019)
 *   swiglu    down(silu(gate(x)) up(x))         Shazeer 2020; without biases, as in Llama
 */
#include "nn/module.h"

tg_feed_forward tg_feed_forward_make(tg_params *params, const char *name, int64_t width, int64_t hidden,
                                     tg_feed_forward_kind kind)
{
    tg_feed_forward made = {.kind = kind, .gate.params = params, .up.params = params, .down.params = params};
    bool gated = kind == TG_FEED_FORWARD_SWIGLU;
    tg_bias bias = gated ? TG_NO_BIAS : TG_BIAS;
    char full[TG_NAME_SIZE];
    if (kind != TG_FEED_FORWARD_GELU && kind != TG_FEED_FORWARD_SWIGLU) {
        tg_params_fail(params, TG_ERROR_VALUE, "feed_forward %s: %d is not a kind of feed-forward", name ? name : "",
                       (int)kind);
        return made;
    }
    if (gated && tg_module_name(params, name, "fc1", full)) {
        made.gate = tg_linear_make(params, full, width, hidden, bias);
    }
    if (tg_module_name(params, name, gated ? "fc2" : "layers.0", full)) {
        made.up = tg_linear_make(params, full, width, hidden, bias);
    }
    if (tg_module_name(params, name, gated ? "fc3" : "layers.2", full)) {
        made.down = tg_linear_make(params, full, hidden, width, bias);
    }
    return made;
}

tg_tensor *tg_feed_forward_forward(tg_tape *t, const tg_feed_forward *f, tg_tensor *x)
{
    if (f->kind == TG_FEED_FORWARD_GELU) {
        return tg_linear_forward(t, &f->down, tg_gelu_tanh(t, tg_linear_forward(t, &f->up, x)));
    }
    tg_tensor *gate = tg_silu(t, tg_linear_forward(t, &f->gate, x));
    return tg_linear_forward(t, &f->down, tg_mul(t, gate, tg_linear_forward(t, &f->up, x)));
}

#include "bench/decoder.h"

#include <string.h>

bool bench_decoder(const char *name, tg_gpt_config *config)
{
    bool is_small = strcmp(name, "135m") == 0;
    tg_gpt_config c = tg_gpt_config_default();
    c.vocabulary = is_small ? 49152 : 151936;
    c.context = 1024;
    c.layers = is_small ? 30 : 28;
    c.width = is_small ? 576 : 1024;
    c.heads = is_small ? 9 : 16;
    c.key_heads = is_small ? 3 : 8;
    c.head_width = is_small ? 64 : 128;
    c.hidden = is_small ? 1536 : 3072;
    c.norm = TG_NORM_RMS;
    c.eps = is_small ? 1e-5 : 1e-6;
    c.query_key_norm = !is_small;
    c.feed_forward = TG_FEED_FORWARD_SWIGLU;
    c.feed_forward_bias = TG_NO_BIAS;
    c.out_bias = false;
    c.position = TG_POSITION_ROTARY;
    c.layers_of_period[0].rotary.base = is_small ? 1e5 : 1e6;
    c.tied_head = true;
    c.init = TG_GPT_INIT_GPT2;
    *config = c;
    return is_small || strcmp(name, "0.6b") == 0;
}

/* The rows of matrix products and attention. */
#include "bench/op_row.h"

static tg_tensor *linear(tg_tape *t, tg_tensor *const *x)
{
    return tg_linear(t, x[0], x[1], x[2]);
}

static tg_tensor *attention_with(tg_tape *t, tg_tensor *const *x, bool is_causal, tg_attention_path path)
{
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = is_causal;
    config.path = path;
    return tg_scaled_dot_product_attention(t, x[0], x[1], x[2], &config);
}

static tg_tensor *attention(tg_tape *t, tg_tensor *const *x)
{
    return attention_with(t, x, false, TG_ATTENTION_FUSED);
}

static tg_tensor *attention_causal(tg_tape *t, tg_tensor *const *x)
{
    return attention_with(t, x, true, TG_ATTENTION_FUSED);
}

static tg_tensor *attention_biased(tg_tape *t, tg_tensor *const *x)
{
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.bias = x[3];
    return tg_scaled_dot_product_attention(t, x[0], x[1], x[2], &config);
}

static tg_tensor *rotary(tg_tape *t, tg_tensor *const *x)
{
    return tg_rotary(t, x[0], 0, NULL);
}

#define QKV "real A,H,Q,D; real A,H,Q,D; real A,H,Q,D"

const op_row op_products[] = {
    {"tg_matmul", "", "real M,K; weight K,N", "2,M,K,N", .binary = tg_matmul},
    {"tg_matmul", "vector", "real 1024,1024; real 1024", "2,1024,1024", .binary = tg_matmul},
    {"tg_matmul", "96 of 128 x 64", "real 96,128,64; real 96,64,128", "2,96,128,64,128", .binary = tg_matmul},
    {"tg_matmul", "4096 of 1 x 64", "real 4096,1,64; real 4096,64,6", "2,4096,64,6", .binary = tg_matmul},
    {"tg_matmul", "512 of 8 x 8", "real 512,8,8; real 512,8,8", "2,512,8,8,8", .binary = tg_matmul},
    {"tg_matmul", "batch and matrix", "real 16,64,256; weight 256,64", "2,16,64,256,64", .binary = tg_matmul},
    {"tg_linear", "", "real M,K; weight N,K; real N", "2,M,K,N", .call = linear},
    {"tg_linear", "64 x 64", "real 64,64; weight 64,64; real 64", "2,64,64,64", .call = linear},
    {"tg_linear", "4 rows", "real 4,768; weight 768,768; real 768", "2,4,768,768", .call = linear},
    {"tg_linear", "1 row, many columns", "real 1,768; weight 50257,768; real 50257", "2,768,50257", .call = linear},
    {"tg_scaled_dot_product_attention", "", QKV, "4,A,H,Q,Q,D", .call = attention},
    {"tg_scaled_dot_product_attention", "causal", QKV, "2,A,H,Q,Q,D", .call = attention_causal},
    {"tg_scaled_dot_product_attention", "bias", QKV "; target Q,Q", "4,A,H,Q,Q,D", .call = attention_biased},
    {"tg_rotary", "", "real A,H,Q,D", .call = rotary},
    {.op = NULL},
};

/* The rows of convolutions, pools and recurrent layers. */
#include "bench/op_row.h"

/* With as much padding as keeps the length, and a group for each channel unless the kernel reads all of them. */
static tg_tensor *conv1d(tg_tape *t, tg_tensor *const *x)
{
    tg_conv1d_config config = tg_conv1d_config_default();
    config.padding = tg_tensor_size(x[1], 2) / 2;
    config.groups = tg_tensor_size(x[0], 1) / tg_tensor_size(x[1], 1);
    return tg_conv1d(t, x[0], x[1], x[2], &config);
}

static tg_tensor *conv1d_stride(tg_tape *t, tg_tensor *const *x)
{
    tg_conv1d_config config = tg_conv1d_config_default();
    config.stride = 2;
    return tg_conv1d(t, x[0], x[1], x[2], &config);
}

static tg_tensor *max_pool1d(tg_tape *t, tg_tensor *const *x)
{
    return tg_max_pool1d(t, x[0], 2, NULL);
}

static tg_tensor *avg_pool1d(tg_tape *t, tg_tensor *const *x)
{
    return tg_avg_pool1d(t, x[0], 3, NULL);
}

/* A module of given weights: weight_ih (G H,in), weight_hh (G H,H) and the two biases (G H). */
static tg_nn_recurrent recurrent(tg_tensor *const *x)
{
    return (tg_nn_recurrent){
        .module = {NULL, true},
        .in = tg_tensor_size(x[0], 2),
        .width = tg_tensor_size(x[2], 1),
        .layers = 1,
        .directions = 1,
        .layer = {{.weight_ih = x[1], .weight_hh = x[2], .bias_ih = x[3], .bias_hh = x[4]}},
    };
}

static tg_tensor *gru(tg_tape *t, tg_tensor *const *x)
{
    tg_nn_gru module = {.module = {NULL, true}, .recurrent = recurrent(x)};
    tg_tensor *state, *y = tg_nn_gru_forward(t, &module, x[0], &state, NULL);
    op_read(state);
    return y;
}

static tg_tensor *lstm(tg_tape *t, tg_tensor *const *x)
{
    tg_nn_lstm module = {.module = {NULL, true}, .recurrent = recurrent(x)};
    tg_tensor *state, *cell, *y = tg_nn_lstm_forward(t, &module, x[0], &state, &cell, NULL);
    op_read(state);
    op_read(cell);
    return y;
}

static tg_tensor *conv1d_module(tg_tape *t, tg_tensor *const *x)
{
    tg_nn_conv1d module = {.module = {NULL, true}, .weight = x[1], .bias = x[2], .conv = tg_conv1d_config_default()};
    return tg_nn_conv1d_forward(t, &module, x[0]);
}

#define WIDE_GRU "real 32,128,256; weight 1536,256; weight 1536,512; weight 1536; weight 1536"
#define WIDE_LSTM "real 32,128,256; weight 2048,256; weight 2048,512; weight 2048; weight 2048"

const op_row op_sequences[] = {
    {"tg_conv1d", "3 taps", "real B,C,T; weight C,C,3; real C", "6,B,C,C,T", .call = conv1d},
    {"tg_conv1d", "3 taps, depthwise", "real B,C,T; weight C,1,3; real C", "6,B,C,T", .call = conv1d},
    {"tg_conv1d", "3 taps, stride 2", "real B,C,T; weight C,C,3; real C", "3,B,C,C,T", .call = conv1d_stride},
    {"tg_conv1d", "9 taps, 256 channels", "real 16,256,512; weight 256,256,9; real 256", "2,16,256,256,9,512",
     .call = conv1d},
    {"tg_conv1d", "25 taps, 1 channel", "real 16,1,512; weight 32,1,25; real 32", "2,16,32,25,512", .call = conv1d},
    {"tg_max_pool1d", "", "real B,C,T", .call = max_pool1d},
    {"tg_avg_pool1d", "", "real B,C,T", .call = avg_pool1d},
    {"tg_nn_gru_forward", "", "real J,U,W; weight 3X,W; weight 3X,X; weight 3X; weight 3X", .call = gru},
    {"tg_nn_gru_forward", "width 512", WIDE_GRU, "2,32,128,768,1536", .call = gru},
    {"tg_nn_lstm_forward", "", "real J,U,W; weight 4X,W; weight 4X,X; weight 4X; weight 4X", .call = lstm},
    {"tg_nn_lstm_forward", "width 512", WIDE_LSTM, "2,32,128,768,2048", .call = lstm},
    {"tg_nn_conv1d_forward", "", "real B,C,T; weight C,C,3; real C", "6,B,C,C,T", .call = conv1d_module},
    {.op = NULL},
};

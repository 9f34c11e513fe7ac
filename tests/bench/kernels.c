#include "bench/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad.h>

#include "bench/figure.h"

#define INPUTS 3

/* An op: its call and the shapes of its inputs. An input with `ids` above 0 holds ids below that number; the other
 * inputs hold normal values and require a gradient. */
typedef struct op_line {
    const char *title;
    tg_tensor *(*run)(tg_tape *t, tg_tensor *const *x);
    struct {
        int rank;
        int64_t size[4];
        int32_t ids;
        bool zipf;     /* whether small ids are much more frequent than large ones */
        bool constant; /* whether the input requires no gradient */
        double spread; /* the standard deviation of the values; 0: 1 */
    } inputs[INPUTS];
} op_line;

static tg_tensor *layer_norm(tg_tape *t, tg_tensor *const *x)
{
    return tg_layer_norm(t, x[0], x[1], x[2], 1e-5);
}

static tg_tensor *rms_norm(tg_tape *t, tg_tensor *const *x)
{
    return tg_rms_norm(t, x[0], x[1], 1e-5);
}

static tg_tensor *gelu(tg_tape *t, tg_tensor *const *x)
{
    return tg_gelu(t, x[0]);
}

static tg_tensor *gelu_tanh(tg_tape *t, tg_tensor *const *x)
{
    return tg_gelu_tanh(t, x[0]);
}

static tg_tensor *dropout(tg_tape *t, tg_tensor *const *x)
{
    return tg_dropout(t, x[0], 0.1);
}

static tg_tensor *add(tg_tape *t, tg_tensor *const *x)
{
    return tg_add(t, x[0], x[1]);
}

static tg_tensor *softmax(tg_tape *t, tg_tensor *const *x)
{
    return tg_softmax(t, x[0], -1);
}

static tg_tensor *log_softmax(tg_tape *t, tg_tensor *const *x)
{
    return tg_log_softmax(t, x[0], -1);
}

static tg_tensor *softmax_of_columns(tg_tape *t, tg_tensor *const *x)
{
    return tg_softmax(t, x[0], 0);
}

static tg_tensor *cross_entropy(tg_tape *t, tg_tensor *const *x)
{
    return tg_cross_entropy(t, x[0], x[1], NULL);
}

static tg_tensor *embedding(tg_tape *t, tg_tensor *const *x)
{
    return tg_embedding(t, x[1], x[0], NULL);
}

static tg_tensor *bag(tg_tape *t, tg_tensor *const *x)
{
    return tg_embedding_bag(t, x[1], x[0], NULL);
}

static tg_tensor *attention(tg_tape *t, tg_tensor *const *x)
{
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = true;
    return tg_scaled_dot_product_attention(t, x[0], x[1], x[2], &config);
}

/* A module of given weights, for x (B,T,256) and a width of 256, without biases. */
static tg_nn_recurrent recurrent(tg_tensor *const *x)
{
    return (tg_nn_recurrent){.module = {NULL, true},
                             .in = 256,
                             .width = 256,
                             .layers = 1,
                             .directions = 1,
                             .layer = {{.weight_ih = x[1], .weight_hh = x[2]}}};
}

static tg_tensor *gru(tg_tape *t, tg_tensor *const *x)
{
    tg_nn_gru module = {.module = {NULL, true}, .recurrent = recurrent(x)};
    return tg_nn_gru_forward(t, &module, x[0], NULL, NULL);
}

static tg_tensor *lstm(tg_tape *t, tg_tensor *const *x)
{
    tg_nn_lstm module = {.module = {NULL, true}, .recurrent = recurrent(x)};
    return tg_nn_lstm_forward(t, &module, x[0], NULL, NULL, NULL);
}

#define RANK(...) ((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
#define REALS(...)                                         \
    {                                                      \
        .rank = RANK(__VA_ARGS__), .size = { __VA_ARGS__ } \
    }
#define TABLE(...)                                                         \
    {                                                                      \
        .rank = RANK(__VA_ARGS__), .size = {__VA_ARGS__}, .constant = true \
    }
#define IDS(below, ...)                                                \
    {                                                                  \
        .rank = RANK(__VA_ARGS__), .size = {__VA_ARGS__}, .ids = below \
    }
#define ZIPF(below, ...)                                                             \
    {                                                                                \
        .rank = RANK(__VA_ARGS__), .size = {__VA_ARGS__}, .ids = below, .zipf = true \
    }
#define SPREAD(std, ...)                                                \
    {                                                                   \
        .rank = RANK(__VA_ARGS__), .size = {__VA_ARGS__}, .spread = std \
    }
#define LINE(name, call, ...)                                 \
    {                                                         \
        .title = name, .run = call, .inputs = { __VA_ARGS__ } \
    }

static const op_line lines[] = {
    LINE("layer_norm 512x768", layer_norm, REALS(512, 768), REALS(768), REALS(768)),
    LINE("rms_norm 512x768", rms_norm, REALS(512, 768), REALS(768)),
    LINE("gelu 512x3072", gelu, REALS(512, 3072)),
    LINE("gelu_tanh 512x3072", gelu_tanh, REALS(512, 3072)),
    LINE("dropout 1024x768", dropout, REALS(1024, 768)),
    LINE("bias add 512x3072", add, REALS(512, 3072), REALS(3072)),
    LINE("residual add 512x768", add, REALS(512, 768), REALS(512, 768)),
    LINE("softmax 512x50257", softmax, REALS(512, 50257)),
    LINE("softmax 4096x768", softmax, REALS(4096, 768)),
    LINE("softmax 768x4096, first axis", softmax_of_columns, REALS(768, 4096)),
    LINE("log_softmax 4096x768", log_softmax, REALS(4096, 768)),
    LINE("cross_entropy 512x50257", cross_entropy, REALS(512, 50257), IDS(50257, 512)),
    LINE("cross_entropy 512x50257, saturated logits", cross_entropy, SPREAD(40, 512, 50257), IDS(50257, 512)),
    LINE("embedding 8192x768", embedding, TABLE(50257, 768), IDS(50257, 8192)),
    LINE("embedding 65536x768", embedding, REALS(50257, 768), IDS(50257, 65536)),
    LINE("embedding 65536x768, Zipf", embedding, REALS(50257, 768), ZIPF(50257, 65536)),
    LINE("bag 1024x16x768", bag, TABLE(50257, 768), IDS(50257, 1024, 16)),
    LINE("attention 2x12x1024x64", attention, REALS(2, 12, 1024, 64), REALS(2, 12, 1024, 64), REALS(2, 12, 1024, 64)),
    LINE("gru 16x64x256", gru, REALS(16, 64, 256), SPREAD(0.05, 768, 256), SPREAD(0.05, 768, 256)),
    LINE("lstm 16x64x256", lstm, REALS(16, 64, 256), SPREAD(0.05, 1024, 256), SPREAD(0.05, 1024, 256)),
};

#define LINES ((int)(sizeof lines / sizeof lines[0]))

/* The tensors of a line. */
typedef struct kernel {
    const op_line *line;
    tg_run *shared_run;
    tg_tape *tape;
    tg_tensor *x[INPUTS], *y, *dy;
    const tg_tensor *from; /* for the bound */
    tg_tensor *copy;
} kernel;

static void run_forward(void *context)
{
    kernel *k = context;
    tg_tape_reset(k->tape);
    k->y = bench_must(k->line->run(k->tape, k->x));
}

static void run_backward(void *context)
{
    kernel *k = context;
    for (int i = 0; i < INPUTS; i++) {
        tg_tensor_zero_grad(k->x[i]);
    }
    tg_backward_config config = tg_backward_config_default();
    config.retain_graph = true;
    config.gradient = k->dy;
    if (!tg_backward(k->tape, k->y, &config)) {
        fprintf(stderr, "bench: %s\n", tg_tape_error(k->tape)->text);
        exit(1);
    }
}

/* Fills ids with the integer parts of below^u - 1, u uniform in [0,1): id n has about the probability 1 / (n ln below),
 * as the words of a text by Zipf's law. */
static void fill_zipf(tg_tensor *ids, tg_rng *rng, int64_t below)
{
    tg_tensor *u = bench_must(tg_tensor_new(TG_F32, tg_tensor_shape(ids), NULL));
    tg_tensor_fill_uniform(u, rng, 0, 1, NULL);
    const float *from = tg_tensor_data(u);
    int32_t *to = tg_tensor_data_mut(ids);
    for (int64_t i = 0; i < tg_tensor_count(ids); i++) {
        to[i] = (int32_t)pow((double)below, (double)from[i]) - 1;
    }
    tg_release(u);
}

static kernel kernel_new(const op_line *line)
{
    kernel k = {.line = line, .shared_run = bench_must(tg_run_new(1))};
    k.tape = bench_must(tg_tape_new(k.shared_run, NULL));
    for (int i = 0; i < INPUTS && line->inputs[i].rank > 0; i++) {
        bool ids = line->inputs[i].ids > 0;
        k.x[i] = bench_must(
            tg_tensor_new(ids ? TG_I32 : TG_F32, tg_shape_make(line->inputs[i].rank, line->inputs[i].size), NULL));
        if (line->inputs[i].zipf) {
            fill_zipf(k.x[i], tg_run_rng(k.shared_run), line->inputs[i].ids);
        } else if (ids) {
            tg_tensor_fill_randint(k.x[i], tg_run_rng(k.shared_run), 0, line->inputs[i].ids, NULL);
        } else {
            double spread = line->inputs[i].spread;
            tg_tensor_fill_normal(k.x[i], tg_run_rng(k.shared_run), 0, spread > 0 ? spread : 1, NULL);
            tg_tensor_set_requires_grad(k.x[i], !line->inputs[i].constant, NULL);
        }
    }
    run_forward(&k);
    k.dy = bench_must(tg_tensor_new(TG_F32, tg_tensor_shape(k.y), NULL));
    tg_tensor_fill_normal(k.dy, tg_run_rng(k.shared_run), 0, 1, NULL);
    k.from = tg_tensor_count(k.dy) > 1 ? k.dy : k.x[0];
    k.copy = bench_must(tg_tensor_new_copy(k.from, NULL));
    return k;
}

static void kernel_free(kernel *k)
{
    for (int i = 0; i < INPUTS; i++) {
        tg_release(k->x[i]);
    }
    tg_release(k->dy);
    tg_release(k->copy);
    tg_tape_free(k->tape);
    tg_run_free(k->shared_run);
}

static void copy_part(void *context, int64_t begin, int64_t end)
{
    kernel *k = context;
    memcpy((char *)tg_tensor_data_mut(k->copy) + begin, (const char *)tg_tensor_data(k->from) + begin,
           (size_t)(end - begin));
}

/* The bound: a copy of the result; of the first input, if the result is one number. */
static void run_copy(void *context)
{
    kernel *k = context;
    tg_parallel_for(tg_tensor_count(k->from) * (int64_t)sizeof(float), 1 << 16, copy_part, k);
}

void bench_kernels(void)
{
    for (int i = 0; i < LINES; i++) {
        kernel k = kernel_new(&lines[i]);
        for (int pass = 0; pass < (lines[i].inputs[0].constant ? 1 : 2); pass++) {
            char name[64];
            snprintf(name, sizeof name, "%s, %s", lines[i].title, pass ? "backward" : "forward");
            bench_measure(&(bench_figure){.name = name,
                                          .unit = "ms",
                                          .bound_name = "memcpy",
                                          .run = pass ? run_backward : run_forward,
                                          .bound = run_copy,
                                          .context = &k,
                                          .scale = 1e3,
                                          .rounds = 15});
        }
        kernel_free(&k);
    }
}

/* nanochat: a language model after Karpathy's nanochat (github.com/karpathy/nanochat, 2025), in small: rotary
 * positions, norms without weights, also of queries and keys, ReLU squared, and for each layer a table whose rows a
 * gate adds to the values of attention (Zhou et al. 2024). Muon trains the matrices, SparseAdam the rows of tables,
 * AdamW the rest, at the learning rates of a trapezoid. Prints losses, and the bits per byte of the end of the text,
 * which the training has not read; to stderr the speed. */
#include "recipe.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <tapegrad_text.h>

#include "../common/command_line.h"

const char program_name[] = "cookbook_nanochat";

enum { T = 128, BATCH = 16, HEAD = 32, GATE = 32, MOST_LAYERS = 32 };

typedef struct options {
    const char *text, *values;
    int64_t width, layers, vocabulary, steps, every;
    double rate;
} options;

static const command_line_option table[] = {
    {"text", "FILE", VALUE_TEXT, offsetof(options, text), NULL, "a text to train on", 1},
    {"values", "KIND", VALUE_TEXT, offsetof(options, values), NULL,
     "tables for the values of attention: rows, dense (all rows have a gradient), or none", 1},
    {"width", "N", VALUE_INTEGER, offsetof(options, width), "[32,4096]", "a multiple of 32", 1},
    {"layers", "N", VALUE_INTEGER, offsetof(options, layers), "[1,32]", "layers", 1},
    {"vocabulary", "N", VALUE_INTEGER, offsetof(options, vocabulary), "[257,65536]", "byte-pair tokens", 1},
    {"steps", "N", VALUE_INTEGER, offsetof(options, steps), "[10,1000000]", "training steps", 1},
    {"every", "N", VALUE_INTEGER, offsetof(options, every), "[1,1000000]", "steps from one loss to the next", 1},
    {"rate", "X", VALUE_NUMBER, offsetof(options, rate), "[0,inf)", "Muon's learning rate", 1}};

/* The matrices are (out,in); values and gate are NULL without a table. */
typedef struct layer {
    tg_tensor *query, *key, *value, *project, *expand, *contract, *gate, *values;
} layer;

typedef struct model {
    int64_t width, layer_count;
    layer layers[MOST_LAYERS];
    tg_tensor *tokens, *head;
    tg_nn_rms_norm norm, head_norm;
} model;

/* Returns the name of an optimizer's parameter, valid until the next call. */
static const char *name_of(const char *optim, int64_t index, const char *what)
{
    static char name[60];
    snprintf(name, sizeof name, "%s.%d.%s", optim, (int)index, what);
    return name;
}

static model make(tg_params *params, const options *o)
{
    int64_t C = o->width, V = o->vocabulary;
    double bound = sqrt(3.0 / (double)C);
    tg_nn_rms_norm_config config = tg_nn_rms_norm_config_default();
    config.no_weight = true;
    model m = {.width = C, .layer_count = o->layers};
    m.norm = tg_nn_rms_norm_make(params, "norm", C, &config);
    m.head_norm = tg_nn_rms_norm_make(params, "head_norm", HEAD, &config);
    m.tokens = tg_params_add_normal(params, "rows.tokens", TG_SHAPE(V, C), 0, 1);
    m.head = tg_params_add_normal(params, "dense.head", TG_SHAPE(V, C), 0, 0.001);
    for (int64_t i = 0; i < o->layers; i++) {
        layer *l = &m.layers[i];
        l->query = tg_params_add_uniform(params, name_of("matrix", i, "query"), TG_SHAPE(C, C), -bound, bound);
        l->key = tg_params_add_uniform(params, name_of("matrix", i, "key"), TG_SHAPE(C, C), -bound, bound);
        l->value = tg_params_add_uniform(params, name_of("matrix", i, "value"), TG_SHAPE(C, C), -bound, bound);
        l->project = tg_params_add(params, name_of("matrix", i, "project"), TG_SHAPE(C, C));
        l->expand = tg_params_add_uniform(params, name_of("matrix", i, "expand"), TG_SHAPE(4 * C, C), -bound, bound);
        l->contract = tg_params_add(params, name_of("matrix", i, "contract"), TG_SHAPE(C, 4 * C));
        if (strcmp(o->values, "none") != 0) {
            l->gate = tg_params_add(params, name_of("matrix", i, "gate"), TG_SHAPE(C / HEAD, GATE));
            l->values = tg_params_add_uniform(params, name_of(o->values, i, "values"), TG_SHAPE(V, C), -bound, bound);
        }
    }
    return m;
}

/* (B,T,C) -> (B,heads,T,HEAD) */
static tg_tensor *split(tg_tape *t, tg_tensor *x)
{
    return tg_transpose(t, tg_reshape(t, x, TG_SHAPE(-1, T, tg_tensor_size(x, 2) / HEAD, HEAD)), 1, 2);
}

/* Rotates queries or keys by their positions, and normalizes them: (B,heads,T,HEAD). */
static tg_tensor *place(tg_tape *t, const model *m, tg_tensor *x)
{
    return tg_nn_rms_norm_forward(t, &m->head_norm, tg_rotary(t, split(t, x), 0, NULL));
}

static tg_tensor *attention(tg_tape *t, const model *m, const layer *l, tg_tensor *x, tg_tensor *ids, bool is_dense)
{
    tg_tensor *q = place(t, m, tg_linear(t, x, l->query, NULL)), *k = place(t, m, tg_linear(t, x, l->key, NULL));
    tg_tensor *v = split(t, tg_linear(t, x, l->value, NULL));
    if (l->values) {
        /* tg_index_select gives the whole table a gradient, tg_embedding only the rows of the ids */
        tg_tensor *rows = is_dense ? tg_reshape(t, tg_index_select(t, l->values, 0, tg_reshape(t, ids, TG_SHAPE(-1))),
                                                tg_tensor_shape(x))
                                   : tg_embedding(t, ids, l->values, NULL);
        tg_tensor *gate = tg_sigmoid(t, tg_linear(t, tg_slice(t, x, 2, 0, GATE, 1), l->gate, NULL));
        gate = tg_unsqueeze(t, tg_transpose(t, tg_mul_scalar(t, gate, 2), 1, 2), -1);
        v = tg_add(t, v, tg_mul(t, gate, split(t, rows)));
    }
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = true;
    tg_tensor *y = tg_transpose(t, tg_scaled_dot_product_attention(t, q, k, v, &config), 1, 2);
    return tg_linear(t, tg_reshape(t, y, TG_SHAPE(-1, T, m->width)), l->project, NULL);
}

static tg_tensor *feed_forward(tg_tape *t, const layer *l, tg_tensor *x)
{
    tg_tensor *h = tg_relu(t, tg_linear(t, x, l->expand, NULL));
    return tg_linear(t, tg_mul(t, h, h), l->contract, NULL);
}

/* Returns the mean loss of the texts that begin at the tokens starts (B). */
static tg_tensor *loss_of(tg_tape *t, const model *m, const int32_t *ids, tg_tensor *starts, bool is_dense)
{
    static int32_t inputs[BATCH * T], targets[BATCH * T];
    int64_t B = tg_tensor_size(starts, 0);
    const int32_t *start = tg_tensor_data(starts);
    for (int64_t i = 0; i < B * T; i++) {
        inputs[i] = ids[start[i / T] + i % T];
        targets[i] = ids[start[i / T] + i % T + 1];
    }
    tg_tensor *in = tg_constant_i32(t, TG_SHAPE(B, T), inputs), *out = tg_constant_i32(t, TG_SHAPE(B, T), targets);
    tg_tensor *x = tg_nn_rms_norm_forward(t, &m->norm, tg_embedding(t, in, m->tokens, NULL));
    for (int64_t i = 0; i < m->layer_count; i++) {
        const layer *l = &m->layers[i];
        x = tg_add(t, x, attention(t, m, l, tg_nn_rms_norm_forward(t, &m->norm, x), in, is_dense));
        x = tg_add(t, x, feed_forward(t, l, tg_nn_rms_norm_forward(t, &m->norm, x)));
    }
    return tg_cross_entropy(t, tg_linear(t, tg_nn_rms_norm_forward(t, &m->norm, x), m->head, NULL), out, NULL);
}

int main(int argc, char **argv)
{
    options o = {"examples/lighthouse.txt", "rows", 64, 4, 512, 200, 20, 0.02};
    program_begin();
    int status = command_line_read(table, sizeof table / sizeof *table, 1,
                                   "cookbook_nanochat: trains a small nanochat\n", &o, argc, argv);
    if (status >= 0) {
        return program_end(status);
    }
    bool is_dense = strcmp(o.values, "dense") == 0;
    if (o.width % HEAD || (!is_dense && strcmp(o.values, "rows") != 0 && strcmp(o.values, "none") != 0)) {
        complain("--width must be a multiple of %d, and --values rows, dense or none", HEAD);
        return 2;
    }
    recipe r = recipe_begin(123);
    tg_tape *t = r.tape;
    size_t length;
    char *text = tg_text_read(o.text, &length, &r.error);
    tg_tokenizer *tokenizer = tg_tokenizer_train(text, length, (int32_t)o.vocabulary, &r.error);
    tg_tokens tokens;
    tg_tokenizer_encode(tokenizer, text, length, false, &tokens, &r.error);
    recipe_check(&r);
    int64_t trained = tokens.count * 9 / 10;
    if (tokens.count - trained <= T) {
        complain("%s has %lld tokens; at least %d are needed", o.text, (long long)tokens.count, 10 * T + 10);
        tg_tokens_free(&tokens);
        tg_tokenizer_free(tokenizer);
        tg_text_free(text);
        recipe_end(&r);
        return 1;
    }

    model m = make(r.params, &o);
    tg_params *matrices = tg_params_new_part(r.params, "matrix.*"), *rows = tg_params_new_part(r.params, "rows.*");
    tg_params *dense = tg_params_new_part(r.params, "dense.*");
    tg_adamw_config adamw = tg_adamw_config_default();
    adamw.weight_decay = 0;
    tg_optim *optims[] = {tg_muon_new(matrices, NULL), tg_sparse_adam_new(rows, NULL), tg_adamw_new(dense, &adamw)};
    const double rates[] = {o.rate, 0.02, 0.005};
    tg_schedule_config schedule = tg_schedule_config_default();
    schedule.kind = TG_SCHEDULE_TRAPEZOID;
    schedule.total_steps = o.steps;
    schedule.warmup_steps = o.steps / 10;
    schedule.decay_steps = o.steps * 4 / 10;
    schedule.lr = 1;
    tg_tensor *starts = tg_full(r.data, TG_I32, TG_SHAPE(BATCH), 0);
    double begin = seconds();
    for (int64_t step = 0; step < o.steps; step++) {
        tg_tape_reset(t);
        tg_tensor_fill_randint(starts, tg_run_rng(r.run), 0, trained - T, &r.error);
        tg_tensor *loss = loss_of(t, &m, tokens.ids, starts, is_dense);
        for (int i = 0; i < 3; i++) {
            tg_optim_zero_grad(optims[i]);
        }
        tg_backward(t, loss, NULL);
        for (int i = 0; i < 3; i++) {
            tg_optim_set_lr(optims[i], NULL, rates[i] * tg_schedule_lr(step, &schedule, &r.error));
            tg_optim_step(optims[i]);
        }
        recipe_check(&r);
        if ((step + 1) % o.every == 0) {
            printf("step %d: loss %.4f\n", (int)step + 1, tg_tensor_item(loss, &r.error));
        }
    }
    fprintf(stderr, "%.0f tokens per second\n", (double)(o.steps * BATCH * T) / (seconds() - begin));

    /* the nats of all targets, and their bytes */
    double nats = 0;
    size_t bytes = 0, bytes_of_token;
    tg_evaluation_begin(t);
    for (int64_t start = trained; start + T < tokens.count; start += T) {
        tg_tape_reset(t);
        tg_tensor *loss = loss_of(t, &m, tokens.ids, tg_full(t, TG_I32, TG_SHAPE(1), (double)start), is_dense);
        nats += T * tg_tensor_item(loss, &r.error);
        for (int64_t i = 1; i <= T; i++) {
            tg_tokenizer_bytes(tokenizer, tokens.ids[start + i], &bytes_of_token);
            bytes += bytes_of_token;
        }
    }
    printf("%.4f bits per byte of %d\n", nats / log(2) / (double)bytes, (int)bytes);

    for (int i = 0; i < 3; i++) {
        tg_optim_free(optims[i]);
    }
    tg_params_free(matrices);
    tg_params_free(rows);
    tg_params_free(dense);
    tg_tokens_free(&tokens);
    tg_tokenizer_free(tokenizer);
    tg_text_free(text);
    return recipe_end(&r);
}

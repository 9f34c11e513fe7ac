/* DeBERTa 2 with several options of disentangled attention, built from the library's modules, against transformers:
 * hidden states and the gradients of all parameters, with padded batches. The goldens are from
 * tests/goldens/make_deberta.py.
 */
#include <stdlib.h>
#include <string.h>

#include "transformers.h"

#include "nn/positions/positions.h"

enum { VOCABULARY = 7, HEADS = 2, LAYERS = 2, HIDDEN = 5, CONTEXT = 512, B = 2, LEFT = 3, MOST_PARAMETERS = 64 };

static const char goldens[] = "deberta.txt";

/* The options of a case, as in make_deberta.py. */
typedef struct options {
    const char *name;
    int64_t width;
    bool c2p, p2c, shared, norm;
    int64_t buckets, most;
} options;

static const options cases[] = {
    {"own", 6, true, true, false, false, -1, -1},  {"c2p", 4, true, false, false, false, -1, 40},
    {"p2c", 4, false, true, true, false, 9, 100},  {"own_buckets", 6, true, true, false, true, 8, 64},
    {"shared", 6, true, true, true, true, 32, -1},
};

/* A parameter by its name in transformers: `count` values of a tensor from `first` on. */
typedef struct parameter {
    char name[80];
    tg_tensor *tensor;
    int64_t first, count;
} parameter;

typedef struct deberta {
    tg_params *params;
    tg_nn_embedding tokens, distances;
    tg_nn_layer_norm norm, distances_norm;
    tg_nn_positional positions[LAYERS];
    tg_nn_transformer_encoder_layer layers[LAYERS];
    parameter parameters[MOST_PARAMETERS];
    int count;
} deberta;

/* ---- the model ---- */

/* Fills a parameter as the script does. */
static void add_part(deberta *m, const char *folder, const char *name, tg_tensor *x, int64_t first, int64_t count)
{
    parameter *p = &m->parameters[m->count++];
    assert_true(m->count <= MOST_PARAMETERS);
    snprintf(p->name, sizeof p->name, "%s.%s", folder, name);
    p->tensor = x;
    p->first = first;
    p->count = count;
    int salt = 0;
    for (const char *c = p->name; *c; c++) {
        salt += *c;
    }
    bool is_large = strstr(p->name, "_proj") || strstr(p->name, "rel_");
    fill_part(x, first, count, salt, is_large ? 2 : 1, strstr(p->name, "LayerNorm.weight") ? 1 : 0);
}

static void add(deberta *m, const char *folder, const char *name, tg_tensor *x)
{
    add_part(m, folder, name, x, 0, tg_tensor_count(x));
}

static void add_both(deberta *m, const char *folder, const char *name, tg_tensor *weight, tg_tensor *bias)
{
    char full[40];
    snprintf(full, sizeof full, "%s.weight", name);
    add(m, folder, full, weight);
    snprintf(full, sizeof full, "%s.bias", name);
    add(m, folder, full, bias);
}

static tg_nn_layer_norm make_norm(deberta *m, const char *folder, int64_t width)
{
    tg_nn_layer_norm_config config = tg_nn_layer_norm_config_default();
    config.eps = 1e-7;
    tg_nn_layer_norm norm = tg_nn_layer_norm_make(m->params, folder, width, &config);
    add_both(m, folder, "LayerNorm", norm.weight, norm.bias);
    return norm;
}

static void add_layer(deberta *m, int i, const options *o)
{
    static const char *const projections[] = {"query_proj", "key_proj", "value_proj"};
    const tg_nn_transformer_encoder_layer *layer = &m->layers[i];
    int64_t C = o->width;
    char folder[40], full[60];
    snprintf(folder, sizeof folder, "encoder.layer.%d", i);
    for (int part = 0; part < 3; part++) {
        snprintf(full, sizeof full, "attention.self.%s.weight", projections[part]);
        add_part(m, folder, full, layer->self_attn.in_proj_weight, part * C * C, C * C);
        snprintf(full, sizeof full, "attention.self.%s.bias", projections[part]);
        add_part(m, folder, full, layer->self_attn.in_proj_bias, part * C, C);
    }
    const tg_nn_positional *p = &m->positions[i];
    if (p->position_key.weight) {
        add_both(m, folder, "attention.self.pos_key_proj", p->position_key.weight, p->position_key.bias);
    }
    if (p->position_query.weight) {
        add_both(m, folder, "attention.self.pos_query_proj", p->position_query.weight, p->position_query.bias);
    }
    add_both(m, folder, "attention.output.dense", layer->self_attn.out.weight, layer->self_attn.out.bias);
    add_both(m, folder, "attention.output.LayerNorm", layer->norm1.weight, layer->norm1.bias);
    add_both(m, folder, "intermediate.dense", layer->linear1.weight, layer->linear1.bias);
    add_both(m, folder, "output.dense", layer->linear2.weight, layer->linear2.bias);
    add_both(m, folder, "output.LayerNorm", layer->norm2.weight, layer->norm2.bias);
}

static void make_layer(deberta *m, int i, const options *o, tg_attention_path path)
{
    char name[40];
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = HEADS;
    positions.content_to_position = o->c2p;
    positions.position_to_content = o->p2c;
    positions.shared_projections = o->shared;
    positions.position_buckets = o->buckets;
    positions.max_relative_positions = o->most;
    positions.distances = m->distances.weight;
    positions.distances_norm = o->norm ? &m->distances_norm : NULL;
    snprintf(name, sizeof name, "layer.%d.attention.self", i);
    m->positions[i] = tg_nn_positional_make(m->params, name, TG_POSITION_DEBERTA, CONTEXT, o->width, &positions);
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = HIDDEN;
    config.activation = TG_ACTIVATION_GELU;
    config.eps = 1e-7;
    config.positional = &m->positions[i];
    config.path = path;
    snprintf(name, sizeof name, "layer.%d", i);
    m->layers[i] = tg_nn_transformer_encoder_layer_make(m->params, name, o->width, HEADS, &config);
    assert_string_equal(tg_params_error(m->params)->text, "");
    add_layer(m, i, o);
}

static void make(deberta *m, tg_run *run, tg_dtype dtype, const options *o, tg_attention_path path)
{
    int64_t span = o->buckets > 0 ? o->buckets : o->most > 0 ? o->most : CONTEXT;
    memset(m, 0, sizeof *m);
    m->params = tg_params_new(run, dtype);
    m->tokens = tg_nn_embedding_make(m->params, "word_embeddings", VOCABULARY, o->width, NULL);
    add(m, "embeddings", "word_embeddings.weight", m->tokens.weight);
    m->norm = make_norm(m, "embeddings", o->width);
    m->distances = tg_nn_embedding_make(m->params, "rel_embeddings", 2 * span, o->width, NULL);
    add(m, "encoder", "rel_embeddings.weight", m->distances.weight);
    if (o->norm) {
        m->distances_norm = make_norm(m, "encoder", o->width);
    }
    for (int i = 0; i < LAYERS; i++) {
        make_layer(m, i, o, path);
    }
}

static tg_tensor *forward(tg_tape *t, const deberta *m, tg_tensor *ids, tg_tensor *key_mask)
{
    tg_tensor *x = tg_nn_layer_norm_forward(t, &m->norm, tg_nn_embedding_forward(t, &m->tokens, ids));
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.key_mask = key_mask;
    for (int i = 0; i < LAYERS; i++) {
        x = tg_nn_transformer_encoder_layer_forward(t, &m->layers[i], x, &config);
    }
    return x;
}

/* ---- a batch of two sequences, the second of which is shorter ---- */

typedef struct batch {
    tg_tensor *ids, *key_mask, *mask, *weight; /* the mask (B,T,1) and the gradient of the result (B,T,C) are floats */
} batch;

static batch make_batch(int64_t length, int64_t width, tg_dtype dtype)
{
    batch b = {.ids = tg_tensor_new(TG_I32, TG_SHAPE(B, length), NULL),
               .key_mask = tg_tensor_new(TG_U8, TG_SHAPE(B, length), NULL),
               .mask = tg_tensor_new(dtype, TG_SHAPE(B, length, 1), NULL),
               .weight = tg_tensor_new(dtype, TG_SHAPE(B, length, width), NULL)};
    int64_t shorter = length > LEFT ? length - LEFT : 1;
    for (int64_t i = 0; i < B * length; i++) {
        int64_t sequence = i / length, at = i % length;
        bool is_token = sequence == 0 || at < shorter;
        ((int32_t *)tg_tensor_data_mut(b.ids))[i] = (int32_t)((5 * at + 3 * sequence) % VOCABULARY);
        ((uint8_t *)tg_tensor_data_mut(b.key_mask))[i] = is_token;
        put(b.mask, i, is_token);
        for (int64_t k = i * width; k < (i + 1) * width; k++) {
            put(b.weight, k, is_token ? filled(0.5, k % width) + filled(0.5, k) / 2 : 0);
        }
    }
    return b;
}

static void batch_free(batch *b)
{
    tg_release(b->ids);
    tg_release(b->key_mask);
    tg_release(b->mask);
    tg_release(b->weight);
}

/* ---- tests ---- */

static int golden_lines(const char *name)
{
    char key[60], *line = NULL;
    size_t size = 0;
    int count = 0;
    FILE *file = fopen(TG_TEST_GOLDENS "/deberta.txt", "r");
    assert_non_null(file);
    snprintf(key, sizeof key, "%.50s ", name);
    while (getline(&line, &size, file) > 0) {
        count += strncmp(line, key, strlen(key)) == 0;
    }
    free(line);
    fclose(file);
    return count;
}

static void check(const options *o, int64_t length, tg_dtype dtype, tg_attention_path path)
{
    char name[60];
    double allowed = dtype == TG_F64 ? 1e-10 : 1e-5, of_gradients = dtype == TG_F64 ? 1e-10 : 1e-4;
    snprintf(name, sizeof name, "%s_%d", o->name, (int)length);
    tg_run *run = tg_run_new(1);
    static deberta m;
    make(&m, run, dtype, o, path);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tape_set_training(t, false);
    batch b = make_batch(length, o->width, dtype);
    tg_tensor *hidden = forward(t, &m, b.ids, b.key_mask);
    assert_string_equal(tg_tape_error(t)->text, "");
    tg_tensor *existing = tg_mul(t, hidden, b.mask);
    compare_golden(goldens, name, "hidden", existing, 0, tg_tensor_count(existing), allowed);
    tg_backward_config backward = tg_backward_config_default();
    backward.gradient = b.weight;
    assert_true(tg_backward(t, hidden, &backward));
    for (int i = 0; i < m.count; i++) {
        const parameter *p = &m.parameters[i];
        compare_golden_gradient(goldens, name, p->name, p->tensor, p->first, p->count, of_gradients);
    }
    assert_int_equal(golden_lines(name), 1 + m.count);
    batch_free(&b);
    tg_tape_free(t);
    tg_params_free(m.params);
    tg_run_free(run);
}

static void test_against_transformers(void **state)
{
    (void)state;
    const int64_t lengths[] = {1, 63, 512};
    for (size_t i = 0; i < 3 * sizeof cases / sizeof *cases; i++) {
        for (int way = 0; way < 4; way++) {
            check(&cases[i / 3], lengths[i % 3], way & 1 ? TG_F32 : TG_F64, (tg_attention_path)(way / 2));
        }
    }
}

static void test_buckets(void **state)
{
    (void)state;
    const int64_t sizes[][2] = {{256, 512}, {32, 128}, {7, 40}, {2, 20}, {4, 512}};
    tg_tensor *buckets = tg_tensor_new(TG_F64, TG_SHAPE(1201), NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char name[40];
        int64_t most = sizes[i][1];
        snprintf(name, sizeof name, "buckets_%d_%d", (int)sizes[i][0], (int)most);
        for (int64_t distance = -600; distance <= 600; distance++) {
            put(buckets, distance + 600, (double)tg_deberta_bucket(distance, sizes[i][0], most));
        }
        compare_golden(goldens, name, "all", buckets, 0, 1201, 0);
    }
    tg_release(buckets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_transformers),
        cmocka_unit_test(test_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

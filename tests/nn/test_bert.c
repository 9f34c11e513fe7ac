/* BERT with absolute and with relative positions, built from the library's modules, against transformers: hidden
 * states, logits and gradients of a masked language model, with padded batches. The goldens are from
 * tests/goldens/make_bert.py.
 */
#include <stdio.h>

#include "transformers.h"

enum { VOCABULARY = 11, C = 8, HEADS = 2, LAYERS = 2, HIDDEN = 12, B = 2, LEFT = 3, NAMES_OF_LAYER = 17 };

static const char goldens[] = "bert.txt";

static void fill(tg_tensor *x, int salt)
{
    fill_part(x, 0, tg_tensor_count(x), salt, 1, 0);
}

static void fill_norm(const tg_nn_layer_norm *norm, int salt)
{
    fill_part(norm->weight, 0, C, salt, 1, 1);
    fill(norm->bias, salt + 1);
}

static void fill_linear(const tg_nn_linear *linear, int salt)
{
    fill(linear->weight, salt);
    fill(linear->bias, salt + 1);
}

typedef struct bert {
    tg_params *params;
    tg_nn_embedding tokens, types;
    tg_nn_positional positions, distances[LAYERS]; /* learned, or relative per layer */
    tg_nn_layer_norm norm, head_norm;
    tg_nn_transformer_encoder_layer layers[LAYERS];
    tg_nn_linear head;
    tg_tensor *head_bias;
} bert;

static tg_nn_layer_norm make_norm(tg_params *params, const char *name)
{
    tg_nn_layer_norm_config config = tg_nn_layer_norm_config_default();
    config.eps = 1e-12;
    return tg_nn_layer_norm_make(params, name, C, &config);
}

static void make_layer(bert *m, int i, tg_position kind, int64_t context, tg_attention_path path)
{
    char name[40];
    bool is_relative = kind != TG_POSITION_LEARNED;
    int salt = NAMES_OF_LAYER * i + 1;
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = HEADS;
    snprintf(name, sizeof name, "layer.%d.attention.self", i);
    m->distances[i] =
        tg_nn_positional_make(m->params, name, is_relative ? kind : TG_POSITION_NONE, context, C, &positions);
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = HIDDEN;
    config.activation = TG_ACTIVATION_GELU;
    config.eps = 1e-12;
    config.positional = &m->distances[i];
    config.path = path;
    snprintf(name, sizeof name, "layer.%d", i);
    tg_nn_transformer_encoder_layer layer = tg_nn_transformer_encoder_layer_make(m->params, name, C, HEADS, &config);
    for (int part = 0; part < 3; part++) {
        fill_part(layer.self_attn.in_proj_weight, part * C * C, C * C, salt + 2 * part, 1, 0);
        fill_part(layer.self_attn.in_proj_bias, part * C, C, salt + 2 * part + 1, 1, 0);
    }
    fill_linear(&layer.self_attn.out, salt + 6);
    fill_norm(&layer.norm1, salt + 8);
    fill_linear(&layer.linear1, salt + 10);
    fill_linear(&layer.linear2, salt + 12);
    fill_norm(&layer.norm2, salt + 14);
    if (is_relative) {
        fill(m->distances[i].weight, salt + 16);
    }
    m->layers[i] = layer;
}

static void make(bert *m, tg_run *run, tg_dtype dtype, tg_position kind, int64_t context, tg_attention_path path)
{
    int salt = NAMES_OF_LAYER * LAYERS + 1;
    m->params = tg_params_new(run, dtype);
    m->tokens = tg_nn_embedding_make(m->params, "word_embeddings", VOCABULARY, C, NULL);
    m->types = tg_nn_embedding_make(m->params, "token_type_embeddings", 2, C, NULL);
    m->positions = tg_nn_positional_make(m->params, "position_embeddings",
                                         kind == TG_POSITION_LEARNED ? kind : TG_POSITION_NONE, context, C, NULL);
    m->norm = make_norm(m->params, "embeddings.LayerNorm");
    for (int i = 0; i < LAYERS; i++) {
        make_layer(m, i, kind, context, path);
    }
    m->head = tg_nn_linear_make(m->params, "predictions.transform.dense", C, C, TG_BIAS);
    m->head_norm = make_norm(m->params, "predictions.transform.LayerNorm");
    m->head_bias = tg_params_add(m->params, "predictions.bias", TG_SHAPE(VOCABULARY));
    assert_string_equal(tg_params_error(m->params)->text, "");
    fill(m->tokens.weight, salt);
    fill(m->types.weight, salt + 1);
    fill_norm(&m->norm, salt + 2);
    fill_linear(&m->head, salt + 4);
    fill_norm(&m->head_norm, salt + 6);
    fill(m->head_bias, salt + 8);
    if (kind == TG_POSITION_LEARNED) {
        fill(m->positions.weight, salt + 9);
    }
}

/* Returns the logits (B,T,VOCABULARY), and writes the hidden states (B,T,C). */
static tg_tensor *forward(tg_tape *t, const bert *m, tg_tensor *ids, tg_tensor *types, tg_tensor *lengths,
                          tg_tensor **hidden)
{
    tg_tensor *x = tg_add(t, tg_nn_embedding_forward(t, &m->tokens, ids), tg_nn_embedding_forward(t, &m->types, types));
    x = tg_nn_layer_norm_forward(t, &m->norm, tg_nn_positional_forward(t, &m->positions, x, 0));
    tg_nn_multihead_attention_forward_config config = tg_nn_multihead_attention_forward_config_default();
    config.lengths = lengths;
    for (int i = 0; i < LAYERS; i++) {
        x = tg_nn_transformer_encoder_layer_forward(t, &m->layers[i], x, &config);
    }
    *hidden = x;
    x = tg_nn_layer_norm_forward(t, &m->head_norm, tg_gelu(t, tg_nn_linear_forward(t, &m->head, x)));
    return tg_linear(t, x, m->tokens.weight, m->head_bias);
}

typedef struct batch {
    tg_tensor *ids, *types, *lengths, *mask, *weight; /* the mask (B,T,1) and the gradient of the logits are floats */
} batch;

static batch make_batch(int64_t length, tg_dtype dtype)
{
    batch b = {.ids = tg_tensor_new(TG_I32, TG_SHAPE(B, length), NULL),
               .types = tg_tensor_new(TG_I32, TG_SHAPE(B, length), NULL),
               .mask = tg_tensor_new(dtype, TG_SHAPE(B, length, 1), NULL),
               .weight = tg_tensor_new(dtype, TG_SHAPE(B, length, VOCABULARY), NULL)};
    int32_t shorter = length > LEFT ? (int32_t)length - LEFT : 1;
    b.lengths = tensor_i32(TG_SHAPE(B), (int32_t[]){(int32_t)length, shorter});
    for (int64_t i = 0; i < B * length; i++) {
        int64_t sequence = i / length, at = i % length;
        double kept = sequence == 0 || at < shorter;
        ((int32_t *)tg_tensor_data_mut(b.ids))[i] = (int32_t)((5 * at + 3 * sequence) % VOCABULARY);
        ((int32_t *)tg_tensor_data_mut(b.types))[i] = at >= length / 2;
        put(b.mask, i, kept);
        for (int64_t k = 0; k < VOCABULARY; k++) {
            put(b.weight, i * VOCABULARY + k, kept * filled(0.5, i * VOCABULARY + k));
        }
    }
    return b;
}

static void batch_free(batch *b)
{
    tg_release(b->ids);
    tg_release(b->types);
    tg_release(b->lengths);
    tg_release(b->mask);
    tg_release(b->weight);
}

static void check(tg_position kind, int64_t length, tg_dtype dtype, tg_attention_path path)
{
    char name[60];
    double allowed = dtype == TG_F64 ? 1e-10 : 1e-5, of_gradients = dtype == TG_F64 ? 1e-10 : 1e-4;
    bool is_relative = kind != TG_POSITION_LEARNED;
    snprintf(name, sizeof name, "%s_%d", is_relative ? tg_position_name(kind) : "absolute", (int)length);
    tg_run *run = tg_run_new(1);
    bert m;
    make(&m, run, dtype, kind, length < 64 ? 64 : 512, path);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tape_set_training(t, false);
    batch b = make_batch(length, dtype);
    tg_tensor *hidden, *logits = forward(t, &m, b.ids, b.types, b.lengths, &hidden);
    assert_string_equal(tg_tape_error(t)->text, "");
    compare_golden(goldens, name, "hidden", tg_mul(t, hidden, b.mask), 0, B * length * C, allowed);
    compare_golden(goldens, name, "logits", tg_mul(t, logits, b.mask), 0, B * length * VOCABULARY, allowed);
    tg_backward_config backward = tg_backward_config_default();
    backward.gradient = b.weight;
    assert_true(tg_backward(t, logits, &backward));
    compare_golden_gradient(goldens, name, "bert.encoder.layer.0.attention.self.query.weight",
                            m.layers[0].self_attn.in_proj_weight, 0, C * C, of_gradients);
    compare_golden_gradient(goldens, name, "bert.encoder.layer.1.attention.self.key.weight",
                            m.layers[1].self_attn.in_proj_weight, C * C, C * C, of_gradients);
    compare_golden_gradient(goldens, name, "bert.encoder.layer.0.intermediate.dense.weight", m.layers[0].linear1.weight,
                            0, -1, of_gradients);
    compare_golden_gradient(goldens, name, "bert.embeddings.word_embeddings.weight", m.tokens.weight, 0, -1,
                            of_gradients);
    compare_golden_gradient(goldens, name, "bert.embeddings.token_type_embeddings.weight", m.types.weight, 0, -1,
                            of_gradients);
    if (is_relative) {
        compare_golden_gradient(goldens, name, "bert.encoder.layer.0.attention.self.distance_embedding.weight",
                                m.distances[0].weight, 0, -1, of_gradients);
    } else {
        compare_golden_gradient(goldens, name, "bert.embeddings.position_embeddings.weight", m.positions.weight, 0, -1,
                                of_gradients);
    }
    batch_free(&b);
    tg_tape_free(t);
    tg_params_free(m.params);
    tg_run_free(run);
}

static void test_against_transformers(void **state)
{
    (void)state;
    const tg_position kinds[] = {TG_POSITION_LEARNED, TG_POSITION_RELATIVE_KEY, TG_POSITION_RELATIVE_KEY_QUERY};
    const int64_t lengths[] = {1, 2, 9, 63, 512};
    for (int i = 0; i < 15; i++) {
        for (int way = 0; way < 4; way++) {
            check(kinds[i / 5], lengths[i % 5], way & 1 ? TG_F32 : TG_F64, (tg_attention_path)(way / 2));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

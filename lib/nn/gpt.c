/* gpt: the modules of a GPT-2 in the order in which the course's GPTModel makes them, which is the order of its draws.
 *
 *   x      = dropout(tok_emb[ids] + pos_emb[0 .. T-1])      (B,T,C)
 *   x      = each block of x
 *   logits = final_norm(x) W^T                              (B,T,V)
 */
#include <tapegrad/gpt.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "nn/kv_cache.h"
#include "nn/module.h"

struct tg_gpt {
    tg_params *params;
    tg_gpt_config config;
    tg_embedding tok_emb;
    tg_positional pos_emb; /* or what all blocks share of relative positions */
    tg_layernorm final_norm;
    tg_linear out_head;
    tg_positional *own_positions; /* a block's own, or NULL */
    tg_transformer_block blocks[];
};

static const struct {
    const char *name;
    tg_gpt_config config;
} named[] = {
    {"gpt2-small", {50257, 1024, 768, 12, 12, 0.1, TG_NO_BIAS, false, TG_ATTENTION_FUSED, TG_POSITION_LEARNED}},
    {"gpt2-medium", {50257, 1024, 1024, 16, 24, 0.1, TG_NO_BIAS, false, TG_ATTENTION_FUSED, TG_POSITION_LEARNED}},
    {"gpt2-large", {50257, 1024, 1280, 20, 36, 0.1, TG_NO_BIAS, false, TG_ATTENTION_FUSED, TG_POSITION_LEARNED}},
    {"gpt2-xl", {50257, 1024, 1600, 25, 48, 0.1, TG_NO_BIAS, false, TG_ATTENTION_FUSED, TG_POSITION_LEARNED}},
    {"tiny", {512, 128, 128, 4, 4, 0.0, TG_NO_BIAS, true, TG_ATTENTION_FUSED, TG_POSITION_LEARNED}},
};

#define NAMED (sizeof named / sizeof named[0])

bool tg_gpt_config_named(const char *name, tg_gpt_config *config)
{
    for (size_t i = 0; name && i < NAMED; i++) {
        if (strcmp(name, named[i].name) == 0) {
            *config = named[i].config;
            return true;
        }
    }
    return false;
}

const char *const *tg_gpt_config_names(void)
{
    static const char *const names[] = {"gpt2-small", "gpt2-medium", "gpt2-large", "gpt2-xl", "tiny", NULL};
    return names;
}

static bool check(tg_params *params, const tg_gpt_config *c)
{
    if (c->vocabulary < 1 || c->vocabulary > INT32_MAX || c->context < 1 || c->width < 1 || c->heads < 1 ||
        c->layers < 1 || c->layers > 100000) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "gpt: vocabulary %lld, context %lld, width %lld, %lld heads, %lld layers; all must be at "
                              "least 1, the vocabulary at most 2147483647 and the layers at most 100000",
                              (long long)c->vocabulary, (long long)c->context, (long long)c->width, (long long)c->heads,
                              (long long)c->layers);
    }
    if ((unsigned)c->position > TG_POSITION_NONE) {
        return tg_params_fail(params, TG_ERROR_VALUE, "gpt: %d is not a kind of position", (int)c->position);
    }
    if (c->width % c->heads != 0) {
        return tg_params_fail(params, TG_ERROR_VALUE, "gpt: %lld heads do not divide a width of %lld",
                              (long long)c->heads, (long long)c->width);
    }
    if (!(c->dropout >= 0 && c->dropout < 1)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "gpt: dropout %g is outside [0,1)", c->dropout);
    }
    return true;
}

/* Kinds whose parameters belong to a layer. */
static bool positions_of_blocks(tg_position kind)
{
    return kind == TG_POSITION_SHAW || kind == TG_POSITION_TRANSFORMER_XL;
}

static void make(tg_gpt *model)
{
    const tg_gpt_config *c = &model->config;
    tg_params *params = model->params;
    tg_multi_head_attention_config attention = {.dropout = c->dropout, .qkv_bias = c->qkv_bias, .path = c->path};
    model->tok_emb = tg_embedding_make(params, "tok_emb", c->vocabulary, c->width, NULL);
    tg_positional_config positions = tg_positional_config_default();
    positions.heads = c->heads;
    bool own = positions_of_blocks(c->position), absolute = c->position <= TG_POSITION_SINUSOIDAL;
    if (!own) {
        model->pos_emb = tg_positional_make_with(params, absolute ? "pos_emb" : "position", c->position, c->context,
                                                 c->width, &positions);
        attention.position = absolute ? NULL : &model->pos_emb;
    }
    for (int64_t i = 0; i < c->layers; i++) {
        char name[48];
        if (own) {
            snprintf(name, sizeof name, "trf_blocks.%lld.att.position", (long long)i);
            model->own_positions[i] =
                tg_positional_make_with(params, name, c->position, c->context, c->width, &positions);
            attention.position = &model->own_positions[i];
        }
        snprintf(name, sizeof name, "trf_blocks.%lld", (long long)i);
        model->blocks[i] = tg_transformer_block_make(params, name, c->width, c->heads, c->dropout, &attention);
    }
    model->final_norm = tg_layernorm_make_scale_shift(params, "final_norm", c->width, 1e-5);
    if (c->tied_head) {
        tg_tensor *weight = tg_params_add_alias(params, "out_head.weight", "tok_emb.weight");
        model->out_head = (tg_linear){.params = params, .weight = weight};
    } else {
        model->out_head = tg_linear_make(params, "out_head", c->width, c->vocabulary, TG_NO_BIAS);
    }
}

tg_gpt *tg_gpt_new(tg_params *params, const tg_gpt_config *config)
{
    if (!params || tg_params_error_code(params) != TG_OK) {
        return NULL;
    }
    if (!config) {
        tg_params_fail(params, TG_ERROR_STATE, "gpt: the configuration is NULL; tg_gpt_config_named fills one");
        return NULL;
    }
    if (!check(params, config)) {
        return NULL;
    }
    tg_gpt *model = tg_alloc_zeroed(1, sizeof *model + (size_t)config->layers * sizeof model->blocks[0]);
    if (!model) {
        tg_params_fail(params, TG_ERROR_MEMORY, "gpt: out of memory");
        return NULL;
    }
    model->params = params;
    model->config = *config;
    if (positions_of_blocks(config->position)) {
        model->own_positions = tg_alloc_zeroed((size_t)config->layers, sizeof *model->own_positions);
        if (!model->own_positions) {
            tg_free(model);
            tg_params_fail(params, TG_ERROR_MEMORY, "gpt: out of memory");
            return NULL;
        }
    }
    make(model);
    if (tg_params_error_code(params) != TG_OK) {
        tg_gpt_free(model);
        return NULL;
    }
    return model;
}

void tg_gpt_free(tg_gpt *model)
{
    if (model) {
        tg_free(model->own_positions);
        tg_free(model);
    }
}

const tg_gpt_config *tg_gpt_config_of(const tg_gpt *model)
{
    return &model->config;
}

tg_dtype tg_gpt_dtype(const tg_gpt *model)
{
    return tg_params_dtype(model->params);
}

bool tg_gpt_resize_vocabulary(tg_gpt *model, int64_t vocabulary, tg_error *error)
{
    if (!model) {
        return tg_error_set(error, TG_ERROR_STATE, "gpt_resize_vocabulary: the model is NULL");
    }
    double bound = 1 / sqrt((double)model->config.width);
    tg_new_rows tables[] = {{model->tok_emb.weight, tg_fill_normal, model->tok_emb.mean, model->tok_emb.std},
                            {model->out_head.weight, tg_fill_uniform, -bound, bound}};
    if (!tg_resize_and_draw(tables, model->config.tied_head ? 1 : 2, vocabulary, tg_params_rng(model->params), error)) {
        return false;
    }
    model->config.vocabulary = vocabulary;
    return true;
}

bool tg_gpt_extend_context(tg_gpt *model, int64_t context, tg_error *error)
{
    if (!model || context < model->config.context) {
        return tg_error_set(error, model ? TG_ERROR_RANGE : TG_ERROR_STATE, "gpt_extend_context: %s %lld",
                            model ? "a context cannot shrink; it is" : "the model is NULL, for a context of",
                            (long long)(model ? model->config.context : context));
    }
    bool absolute = model->config.position <= TG_POSITION_SINUSOIDAL;
    if (absolute && !tg_positional_extend(&model->pos_emb, context, error)) {
        return false;
    }
    model->config.context = context;
    return true;
}

tg_tensor *tg_gpt_features(tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache)
{
    if (!model) {
        return tg_tape_fail(t, TG_ERROR_STATE, "gpt", "the model is NULL");
    }
    if (ids && (tg_rank(ids) != 2 || tg_dtype_of(ids) != TG_I32)) {
        char text[TG_SHAPE_TEXT];
        return tg_tape_fail(t, TG_ERROR_SHAPE, "gpt", "the ids are %s %s; they must be i32 (B,T)",
                            tg_dtype_name(tg_dtype_of(ids)), tg_shape_format(tg_shape_of(ids), text));
    }
    if (cache && cache->layers != model->config.layers) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, "gpt", "the cache has %lld layers; the model has %lld",
                            (long long)cache->layers, (long long)model->config.layers);
    }
    int64_t cached = cache ? cache->length : 0, positions = ids ? tg_size(ids, 1) : 0;
    if (positions > model->config.context - cached) {
        return tg_tape_fail(t, TG_ERROR_RANGE, "gpt", "%lld positions from %lld on; the context is %lld",
                            (long long)positions, (long long)cached, (long long)model->config.context);
    }
    tg_tensor *x = tg_embedding_forward(t, &model->tok_emb, ids);
    if (!positions_of_blocks(model->config.position)) {
        x = tg_positional_forward_at(t, &model->pos_emb, x, cached);
    }
    x = tg_dropout(t, x, model->config.dropout);
    for (int64_t i = 0; x && i < model->config.layers; i++) {
        x = cache ? tg_transformer_block_forward_cached(t, &model->blocks[i], x, cache, i)
                  : tg_transformer_block_forward(t, &model->blocks[i], x);
    }
    x = tg_layernorm_forward(t, &model->final_norm, x);
    if (cache && !x) {
        cache->length = cached; /* what fails after the last layer's attention comes when the length has moved on */
    }
    return x;
}

tg_tensor *tg_gpt_head(tg_tape *t, const tg_gpt *model, tg_tensor *features)
{
    return model ? tg_linear_forward(t, &model->out_head, features)
                 : tg_tape_fail(t, TG_ERROR_STATE, "gpt", "the model is NULL");
}

tg_tensor *tg_gpt_forward(tg_tape *t, const tg_gpt *model, tg_tensor *ids)
{
    tg_tensor *features = tg_gpt_features(t, model, ids, NULL);
    return features ? tg_gpt_head(t, model, features) : NULL;
}

/* gpt: the decoder, composed of modules. They are created in the order of the book's GPTModel, so the same seed draws
 * the same initial values.
 *
 *   x      = dropout(scale tok_emb[ids] + pos_emb[0 .. T-1])  (B,T,C); pos_emb: only learned positions, and sinusoidal
 *   x      = block_i(x)                                     for each block i
 *   logits = final_norm(x) W^T                              (B,T,V), W is the weight of the head
 */
#include "models/gpt.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "nn/kv_cache.h"
#include "nn/positions/positions.h"
#include "tape/tape.h"

/* ---- constructor ---- */

static void make_blocks(tg_gpt *model, tg_nn_positional_config *positions)
{
    const tg_gpt_config *c = &model->config;
    const tg_position_kind *kind = tg_position_kind_of(c->position);
    tg_nn_transformer_block_config block = tg_nn_transformer_block_config_default();
    block.dropout = c->dropout;
    block.norm = c->norm;
    block.eps = c->eps;
    block.norm_after = c->norm_after;
    block.hidden = c->hidden;
    block.feed_forward = c->feed_forward;
    block.feed_forward_bias = c->feed_forward_bias;
    tg_nn_multihead_attention_config *attention = &block.attention;
    attention->dropout = c->dropout;
    attention->key_heads = c->key_heads;
    attention->head_width = c->head_width;
    attention->bias = c->qkv_bias;
    attention->out_bias = c->out_bias;
    attention->query_key_norm = c->query_key_norm ? c->norm : TG_NORM_NONE;
    attention->query_key_eps = c->eps;
    bool is_usual = c->attention_scale == 1 / sqrt((double)c->head_width);
    attention->scale = is_usual ? TG_SCALE_OF_WIDTH : c->attention_scale;
    attention->path = c->path;
    attention->positional = kind->is_relative ? &model->pos_emb : NULL;
    tg_nn_positional own;
    for (int64_t i = 0; i < c->layers; i++) {
        char name[48];
        const tg_gpt_layer *layer = &c->layers_of_period[i % c->period];
        attention->window = layer->window;
        if (kind->is_per_layer) {
            snprintf(name, sizeof name, "trf_blocks.%lld.att.position", (long long)i);
            positions->rotary = layer->rotary;
            own = tg_nn_positional_make(model->params, name, c->position, c->context, c->heads * c->head_width,
                                        positions);
            attention->positional = &own;
            /* all layers share DeBERTa's distances */
            positions->distances = positions->distances ? positions->distances : own.weight;
        }
        snprintf(name, sizeof name, "trf_blocks.%lld", (long long)i);
        model->blocks[i] = tg_nn_transformer_block_make(model->params, name, c->width, c->heads, &block);
    }
}

static void make(tg_gpt *model)
{
    const tg_gpt_config *c = &model->config;
    tg_params *params = model->params;
    const tg_position_kind *kind = tg_position_kind_of(c->position);
    model->tok_emb = tg_nn_embedding_make(params, "tok_emb", c->vocabulary, c->width, NULL);
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = c->heads;
    if (!kind->is_per_layer) {
        model->pos_emb =
            tg_nn_positional_make(params, kind->is_relative ? "position" : "pos_emb", c->position, c->context,
                                  kind->is_relative ? c->heads * c->head_width : c->width, &positions);
    }
    make_blocks(model, &positions);
    model->final_norm = tg_nn_norm_make(params, "final_norm", c->width, c->norm, c->eps);
    if (c->tied_head) {
        tg_tensor *weight = tg_params_add_alias(params, "out_head.weight", "tok_emb.weight");
        model->out_head = (tg_nn_linear){.module = {params, weight != NULL}, .weight = weight};
    } else {
        model->out_head = tg_nn_linear_make(params, "out_head", c->width, c->vocabulary, TG_NO_BIAS);
    }
}

/* Sets GPT-2's initial values, from entry number `first` of the params on. */
static void initialize_as_gpt2(tg_params *params, int64_t first, int64_t layers)
{
    const double std = 0.02;
    for (int64_t i = first; i < tg_params_count(params); i++) {
        tg_entry entry = tg_params_at(params, i);
        if (entry.kind != TG_ENTRY_PARAMETER) {
            continue;
        }
        if (entry.tensor->rank > 1) {
            bool onto_residual = tg_ends_with(entry.name, "out_proj.weight") ||
                                 tg_ends_with(entry.name, "ff.layers.2.weight") ||
                                 tg_ends_with(entry.name, "ff.fc3.weight");
            double scale = onto_residual ? 1 / sqrt(2 * (double)layers) : 1;
            tg_tensor_fill_normal(entry.tensor, tg_params_rng(params), 0, std * scale, NULL);
        } else if (tg_ends_with(entry.name, "bias")) {
            tg_tensor_fill(entry.tensor, 0, NULL);
        }
    }
}

tg_gpt *tg_gpt_new(tg_params *params, const tg_gpt_config *given)
{
    char problem[TG_GPT_PROBLEM];
    if (!tg_params_expect_config(params, "gpt_new", given, tg_gpt_config_mark)) {
        return NULL;
    }
    tg_gpt_config config = given ? *given : tg_gpt_config_default();
    if (!tg_gpt_config_complete(&config, problem)) {
        tg_params_fail(params, TG_ERROR_VALUE, "gpt_new: %s", problem);
        return NULL;
    }
    size_t layers = (size_t)config.layers;
    tg_gpt *model = tg_alloc_zeroed(1, sizeof *model + layers * sizeof model->blocks[0]);
    if (!model) {
        tg_params_fail(params, TG_ERROR_MEMORY, "gpt_new: out of memory");
        return NULL;
    }
    model->params = params;
    model->config = config;
    tg_params_point point = tg_params_save_point(params);
    make(model);
    if (!tg_module_end(params, &point).is_made) {
        tg_gpt_free(model);
        return NULL;
    }
    if (config.init == TG_GPT_INIT_GPT2) {
        initialize_as_gpt2(params, point.count, config.layers);
    }
    return model;
}

void tg_gpt_free(tg_gpt *model)
{
    tg_free(model);
}

const tg_gpt_config *tg_gpt_get_config(const tg_gpt *model)
{
    return model ? &model->config : NULL;
}

tg_dtype tg_gpt_dtype(const tg_gpt *model)
{
    return tg_params_dtype(model->params);
}

tg_params *tg_gpt_params(const tg_gpt *model)
{
    return model->params;
}

/* ---- resizing ---- */

bool tg_gpt_resize_vocabulary(tg_gpt *model, int64_t vocabulary)
{
    if (!model || !tg_params_is_usable(model->params)) {
        return false;
    }
    double bound = 1 / sqrt((double)model->config.width);
    /* the last one is B of the head's LoRA, if it has any */
    tg_new_rows tables[] = {{model->tok_emb.weight, tg_tensor_fill_normal, model->tok_emb.mean, model->tok_emb.std},
                            {model->out_head.weight, tg_tensor_fill_uniform, -bound, bound},
                            {.table = model->out_head.lora_b}};
    int count = model->config.tied_head || model->has_own_head ? 1 : model->out_head.lora_b ? 3 : 2;
    if (!tg_resize_and_draw("gpt_resize_vocabulary", tables, count, vocabulary, model->params)) {
        return false;
    }
    model->config.vocabulary = vocabulary;
    return true;
}

bool tg_gpt_extend_context(tg_gpt *model, int64_t context)
{
    if (!model || !tg_params_is_usable(model->params)) {
        return false;
    }
    if (context < model->config.context) {
        return tg_params_fail(model->params, TG_ERROR_RANGE,
                              "gpt_extend_context: context %lld; the context is %lld and cannot shrink",
                              (long long)context, (long long)model->config.context);
    }
    if (model->pos_emb.module.is_made && !tg_nn_positional_extend(&model->pos_emb, context)) {
        return false;
    }
    bool is_per_layer = tg_position_kind_of(model->config.position)->is_per_layer;
    for (int64_t i = 0; is_per_layer && i < model->config.layers; i++) {
        if (!tg_nn_positional_extend(&model->blocks[i].attention.positional, context)) {
            return false; /* the first one: all are of one kind */
        }
    }
    model->config.context = context;
    return true;
}

/* ---- forward ---- */

TG_CONFIG(tg_gpt_forward_config, tg_gpt_forward_config_default, forward_mark, .mark = forward_mark);

tg_kv_cache *tg_gpt_make_cache(const tg_gpt *model, int64_t batch, int64_t positions, tg_error *error)
{
    const tg_gpt_config *c = &model->config;
    int64_t windows[TG_GPT_PERIOD];
    for (int64_t i = 0; i < c->period; i++) {
        windows[i] = c->layers_of_period[i].window;
    }
    tg_kv_cache_config config = tg_kv_cache_config_default();
    config.windows = windows;
    config.window_count = c->period;
    return tg_kv_cache_new(tg_gpt_dtype(model), c->layers, batch, c->key_heads, positions, c->key_heads * c->head_width,
                           &config, error);
}

tg_kv_cache *tg_gpt_new_cache(const tg_gpt *model, int64_t batch, int64_t positions)
{
    if (!model || !tg_params_is_usable(model->params)) {
        return NULL;
    }
    return tg_gpt_make_cache(model, batch, positions, tg_params_run(model->params)->error);
}

static bool check_positions(tg_tape *t, const char *call, const tg_gpt *model, const tg_tensor *ids,
                            const tg_tensor *positions)
{
    char text[TG_SHAPE_TEXT];
    if (!tg_tape_expect_input(t, call, "positions", positions)) {
        return false;
    }
    if (positions->dtype != TG_I32 || !tg_same_shape(positions, ids)) {
        return tg_tape_fail(t, positions->dtype == TG_I32 ? TG_ERROR_SHAPE : TG_ERROR_DTYPE, call,
                            "the positions are %s %s; they must be i32 in the shape of the ids",
                            tg_dtype_name(tg_dtype_of(positions)), tg_shape_format(tg_shape_of(positions), text));
    }
    for (int64_t i = 0; i < positions->count; i++) {
        double position = tg_tensor_value_at(positions, i);
        if (position < 0 || position >= (double)model->config.context) {
            return tg_tape_fail(t, TG_ERROR_RANGE, call, "position %.0f at %s is outside of the context, [0,%lld)",
                                position,
                                tg_index_format(&(tg_shape){positions->rank, {ids->shape[0], ids->shape[1]}}, i, text),
                                (long long)model->config.context);
        }
    }
    return true;
}

static bool check_input(tg_tape *t, const tg_gpt *model, const tg_tensor *ids, const tg_gpt_forward_config *given)
{
    static const char call[] = "gpt_forward";
    if (!tg_tape_expect_config(t, call, given, forward_mark)) {
        return false;
    }
    if (!model) {
        return tg_tape_fail(t, TG_ERROR_STATE, call, "the model is NULL");
    }
    if (!tg_tape_expect_input(t, call, "ids", ids)) {
        return false;
    }
    if (ids->rank != 2 || ids->dtype != TG_I32) {
        return tg_tape_fail(t, ids->dtype == TG_I32 ? TG_ERROR_SHAPE : TG_ERROR_DTYPE, call,
                            "the ids are %s %s; they must be i32 (B,T)", tg_dtype_name(tg_dtype_of(ids)),
                            tg_shape_text_of(ids).text);
    }
    const tg_kv_cache *cache = given ? given->cache : NULL;
    if (cache && cache->layers != model->config.layers) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call, "the cache has %lld layers; the model has %lld",
                            (long long)cache->layers, (long long)model->config.layers);
    }
    if (given && given->positions) {
        return check_positions(t, call, model, ids, given->positions);
    }
    int64_t start = tg_kv_cache_length(cache);
    return ids->shape[1] <= model->config.context - start ||
           tg_tape_fail(t, TG_ERROR_RANGE, call, "%lld positions from %lld on; the context is %lld",
                        (long long)ids->shape[1], (long long)start, (long long)model->config.context);
}

static tg_tensor *forward_block(tg_tape *t, const tg_gpt *model, tg_tensor *x,
                                const tg_nn_multihead_attention_forward_config *config)
{
    const tg_nn_transformer_block *block = &model->blocks[config->layer];
    if (!model->config.activation_checkpointing || !tg_tape_is_training(t)) {
        return tg_nn_transformer_block_forward(t, block, x, config);
    }
    return tg_activation_checkpoint_begin(t)
               ? tg_activation_checkpoint_end(t, tg_nn_transformer_block_forward(t, block, x, config))
               : NULL;
}

/* Returns the input of the head: ids (B,T) -> features (B,T,C). */
static tg_tensor *features_of(tg_tape *t, const tg_gpt *model, tg_tensor *ids, const tg_gpt_forward_config *given)
{
    if (!check_input(t, model, ids, given)) {
        return NULL;
    }
    tg_kv_cache *cache = given ? given->cache : NULL;
    const tg_position_kind *kind = tg_position_kind_of(model->config.position);
    tg_tensor *positions = given ? given->positions : NULL;
    tg_nn_multihead_attention_forward_config attention = tg_nn_multihead_attention_forward_config_default();
    attention.cache = cache;
    attention.positions = kind->rotate ? positions : NULL;
    attention.first_keys = given ? given->first_keys : NULL;
    tg_tensor *x = tg_nn_embedding_forward(t, &model->tok_emb, ids);
    if (model->config.embedding_scale != 1) {
        x = tg_mul_scalar(t, x, model->config.embedding_scale);
    }
    if (kind->add && positions) {
        x = tg_add(t, x, tg_embedding(t, positions, model->pos_emb.weight, NULL));
    } else if (kind->add) {
        x = tg_nn_positional_forward(t, &model->pos_emb, x, tg_kv_cache_length(cache));
    }
    x = tg_dropout(t, x, model->config.dropout);
    for (int64_t i = 0; x && i < model->config.layers; i++) {
        attention.layer = i;
        x = forward_block(t, model, x, &attention);
    }
    return tg_nn_norm_forward(t, &model->final_norm, x);
}

/* Ends a pass: commits it to the cache, or removes everything that a failed pass has left. */
static tg_tensor *finish(tg_tape *t, const tg_tape_point *point, tg_tensor *result, const tg_gpt_forward_config *given)
{
    tg_kv_cache *cache = given && given->mark == forward_mark ? given->cache : NULL;
    tg_error error = TG_NO_ERROR;
    if (result && cache && !tg_kv_cache_commit(cache, &error)) {
        tg_tape_fail(t, error.code, "gpt_forward", "%s", error.text);
        result = NULL;
    }
    if (!result && cache) {
        tg_kv_cache_abandon(cache);
    }
    return tg_tape_end_module(t, point, result);
}

tg_tensor *tg_gpt_forward(tg_tape *t, const tg_gpt *model, tg_tensor *ids, const tg_gpt_forward_config *config)
{
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    tg_tensor *features = features_of(t, model, ids, config);
    return finish(t, &point, features ? tg_nn_linear_forward(t, &model->out_head, features) : NULL, config);
}

tg_tensor *tg_gpt_hidden_states(tg_tape *t, const tg_gpt *model, tg_tensor *ids, const tg_gpt_forward_config *config)
{
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    return finish(t, &point, features_of(t, model, ids, config), config);
}

tg_tensor *tg_gpt_loss(tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_tensor *targets,
                       const tg_gpt_forward_config *config)
{
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    bool has_cache = config && config->mark == forward_mark && config->cache;
    tg_tensor *features = has_cache
                              ? (tg_tape_fail(t, TG_ERROR_STATE, "gpt_loss", "a cache is given; it must be NULL"), NULL)
                              : features_of(t, model, ids, config);
    tg_tensor *loss = NULL;
    if (features) {
        const tg_nn_linear *head = &model->out_head;
        const tg_cross_entropy_config *options = config ? config->loss : NULL;
        loss = head->bias || head->lora_a
                   ? tg_cross_entropy(t, tg_nn_linear_forward(t, head, features), targets, options)
                   : tg_linear_cross_entropy(t, features, head->weight, targets, options);
    }
    return tg_tape_end_module(t, &point, loss);
}

tg_tensor *tg_gpt_last_logits(tg_tape *t, const tg_gpt *model, tg_tensor *ids, const tg_gpt_forward_config *config)
{
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    tg_tensor *features = features_of(t, model, ids, config);
    tg_tensor *last = features ? tg_slice(t, features, 1, -1, INT64_MAX, 1) : NULL;
    tg_tensor *logits = last ? tg_nn_linear_forward(t, &model->out_head, last) : NULL;
    return finish(t, &point, logits ? tg_select(t, logits, 1, 0) : NULL, config);
}

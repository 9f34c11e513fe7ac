/* gpt: GPT-2, composed of modules. They are created in the order of the book's GPTModel, so the same seed draws the
 * same initial values.
 *
 *   x      = dropout(tok_emb[ids] + pos_emb[0 .. T-1])      (B,T,C)
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

/* ---- config ---- */

static const char mark[] = "tg_gpt_config_default";

tg_gpt_config tg_gpt_config_default(void)
{
    return (tg_gpt_config){.mark = mark, .position = TG_POSITION_LEARNED, .path = TG_ATTENTION_FUSED};
}

bool tg_gpt_config_from_name(const char *name, tg_gpt_config *config, tg_error *error)
{
    static const char call[] = "gpt_config_from_name";
    static const struct {
        const char *name;
        int64_t vocabulary, context, width, heads, layers;
        double dropout;
        bool tied_head;
    } named[] = {
        {"gpt2-small", 50257, 1024, 768, 12, 12, 0.1, false},
        {"gpt2-medium", 50257, 1024, 1024, 16, 24, 0.1, false},
        {"gpt2-large", 50257, 1024, 1280, 20, 36, 0.1, false},
        {"gpt2-xl", 50257, 1024, 1600, 25, 48, 0.1, false},
        {"tiny", 512, 128, 128, 4, 4, 0, true},
    };
    if (!name || !config) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, name ? "config" : "name");
    }
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (strcmp(name, named[i].name) == 0) {
            *config = tg_gpt_config_default();
            config->vocabulary = named[i].vocabulary;
            config->context = named[i].context;
            config->width = named[i].width;
            config->heads = named[i].heads;
            config->layers = named[i].layers;
            config->dropout = named[i].dropout;
            config->tied_head = named[i].tied_head;
            config->init = named[i].tied_head ? TG_GPT_INIT_GPT2 : TG_GPT_INIT_MODULES;
            return true;
        }
    }
    return tg_error_set(error, TG_ERROR_VALUE,
                        "%s: '%.*s'; it must be gpt2-small, gpt2-medium, gpt2-large, gpt2-xl or tiny", call,
                        TG_CUT(name, 40));
}

static bool check_gpt_config(tg_params *params, const tg_gpt_config *c)
{
    static const char call[] = "gpt_new";
    const struct {
        const char *name;
        int64_t value, largest;
    } sizes[] = {{"vocabulary", c->vocabulary, INT32_MAX},
                 {"context", c->context, INT64_MAX},
                 {"width", c->width, INT64_MAX},
                 {"heads", c->heads, INT64_MAX},
                 {"layers", c->layers, 100000}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].largest) {
            return tg_params_fail(params, TG_ERROR_VALUE, "%s: %s %lld; it must be set, from 1 to %lld", call,
                                  sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].largest);
        }
    }
    if (c->width % c->heads != 0) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: heads %lld do not divide width %lld", call,
                              (long long)c->heads, (long long)c->width);
    }
    if ((unsigned)c->position > TG_POSITION_NONE) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: position %d does not exist; it must be 0 to %d", call,
                              (int)c->position, TG_POSITION_NONE);
    }
    if ((unsigned)c->path > TG_ATTENTION_ELEMENTARY) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: path %d does not exist; it must be 0 (fused) or 1 (elementary)", call, (int)c->path);
    }
    if ((unsigned)c->init > TG_GPT_INIT_GPT2) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: init %d; it must be TG_GPT_INIT_MODULES or TG_GPT_INIT_GPT2",
                              call, (int)c->init);
    }
    return (c->dropout >= 0 && c->dropout < 1) ||
           tg_params_fail(params, TG_ERROR_VALUE, "%s: dropout %g is outside [0,1)", call, c->dropout);
}

/* ---- constructor ---- */

static void make_blocks(tg_gpt *model, tg_nn_positional_config *positions)
{
    const tg_gpt_config *c = &model->config;
    const tg_position_kind *kind = tg_position_kind_of(c->position);
    tg_nn_transformer_block_config block = tg_nn_transformer_block_config_default();
    block.dropout = c->dropout;
    block.attention.dropout = c->dropout;
    block.attention.bias = c->qkv_bias;
    block.attention.path = c->path;
    block.attention.positional = kind->is_relative ? &model->pos_emb : NULL;
    tg_nn_positional own;
    for (int64_t i = 0; i < c->layers; i++) {
        char name[48];
        if (kind->is_per_layer) {
            snprintf(name, sizeof name, "trf_blocks.%lld.att.position", (long long)i);
            own = tg_nn_positional_make(model->params, name, c->position, c->context, c->width, positions);
            block.attention.positional = &own;
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
        model->pos_emb = tg_nn_positional_make(params, kind->is_relative ? "position" : "pos_emb", c->position,
                                               c->context, c->width, &positions);
    }
    make_blocks(model, &positions);
    model->final_norm = tg_nn_norm_make(params, "final_norm", c->width, TG_NORM_LAYER, 1e-5);
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
            bool onto_residual =
                tg_ends_with(entry.name, "out_proj.weight") || tg_ends_with(entry.name, "ff.layers.2.weight");
            double scale = onto_residual ? 1 / sqrt(2 * (double)layers) : 1;
            tg_tensor_fill_normal(entry.tensor, tg_params_rng(params), 0, std * scale, NULL);
        } else if (tg_ends_with(entry.name, "bias")) {
            tg_tensor_fill(entry.tensor, 0, NULL);
        }
    }
}

tg_gpt *tg_gpt_new(tg_params *params, const tg_gpt_config *given)
{
    if (!tg_params_expect_config(params, "gpt_new", given, mark)) {
        return NULL;
    }
    tg_gpt_config config = given ? *given : tg_gpt_config_default();
    if (!check_gpt_config(params, &config)) {
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
    static const char call[] = "gpt_resize_vocabulary";
    if (!model || !tg_params_is_usable(model->params)) {
        return false;
    }
    double bound = 1 / sqrt((double)model->config.width);
    /* the last one is B of the head's LoRA, if it has any */
    tg_new_rows tables[] = {{model->tok_emb.weight, tg_tensor_fill_normal, model->tok_emb.mean, model->tok_emb.std},
                            {model->out_head.weight, tg_tensor_fill_uniform, -bound, bound},
                            {.table = model->out_head.lora_b}};
    int count = model->config.tied_head || model->has_own_head ? 1 : model->out_head.lora_b ? 3 : 2;
    if (!tg_resize_and_draw(call, tables, count, vocabulary, model->params)) {
        return false;
    }
    model->config.vocabulary = vocabulary;
    return true;
}

bool tg_gpt_extend_context(tg_gpt *model, int64_t context)
{
    static const char call[] = "gpt_extend_context";
    if (!model || !tg_params_is_usable(model->params)) {
        return false;
    }
    if (context < model->config.context) {
        return tg_params_fail(model->params, TG_ERROR_RANGE, "%s: context %lld; the context is %lld and cannot shrink",
                              call, (long long)context, (long long)model->config.context);
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

static bool check_input(tg_tape *t, const tg_gpt *model, const tg_tensor *ids, const tg_kv_cache *cache)
{
    static const char call[] = "gpt_forward";
    if (!model) {
        return tg_tape_fail(t, TG_ERROR_STATE, call, "the model is NULL");
    }
    if (!tg_tape_expect_input(t, call, "ids", ids)) {
        return false;
    }
    if (ids->rank != 2 || ids->dtype != TG_I32) {
        char text[TG_SHAPE_TEXT];
        return tg_tape_fail(t, ids->dtype == TG_I32 ? TG_ERROR_SHAPE : TG_ERROR_DTYPE, call,
                            "the ids are %s %s; they must be i32 (B,T)", tg_dtype_name(tg_dtype_of(ids)),
                            tg_shape_format(tg_shape_of(ids), text));
    }
    if (cache && cache->layers != model->config.layers) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call, "the cache has %lld layers; the model has %lld",
                            (long long)cache->layers, (long long)model->config.layers);
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
static tg_tensor *features_of(tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache)
{
    if (!check_input(t, model, ids, cache)) {
        return NULL;
    }
    tg_nn_multihead_attention_forward_config attention = tg_nn_multihead_attention_forward_config_default();
    attention.cache = cache;
    tg_tensor *x = tg_nn_embedding_forward(t, &model->tok_emb, ids);
    if (model->pos_emb.module.is_made) {
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
static tg_tensor *finish(tg_tape *t, const tg_tape_point *point, tg_tensor *logits, tg_kv_cache *cache)
{
    tg_error error = TG_NO_ERROR;
    if (logits && cache && !tg_kv_cache_commit(cache, &error)) {
        tg_tape_fail(t, error.code, "gpt_forward", "%s", error.text);
        logits = NULL;
    }
    if (!logits && cache) {
        tg_kv_cache_abandon(cache);
    }
    return tg_tape_end_module(t, point, logits);
}

tg_tensor *tg_gpt_forward(tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache)
{
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    tg_tensor *features = features_of(t, model, ids, cache);
    return finish(t, &point, features ? tg_nn_linear_forward(t, &model->out_head, features) : NULL, cache);
}

tg_tensor *tg_gpt_hidden_states(tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache)
{
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    return finish(t, &point, features_of(t, model, ids, cache), cache);
}

tg_tensor *tg_gpt_loss(tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_tensor *targets,
                       const tg_cross_entropy_config *config)
{
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    tg_tensor *features = features_of(t, model, ids, NULL);
    tg_tensor *loss = NULL;
    if (features) {
        const tg_nn_linear *head = &model->out_head;
        loss = head->bias || head->lora_a
                   ? tg_cross_entropy(t, tg_nn_linear_forward(t, head, features), targets, config)
                   : tg_linear_cross_entropy(t, features, head->weight, targets, config);
    }
    return tg_tape_end_module(t, &point, loss);
}

tg_tensor *tg_gpt_last_logits(tg_tape *t, const tg_gpt *model, tg_tensor *ids, tg_kv_cache *cache)
{
    tg_tape_point point;
    tg_tape_save_point(t, true, &point);
    tg_tensor *features = features_of(t, model, ids, cache);
    tg_tensor *last = features ? tg_slice(t, features, 1, -1, INT64_MAX, 1) : NULL;
    tg_tensor *logits = last ? tg_nn_linear_forward(t, &model->out_head, last) : NULL;
    return finish(t, &point, logits ? tg_select(t, logits, 1, 0) : NULL, cache);
}

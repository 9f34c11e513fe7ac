/* multihead_attention: attention with several heads as a module (Vaswani et al. 2017, section 3.2).
 *
 *   q, k, v = x Wq^T, x Wk^T, x Wv^T      (B,T,C), where C is H heads of width D; k and v may have fewer heads
 *   q, k    = norm(q), norm(k)            of each head, with query_key_norm
 *   y       = attention of each head      (B,H,T,D): ops/attention/attention.c; relative positions: nn/positions
 *   out     = y Wo^T + b                  (B,T,out), with the heads side by side
 *
 * k and v may be of another sequence. Heads are views: (B,T,C) is read as (B,T,H,D), and the two axes in the middle are
 * exchanged. PyTorch's layout has one weight (3 C,C) for q, k and v, and one product computes those of the same
 * sequence. The book's MultiHeadAttention (chapter 3) has a weight for each.
 */
#include <math.h>

#include "nn/kv_cache.h"
#include "nn/positions/positions.h"
#include "tape/tape.h"

TG_CONFIG(tg_nn_multihead_attention_config, tg_nn_multihead_attention_config_default, mark, .mark = mark,
          .layout = TG_ATTENTION_IN_PROJ, .bias = true, .out_bias = true, .query_key_eps = 1e-6,
          .scale = TG_SCALE_OF_WIDTH, .path = TG_ATTENTION_FUSED);

TG_CONFIG(tg_nn_multihead_attention_forward_config, tg_nn_multihead_attention_forward_config_default, forward_mark,
          .mark = forward_mark);

/* ---- make ---- */

static bool check_positional(tg_params *params, const char *call, const char *name, int64_t in, int64_t out,
                             int64_t heads, const tg_nn_multihead_attention_config *config)
{
    const tg_nn_positional *positional = config->positional;
    int64_t width = heads * config->head_width;
    const tg_position_kind *kind = tg_position_kind_of(positional->kind);
    if (!positional->module.is_made) {
        return tg_params_fail(params, TG_ERROR_STATE, "%s: the positions of '%s' were not made", call, name);
    }
    if (kind->add) {
        return tg_params_fail(
            params, TG_ERROR_VALUE,
            "%s: '%s' has %s positions, which tg_nn_positional_forward adds; attention takes relative kinds", call,
            name, kind->name);
    }
    if (kind->is_relative && (positional->config.heads != heads || positional->width != width)) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: '%s' has %lld heads and width %lld, but its %s positions were made for %lld heads "
                              "and width %lld",
                              call, name, (long long)heads, (long long)width, kind->name,
                              (long long)positional->config.heads, (long long)positional->width);
    }
    if (kind->multiplies_heads && (config->key_heads != heads || config->scale != TG_SCALE_OF_WIDTH)) {
        return tg_params_fail(
            params, TG_ERROR_VALUE,
            "%s: '%s' has %lld heads, %lld key heads and scale %g; with %s positions there must be as "
            "many key heads as heads, and the scale must be TG_SCALE_OF_WIDTH",
            call, name, (long long)heads, (long long)config->key_heads, config->scale, kind->name);
    }
    return !tg_positional_shares_projections(positional) || in == out ||
           tg_params_fail(params, TG_ERROR_VALUE,
                          "%s: '%s' goes from width %lld to %lld; both must be equal, because its %s positions share "
                          "the projections",
                          call, name, (long long)in, (long long)out, kind->name);
}

/* Checks the heads, and sets the sizes that zeros in the config stand for. */
static bool resolve_heads(tg_params *params, const char *call, const char *name, int64_t out, int64_t heads,
                          tg_nn_multihead_attention_config *config)
{
    if (heads < 1 || out < 1 || (config->head_width == 0 && out % heads != 0)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has %lld heads, which do not divide width %lld", call,
                              name, (long long)heads, (long long)out);
    }
    config->key_heads = config->key_heads == 0 ? heads : config->key_heads;
    config->head_width = config->head_width == 0 ? out / heads : config->head_width;
    int64_t keys = config->key_heads, width = config->head_width;
    bool is_own = keys != heads || width != out / heads || !config->out_bias;
    if (keys < 1 || heads % keys != 0 || width < 1 || (is_own && config->layout == TG_ATTENTION_IN_PROJ)) {
        return tg_params_fail(
            params, TG_ERROR_VALUE,
            "%s: '%s' has %lld heads, %lld key heads, head width %lld and out_bias %d; key heads must "
            "divide the heads, the width be at least 1, and with TG_ATTENTION_IN_PROJ all must be as "
            "by default",
            call, name, (long long)heads, (long long)keys, (long long)width, config->out_bias);
    }
    return tg_module_multiply(params, call, name, "head width", width, heads, &width);
}

static bool check_attention(tg_params *params, const char *call, const char *name, int64_t in, int64_t out,
                            int64_t heads, const tg_nn_multihead_attention_config *config)
{
    if ((unsigned)config->layout > TG_ATTENTION_SEPARATE) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: '%s' has layout %d, which does not exist; it must be 0 (in_proj) or 1 (separate)",
                              call, name, (int)config->layout);
    }
    if ((unsigned)config->path > TG_ATTENTION_ELEMENTARY) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: '%s' has path %d, which does not exist; it must be 0 (fused) or 1 (elementary)",
                              call, name, (int)config->path);
    }
    if (config->layout == TG_ATTENTION_IN_PROJ && in != out) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: '%s' goes from width %lld to %lld; with TG_ATTENTION_IN_PROJ both must be equal",
                              call, name, (long long)in, (long long)out);
    }
    if (!(config->dropout >= 0 && config->dropout < 1)) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has dropout %g, outside [0,1)", call, name,
                              config->dropout);
    }
    bool has_scale = config->scale == TG_SCALE_OF_WIDTH || (config->scale >= 0 && isfinite(config->scale));
    if (!has_scale || config->window < 0 || (config->window > 0 && !config->is_causal)) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "%s: '%s' has scale %g and window %lld; the scale must be finite and at least 0, or "
                              "TG_SCALE_OF_WIDTH, and the window at least 1, with is_causal, or 0",
                              call, name, config->scale, (long long)config->window);
    }
    return !config->positional || check_positional(params, call, name, in, out, heads, config);
}

static void make_separate(tg_params *params, const char *name, int64_t in, int64_t out, tg_nn_multihead_attention *made)
{
    const tg_nn_multihead_attention_config *c = &made->config;
    int64_t width = made->heads * c->head_width, key_width = c->key_heads * c->head_width;
    const struct {
        const char *part;
        tg_nn_linear *linear;
        int64_t in, out;
        bool bias;
    } projections[] = {{"W_query", &made->query, in, width, c->bias},
                       {"W_key", &made->key, in, key_width, c->bias},
                       {"W_value", &made->value, in, key_width, c->bias},
                       {"out_proj", &made->out, width, out, c->out_bias}};
    for (int i = 0; i < 4; i++) {
        *projections[i].linear =
            tg_nn_linear_make(params, TG_MODULE_NAME(params, name, projections[i].part), projections[i].in,
                              projections[i].out, projections[i].bias ? TG_BIAS : TG_NO_BIAS);
    }
}

/* As in PyTorch, the output projection is drawn first, although its names come last, and its bias starts as zeros. */
static void make_in_proj(tg_params *params, const char *call, const char *name, int64_t width,
                         tg_nn_multihead_attention *made)
{
    int64_t rows;
    if (!tg_module_multiply(params, call, name, "width", width, 3, &rows)) {
        return;
    }
    made->in_proj_weight = tg_module_add(params, name, "in_proj_weight", tg_shape_make(2, (int64_t[]){rows, width}), 0);
    if (made->config.bias) {
        made->in_proj_bias = tg_module_add(params, name, "in_proj_bias", tg_shape_make(1, &rows), 0);
    }
    made->out = tg_nn_linear_make(params, TG_MODULE_NAME(params, name, "out_proj"), width, width,
                                  made->config.bias ? TG_BIAS : TG_NO_BIAS);
    tg_tensor_fill(made->out.bias, 0, NULL);
    if (tg_params_is_usable(params)) {
        tg_init_xavier_uniform(made->in_proj_weight, tg_params_rng(params), 1, tg_params_run(params)->error);
    }
}

tg_nn_multihead_attention tg_nn_multihead_attention_make(tg_params *params, const char *name, int64_t in, int64_t out,
                                                         int64_t heads, const tg_nn_multihead_attention_config *given)
{
    static const char call[] = "nn_multihead_attention_make";
    tg_nn_multihead_attention none = {.module = {params, false}}, made = {.heads = heads};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, given, mark, &point)) {
        return none;
    }
    made.config = given ? *given : tg_nn_multihead_attention_config_default();
    if (!resolve_heads(params, call, name, out, heads, &made.config) ||
        !check_attention(params, call, name, in, out, heads, &made.config)) {
        return none;
    }
    /* a value, so that the module may be copied and outlive the caller's struct */
    if (made.config.positional) {
        made.positional = *made.config.positional;
        made.config.positional = NULL;
    }
    if (made.config.layout == TG_ATTENTION_IN_PROJ) {
        make_in_proj(params, call, name, out, &made);
    } else {
        make_separate(params, name, in, out, &made);
    }
    const tg_nn_multihead_attention_config *c = &made.config;
    const char *q_norm = TG_MODULE_NAME(params, name, "q_norm");
    made.query_norm = tg_nn_norm_make(params, q_norm, c->head_width, c->query_key_norm, c->query_key_eps);
    const char *k_norm = TG_MODULE_NAME(params, name, "k_norm");
    made.key_norm = tg_nn_norm_make(params, k_norm, c->head_width, c->query_key_norm, c->query_key_eps);
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : none;
}

/* ---- forward ---- */

/* Returns the relative positions, or NULL. */
static const tg_nn_positional *positions_of(const tg_nn_multihead_attention *a)
{
    return a->positional.module.is_made ? &a->positional : NULL;
}

/* Heads (B,T,H,D) -> (B,H,T,D), a view, after the norm of queries (part 0) or keys (part 1); values are part 2. */
static tg_tensor *heads_first(tg_tape *t, const tg_nn_multihead_attention *a, tg_tensor *x, int part)
{
    if (part < 2) {
        x = tg_nn_norm_forward(t, part == 0 ? &a->query_norm : &a->key_norm, x);
    }
    return tg_transpose(t, x, 1, 2);
}

/* (B,T,C) -> (B,H,T,D) */
static tg_tensor *split_heads(tg_tape *t, const tg_nn_multihead_attention *a, tg_tensor *x, int part)
{
    if (!x) {
        return NULL;
    }
    int64_t heads = part == 0 ? a->heads : a->config.key_heads;
    tg_shape shape = tg_shape_make(4, (int64_t[]){x->shape[0], x->shape[1], heads, x->shape[2] / heads});
    return heads_first(t, a, tg_reshape(t, x, shape), part);
}

/* Returns `count` of the three projections of in_proj_weight as one, from number `first` on. */
static tg_nn_linear projection_of(tg_tape *t, const tg_nn_multihead_attention *a, int first, int count)
{
    int64_t width = a->in_proj_weight->shape[1], begin = first * width, end = (first + count) * width;
    tg_nn_linear part = {.module = a->module, .weight = a->in_proj_weight, .bias = a->in_proj_bias};
    if (count < 3) {
        part.weight = tg_slice(t, part.weight, 0, begin, end, 1);
        part.bias = part.bias ? tg_slice(t, part.bias, 0, begin, end, 1) : NULL;
    }
    return part;
}

/* Computes, in one product, `count` of the three projections of in_proj_weight, from number `first` on: x (B,T,C) ->
 * parts[i] (B,H,T,D). */
static void project_parts(tg_tape *t, const tg_nn_multihead_attention *a, tg_tensor *x, int first, int count,
                          tg_tensor *parts[])
{
    tg_nn_linear projection = projection_of(t, a, first, count);
    tg_tensor *packed = tg_linear(t, x, projection.weight, projection.bias);
    if (!packed) {
        return;
    }
    int64_t shape[] = {x->shape[0], x->shape[1], count, a->heads, packed->shape[2] / count / a->heads};
    packed = tg_reshape(t, packed, tg_shape_make(5, shape));
    for (int i = 0; i < count; i++) {
        parts[i] = heads_first(t, a, tg_select(t, packed, 2, i), first + i);
    }
}

/* Computes the queries, keys and values (B,H,T,D) of three sequences, which may be the same tensor. */
static bool project(tg_tape *t, const tg_nn_multihead_attention *a, tg_tensor *x, tg_tensor *key, tg_tensor *value,
                    tg_tensor *qkv[3])
{
    if (a->config.layout == TG_ATTENTION_SEPARATE) {
        qkv[0] = split_heads(t, a, tg_nn_linear_forward(t, &a->query, x), 0);
        qkv[1] = split_heads(t, a, tg_nn_linear_forward(t, &a->key, key), 1);
        qkv[2] = split_heads(t, a, tg_nn_linear_forward(t, &a->value, value), 2);
    } else {
        tg_tensor *sequences[] = {x, key, value};
        for (int first = 0, count = 1; first < 3; first += count) {
            for (count = 1; first + count < 3 && sequences[first + count] == sequences[first];) {
                count++;
            }
            project_parts(t, a, sequences[first], first, count, qkv + first);
        }
    }
    return qkv[0] && qkv[1] && qkv[2];
}

static bool check_input(tg_tape *t, const char *call, const char *name, const tg_tensor *x)
{
    return tg_tape_expect_tensor(t, call, name, x) &&
           (x->rank == 3 || tg_tape_fail(t, TG_ERROR_SHAPE, call, "the %s has shape %s; it must be (B,T,C)", name,
                                         tg_shape_text_of(x).text));
}

/* Checks that in_proj_weight and in_proj_bias have three parts: one may have been resized. */
static bool check_in_proj(tg_tape *t, const char *call, const tg_nn_multihead_attention *a)
{
    const tg_tensor *weight = a->in_proj_weight, *bias = a->in_proj_bias;
    int64_t rows = weight ? 3 * weight->shape[1] : 0;
    return !weight || (weight->shape[0] == rows && (!bias || bias->shape[0] == rows)) ||
           tg_tape_fail(t, TG_ERROR_SHAPE, call, "in_proj_weight has %lld rows, and in_proj_bias %lld; it must be %lld",
                        (long long)weight->shape[0], (long long)tg_tensor_size(bias, 0), (long long)rows);
}

/* Checks the tensors of a forward pass, and that its options do not exclude each other. */
static bool check_forward(tg_tape *t, const char *call, const tg_nn_multihead_attention *a, const tg_tensor *x,
                          const tg_nn_multihead_attention_forward_config *config)
{
    const tg_tensor *others[] = {config->memory, config->key, config->value};
    static const char *const names[] = {"memory", "key", "value"};
    for (int i = 0; i < 3; i++) {
        if (others[i] && !check_input(t, call, names[i], others[i])) {
            return false;
        }
        if (i > 0 && others[i] && others[i]->shape[0] != x->shape[0]) {
            return tg_tape_fail(t, TG_ERROR_SHAPE, call, "the %s has %lld sequences, and the input %lld", names[i],
                                (long long)others[i]->shape[0], (long long)x->shape[0]);
        }
    }
    if (config->memory && config->cache) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "a memory and a cache are given; one of them must be NULL");
    }
    if ((config->key || config->value) && (config->memory || config->cache)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "a %s is given with a %s; one of them must be NULL",
                            config->key ? "key" : "value", config->memory ? "memory" : "cache");
    }
    int64_t kept = tg_kv_cache_window(config->cache, config->layer);
    if (kept > 0 && (a->config.window == 0 || a->config.window > kept)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call,
                            "layer %lld of the cache has a window of %lld positions, and the attention one of %lld (0: "
                            "none); the cache's must not be smaller",
                            (long long)config->layer, (long long)kept, (long long)a->config.window);
    }
    const tg_nn_positional *positional = positions_of(a);
    const tg_position_kind *kind = positional ? tg_position_kind_of(positional->kind) : NULL;
    if (config->positions && (!kind || !kind->rotate || config->memory)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call,
                            "positions are given; this needs rotary positions, and no memory, whose positions are not "
                            "known");
    }
    return !config->key || !kind || !kind->is_relative ||
           tg_tape_fail(t, TG_ERROR_VALUE, call,
                        "a key is given, but the module has %s positions, which are distances within one sequence",
                        kind->name);
}

/* Returns positions whose distances are projected by the attention's own projections. */
static tg_nn_positional with_projections(tg_tape *t, const tg_nn_multihead_attention *a)
{
    tg_nn_positional positional = a->positional;
    bool is_packed = a->config.layout == TG_ATTENTION_IN_PROJ;
    positional.position_query = is_packed ? projection_of(t, a, 0, 1) : a->query;
    positional.position_key = is_packed ? projection_of(t, a, 1, 1) : a->key;
    return positional;
}

/* Returns numbers of keys, or of first keys, from key `dropped` on: i32, or NULL. */
static tg_tensor *shifted(tg_tape *t, tg_tensor *keys, int64_t dropped)
{
    static const char call[] = "nn_multihead_attention_forward";
    if (!keys || keys->dtype != TG_I32 || !tg_tape_expect_values(t, call, "lengths or first_keys", keys)) {
        return keys; /* attention reports what is wrong */
    }
    tg_tensor *y = tg_tape_new_tensor(t, call, TG_I32, tg_shape_of(keys));
    for (int64_t i = 0; y && i < y->count; i++) {
        double key = tg_value_at(keys, i) - (double)dropped;
        ((int32_t *)tg_values(y))[i] = key > 0 ? (int32_t)key : 0;
    }
    return y;
}

/* The forward pass, after the checks of the arguments. */
static tg_tensor *forward(tg_tape *t, const tg_nn_multihead_attention *a, tg_tensor *x,
                          const tg_nn_multihead_attention_forward_config *config)
{
    tg_tensor *memory = config->memory;
    tg_tensor *context = memory        ? tg_cat(t, (tg_tensor *[]){tg_detach(t, memory), x}, 2, 1)
                         : config->key ? config->key
                                       : x;
    int64_t start = memory ? memory->shape[1] : tg_kv_cache_length(config->cache);
    tg_tensor *qkv[3] = {NULL};
    if (!project(t, a, x, context, config->value ? config->value : context, qkv)) {
        return NULL;
    }
    const tg_nn_positional *positional = positions_of(a);
    if (positional && tg_position_kind_of(positional->kind)->rotate) {
        const tg_position_kind *kind = tg_position_kind_of(positional->kind);
        qkv[0] = kind->rotate(t, positional, qkv[0], start, config->positions);
        qkv[1] = kind->rotate(t, positional, qkv[1], memory ? 0 : start, config->positions);
    }
    if (config->cache && !tg_kv_cache_append(t, config->cache, config->layer, &qkv[1], &qkv[2])) {
        return NULL;
    }
    tg_scaled_dot_product_attention_config attention = tg_scaled_dot_product_attention_config_default();
    attention.is_causal = a->config.is_causal;
    attention.dropout = a->config.dropout;
    attention.scale = a->config.scale;
    attention.enable_gqa = a->config.key_heads != a->heads;
    attention.path = config->weights ? TG_ATTENTION_ELEMENTARY : a->config.path;
    attention.weights = config->weights;
    attention.window = a->config.window;
    attention.lengths = config->lengths;
    attention.key_mask = config->key_mask;
    attention.first_keys = config->first_keys;
    /* the keys of earlier passes that a cache with a window has dropped */
    int64_t dropped = config->cache ? start + x->shape[1] - qkv[1]->shape[2] : 0;
    if (dropped > 0) {
        attention.lengths = shifted(t, config->lengths, dropped);
        attention.first_keys = shifted(t, config->first_keys, dropped);
        attention.key_mask = config->key_mask ? tg_slice(t, config->key_mask, 1, dropped, INT64_MAX, 1) : NULL;
    }
    tg_nn_positional sharing;
    if (tg_positional_shares_projections(positional)) {
        sharing = with_projections(t, a);
        positional = &sharing;
    }
    tg_tensor *y = tg_positional_attention(t, positional, qkv[0], qkv[1], qkv[2], &attention);
    if (!y) {
        return NULL;
    }
    tg_shape joined = tg_shape_make(3, (int64_t[]){x->shape[0], x->shape[1], y->shape[1] * y->shape[3]});
    return tg_nn_linear_forward(t, &a->out, tg_reshape(t, tg_transpose(t, y, 1, 2), joined));
}

tg_tensor *tg_nn_multihead_attention_forward(tg_tape *t, const tg_nn_multihead_attention *a, tg_tensor *x,
                                             const tg_nn_multihead_attention_forward_config *given)
{
    static const char call[] = "nn_multihead_attention_forward";
    if (!tg_module_is_ready(t, call, a) || !tg_tape_expect_config(t, call, given, forward_mark) ||
        !tg_tape_expect_input(t, call, "x", x) || !check_input(t, call, "input", x)) {
        return NULL;
    }
    tg_nn_multihead_attention_forward_config config =
        given ? *given : tg_nn_multihead_attention_forward_config_default();
    if (config.weights) {
        *config.weights = NULL;
    }
    if (!check_in_proj(t, call, a) || !check_forward(t, call, a, x, &config)) {
        return NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, a->config.dropout > 0, &point);
    int64_t pending = tg_kv_cache_pending(config.cache, config.layer);
    tg_tensor *y = forward(t, a, x, &config);
    if (!y) {
        tg_kv_cache_set_pending(config.cache, config.layer, pending);
        if (config.weights) {
            *config.weights = NULL;
        }
    }
    return tg_tape_end(t, &point, y);
}

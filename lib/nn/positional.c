/* positional: the positions of tokens, as a module. Each kind is a constant structure of functions
 * (nn/positions/positions.h). This file finds the structure of a kind, and does the checks that all kinds share.
 */
#include <string.h>

#include "base/text.h"
#include "nn/positions/positions.h"
#include "ops/attention/attention.h"
#include "ops/attention/rotary.h"

const tg_position_kind tg_no_positions = {.name = "none"};

static const tg_position_kind *const kinds[] = {
    [TG_POSITION_LEARNED] = &tg_learned_positions,
    [TG_POSITION_SINUSOIDAL] = &tg_sinusoidal_positions,
    [TG_POSITION_ROTARY] = &tg_rotary_positions,
    [TG_POSITION_ALIBI] = &tg_alibi_positions,
    [TG_POSITION_T5] = &tg_t5_positions,
    [TG_POSITION_SHAW] = &tg_shaw_positions,
    [TG_POSITION_TRANSFORMER_XL] = &tg_transformer_xl_positions,
    [TG_POSITION_RELATIVE_KEY] = &tg_relative_key_positions,
    [TG_POSITION_RELATIVE_KEY_QUERY] = &tg_relative_key_query_positions,
    [TG_POSITION_DEBERTA] = &tg_deberta_positions,
    [TG_POSITION_NONE] = &tg_no_positions,
};

#define KINDS (sizeof kinds / sizeof kinds[0])

const tg_position_kind *tg_position_kind_of(tg_position kind)
{
    return (size_t)kind < KINDS ? kinds[kind] : &tg_no_positions;
}

const char *tg_position_name(tg_position kind)
{
    return (size_t)kind < KINDS ? kinds[kind]->name : "unknown";
}

bool tg_position_from_name(const char *name, tg_position *kind, tg_error *error)
{
    static const char call[] = "position_from_name";
    if (!name || !kind) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the %s is NULL", call, name ? "kind" : "name");
    }
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(name, kinds[i]->name) == 0) {
            *kind = (tg_position)i;
            return true;
        }
    }
    return tg_error_set(error, TG_ERROR_VALUE,
                        "%s: '%.*s'; it must be learned, sinusoidal, rotary, alibi, t5, shaw, transformer-xl, "
                        "relative-key, relative-key-query, deberta or none",
                        call, TG_CUT(name, 40));
}

/* ---- the module ---- */

TG_CONFIG(tg_nn_positional_config, tg_nn_positional_config_default, mark, .mark = mark, .buckets = 32,
          .max_distance = 128, .clip = 16, .rotary = tg_rotary_config_default(), .content_to_position = true,
          .position_to_content = true, .position_buckets = -1, .max_relative_positions = -1);

static bool check_positional(tg_params *params, const char *name, int64_t context, const tg_nn_positional *made)
{
    static const char call[] = "nn_positional_make";
    const tg_position_kind *kind = tg_position_kind_of(made->kind);
    long long heads = made->config.heads, width = made->width;
    if ((size_t)made->kind >= KINDS) {
        return tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has kind %d, which does not exist", call, name,
                              (int)made->kind);
    }
    if (context < 1 || width < 1) {
        return tg_params_fail(params, TG_ERROR_SHAPE,
                              "%s: '%s' has context %lld and width %lld; both must be at least 1", call, name,
                              (long long)context, width);
    }
    if (kind->is_relative && (heads < 1 || width % heads != 0)) {
        return tg_params_fail(
            params, TG_ERROR_VALUE,
            "%s: '%s' has heads %lld; it must be set to the attention's number of heads, which divides "
            "the width %lld",
            call, name, heads, width);
    }
    return !kind->check || kind->check(params, name, width, &made->config);
}

tg_nn_positional tg_nn_positional_make(tg_params *params, const char *name, tg_position kind, int64_t context,
                                       int64_t width, const tg_nn_positional_config *given)
{
    static const char call[] = "nn_positional_make";
    tg_nn_positional none = {.module = {params, false}}, made = {.kind = kind, .width = width};
    tg_params_point point;
    if (!tg_module_begin(params, call, name, given, mark, &point)) {
        return none;
    }
    if (given && !tg_rotary_check(call, &given->rotary, tg_params_run(params)->error)) {
        return none;
    }
    if (given && given->rotary.positions) {
        tg_params_fail(params, TG_ERROR_VALUE, "%s: '%s' has rotary.positions; they belong to a call", call, name);
        return none;
    }
    made.config = given ? *given : tg_nn_positional_config_default();
    if (!check_positional(params, name, context, &made)) {
        return none;
    }
    if (tg_position_kind_of(kind)->make) {
        tg_position_kind_of(kind)->make(params, name, context, &made);
    }
    made.rows = tg_tensor_size(made.weight, 0);
    made.module = tg_module_end(params, &point);
    return made.module.is_made ? made : none;
}

tg_tensor *tg_nn_positional_forward(tg_tape *t, const tg_nn_positional *p, tg_tensor *x, int64_t start)
{
    static const char call[] = "nn_positional_forward";
    if (!tg_module_is_ready(t, call, p) || !tg_tape_expect_input(t, call, "x", x)) {
        return NULL;
    }
    const tg_position_kind *kind = tg_position_kind_of(p->kind);
    return kind->add ? kind->add(t, p, x, start) : x;
}

bool tg_nn_positional_extend(tg_nn_positional *p, int64_t context)
{
    tg_error *error = tg_module_error("nn_positional_extend", p);
    if (!error) {
        return false;
    }
    const tg_position_kind *kind = tg_position_kind_of(p->kind);
    return !kind->extend || kind->extend(p, context, error);
}

/* ---- for attention ---- */

bool tg_positional_shares_projections(const tg_nn_positional *p)
{
    return p && tg_position_kind_of(p->kind)->projects_distances && p->config.shared_projections;
}

/* Checks that no caller has resized a tensor of relative positions: its rows would belong to other distances, buckets
 * or heads. */
static bool check_rows(tg_tape *t, const tg_nn_positional *p)
{
    const struct {
        const char *name;
        const tg_tensor *x;
        int64_t rows;
    } all[] = {{"weight", p->weight, p->rows},
               {"values", p->values, p->rows},
               {"content_bias", p->content_bias, p->config.heads},
               {"position_bias", p->position_bias, p->config.heads}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].x && all[i].x->shape[0] != all[i].rows) {
            return tg_tape_fail(t, TG_ERROR_SHAPE, "nn_multihead_attention_forward",
                                "the %s of the %s positions has %lld rows; it was made with %lld", all[i].name,
                                tg_position_name(p->kind), (long long)all[i].x->shape[0], (long long)all[i].rows);
        }
    }
    return true;
}

tg_tensor *tg_positional_attention(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys,
                                   tg_tensor *values, const tg_scaled_dot_product_attention_config *given)
{
    if (!queries || !keys) {
        return NULL;
    }
    if (p && !check_rows(t, p)) {
        return NULL;
    }
    const tg_position_kind *kind = p ? tg_position_kind_of(p->kind) : &tg_no_positions;
    tg_scaled_dot_product_attention_config config = *given;
    if (kind->bias && !(config.bias = kind->bias(t, p, queries, keys, config.is_causal))) {
        return NULL;
    }
    if (kind->content) {
        queries = kind->content(t, p, queries);
    }
    if (!kind->values) {
        return tg_scaled_dot_product_attention(t, queries, keys, values, &config);
    }
    if (!tg_attention_prepare(t, &queries, &keys, &values, &config)) {
        return NULL;
    }
    tg_tensor *weights = tg_attention_weights(t, queries, keys, &config);
    if (config.weights) {
        *config.weights = weights;
    }
    return weights ? tg_add(t, tg_matmul(t, weights, values), kind->values(t, p, weights)) : NULL;
}

/* ---- parts of the kinds ---- */

tg_tensor *tg_positions_add(tg_params *params, const char *name, const char *part, int64_t rows, int64_t columns,
                            double std)
{
    return tg_module_add_normal(params, name, part, tg_shape_make(2, (int64_t[]){rows, columns}), 0, std);
}

/* relative_key: trained vectors per distance (Huang et al. 2020, methods 3 and 4), as in transformers' BERT. With the
 * distance d = i - j of a query at position i and a key at position j,
 *
 *   relative-key          score_ij = q_i . (k_j + E_d) / sqrt(D)
 *   relative-key-query    score_ij = (q_i . (k_j + E_d) + k_j . E_d) / sqrt(D)
 *
 * E has 2 context - 1 rows, "distance_embedding.weight", and d is its row d + context - 1. Both products are scores by
 * distance (lib/ops/attention/relative.h): for the second one, keys and queries exchange their roles, and so the order
 * of the distances is reversed.
 */
#include <math.h>

#include "nn/positions/positions.h"
#include "ops/attention/relative.h"

static void make(tg_params *params, const char *name, int64_t context, tg_nn_positional *made)
{
    if (context > INT32_MAX / 2) {
        tg_params_fail(params, TG_ERROR_SHAPE, "nn_positional_make: '%s' has context %lld; %s positions allow %d", name,
                       (long long)context, tg_position_name(made->kind), INT32_MAX / 2);
        return;
    }
    made->weight = tg_positions_add(params, name, "distance_embedding.weight", 2 * context - 1,
                                    made->width / made->config.heads, 0.02);
}

static bool extend(tg_nn_positional *p, int64_t context, tg_error *error)
{
    int64_t own = (p->weight->shape[0] + 1) / 2;
    return context == own || tg_error_set(error, context < own ? TG_ERROR_RANGE : TG_ERROR_VALUE,
                                          "nn_positional_extend: context %lld; %s positions have a vector per distance "
                                          "up to a context of %lld, which cannot change",
                                          (long long)context, tg_position_name(p->kind), (long long)own);
}

/* Returns E_d / sqrt(D) of the distances 1 - T .. S - 1, in this order: (T + S - 1,D). */
static tg_tensor *vectors_of(tg_tape *t, const tg_nn_positional *p, const tg_tensor *queries, const tg_tensor *keys)
{
    int64_t T = queries->shape[2], S = keys->shape[2], context = (p->weight->shape[0] + 1) / 2;
    if (T > context || S > context) {
        tg_tape_fail(t, TG_ERROR_RANGE, "nn_multihead_attention_forward",
                     "%lld queries and %lld keys; the %s positions were made for a context of %lld", (long long)T,
                     (long long)S, tg_position_name(p->kind), (long long)context);
        return NULL;
    }
    tg_tensor *vectors = tg_slice(t, p->weight, 0, context - T, context - 1 + S, 1);
    return tg_div_scalar(t, vectors, sqrt((double)queries->shape[3]));
}

static tg_tensor *scores_of_queries(tg_tape *t, tg_tensor *vectors, tg_tensor *queries, int64_t keys, bool is_causal)
{
    return tg_relative_scores(t, queries, tg_flip(t, vectors, TG_AXES(0)), keys, is_causal);
}

static tg_tensor *key_bias(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys, bool is_causal)
{
    return scores_of_queries(t, vectors_of(t, p, queries, keys), queries, keys->shape[2], is_causal);
}

static tg_tensor *key_query_bias(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys,
                                 bool is_causal)
{
    tg_tensor *vectors = vectors_of(t, p, queries, keys);
    tg_tensor *of_queries = scores_of_queries(t, vectors, queries, keys->shape[2], is_causal);
    tg_tensor *of_keys = tg_relative_scores(t, keys, vectors, queries->shape[2], false); /* (B,H,S,T) */
    return tg_add(t, of_queries, tg_transpose(t, of_keys, 2, 3));
}

const tg_position_kind tg_relative_key_positions = {
    .name = "relative-key",
    .is_relative = true,
    .is_per_layer = true,
    .multiplies_heads = true,
    .make = make,
    .extend = extend,
    .bias = key_bias,
};

const tg_position_kind tg_relative_key_query_positions = {
    .name = "relative-key-query",
    .is_relative = true,
    .is_per_layer = true,
    .multiplies_heads = true,
    .make = make,
    .extend = extend,
    .bias = key_query_bias,
};

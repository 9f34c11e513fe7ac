/* deberta: disentangled attention (He, Liu, Gao and Chen 2021, section 3.1), with the buckets, the shared projections
 * and the layer norm of DeBERTa 2, as in transformers' DebertaV2Model. With the distance d = i - j of a query at
 * position i and a key at position j, and n, the number of the last two terms, of which one may be absent,
 *
 *   score_ij = (q_i . k_j + q_i . K_d + k_j . Q_d) / sqrt(D (1 + n))
 *   K_d = W_K E[r(d)] + b_K                                W_K: "pos_key_proj", or the attention's own projection
 *   Q_d = W_Q E[r(d)] + b_Q                                W_Q: "pos_query_proj", or the attention's own projection
 *   r(d) = clip(span + bucket(d), 0, 2 span - 1)           E: "rel_embeddings", (2 span,width), or its layer norm
 *
 * b_K has no effect, because it adds the same number to all scores of a query, but published models have it.
 *
 * The rows of E that a pass needs are projected once, and copied to the distances. Both products are then scores by
 * distance (lib/ops/attention/relative.h): for the second one, keys and queries exchange their roles, and so the order
 * of the distances is reversed.
 *
 * All layers share a table of distances, and each projects it. The table is a parameter that the caller creates once
 * and gives to the positions of every layer, like its norm. Without one, a layer has its own. With shared projections
 * (share_att_key) the attention sets the projections of a copy of the positions in each pass, as slices of its own
 * weight: no other module could keep a part of a packed weight.
 *
 * Projecting before copying lets buckets and clipped distances, which map several distances to one row, use the
 * products of Transformer-XL. A gather of the products by bucket would move a value per pair of query and key.
 */
#include <math.h>

#include "nn/positions/positions.h"
#include "ops/attention/relative.h"

#include "math/doubles.h"

/* Half of the buckets hold one distance each, and the others grow exponentially up to max_distance - 1. The logarithms
 * are computed in float, as in transformers, so that a distance at the edge of a bucket is in the same bucket. */
int64_t tg_deberta_bucket(int64_t distance, int64_t buckets, int64_t max_distance)
{
    int64_t exact = buckets / 2, size = distance < 0 ? -distance : distance;
    if (buckets < 0 || size <= exact) {
        return distance;
    }
    float growth = (float)tg_log_f64((double)((float)size / (float)exact)) /
                   (float)tg_log_f64((double)(float)((double)(max_distance - 1) / (double)exact));
    float beyond = ceilf(growth * (float)(exact - 1)); /* may be larger than any integer */
    int64_t bucket = beyond < (float)(buckets - exact) ? exact + (int64_t)beyond : buckets;
    return distance < 0 ? -bucket : bucket;
}

/* ---- make ---- */

static bool check_sizes(tg_params *params, const char *name, const tg_nn_positional_config *c)
{
    int64_t buckets = c->position_buckets, most = c->max_relative_positions, limit = INT32_MAX / 2;
    return ((buckets == -1 || (buckets >= 2 && buckets <= limit)) && most >= 1 && most <= limit &&
            (buckets == -1 || most > buckets / 2 + 1)) ||
           tg_params_fail(params, TG_ERROR_VALUE,
                          "nn_positional_make: '%s' has position_buckets %lld and max_relative_positions %lld; "
                          "position_buckets must be -1 or 2 to %lld, max_relative_positions 1 to %lld, and with "
                          "buckets above half of them plus 1",
                          name, (long long)buckets, (long long)most, (long long)limit, (long long)limit);
}

static bool check_distances(tg_params *params, const char *name, const tg_tensor *distances, tg_shape expected)
{
    if (tg_dtype_of(distances) != tg_params_dtype(params)) {
        return tg_params_fail(params, TG_ERROR_DTYPE,
                              "nn_positional_make: '%s' has distances in %s; the params have %s", name,
                              tg_dtype_name(tg_dtype_of(distances)), tg_dtype_name(tg_params_dtype(params)));
    }
    return tg_shape_equal(tg_shape_of(distances), expected) ||
           tg_params_fail(params, TG_ERROR_SHAPE, "nn_positional_make: '%s' has distances of shape %s; it must be %s",
                          name, tg_shape_text_of(distances).text, tg_shape_text(expected).text);
}

static bool check_norm(tg_params *params, const char *name, const tg_nn_layer_norm *norm, int64_t width)
{
    if (!norm->module.is_made) {
        return tg_params_fail(params, TG_ERROR_STATE, "nn_positional_make: the distances_norm of '%s' was not made",
                              name);
    }
    return norm->weight->shape[0] == width ||
           tg_params_fail(params, TG_ERROR_SHAPE,
                          "nn_positional_make: '%s' has width %lld, but its distances_norm was made for width %lld",
                          name, (long long)width, (long long)norm->weight->shape[0]);
}

/* Checks what does not depend on the context. */
static bool check_deberta(tg_params *params, const char *name, int64_t width, const tg_nn_positional_config *c)
{
    if (!c->content_to_position && !c->position_to_content) {
        return tg_params_fail(params, TG_ERROR_VALUE,
                              "nn_positional_make: '%s' has neither content_to_position nor position_to_content; at "
                              "least one must be true",
                              name);
    }
    return !c->distances_norm || check_norm(params, name, c->distances_norm, width);
}

static tg_nn_linear add_projection(tg_params *params, const char *name, const char *weight, const char *bias,
                                   int64_t width)
{
    return (tg_nn_linear){.module = {params, true},
                          .weight = tg_positions_add(params, name, weight, width, width, 0.02),
                          .bias = tg_module_add(params, name, bias, tg_shape_make(1, &width), 0)};
}

static void make(tg_params *params, const char *name, int64_t context, tg_nn_positional *made)
{
    tg_nn_positional_config *c = &made->config;
    int64_t width = made->width;
    c->max_relative_positions = c->max_relative_positions == -1 ? context : c->max_relative_positions;
    if (!check_sizes(params, name, c)) {
        return;
    }
    int64_t span = c->position_buckets == -1 ? c->max_relative_positions : c->position_buckets;
    if (c->distances && !check_distances(params, name, c->distances, tg_shape_make(2, (int64_t[]){2 * span, width}))) {
        return;
    }
    made->weight =
        c->distances ? c->distances : tg_positions_add(params, name, "rel_embeddings.weight", 2 * span, width, 0.02);
    if (c->content_to_position && !c->shared_projections) {
        made->position_key = add_projection(params, name, "pos_key_proj.weight", "pos_key_proj.bias", width);
    }
    if (c->position_to_content && !c->shared_projections) {
        made->position_query = add_projection(params, name, "pos_query_proj.weight", "pos_query_proj.bias", width);
    }
    if (c->distances_norm) {
        made->distances_norm = *c->distances_norm; /* a value, so that the module may be copied */
        c->distances_norm = NULL;
    }
}

/* ---- forward ---- */

/* Returns the divisor of the scores without the sqrt(D) of attention. */
static double divisor_of(const tg_nn_positional *p)
{
    return sqrt(1.0 + p->config.content_to_position + p->config.position_to_content);
}

static int64_t row_of(const tg_nn_positional *p, int64_t distance)
{
    int64_t rows = p->weight->shape[0];
    int64_t bucket = tg_deberta_bucket(distance, p->config.position_buckets, p->config.max_relative_positions);
    int64_t row = rows / 2 + bucket;
    return row < 0 ? 0 : row < rows ? row : rows - 1;
}

/* Returns the projected vectors of `count` distances, first, first + step, ..: (H,count,D), divided by the divisor of
 * the scores. `rows` are those of the table from number `low` on. */
static tg_tensor *project(tg_tape *t, const tg_nn_positional *p, const tg_nn_linear *projection, tg_tensor *rows,
                          int64_t low, int64_t first, int64_t step, int64_t count)
{
    int64_t heads = p->config.heads, width = p->width;
    tg_tensor *ids = tg_tape_new_tensor(t, "nn_multihead_attention_forward", TG_I32, tg_shape_make(1, &count));
    if (!ids) {
        return NULL;
    }
    int32_t *id = tg_values(ids);
    for (int64_t l = 0; l < count; l++) {
        id[l] = (int32_t)(row_of(p, first + l * step) - low);
    }
    tg_tensor *projected = tg_nn_linear_forward(t, projection, rows);
    projected = tg_div_scalar(t, projected, sqrt((double)(width / heads)) * divisor_of(p));
    tg_shape by_head = tg_shape_make(3, (int64_t[]){count, heads, width / heads});
    return tg_transpose(t, tg_reshape(t, tg_embedding(t, ids, projected, NULL), by_head), 0, 1);
}

static tg_tensor *bias(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys, bool is_causal)
{
    int64_t T = queries->shape[2], S = keys->shape[2], distances = T + S > 0 ? T + S - 1 : 0;
    int64_t low = row_of(p, 1 - T);
    tg_tensor *rows = tg_slice(t, p->weight, 0, low, row_of(p, S - 1) + 1, 1), *of_queries = NULL, *of_keys = NULL;
    if (p->distances_norm.weight) {
        rows = tg_nn_layer_norm_forward(t, &p->distances_norm, rows);
    }
    if (p->config.content_to_position) {
        tg_tensor *r = project(t, p, &p->position_key, rows, low, S - 1, -1, is_causal ? S : distances);
        of_queries = tg_relative_scores(t, queries, r, S, is_causal);
    }
    if (p->config.position_to_content) {
        tg_tensor *r = project(t, p, &p->position_query, rows, low, 1 - T, 1, distances);
        of_keys = tg_transpose(t, tg_relative_scores(t, keys, r, T, false), 2, 3); /* (B,H,S,T) -> (B,H,T,S) */
    }
    return !p->config.position_to_content   ? of_queries
           : !p->config.content_to_position ? of_keys
                                            : tg_add(t, of_queries, of_keys);
}

static tg_tensor *content(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries)
{
    return tg_div_scalar(t, queries, divisor_of(p));
}

const tg_position_kind tg_deberta_positions = {
    .name = "deberta",
    .is_relative = true,
    .is_per_layer = true,
    .multiplies_heads = true,
    .projects_distances = true,
    .check = check_deberta,
    .make = make,
    .bias = bias,
    .content = content,
};

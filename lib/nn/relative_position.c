/* relative_position: positions that attention sees as distances. With d = i - j the distance from key j to query i,
 * what is added to the scaled score of the two is
 *
 *   ALiBi      -m_h |d|                          m_h fixed, a slope a head          Press, Smith and Lewis 2022
 *   T5         W[bucket(d), h]                   W trained                          Raffel et al. 2020, section 2.1
 *   Shaw       q_i . K[clip(-d)] / sqrt(D)       and V[clip(-d)] to each value      Shaw, Uszkoreit and Vaswani 2018
 *   Transf.-XL (q_i + v) . (R_d W_r) / sqrt(D)   R sinusoidal; keys meet q_i + u    Dai et al. 2019, section 3.3
 *
 * and rotary turns queries and keys before they meet (lib/ops/rotary.c). What depends on the distance alone is
 * computed once a distance and not once a pair: place l of L stands for the distance S - 1 - l (lib/ops/relative.c),
 * and Shaw's clipped distances have few places (lib/ops/relative_clip.c).
 */
#include "nn/positional.h"

#include <math.h>

tg_tensor *tg_positional_turn(tg_tape *t, const tg_positional *p, tg_tensor *x, int64_t start)
{
    return p && p->kind == TG_POSITION_ROTARY && x ? tg_rotary(t, x, start, &p->config.rotary) : x;
}

/* Slopes of a power of two of heads: a geometric sequence from 2^(-8/n) on. Other numbers take every second slope of
 * the next power for what is missing, as in the paper's code. */
static double slope_of_power(int64_t heads, int64_t head)
{
    return pow(2, -8.0 * (double)(head + 1) / (double)heads);
}

double tg_alibi_slope(int64_t heads, int64_t head)
{
    int64_t power = 1;
    while (power * 2 <= heads) {
        power *= 2;
    }
    return head < power ? slope_of_power(power, head) : slope_of_power(2 * power, 2 * (head - power));
}

/* Half of the buckets hold one distance each, the others grow up to max_distance, and the last one holds what is
 * beyond. For attention in both directions each has half of the buckets. The logarithm is in float, as in the paper's
 * code: it decides on which side of an edge a distance falls. */
int64_t tg_t5_bucket(int64_t distance, int64_t buckets, int64_t max_distance, bool both_directions)
{
    int64_t first = 0;
    if (both_directions) {
        buckets /= 2;
        first = distance < 0 ? buckets : 0;
        distance = distance < 0 ? -distance : distance;
    }
    int64_t exact = buckets / 2;
    distance = distance < 0 ? 0 : distance;
    if (distance < exact) {
        return first + distance;
    }
    float grown = logf((float)distance / (float)exact) / (float)log((double)max_distance / (double)exact);
    int64_t bucket = exact + (int64_t)(grown * (float)(buckets - exact));
    return first + (bucket < buckets ? bucket : buckets - 1);
}

/* (H,1,L) of T5's table, by distance. */
static tg_tensor *t5(tg_tape *t, const tg_positional *p, int64_t keys, int64_t places, bool causal)
{
    tg_error error = {0};
    tg_tensor *buckets = tg_tensor_new(TG_I32, tg_shape_make(1, &places), &error);
    if (!buckets) {
        return tg_tape_fail(t, error.code, "positional", "%s", error.text);
    }
    int32_t *bucket = tg_data_mut(buckets);
    for (int64_t l = 0; l < places; l++) {
        bucket[l] = (int32_t)tg_t5_bucket(keys - 1 - l, p->config.buckets, p->config.max_distance, !causal);
    }
    tg_tensor *found = tg_embedding_lookup(t, p->weight, buckets);
    tg_release(buckets);
    return tg_unsqueeze(t, tg_transpose(t, found, 0, 1), 1);
}

/* (H,1,L), fixed. */
static tg_tensor *alibi(tg_tape *t, const tg_positional *p, tg_dtype dtype, int64_t keys, int64_t places)
{
    tg_error error = {0};
    int64_t heads = p->config.heads;
    tg_tensor *x = tg_tensor_new(dtype, tg_shape_make(3, (int64_t[]){heads, 1, places}), &error);
    if (!x) {
        return tg_tape_fail(t, error.code, "positional", "%s", error.text);
    }
    for (int64_t h = 0; h < heads; h++) {
        double slope = tg_alibi_slope(heads, h);
        for (int64_t l = 0; l < places; l++) {
            tg_put(x, h * places + l, -slope * fabs((double)(keys - 1 - l)));
        }
    }
    return x;
}

/* (q + v) . (R W_r) / scale, (B,H,T,S) */
static tg_tensor *transformer_xl(tg_tape *t, const tg_positional *p, tg_tensor *queries, double scale, int64_t keys,
                                 int64_t places, bool causal)
{
    tg_error error = {0};
    int64_t heads = p->config.heads, width = p->width / heads;
    tg_tensor *distances = tg_tensor_new(tg_dtype_of(queries), tg_shape_make(2, (int64_t[]){places, p->width}), &error);
    if (!distances) {
        return tg_tape_fail(t, error.code, "positional", "%s", error.text);
    }
    tg_fill_sinusoidal(distances, (double)(keys - 1), -1, 1 / scale); /* so that no score needs it */
    tg_tensor *r = tg_linear_map(t, distances, p->weight);
    tg_release(distances);
    r = tg_permute(t, tg_reshape(t, r, tg_shape_make(3, (int64_t[]){places, heads, width})), TG_AXES(1, 0, 2));
    tg_tensor *biased = tg_add(t, queries, tg_unsqueeze(t, p->position_bias, 1));
    return tg_relative_scores(t, biased, r, keys, causal);
}

bool tg_positional_bias(tg_tape *t, const tg_positional *p, tg_tensor *queries, int64_t keys, bool causal,
                        tg_tensor **bias)
{
    *bias = NULL;
    bool adds = p && (p->kind == TG_POSITION_ALIBI || p->kind == TG_POSITION_T5 || p->kind == TG_POSITION_SHAW ||
                      p->kind == TG_POSITION_TRANSFORMER_XL);
    if (!adds || !queries) {
        return queries != NULL;
    }
    int64_t count = tg_size(queries, -2), all = count + keys > 0 ? count + keys - 1 : 0;
    double scale = sqrt((double)tg_size(queries, -1));
    tg_tensor *own = NULL;
    switch (p->kind) {
    case TG_POSITION_ALIBI:
        own = alibi(t, p, tg_dtype_of(queries), keys, all);
        *bias = own ? tg_relative_shift(t, own, count, keys) : NULL;
        tg_release(own);
        break;
    case TG_POSITION_T5: *bias = tg_relative_shift(t, t5(t, p, keys, all, causal), count, keys); break;
    case TG_POSITION_SHAW:
        *bias = tg_matmul(t, queries, tg_transpose(t, tg_div_scalar(t, p->weight, scale), 0, 1));
        *bias = tg_relative_spread(t, *bias, keys);
        break;
    default: *bias = transformer_xl(t, p, queries, scale, keys, causal ? keys : all, causal);
    }
    return *bias != NULL;
}

tg_tensor *tg_positional_content(tg_tape *t, const tg_positional *p, tg_tensor *queries)
{
    return p && p->kind == TG_POSITION_TRANSFORMER_XL && queries
               ? tg_add(t, queries, tg_unsqueeze(t, p->content_bias, 1))
               : queries;
}

tg_tensor *tg_positional_values(tg_tape *t, const tg_positional *p, tg_tensor *weights)
{
    return weights ? tg_matmul(t, tg_relative_collect(t, weights, p->config.clip), p->values) : NULL;
}

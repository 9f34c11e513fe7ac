/* t5: a trained number per head and bucket of distances, W[bucket(d),h], is added to the scaled score (Raffel et al.
 * 2020, section 2.1). */
#include <math.h>

#include "nn/positions/positions.h"
#include "ops/attention/relative.h"

#include "math/doubles.h"

static bool check_t5(tg_params *params, const char *name, int64_t width, const tg_nn_positional_config *c)
{
    (void)width;
    return (c->buckets >= 4 && c->buckets % 4 == 0 && c->buckets <= INT32_MAX && c->max_distance > c->buckets / 2) ||
           tg_params_fail(
               params, TG_ERROR_VALUE,
               "nn_positional_make: '%s' has buckets %lld and max_distance %lld; buckets must be a multiple of "
               "4, and max_distance more than half of them",
               name, (long long)c->buckets, (long long)c->max_distance);
}

static void make(tg_params *params, const char *name, int64_t context, tg_nn_positional *made)
{
    (void)context;
    made->weight = tg_positions_add(params, name, "weight", made->config.buckets, made->config.heads,
                                    1 / sqrt((double)made->width));
}

/* Half of the buckets hold one distance each. The others grow exponentially up to max_distance, and the last one also
 * holds all larger distances. If attention is not causal, each direction has half of the buckets. The logarithm is
 * computed in float, as in the paper's code, so that a distance at the edge of a bucket is in the same bucket. */
int64_t tg_t5_bucket(int64_t distance, int64_t buckets, int64_t max_distance, bool is_causal)
{
    int64_t first = 0;
    if (!is_causal) {
        buckets /= 2;
        first = distance < 0 ? buckets : 0;
        distance = distance < -INT64_MAX ? INT64_MAX : distance < 0 ? -distance : distance;
    }
    int64_t exact = buckets / 2;
    distance = distance < 0 ? 0 : distance;
    if (distance < exact) {
        return first + distance;
    }
    float growth = (float)tg_log_f64((double)((float)distance / (float)exact)) /
                   (float)tg_log_f64((double)max_distance / (double)exact);
    float beyond = growth * (float)(buckets - exact); /* may be larger than any integer */
    return first + (beyond < (float)(buckets - exact) ? exact + (int64_t)beyond : buckets - 1);
}

/* The bias is looked up once per distance: (H,1,L), where index l means the distance S - 1 - l
 * (lib/ops/attention/relative.h). */
static tg_tensor *bias(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys, bool is_causal)
{
    int64_t T = queries->shape[2], S = keys->shape[2], distances = T + S > 0 ? T + S - 1 : 0;
    tg_tensor *buckets = tg_tape_new_tensor(t, "nn_multihead_attention_forward", TG_I32, tg_shape_make(1, &distances));
    if (!buckets) {
        return NULL;
    }
    int32_t *bucket = tg_values(buckets);
    for (int64_t l = 0; l < distances; l++) {
        bucket[l] = (int32_t)tg_t5_bucket(S - 1 - l, p->config.buckets, p->config.max_distance, is_causal);
    }
    tg_tensor *by_distance = tg_embedding(t, buckets, p->weight, NULL); /* (L,H) */
    return tg_relative_shift(t, tg_unsqueeze(t, tg_transpose(t, by_distance, 0, 1), 1), T, S);
}

const tg_position_kind tg_t5_positions = {
    .name = "t5",
    .is_relative = true,
    .check = check_t5,
    .make = make,
    .bias = bias,
};

/* shaw: trained vectors for clipped distances (Shaw, Uszkoreit and Vaswani 2018). With a = clip(j - i) for a query at
 * position i and a key at position j,
 *
 *   score_ij += q_i . K[a] / sqrt(D),    y_i += sum_j weight_ij V[a]
 *
 * Both are computed once per clipped distance, not once per pair (lib/ops/attention/relative_clip.c).
 */
#include <math.h>

#include "nn/positions/positions.h"
#include "ops/attention/relative.h"

static bool check_shaw(tg_params *params, const char *name, int64_t width, const tg_nn_positional_config *c)
{
    (void)width;
    return (c->clip >= 1 && c->clip <= INT32_MAX / 2) ||
           tg_params_fail(params, TG_ERROR_VALUE, "nn_positional_make: '%s' has clip %lld; it must be 1 to %d", name,
                          (long long)c->clip, INT32_MAX / 2);
}

static void make(tg_params *params, const char *name, int64_t context, tg_nn_positional *made)
{
    (void)context;
    int64_t rows = 2 * made->config.clip + 1, width = made->width / made->config.heads;
    double std = 1 / sqrt((double)width);
    made->weight = tg_positions_add(params, name, "keys", rows, width, std);
    made->values = tg_positions_add(params, name, "values", rows, width, std);
}

static tg_tensor *bias(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys, bool is_causal)
{
    (void)is_causal;
    tg_tensor *scaled = tg_div_scalar(t, p->weight, sqrt((double)queries->shape[3]));
    return tg_relative_spread(t, tg_matmul(t, queries, tg_transpose(t, scaled, 0, 1)), keys->shape[2]);
}

static tg_tensor *values(tg_tape *t, const tg_nn_positional *p, tg_tensor *weights)
{
    return tg_matmul(t, tg_relative_collect(t, weights, p->config.clip), p->values);
}

const tg_position_kind tg_shaw_positions = {
    .name = "shaw",
    .is_relative = true,
    .is_per_layer = true,
    .multiplies_heads = true,
    .check = check_shaw,
    .make = make,
    .bias = bias,
    .values = values,
};

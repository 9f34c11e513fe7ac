/* transformer_xl: sinusoidal distances times a trained matrix, and two trained biases (Dai et al. 2019, section 3.3).
 * With the distance d = i - j of a query at position i and a key at position j,
 *
 *   score_ij = ((q_i + u) . k_j + (q_i + v) . (R_d W_r^T)) / sqrt(D)        W_r: "r_net.weight"
 *   R_d      = [sin(d f_0), sin(d f_1), .., cos(d f_0), cos(d f_1), ..]     f_i = 10000^(-2i/C)
 *
 * The order of R's channels is that of the authors' code, and not that of Vaswani et al. 2017, so that W_r can be taken
 * from a model that this code trained.
 */
#include <math.h>

#include "nn/positions/positions.h"
#include "ops/attention/relative.h"

static void make(tg_params *params, const char *name, int64_t context, tg_nn_positional *made)
{
    (void)context;
    int64_t heads = made->config.heads, width = made->width;
    made->weight = tg_positions_add(params, name, "r_net.weight", width, width, 1 / sqrt((double)width));
    made->content_bias = tg_positions_add(params, name, "r_w_bias", heads, width / heads, 0.02);
    made->position_bias = tg_positions_add(params, name, "r_r_bias", heads, width / heads, 0.02);
}

/* R W_r^T is computed once per distance: (H,L,D), where index l means the distance S - 1 - l
 * (lib/ops/attention/relative.h). If causal, the distances are 0 .. S - 1 only. */
static tg_tensor *bias(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys, bool is_causal)
{
    int64_t heads = p->config.heads, T = queries->shape[2], S = keys->shape[2];
    int64_t distances = is_causal ? S : T + S > 0 ? T + S - 1 : 0;
    tg_tensor *r = tg_tape_new_tensor(t, "nn_multihead_attention_forward", tg_dtype_of(queries),
                                      tg_shape_make(2, (int64_t[]){distances, p->width}));
    if (!r) {
        return NULL;
    }
    tg_fill_sinusoidal(r, (double)(S - 1), -1, 1 / sqrt((double)queries->shape[3]), TG_SINUSOIDAL_HALVES);
    tg_tensor *projected = tg_linear(t, r, p->weight, NULL);
    tg_shape by_head = tg_shape_make(3, (int64_t[]){distances, heads, p->width / heads});
    projected = tg_transpose(t, tg_reshape(t, projected, by_head), 0, 1);
    tg_tensor *biased = tg_add(t, queries, tg_unsqueeze(t, p->position_bias, 1));
    return tg_relative_scores(t, biased, projected, S, is_causal);
}

static tg_tensor *content(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries)
{
    return tg_add(t, queries, tg_unsqueeze(t, p->content_bias, 1));
}

const tg_position_kind tg_transformer_xl_positions = {
    .name = "transformer-xl",
    .is_relative = true,
    .is_per_layer = true,
    .multiplies_heads = true,
    .make = make,
    .bias = bias,
    .content = content,
};

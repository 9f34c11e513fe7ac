/* alibi: a penalty for distance: -m_h |d| is added to the scaled score, with a fixed slope m_h per head (Press, Smith
 * and Lewis 2022). */
#include <math.h>

#include "nn/positions/positions.h"
#include "ops/attention/relative.h"

#include "math/power.h"

/* Returns the slope of a head if the number of heads, n, is a power of two: 2^(-8/n), 2^(-16/n), ..., 2^-8. */
static double slope_of_power(double heads, double head)
{
    return tg_pow_f64(2, -8 * (head + 1) / heads);
}

/* If the number of heads is not a power of two, the first heads have the slopes of the largest power of two below it.
 * The others have every second slope of the next power, as in the paper's code. */
double tg_alibi_slope(int64_t heads, int64_t head)
{
    int64_t power = 1;
    while (power <= heads / 2) {
        power *= 2;
    }
    double of = (double)power, at = (double)head;
    return head < power ? slope_of_power(of, at) : slope_of_power(2 * of, 2 * (at - of));
}

/* The bias depends on the distance alone, so it is computed once per distance: (H,1,L), where index l means the
 * distance S - 1 - l (lib/ops/attention/relative.h). */
static tg_tensor *bias(tg_tape *t, const tg_nn_positional *p, tg_tensor *queries, tg_tensor *keys, bool is_causal)
{
    (void)is_causal;
    int64_t heads = p->config.heads, T = queries->shape[2], S = keys->shape[2], distances = T + S > 0 ? T + S - 1 : 0;
    tg_tensor *by_distance = tg_tape_new_tensor(t, "nn_multihead_attention_forward", tg_dtype_of(queries),
                                                tg_shape_make(3, (int64_t[]){heads, 1, distances}));
    for (int64_t h = 0; by_distance && h < heads; h++) {
        double slope = tg_alibi_slope(heads, h);
        for (int64_t l = 0; l < distances; l++) {
            tg_put(by_distance, h * distances + l, -slope * fabs((double)(S - 1 - l)));
        }
    }
    return by_distance ? tg_relative_shift(t, by_distance, T, S) : NULL;
}

const tg_position_kind tg_alibi_positions = {
    .name = "alibi",
    .is_relative = true,
    .bias = bias,
};

/* rotary: queries and keys are rotated before they are multiplied, so that a score depends on the distance alone (Su et
 * al. 2021). lib/ops/attention/rotary.c computes it. */
#include "nn/positions/positions.h"

static bool check_rotary(tg_params *params, const char *name, int64_t width, const tg_nn_positional_config *config)
{
    int64_t head_width = width / config->heads;
    return head_width % 2 == 0 ||
           tg_params_fail(params, TG_ERROR_VALUE,
                          "nn_positional_make: '%s' has rotary heads of width %lld; it must be even", name,
                          (long long)head_width);
}

static tg_tensor *rotate(tg_tape *t, const tg_nn_positional *p, tg_tensor *x, int64_t start, tg_tensor *positions)
{
    tg_rotary_config config = p->config.rotary;
    config.positions = positions;
    return tg_rotary(t, x, positions ? 0 : start, &config);
}

const tg_position_kind tg_rotary_positions = {
    .name = "rotary",
    .is_relative = true,
    .is_per_layer = true, /* each layer may have wavelengths of its own */
    .check = check_rotary,
    .rotate = rotate,
};

/* rotary: pairs of channels turned by an angle that grows with the position (Su et al. 2021).
 *
 *   forward     (a, b) -> (a cos u - b sin u, a sin u + b cos u)
 *               u = (start + t) / s  base^(-2 i / D), pair i of D / 2
 *   gradient    the same turn backwards: (da, db) += (dy_a cos u + dy_b sin u, -dy_a sin u + dy_b cos u)
 *
 * The product of a turned query and a turned key then depends on their distance alone. Pairs are neighbours (2 i, 2 i
 * + 1), as in the paper and in GPT-J, or halves (i, i + D / 2), as in GPT-NeoX and Llama. To read longer texts than
 * were trained on: s > 1 (position interpolation, Chen et al. 2023), or a base that is multiplied by f^(D / (D - 2))
 * (NTK-aware scaling, bloc97 2023). Cosines and sines are made once a call, in double; threads divide the rows.
 */
#include "ops/real.h"

#include <tapegrad/ops.h>

TG_DECLARE_KERNEL(tg_rotary_forward);
TG_DECLARE_KERNEL(tg_rotary_backward);

typedef struct rotary_attributes {
    tg_rotary_config config;
    int64_t start;
} rotary_attributes;

typedef struct KERNEL(turn) {
    const real *from;
    real *to;
    const real *cosines, *sines; /* (T,D/2) */
    int64_t positions, pairs;
    int64_t step, gap; /* from pair to pair, and within one */
    real direction;    /* -1 backwards */
    bool add;
} KERNEL(turn);

static void KERNEL(turn_rows)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(turn) *r = context;
    for (int64_t row = begin; row < end; row++) {
        const real *from = r->from + row * 2 * r->pairs;
        real *to = r->to + row * 2 * r->pairs;
        const real *cosines = r->cosines + row % r->positions * r->pairs;
        const real *sines = r->sines + row % r->positions * r->pairs;
        for (int64_t i = 0; i < r->pairs; i++) {
            int64_t at = i * r->step;
            real a = from[at], b = from[at + r->gap], sine = r->direction * sines[i];
            real turned_a = a * cosines[i] - b * sine, turned_b = a * sine + b * cosines[i];
            to[at] = r->add ? to[at] + turned_a : turned_a;
            to[at + r->gap] = r->add ? to[at + r->gap] + turned_b : turned_b;
        }
    }
}

static void KERNEL(run_turn)(const tg_op_call *call, const void *from, void *to, real direction, bool add)
{
    const rotary_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    int64_t width = x->shape[x->rank - 1], positions = x->shape[x->rank - 2], pairs = width / 2;
    if (x->count == 0) {
        return; /* without positions there is no scratch */
    }
    real *cosines = call->scratch, *sines = cosines + positions * pairs;
    double base = a->config.base * pow(a->config.ntk_factor, width > 2 ? (double)width / (double)(width - 2) : 0);
    for (int64_t i = 0; i < pairs; i++) {
        double frequency = pow(base, -2 * (double)i / (double)width) / a->config.position_scale;
        for (int64_t t = 0; t < positions; t++) {
            double angle = (double)(a->start + t) * frequency;
            cosines[t * pairs + i] = (real)cos(angle);
            sines[t * pairs + i] = (real)sin(angle);
        }
    }
    bool halves = a->config.pairing == TG_ROTARY_HALVES;
    KERNEL(turn) r = {from, to, cosines, sines, positions, pairs, halves ? 1 : 2, halves ? pairs : 1, direction, add};
    tg_parallel_for(x->count / width, 1 + TG_GRAIN / 4 / width, KERNEL(turn_rows), &r);
}

void KERNEL(tg_rotary_forward)(const tg_op_call *call)
{
    KERNEL(run_turn)(call, tg_values(call->inputs[0]), tg_values(call->outputs[0]), 1, false);
}

/* In the forward pass this was: a turn by u. */
void KERNEL(tg_rotary_backward)(const tg_op_call *call)
{
    KERNEL(run_turn)(call, call->output_gradients[0], call->input_gradients[0], -1, !call->fresh[0]);
}

#ifdef TG_ONCE

static bool rotary_shape(tg_op_call *call)
{
    const rotary_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    char text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (x->rank < 2 || x->shape[x->rank - 1] < 2 || x->shape[x->rank - 1] % 2 != 0) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s; it must be (..,T,D) with an even D",
                          tg_shape_format(tg_shape_of(x), text));
    }
    if (!(a->config.base > 1) || !isfinite(a->config.base) || !(a->config.position_scale > 0) ||
        !isfinite(a->config.position_scale) || !(a->config.ntk_factor > 0) || !isfinite(a->config.ntk_factor) ||
        (unsigned)a->config.pairing > TG_ROTARY_NEIGHBOURS) {
        return tg_op_fail(call, TG_ERROR_VALUE,
                          "base %g, position scale %g, NTK factor %g, pairing %d; allowed are a base above 1, scales "
                          "above 0, and the two pairings",
                          a->config.base, a->config.position_scale, a->config.ntk_factor, (int)a->config.pairing);
    }
    size_t value = tg_dtype_size(tg_dtype_of(x));
    int64_t angles = x->shape[x->rank - 2] * x->shape[x->rank - 1];
    return tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) && tg_op_scratch(call, angles, value) &&
           tg_op_backward_scratch(call, angles, value);
}

static const tg_op rotary_op = {
    .name = "rotary",
    .shape = rotary_shape,
    .f32 = {tg_rotary_forward_f32, tg_rotary_backward_f32},
    .f64 = {tg_rotary_forward_f64, tg_rotary_backward_f64},
    .overwrites_fresh = true,
};

tg_rotary_config tg_rotary_config_default(void)
{
    return (tg_rotary_config){.base = 10000, .pairing = TG_ROTARY_HALVES, .position_scale = 1, .ntk_factor = 1};
}

tg_tensor *tg_rotary(tg_tape *t, tg_tensor *x, int64_t start, const tg_rotary_config *config)
{
    rotary_attributes a = {config ? *config : tg_rotary_config_default(), start};
    return tg_apply(t, &rotary_op, &x, 1, &a, sizeof a);
}

#endif

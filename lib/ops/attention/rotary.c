/* rotary: rotates pairs of channels by an angle that is proportional to the position (Su et al. 2021).
 *
 *   forward     (a, b) -> (a cos u - b sin u, a sin u + b cos u)
 *               u = (start + t) / s  base^(-2 i / D), for pair i of D / 2
 *   gradient    the inverse rotation: (da, db) += (dy_a cos u + dy_b sin u, -dy_a sin u + dy_b cos u)
 *
 * The product of a rotated query and a rotated key depends only on their distance. Pairs are neighbors (2 i, 2 i + 1),
 * as in the paper and in GPT-J, or halves (i, i + D / 2), as in GPT-NeoX and Llama. Two options adapt a model to texts
 * longer than those of its training: position_scale s > 1 (position interpolation, Chen et al. 2023), and ntk_factor f,
 * which multiplies the base by f^(D / (D - 2)) (NTK-aware scaling, bloc97 2023). Cosines and sines are computed once
 * per call, in double; threads divide the rows.
 */
#include "ops/kernel.h"
#include "ops/attention/rotary.h"

TG_DECLARE_KERNEL(tg_rotary_forward);
TG_DECLARE_KERNEL(tg_rotary_backward);

typedef struct rotary_attributes {
    tg_rotary_config config;
    int64_t start;
} rotary_attributes;

typedef struct rotation {
    const real *from;
    real *to;
    const real *cosines, *sines; /* (T,D/2) */
    int64_t positions, pairs;
    int64_t step, gap; /* between pairs, and between the channels of a pair */
    real direction;    /* 1, or -1 for the inverse */
    bool overwrite;
} rotation;

static void rotate_rows(void *context, int64_t begin, int64_t end)
{
    const rotation *r = context;
    for (int64_t row = begin; row < end; row++) {
        const real *from = r->from + row * 2 * r->pairs;
        real *to = r->to + row * 2 * r->pairs;
        const real *cosines = r->cosines + row % r->positions * r->pairs;
        const real *sines = r->sines + row % r->positions * r->pairs;
        for (int64_t i = 0; i < r->pairs; i++) {
            int64_t at = i * r->step;
            real a = from[at], b = from[at + r->gap], sine = r->direction * sines[i];
            real rotated_a = a * cosines[i] - b * sine, rotated_b = a * sine + b * cosines[i];
            to[at] = accumulated(r->overwrite, to[at], rotated_a);
            to[at + r->gap] = accumulated(r->overwrite, to[at + r->gap], rotated_b);
        }
    }
}

static void rotate(const tg_op_call *call, const void *from, void *to, real direction, bool overwrite)
{
    const rotary_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    int64_t width = x->shape[x->rank - 1], positions = x->shape[x->rank - 2], pairs = width / 2;
    if (x->count == 0) {
        return;
    }
    real *cosines = call->scratch, *sines = cosines + positions * pairs;
    double base =
        a->config.base * tg_pow_f64(a->config.ntk_factor, width > 2 ? (double)width / (double)(width - 2) : 0);
    for (int64_t i = 0; i < pairs; i++) {
        double frequency = tg_pow_f64(base, -2 * (double)i / (double)width) / a->config.position_scale;
        for (int64_t t = 0; t < positions; t++) {
            double angle = (double)(a->start + t) * frequency;
            cosines[t * pairs + i] = (real)tg_cos_f64(angle);
            sines[t * pairs + i] = (real)tg_sin_f64(angle);
        }
    }
    bool halves = a->config.pairing == TG_ROTARY_HALVES;
    rotation r = {from, to, cosines, sines, positions, pairs, halves ? 1 : 2, halves ? pairs : 1, direction, overwrite};
    tg_parallel_for(x->count / width, 1 + TG_GRAIN / 4 / width, rotate_rows, &r);
}

void KERNEL(tg_rotary_forward)(const tg_op_call *call)
{
    rotate(call, tg_values(call->inputs[0]), tg_values(call->outputs[0]), 1, true);
}

/* The forward pass rotated by u, so this rotates by -u. */
void KERNEL(tg_rotary_backward)(const tg_op_call *call)
{
    rotate(call, call->output_gradients[0], call->input_gradients[0], -1, call->overwrite[0]);
}

#ifdef TG_ONCE

/* A double holds every position up to this one exactly. */
#define LAST_POSITION ((int64_t)1 << 53)

static bool rotary_shape(tg_op_call *call)
{
    const rotary_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    char text[TG_SHAPE_TEXT];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (x->rank < 2 || x->shape[x->rank - 1] % 2 != 0) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s; it must be (..,T,D) with an even D",
                          tg_shape_format(tg_shape_of(x), text));
    }
    if (a->start < 0 || a->start > LAST_POSITION - x->shape[x->rank - 2]) {
        return tg_op_fail(call, TG_ERROR_RANGE, "%lld positions from %lld on; they must be from 0 to 2^53",
                          (long long)x->shape[x->rank - 2], (long long)a->start);
    }
    size_t value = tg_size_of(x->dtype);
    int64_t angles = x->shape[x->rank - 2] * x->shape[x->rank - 1];
    return tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) && tg_op_scratch(call, angles, value) &&
           tg_op_backward_scratch(call, angles, value);
}

static const tg_op rotary_op = {
    .name = "rotary",
    .shape = rotary_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_rotary_forward, tg_rotary_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
};

static const char mark[] = "tg_rotary_config_default";

tg_rotary_config tg_rotary_config_default(void)
{
    return (tg_rotary_config){
        .mark = mark, .base = 10000, .pairing = TG_ROTARY_HALVES, .position_scale = 1, .ntk_factor = 1};
}

bool tg_rotary_check(const char *call, const tg_rotary_config *c, tg_error *error)
{
    if (!c || !tg_config_check(call, c, mark, error)) {
        return !c;
    }
    return (c->base > 1 && isfinite(c->base) && c->position_scale > 0 && isfinite(c->position_scale) &&
            c->ntk_factor > 0 && isfinite(c->ntk_factor) && (unsigned)c->pairing <= TG_ROTARY_NEIGHBORS) ||
           tg_error_set(error, TG_ERROR_VALUE,
                        "%s: base %g, position_scale %g, ntk_factor %g, pairing %d; base must be above 1, "
                        "position_scale and ntk_factor above 0, pairing 0 or 1",
                        call, c->base, c->position_scale, c->ntk_factor, (int)c->pairing);
}

tg_tensor *tg_rotary(tg_tape *t, tg_tensor *x, int64_t start, const tg_rotary_config *config)
{
    if (!tg_tape_is_usable(t) || !tg_rotary_check("rotary", config, &t->error)) {
        return NULL;
    }
    rotary_attributes a = {config ? *config : tg_rotary_config_default(), start};
    return tg_apply(t, &rotary_op, &x, 1, &a, sizeof a, NULL);
}

#endif

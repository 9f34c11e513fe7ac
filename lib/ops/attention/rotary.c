/* rotary: rotates pairs of channels by an angle that is proportional to the position (Su et al. 2021).
 *
 *   forward     (a, b) -> (a cos u - b sin u, a sin u + b cos u)
 *               u = (start + t) / s  base^(-2 i / D), for pair i of D / 2
 *   gradient    the inverse rotation: (da, db) += (dy_a cos u + dy_b sin u, -dy_a sin u + dy_b cos u)
 *
 * The product of a rotated query and a rotated key depends only on their distance. Pairs are neighbors (2 i, 2 i + 1),
 * as in the paper and in GPT-J, or halves (i, i + D / 2), as in GPT-NeoX and Llama. Two options adapt a model to texts
 * longer than those of its training: position_scale s > 1 (position interpolation, Chen et al. 2023), and ntk_factor f,
 * which multiplies the base by f^(D / (D - 2)) (NTK-aware scaling, bloc97 2023). Forward computes the cosines and sines
 * once, in double, and saves them for backward; threads divide the positions, and then the rows.
 */
#include "math/trigonometry.h"
#include "ops/kernel_real.h"
#include "ops/attention/rotary.h"

TG_DECLARE_KERNEL(tg_rotary_forward);
TG_DECLARE_KERNEL(tg_rotary_backward);

typedef struct rotary_attributes {
    tg_rotary_config config;
    int64_t start;
    int64_t direction; /* 1, or -1 for the inverse */
} rotary_attributes;

typedef struct rotation {
    const real *from;
    real *to;
    const real *cosines, *sines; /* (T,D/2) */
    int64_t positions, pairs;
    bool halves;
    real direction; /* 1, or -1 for the inverse */
    bool overwrite;
} rotation;

/* Rotates the pairs of a row, which are `step` apart; the channels of a pair are `gap` apart. */
static inline __attribute__((always_inline)) void rotate_row(const rotation *r, int64_t row, int64_t step, int64_t gap,
                                                             bool overwrite)
{
    const real *restrict from = r->from + row * 2 * r->pairs;
    real *restrict to = r->to + row * 2 * r->pairs;
    const real *restrict cosines = r->cosines + row % r->positions * r->pairs;
    const real *restrict sines = r->sines + row % r->positions * r->pairs;
    const real direction = r->direction;
    for (int64_t i = 0; i < r->pairs; i++) {
        int64_t at = i * step;
        real a = from[at], b = from[at + gap], sine = direction * sines[i];
        real rotated_a = a * cosines[i] - b * sine, rotated_b = a * sine + b * cosines[i];
        to[at] = accumulated(overwrite, to[at], rotated_a);
        to[at + gap] = accumulated(overwrite, to[at + gap], rotated_b);
    }
}

/* A loop whose strides are constants becomes vectors. That of neighbors must not: gcc 12 makes fused multiply-adds of
 * their differences and sums, which are neighbors, too, in spite of -ffp-contract=off. */
static void rotate_rows(void *context, int64_t begin, int64_t end)
{
    const rotation *r = context;
    for (int64_t row = begin; row < end; row++) {
        if (r->halves && r->overwrite) {
            rotate_row(r, row, 1, r->pairs, true);
        } else {
            rotate_row(r, row, r->halves ? 1 : 2, r->halves ? r->pairs : 1, r->overwrite);
        }
    }
}

static void rotate(const tg_op_call *call, const void *from, void *to, real direction, bool overwrite)
{
    const rotary_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    int64_t width = x->shape[x->rank - 1], positions = x->shape[x->rank - 2], pairs = width / 2;
    const real *cosines = call->saved, *sines = cosines + positions * pairs;
    bool halves = a->config.pairing == TG_ROTARY_HALVES;
    rotation r = {from, to, cosines, sines, positions, pairs, halves, direction * (real)a->direction, overwrite};
    tg_parallel_for(x->count / width, 1 + TG_GRAIN / 4 / width, rotate_rows, &r);
}

typedef struct angles {
    int64_t start, pairs;
    const double *frequency; /* (D/2) */
    real *cosines, *sines;   /* (T,D/2) */
} angles;

/* Computes the cosines and sines of the positions start + begin .. start + end - 1. */
static void turn_positions(void *context, int64_t begin, int64_t end)
{
    enum { ROTARY_PART = 64 };
    const angles *a = context;
    for (int64_t t = begin; t < end; t++) {
        for (int64_t i = 0; i < a->pairs; i += ROTARY_PART) {
            double angle[ROTARY_PART], cosines[ROTARY_PART], sines[ROTARY_PART];
            const int64_t n = a->pairs - i < ROTARY_PART ? a->pairs - i : ROTARY_PART, at = t * a->pairs + i;
            for (int64_t k = 0; k < n; k++) {
                angle[k] = (double)(a->start + t) * a->frequency[i + k];
            }
            tg_turns_f64(angle, n, true, cosines);
            tg_turns_f64(angle, n, false, sines);
            for (int64_t k = 0; k < n; k++) {
                a->cosines[at + k] = (real)cosines[k];
                a->sines[at + k] = (real)sines[k];
            }
        }
    }
}

void KERNEL(tg_rotary_forward)(const tg_op_call *call)
{
    const rotary_attributes *attributes = call->attributes;
    const tg_rotary_config *c = &attributes->config;
    const tg_tensor *x = call->inputs[0];
    if (x->count == 0) {
        return;
    }
    int64_t width = x->shape[x->rank - 1], positions = x->shape[x->rank - 2], pairs = width / 2;
    double *frequency = call->scratch;
    double base = c->base * tg_pow_f64(c->ntk_factor, width > 2 ? (double)width / (double)(width - 2) : 0);
    for (int64_t i = 0; i < pairs; i++) {
        frequency[i] = tg_pow_f64(base, -2 * (double)i / (double)width) / c->position_scale;
    }
    real *cosines = call->saved;
    angles a = {attributes->start, pairs, frequency, cosines, cosines + positions * pairs};
    tg_parallel_for(positions, 1 + TG_GRAIN / 16 / pairs, turn_positions, &a);
    rotate(call, tg_values(x), tg_values(call->outputs[0]), 1, true);
}

/* The forward pass rotated by u, so this rotates by -u. */
void KERNEL(tg_rotary_backward)(const tg_op_call *call)
{
    if (call->inputs[0]->count > 0) {
        rotate(call, call->output_gradients[0], call->input_gradients[0], -1, writes_gradient(call, 0));
    }
}

#ifdef TG_ONCE

/* A double holds every position up to this one exactly. */
static const int64_t last_position = (int64_t)1 << 53;

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
    if (a->start < 0 || a->start > last_position - x->shape[x->rank - 2]) {
        return tg_op_fail(call, TG_ERROR_RANGE, "%lld positions from %lld on; they must be from 0 to 2^53",
                          (long long)x->shape[x->rank - 2], (long long)a->start);
    }
    int64_t positions = x->shape[x->rank - 2], width = x->shape[x->rank - 1];
    return tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) &&
           tg_op_save(call, positions * width, tg_size_of(x->dtype)) && tg_op_scratch(call, width / 2, sizeof(double));
}

/* ---- gradients in ops: the inverse rotation ---- */

static void differentiate_rotary(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    rotary_attributes a = *(const rotary_attributes *)call->attributes;
    a.direction = -a.direction;
    dx[0] = tg_apply(t, call->op, dy, 1, &a, sizeof a, NULL);
}

static const tg_op rotary_op = {
    .name = "rotary",
    .shape = rotary_shape,
    .input_names = {"x"},
    TG_KERNELS(tg_rotary_forward, tg_rotary_backward),
    .backward_ignores_inputs = TG_OP_ALL,
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_rotary,
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
    if (!tg_tape_is_usable(t) || !tg_rotary_check("rotary", config, t->error)) {
        return NULL;
    }
    rotary_attributes a = {config ? *config : tg_rotary_config_default(), start, 1};
    return tg_apply(t, &rotary_op, &x, 1, &a, sizeof a, NULL);
}

#endif

/* rotary: rotates pairs of channels by an angle that is proportional to the position (Su et al. 2021).
 *
 *   forward     (a, b) -> (a cos u - b sin u, a sin u + b cos u)
 *               u = p / s  base^(-2 i / D), for pair i of D / 2, at position p
 *   gradient    the inverse rotation: (da, db) += (dy_a cos u + dy_b sin u, -dy_a sin u + dy_b cos u)
 *
 * The product of a rotated query and a rotated key depends only on their distance. Pairs are neighbors (2 i, 2 i + 1),
 * as in the paper and in GPT-J, or halves (i, i + D / 2), as in GPT-NeoX and Llama. Three options adapt a model to
 * texts longer than those of its training: position_scale s > 1 (position interpolation, Chen et al. 2023), ntk_factor
 * f, which multiplies the base by f^(D / (D - 2)) (NTK-aware scaling, bloc97 2023), and Llama 3's llama3_factor, which
 * divides the frequencies of long waves. Forward computes the cosines and sines once, in double, and saves them for
 * backward; threads divide the positions, and then the rows.
 */
#include "math/power.h"
#include "math/trigonometry.h"
#include "ops/kernel_real.h"
#include "ops/attention/rotary.h"

TG_DECLARE_KERNELS(tg_rotary_forward, tg_rotary_backward);

typedef struct rotary_attributes {
    tg_rotary_config config;
    int64_t start;
    int64_t direction; /* 1, or -1 for the inverse */
} rotary_attributes;

typedef struct rotation {
    const real *from;
    real *to;
    const real *cosines, *sines;    /* (T,D/2), or (B,T,D/2) */
    int64_t positions, pairs, rows; /* T, D/2, and the number of rows of x for which the cosines serve */
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
    const int64_t angles = (row / r->rows * r->positions + row % r->positions) * r->pairs;
    const real *restrict cosines = r->cosines + angles, *restrict sines = r->sines + angles;
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

/* Returns the number of sequences that have positions of their own. */
static int64_t sequences_of(const tg_op_call *call)
{
    const tg_tensor *positions = call->input_count > 1 ? call->inputs[1] : NULL;
    return positions && positions->rank == 2 ? positions->shape[0] : 1;
}

static void rotate(const tg_op_call *call, const void *from, void *to, real direction, bool overwrite)
{
    const rotary_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    int64_t width = x->shape[x->rank - 1], positions = x->shape[x->rank - 2], sequences = sequences_of(call);
    const real *cosines = call->saved, *sines = cosines + sequences * positions * (width / 2);
    rotation r = {.from = from,
                  .to = to,
                  .cosines = cosines,
                  .sines = sines,
                  .positions = positions,
                  .pairs = width / 2,
                  .rows = x->count / width / sequences,
                  .halves = a->config.pairing == TG_ROTARY_HALVES,
                  .direction = direction * (real)a->direction,
                  .overwrite = overwrite};
    tg_parallel_for(x->count / width, 1 + TG_GRAIN / 4 / width, rotate_rows, &r);
}

/* Rounds to a float if the angles are floats: each result of a frequency and of an angle is rounded then, as in
 * transformers. A double holds the exact result of one operation on floats, or enough of it. */
static double rounded(const tg_rotary_config *c, double x)
{
    return c->float_angles ? (double)(float)x : x;
}

/* Returns Llama 3's frequency (transformers' _compute_llama3_parameters): that of a wave which turns at least
 * high_frequency_factor times in the original context stays, that of one which turns at most low_frequency_factor times
 * is divided, and between the two is their mean, with weights that are linear in the number of turns. */
static double llama3_frequency(const tg_rotary_config *c, double frequency)
{
    double low = c->low_frequency_factor, span = rounded(c, c->high_frequency_factor - low);
    double length = rounded(c, rounded(c, 1 / frequency) * rounded(c, 2 * 3.14159265358979323846));
    double turns = rounded(c, rounded(c, 1 / length) * rounded(c, (double)c->original_context));
    double kept = rounded(c, rounded(c, turns - rounded(c, low)) / span);
    kept = kept < 0 ? 0 : kept > 1 ? 1 : kept;
    double divided = rounded(c, rounded(c, rounded(c, 1 - kept) * frequency) / rounded(c, c->llama3_factor));
    return rounded(c, divided + rounded(c, kept * frequency));
}

/* Returns the angle per position of pair i. */
static double frequency_of(const tg_rotary_config *c, int64_t i, int64_t width)
{
    double base = c->base * tg_pow_f64(c->ntk_factor, width > 2 ? (double)width / (double)(width - 2) : 0);
    double exponent = rounded(c, 2 * (double)i / (double)width);
    double power =
        c->float_angles ? 1 / rounded(c, tg_pow_f64(rounded(c, base), exponent)) : tg_pow_f64(base, -exponent);
    double frequency = rounded(c, rounded(c, power) / rounded(c, c->position_scale));
    return c->llama3_factor == 1 ? frequency : llama3_frequency(c, frequency);
}

typedef struct angles {
    const tg_rotary_config *config;
    const int32_t *positions; /* (T) or (B,T), or NULL: 0 .. T - 1 */
    int64_t start, pairs;
    const double *frequency; /* (D/2) */
    real *cosines, *sines;   /* (T,D/2) or (B,T,D/2) */
} angles;

/* Computes the cosines and sines of some positions. */
static void turn_positions(void *context, int64_t begin, int64_t end)
{
    enum { ROTARY_PART = 64 };
    const angles *a = context;
    for (int64_t t = begin; t < end; t++) {
        const double position = rounded(a->config, (double)(a->start + (a->positions ? a->positions[t] : t)));
        for (int64_t i = 0; i < a->pairs; i += ROTARY_PART) {
            double angle[ROTARY_PART], cosines[ROTARY_PART], sines[ROTARY_PART];
            const int64_t n = a->pairs - i < ROTARY_PART ? a->pairs - i : ROTARY_PART, at = t * a->pairs + i;
            for (int64_t k = 0; k < n; k++) {
                angle[k] = rounded(a->config, position * a->frequency[i + k]);
            }
            tg_turns_f64(angle, n, true, cosines);
            tg_turns_f64(angle, n, false, sines);
            for (int64_t k = 0; k < n; k++) {
                a->cosines[at + k] = (real)rounded(a->config, cosines[k]);
                a->sines[at + k] = (real)rounded(a->config, sines[k]);
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
    int64_t width = x->shape[x->rank - 1], pairs = width / 2, positions = x->shape[x->rank - 2] * sequences_of(call);
    double *frequency = call->scratch;
    for (int64_t i = 0; i < pairs; i++) {
        frequency[i] = frequency_of(c, i, width);
    }
    real *cosines = call->saved;
    const int32_t *given = call->input_count > 1 ? tg_values(call->inputs[1]) : NULL;
    angles a = {c, given, attributes->start, pairs, frequency, cosines, cosines + positions * pairs};
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

/* Checks the positions of x (B,..,T,D). */
static bool check_positions(tg_op_call *call)
{
    const tg_tensor *x = call->inputs[0], *positions = call->inputs[1];
    char text[TG_SHAPE_TEXT];
    if (!tg_op_expect_dtype(call, 1, TG_I32)) {
        return false;
    }
    bool fits = positions->rank == 1 || (positions->rank == 2 && x->rank >= 3 && positions->shape[0] == x->shape[0]);
    if (!fits || positions->shape[positions->rank - 1] != x->shape[x->rank - 2]) {
        return tg_op_fail(call, TG_ERROR_SHAPE,
                          "the positions are %s; for x %s they must be (T), or (B,T) for (B,..,T,D)",
                          tg_shape_text_of(positions).text, tg_shape_text_of(x).text);
    }
    const tg_shape shape = tg_shape_of(positions);
    for (int64_t i = 0; i < positions->count; i++) {
        const int32_t position = ((const int32_t *)tg_values(positions))[i];
        if (position < 0) {
            return tg_op_fail(call, TG_ERROR_RANGE, "position %d at %s; it must be at least 0", position,
                              tg_index_format(&shape, i, text));
        }
    }
    return true;
}

static bool rotary_shape(tg_op_call *call)
{
    const rotary_attributes *a = call->attributes;
    const tg_tensor *x = call->inputs[0];
    if (!tg_op_expect_float(call, 0)) {
        return false;
    }
    if (x->rank < 2 || x->shape[x->rank - 1] % 2 != 0) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "x is %s; it must be (..,T,D) with an even D",
                          tg_shape_text_of(x).text);
    }
    int64_t rows = x->shape[x->rank - 2], width = x->shape[x->rank - 1];
    int64_t range = call->input_count > 1 ? (int64_t)INT32_MAX + 1 : rows;
    if (a->start < 0 || a->start > last_position - range) {
        return tg_op_fail(call, TG_ERROR_RANGE, "%lld positions from %lld on; they must be from 0 to 2^53",
                          (long long)range, (long long)a->start);
    }
    return (call->input_count == 1 || check_positions(call)) && tg_op_output(call, 0, tg_dtype_of(x), tg_shape_of(x)) &&
           tg_op_save(call, sequences_of(call) * rows * width, tg_size_of(x->dtype)) &&
           tg_op_scratch(call, width / 2, sizeof(double));
}

/* ---- gradients in ops: the inverse rotation ---- */

static void differentiate_rotary(tg_tape *t, const tg_op_call *call, tg_tensor *const *dy, tg_tensor **dx)
{
    rotary_attributes a = *(const rotary_attributes *)call->attributes;
    a.direction = -a.direction;
    tg_tensor *inputs[] = {dy[0], call->input_count > 1 ? call->inputs[1] : NULL};
    dx[0] = tg_apply(t, call->op, inputs, call->input_count, &a, sizeof a, NULL);
}

static const tg_op rotary_op = {
    .name = "rotary",
    .shape = rotary_shape,
    .input_names = {"x", "positions"},
    TG_KERNELS(tg_rotary_forward, tg_rotary_backward),
    .backward_ignores_inputs = 1, /* a second derivative reads the positions */
    .backward_ignores_outputs = TG_OP_ALL,
    .can_overwrite = true,
    .differentiate = differentiate_rotary,
};

TG_CONFIG(tg_rotary_config, tg_rotary_config_default, mark, .mark = mark, .base = 10000, .pairing = TG_ROTARY_HALVES,
          .position_scale = 1, .ntk_factor = 1, .llama3_factor = 1, .low_frequency_factor = 1,
          .high_frequency_factor = 4, .original_context = 8192);

bool tg_rotary_check(const char *call, const tg_rotary_config *c, tg_error *error)
{
    if (!c || !tg_config_check(call, c, mark, error)) {
        return !c;
    }
    if (!(c->base > 1 && isfinite(c->base) && c->position_scale > 0 && isfinite(c->position_scale) &&
          c->ntk_factor > 0 && isfinite(c->ntk_factor) && (unsigned)c->pairing <= TG_ROTARY_NEIGHBORS)) {
        return tg_error_set(error, TG_ERROR_VALUE,
                            "%s: base %g, position_scale %g, ntk_factor %g, pairing %d; base must be above 1, "
                            "position_scale and ntk_factor above 0, pairing 0 or 1",
                            call, c->base, c->position_scale, c->ntk_factor, (int)c->pairing);
    }
    return (c->llama3_factor >= 1 && isfinite(c->llama3_factor) && c->low_frequency_factor > 0 &&
            c->high_frequency_factor > c->low_frequency_factor && isfinite(c->high_frequency_factor) &&
            c->original_context > 0) ||
           tg_error_set(error, TG_ERROR_VALUE,
                        "%s: llama3_factor %g, low_frequency_factor %g, high_frequency_factor %g, original_context "
                        "%lld; llama3_factor must be at least 1, low_frequency_factor above 0 and below "
                        "high_frequency_factor, original_context above 0",
                        call, c->llama3_factor, c->low_frequency_factor, c->high_frequency_factor,
                        (long long)c->original_context);
}

tg_tensor *tg_rotary(tg_tape *t, tg_tensor *x, int64_t start, const tg_rotary_config *config)
{
    if (!tg_tape_is_usable(t) || !tg_rotary_check("rotary", config, t->error)) {
        return NULL;
    }
    rotary_attributes a = {config ? *config : tg_rotary_config_default(), start, 1};
    tg_tensor *inputs[] = {x, a.config.positions};
    a.config.positions = NULL; /* it is an input */
    return tg_apply(t, &rotary_op, inputs, inputs[1] ? 2 : 1, &a, sizeof a, NULL);
}

#endif

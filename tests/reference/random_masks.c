/* random_masks: bernoulli, dropout and multinomial, whose results follow from the generator. MT19937 is written down
 * here a second time (Matsumoto and Nishimura 1998), with torch's uniform numbers: 24 bits of one output, or 53 bits of
 * two. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 624, SHIFT = 397 };

typedef struct options {
    double p;
    int64_t draws;
    bool replacement;
} options;

typedef struct generator {
    uint32_t word[WORDS];
    int next; /* word */
} generator;

/* The generator before the call, from the state in torch's format: the number of words left, and the words as u64. */
static generator *generator_before(trial *t)
{
    generator *g = trial_memory(t, sizeof *g);
    uint8_t *state = trial_memory(t, TG_RNG_TORCH_STATE_SIZE);
    tg_rng_save_torch_state(t->rng_before, state, NULL);
    int left = state[8] | state[9] << 8;
    for (int k = 0; k < WORDS; k++) {
        for (int byte = 0; byte < 4; byte++) {
            g->word[k] |= (uint32_t)state[24 + 8 * k + byte] << (8 * byte);
        }
    }
    g->next = left == 1 ? WORDS : WORDS + 1 - left;
    return g;
}

static uint32_t next_output(generator *g)
{
    if (g->next == WORDS) {
        for (int k = 0; k < WORDS; k++) {
            uint32_t y = (g->word[k] & 0x80000000u) | (g->word[(k + 1) % WORDS] & 0x7fffffffu);
            g->word[k] = g->word[(k + SHIFT) % WORDS] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
        }
        g->next = 0;
    }
    uint32_t y = g->word[g->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

/* In [0,1): the first of the two outputs has the high bits. */
static double uniform_of_two(generator *g)
{
    uint64_t high = next_output(g), low = next_output(g);
    return (double)((high << 32 | low) & ((UINT64_C(1) << 53) - 1)) / 9007199254740992.0;
}

static double uniform_of_one(generator *g)
{
    return (next_output(g) & 0xffffffu) / 16777216.0;
}

static void expect_position(trial *t, int64_t drawn)
{
    uint64_t got = tg_rng_position(tg_run_rng(t->run)) - tg_rng_position(t->rng_before);
    if (got != (uint64_t)drawn) {
        trial_fail(t, "the call has drawn %lld outputs of the generator, expected %lld", (long long)got,
                   (long long)drawn);
    }
}

/* Draws some outputs before the call, so that it begins anywhere in the stream. */
static void advance_generator(trial *t)
{
    int64_t count = draw_chance(t, 50) ? 0 : draw_integer(t, 1, 700);
    tg_tensor *values = tg_tensor_new(TG_F32, TG_SHAPE(count), NULL);
    tg_tensor_fill_uniform(values, tg_run_rng(t->run), 0, 1, NULL);
    tg_release(values);
    note_integer(t, "outputs before the call", count);
}

/* ---- bernoulli ---- */

static void draw_bernoulli(trial *t)
{
    advance_generator(t);
    tg_shape shape = draw_shape(t, 0, TG_MAX_RANK);
    double *p = numbers(t, count_of(shape));
    int certain = draw_chance(t, 30) ? 50 : 0;
    for (int64_t i = 0; i < count_of(shape); i++) {
        p[i] = draw_chance(t, certain) ? (double)draw_integer(t, 0, 1) : draw_uniform(t, 0, 1);
    }
    if (count_of(shape) > 0 && draw_chance(t, 5)) {
        p[draw_integer(t, 0, count_of(shape) - 1)] = DRAW_DOUBLE_OF(t, -0.1, 1.1, NAN, INFINITY, -INFINITY);
    }
    draw_layout(t, "p", draw_chance(t, 2) ? TG_I32 : t->dtype, shape, p);
}

static bool is_valid_bernoulli(const trial *t)
{
    const input *p = &t->inputs[0];
    for (int64_t i = 0; i < p->x.count; i++) {
        if (!(p->x.values[i] >= 0 && p->x.values[i] <= 1)) {
            return false;
        }
    }
    return is_float(p->dtype);
}

static tg_tensor *call_bernoulli(trial *t)
{
    return tg_bernoulli(t->tape, t->inputs[0].tensor);
}

static void bernoulli_forward(trial *t)
{
    const array *p = &t->inputs[0].x;
    array *y = output_new(t, 0, p->shape);
    generator *g = generator_before(t);
    for (int64_t i = 0; i < p->count; i++) {
        put(y, i, (t->dtype == TG_F32 ? uniform_of_one(g) : uniform_of_two(g)) < p->values[i]);
    }
    expect_position(t, p->count * (t->dtype == TG_F32 ? 1 : 2));
}

/* ---- dropout ---- */

static void draw_dropout(trial *t)
{
    advance_generator(t);
    tg_shape shape = draw_shape(t, 0, TG_MAX_RANK);
    if (draw_chance(t, 2)) {
        draw_integers(t, "x", TG_I32, shape, 0, 9);
    } else {
        draw_input(t, "x", shape);
    }
    double p = draw_chance(t, 60)  ? draw_uniform(t, 0, 1)
               : draw_chance(t, 8) ? DRAW_DOUBLE_OF(t, -0.1, 1.1, NAN, INFINITY, -INFINITY)
                                   : DRAW_DOUBLE_OF(t, 0, 1, 0.5, 0.1, 1e-12, 1 - 1e-12);
    OPTIONS(t, options)->p = note_double(t, "p", p);
}

static bool is_valid_dropout(const trial *t)
{
    double p = OPTIONS(t, const options)->p;
    return p >= 0 && p <= 1 && (is_float(t->inputs[0].dtype) || !t->is_training || p == 0);
}

static tg_tensor *call_dropout(trial *t)
{
    return tg_dropout(t->tape, t->inputs[0].tensor, OPTIONS(t, options)->p);
}

/* The distance in memory of neighbors along an axis; 0 if it is expanded, or has no neighbors. The sign does not count,
 * because in torch a flipped tensor is a copy. */
static int64_t distance_along(const input *x, int axis)
{
    int64_t next[TG_MAX_RANK] = {0};
    next[axis] = 1;
    return x->x.count > 0 && x->x.shape.size[axis] > 1
               ? llabs(x->positions[flat_index(x->x.shape, next)] - x->positions[0])
               : 0;
}

/* The axes in the order of the memory, slowest first, by torch's insertion sort from the last axis on: axes without a
 * distance have no order, and others are sorted past them. */
static void axes_of_memory(const input *x, int *axes)
{
    for (int axis = x->x.shape.rank - 1; axis >= 0; axis--) {
        axes[axis] = axis;
        for (int at = axis, inner = axis + 1; inner < x->x.shape.rank; inner++) {
            int64_t distance = distance_along(x, axes[at]), other = distance_along(x, axes[inner]);
            if (distance > other && other > 0) {
                break;
            }
            if (distance < other && distance > 0) {
                int faster = axes[at];
                axes[at] = axes[inner];
                axes[inner] = faster;
                at = inner;
            }
        }
    }
}

/* The factor of each value: 0 or 1 / (1 - p), drawn in the order of the memory. Of p = 1 nothing is drawn. */
static double *factors(trial *t)
{
    const input *x = &t->inputs[0];
    double p = OPTIONS(t, options)->p, *factor = numbers(t, x->x.count);
    double scale = converted(t->dtype, 1 - p);
    bool draws = t->is_training && p > 0 && p < 1;
    generator *g = generator_before(t);
    int axes[TG_MAX_RANK];
    tg_shape in_memory = x->x.shape;
    axes_of_memory(x, axes);
    for (int axis = 0; axis < in_memory.rank; axis++) {
        in_memory.size[axis] = x->x.shape.size[axes[axis]];
    }
    for (int64_t i = 0; i < x->x.count; i++) {
        int64_t at[TG_MAX_RANK], index[TG_MAX_RANK];
        split_index(in_memory, i, at);
        for (int axis = 0; axis < in_memory.rank; axis++) {
            index[axes[axis]] = at[axis];
        }
        bool is_kept = draws ? uniform_of_two(g) < 1 - p : !t->is_training || p == 0;
        factor[flat_index(x->x.shape, index)] = !is_kept ? 0 : draws ? 1 / scale : 1;
    }
    return factor;
}

static void dropout_forward(trial *t)
{
    const array *x = &t->inputs[0].x;
    double p = OPTIONS(t, options)->p, *factor = factors(t);
    array *y = output_of_dtype(t, 0, x->shape, t->inputs[0].dtype);
    for (int64_t i = 0; i < x->count; i++) {
        put(y, i, x->values[i] * factor[i]);
    }
    expect_position(t, t->is_training && p > 0 && p < 1 ? 2 * x->count : 0);
}

static void dropout_backward(trial *t)
{
    double *factor = factors(t);
    for (int64_t i = 0; i < t->outputs[0].dy.count; i++) {
        add(&t->inputs[0].dx, i, t->outputs[0].dy.values[i] * factor[i]);
    }
}

/* ---- multinomial ---- */

static void draw_multinomial(trial *t)
{
    options *o = OPTIONS(t, options);
    advance_generator(t);
    tg_shape shape =
        draw_chance(t, 50) ? TG_SHAPE(draw_integer(t, 1, 9)) : TG_SHAPE(draw_size(t), draw_integer(t, 1, 9));
    shape = draw_chance(t, 2) ? draw_shape(t, 0, 4) : shape;
    double *weights = numbers(t, count_of(shape));
    int zeros = draw_chance(t, 30) ? 30 : 0;
    for (int64_t i = 0; i < count_of(shape); i++) {
        weights[i] = draw_chance(t, zeros) ? 0 : draw_uniform(t, 0.01, 2);
    }
    if (count_of(shape) > 0 && draw_chance(t, 5)) {
        weights[draw_integer(t, 0, count_of(shape) - 1)] = DRAW_DOUBLE_OF(t, -0.1, NAN, INFINITY, -INFINITY);
    }
    draw_layout(t, "weights", draw_chance(t, 2) ? TG_I32 : t->dtype, shape, weights);
    o->replacement = note_bool(t, "replacement", draw_chance(t, 50));
    int64_t categories = shape.rank > 0 && shape.size[shape.rank - 1] > 0 ? shape.size[shape.rank - 1] : 1;
    o->draws = draw_integer(t, 1, o->replacement ? 20 : categories);
    o->draws = note_integer(t, "draws", draw_chance(t, 3) ? DRAW_ONE_OF(t, -1, 0, 10, INT64_MAX) : o->draws);
}

static bool is_valid_multinomial(const trial *t)
{
    const input *w = &t->inputs[0];
    const options *o = OPTIONS(t, options);
    int64_t categories = w->x.shape.rank > 0 ? w->x.shape.size[w->x.shape.rank - 1] : 0, positive = 0;
    if (!is_float(w->dtype) || w->x.shape.rank < 1 || w->x.shape.rank > 2 || o->draws < 1) {
        return false;
    }
    for (int64_t i = 0; i < w->x.count; i++) {
        if (!(w->x.values[i] >= 0 && isfinite(w->x.values[i]))) {
            return false;
        }
        positive = (i % categories == 0 ? 0 : positive) + (w->x.values[i] > 0);
        if (i % categories == categories - 1 && (positive == 0 || (!o->replacement && o->draws > positive))) {
            return false;
        }
    }
    /* a result of more than 2^62 values cannot exist, and none as large as 2^32 fits the test's memory */
    bool has_rows = w->x.shape.rank == 1 || w->x.shape.size[0] > 0; /* without any, torch draws from no category, too */
    bool has_enough = o->replacement || o->draws <= categories;
    return (categories > 0 || !has_rows) && has_enough && o->draws < (INT64_C(1) << 32);
}

static tg_tensor *call_multinomial(trial *t)
{
    const options *o = OPTIONS(t, options);
    return tg_multinomial(t->tape, t->inputs[0].tensor, o->draws, o->replacement);
}

/* The first category whose sum of weights up to it is at least u of the whole sum. */
static int64_t category_of(const trial *t, const double *weights, int64_t count, double u)
{
    double sum = 0, so_far = 0;
    for (int64_t i = 0; i < count; i++) {
        sum = converted(t->dtype, sum + weights[i]);
    }
    int64_t i = 0;
    while (i < count - 1) {
        so_far = converted(t->dtype, so_far + weights[i]);
        if (converted(t->dtype, so_far / sum) >= u) {
            break;
        }
        i++;
    }
    return i;
}

/* An exponential race: category i arrives at e[i] / w[i], and the first ones to arrive are drawn. */
static void race(trial *t, generator *g, const double *weights, int64_t count, int64_t draws, array *y, int64_t at)
{
    double *speed = numbers(t, count);
    for (int64_t i = 0; i < count; i++) {
        double e = -log1p(-uniform_of_two(g));
        speed[i] = weights[i] > 0 ? converted(t->dtype, weights[i] / converted(t->dtype, e)) : -1;
    }
    for (int64_t k = 0; k < draws; k++) {
        int64_t first = 0;
        for (int64_t i = 1; i < count; i++) {
            first = speed[i] > speed[first] ? i : first;
        }
        put(y, at + k, (double)first);
        speed[first] = -2;
    }
}

static void multinomial_forward(trial *t)
{
    const array *w = &t->inputs[0].x;
    const options *o = OPTIONS(t, options);
    int64_t categories = w->shape.size[w->shape.rank - 1], rows = w->count / (categories > 0 ? categories : 1);
    tg_shape shape = w->shape;
    shape.size[shape.rank - 1] = o->draws;
    array *y = output_of_dtype(t, 0, shape, TG_I32);
    generator *g = generator_before(t);
    bool is_race = o->draws == 1 || !o->replacement;
    for (int64_t row = 0; row < rows; row++) {
        const double *weights = w->values + row * categories;
        if (is_race) {
            race(t, g, weights, categories, o->draws, y, row * o->draws);
        }
        for (int64_t k = 0; !is_race && k < o->draws; k++) {
            put(y, row * o->draws + k, (double)category_of(t, weights, categories, uniform_of_two(g)));
        }
    }
    expect_position(t, rows * 2 * (is_race ? categories : o->draws));
}

static const reference references[] = {
    {
        .op = "tg_multinomial",
        .draw = draw_multinomial,
        .is_valid = is_valid_multinomial,
        .call = call_multinomial,
        .forward = multinomial_forward,
        .has_no_gradient = true,
    },
    {
        .op = "tg_bernoulli",
        .draw = draw_bernoulli,
        .is_valid = is_valid_bernoulli,
        .call = call_bernoulli,
        .forward = bernoulli_forward,
        .has_no_gradient = true,
    },
    {
        .op = "tg_dropout",
        .draw = draw_dropout,
        .is_valid = is_valid_dropout,
        .call = call_dropout,
        .forward = dropout_forward,
        .backward = dropout_backward,
        .roundings = 2,
        .gradient_roundings = 8,
    },
};

reference_family random_masks = {"random_masks", references, sizeof references / sizeof *references, 40000, NULL};

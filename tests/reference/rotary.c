/* rotary: tg_rotary, the rotation of pairs of channels by angles that grow with the position. */
#include "reference.h"

typedef struct rotary_options {
    bool has_config, has_neighbors, float_angles;
    int64_t start, context;
    double base, position_scale, ntk_factor, factor, low, high;
} rotary_options;

static double draw_option(trial *t, const char *name, double usual, double low, double high)
{
    double value = draw_chance(t, 50)  ? usual
                   : draw_chance(t, 4) ? DRAW_DOUBLE_OF(t, 0, -1, NAN, INFINITY)
                                       : draw_uniform(t, low, high);
    return note_double(t, name, value);
}

static void draw_rotary(trial *t)
{
    rotary_options *o = OPTIONS(t, rotary_options);
    *o = (rotary_options){.has_config = draw_chance(t, 85),
                          .base = 10000,
                          .position_scale = 1,
                          .ntk_factor = 1,
                          .factor = 1,
                          .low = 1,
                          .high = 4,
                          .context = 8192};
    tg_shape shape = draw_shape(t, draw_chance(t, 2) ? 1 : 2, TG_MAX_RANK);
    int64_t *width = &shape.size[shape.rank - 1];
    *width = draw_chance(t, 2) ? *width : draw_chance(t, 4) ? 64 : 2 * draw_integer(t, 0, 5);
    draw_input(t, "x", shape);
    o->start = draw_chance(t, 2)    ? DRAW_ONE_OF(t, -1, INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1)
               : draw_chance(t, 40) ? 0
                                    : draw_integer(t, 0, draw_chance(t, 50) ? 40 : 100000);
    note_integer(t, "start", o->start);
    if (note_bool(t, "has_config", o->has_config)) {
        o->base = draw_option(t, "base", 10000, 1.5, 1000);
        o->position_scale = draw_option(t, "position_scale", 1, 0.5, 8);
        o->ntk_factor = draw_option(t, "ntk_factor", 1, 0.5, 8);
        o->has_neighbors = note_bool(t, "neighbors", draw_chance(t, 50));
        o->float_angles = note_bool(t, "float_angles", draw_chance(t, 20));
        if (draw_chance(t, 30)) {
            o->factor = draw_option(t, "llama3_factor", 8, 1, 8);
            o->low = draw_option(t, "low_frequency_factor", 1, 0.5, 2);
            o->high = draw_option(t, "high_frequency_factor", 4, 2, 8);
            o->context = note_integer(t, "original_context", draw_chance(t, 2) ? 0 : draw_integer(t, 1, 100));
        }
    }
    if (o->has_config && draw_chance(t, 30)) {
        bool has_sequences = draw_chance(t, 50) && shape.rank > 2;
        tg_shape positions = TG_SHAPE(shape.size[shape.rank > 2 ? 0 : shape.rank - 1], 1);
        positions.size[has_sequences] = shape.rank > 1 && !draw_chance(t, 1) ? shape.size[shape.rank - 2] : 1;
        positions.rank = has_sequences ? 2 : 1;
        draw_integers(t, "positions", TG_I32, positions, draw_chance(t, 2) ? -1 : 0, draw_chance(t, 50) ? 40 : 10000);
    } else {
        draw_absent(t, "positions");
    }
}

/* Returns whether the positions are valid, if there are some. */
static bool has_valid_positions(const trial *t)
{
    const input *positions = &t->inputs[1];
    tg_shape shape = t->inputs[0].x.shape, own = positions->x.shape;
    for (int64_t i = 0; positions->is_present && i < positions->x.count; i++) {
        if (positions->x.values[i] < 0) {
            return false;
        }
    }
    return !positions->is_present ||
           (own.size[own.rank - 1] == shape.size[shape.rank - 2] &&
            (own.rank == 1 || (shape.rank > 2 && own.size[0] == shape.size[0])) &&
            OPTIONS(t, const rotary_options)->start <= (INT64_C(1) << 53) - (INT64_C(1) << 31));
}

static bool is_valid_rotary(const trial *t)
{
    const rotary_options *o = OPTIONS(t, rotary_options);
    tg_shape shape = t->inputs[0].x.shape;
    return shape.rank >= 2 && shape.size[shape.rank - 1] % 2 == 0 && o->start >= 0 &&
           o->start <= (INT64_C(1) << 53) - shape.size[shape.rank - 2] && o->base > 1 && isfinite(o->base) &&
           o->position_scale > 0 && isfinite(o->position_scale) && o->ntk_factor > 0 && isfinite(o->ntk_factor) &&
           o->factor >= 1 && isfinite(o->factor) && o->low > 0 && o->high > o->low && isfinite(o->high) &&
           o->context > 0 && has_valid_positions(t);
}

static tg_tensor *call_rotary(trial *t)
{
    const rotary_options *o = OPTIONS(t, rotary_options);
    tg_rotary_config config = tg_rotary_config_default();
    config.base = o->base;
    config.position_scale = o->position_scale;
    config.ntk_factor = o->ntk_factor;
    config.llama3_factor = o->factor;
    config.low_frequency_factor = o->low;
    config.high_frequency_factor = o->high;
    config.original_context = o->context;
    config.float_angles = o->float_angles;
    config.positions = t->inputs[1].tensor;
    config.pairing = o->has_neighbors ? TG_ROTARY_NEIGHBORS : TG_ROTARY_HALVES;
    return tg_rotary(t->tape, t->inputs[0].tensor, o->start, o->has_config ? &config : NULL);
}

/* Returns the position of a row of x. */
static double position_of(const trial *t, int64_t row)
{
    const array *x = &t->inputs[0].x, *positions = &t->inputs[1].x;
    int64_t rows = x->shape.size[x->shape.rank - 2], at = row % rows;
    if (!t->inputs[1].is_present) {
        return (double)(OPTIONS(t, const rotary_options)->start + at);
    }
    int64_t of_sequence = x->count / x->shape.size[x->shape.rank - 1] / x->shape.size[0];
    at += positions->shape.rank == 2 ? row / of_sequence * rows : 0;
    return (double)OPTIONS(t, const rotary_options)->start + positions->values[at];
}

/* What a step of transformers' formula gives with float angles. */
static double step(const rotary_options *o, double x)
{
    return o->float_angles ? (double)(float)x : x;
}

/* Returns the angle per position of pair i, in the steps of transformers. */
static double frequency_of(const rotary_options *o, int64_t i, int64_t width)
{
    double base = width > 2 ? o->base * pow(o->ntk_factor, (double)width / (double)(width - 2)) : o->base;
    double power = step(o, pow(step(o, base), step(o, 2 * (double)i / (double)width)));
    double frequency = step(o, step(o, 1 / power) / step(o, o->position_scale));
    double length = step(o, step(o, 1 / frequency) * step(o, 2 * acos(-1)));
    double turns = step(o, step(o, 1 / length) * (double)o->context);
    if (o->factor == 1 || turns >= step(o, o->high)) {
        return frequency;
    }
    double slow = step(o, frequency / step(o, o->factor)), low = step(o, o->low);
    if (turns <= low) {
        return slow;
    }
    double smooth = step(o, step(o, turns - low) / step(o, o->high - o->low));
    smooth = smooth > 1 ? 1 : smooth;
    double divided = step(o, step(o, step(o, 1 - smooth) * frequency) / step(o, o->factor));
    return step(o, divided + step(o, smooth * frequency));
}

/* Adds `from`, rotated by the angles times `direction`, to `to`. */
static void rotate(const trial *t, const array *from, array *to, int direction)
{
    const rotary_options *o = OPTIONS(t, rotary_options);
    tg_shape shape = from->shape;
    int64_t width = shape.size[shape.rank - 1], half = width / 2;
    for (int64_t pair = 0; pair < from->count / 2; pair++) {
        int64_t row = pair / half, i = pair % half;
        int64_t first = row * width + (o->has_neighbors ? 2 * i : i), second = first + (o->has_neighbors ? 1 : half);
        double angle = step(o, step(o, position_of(t, row)) * frequency_of(o, i, width));
        double cosine = step(o, cos(angle)), sine = direction * step(o, sin(angle));
        double a = from->values[first], b = from->values[second];
        double lost = 1 + (o->float_angles ? 0 : angle * (t->dtype == TG_F32 ? 1e-8 : 16));
        add_terms(to, first, a * cosine - b * sine, (fabs(a) + fabs(b)) * lost);
        add_terms(to, second, a * sine + b * cosine, (fabs(a) + fabs(b)) * lost);
    }
}

static void rotary_forward(trial *t)
{
    rotate(t, &t->inputs[0].x, output_new(t, 0, t->inputs[0].x.shape), 1);
}

static void rotary_backward(trial *t)
{
    rotate(t, &t->outputs[0].dy, &t->inputs[0].dx, -1);
}

static const reference references[] = {
    {
        .op = "tg_rotary",
        .draw = draw_rotary,
        .is_valid = is_valid_rotary,
        .call = call_rotary,
        .forward = rotary_forward,
        .backward = rotary_backward,
        .roundings = 8,
        .gradient_roundings = 128,
    },
};

reference_family rotary = {"rotary", references, sizeof references / sizeof *references, 12000, NULL};

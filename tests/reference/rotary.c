/* rotary: tg_rotary, the rotation of pairs of channels by angles that grow with the position. */
#include "reference.h"

typedef struct rotary_options {
    bool has_config, has_neighbors;
    int64_t start;
    double base, position_scale, ntk_factor;
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
    *o = (rotary_options){.has_config = draw_chance(t, 85), .base = 10000, .position_scale = 1, .ntk_factor = 1};
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
    }
}

static bool is_valid_rotary(const trial *t)
{
    const rotary_options *o = OPTIONS(t, rotary_options);
    tg_shape shape = t->inputs[0].x.shape;
    return shape.rank >= 2 && shape.size[shape.rank - 1] % 2 == 0 && o->start >= 0 &&
           o->start <= (INT64_C(1) << 53) - shape.size[shape.rank - 2] && o->base > 1 && isfinite(o->base) &&
           o->position_scale > 0 && isfinite(o->position_scale) && o->ntk_factor > 0 && isfinite(o->ntk_factor);
}

static tg_tensor *call_rotary(trial *t)
{
    const rotary_options *o = OPTIONS(t, rotary_options);
    tg_rotary_config config = tg_rotary_config_default();
    config.base = o->base;
    config.position_scale = o->position_scale;
    config.ntk_factor = o->ntk_factor;
    config.pairing = o->has_neighbors ? TG_ROTARY_NEIGHBORS : TG_ROTARY_HALVES;
    return tg_rotary(t->tape, t->inputs[0].tensor, o->start, o->has_config ? &config : NULL);
}

/* Adds `from`, rotated by the angles times `direction`, to `to`. */
static void rotate(const trial *t, const array *from, array *to, int direction)
{
    const rotary_options *o = OPTIONS(t, rotary_options);
    tg_shape shape = from->shape;
    int64_t width = shape.size[shape.rank - 1], rows = shape.size[shape.rank - 2], half = width / 2;
    double base = width > 2 ? o->base * pow(o->ntk_factor, (double)width / (double)(width - 2)) : o->base;
    for (int64_t pair = 0; pair < from->count / 2; pair++) {
        int64_t row = pair / half, i = pair % half;
        int64_t first = row * width + (o->has_neighbors ? 2 * i : i), second = first + (o->has_neighbors ? 1 : half);
        double angle = (double)(o->start + row % rows) / o->position_scale * pow(base, -2 * (double)i / (double)width);
        double cosine = cos(angle), sine = direction * sin(angle), a = from->values[first], b = from->values[second];
        double lost = 1 + angle * (t->dtype == TG_F32 ? 1e-8 : 16);
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

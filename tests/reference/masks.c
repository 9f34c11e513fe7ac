/* masks: comparisons, logic, and values that a mask selects; constants. Inputs have any dtypes. */
#include "reference.h"

#include <string.h>

typedef struct options {
    double value;
    tg_shape shape;
    tg_dtype dtype;
    void *values; /* of a constant */
} options;

/* ---- comparisons and logic ---- */

typedef struct comparison {
    tg_tensor *(*call)(tg_tape *tape, tg_tensor *a, tg_tensor *b);
    bool (*holds)(double a, double b);
} comparison;

static void draw_comparison(trial *t)
{
    tg_shape shape = draw_shape(t, 0, TG_MAX_RANK);
    draw_any(t, "a", draw_broadcastable(t, shape));
    draw_any(t, "b", draw_broadcastable(t, shape));
}

static bool is_valid_comparison(const trial *t)
{
    const input *a = &t->inputs[0], *b = &t->inputs[1];
    tg_shape shape;
    return broadcast_shapes(a->x.shape, b->x.shape, &shape) &&
           (a->dtype == b->dtype || !is_float(a->dtype) || !is_float(b->dtype));
}

static tg_tensor *call_comparison(trial *t)
{
    return ((const comparison *)t->reference->data)->call(t->tape, t->inputs[0].tensor, t->inputs[1].tensor);
}

/* A value that is compared with one of another dtype: u8 counts as 0 or 1, and i32 beside f32 is rounded. */
static double compared(const input *in, int64_t i, tg_dtype other)
{
    double value = in->x.values[i];
    return in->dtype == TG_U8 ? value != 0 : in->dtype == TG_I32 && other == TG_F32 ? converted(other, value) : value;
}

static void comparison_forward(trial *t)
{
    const comparison *c = t->reference->data;
    const input *a = &t->inputs[0], *b = &t->inputs[1];
    tg_shape shape;
    broadcast_shapes(a->x.shape, b->x.shape, &shape);
    array *y = output_of_dtype(t, 0, shape, TG_U8);
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; i < y->count; i++) {
        split_index(shape, i, index);
        double left = compared(a, broadcast_index(a->x.shape, shape.rank, index), b->dtype);
        double right = compared(b, broadcast_index(b->x.shape, shape.rank, index), a->dtype);
        put(y, i, c->holds(left, right));
    }
}

#define COMPARISON(name, condition)              \
    static bool name##_holds(double a, double b) \
    {                                            \
        return condition;                        \
    }                                            \
    static const comparison name##_comparison = {tg_##name, name##_holds};

COMPARISON(eq, a == b)
COMPARISON(ne, a != b)
COMPARISON(lt, a < b)
COMPARISON(le, a <= b)
COMPARISON(gt, a > b)
COMPARISON(ge, a >= b)
COMPARISON(logical_and, a != 0 && b != 0)
COMPARISON(logical_or, a != 0 || b != 0)

static void draw_logical_not(trial *t)
{
    draw_any(t, "x", draw_shape(t, 0, TG_MAX_RANK));
}

static tg_tensor *call_logical_not(trial *t)
{
    return tg_logical_not(t->tape, t->inputs[0].tensor);
}

static void logical_not_forward(trial *t)
{
    const array *x = &t->inputs[0].x;
    array *y = output_of_dtype(t, 0, x->shape, TG_U8);
    for (int64_t i = 0; i < x->count; i++) {
        put(y, i, x->values[i] == 0);
    }
}

/* ---- where and masked_fill ---- */

/* A mask of random values, of zeros, or of true values of any size; seldom another dtype. */
static void draw_mask(trial *t, tg_shape shape)
{
    if (draw_chance(t, 2)) {
        draw_any(t, "mask", shape);
    } else {
        bool is_constant = draw_chance(t, 20), is_true = draw_chance(t, 50);
        int64_t low = is_constant && is_true ? 1 : 0, high = is_constant && !is_true ? 0 : draw_chance(t, 70) ? 1 : 255;
        draw_integers(t, "mask", TG_U8, shape, low, high);
    }
}

/* Draws a tensor of a dtype; a float has the trial's dtype. */
static void draw_of_dtype(trial *t, const char *name, tg_dtype dtype, tg_shape shape)
{
    if (dtype == TG_I32 || dtype == TG_U8) {
        draw_integers(t, name, dtype, shape, dtype == TG_U8 ? 0 : -100, 200);
    } else {
        draw_input(t, name, shape);
    }
}

static tg_dtype draw_dtype(trial *t)
{
    return draw_chance(t, 75) ? t->dtype : draw_chance(t, 50) ? TG_I32 : TG_U8;
}

static void draw_where(trial *t)
{
    tg_shape shape = draw_shape(t, 0, TG_MAX_RANK);
    tg_dtype dtype = draw_dtype(t);
    draw_mask(t, draw_broadcastable(t, shape));
    draw_of_dtype(t, "a", dtype, draw_broadcastable(t, shape));
    draw_of_dtype(t, "b", draw_chance(t, 3) ? draw_dtype(t) : dtype, draw_broadcastable(t, shape));
}

static bool where_shape(const trial *t, tg_shape *shape)
{
    return broadcast_shapes(t->inputs[0].x.shape, t->inputs[1].x.shape, shape) &&
           broadcast_shapes(*shape, t->inputs[2].x.shape, shape);
}

static bool is_valid_where(const trial *t)
{
    tg_shape shape;
    return t->inputs[0].dtype == TG_U8 && t->inputs[1].dtype == t->inputs[2].dtype && where_shape(t, &shape);
}

static tg_tensor *call_where(trial *t)
{
    return tg_where(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, t->inputs[2].tensor);
}

/* Calls `visit` for each value of the result: its number, and the input and number that it comes from. */
static void for_each_choice(trial *t, void (*visit)(trial *t, int64_t y, int from, int64_t x))
{
    tg_shape shape;
    where_shape(t, &shape);
    int64_t index[TG_MAX_RANK];
    for (int64_t i = 0; i < count_of(shape); i++) {
        split_index(shape, i, index);
        int from = t->inputs[0].x.values[broadcast_index(t->inputs[0].x.shape, shape.rank, index)] != 0 ? 1 : 2;
        visit(t, i, from, broadcast_index(t->inputs[from].x.shape, shape.rank, index));
    }
}

static void put_choice(trial *t, int64_t y, int from, int64_t x)
{
    put(&t->outputs[0].y, y, t->inputs[from].x.values[x]);
}

static void add_gradient_of_choice(trial *t, int64_t y, int from, int64_t x)
{
    add(&t->inputs[from].dx, x, t->outputs[0].dy.values[y]);
}

static void where_forward(trial *t)
{
    tg_shape shape;
    where_shape(t, &shape);
    output_of_dtype(t, 0, shape, t->inputs[1].dtype);
    for_each_choice(t, put_choice);
}

static void where_backward(trial *t)
{
    for_each_choice(t, add_gradient_of_choice);
}

/* A value that each dtype can hold: conversions of others are not defined. */
static double draw_number(trial *t, tg_dtype dtype)
{
    double value = dtype == TG_U8    ? draw_uniform(t, 0, 255)
                   : dtype == TG_I32 ? draw_uniform(t, -1e6, 1e6)
                                     : DRAW_DOUBLE_OF(t, 0, 1, -1e30, -INFINITY, INFINITY, NAN, 0.1, -0.0);
    return note_double(t, "value", value);
}

static void draw_masked_fill(trial *t)
{
    tg_shape shape = draw_shape(t, 0, TG_MAX_RANK);
    tg_dtype dtype = draw_dtype(t);
    draw_of_dtype(t, "x", dtype, shape);
    draw_mask(t, draw_broadcastable(t, draw_chance(t, 3) ? draw_shape(t, 0, TG_MAX_RANK) : shape));
    OPTIONS(t, options)->value = draw_number(t, dtype);
}

/* The mask must broadcast to x's shape, and not x to the mask's. */
static bool is_valid_masked_fill(const trial *t)
{
    tg_shape shape, x = t->inputs[0].x.shape;
    return t->inputs[1].dtype == TG_U8 && broadcast_shapes(x, t->inputs[1].x.shape, &shape) && tg_shape_equal(shape, x);
}

static tg_tensor *call_masked_fill(trial *t)
{
    return tg_masked_fill(t->tape, t->inputs[0].tensor, t->inputs[1].tensor, OPTIONS(t, options)->value);
}

static bool is_filled(const trial *t, int64_t i)
{
    const array *x = &t->inputs[0].x, *mask = &t->inputs[1].x;
    int64_t index[TG_MAX_RANK];
    split_index(x->shape, i, index);
    return mask->values[broadcast_index(mask->shape, x->shape.rank, index)] != 0;
}

static void masked_fill_forward(trial *t)
{
    const input *x = &t->inputs[0];
    array *y = output_of_dtype(t, 0, x->x.shape, x->dtype);
    for (int64_t i = 0; i < y->count; i++) {
        put(y, i, is_filled(t, i) ? converted(x->dtype, OPTIONS(t, options)->value) : x->x.values[i]);
    }
}

static void masked_fill_backward(trial *t)
{
    for (int64_t i = 0; i < t->outputs[0].dy.count; i++) {
        add(&t->inputs[0].dx, i, is_filled(t, i) ? 0 : t->outputs[0].dy.values[i]);
    }
}

/* ---- constants ---- */

static void draw_constant(trial *t)
{
    options *o = OPTIONS(t, options);
    o->dtype = (tg_dtype)note_integer(t, "dtype", draw_integer(t, TG_F32, TG_U8));
    o->shape = draw_shape(t, 0, TG_MAX_RANK);
    o->value = draw_number(t, o->dtype);
    o->values = trial_memory(t, (size_t)count_of(o->shape) * sizeof(double));
    for (int64_t i = 0; i < count_of(o->shape); i++) {
        double value = is_float(o->dtype) ? draw_value(t) : (double)draw_integer(t, 0, 255);
        switch (o->dtype) {
        case TG_F32: ((float *)o->values)[i] = (float)value; break;
        case TG_F64: ((double *)o->values)[i] = value; break;
        case TG_I32: ((int32_t *)o->values)[i] = (int32_t)value - 100; break;
        case TG_U8: ((uint8_t *)o->values)[i] = (uint8_t)value; break;
        case TG_BF16: break; /* not drawn */
        }
    }
    if (draw_chance(t, 2)) {
        o->dtype = (tg_dtype)note_integer(t, "dtype", DRAW_ONE_OF(t, -1, 5, 100));
    } else if (o->shape.rank > 0 && draw_chance(t, 3)) {
        o->shape.size[draw_integer(t, 0, o->shape.rank - 1)] = DRAW_ONE_OF(t, -1, INT64_MIN);
    } else if (draw_chance(t, 2)) {
        o->shape.rank = (int)note_integer(t, "rank", DRAW_ONE_OF(t, -1, TG_MAX_RANK + 1));
    }
}

static bool is_valid_constant(const trial *t)
{
    const options *o = OPTIONS(t, const options);
    bool is_valid = o->dtype >= TG_F32 && o->dtype <= TG_U8 && o->shape.rank >= 0 && o->shape.rank <= TG_MAX_RANK;
    for (int axis = 0; axis < o->shape.rank && is_valid; axis++) {
        is_valid = o->shape.size[axis] >= 0;
    }
    return is_valid;
}

static tg_tensor *call_constant(trial *t)
{
    const options *o = OPTIONS(t, options);
    return strcmp(t->reference->op, "tg_full") == 0 ? tg_full(t->tape, o->dtype, o->shape, o->value)
                                                    : tg_constant(t->tape, o->dtype, o->shape, o->values);
}

static void constant_forward(trial *t)
{
    const options *o = OPTIONS(t, options);
    array *y = output_of_dtype(t, 0, o->shape, o->dtype);
    for (int64_t i = 0; i < y->count; i++) {
        if (strcmp(t->reference->op, "tg_full") == 0) {
            put(y, i, converted(o->dtype, o->value));
            continue;
        }
        switch (o->dtype) {
        case TG_F32: put(y, i, (double)((const float *)o->values)[i]); break;
        case TG_F64: put(y, i, ((const double *)o->values)[i]); break;
        case TG_I32: put(y, i, ((const int32_t *)o->values)[i]); break;
        case TG_U8: put(y, i, ((const uint8_t *)o->values)[i]); break;
        case TG_BF16: break; /* not drawn */
        }
    }
}

#define COMPARISON_REFERENCE(name)                                                                                  \
    {                                                                                                               \
        .op = "tg_" #name, .draw = draw_comparison, .is_valid = is_valid_comparison, .call = call_comparison,       \
        .forward = comparison_forward, .has_no_gradient = true, .may_mix_dtypes = true, .data = &name##_comparison, \
    }
#define CONSTANT_REFERENCE(name)                                                                 \
    {                                                                                            \
        .op = name, .draw = draw_constant, .is_valid = is_valid_constant, .call = call_constant, \
        .forward = constant_forward, .has_no_gradient = true,                                    \
    }

static const reference references[] = {
    COMPARISON_REFERENCE(eq),
    COMPARISON_REFERENCE(ne),
    COMPARISON_REFERENCE(lt),
    COMPARISON_REFERENCE(le),
    COMPARISON_REFERENCE(gt),
    COMPARISON_REFERENCE(ge),
    COMPARISON_REFERENCE(logical_and),
    COMPARISON_REFERENCE(logical_or),
    {
        .op = "tg_logical_not",
        .draw = draw_logical_not,
        .call = call_logical_not,
        .forward = logical_not_forward,
        .has_no_gradient = true,
    },
    {
        .op = "tg_where",
        .draw = draw_where,
        .is_valid = is_valid_where,
        .call = call_where,
        .forward = where_forward,
        .backward = where_backward,
        .roundings = 0,
        .gradient_roundings = 40,
        .may_mix_dtypes = true,
    },
    {
        .op = "tg_masked_fill",
        .draw = draw_masked_fill,
        .is_valid = is_valid_masked_fill,
        .call = call_masked_fill,
        .forward = masked_fill_forward,
        .backward = masked_fill_backward,
        .roundings = 0,
        .gradient_roundings = 8,
    },
    CONSTANT_REFERENCE("tg_full"),
    CONSTANT_REFERENCE("tg_constant"),
};

reference_family masks = {"masks", references, sizeof references / sizeof *references, 50000, NULL};

/* attention: calls of tg_scaled_dot_product_attention, on both paths. The formula is in attention_formula.c. */
#include "attention.h"

/* ---- the call ---- */

/* Draws the shape of queries, keys or values: `batch` with sizes of 1, and fewer axes, and then rows and width. */
static tg_shape draw_matrices(trial *t, tg_shape batch, int64_t rows, int64_t width)
{
    tg_shape shape = draw_chance(t, 45) ? draw_broadcastable(t, batch) : batch;
    shape.size[shape.rank++] = rows;
    shape.size[shape.rank++] = draw_chance(t, 1) ? draw_size(t) : width;
    return shape;
}

/* Rows of which some have -inf, or -1e30, for every key, and values that exclude single keys. */
static void draw_bias(trial *t, tg_shape scores)
{
    tg_shape shape = scores;
    shape.size[shape.rank - 1] = draw_chance(t, 1) ? draw_size(t) : shape.size[shape.rank - 1];
    int dropped = draw_chance(t, 40) ? (int)draw_integer(t, 0, shape.rank - 2) : 0;
    for (int axis = dropped; axis < shape.rank; axis++) {
        bool is_one = axis < shape.rank - 2 ? draw_chance(t, 25) : draw_chance(t, 1);
        shape.size[axis - dropped] = is_one ? 1 : shape.size[axis];
    }
    shape.rank -= dropped;
    double *values = numbers(t, count_of(shape));
    int64_t row = shape.size[shape.rank - 1];
    double off = DRAW_DOUBLE_OF(t, -INFINITY, -1e30, -1e9, -1e4);
    int percent = (int)DRAW_ONE_OF(t, 0, 10, 50);
    for (int64_t i = 0; i < count_of(shape); i += row) {
        bool is_off = draw_chance(t, 25);
        for (int64_t k = 0; k < row; k++) {
            values[i + k] = is_off || draw_chance(t, percent) ? off : draw_value(t);
        }
    }
    draw_layout(t, "bias", t->dtype, shape, values);
}

static void draw_keys_that_exist(trial *t, tg_shape scores)
{
    int kind = draw_chance(t, 45) ? (int)draw_integer(t, 1, draw_chance(t, 3) ? 3 : 2) : 0;
    int64_t batch = draw_chance(t, 1) ? draw_size(t) : scores.size[0], keys = scores.size[scores.rank - 1];
    if (kind & 1) {
        int64_t below = draw_chance(t, 2) ? -1 : 0, above = draw_chance(t, 2) ? keys + 1 : keys;
        draw_integers(t, "lengths", TG_I32, TG_SHAPE(batch), below, above);
    } else {
        draw_absent(t, "lengths");
    }
    if (kind & 2) {
        draw_integers(t, "key_mask", TG_U8, TG_SHAPE(batch, keys), 0, draw_chance(t, 15) ? 0 : DRAW_ONE_OF(t, 1, 2));
    } else {
        draw_absent(t, "key_mask");
    }
}

/* Draws first keys (T) or (B,T). */
static void draw_first_keys(trial *t, tg_shape scores)
{
    int64_t batch = draw_chance(t, 1) ? draw_size(t) : scores.size[0], keys = scores.size[scores.rank - 1];
    int64_t rows = draw_chance(t, 1) ? draw_size(t) : scores.size[scores.rank - 2];
    if (!draw_chance(t, 30)) {
        draw_absent(t, "first_keys");
        return;
    }
    tg_shape shape = draw_chance(t, 50) ? TG_SHAPE(rows) : TG_SHAPE(batch, rows);
    int64_t most = draw_chance(t, 2) ? keys + 1 : draw_chance(t, 50) ? keys : keys / 3;
    draw_integers(t, "first_keys", TG_I32, shape, draw_chance(t, 2) ? -1 : 0, most);
}

static void draw_attention(trial *t)
{
    attention_call *a = OPTIONS(t, attention_call);
    bool is_long = draw_chance(t, 8);
    tg_shape batch = TG_SCALAR;
    batch.rank = (int)draw_integer(t, 0, is_long ? 1 : draw_chance(t, 3) ? TG_MAX_RANK - 2 : 3);
    for (int axis = 0; axis < batch.rank; axis++) {
        batch.size[axis] = draw_chance(t, 4) ? 0 : draw_integer(t, 1, batch.rank > 3 ? 2 : 3);
    }
    int64_t rows = is_long ? draw_integer(t, 1, 80) : draw_size(t) % 20;
    int64_t keys = is_long ? draw_integer(t, 60, 200) : draw_chance(t, 40) ? rows : draw_size(t);
    if (rows > keys && draw_chance(t, 70)) { /* causal calls need no fewer keys than rows */
        int64_t more = rows;
        rows = keys;
        keys = more;
    }
    int64_t width = draw_chance(t, 2)    ? 0
                    : draw_chance(t, 75) ? draw_integer(t, 1, 8)
                    : batch.rank < 2     ? draw_integer(t, 9, 70)
                                         : draw_integer(t, 9, 20);
    *a = (attention_call){.has_config = draw_chance(t, 92), .scale = TG_SCALE_OF_WIDTH};
    note_bool(t, "has_config", a->has_config);
    tg_shape q = draw_matrices(t, batch, rows, width);
    if (a->has_config) {
        a->is_causal = note_bool(t, "is_causal", draw_chance(t, 40));
        a->has_groups = note_bool(t, "enable_gqa", draw_chance(t, 30));
        a->dropout = draw_chance(t, 2)    ? DRAW_DOUBLE_OF(t, 1, -0.1, NAN, INFINITY)
                     : draw_chance(t, 35) ? DRAW_DOUBLE_OF(t, 0.1, 0.5, 0.9, draw_uniform(t, 0, 1))
                                          : 0;
        a->scale = draw_chance(t, 2)    ? DRAW_DOUBLE_OF(t, -0.5, NAN, INFINITY, -INFINITY)
                   : draw_chance(t, 50) ? DRAW_DOUBLE_OF(t, 0, 1, 0.125, draw_uniform(t, 0, 3))
                                        : TG_SCALE_OF_WIDTH;
        a->path = draw_chance(t, 40) ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED;
        a->window = draw_chance(t, a->is_causal ? 40 : 1) ? draw_integer(t, 1, draw_chance(t, 50) ? 5 : keys + 1) : 0;
        a->window = draw_chance(t, 1) ? DRAW_ONE_OF(t, -1, INT64_MIN, INT64_MAX) : a->window;
        note_integer(t, "window", a->window);
        note_double(t, "dropout", a->dropout);
        note_double(t, "scale", a->scale);
        note_integer(t, "path", a->path);
        if (a->has_groups && batch.rank > 0 && draw_chance(t, 80) && q.rank > 2) {
            q.size[q.rank - 3] *= draw_integer(t, 1, 3);
        }
    }
    draw_input(t, "queries", q);
    tg_shape k = draw_matrices(t, batch, keys, width);
    draw_input(t, "keys", k);
    draw_input(t, "values", draw_chance(t, 40) ? k : draw_matrices(t, batch, draw_chance(t, 1) ? rows : keys, width));
    tg_shape scores;
    if (!attention_result(t, &scores)) {
        scores = q;
    }
    scores.size[scores.rank - 1] = keys;
    if (a->has_config && draw_chance(t, 50)) {
        draw_bias(t, scores);
    } else {
        draw_absent(t, "bias");
    }
    if (a->has_config) {
        draw_keys_that_exist(t, scores);
        draw_first_keys(t, scores);
    } else {
        draw_absent(t, "lengths");
        draw_absent(t, "key_mask");
        draw_absent(t, "first_keys");
    }
}

static bool has_valid_groups(const trial *t)
{
    tg_shape q = t->inputs[QUERIES].x.shape, k = t->inputs[KEYS].x.shape, v = t->inputs[VALUES].x.shape;
    if (!OPTIONS(t, const attention_call)->has_groups) {
        return true;
    }
    if (q.rank < 3 || k.rank < 3 || v.rank < 3) {
        return false;
    }
    int64_t heads = q.size[q.rank - 3], groups = k.size[k.rank - 3];
    return groups == v.size[v.rank - 3] && groups > 0 && heads % groups == 0;
}

static bool has_valid_bias(const trial *t, tg_shape scores)
{
    tg_shape bias = t->inputs[BIAS].x.shape;
    if (!t->inputs[BIAS].is_present) {
        return true;
    }
    if (bias.rank < 2 || bias.rank > scores.rank) {
        return false;
    }
    for (int back = 1; back <= bias.rank; back++) {
        int64_t size = bias.size[bias.rank - back];
        if (size != scores.size[scores.rank - back] && (back <= 2 || size != 1)) {
            return false;
        }
    }
    return true;
}

static bool has_valid_masks(const trial *t, tg_shape scores)
{
    int64_t keys = scores.size[scores.rank - 1];
    const input *lengths = &t->inputs[LENGTHS], *mask = &t->inputs[KEY_MASK];
    if (!lengths->is_present && !mask->is_present) {
        return true;
    }
    const input *given = lengths->is_present ? lengths : mask;
    if ((lengths->is_present && mask->is_present) || scores.rank < 3 || given->x.shape.size[0] != scores.size[0] ||
        (mask->is_present && mask->x.shape.size[1] != keys)) {
        return false;
    }
    for (int64_t i = 0; lengths->is_present && i < lengths->x.count; i++) {
        if (lengths->x.values[i] < 0 || lengths->x.values[i] > (double)keys) {
            return false;
        }
    }
    return true;
}

static bool has_valid_first_keys(const trial *t, tg_shape scores)
{
    const input *first = &t->inputs[FIRST_KEYS];
    tg_shape shape = first->x.shape;
    for (int64_t i = 0; first->is_present && i < first->x.count; i++) {
        if (first->x.values[i] < 0 || first->x.values[i] > (double)scores.size[scores.rank - 1]) {
            return false;
        }
    }
    return !first->is_present || (shape.size[shape.rank - 1] == scores.size[scores.rank - 2] &&
                                  (shape.rank == 1 || (scores.rank > 2 && shape.size[0] == scores.size[0])));
}

/* Whether bias and masks match the result with S in place of D. */
static bool has_valid_scores(const trial *t, tg_shape result)
{
    tg_shape k = t->inputs[KEYS].x.shape;
    result.size[result.rank - 1] = k.size[k.rank - 2];
    return has_valid_bias(t, result) && has_valid_masks(t, result) && has_valid_first_keys(t, result);
}

static bool is_valid_attention(const trial *t)
{
    const attention_call *a = OPTIONS(t, const attention_call);
    tg_shape q = t->inputs[QUERIES].x.shape, k = t->inputs[KEYS].x.shape, v = t->inputs[VALUES].x.shape, result;
    int64_t rows = q.size[q.rank - 2], keys = k.size[k.rank - 2];
    return a->dropout >= 0 && a->dropout < 1 && a->window >= 0 && (a->window == 0 || a->is_causal) &&
           (a->scale == TG_SCALE_OF_WIDTH || (a->scale >= 0 && a->scale < INFINITY)) &&
           q.size[q.rank - 1] == k.size[k.rank - 1] && q.size[q.rank - 1] == v.size[v.rank - 1] &&
           keys == v.size[v.rank - 2] && (!a->is_causal || keys >= rows) && has_valid_groups(t) &&
           attention_result(t, &result) && has_valid_scores(t, result);
}

static tg_tensor *call_attention(trial *t)
{
    const attention_call *a = OPTIONS(t, attention_call);
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = a->is_causal;
    config.dropout = a->dropout;
    config.scale = a->scale;
    config.enable_gqa = a->has_groups;
    config.path = a->path;
    config.bias = t->inputs[BIAS].tensor;
    config.lengths = t->inputs[LENGTHS].tensor;
    config.key_mask = t->inputs[KEY_MASK].tensor;
    config.window = a->window;
    config.first_keys = t->inputs[FIRST_KEYS].tensor;
    return tg_scaled_dot_product_attention(t->tape, t->inputs[QUERIES].tensor, t->inputs[KEYS].tensor,
                                           t->inputs[VALUES].tensor, a->has_config ? &config : NULL);
}

static const reference references[] = {
    {
        .op = "tg_scaled_dot_product_attention",
        .draw = draw_attention,
        .is_valid = is_valid_attention,
        .call = call_attention,
        .forward = attention_forward,
        .backward = attention_backward,
        .roundings = 16,
        .gradient_roundings = 32,
    },
};

reference_family attention = {"attention", references, sizeof references / sizeof *references, 8000, NULL};

/* lookups: tg_embedding and tg_embedding_bag, with padding, frozen rows, max_norm and gradients by rows. */
#include "losses.h"

#include <string.h>

typedef struct lookup_options {
    bool has_config, last_offset, scale_by_frequency;
    int64_t padding_index;
    double max_norm, norm_type;
    tg_bag_mode mode;
    uint64_t frozen;  /* a bit for each row */
    bool makes_dense; /* the gradient, after the first backward */
    int passes;
} lookup_options;

/* The inputs, by their numbers; the last two are those of tg_embedding_bag. */
enum { IDS, TABLE, OFFSETS, WEIGHTS };

static lookup_options *options_of(const trial *t)
{
    return (lookup_options *)(uintptr_t)t->options;
}

static bool is_bag(const trial *t)
{
    return strcmp(t->reference->op, "tg_embedding_bag") == 0;
}

static int64_t count_rows(const trial *t)
{
    return t->inputs[TABLE].x.shape.size[0];
}

static int64_t width_of(const trial *t)
{
    return t->inputs[TABLE].x.shape.size[1];
}

static int64_t id_at(const trial *t, int64_t i)
{
    return (int64_t)t->inputs[IDS].x.values[i];
}

/* Whether the table is the result of a recorded op. */
static bool is_recorded_view(const trial *t)
{
    const input *table = &t->inputs[TABLE];
    return table->has_recorded_view && table->tensor != table->leaf;
}

/* Only such a table gets a gradient by rows. One that is a view takes no max_norm, even without recording. */
static bool is_contiguous_leaf(const trial *t)
{
    const tg_tensor *table = t->inputs[TABLE].tensor;
    return !is_recorded_view(t) && tg_tensor_is_contiguous(table);
}

static bool is_frozen(const trial *t, int64_t row)
{
    return row < 64 && (options_of(t)->frozen >> row & 1) != 0;
}

static bool is_padding(const trial *t, int64_t id)
{
    int64_t padding = options_of(t)->padding_index;
    return id == (padding < 0 && padding != TG_NO_PADDING ? padding + count_rows(t) : padding);
}

/* ---- a call ---- */

static void draw_table(trial *t, int64_t rows)
{
    lookup_options *o = options_of(t);
    tg_shape shape = TG_SHAPE(rows, draw_chance(t, 5) ? draw_integer(t, 1, 70) : draw_size(t));
    shape.rank -= draw_chance(t, 1);
    if (o->max_norm == 0) {
        draw_input(t, "table", shape);
    } else { /* no row of an expanded table, which is another row, too */
        double *values = numbers(t, count_of(shape));
        for (int64_t i = 0; i < count_of(shape); i++) {
            values[i] = draw_value(t);
        }
        draw_layout(t, "table", t->dtype, shape, values);
    }
    const input *table = &t->inputs[TABLE];
    t->changes_inputs = o->max_norm > 0 && t->is_recording;
    for (int64_t row = 0; shape.rank == 2 && row < rows && row < 64 && !is_recorded_view(t) && draw_chance(t, 40);
         row++) {
        bool is_expanded =
            strstr(table->layout, "expanded") || !tg_tensor_set_rows_frozen(table->tensor, row, 1, true, NULL);
        o->frozen |= is_expanded ? 0 : UINT64_C(1) << row;
    }
    note(t, "    frozen rows 0x%llx\n", (unsigned long long)o->frozen);
}

static void draw_options(trial *t, int64_t rows)
{
    lookup_options *o = options_of(t);
    *o = (lookup_options){.mode = TG_BAG_MEAN, .padding_index = TG_NO_PADDING, .norm_type = 2};
    o->makes_dense = draw_chance(t, 40);
    o->has_config = note_bool(t, "has_config", draw_chance(t, 92));
    if (!o->has_config) {
        return;
    }
    o->mode = (tg_bag_mode)(draw_chance(t, 1) ? 7 : draw_integer(t, TG_BAG_SUM, TG_BAG_MAX));
    if (draw_chance(t, 50)) {
        o->padding_index = draw_chance(t, 3) || rows == 0 ? DRAW_ONE_OF(t, rows, -rows - 1, INT64_MAX)
                                                          : draw_integer(t, -rows, rows - 1);
    }
    if (draw_chance(t, 50)) {
        o->max_norm = draw_chance(t, 5) ? DRAW_DOUBLE_OF(t, -1, NAN) : draw_uniform(t, 0.1, 3);
    }
    if (draw_chance(t, 50)) {
        o->norm_type = draw_chance(t, 3) ? DRAW_DOUBLE_OF(t, 0, -1, NAN) : DRAW_DOUBLE_OF(t, 0.5, 1, 1.5, 3, INFINITY);
    }
    o->scale_by_frequency = draw_chance(t, 40) && (o->mode != TG_BAG_MAX || !is_bag(t) || draw_chance(t, 10));
    note_integer(t, "mode", o->mode);
    note_integer(t, "padding_index", o->padding_index);
    note_double(t, "max_norm", o->max_norm);
    note_double(t, "norm_type", o->norm_type);
    note_bool(t, "scale_by_frequency", o->scale_by_frequency);
}

static void draw_ids(trial *t, tg_shape shape, int64_t rows)
{
    double *ids = numbers(t, count_of(shape));
    int64_t most = rows > 0 ? draw_integer(t, 0, rows - 1) : 0;
    for (int64_t i = 0; i < count_of(shape); i++) {
        ids[i] = (double)draw_integer(t, 0, most);
    }
    if (count_of(shape) > 0 && draw_chance(t, 2)) {
        ids[draw_integer(t, 0, count_of(shape) - 1)] = (double)DRAW_ONE_OF(t, -1, rows, INT32_MIN, INT32_MAX);
    }
    draw_layout(t, "ids", TG_I32, shape, ids);
}

static void draw_embedding(trial *t)
{
    int64_t rows = draw_size(t);
    draw_options(t, rows);
    draw_ids(t, draw_shape(t, 0, 5), rows);
    draw_table(t, rows);
}

/* Offsets that grow from 0, some of them equal: bags without ids. Seldom invalid ones. */
static void draw_offsets(trial *t, int64_t ids)
{
    lookup_options *o = options_of(t);
    o->last_offset = note_bool(t, "last_offset", draw_chance(t, 40));
    int64_t count = draw_chance(t, 3) ? 0 : draw_integer(t, 1, 8), offset = 0;
    double *offsets = numbers(t, count);
    for (int64_t i = 0; i < count; i++) {
        offsets[i] = (double)offset;
        offset += draw_chance(t, 30) ? 0 : draw_integer(t, 0, (ids - offset + 1) / 2);
    }
    if (o->last_offset && count > 0 && draw_chance(t, 60)) {
        offsets[count - 1] = (double)ids;
    }
    if (count > 0 && draw_chance(t, 4)) {
        offsets[draw_integer(t, 0, count - 1)] = (double)DRAW_ONE_OF(t, -1, 1, ids, ids + 1, INT32_MAX);
    }
    draw_layout(t, "offsets", TG_I32, TG_SHAPE(count), offsets);
}

static void draw_embedding_bag(trial *t)
{
    int64_t rows = draw_size(t);
    draw_options(t, rows);
    lookup_options *o = options_of(t);
    bool has_offsets = o->has_config && draw_chance(t, 60);
    tg_shape ids = has_offsets ? TG_SHAPE(draw_size(t)) : draw_shape(t, 2, 2);
    ids.rank = draw_chance(t, 1) ? 0 : ids.rank;
    draw_ids(t, ids, rows);
    draw_table(t, rows);
    if (has_offsets) {
        draw_offsets(t, count_of(ids));
    } else {
        draw_absent(t, "offsets");
    }
    if (o->has_config && draw_chance(t, o->mode == TG_BAG_SUM ? 60 : 3)) {
        tg_shape weights = draw_chance(t, 2) ? TG_SHAPE(draw_size(t)) : ids;
        if (o->max_norm == 0 && o->frozen == 0) {
            draw_input(t, "weights", weights);
        } else { /* not the table: its values change, or rows have no gradient */
            draw_input_within(t, "weights", weights, -2, 2);
        }
    } else {
        draw_absent(t, "weights");
    }
}

/* ---- validity ---- */

static bool is_valid_lookup(const trial *t)
{
    const lookup_options *o = options_of(t);
    const input *ids = &t->inputs[IDS], *table = &t->inputs[TABLE];
    if (table->x.shape.rank != 2 || !(o->max_norm >= 0) || !(o->norm_type > 0) ||
        (o->max_norm > 0 && table->tensor != table->leaf)) {
        return false;
    }
    int64_t rows = count_rows(t);
    if (o->padding_index != TG_NO_PADDING && (o->padding_index < -rows || o->padding_index >= rows)) {
        return false;
    }
    for (int64_t i = 0; i < ids->x.count; i++) {
        if (id_at(t, i) < 0 || id_at(t, i) >= rows) {
            return false;
        }
    }
    return true;
}

static bool is_valid_bag(const trial *t)
{
    const lookup_options *o = options_of(t);
    const input *ids = &t->inputs[IDS], *offsets = &t->inputs[OFFSETS], *weights = &t->inputs[WEIGHTS];
    bool is_mode = o->mode == TG_BAG_SUM || o->mode == TG_BAG_MEAN || o->mode == TG_BAG_MAX;
    if (!is_valid_lookup(t) || !is_mode || (o->mode == TG_BAG_MAX && o->scale_by_frequency) ||
        ids->x.shape.rank != (offsets->is_present ? 1 : 2) || (o->last_offset && !offsets->is_present) ||
        (weights->is_present && (o->mode != TG_BAG_SUM || !tg_shape_equal(weights->x.shape, ids->x.shape)))) {
        return false;
    }
    if (offsets->is_present && o->last_offset && offsets->x.count == 0) {
        return false;
    }
    for (int64_t i = 0; offsets->is_present && i < offsets->x.count; i++) {
        double offset = offsets->x.values[i];
        if (i == 0 ? offset != 0 : offset < offsets->x.values[i - 1] || offset > (double)ids->x.count) {
            return false;
        }
    }
    return true;
}

/* ---- calls ---- */

static tg_tensor *call_embedding(trial *t)
{
    const lookup_options *o = options_of(t);
    tg_embedding_config config = tg_embedding_config_default();
    config.padding_index = o->padding_index;
    config.max_norm = o->max_norm;
    config.norm_type = o->norm_type;
    config.scale_by_frequency = o->scale_by_frequency;
    return tg_embedding(t->tape, t->inputs[IDS].tensor, t->inputs[TABLE].tensor, o->has_config ? &config : NULL);
}

static tg_tensor *call_embedding_bag(trial *t)
{
    const lookup_options *o = options_of(t);
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.mode = o->mode;
    config.offsets = t->inputs[OFFSETS].tensor;
    config.last_offset = o->last_offset;
    config.weights = t->inputs[WEIGHTS].tensor;
    config.padding_index = o->padding_index;
    config.max_norm = o->max_norm;
    config.norm_type = o->norm_type;
    config.scale_by_frequency = o->scale_by_frequency;
    return tg_embedding_bag(t->tape, t->inputs[IDS].tensor, t->inputs[TABLE].tensor, o->has_config ? &config : NULL);
}

static int64_t count_bags(const trial *t)
{
    const input *offsets = &t->inputs[OFFSETS];
    return offsets->is_present ? offsets->x.count - options_of(t)->last_offset : t->inputs[IDS].x.shape.size[0];
}

/* ---- max_norm ---- */

/* The number of ids in bags: those behind the last offset, if it is the end, are dropped;
 * max_norm alone scales their rows, as in torch. */
static int64_t count_ids(const trial *t)
{
    const array *ids = &t->inputs[IDS].x;
    if (!is_bag(t) || !t->inputs[OFFSETS].is_present) {
        return ids->count;
    }
    const array *offsets = &t->inputs[OFFSETS].x;
    return offsets->count == 0          ? 0
           : options_of(t)->last_offset ? (int64_t)offsets->values[offsets->count - 1]
                                        : ids->count;
}

static bool is_named(const trial *t, int64_t row)
{
    for (int64_t i = 0; i < t->inputs[IDS].x.count; i++) {
        if (id_at(t, i) == row) {
            return true;
        }
    }
    return false;
}

/* Scales the rows that the ids name by max_norm / (norm + 1e-7), as torch does, and compares the table with the
 * library's. Further formulas use the library's rows, so that equal values remain equal. Without recording the table
 * keeps its values, and only the result has the scaled rows. */
static void scale_table(trial *t)
{
    const lookup_options *o = options_of(t);
    array *table = &t->inputs[TABLE].x;
    int64_t width = width_of(t);
    bool has_bags = !is_bag(t) || count_bags(t) > 0; /* a call without a result scales nothing */
    for (int64_t row = 0; o->max_norm > 0 && row < count_rows(t); row++) {
        double *values = table->values + row * width, norm = 0, factor = 1;
        for (int64_t c = 0; c < width; c++) {
            norm = isinf(o->norm_type) ? isnan(values[c]) || fabs(values[c]) > norm ? fabs(values[c]) : norm
                                       : norm + pow(fabs(values[c]), o->norm_type);
        }
        bool has_special = !(norm < 1e30);
        norm = isinf(o->norm_type) ? norm : pow(norm, 1 / o->norm_type);
        bool is_scaled = has_bags && is_named(t, row) && !is_frozen(t, row) && norm > o->max_norm;
        factor = is_scaled ? o->max_norm / (norm + 1e-7) : 1;
        double eps = is_scaled ? (t->dtype == TG_F32 ? 1e-5 : 1e-13) : 0;
        for (int64_t c = 0; c < width; c++) {
            if (!t->is_recording) {
                values[c] *= factor;
                continue;
            }
            double got = tg_tensor_value_at(t->inputs[TABLE].tensor, row * width + c), expected = values[c] * factor;
            bool is_equal = got == expected || (isnan(got) && isnan(values[c]));
            if (!is_equal && !has_special && !(fabs(got - expected) <= eps * fabs(expected) + 1e-37)) {
                trial_fail(t, "row %lld of the table has %.17g at %lld, expected %.17g", (long long)row, got,
                           (long long)c, expected);
            }
            values[c] = got;
        }
    }
}

/* ---- the formulas ---- */

static double share_of_id(const trial *t, int64_t i)
{
    if (!options_of(t)->scale_by_frequency) {
        return 1;
    }
    double count = 0;
    for (int64_t k = 0; k < count_ids(t); k++) {
        count += id_at(t, k) == id_at(t, i);
    }
    return 1 / count;
}

/* Adds a value of the gradient of the row that id number i names. Padding and frozen rows have none. */
static void add_to_row(trial *t, int64_t i, int64_t c, double dy)
{
    int64_t id = id_at(t, i);
    if (!is_padding(t, id) && !is_frozen(t, id)) {
        add(&t->inputs[TABLE].dx, id * width_of(t) + c, dy * share_of_id(t, i));
    }
}

/* A gradient by rows lists rows that an id names, each once. Later it may become dense. */
static void check_rows(trial *t)
{
    lookup_options *o = options_of(t);
    const input *table = &t->inputs[TABLE];
    bool is_leaf = table->requires_grad && is_contiguous_leaf(t);
    for (int k = 0; k < t->input_count; k++) {
        is_leaf = is_leaf && (k == TABLE || t->inputs[k].leaf != table->leaf);
    }
    if (!is_leaf || o->passes++ > 0) {
        return;
    }
    if (tg_tensor_grad_kind(table->tensor) != TG_GRAD_ROWS) {
        trial_fail(t, "the gradient of the table is not by rows");
        return;
    }
    tg_grad_rows rows = tg_tensor_grad_rows(table->tensor);
    for (int64_t k = 0; k < rows.count; k++) {
        for (int64_t before = 0; before < k; before++) {
            if (rows.ids[before] == rows.ids[k]) {
                trial_fail(t, "the gradient lists row %d twice", (int)rows.ids[k]);
            }
        }
        if (!is_named(t, rows.ids[k]) || is_frozen(t, rows.ids[k])) {
            trial_fail(t, "the gradient lists row %d", (int)rows.ids[k]);
        }
    }
    if (o->makes_dense) {
        tg_tensor_make_grad_dense(table->tensor, NULL);
    }
}

static void embedding_forward(trial *t)
{
    scale_table(t);
    tg_shape shape = t->inputs[IDS].x.shape;
    int64_t width = shape.size[shape.rank++] = width_of(t);
    array *y = output_of_dtype(t, 0, shape, t->inputs[TABLE].dtype);
    for (int64_t i = 0; i < y->count; i++) {
        double value = t->inputs[TABLE].x.values[id_at(t, i / width) * width + i % width];
        put_terms(y, i, value, t->is_recording ? 0 : fabs(value));
    }
}

static void embedding_backward(trial *t)
{
    const array *dy = &t->outputs[0].dy;
    int64_t width = width_of(t);
    check_rows(t);
    for (int64_t i = 0; i < dy->count; i++) {
        add_to_row(t, i / width, i % width, dy->values[i]);
    }
}

typedef struct bag {
    int64_t begin, end; /* the numbers of its ids */
    int64_t counted;    /* those that are not padding */
} bag;

static bag bag_at(const trial *t, int64_t number)
{
    const input *offsets = &t->inputs[OFFSETS], *ids = &t->inputs[IDS];
    int64_t length = ids->x.shape.rank == 2 ? ids->x.shape.size[1] : 0;
    bag b = {number * length, (number + 1) * length, 0};
    if (offsets->is_present) {
        b.begin = (int64_t)offsets->x.values[number];
        b.end = number + 1 < offsets->x.count ? (int64_t)offsets->x.values[number + 1] : ids->x.count;
    }
    for (int64_t i = b.begin; i < b.end; i++) {
        b.counted += !is_padding(t, id_at(t, i));
    }
    return b;
}

static double table_value(const trial *t, int64_t i, int64_t c)
{
    return t->inputs[TABLE].x.values[id_at(t, i) * width_of(t) + c];
}

/* The number of the id with the maximum: the first of equals, and as in torch a NaN only if it is the first. */
static int64_t find_maximum(const trial *t, bag b, int64_t c)
{
    int64_t best = -1;
    for (int64_t i = b.begin; i < b.end; i++) {
        if (!is_padding(t, id_at(t, i)) && (best < 0 || table_value(t, i, c) > table_value(t, best, c))) {
            best = i;
        }
    }
    return best;
}

/* The factor of id number i in its bag. */
static double factor_of(const trial *t, bag b, int64_t i)
{
    const input *weights = &t->inputs[WEIGHTS];
    return options_of(t)->mode == TG_BAG_MEAN ? 1 / (double)b.counted : weights->is_present ? weights->x.values[i] : 1;
}

static void bag_forward(trial *t)
{
    scale_table(t);
    int64_t width = width_of(t);
    array *y = output_of_dtype(t, 0, TG_SHAPE(count_bags(t), width), t->inputs[TABLE].dtype);
    for (int64_t k = 0; k < y->count; k++) {
        bag b = bag_at(t, k / width);
        int64_t best = options_of(t)->mode == TG_BAG_MAX ? find_maximum(t, b, k % width) : -1;
        if (best >= 0) {
            put(y, k, table_value(t, best, k % width));
        }
        for (int64_t i = b.begin; options_of(t)->mode != TG_BAG_MAX && i < b.end; i++) {
            if (!is_padding(t, id_at(t, i))) {
                add(y, k, factor_of(t, b, i) * table_value(t, i, k % width));
            }
        }
    }
}

static void bag_backward(trial *t)
{
    const array *dy = &t->outputs[0].dy;
    input *weights = &t->inputs[WEIGHTS];
    int64_t width = width_of(t);
    check_rows(t);
    for (int64_t k = 0; k < dy->count; k++) {
        bag b = bag_at(t, k / width);
        int64_t best = options_of(t)->mode == TG_BAG_MAX ? find_maximum(t, b, k % width) : -1;
        if (best >= 0) {
            add_to_row(t, best, k % width, dy->values[k]);
        }
        for (int64_t i = b.begin; options_of(t)->mode != TG_BAG_MAX && i < b.end; i++) {
            add_to_row(t, i, k % width, dy->values[k] * factor_of(t, b, i));
            if (weights->is_present && !is_padding(t, id_at(t, i))) {
                add(&weights->dx, i, dy->values[k] * table_value(t, i, k % width));
            }
        }
    }
}

static const reference references[] = {
    {
        .op = "tg_embedding",
        .draw = draw_embedding,
        .is_valid = is_valid_lookup,
        .call = call_embedding,
        .forward = embedding_forward,
        .backward = embedding_backward,
        .roundings = 64,
        .gradient_roundings = 32,
    },
    {
        .op = "tg_embedding_bag",
        .draw = draw_embedding_bag,
        .is_valid = is_valid_bag,
        .call = call_embedding_bag,
        .forward = bag_forward,
        .backward = bag_backward,
        .roundings = 64,
        .gradient_roundings = 32,
    },
};

const reference_family lookups = {"lookups", references, sizeof references / sizeof *references, 6000};

/* lookups: tg_embedding, and what tg_embedding_bag shares with it: padding, frozen rows, max_norm, row gradients. */
#include "lookups.h"

#include <string.h>

static bool is_bag(const trial *t)
{
    return strcmp(t->reference->op, "tg_embedding_bag") == 0;
}

/* Whether the table is the result of a recorded op. */
static bool is_recorded_view(const trial *t)
{
    const input *table = &t->inputs[TABLE];
    return table->owner != table->tensor;
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

/* ---- a call ---- */

void draw_table(trial *t, int64_t rows)
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
            strstr(table->layout, "step 0") || !tg_tensor_set_rows_frozen(table->tensor, row, 1, true, NULL);
        o->frozen |= is_expanded ? 0 : UINT64_C(1) << row;
    }
    note(t, "    frozen rows 0x%llx\n", (unsigned long long)o->frozen);
}

void draw_options(trial *t, int64_t rows)
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

void draw_ids(trial *t, tg_shape shape, int64_t rows)
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

/* ---- validity ---- */

bool is_valid_lookup(const trial *t)
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

void scale_table(trial *t)
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
                /* rounded, because what becomes 0 is no number times an infinite weight */
                values[c] = t->dtype == TG_F32 ? (float)(values[c] * factor) : values[c] * factor;
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

void add_to_row(trial *t, int64_t i, int64_t c, double dy)
{
    int64_t id = id_at(t, i);
    if (!is_padding(t, id) && !is_frozen(t, id)) {
        add(&t->inputs[TABLE].dx, id * width_of(t) + c, dy * share_of_id(t, i));
    }
}

void check_rows(trial *t)
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

reference_family lookups = {"lookups", references, sizeof references / sizeof *references, 20000, NULL};

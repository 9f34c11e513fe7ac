/* bags: tg_embedding_bag, with offsets, three modes and weights. Its other options are those of lookups.c. */
#include "lookups.h"

/* ---- inputs ---- */

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

void draw_embedding_bag(trial *t)
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
        t->shares = t->shares && o->max_norm == 0 && o->frozen == 0; /* its values change, or rows have no gradient */
        draw_input(t, "weights", weights);
    } else {
        draw_absent(t, "weights");
    }
}

/* ---- validity ---- */

bool is_valid_bag(const trial *t)
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

/* ---- the call ---- */

tg_tensor *call_embedding_bag(trial *t)
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

int64_t count_bags(const trial *t)
{
    const input *offsets = &t->inputs[OFFSETS];
    return offsets->is_present ? offsets->x.count - options_of(t)->last_offset : t->inputs[IDS].x.shape.size[0];
}

/* ---- the formulas ---- */

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

void bag_forward(trial *t)
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

void bag_backward(trial *t)
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

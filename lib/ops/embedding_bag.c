/* embedding_bag: sums, means or maxima of rows of a table, bag by bag, without the rows in between.
 *
 *   sum       y[b] = sum_i w_i W[id_i]        over the entries i of bag b, w_i = 1 without weights
 *   mean      y[b] = sum_i W[id_i] / n        n the entries that count
 *   max       y[b][c] = max_i W[id_i][c]
 *   gradient  dW[id_i] += w_i dy[b], dy[b] / n, or dy[b][c] to the row that had the maximum; dw_i += dy[b] . W[id_i]
 *
 * By frequency, what a row gets is divided by how often the call names it. Entries with the padding index do not
 * count. A bag without entries gives zeros. Of equal maxima the first takes the gradient. Bags are what threads
 * divide forward, columns backward, so the bits do not depend on their number. Follows
 * torch.nn.functional.embedding_bag.
 */
#include "ops/embedding.h"

#include <tapegrad/ops.h>

TG_DECLARE_KERNEL(tg_embedding_bag_forward);
TG_DECLARE_KERNEL(tg_embedding_bag_backward);

typedef struct bag_attributes {
    tg_bag_mode mode;
    int64_t padding; /* a row, or -1 */
    bool has_offsets, has_weights, by_frequency, last_offset;
} bag_attributes;

typedef struct KERNEL(bags) {
    bag_attributes a;
    const int32_t *ids, *offsets;
    int64_t entries, count, length, width; /* ids, bags, ids a bag without offsets, columns */
    int64_t offset_count;                  /* bags, or one more */
    const real *table, *weights, *dy;
    real *y, *values; /* of the table's gradient */
    const int32_t *places;
    const real *scales; /* of the entries' gradients, by frequency, or NULL */
    int32_t *winners;   /* max: the entry that won, for each value of y; -1 for none */
} KERNEL(bags);

static KERNEL(bags) KERNEL(bags_of)(const tg_op_call *call)
{
    const tg_tensor *table = call->inputs[0], *ids = call->inputs[1];
    KERNEL(bags) b = {.a = *(const bag_attributes *)call->attributes, .ids = tg_values(ids), .entries = ids->count};
    b.count = call->outputs[0]->shape[0];
    b.width = table->shape[1];
    b.table = tg_values(table);
    b.y = tg_values(call->outputs[0]);
    b.offsets = b.a.has_offsets ? tg_values(call->inputs[2]) : NULL;
    b.offset_count = b.a.has_offsets ? call->inputs[2]->count : 0;
    b.length = b.a.has_offsets ? 0 : ids->shape[1];
    b.weights = b.a.has_weights ? tg_values(call->inputs[call->input_count - 1]) : NULL;
    b.winners = call->saved;
    return b;
}

static int64_t KERNEL(bag_begin)(const KERNEL(bags) * b, int64_t bag)
{
    return !b->offsets ? bag * b->length : bag < b->offset_count ? b->offsets[bag] : b->entries;
}

/* Entries of a bag that count. */
static int64_t KERNEL(bag_size)(const KERNEL(bags) * b, int64_t bag)
{
    int64_t size = 0;
    for (int64_t i = KERNEL(bag_begin)(b, bag); i < KERNEL(bag_begin)(b, bag + 1); i++) {
        size += b->ids[i] != b->a.padding;
    }
    return size;
}

static void KERNEL(take_maximum)(const KERNEL(bags) * b, int64_t bag, int64_t i, bool first)
{
    const real *row = b->table + b->ids[i] * b->width;
    real *y = b->y + bag * b->width;
    int32_t *winner = b->winners + bag * b->width;
    for (int64_t c = 0; c < b->width; c++) {
        bool wins = first || row[c] > y[c];
        y[c] = wins ? row[c] : y[c];
        winner[c] = wins ? (int32_t)i : winner[c];
    }
}

static void KERNEL(fill_bags)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(bags) *b = context;
    for (int64_t bag = begin; bag < end; bag++) {
        real *y = b->y + bag * b->width;
        bool first = true;
        memset(y, 0, (size_t)b->width * sizeof(real));
        for (int64_t c = 0; b->a.mode == TG_BAG_MAX && c < b->width; c++) {
            b->winners[bag * b->width + c] = -1;
        }
        for (int64_t i = KERNEL(bag_begin)(b, bag); i < KERNEL(bag_begin)(b, bag + 1); i++) {
            if (b->ids[i] == b->a.padding) {
                continue;
            }
            const real *row = b->table + b->ids[i] * b->width;
            if (b->a.mode == TG_BAG_MAX) {
                KERNEL(take_maximum)(b, bag, i, first);
            } else if (b->weights) {
                for (int64_t c = 0; c < b->width; c++) {
                    y[c] += b->weights[i] * row[c];
                }
            } else {
                for (int64_t c = 0; c < b->width; c++) {
                    y[c] += row[c];
                }
            }
            first = false;
        }
        int64_t size = b->a.mode == TG_BAG_MEAN ? KERNEL(bag_size)(b, bag) : 0;
        for (int64_t c = 0; size > 0 && c < b->width; c++) {
            y[c] /= (real)size;
        }
    }
}

void KERNEL(tg_embedding_bag_forward)(const tg_op_call *call)
{
    KERNEL(bags) b = KERNEL(bags_of)(call);
    int64_t work = b.count > 0 ? b.entries / b.count * b.width + b.width : 1;
    tg_parallel_for(b.count, 1 + TG_GRAIN / (work + 1), KERNEL(fill_bags), &b);
}

/* Columns [begin, end) of every row. In the forward pass this was: y[b] = sum of w_i W[id_i]. */
static void KERNEL(add_columns)(void *context, int64_t begin, int64_t end)
{
    const KERNEL(bags) *b = context;
    for (int64_t bag = 0; bag < b->count; bag++) {
        const real *dy = b->dy + bag * b->width;
        if (b->a.mode == TG_BAG_MAX) {
            for (int64_t c = begin; c < end; c++) {
                int32_t winner = b->winners[bag * b->width + c];
                if (winner >= 0) {
                    b->values[b->places[winner] * b->width + c] += dy[c];
                }
            }
            continue;
        }
        real share = b->a.mode == TG_BAG_MEAN ? 1 / (real)KERNEL(bag_size)(b, bag) : 1;
        for (int64_t i = KERNEL(bag_begin)(b, bag); i < KERNEL(bag_begin)(b, bag + 1); i++) {
            if (b->ids[i] != b->a.padding) {
                real *to = b->values + b->places[i] * b->width;
                real scale = (b->weights ? b->weights[i] : share) * (b->scales ? b->scales[i] : 1);
                for (int64_t c = begin; c < end; c++) {
                    to[c] += scale * dy[c];
                }
            }
        }
    }
}

static void KERNEL(add_weights)(const KERNEL(bags) * b, real *dweights)
{
    for (int64_t bag = 0; bag < b->count; bag++) {
        const real *dy = b->dy + bag * b->width;
        for (int64_t i = KERNEL(bag_begin)(b, bag); i < KERNEL(bag_begin)(b, bag + 1); i++) {
            double dot = 0;
            for (int64_t c = 0; b->ids[i] != b->a.padding && c < b->width; c++) {
                dot += (double)dy[c] * (double)b->table[b->ids[i] * b->width + c];
            }
            dweights[i] += (real)dot;
        }
    }
}

void KERNEL(tg_embedding_bag_backward)(const tg_op_call *call)
{
    KERNEL(bags) b = KERNEL(bags_of)(call);
    real *scales = call->scratch;
    int32_t *places = (int32_t *)(scales + b.entries);
    b.dy = call->output_gradients[0];
    b.places = places;
    for (int64_t i = 0; i < b.entries; i++) {
        if (b.ids[i] != b.a.padding) {
            b.values = tg_op_gradient_rows(call, 0, &b.ids[i], 1, &places[i]);
        }
    }
    if (b.a.by_frequency) {
        KERNEL(tg_frequency_scales)(b.ids, b.entries, places + b.entries, scales);
        b.scales = scales;
    }
    if (b.values) {
        int64_t grain = TG_GRAIN / (b.entries + 1);
        tg_parallel_for(b.width, grain < 16 ? 16 : grain, KERNEL(add_columns), &b);
    }
    real *dweights = b.a.has_weights ? call->input_gradients[call->input_count - 1] : NULL;
    if (dweights) {
        KERNEL(add_weights)(&b, dweights);
    }
}

#ifdef TG_ONCE

static bool check_offsets(tg_op_call *call, const tg_tensor *ids, const tg_tensor *offsets, bool last_offset)
{
    const int32_t *offset = tg_values(offsets);
    if (!tg_op_expect_dtype(call, 2, TG_I32) || !tg_op_expect_rank(call, 2, 1) || !tg_op_expect_rank(call, 1, 1)) {
        return false;
    }
    for (int64_t b = 0; b < offsets->count; b++) {
        int32_t least = b > 0 ? offset[b - 1] : 0;
        if (offset[b] < least || offset[b] > ids->count || (b == 0 && offset[b] != 0)) {
            return tg_op_fail(
                call, TG_ERROR_RANGE,
                "offset %d at [%lld]; the first is 0, none is below the one before (%d) or beyond the %lld ids",
                offset[b], (long long)b, least, (long long)ids->count);
        }
    }
    if (last_offset && (offsets->count == 0 || offset[offsets->count - 1] != ids->count)) {
        return tg_op_fail(call, TG_ERROR_RANGE, "the last of %lld offsets is where the last bag ends: it must be %lld",
                          (long long)offsets->count, (long long)ids->count);
    }
    return true;
}

static bool embedding_bag_shape(tg_op_call *call)
{
    const bag_attributes *a = call->attributes;
    const tg_tensor *table = call->inputs[0], *ids = call->inputs[1];
    const tg_tensor *weights = a->has_weights ? call->inputs[call->input_count - 1] : NULL;
    if (!tg_op_expect_float(call, 0) || !tg_op_expect_rank(call, 0, 2) ||
        !tg_op_expect_ids_below(call, 1, table->shape[0])) {
        return false;
    }
    if ((unsigned)a->mode > TG_BAG_MAX || (weights && a->mode != TG_BAG_SUM)) {
        return tg_op_fail(call, TG_ERROR_VALUE,
                          weights ? "weights go with TG_BAG_SUM alone, not with mode %d" : "%d is not a mode of bags",
                          (int)a->mode);
    }
    if (a->by_frequency && a->mode == TG_BAG_MAX) {
        return tg_op_fail(call, TG_ERROR_VALUE, "scaling by frequency goes with sums and means, not with maxima");
    }
    if (a->has_offsets ? !check_offsets(call, ids, call->inputs[2], a->last_offset) : !tg_op_expect_rank(call, 1, 2)) {
        return false;
    }
    if (weights && (!tg_op_expect_float(call, call->input_count - 1) ||
                    !tg_op_expect_same_shape(call, 1, call->input_count - 1))) {
        return false;
    }
    int64_t bags = a->has_offsets ? call->inputs[2]->count - a->last_offset : ids->shape[0], width = table->shape[1];
    return tg_op_output(call, 0, tg_dtype_of(table), tg_shape_make(2, (int64_t[]){bags, width})) &&
           (a->mode != TG_BAG_MAX || tg_op_save(call, bags * width, sizeof(int32_t))) &&
           tg_op_touches_rows(call, ids->count) &&
           tg_op_backward_scratch(call, ids->count, sizeof(double) + 2 * sizeof(int32_t));
}

static const tg_op embedding_bag_op = {
    .name = "embedding_bag",
    .shape = embedding_bag_shape,
    .f32 = {tg_embedding_bag_forward_f32, tg_embedding_bag_backward_f32},
    .f64 = {tg_embedding_bag_forward_f64, tg_embedding_bag_backward_f64},
    .backward_reads_inputs = 2 | 4 | 8, /* ids, offsets, weights */
    .row_inputs = 1,
};

/* With weights backward reads the table too. */
static const tg_op weighted_embedding_bag_op = {
    .name = "embedding_bag",
    .shape = embedding_bag_shape,
    .f32 = {tg_embedding_bag_forward_f32, tg_embedding_bag_backward_f32},
    .f64 = {tg_embedding_bag_forward_f64, tg_embedding_bag_backward_f64},
    .backward_reads_inputs = 1 | 2 | 4 | 8,
    .row_inputs = 1,
};

tg_embedding_bag_config tg_embedding_bag_config_default(void)
{
    return (tg_embedding_bag_config){.mode = TG_BAG_MEAN, .padding_index = TG_NO_PADDING};
}

tg_tensor *tg_embedding_bag(tg_tape *t, tg_tensor *table, tg_tensor *ids, const tg_embedding_bag_config *given)
{
    tg_embedding_bag_config config = given ? *given : tg_embedding_bag_config_default();
    bag_attributes a = {.mode = config.mode,
                        .has_offsets = config.offsets,
                        .has_weights = config.weights,
                        .by_frequency = config.scale_by_frequency,
                        .last_offset = config.offsets && config.last_offset};
    tg_tensor *inputs[4] = {table, ids};
    int count = 2;
    if (config.offsets) {
        inputs[count++] = config.offsets;
    }
    if (config.weights) {
        inputs[count++] = config.weights;
    }
    return tg_padding_row(t, "embedding_bag", table, config.padding_index, &a.padding)
               ? tg_apply(t, config.weights ? &weighted_embedding_bag_op : &embedding_bag_op, inputs, count, &a,
                          sizeof a)
               : NULL;
}

#endif

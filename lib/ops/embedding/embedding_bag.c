/* embedding_bag: the sum, mean or maximum of the rows in each bag. A bag is a list of ids, its entries.
 *
 *   sum       y[b,:] = sum_i w_i W[id_i,:]        dW[id_i,:] += w_i dy[b,:]       i: the entries of bag b
 *                                                 dw_i += dy[b,:] . W[id_i,:]     w_i: the weights, or 1
 *   mean      y[b,:] = sum_i W[id_i,:] / n        dW[id_i,:] += dy[b,:] / n       n: the number of entries
 *   max       y[b,c] = max_i W[id_i,c]            dW[id_i,c] += dy[b,c]           for the first i that has the maximum
 *
 * W is (V,C), y (bags,C). The rows are never copied: no tensor with one row per entry exists. Entries with the padding
 * index are left out, also in n, and so are ids behind the last bag. An empty bag gives zeros. With scale_by_frequency,
 * the gradient of a row is divided by the number of times that the bags name it. Threads divide the bags in the forward
 * pass and the columns in backward, so the result has the same bits for any number of threads. Follows
 * torch.nn.functional.embedding_bag.
 */
#include "ops/embedding/embedding.h"
#include "ops/grad_rows.h"

TG_DECLARE_KERNELS(tg_embedding_bag_forward, tg_embedding_bag_backward);

typedef struct bag_attributes {
    tg_bag_mode mode;
    int64_t padding; /* the padding row, or -1 */
    bool has_offsets, has_weights, by_frequency, last_offset;
    tg_norm_limit limit;
} bag_attributes;

typedef struct bags {
    bag_attributes a;
    const int32_t *ids, *offsets;
    /* the numbers of ids in bags, of bags, of ids per bag if no offsets are given, and of columns */
    int64_t entries, count, length, width;
    int64_t offset_count; /* the number of bags, plus 1 with last_offset; 0 without offsets */
    const real *table, *weights, *dy;
    const real *copies; /* one row per entry, with a max_norm that must not change the table; else NULL */
    real *y, *dW;
    const int32_t *rows; /* the row of dW that belongs to each entry; -1: no gradient */
    int32_t first_new;   /* sum, mean: from this row of dW on, they have no values until the first entry is written */
    const real *scales;  /* the factor of each entry's gradient, with scale_by_frequency; else NULL */
    int32_t *winners;    /* max: the entry that gave each value of y; -1: the bag is empty */
} bags;

static bags bags_of(const tg_op_call *call)
{
    const tg_tensor *ids = call->inputs[0], *table = call->inputs[1];
    bags b = {.a = *(const bag_attributes *)call->attributes, .ids = tg_values(ids)};
    b.count = call->outputs[0]->shape[0];
    b.width = table->shape[1];
    b.table = tg_values(table);
    b.y = tg_values(call->outputs[0]);
    b.offsets = b.a.has_offsets ? tg_values(call->inputs[2]) : NULL;
    b.offset_count = b.a.has_offsets ? call->inputs[2]->count : 0;
    b.entries = b.a.last_offset ? b.offsets[b.offset_count - 1] : b.a.has_offsets && b.count == 0 ? 0 : ids->count;
    b.length = b.a.has_offsets ? 0 : ids->shape[1];
    b.weights = b.a.has_weights ? tg_values(call->inputs[call->input_count - 1]) : NULL;
    b.winners = call->saved;
    return b;
}

/* Returns the index of a bag's first entry. */
static int64_t bag_begin(const bags *b, int64_t bag)
{
    return !b->offsets ? bag * b->length : bag < b->offset_count ? b->offsets[bag] : b->entries;
}

/* Returns the number of entries of a bag, without those of the padding row. */
static int64_t bag_size(const bags *b, int64_t bag)
{
    int64_t size = 0;
    for (int64_t i = bag_begin(b, bag); i < bag_begin(b, bag + 1); i++) {
        size += b->ids[i] != b->a.padding;
    }
    return size;
}

static const real *row_of(const bags *b, int64_t i)
{
    return b->copies ? b->copies + i * b->width : b->table + b->ids[i] * b->width;
}

/* Updates the maxima of a bag with entry i; the first entry sets them. */
static void take_maximum(const bags *b, int64_t bag, int64_t i, bool first)
{
    const real *row = row_of(b, i);
    real *y = b->y + bag * b->width;
    int32_t *winner = b->winners + bag * b->width;
    for (int64_t c = 0; c < b->width; c++) {
        bool wins = first || row[c] > y[c];
        y[c] = wins ? row[c] : y[c];
        winner[c] = wins ? (int32_t)i : winner[c];
    }
}

/* The entries that are added at once, so that y is read and written once for them. */
enum { BAG_TOGETHER = 4 };

/* Adds `count` rows to y, one after the other; they are multiplied by the weights, unless these are NULL. */
static inline void add_rows(const real *const *rows, const real *weights, int64_t count, int64_t width,
                            real *restrict y)
{
    if (count == BAG_TOGETHER && !weights) {
        const real *x0 = rows[0], *x1 = rows[1], *x2 = rows[2], *x3 = rows[3];
        for (int64_t c = 0; c < width; c++) {
            y[c] = (((y[c] + x0[c]) + x1[c]) + x2[c]) + x3[c];
        }
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const real *x = rows[i];
        for (int64_t c = 0; c < width; c++) {
            y[c] += weights ? weights[i] * x[c] : x[c];
        }
    }
}

/* Adds the entries of a bag to y, those of the padding row left out. */
static void add_bag(const bags *b, int64_t bag, real *y)
{
    const real *rows[BAG_TOGETHER];
    real weights[BAG_TOGETHER];
    int64_t count = 0;
    for (int64_t i = bag_begin(b, bag), end = bag_begin(b, bag + 1); i < end; i++) {
        if (b->ids[i] != b->a.padding) {
            weights[count] = b->weights ? b->weights[i] : 1;
            rows[count++] = row_of(b, i);
        }
        if (i + BAG_TOGETHER < b->entries) {
            tg_prefetch_row(row_of(b, i + BAG_TOGETHER), (size_t)b->width * sizeof(real));
        }
        if (count == BAG_TOGETHER) {
            add_rows(rows, b->weights ? weights : NULL, count, b->width, y);
            count = 0;
        }
    }
    add_rows(rows, b->weights ? weights : NULL, count, b->width, y);
}

static void take_maxima(const bags *b, int64_t bag)
{
    bool first = true;
    for (int64_t c = 0; c < b->width; c++) {
        b->winners[bag * b->width + c] = -1;
    }
    for (int64_t i = bag_begin(b, bag); i < bag_begin(b, bag + 1); i++) {
        if (b->ids[i] != b->a.padding) {
            take_maximum(b, bag, i, first);
            first = false;
        }
    }
}

static void fill_bags(void *context, int64_t begin, int64_t end)
{
    const bags *b = context;
    for (int64_t bag = begin; bag < end; bag++) {
        real *y = b->y + bag * b->width;
        memset(y, 0, (size_t)b->width * sizeof(real));
        if (b->a.mode == TG_BAG_MAX) {
            take_maxima(b, bag);
            continue;
        }
        add_bag(b, bag, y);
        int64_t size = b->a.mode == TG_BAG_MEAN ? bag_size(b, bag) : 0;
        for (int64_t c = 0; size > 0 && c < b->width; c++) {
            y[c] /= (real)size;
        }
    }
}

void KERNEL(tg_embedding_bag_forward)(const tg_op_call *call)
{
    const tg_norm_limit *limit = &((const bag_attributes *)call->attributes)->limit;
    tg_limit_norms(call, limit);
    bags b = bags_of(call);
    if (tg_limits_copies(call, limit)) {
        real *copies = call->scratch;
        for (int64_t i = 0; i < b.entries; i++) {
            memcpy(copies + i * b.width, b.table + b.ids[i] * b.width, (size_t)b.width * sizeof(real));
        }
        tg_limit_copies(call, limit, copies);
        b.copies = copies;
    }
    int64_t work = b.count > 0 ? b.entries / b.count * b.width + b.width : 1;
    tg_parallel_for(b.count, 1 + TG_GRAIN / (work + 1), fill_bags, &b);
}

/* Adds the columns begin .. end - 1 of dW. The forward pass computed y[b,:] = sum_i w_i W[id_i,:]. */
static void add_columns(void *context, int64_t begin, int64_t end)
{
    const bags *b = context;
    int32_t next_new = b->first_new;
    for (int64_t bag = 0; bag < b->count; bag++) {
        const real *dy = b->dy + bag * b->width;
        if (b->a.mode == TG_BAG_MAX) {
            for (int64_t c = begin; c < end; c++) {
                int32_t winner = b->winners[bag * b->width + c];
                if (winner >= 0) {
                    b->dW[b->rows[winner] * b->width + c] += dy[c];
                }
            }
            continue;
        }
        real share = b->a.mode == TG_BAG_MEAN ? 1 / (real)bag_size(b, bag) : 1;
        for (int64_t i = bag_begin(b, bag); i < bag_begin(b, bag + 1); i++) {
            if (b->ids[i] != b->a.padding) {
                const real scale = (b->weights ? b->weights[i] : share) * (b->scales ? b->scales[i] : 1);
                add_scaled(b->dW + b->rows[i] * b->width + begin, dy + begin, scale, end - begin,
                           is_new_row(b->rows[i], &next_new));
            }
        }
    }
}

/* Adds dy[b,:] . W[id_i,:] to the gradient of each weight. */
static void add_weights(const bags *b, real *dweights)
{
    for (int64_t bag = 0; bag < b->count; bag++) {
        const real *dy = b->dy + bag * b->width;
        for (int64_t i = bag_begin(b, bag); i < bag_begin(b, bag + 1); i++) {
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
    bags b = bags_of(call);
    real *scales = call->scratch;
    int32_t *rows = (int32_t *)(scales + b.entries), *sorted = rows + b.entries;
    b.dy = call->output_gradients[0];
    b.rows = rows;
    /* A maximum writes only some values of a row. */
    b.dW = tg_rows_of_ids(call, 1, b.ids, b.entries, b.a.padding, rows, b.a.mode == TG_BAG_MAX ? NULL : &b.first_new);
    if (b.a.by_frequency) {
        KERNEL(tg_frequency_scales)(b.ids, b.entries, sorted, scales);
        b.scales = scales;
    }
    if (b.dW) {
        int64_t grain = TG_GRAIN / (b.entries + 1);
        tg_parallel_for(b.width, grain < 16 ? 16 : grain, add_columns, &b);
    }
    real *dweights = b.a.has_weights ? call->input_gradients[call->input_count - 1] : NULL;
    if (dweights) {
        add_weights(&b, dweights);
    }
}

#ifdef TG_ONCE

static bool check_offsets(tg_op_call *call, const tg_tensor *ids, const tg_tensor *offsets, bool last_offset)
{
    const int32_t *offset = tg_values(offsets);
    if (!tg_op_expect_dtype(call, 2, TG_I32) || !tg_op_expect_rank(call, 2, 1) || !tg_op_expect_rank(call, 0, 1)) {
        return false;
    }
    for (int64_t b = 0; b < offsets->count; b++) {
        int32_t least = b > 0 ? offset[b - 1] : 0;
        if (offset[b] < least || offset[b] > ids->count || (b == 0 && offset[b] != 0)) {
            return tg_op_fail(call, TG_ERROR_RANGE,
                              "offset %d at [%lld]; the first must be 0, and each must be at least the one before (%d) "
                              "and at most %lld, the number of ids",
                              offset[b], (long long)b, least, (long long)ids->count);
        }
    }
    return !last_offset || offsets->count > 0 ||
           tg_op_fail(call, TG_ERROR_RANGE,
                      "the offsets are empty; with last_offset they must hold the end of the last bag");
}

static bool embedding_bag_shape(tg_op_call *call)
{
    const bag_attributes *a = call->attributes;
    const tg_tensor *ids = call->inputs[0], *table = call->inputs[1];
    const tg_tensor *weights = a->has_weights ? call->inputs[call->input_count - 1] : NULL;
    if (!tg_op_expect_float(call, 1) || !tg_op_expect_rank(call, 1, 2) ||
        !tg_op_expect_ids_below(call, 0, table->shape[0]) || !tg_check_norm_limit(call, 1, &a->limit)) {
        return false;
    }
    if ((unsigned)a->mode > TG_BAG_MAX) {
        return tg_op_fail(call, TG_ERROR_VALUE,
                          "mode %d does not exist; it must be TG_BAG_SUM, TG_BAG_MEAN or TG_BAG_MAX", (int)a->mode);
    }
    if (weights && a->mode != TG_BAG_SUM) {
        return tg_op_fail(call, TG_ERROR_VALUE, "weights need TG_BAG_SUM; the mode is %s",
                          a->mode == TG_BAG_MEAN ? "TG_BAG_MEAN" : "TG_BAG_MAX");
    }
    if (a->by_frequency && a->mode == TG_BAG_MAX) {
        return tg_op_fail(call, TG_ERROR_VALUE, "scale_by_frequency is not allowed with TG_BAG_MAX");
    }
    if (a->has_offsets ? !check_offsets(call, ids, call->inputs[2], a->last_offset) : !tg_op_expect_rank(call, 0, 2)) {
        return false;
    }
    if (weights && !tg_op_expect_float(call, call->input_count - 1)) {
        return false;
    }
    if (weights && !tg_same_shape(weights, ids)) {
        return tg_op_fail(call, TG_ERROR_SHAPE, "the weights have shape %s and the ids %s; they must be equal",
                          tg_shape_text_of(weights).text, tg_shape_text_of(ids).text);
    }
    int64_t bag_count = a->has_offsets ? call->inputs[2]->count - a->last_offset : ids->shape[0],
            width = table->shape[1];
    return tg_op_output(call, 0, tg_dtype_of(table), tg_shape_make(2, (int64_t[]){bag_count, width})) &&
           (a->mode != TG_BAG_MAX || tg_op_save(call, bag_count * width, sizeof(int32_t))) &&
           tg_op_reserve_rows(call, ids->count) &&
           (a->limit.norm == 0 || tg_op_scratch(call, ids->count, sizeof(int32_t))) &&
           (!tg_limits_copies(call, &a->limit) ||
            tg_op_scratch(call, ids->count, (size_t)width * tg_size_of(table->dtype))) &&
           tg_op_backward_scratch(call, ids->count, sizeof(double) + 2 * sizeof(int32_t));
}

static const tg_op embedding_bag_op = {
    .name = "embedding_bag",
    .shape = embedding_bag_shape,
    .input_names = {"ids", "table", "offsets"},
    TG_KERNELS(tg_embedding_bag_forward, tg_embedding_bag_backward),
    .backward_ignores_inputs = 1u << 1, /* the table */
    .backward_ignores_outputs = TG_OP_ALL,
    .row_inputs = 1u << 1,
    .lookups = 1u << TG_LOOKUP_TABLE,
};

/* With weights, backward also reads the table. */
#define WEIGHTED_OP(...)                                                                                        \
    {                                                                                                           \
        .name = "embedding_bag", .shape = embedding_bag_shape, .input_names = {"ids", "table", __VA_ARGS__},    \
        TG_KERNELS(tg_embedding_bag_forward, tg_embedding_bag_backward), .backward_ignores_outputs = TG_OP_ALL, \
        .row_inputs = 1u << 1, .lookups = 1u << TG_LOOKUP_TABLE,                                                \
    }

static const tg_op weighted_op = WEIGHTED_OP("weights"), weighted_op_with_offsets = WEIGHTED_OP("offsets", "weights");

static const char mark[] = "tg_embedding_bag_config_default";

tg_embedding_bag_config tg_embedding_bag_config_default(void)
{
    return (tg_embedding_bag_config){.mark = mark, .mode = TG_BAG_MEAN, .padding_index = TG_NO_PADDING, .norm_type = 2};
}

tg_tensor *tg_embedding_bag(tg_tape *t, tg_tensor *ids, tg_tensor *table, const tg_embedding_bag_config *given)
{
    if (!tg_tape_expect_config(t, "embedding_bag", given, mark)) {
        return NULL;
    }
    tg_embedding_bag_config config = given ? *given : tg_embedding_bag_config_default();
    bag_attributes a = {.mode = config.mode,
                        .has_offsets = config.offsets,
                        .has_weights = config.weights,
                        .by_frequency = config.scale_by_frequency,
                        .last_offset = config.offsets && config.last_offset,
                        .limit = {config.max_norm, config.norm_type}};
    tg_tensor *inputs[4] = {ids, table};
    int count = 2;
    const tg_op *op = &embedding_bag_op;
    if (config.offsets) {
        inputs[count++] = config.offsets;
    }
    if (config.weights) {
        inputs[count++] = config.weights;
        op = config.offsets ? &weighted_op_with_offsets : &weighted_op;
    }
    return tg_padding_row(t, op->name, table, config.padding_index, &a.padding)
               ? tg_apply(t, op, inputs, count, &a, sizeof a, NULL)
               : NULL;
}

#endif

/* The operations that an instruction can call: products, embedding, attention, norms, losses and sequences. Where the
 * library has one op for what a chain of ops computes, settings.is_elementary calls the chain. */
#include <string.h>

#include "programs.h"

static bool is_elementary(const call *c)
{
    return c->run->s.is_elementary;
}

/* ---- products ---- */

static tg_tensor *matmul(call *c)
{
    return tg_matmul(c->tape, c->x[0], c->x[1]);
}

static tg_tensor *linear(call *c)
{
    tg_tensor *bias = c->option[0] % 2 ? c->x[2] : NULL;
    describe(c, bias ? "" : ", no bias");
    if (!is_elementary(c) || tg_tensor_rank(c->x[1]) != 2) {
        return tg_linear(c->tape, c->x[0], c->x[1], bias);
    }
    tg_tensor *y = tg_matmul(c->tape, c->x[0], tg_transpose(c->tape, c->x[1], 0, 1));
    return bias ? tg_add(c->tape, y, bias) : y;
}

static tg_tensor *conv1d(call *c)
{
    tg_conv1d_config config = tg_conv1d_config_default();
    config.stride = 1 + c->option[0] % 2;
    config.padding = c->option[1] % 3;
    config.dilation = 1 + c->option[2] % 2;
    describe(c, ", stride %d padding %d dilation %d", (int)config.stride, (int)config.padding, (int)config.dilation);
    return tg_conv1d(c->tape, c->x[0], c->x[1], c->option[3] % 2 ? c->x[2] : NULL, &config);
}

static tg_tensor *pool(call *c)
{
    tg_pool1d_config config = tg_pool1d_config_default();
    int64_t kernel = 1 + c->option[0] % 3;
    config.stride = c->option[1] % 3;
    config.padding = c->option[2] % (kernel / 2 + 1);
    describe(c, ", kernel %d stride %d padding %d", (int)kernel, (int)config.stride, (int)config.padding);
    return (c->option[3] % 2 ? tg_max_pool1d : tg_avg_pool1d)(c->tape, c->x[0], kernel, &config);
}

/* ---- embedding ---- */

/* The table as another input of the same op. */
static tg_tensor *table_again(call *c)
{
    return c->run->s.copies_inputs ? tg_mul_scalar(c->tape, c->x[0], 1) : c->x[0];
}

static tg_tensor *embedding(call *c)
{
    tg_embedding_config config = tg_embedding_config_default();
    const program *p = c->run->p;
    int64_t rows = tg_tensor_size(c->x[0], 0);
    bool is_empty = c->option[2] % 16 == 0 && !is_left_out("no_ids");
    tg_shape shape = is_empty ? TG_SHAPE(0) : c->option[2] % 3 ? TG_SHAPE(p->batch, p->time) : TG_SHAPE(p->time);
    /* with both options the gradient is not that of the values */
    bool has_options = !c->run->s.is_differentiated && !is_left_out("no_ids");
    if (has_options && rows > 0 && c->option[1] % 4 == 0) {
        config.padding_index = c->option[1] / 4 % rows;
        describe(c, ", padding %lld", (long long)config.padding_index);
    }
    config.scale_by_frequency = has_options && c->option[1] % 8 == 3;
    tg_tensor *ids = constant_ids(c, shape, c->option[0], rows);
    return tg_embedding(c->tape, ids, c->x[0], &config);
}

static tg_tensor *embedding_bag(call *c)
{
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    const program *p = c->run->p;
    int64_t rows = tg_tensor_size(c->x[0], 0), length = p->time;
    config.mode = (tg_bag_mode)(c->option[1] % 3);
    bool is_empty = c->option[2] % 16 == 0 && !is_left_out("no_ids");
    describe(c, ", mode %d", config.mode);
    if (rows > 0 && c->option[1] / 3 % 4 == 0 && !is_left_out("no_ids")) {
        config.padding_index = c->option[1] / 12 % rows;
        describe(c, ", padding %lld", (long long)config.padding_index);
    }
    if (is_empty) {
        length = 0;
        describe(c, ", no ids");
    }
    tg_shape shape = TG_SHAPE(p->batch, length);
    if (c->option[2] % 3 == 1) {
        int32_t offsets[3] = {0, (int32_t)(length / 2), (int32_t)length};
        shape = TG_SHAPE(length);
        config.offsets = tg_constant(c->tape, TG_I32, TG_SHAPE(3), offsets);
        config.last_offset = c->option[2] % 2;
        describe(c, ", offsets");
    }
    if (config.mode == TG_BAG_SUM && c->option[3] % 2) {
        config.weights = constant(c, shape, c->option[3], -1, 1);
        describe(c, ", weights");
    }
    tg_tensor *ids = constant_ids(c, shape, c->option[0], rows);
    if (is_elementary(c) && config.mode == TG_BAG_SUM && !config.offsets && !config.weights) {
        tg_embedding_config same = tg_embedding_config_default();
        same.padding_index = config.padding_index;
        tg_tensor *y = tg_embedding(c->tape, ids, c->x[0], &same);
        if (config.padding_index != TG_NO_PADDING) {
            /* the padding row counts as zeros */
            tg_tensor *is_padding =
                tg_eq(c->tape, ids, tg_full(c->tape, TG_I32, TG_SCALAR, (double)same.padding_index));
            y = tg_masked_fill(c->tape, y, tg_unsqueeze(c->tape, is_padding, -1), 0);
        }
        return tg_sum(c->tape, y, TG_AXES(1), TG_DROP_AXES);
    }
    return tg_embedding_bag(c->tape, ids, c->x[0], &config);
}

/* ---- attention ---- */

/* A bias (T,S). In some rows all keys have the same large negative one, as masks of padded rows have it. */
static tg_tensor *draw_bias(call *c)
{
    int64_t queries = tg_tensor_size(c->x[0], -2), keys = tg_tensor_size(c->x[1], -2);
    tg_tensor *bias = constant(c, TG_SHAPE(queries, keys), c->option[2], -2, 2);
    if (c->option[2] % 3 == 0 && !is_left_out("huge_bias")) {
        describe(c, " huge");
        /* beside the largest ones a finite difference of the scores vanishes */
        double huge = c->run->s.is_differentiated ? -50 : c->run->s.dtype == TG_F64 ? -1e30 : -1e9;
        tg_tensor *rows = constant_mask(c, TG_SHAPE(queries, 1), c->option[2]);
        tg_tensor *all = tg_expand(c->tape, rows, TG_SHAPE(queries, keys));
        bias = tg_masked_fill(c->tape, bias, all, huge);
    }
    return bias;
}

static tg_tensor *attention(call *c)
{
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.path = is_elementary(c) ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED;
    config.is_causal = c->option[0] % 3 == 0;
    config.dropout = c->option[0] / 3 % 3 == 0 ? 0.3 : 0;
    describe(c, "%s%s", config.is_causal ? ", causal" : "", config.dropout > 0 ? ", dropout" : "");
    int64_t batch = tg_tensor_size(c->x[0], 0), keys = tg_tensor_size(c->x[1], -2);
    if (c->option[1] % 3 == 0) {
        describe(c, ", bias");
        config.bias = draw_bias(c);
    }
    if (c->option[1] / 3 % 3 == 0 && tg_tensor_rank(c->x[0]) > 2) {
        describe(c, ", lengths");
        config.lengths = constant_ids(c, TG_SHAPE(batch), c->option[3], keys + 1);
    } else if (c->option[1] / 3 % 3 == 1 && tg_tensor_rank(c->x[0]) > 2) {
        describe(c, ", mask");
        config.key_mask = constant_mask(c, TG_SHAPE(batch, keys), c->option[3]);
    }
    if (config.is_causal && c->option[3] % 3 == 0) {
        config.window = 1 + c->option[3] / 3 % 4;
        describe(c, ", window %d", (int)config.window);
    }
    if (c->option[3] % 4 == 0) {
        describe(c, ", first keys");
        config.first_keys = constant_ids(c, TG_SHAPE(tg_tensor_size(c->x[0], -2)), c->option[2], keys + 1);
    }
    return tg_scaled_dot_product_attention(c->tape, c->x[0], c->x[1], c->x[2], &config);
}

static tg_tensor *rotary(call *c)
{
    tg_rotary_config config = tg_rotary_config_default();
    if (c->option[1] % 3 == 0) {
        describe(c, ", positions");
        config.positions = constant_ids(c, TG_SHAPE(tg_tensor_size(c->x[0], -2)), c->option[2], 20);
        config.llama3_factor = c->option[3] % 2 ? 8 : 1;
        config.float_angles = c->option[3] / 2 % 2;
    }
    return tg_rotary(c->tape, c->x[0], c->option[0] % 5, &config);
}

/* ---- norms and dropout ---- */

static tg_tensor *softmax(call *c)
{
    int axis = draw_axis(c, c->option[0], c->x[0]);
    if (c->option[1] % 2) {
        describe(c, " log");
        return tg_log_softmax(c->tape, c->x[0], axis);
    }
    if (is_elementary(c)) {
        tg_tensor *sum = tg_logsumexp(c->tape, c->x[0], TG_AXES(axis), TG_KEEP_AXES);
        return tg_exp(c->tape, tg_sub(c->tape, c->x[0], sum));
    }
    return tg_softmax(c->tape, c->x[0], axis);
}

static tg_tensor *layer_norm(call *c)
{
    const double eps = 1e-2;
    tg_tape *t = c->tape;
    tg_tensor *x = c->x[0];
    if (c->option[0] % 3 == 0) {
        describe(c, " rms");
        return tg_rms_norm(t, x, c->x[1], eps);
    }
    tg_tensor *bias = c->option[0] % 3 == 1 ? c->x[2] : NULL;
    describe(c, bias ? "" : ", no bias");
    if (!is_elementary(c)) {
        return tg_layer_norm(t, x, c->x[1], bias, eps);
    }
    tg_tensor *centered = tg_sub(t, x, tg_mean(t, x, TG_AXES(-1), TG_KEEP_AXES));
    tg_tensor *variance = tg_mean(t, tg_mul(t, centered, centered), TG_AXES(-1), TG_KEEP_AXES);
    tg_tensor *y = tg_div(t, centered, tg_sqrt(t, tg_add_scalar(t, variance, eps)));
    y = tg_mul(t, y, c->x[1]);
    return bias ? tg_add(t, y, bias) : y;
}

static tg_tensor *dropout(call *c)
{
    return tg_dropout(c->tape, c->x[0], 0.3);
}

/* ---- losses ---- */

static tg_reduction draw_reduction(call *c)
{
    tg_reduction reduction = (tg_reduction)(c->option[3] % 3);
    static const char *const names[] = {"mean", "sum", "none"};
    describe(c, ", %s", names[reduction]);
    return reduction;
}

static tg_shape without_last(const tg_tensor *x)
{
    tg_shape shape = tg_tensor_shape(x);
    shape.rank -= shape.rank > 0;
    return shape;
}

static tg_tensor *cross_entropy(call *c)
{
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.reduction = draw_reduction(c);
    config.label_smoothing = c->option[1] % 3 == 0 && !is_elementary(c) ? 0.125 : 0;
    config.ignore_index = c->option[1] % 4 == 1 ? 0 : -100;
    describe(c, "%s", config.ignore_index == 0 ? ", 0 ignored" : "");
    tg_tensor *targets = constant_ids(c, without_last(c->x[0]), c->option[0], tg_tensor_size(c->x[0], -1));
    if (c->option[1] % 3 != 0 && (is_elementary(c) || c->option[2] % 2)) {
        return tg_nll_loss(c->tape, tg_log_softmax(c->tape, c->x[0], -1), targets, &config);
    }
    config.label_smoothing = c->option[1] % 3 == 0 ? 0.125 : 0;
    return tg_cross_entropy(c->tape, c->x[0], targets, &config);
}

static tg_tensor *linear_cross_entropy(call *c)
{
    tg_cross_entropy_config config = tg_cross_entropy_config_default();
    config.reduction = draw_reduction(c);
    tg_tensor *targets = constant_ids(c, without_last(c->x[0]), c->option[0], tg_tensor_size(c->x[1], 0));
    return is_elementary(c) ? tg_cross_entropy(c->tape, tg_linear(c->tape, c->x[0], c->x[1], NULL), targets, &config)
                            : tg_linear_cross_entropy(c->tape, c->x[0], c->x[1], targets, &config);
}

/* Losses of two tensors of one shape. */
static tg_tensor *distance(call *c)
{
    tg_tape *t = c->tape;
    tg_tensor *a = c->x[0], *b = c->x[1];
    tg_reduction reduction = draw_reduction(c);
    tg_smooth_l1_loss_config smooth = tg_smooth_l1_loss_config_default();
    tg_huber_loss_config huber = tg_huber_loss_config_default();
    tg_margin_ranking_loss_config ranking = tg_margin_ranking_loss_config_default();
    tg_kl_div_config divergence = tg_kl_div_config_default();
    smooth.reduction = huber.reduction = ranking.reduction = divergence.reduction = reduction;
    switch (c->option[0] % 7) {
    case 0: describe(c, ", l1"); return tg_l1_loss(t, a, b, reduction);
    case 1: describe(c, ", smooth l1"); return tg_smooth_l1_loss(t, a, b, &smooth);
    case 2: describe(c, ", huber"); return tg_huber_loss(t, a, b, &huber);
    case 3:
        /* of vectors of length one it is the sign of a product, which has no slope, and jumps at 0 */
        describe(c, ", cosine similarity");
        return tg_cosine_similarity(t, positive(c, a), positive(c, b), -1, 1e-8);
    case 4: {
        tg_tensor *sign = tg_add_scalar(t, tg_mul_scalar(t, constant(c, tg_tensor_shape(a), 5, 0.5, 0.5), 4), -1);
        describe(c, ", margin ranking");
        return tg_margin_ranking_loss(t, a, b, sign, &ranking);
    }
    case 5:
        describe(c, ", kl divergence");
        return tg_kl_div(t, tg_log_softmax(t, a, -1), tg_softmax(t, b, -1), &divergence);
    default: break;
    }
    describe(c, ", mse");
    if (!is_elementary(c)) {
        return tg_mse_loss(t, a, b, reduction);
    }
    tg_tensor *d = tg_sub(t, a, b), *square = tg_mul(t, d, d);
    return reduction == TG_REDUCTION_NONE  ? square
           : reduction == TG_REDUCTION_SUM ? tg_sum(t, square, TG_ALL_AXES, TG_DROP_AXES)
                                           : tg_mean(t, square, TG_ALL_AXES, TG_DROP_AXES);
}

static tg_tensor *triplet(call *c)
{
    tg_triplet_margin_loss_config config = tg_triplet_margin_loss_config_default();
    config.reduction = draw_reduction(c);
    config.swap = c->option[0] % 2;
    return tg_triplet_margin_loss(c->tape, c->x[0], c->x[1], c->x[2], &config);
}

static tg_tensor *skip_gram(call *c)
{
    tg_tape *t = c->tape;
    int64_t pairs = c->run->p->batch * c->run->p->time, rows = tg_tensor_size(c->x[0], 0);
    tg_reduction reduction = draw_reduction(c);
    tg_tensor *centers = constant_ids(c, TG_SHAPE(pairs), c->option[1] % 3 ? c->option[1] % 64 : c->option[1], rows);
    tg_tensor *targets = constant_ids(c, TG_SHAPE(pairs, 1 + c->option[2] % 4), c->option[2], rows);
    if (!is_elementary(c)) {
        return tg_skip_gram_loss(t, centers, c->x[0], targets, table_again(c), reduction);
    }
    tg_tensor *v = tg_unsqueeze(t, tg_embedding(t, centers, c->x[0], NULL), -1);
    tg_tensor *scores = tg_squeeze(t, tg_matmul(t, tg_embedding(t, targets, table_again(c), NULL), v), -1);
    tg_tensor *first = tg_slice(t, scores, 1, 0, 1, 1), *target = tg_slice(t, targets, 1, 0, 1, 1);
    tg_tensor *losses = tg_neg(t, tg_log_sigmoid(t, tg_neg(t, scores)));
    losses = tg_masked_fill(t, losses, tg_eq(t, targets, target), 0);
    losses = tg_sub(t, tg_sum(t, losses, TG_AXES(1), TG_DROP_AXES), tg_log_sigmoid(t, tg_squeeze(t, first, 1)));
    return reduction == TG_REDUCTION_NONE  ? losses
           : reduction == TG_REDUCTION_SUM ? tg_sum_all(t, losses)
                                           : tg_mean_all(t, losses);
}

static tg_tensor *binary_cross_entropy(call *c)
{
    tg_binary_cross_entropy_with_logits_config config = tg_binary_cross_entropy_with_logits_config_default();
    config.reduction = draw_reduction(c);
    tg_tensor *target = constant(c, tg_tensor_shape(c->x[0]), c->option[0], 0, 1);
    return tg_binary_cross_entropy_with_logits(c->tape, c->x[0], target, &config);
}

/* ---- modules ---- */

static tg_tensor *recurrent(call *c)
{
    tg_nn_recurrent_forward_config config = tg_nn_recurrent_forward_config_default();
    tg_tensor *state = NULL, *cell = NULL;
    const tg_tensor *x = c->x[0];
    if (c->option[1] % 3 == 0) {
        config.mask = constant_mask(c, TG_SHAPE(tg_tensor_size(x, 0), tg_tensor_size(x, 1)), c->option[2]);
        describe(c, ", mask");
    }
    describe(c, c->option[0] % 2 ? ", gru" : ", lstm");
    tg_tensor *y = c->option[0] % 2 ? tg_nn_gru_forward(c->tape, &c->run->gru, c->x[0], &state, &config)
                                    : tg_nn_lstm_forward(c->tape, &c->run->lstm, c->x[0], &state, &cell, &config);
    tg_tensor *last = tg_transpose(c->tape, c->option[3] % 2 && cell ? cell : state, 0, 1);
    return tg_add(c->tape, y, tg_sum(c->tape, last, TG_AXES(1), TG_KEEP_AXES));
}

static tg_tensor *block(call *c)
{
    return tg_nn_transformer_block_forward(c->tape, &c->run->block, c->x[0], NULL);
}

const operation layers[] = {
    {"matmul", 2, 4, matmul, IS_PRODUCT, {0, LEAF_WEIGHT}},
    {"linear", 3, 5, linear, IS_PRODUCT, {0, LEAF_WEIGHT, LEAF_BIAS}},
    {"head", 3, 3, linear, IS_PRODUCT, {0, LEAF_TABLE, LEAF_SCALAR}},
    {"conv1d", 3, 2, conv1d, IS_PRODUCT, {0, LEAF_KERNEL, LEAF_BIAS}},
    {"pool", 1, 1, pool, 0, {0}},
    {"embedding", 1, 5, embedding, IS_LOOKUP, {LEAF_TABLE}},
    {"embedding_bag", 1, 4, embedding_bag, IS_LOOKUP, {LEAF_TABLE}},
    {"attention", 3, 5, attention, IS_PRODUCT, {0}},
    {"rotary", 1, 1, rotary, 0, {0}},
    {"softmax", 1, 3, softmax, 0, {0}},
    {"layer_norm", 3, 3, layer_norm, 0, {0, LEAF_BIAS, LEAF_BIAS}},
    {"dropout", 1, 3, dropout, 0, {0}},
    {"cross_entropy", 1, 2, cross_entropy, 0, {0}},
    {"linear_cross_entropy", 2, 2, linear_cross_entropy, IS_PRODUCT, {0, LEAF_TABLE}},
    {"distance", 2, 4, distance, 0, {0}},
    {"triplet", 3, 1, triplet, 0, {0}},
    {"skip_gram", 1, 2, skip_gram, IS_LOOKUP, {LEAF_TABLE}},
    {"binary_cross_entropy", 1, 1, binary_cross_entropy, 0, {0}},
    {"recurrent", 1, 3, recurrent, IS_PRODUCT | NEEDS_MODULES | DRAWS_FIRST, {0}},
    {"block", 1, 3, block, IS_PRODUCT | NEEDS_MODULES, {0}},
    {.name = NULL},
};

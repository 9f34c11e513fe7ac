/* The rows of ops whose calls are written here, for samples alone: their other tests are in files of their own. */
#include "rows/rows.h"

#include "ops/attention/attention.h"
#include "ops/calls.h"
#include "ops/sequence/recurrent.h"
#include "ops/attention/relative.h"

#include <math.h>
#include <stddef.h>

/* Calls with arguments that are not tensors. */
#define CALL(name, expression)                                     \
    static tg_tensor *call_##name(tg_tape *t, tg_tensor *const *x) \
    {                                                              \
        return expression;                                         \
    }

CALL(where, tg_where(t, x[0], x[1], x[2]))
CALL(masked_fill, tg_masked_fill(t, x[0], x[1], 3))
CALL(sum_all, tg_sum(t, x[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(sum_last, tg_sum(t, x[0], TG_AXES(-1), TG_DROP_AXES))
CALL(sum_outer, tg_sum(t, x[0], TG_AXES(0, 2), TG_KEEP_AXES))
CALL(mean_all, tg_mean(t, x[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(mean_first, tg_mean(t, x[0], TG_AXES(0), TG_KEEP_AXES))
CALL(max_all, tg_amax(t, x[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(max_outer, tg_amax(t, x[0], TG_AXES(0, 2), TG_DROP_AXES))
CALL(max_last, tg_amax(t, x[0], TG_AXES(-1), TG_KEEP_AXES))
CALL(max_first, tg_amax(t, x[0], TG_AXES(0), TG_DROP_AXES))
CALL(var_all, tg_var(t, x[0], TG_ALL_AXES, 1, TG_DROP_AXES))
CALL(var_last, tg_var(t, x[0], TG_AXES(-1), 0, TG_KEEP_AXES))
CALL(var_first, tg_var(t, x[0], TG_AXES(0), 1, TG_DROP_AXES))
CALL(topk_last, tg_topk(t, x[0], 2, -1, TG_LARGEST_FIRST, NULL))
CALL(topk_first, tg_topk(t, x[0], 2, 0, TG_LARGEST_FIRST, NULL))
CALL(reshape, tg_reshape(t, x[0], TG_SHAPE(3, -1)))
CALL(reshape_flat, tg_reshape(t, x[0], TG_SHAPE(0)))
CALL(permute, tg_permute(t, x[0], TG_AXES(2, 0, 1)))
CALL(slice, tg_slice(t, x[0], -1, 1, 4, 2))
CALL(slice_first, tg_slice(t, x[0], 0, -2, 9, 1))
CALL(expand, tg_expand(t, x[0], TG_SHAPE(2, 2, 3)))
CALL(expand_empty, tg_expand(t, x[0], TG_SHAPE(0, 3)))
CALL(unsqueeze, tg_unsqueeze(t, x[0], 1))
CALL(squeeze, tg_squeeze(t, x[0], 1))
CALL(contiguous, tg_contiguous(t, tg_transpose(t, x[0], 0, 1)))
CALL(linear, tg_linear(t, x[0], x[1], NULL))
CALL(linear_bias, tg_linear(t, x[0], x[1], x[2]))
CALL(linear_same, tg_linear(t, x[0], x[0], tg_sum(t, x[0], TG_AXES(1), TG_DROP_AXES)))
CALL(attention, attend(TG_ATTENTION_FUSED, t, x[0], x[1], x[2], attention_config(true, 0, NULL)))
CALL(attention_dropped, attend(TG_ATTENTION_FUSED, t, x[0], x[1], x[2], attention_config(true, 0.3, NULL)))
CALL(attention_biased, attend(TG_ATTENTION_FUSED, t, x[0], x[1], x[2], attention_config(false, 0, x[3])))

static tg_tensor *attend_with(tg_attention_path path, tg_tape *t, tg_tensor *const *x, bool is_causal, bool enable_gqa,
                              tg_tensor *key_mask)
{
    tg_scaled_dot_product_attention_config config = attention_config(is_causal, 0, NULL);
    config.scale = 0.7;
    config.enable_gqa = enable_gqa;
    config.key_mask = key_mask;
    return attend(path, t, x[0], x[1], x[2], config);
}

static tg_tensor *attend_near(tg_attention_path path, tg_tape *t, tg_tensor *const *x)
{
    tg_scaled_dot_product_attention_config config = attention_config(true, 0, NULL);
    config.window = 4;
    config.first_keys = x[3];
    return attend(path, t, x[0], x[1], x[2], config);
}

CALL(attention_near, attend_near(TG_ATTENTION_FUSED, t, x))
CALL(elementary_near, attend_near(TG_ATTENTION_ELEMENTARY, t, x))
CALL(attention_masked, attend_with(TG_ATTENTION_FUSED, t, x, false, false, x[3]))
CALL(elementary_masked, attend_with(TG_ATTENTION_ELEMENTARY, t, x, true, false, x[3]))
CALL(attention_grouped, attend_with(TG_ATTENTION_FUSED, t, x, true, true, NULL))
CALL(elementary_grouped, attend_with(TG_ATTENTION_ELEMENTARY, t, x, true, true, NULL))
CALL(attention_same, attend(TG_ATTENTION_FUSED, t, x[0], x[0], x[0], attention_config(true, 0, NULL)))
CALL(elementary, attend(TG_ATTENTION_ELEMENTARY, t, x[0], x[1], x[2], attention_config(true, 0, NULL)))
CALL(elementary_dropped, attend(TG_ATTENTION_ELEMENTARY, t, x[0], x[1], x[2], attention_config(true, 0.3, NULL)))
CALL(bag_mean, tg_embedding_bag(t, x[1], x[0], NULL))
CALL(bag_sum, embed_bags(t, x[1], x[0], TG_BAG_SUM, 1, NULL, x[2]))
CALL(bag_max, embed_bags(t, x[1], x[0], TG_BAG_MAX, TG_NO_PADDING, NULL, NULL))

static tg_tensor *call_bag_offsets(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *offsets = tg_tensor_new_from(TG_I32, TG_SHAPE(3), (int32_t[]){0, 2, 2}, NULL);
    tg_tensor *y = embed_bags(t, x[1], x[0], TG_BAG_MEAN, TG_NO_PADDING, offsets, NULL);
    tg_release(offsets);
    return y;
}

CALL(shift_all, tg_relative_shift(t, x[0], 3, 4))
CALL(shift_past, tg_relative_shift(t, x[0], 3, 3))
CALL(scores_all, tg_relative_scores(t, x[0], x[1], 4, false))
CALL(scores_past, tg_relative_scores(t, x[0], x[1], 4, true))
CALL(spread, tg_relative_spread(t, x[0], 5))
CALL(collect, tg_relative_collect(t, x[0], 1))
CALL(collect_wide, tg_relative_collect(t, x[0], 3))
CALL(rotary, tg_rotary(t, x[0], 5, NULL))

static tg_tensor *call_rotary_neighbors(tg_tape *t, tg_tensor *const *x)
{
    tg_rotary_config config = tg_rotary_config_default();
    config.base = 100;
    config.pairing = TG_ROTARY_NEIGHBORS;
    config.position_scale = 2;
    config.ntk_factor = 3;
    return tg_rotary(t, x[0], 0, &config);
}

/* Positions of each sequence, and Llama 3's scaling, which leaves, mixes and divides frequencies. */
static tg_tensor *call_rotary_positions(tg_tape *t, tg_tensor *const *x)
{
    tg_rotary_config config = tg_rotary_config_default();
    config.positions = x[1];
    config.base = 10;
    config.llama3_factor = 8;
    config.original_context = 9;
    return tg_rotary(t, x[0], 1, &config);
}

static tg_tensor *call_attention_weights(tg_tape *t, tg_tensor *const *x)
{
    tg_scaled_dot_product_attention_config config = attention_config(true, 0, x[2]);
    tg_tensor *queries = x[0], *keys = x[1], *values = x[1];
    return tg_attention_prepare(t, &queries, &keys, &values, &config) ? tg_attention_weights(t, queries, keys, &config)
                                                                      : NULL;
}

CALL(embedding, tg_embedding(t, x[1], x[0], NULL))
CALL(embedding_result, tg_embedding(t, x[1], tg_mul_scalar(t, x[0], 2), NULL))
CALL(embedding_dense, tg_add(t, tg_embedding(t, x[1], x[0], NULL), tg_sum(t, x[0], TG_AXES(0), TG_DROP_AXES)))
CALL(skip_gram, tg_skip_gram_loss(t, x[2], x[0], x[3], x[1], TG_REDUCTION_MEAN))
CALL(skip_gram_sum, tg_skip_gram_loss(t, x[2], x[0], x[3], x[1], TG_REDUCTION_SUM))
CALL(skip_gram_none, tg_skip_gram_loss(t, x[2], x[0], x[3], x[1], TG_REDUCTION_NONE))
CALL(skip_gram_tied, tg_skip_gram_loss(t, x[1], x[0], x[2], x[0], TG_REDUCTION_MEAN))
CALL(embedding_padded, embed(t, x[1], x[0], 1, false))
CALL(softmax_last, tg_softmax(t, x[0], -1))
CALL(softmax_first, tg_softmax(t, x[0], 0))
CALL(log_softmax_last, tg_log_softmax(t, x[0], -1))
CALL(log_softmax_first, tg_log_softmax(t, x[0], 0))
CALL(layer_norm, tg_layer_norm(t, x[0], x[1], x[2], 1e-5))
CALL(rms_norm, tg_rms_norm(t, x[0], x[1], 1e-5))
CALL(rms_norm_same, tg_rms_norm(t, x[0], x[0], 1e-5))
CALL(dropout, tg_dropout(t, x[0], 0.3))
CALL(dropout_nothing, tg_dropout(t, x[0], 0))
CALL(cross_entropy, tg_cross_entropy(t, x[0], x[1], NULL))
CALL(mse_mean, tg_mse_loss(t, x[0], x[1], TG_REDUCTION_MEAN))
CALL(mse_sum, tg_mse_loss(t, x[0], x[1], TG_REDUCTION_SUM))
CALL(mse_none, tg_mse_loss(t, x[0], x[1], TG_REDUCTION_NONE))
CALL(nll_mean, nll_loss(t, x[0], x[1], -100, TG_REDUCTION_MEAN))
CALL(nll_none, nll_loss(t, x[0], x[1], -100, TG_REDUCTION_NONE))
CALL(nll_sum, nll_loss(t, x[0], x[1], 2, TG_REDUCTION_SUM))
CALL(cross_entropy_smooth, cross_entropy(t, x[0], x[1], loss_config(-100, 0.1, TG_REDUCTION_MEAN)))
CALL(cross_entropy_none, cross_entropy(t, x[0], x[1], loss_config(-100, 0.3, TG_REDUCTION_NONE)))
CALL(cross_entropy_sum, cross_entropy(t, x[0], x[1], loss_config(-100, 0, TG_REDUCTION_SUM)))

CALL(min_all, tg_amin(t, x[0], TG_ALL_AXES, TG_DROP_AXES))
CALL(min_outer, tg_amin(t, x[0], TG_AXES(0, 2), TG_KEEP_AXES))
CALL(logsumexp_last, tg_logsumexp(t, x[0], TG_AXES(-1), TG_KEEP_AXES))
CALL(logsumexp_outer, tg_logsumexp(t, x[0], TG_AXES(0, 2), TG_DROP_AXES))
CALL(std_last, tg_std(t, x[0], TG_AXES(-1), 0, TG_KEEP_AXES))
CALL(std_first, tg_std(t, x[0], TG_AXES(0), 1, TG_DROP_AXES))
CALL(norm_all, tg_norm(t, x[0], 2, TG_ALL_AXES, TG_DROP_AXES))
CALL(norm_cubic, tg_norm(t, x[0], 3, TG_AXES(0), TG_KEEP_AXES))
CALL(norm_absolute, tg_norm(t, x[0], 1, TG_AXES(-1), TG_DROP_AXES))
CALL(norm_max, tg_norm(t, x[0], INFINITY, TG_AXES(-1), TG_DROP_AXES))
CALL(topk_smallest, tg_topk(t, x[0], 2, -1, TG_SMALLEST_FIRST, NULL))
CALL(sort_last, tg_sort(t, x[0], -1, TG_SMALLEST_FIRST, NULL))
CALL(sort_first, tg_sort(t, x[0], 0, TG_LARGEST_FIRST, NULL))
CALL(cumsum_last, tg_cumsum(t, x[0], -1))
CALL(cumsum_first, tg_cumsum(t, x[0], 0))
CALL(flip, tg_flip(t, x[0], TG_AXES(-1)))
CALL(flip_all, tg_flip(t, x[0], TG_ALL_AXES))
CALL(repeat, tg_repeat(t, x[0], TG_SHAPE(2, 1, 3)))
CALL(scatter_add_first, tg_scatter_add(t, x[0], 0, x[1], x[2]))
CALL(scatter_add_last, tg_scatter_add(t, x[0], -1, x[1], x[2]))
CALL(index_add_first, tg_index_add(t, x[0], 0, x[1], x[2]))
CALL(index_add_last, tg_index_add(t, x[0], -1, x[1], x[2]))
CALL(layer_norm_plain, tg_layer_norm(t, x[0], NULL, NULL, 1e-5))

/* The first row keeps its state at the second position, and so on. For inputs of other shapes, no mask. */
static tg_tensor *mask_of(tg_tape *t, const tg_tensor *x)
{
    uint8_t values[16];
    int64_t positions = tg_tensor_size(x, 0), rows = tg_tensor_rank(x) == 3 ? tg_tensor_size(x, 1) : 0;
    if (rows < 1 || rows > 4 || positions > 4) {
        return NULL;
    }
    for (int64_t i = 0; i < positions * rows; i++) {
        values[i] = i % positions != i / positions + 1;
    }
    return tg_constant(t, TG_U8, TG_SHAPE(rows, positions), values);
}

CALL(gru, tg_gru(t, &(tg_recurrence){.inputs = x[0], .state = x[1], .weight = x[2], .bias = x[3]}))
CALL(gru_masked,
     tg_gru(t,
            &(tg_recurrence){.inputs = x[0], .state = x[1], .weight = x[2], .mask = mask_of(t, x[0]), .reverse = true}))

static tg_tensor *call_lstm(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *c, *h = tg_lstm(t, &(tg_recurrence){x[0], x[1], x[2], x[3], NULL, false}, x[1], &c);
    return tg_add(t, h, tg_mul_scalar(t, c, 0.7));
}

static tg_tensor *call_lstm_masked(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *c, *h = tg_lstm(t, &(tg_recurrence){x[0], x[1], x[2], NULL, mask_of(t, x[0]), true}, x[1], &c);
    return tg_add(t, h, tg_mul_scalar(t, c, 0.7));
}

/* Only the last cell has a gradient. */
static tg_tensor *call_lstm_cell(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *c;
    tg_lstm(t, &(tg_recurrence){x[0], x[1], x[2], NULL, NULL, false}, x[3], &c);
    return c;
}

/* The gradient of the projected inputs is added to another one. */
static tg_tensor *call_lstm_added(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *c, *h = tg_lstm(t, &(tg_recurrence){x[0], x[1], x[2], NULL, NULL, false}, x[1], &c);
    return tg_add(t, h, tg_slice(t, x[0], 2, 0, tg_tensor_size(h, 2), 1));
}

static tg_tensor *call_conv1d(tg_tape *t, tg_tensor *const *x)
{
    tg_conv1d_config config = tg_conv1d_config_default();
    config.stride = 2;
    config.padding = 2;
    config.groups = 2;
    return tg_conv1d(t, x[0], x[1], x[2], &config);
}

static tg_tensor *call_conv1d_dilated(tg_tape *t, tg_tensor *const *x)
{
    tg_conv1d_config config = tg_conv1d_config_default();
    config.dilation = 2;
    return tg_conv1d(t, x[0], x[1], NULL, &config);
}

static tg_tensor *call_max_pool1d(tg_tape *t, tg_tensor *const *x)
{
    tg_pool1d_config config = tg_pool1d_config_default();
    config.stride = 1;
    config.padding = 1;
    config.dilation = 2;
    return tg_max_pool1d(t, x[0], 3, &config);
}

static tg_tensor *call_avg_pool1d(tg_tape *t, tg_tensor *const *x)
{
    tg_pool1d_config config = tg_pool1d_config_default();
    config.stride = 2;
    config.padding = 1;
    return tg_avg_pool1d(t, x[0], 3, &config);
}

/* Losses with options. */

static tg_tensor *call_smooth_l1(tg_tape *t, tg_tensor *const *x)
{
    tg_smooth_l1_loss_config config = tg_smooth_l1_loss_config_default();
    config.beta = 0.7;
    config.reduction = TG_REDUCTION_SUM;
    return tg_smooth_l1_loss(t, x[0], x[1], &config);
}

static tg_tensor *call_huber(tg_tape *t, tg_tensor *const *x)
{
    tg_huber_loss_config config = tg_huber_loss_config_default();
    config.delta = 0.7;
    return tg_huber_loss(t, x[0], x[1], &config);
}

static tg_tensor *call_huber_none(tg_tape *t, tg_tensor *const *x)
{
    tg_huber_loss_config config = tg_huber_loss_config_default();
    config.delta = 0.7;
    config.reduction = TG_REDUCTION_NONE;
    return tg_huber_loss(t, x[0], x[1], &config);
}

/* Targets of 1 and -1 from a mask. */
static tg_tensor *signs(tg_tape *t, tg_tensor *mask, tg_tensor *x)
{
    return tg_add_scalar(t, tg_mul_scalar(t, tg_cast(t, mask, tg_tensor_dtype(x)), 2), -1);
}

CALL(hinge_embedding, tg_hinge_embedding_loss(t, x[0], signs(t, x[1], x[0]), NULL))
CALL(margin_ranking, tg_margin_ranking_loss(t, x[0], x[1], signs(t, x[2], x[0]), NULL))
CALL(margin_ranking_target, tg_margin_ranking_loss(t, x[0], x[1], x[2], NULL))

static tg_tensor *kl_div(tg_tape *t, tg_tensor *const *x, bool log_target, tg_reduction reduction)
{
    tg_kl_div_config config = tg_kl_div_config_default();
    config.log_target = log_target;
    config.reduction = reduction;
    return tg_kl_div(t, x[0], x[1], &config);
}

CALL(kl_div, kl_div(t, x, false, TG_REDUCTION_BATCH_MEAN))
CALL(kl_div_log_target, kl_div(t, x, true, TG_REDUCTION_NONE))
CALL(kl_div_log_target_sum, kl_div(t, x, true, TG_REDUCTION_SUM))
CALL(binary, tg_binary_cross_entropy_with_logits(t, x[0], x[1], NULL))

static tg_tensor *call_binary_weighted(tg_tape *t, tg_tensor *const *x)
{
    tg_binary_cross_entropy_with_logits_config config = tg_binary_cross_entropy_with_logits_config_default();
    config.reduction = TG_REDUCTION_NONE;
    config.weight = tg_full(t, tg_tensor_dtype(x[0]), TG_SCALAR, 0.5);
    config.pos_weight = tg_full(t, tg_tensor_dtype(x[0]), TG_SCALAR, 3);
    return tg_binary_cross_entropy_with_logits(t, x[0], x[1], &config);
}

CALL(cosine_embedding, tg_cosine_embedding_loss(t, x[0], x[1], signs(t, x[2], x[0]), NULL))

static tg_tensor *call_triplet(tg_tape *t, tg_tensor *const *x)
{
    tg_triplet_margin_loss_config config = tg_triplet_margin_loss_config_default();
    config.margin = 9;
    config.p = 3;
    config.swap = true;
    config.reduction = TG_REDUCTION_NONE;
    return tg_triplet_margin_loss(t, x[0], x[1], x[2], &config);
}

static tg_tensor *call_triplet_max(tg_tape *t, tg_tensor *const *x)
{
    tg_triplet_margin_loss_config config = tg_triplet_margin_loss_config_default();
    config.margin = 9;
    config.p = INFINITY;
    return tg_triplet_margin_loss(t, x[0], x[1], x[2], &config);
}

CALL(cosine_similarity, tg_cosine_similarity(t, x[0], x[1], -1, 1e-8))
CALL(cosine_similarity_first, tg_cosine_similarity(t, x[0], x[1], 0, 1e-8))

static tg_tensor *weighted_classes(tg_tape *t, tg_tensor *const *x, tg_tensor *targets, tg_reduction reduction)
{
    tg_cross_entropy_config config = loss_config(-100, 0.2, reduction);
    tg_tensor *values = tg_tensor_new_arange(tg_tensor_dtype(x[0]), 1, 1 + (double)tg_tensor_size(x[0], -1), 1, NULL);
    config.weight = values;
    tg_tensor *y = tg_cross_entropy(t, x[0], targets, &config);
    tg_release(values);
    return y;
}

CALL(linear_cross_entropy, tg_linear_cross_entropy(t, x[0], x[1], x[2], NULL))

static tg_tensor *contrast(tg_tape *t, tg_tensor *const *x, tg_tensor *negatives, tg_tensor *groups, bool is_symmetric)
{
    tg_contrastive_loss_config config = tg_contrastive_loss_config_default();
    config.scale = 2;
    config.is_symmetric = is_symmetric;
    config.groups = groups;
    return tg_contrastive_loss(t, x[0], x[1], negatives, &config);
}

CALL(contrastive, contrast(t, x, x[2], NULL, false))
CALL(contrastive_groups, contrast(t, x, NULL, x[2], true))

static tg_tensor *call_linear_cross_entropy_weight(tg_tape *t, tg_tensor *const *x)
{
    tg_cross_entropy_config config = loss_config(-100, 0.2, TG_REDUCTION_NONE);
    config.weight = tg_tensor_new_arange(tg_tensor_dtype(x[0]), 1, 1 + (double)tg_tensor_size(x[1], 0), 1, NULL);
    tg_tensor *y = tg_linear_cross_entropy(t, x[0], x[1], x[2], &config);
    tg_release(config.weight);
    return y;
}

CALL(cross_entropy_weight, weighted_classes(t, x, x[1], TG_REDUCTION_MEAN))
CALL(cross_entropy_probabilities, tg_cross_entropy(t, x[0], x[1], NULL))
CALL(cross_entropy_probabilities_weight, weighted_classes(t, x, x[1], TG_REDUCTION_NONE))
CALL(l1_mean, tg_l1_loss(t, x[0], x[1], TG_REDUCTION_MEAN))
CALL(l1_none, tg_l1_loss(t, x[0], x[1], TG_REDUCTION_NONE))

/* Both parts, each with a weight of its own. */
static tg_tensor *call_split(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *parts[4];
    int64_t count = tg_split(t, x[0], 2, 0, parts, 4);
    if (count < 2) {
        return count == 1 ? parts[0] : NULL;
    }
    return tg_mul(t, tg_sum(t, parts[0], TG_AXES(0), TG_DROP_AXES), tg_sum(t, parts[1], TG_AXES(0), TG_DROP_AXES));
}

/* 0 to a power above 0, beside negative powers of other values. */
static tg_tensor *call_pow_of_zero(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *a = tg_relu(t, x[0]);
    tg_tensor *b = tg_where(t, tg_eq(t, a, tg_full(t, tg_tensor_dtype(a), TG_SCALAR, 0)),
                            tg_add_scalar(t, tg_abs(t, x[1]), 1), x[1]);
    return tg_pow(t, a, b);
}

/* Ties: the parts of the gradient must sum to 1. */
static tg_tensor *call_max_tie(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *both[] = {x[0], x[0]};
    return tg_amax(t, tg_stack(t, both, 2, 0), TG_AXES(0), TG_DROP_AXES);
}

CALL(maximum_tie, tg_maximum(t, x[0], x[0]))
CALL(minimum_tie, tg_minimum(t, x[0], x[0]))

/* One tensor as both operands: two gradients meet in one buffer. */
CALL(mul_same, tg_mul(t, x[0], x[0]))
CALL(matmul_same, tg_matmul(t, x[0], x[0]))
CALL(sub_chain, tg_sub(t, tg_mul(t, x[0], x[1]), tg_mul(t, x[1], x[1])))

CALL(tril, tg_tril(t, x[0], 0))
CALL(triu, tg_triu(t, x[0], -1))
CALL(cast, tg_mul(t, tg_cast(t, x[0], TG_F64), tg_cast(t, x[0], TG_F64)))
CALL(cast_narrow, tg_cast(t, tg_mul_scalar(t, x[0], 2), TG_F32))
CALL(cat_first, tg_cat(t, x, 3, 0))
CALL(cat_last, tg_cat(t, x, 3, -1))
CALL(stack_first, tg_stack(t, x, 3, 0))
CALL(stack_last, tg_stack(t, x, 3, -1))
CALL(gather_first, tg_gather(t, x[0], 0, x[1]))
CALL(gather_last, tg_gather(t, x[0], -1, x[1]))
CALL(index_select_first, tg_index_select(t, x[0], 0, x[1]))
CALL(index_select_last, tg_index_select(t, x[0], -1, x[1]))

#define PAIR_OF_EQUALS                            \
    {                                             \
        "2,3 2,3", "5 5", "1 1", "- -", "0,3 0,3" \
    }
#define LOGITS                                        \
    {                                                 \
        "4,3 4", "2,2,5 2,2", "1,3 1", "3 -", "0,3 0" \
    }

const test_row samples[] = {
    {"tg_sub", "a b - b b", .call = call_sub_chain, .inputs = {REAL, REAL}},
    {"tg_mul", "x x", .call = call_mul_same, .inputs = {REAL}},
    {"tg_maximum", "x x", .call = call_maximum_tie, .inputs = {REAL}},
    {"tg_minimum", "x x", .call = call_minimum_tie, .inputs = {REAL}},
    {"tg_mul", "many", .inputs = {REAL, REAL}, .shapes = {"513 1"}, .of_two = tg_mul},
    {"tg_pow", "many", .inputs = {POSITIVE, REAL}, .shapes = {"513 1"}, .of_two = tg_pow},
    {"tg_pow", "of 0", .call = call_pow_of_zero, .inputs = {DISTINCT, REAL}, .shapes = {"7 7", "2,3 2,3"}},
    {"tg_where", "", .call = call_where, .inputs = {MASK, REAL, REAL},
     .shapes = {"2,3 2,3 2,3", "3 2,3 2,1", "2,1 3 -", "2 1 1", "0,3 3 0,3"}},
    {"tg_masked_fill", "", .call = call_masked_fill, .inputs = {REAL, MASK},
     .shapes = {"2,3 2,3", "2,3 3", "2,4,3 2,1,3", "2 2", "0,3 0,3"}},
    {"tg_sum", "all", .call = call_sum_all, .inputs = {REAL}},
    {"tg_sum", "last", .call = call_sum_last, .inputs = {REAL}},
    {"tg_sum", "0 and 2", .call = call_sum_outer, .inputs = {REAL}, .shapes = {"2,3,4", "1,1,1", "2,0,3", "2,3,2,2"}},
    {"tg_mean", "all", .call = call_mean_all, .inputs = {REAL}},
    {"tg_mean", "first", .call = call_mean_first, .inputs = {REAL}, .shapes = {"2,3", "7", "1", "4,0"}},
    {"tg_amax", "all", .call = call_max_all, .inputs = {DISTINCT}, .shapes = {"2,3", "7", "1", "-"}},
    {"tg_amax", "0 and 2", .call = call_max_outer, .inputs = {DISTINCT},
     .shapes = {"2,3,4", "1,1,1", "2,0,3", "2,3,1"}},
    {"tg_amax", "x x", .call = call_max_tie, .inputs = {REAL}},
    {"tg_amax", "last", .call = call_max_last, .inputs = {DISTINCT}, .shapes = {"2,3", "7", "2,2,3", "1", "0,3"}},
    {"tg_amax", "first", .call = call_max_first, .inputs = {DISTINCT}, .shapes = {"2,3", "7", "3,2,2", "1", "3,0"}},
    {"tg_var", "all", .call = call_var_all, .inputs = {REAL}, .shapes = {"2,3", "3,1", "7", "2,1,3"}},
    {"tg_var", "last, biased", .call = call_var_last, .inputs = {REAL}, .shapes = {"2,3", "7", "0,3"}},
    {"tg_var", "first", .call = call_var_first, .inputs = {REAL}, .shapes = {"3,2", "7", "3,0"}},
    {"tg_topk", "last", .call = call_topk_last, .inputs = {DISTINCT}, .shapes = {"2,3", "7", "2,2,4", "2", "0,3"}},
    {"tg_topk", "first", .call = call_topk_first, .inputs = {DISTINCT}, .shapes = {"4,3", "7", "3,2,2", "2,1", "2,0"}},
    {"tg_reshape", "", .call = call_reshape, .inputs = {REAL}, .shapes = {"2,3", "6", "3,2,2", "3", "3,0"}},
    {"tg_reshape", "empty", .call = call_reshape_flat, .inputs = {REAL}, .shapes = {"0,3"}},
    {"tg_permute", "", .call = call_permute, .inputs = {REAL}, .shapes = {"2,3,4", "1,2,1", "1,1,1", "0,2,3"}},
    {"tg_slice", "last, step 2", .call = call_slice, .inputs = {REAL}, .shapes = {"2,5", "4", "3,2", "2,2,4", "0,5"}},
    {"tg_slice", "first, from the end", .call = call_slice_first, .inputs = {REAL}, .shapes = {"4,3", "3", "1", "0,2"}},
    {"tg_expand", "", .call = call_expand, .inputs = {REAL}, .shapes = {"2,3", "2,1", "3", "1", "-", "2,1,3"}},
    {"tg_expand", "to nothing", .call = call_expand_empty, .inputs = {REAL}, .shapes = {"1,3", "0,3", "3"},
     .empty = true},
    {"tg_unsqueeze", "", .call = call_unsqueeze, .inputs = {REAL}, .shapes = {"2,3", "4", "1", "0,3"}},
    {"tg_squeeze", "", .call = call_squeeze, .inputs = {REAL}, .shapes = {"2,1,3", "4,1", "1,1", "0,1"}},
    {"tg_contiguous", "of a transpose", .call = call_contiguous, .inputs = {REAL},
     .shapes = {"2,3", "2,3,2", "1,1", "0,3"}},
    {"tg_split", "", .call = call_split, .inputs = {REAL}, .shapes = {"4,3", "3,2", "1", "0,3"}},
    {"tg_matmul", "", .inputs = {REAL, REAL},
     .shapes = {"2,3 3,4", "2,2,3 2,3,2", "2,1,2,3 3,3,2", "3 3,2", "2,3 3", "3 3", "1,1 1,1"}, .of_two = tg_matmul},
    {"tg_matmul", "edges", .inputs = {REAL, REAL},
     .shapes = {"0,3 3,2", "2,0 0,3", "2,3 3,0", "2,2,3 3", "2,2,3 3,2", "3 2,3,2"}, .of_two = tg_matmul},
    {"tg_matmul", "no batches", .inputs = {REAL, REAL}, .shapes = {"0,2,3 3,2", "2,3 0,3,2", "0,2,3 3"},
     .of_two = tg_matmul, .empty = true},
    {"tg_matmul", "x x", .call = call_matmul_same, .inputs = {REAL}, .shapes = {"3,3", "2,2,2", "4"}},
    {"tg_linear", "", .call = call_linear, .inputs = {REAL, REAL},
     .shapes = {"2,3 4,3", "2,2,3 2,3", "3 2,3", "1,1 1,1"}},
    {"tg_linear", "bias", .call = call_linear_bias, .inputs = {REAL, REAL, REAL},
     .shapes = {"2,3 4,3 4", "2,2,3 2,3 2", "3 2,3 2", "1,1 1,1 1"}},
    {"tg_linear", "x x", .call = call_linear_same, .inputs = {REAL}, .shapes = {"3,3", "2,2", "1,1"}},
    {"tg_linear", "no rows", .call = call_linear_bias, .inputs = {REAL, REAL, REAL},
     .shapes = {"0,3 2,3 2", "2,0,3 4,3 4"}, .empty = true},
    {"tg_scaled_dot_product_attention", "", .call = call_attention, .inputs = {REAL, REAL, REAL},
     .shapes = {"3,2 3,2 3,2", "2,2,3,1 2,2,3,1 2,2,3,1", "2,2,3 2,5,3 2,5,3", "1,1 1,1 1,1"}},
    {"tg_scaled_dot_product_attention", "dropout", .call = call_attention_dropped, .inputs = {REAL, REAL, REAL},
     .shapes = {"3,2 3,2 3,2", "2,2,5,3 2,2,5,3 2,2,5,3", "2,3 4,3 4,3"}},
    {"tg_scaled_dot_product_attention", "bias", .call = call_attention_biased, .inputs = {REAL, REAL, REAL, REAL},
     .shapes = {"3,2 3,2 3,2 3,3", "2,2,3,1 2,2,3,1 2,2,3,1 2,1,3,3", "2,2,3 2,5,3 2,5,3 2,5", "4,2 3,2 3,2 4,3",
                "2,3,2,2 2,3,2,2 2,3,2,2 3,2,2"}},
    {"tg_scaled_dot_product_attention", "mask", .call = call_attention_masked, .inputs = {REAL, REAL, REAL, MASK},
     .shapes = {"2,3,2 2,4,2 2,4,2 2,4", "2,2,3,1 2,2,3,1 2,2,3,1 2,3", "3,2,2 1,5,2 1,5,2 3,5"}},
    {"tg_scaled_dot_product_attention", "elementary, mask", .call = call_elementary_masked,
     .inputs = {REAL, REAL, REAL, MASK}, .shapes = {"2,3,2 2,4,2 2,4,2 2,4", "2,2,3,1 2,2,3,1 2,2,3,1 2,3"}},
    {"tg_scaled_dot_product_attention", "window, first keys", .call = call_attention_near,
     .inputs = {REAL, REAL, REAL, IDS}, .shapes = {"2,3,2 2,6,2 2,6,2 2,3", "2,2,3,1 2,2,6,1 2,2,6,1 3"}, .bound = 4},
    {"tg_scaled_dot_product_attention", "elementary, window, first keys", .call = call_elementary_near,
     .inputs = {REAL, REAL, REAL, IDS}, .shapes = {"2,3,2 2,6,2 2,6,2 2,3", "2,2,3,1 2,2,6,1 2,2,6,1 3"}, .bound = 4},
    {"tg_scaled_dot_product_attention", "grouped heads", .call = call_attention_grouped, .inputs = {REAL, REAL, REAL},
     .shapes = {"4,3,2 2,3,2 2,3,2", "2,6,2,2 2,2,3,2 2,2,3,2", "1,3,1,2 2,1,2,2 2,1,2,2"}},
    {"tg_scaled_dot_product_attention", "elementary, grouped heads", .call = call_elementary_grouped,
     .inputs = {REAL, REAL, REAL}, .shapes = {"4,3,2 2,3,2 2,3,2", "2,6,2,2 2,2,3,2 2,2,3,2"}},
    {"tg_scaled_dot_product_attention", "x x x", .call = call_attention_same, .inputs = {REAL},
     .shapes = {"3,2", "2,4,3"}},
    {"tg_scaled_dot_product_attention", "nothing", .call = call_attention, .inputs = {REAL, REAL, REAL},
     .shapes = {"0,2,3 0,2,3 0,2,3", "2,0,3 2,0,3 2,0,3"}, .empty = true},
    {"tg_scaled_dot_product_attention", "elementary", .call = call_elementary, .inputs = {REAL, REAL, REAL},
     .shapes = {"3,2 3,2 3,2", "2,2,3,1 2,2,3,1 2,2,3,1", "2,2,3 2,5,3 2,5,3", "1,1 1,1 1,1"}},
    {"tg_embedding_bag", "", .call = call_bag_mean, .inputs = {REAL, IDS}, .shapes = {"4,3 2,3", "4,1 3,1", "4,2 1,5"},
     .bound = 4},
    {"tg_embedding_bag", "weighted, padded", .call = call_bag_sum, .inputs = {REAL, IDS, REAL},
     .shapes = {"4,3 2,3 2,3", "4,2 1,5 1,5"}, .bound = 4, .padded = true},
    {"tg_embedding_bag", "max", .call = call_bag_max, .inputs = {DISTINCT, IDS}, .shapes = {"4,3 2,3", "4,1 3,2"},
     .bound = 4},
    {"tg_embedding_bag", "offsets", .call = call_bag_offsets, .inputs = {REAL, IDS}, .shapes = {"4,3 5", "4,2 3"},
     .bound = 4},
    {"tg_relative_shift", "all", .call = call_shift_all, .inputs = {REAL}, .shapes = {"3,6", "2,3,6", "2,1,6", "1,6"}},
    {"tg_relative_shift", "past", .call = call_shift_past, .inputs = {REAL}, .shapes = {"3,3", "2,3,3", "2,1,3"}},
    {"tg_relative_shift", "nothing", .call = call_shift_all, .inputs = {REAL}, .shapes = {"0,3,6"}, .empty = true},
    {"tg_relative_scores", "all", .call = call_scores_all, .inputs = {REAL, REAL},
     .shapes = {"3,2 6,2", "2,3,2 2,6,2", "2,2,3,2 2,1,7,2", "2,3,1 6,1", "1,3 4,3"}},
    {"tg_relative_scores", "past", .call = call_scores_past, .inputs = {REAL, REAL},
     .shapes = {"3,2 4,2", "2,4,2 4,2", "2,1,2 2,5,2"}},
    {"tg_relative_scores", "nothing", .call = call_scores_all, .inputs = {REAL, REAL},
     .shapes = {"0,3,2 6,2", "0,2 3,2"}, .empty = true},
    {"tg_relative_spread", "", .call = call_spread, .inputs = {REAL}, .shapes = {"3,3", "2,5,7", "4,1", "2,2,5"}},
    {"tg_relative_spread", "nothing", .call = call_spread, .inputs = {REAL}, .shapes = {"0,3,3", "0,3"}, .empty = true},
    {"tg_relative_collect", "", .call = call_collect, .inputs = {REAL}, .shapes = {"3,4", "2,3,3", "1,5"}},
    {"tg_relative_collect", "wide", .call = call_collect_wide, .inputs = {REAL}, .shapes = {"3,4", "1,2"}},
    {"tg_relative_collect", "nothing", .call = call_collect, .inputs = {REAL}, .shapes = {"0,3,4"}, .empty = true},
    {"tg_rotary", "", .call = call_rotary, .inputs = {REAL}, .shapes = {"3,4", "2,3,6", "1,2", "2,2,2,2"}},
    {"tg_rotary", "neighbors", .call = call_rotary_neighbors, .inputs = {REAL}, .shapes = {"3,4", "2,3,6", "2,2"}},
    {"tg_rotary", "positions", .call = call_rotary_positions, .inputs = {REAL, IDS}, .bound = 20,
     .shapes = {"2,3,8 2,3", "3,2,2,4 3,2", "3,4 3"}},
    {"tg_rotary", "nothing", .call = call_rotary, .inputs = {REAL}, .shapes = {"0,3,4", "0,4", "3,0"}, .empty = true},
    {"tg_attention_weights", "", .call = call_attention_weights, .inputs = {REAL, REAL, REAL},
     .shapes = {"3,2 3,2 3,3", "2,2,3 2,5,3 1,2,5", "2,2,3,1 2,2,3,1 2,1,3,3"}},
    {"tg_scaled_dot_product_attention", "elementary, dropout", .call = call_elementary_dropped,
     .inputs = {REAL, REAL, REAL}, .shapes = {"3,2 3,2 3,2", "2,2,5,3 2,2,5,3 2,2,5,3"}},
    {"tg_embedding", "", .call = call_embedding, .inputs = {REAL, IDS},
     .shapes = {"4,3 5", "4,2 2,3", "4,1 1", "4,3 -", "4,3 0", "4,0 2"}, .bound = 4},
    {"tg_embedding", "of a result", .call = call_embedding_result, .inputs = {REAL, IDS},
     .shapes = {"4,3 5", "4,2 2,3", "4,1 1", "4,3 0"}, .bound = 4},
    {"tg_embedding", "tied", .call = call_embedding_dense, .inputs = {REAL, IDS},
     .shapes = {"4,3 5", "4,2 2,3", "4,1 1", "4,3 0"}, .bound = 4},
    {"tg_embedding", "padded", .call = call_embedding_padded, .inputs = {REAL, IDS},
     .shapes = {"4,3 5", "4,2 2,4", "4,3 0"}, .bound = 4, .padded = true},
    {"tg_softmax", "last", .call = call_softmax_last, .inputs = {REAL}, .shapes = {"2,3", "7", "2,2,3", "1,2", "0,3"}},
    {"tg_softmax", "first", .call = call_softmax_first, .inputs = {REAL},
     .shapes = {"3,2", "7", "2,2,3", "2,1", "3,0"}},
    {"tg_log_softmax", "last", .call = call_log_softmax_last, .inputs = {REAL},
     .shapes = {"2,3", "7", "2,2,3", "1,2", "0,3"}},
    {"tg_log_softmax", "first", .call = call_log_softmax_first, .inputs = {REAL},
     .shapes = {"3,2", "7", "2,2,3", "2,1", "3,0"}},
    {"tg_rms_norm", "", .call = call_rms_norm, .inputs = {REAL, REAL},
     .shapes = {"2,3 3", "2,2,4 4", "2,19 19", "3,1 1"}},
    {"tg_rms_norm", "x x", .call = call_rms_norm_same, .inputs = {REAL}, .shapes = {"4", "3"}},
    {"tg_rms_norm", "no rows", .call = call_rms_norm, .inputs = {REAL, REAL}, .shapes = {"0,3 3"}, .empty = true},
    {"tg_layer_norm", "", .call = call_layer_norm, .inputs = {REAL, REAL, REAL},
     .shapes = {"2,5 5 5", "5 5 5", "2,2,3 3 3", "1,1 1 1", "0,3 3 3", "17,17 17 17", "2,37 37 37"}},
    {"tg_dropout", "", .call = call_dropout, .inputs = {REAL}, .shapes = {"4,5", "20", "2,3,4", "4,1", "0,3"}},
    {"tg_dropout", "p = 0", .call = call_dropout_nothing, .inputs = {REAL}},
    {"tg_cross_entropy", "", .call = call_cross_entropy, .inputs = {REAL, TARGETS}, .shapes = LOGITS, .bound = 3},
    {"tg_cross_entropy", "smoothed", .call = call_cross_entropy_smooth, .inputs = {REAL, TARGETS}, .shapes = LOGITS,
     .bound = 3},
    {"tg_cross_entropy", "smoothed, each", .call = call_cross_entropy_none, .inputs = {REAL, TARGETS}, .shapes = LOGITS,
     .bound = 3},
    {"tg_cross_entropy", "sum", .call = call_cross_entropy_sum, .inputs = {REAL, TARGETS}, .shapes = LOGITS,
     .bound = 3},
    {"tg_nll_loss", "mean", .call = call_nll_mean, .inputs = {REAL, TARGETS}, .shapes = LOGITS, .bound = 3},
    {"tg_nll_loss", "each", .call = call_nll_none, .inputs = {REAL, TARGETS}, .shapes = LOGITS, .bound = 3},
    {"tg_nll_loss", "sum, 2 ignored", .call = call_nll_sum, .inputs = {REAL, IDS},
     .shapes = {"6,3 6", "2,5,3 2,5", "0,3 0"}, .bound = 3},
    {"tg_mse_loss", "mean", .call = call_mse_mean, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_mse_loss", "sum", .call = call_mse_sum, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_mse_loss", "each", .call = call_mse_none, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_mse_loss", "many", .call = call_mse_mean, .inputs = {REAL, REAL}, .shapes = {"513 513"}},
    {"tg_l1_loss", "mean", .call = call_l1_mean, .inputs = {DISTINCT, DISTINCT}, .shapes = PAIR_OF_EQUALS},
    {"tg_l1_loss", "each", .call = call_l1_none, .inputs = {DISTINCT, DISTINCT}, .shapes = PAIR_OF_EQUALS},
    {"tg_smooth_l1_loss", "sum", .call = call_smooth_l1, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_huber_loss", "mean", .call = call_huber, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_huber_loss", "each", .call = call_huber_none, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_hinge_embedding_loss", "", .call = call_hinge_embedding, .inputs = {DISTINCT, MASK}, .shapes = PAIR_OF_EQUALS},
    {"tg_margin_ranking_loss", "", .call = call_margin_ranking, .inputs = {DISTINCT, DISTINCT, MASK},
     .shapes = {"2,3 2,3 2,3", "5 5 5", "0,3 0,3 0,3"}},
    {"tg_margin_ranking_loss", "target", .call = call_margin_ranking_target, .inputs = {DISTINCT, DISTINCT, NONZERO},
     .shapes = {"2,3 2,3 2,3", "5 5 5"}},
    {"tg_kl_div", "batch mean", .call = call_kl_div, .inputs = {REAL, POSITIVE},
     .shapes = {"2,3 2,3", "5 5", "1 1", "0,3 0,3"}},
    {"tg_kl_div", "log, each", .call = call_kl_div_log_target, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_kl_div", "log, sum", .call = call_kl_div_log_target_sum, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_binary_cross_entropy_with_logits", "", .call = call_binary, .inputs = {REAL, REAL}, .shapes = PAIR_OF_EQUALS},
    {"tg_binary_cross_entropy_with_logits", "weighted", .call = call_binary_weighted, .inputs = {REAL, POSITIVE},
     .shapes = {"2,3 2,3", "5 5"}},
    {"tg_cosine_embedding_loss", "", .call = call_cosine_embedding, .inputs = {REAL, REAL, MASK},
     .shapes = {"4,3 4,3 4", "2,2,3 2,2,3 2,2", "3 3 -", "0,3 0,3 0"}},
    {"tg_triplet_margin_loss", "p 3, swap, each", .call = call_triplet, .inputs = {REAL, REAL, REAL},
     .shapes = {"4,3 4,3 4,3", "3 3 3", "0,3 0,3 0,3"}},
    {"tg_triplet_margin_loss", "maximum", .call = call_triplet_max, .inputs = {DISTINCT, REAL, REAL},
     .shapes = {"4,3 4,3 4,3", "3 3 3", "0,3 0,3 0,3"}},
    {"tg_skip_gram_loss", "mean", .call = call_skip_gram, .inputs = {REAL, REAL, IDS, IDS},
     .shapes = {"4,3 4,3 3 3,4", "5,2 4,2 11 11,2", "4,1 4,1 1 1,1", "4,17 4,17 2 2,3"}, .bound = 4},
    {"tg_skip_gram_loss", "sum", .call = call_skip_gram_sum, .inputs = {REAL, REAL, IDS, IDS},
     .shapes = {"4,3 4,3 3 3,4"}, .bound = 4},
    {"tg_skip_gram_loss", "each", .call = call_skip_gram_none, .inputs = {REAL, REAL, IDS, IDS},
     .shapes = {"4,3 4,3 3 3,4", "5,2 4,2 11 11,2"}, .bound = 4},
    {"tg_skip_gram_loss", "one table", .call = call_skip_gram_tied, .inputs = {REAL, IDS, IDS},
     .shapes = {"4,3 3 3,4", "5,2 11 11,2"}, .bound = 4},
    {"tg_cosine_similarity", "last", .call = call_cosine_similarity, .inputs = {REAL, REAL},
     .shapes = {"2,3 2,3", "3 3", "2,1,3 4,3", "1,3 2,3", "0,3 0,3"}},
    {"tg_cosine_similarity", "first", .call = call_cosine_similarity_first, .inputs = {REAL, REAL},
     .shapes = {"3,2 3,2", "3 3", "3,2,2 3,1,2"}},
    {"tg_cross_entropy", "weighted", .call = call_cross_entropy_weight, .inputs = {REAL, TARGETS}, .shapes = LOGITS,
     .bound = 3},
    {"tg_linear_cross_entropy", "", .call = call_linear_cross_entropy, .inputs = {REAL, REAL, TARGETS},
     .shapes = {"4,2 3,2 4", "2,2,3 5,3 2,2", "1,2 3,2 1", "2 3,2 -"}, .bound = 3},
    {"tg_linear_cross_entropy", "weighted, each", .call = call_linear_cross_entropy_weight,
     .inputs = {REAL, REAL, TARGETS}, .shapes = {"4,2 3,2 4", "2,2,3 5,3 2,2", "0,2 3,2 0"}, .bound = 3},
    {"tg_contrastive_loss", "negatives", .call = call_contrastive, .inputs = {REAL, REAL, REAL},
     .shapes = {"3,2 3,2 6,2", "1,3 1,3 2,3", "2,5 2,5 0,5"}, .bound = 3},
    {"tg_contrastive_loss", "symmetric, groups", .call = call_contrastive_groups, .inputs = {REAL, REAL, IDS},
     .shapes = {"4,2 4,2 4", "5,3 5,3 5"}, .bound = 3},
    {"tg_cross_entropy", "probabilities", .call = call_cross_entropy_probabilities, .inputs = {REAL, REAL},
     .shapes = {"4,3 4,3", "2,2,5 2,2,5", "3 3", "0,3 0,3"}},
    {"tg_cross_entropy", "probabilities, each", .call = call_cross_entropy_probabilities_weight, .inputs = {REAL, REAL},
     .shapes = {"4,3 4,3", "2,2,5 2,2,5", "3 3"}},
    {"tg_amin", "all", .call = call_min_all, .inputs = {DISTINCT}, .shapes = {"2,3", "7", "1", "-"}},
    {"tg_amin", "0 and 2", .call = call_min_outer, .inputs = {DISTINCT},
     .shapes = {"2,3,4", "1,1,1", "2,0,3", "2,3,1"}},
    {"tg_logsumexp", "last", .call = call_logsumexp_last, .inputs = {REAL}, .shapes = {"2,3", "7", "2,2,3", "0,3"}},
    {"tg_logsumexp", "0 and 2", .call = call_logsumexp_outer, .inputs = {REAL}, .shapes = {"2,3,4", "1,1,1", "2,0,3"}},
    {"tg_std", "last, biased", .call = call_std_last, .inputs = {REAL}, .shapes = {"2,3", "7", "0,3"}},
    {"tg_std", "first", .call = call_std_first, .inputs = {REAL}, .shapes = {"3,2", "7", "3,0"}},
    {"tg_norm", "all", .call = call_norm_all, .inputs = {REAL}, .shapes = {"2,3", "7", "2,1,3", "1"}},
    {"tg_norm", "p 3", .call = call_norm_cubic, .inputs = {NONZERO}, .shapes = {"2,3", "7", "3,2,2", "3,0"}},
    {"tg_norm", "p 1", .call = call_norm_absolute, .inputs = {DISTINCT}, .shapes = {"2,3", "7", "0,3"}},
    {"tg_norm", "maximum", .call = call_norm_max, .inputs = {DISTINCT}, .shapes = {"2,3", "7", "2,2,3"}},
    {"tg_topk", "smallest", .call = call_topk_smallest, .inputs = {DISTINCT},
     .shapes = {"2,3", "7", "2,2,4", "2", "0,3"}},
    {"tg_sort", "last", .call = call_sort_last, .inputs = {DISTINCT}, .shapes = {"2,3", "7", "2,2,4", "2", "0,3"}},
    {"tg_sort", "first, descending", .call = call_sort_first, .inputs = {DISTINCT},
     .shapes = {"4,3", "7", "3,2,2", "2,1", "2,0"}},
    {"tg_cumsum", "last", .call = call_cumsum_last, .inputs = {REAL}, .shapes = {"2,3", "7", "2,2,3", "1", "0,3"}},
    {"tg_cumsum", "first", .call = call_cumsum_first, .inputs = {REAL}, .shapes = {"3,2", "7", "3,2,2", "-", "2,0"}},
    {"tg_flip", "last", .call = call_flip, .inputs = {REAL}, .shapes = {"2,3", "4", "2,2,3", "1", "0,3"}},
    {"tg_flip", "all", .call = call_flip_all, .inputs = {REAL}, .shapes = {"2,3", "4", "2,2,3", "1,1"}},
    {"tg_repeat", "", .call = call_repeat, .inputs = {REAL}, .shapes = {"2,3", "4", "2,2,3", "1,1", "-"}},
    {"tg_scatter_add", "first", .call = call_scatter_add_first, .inputs = {REAL, IDS, REAL},
     .shapes = {"3,2 4,2 4,2", "3,4 2,3 4,4", "3 5 5", "3,2 0,2 0,2"}, .bound = 3},
    {"tg_scatter_add", "last", .call = call_scatter_add_last, .inputs = {REAL, IDS, REAL},
     .shapes = {"2,3 2,4 2,4", "4,3 2,2 3,3", "2,2,3 2,1,4 2,2,4"}, .bound = 3},
    {"tg_index_add", "first", .call = call_index_add_first, .inputs = {REAL, IDS, REAL},
     .shapes = {"3,2 4 4,2", "3 5 5", "3,2,2 2 2,2,2", "3,2 0 0,2"}, .bound = 3},
    {"tg_index_add", "last", .call = call_index_add_last, .inputs = {REAL, IDS, REAL},
     .shapes = {"2,3 4 2,4", "2,2,3 2 2,2,2"}, .bound = 3},
    {"tg_layer_norm", "plain", .call = call_layer_norm_plain, .inputs = {REAL}, .shapes = {"2,5", "5", "2,2,3", "0,3"}},
    {"tg_gru", "", .call = call_gru, .inputs = {REAL, REAL, REAL, REAL},
     .shapes = {"3,2,9 2,3 9,3 9", "1,1,3 1,1 3,1 3", "2,6,15 6,5 15,5 15", "2,0,9 0,3 9,3 9"}},
    {"tg_gru", "masked", .call = call_gru_masked, .inputs = {REAL, REAL, REAL},
     .shapes = {"3,3,6 3,2 6,2", "3,2,9 2,3 9,3"}},
    {"tg_lstm", "", .call = call_lstm, .inputs = {REAL, REAL, REAL, REAL},
     .shapes = {"3,2,12 2,3 12,3 12", "1,1,4 1,1 4,1 4", "2,6,20 6,5 20,5 20", "2,0,12 0,3 12,3 12"}},
    {"tg_lstm", "masked", .call = call_lstm_masked, .inputs = {REAL, REAL, REAL},
     .shapes = {"3,3,8 3,2 8,2", "3,2,12 2,3 12,3"}},
    {"tg_lstm", "cell", .call = call_lstm_cell, .inputs = {REAL, REAL, REAL, REAL}, .shapes = {"3,2,12 2,3 12,3 2,3"}},
    {"tg_lstm", "added", .call = call_lstm_added, .inputs = {REAL, REAL, REAL}, .shapes = {"3,2,12 2,3 12,3"}},
    {"tg_conv1d", "groups", .call = call_conv1d, .inputs = {REAL, REAL, REAL},
     .shapes = {"2,4,5 6,2,3 6", "1,2,4 2,1,2 2", "0,4,5 6,2,3 6"}},
    {"tg_conv1d", "dilated", .call = call_conv1d_dilated, .inputs = {REAL, REAL},
     .shapes = {"2,2,7 3,2,3", "1,1,1 1,1,1"}},
    {"tg_max_pool1d", "", .call = call_max_pool1d, .inputs = {DISTINCT}, .shapes = {"2,7", "9", "2,2,5"}},
    {"tg_avg_pool1d", "", .call = call_avg_pool1d, .inputs = {REAL}, .shapes = {"2,7", "9", "2,2,5"}},
    {"tg_tril", "", .call = call_tril, .inputs = {REAL}, .shapes = {"3,3", "2,3,2", "1,1", "2,4", "0,3"}},
    {"tg_triu", "-1", .call = call_triu, .inputs = {REAL}, .shapes = {"4,4", "2,4,2", "1,1", "4,2", "0,3"}},
    {"tg_cast", "to f64", .call = call_cast, .inputs = {REAL}},
    {"tg_cast", "to f32", .call = call_cast_narrow, .inputs = {REAL}, .eps = 0.25},
    {"tg_cat", "first", .call = call_cat_first, .inputs = {REAL, REAL, REAL},
     .shapes = {"2,3 1,3 3,3", "2 1 4", "1 1 1", "0,3 2,3 0,3", "0 0 0"}},
    {"tg_cat", "last", .call = call_cat_last, .inputs = {REAL, REAL, REAL},
     .shapes = {"2,3 2,1 2,2", "2 1 4", "2,2,1 2,2,2 2,2,3", "2,0 2,1 2,0"}},
    {"tg_stack", "first", .call = call_stack_first, .inputs = {REAL, REAL, REAL},
     .shapes = {"2,3 2,3 2,3", "2 2 2", "1 1 1", "- - -", "0,3 0,3 0,3"}},
    {"tg_stack", "last", .call = call_stack_last, .inputs = {REAL, REAL, REAL},
     .shapes = {"2,3 2,3 2,3", "2 2 2", "1 1 1", "0,3 0,3 0,3"}},
    {"tg_gather", "first", .call = call_gather_first, .inputs = {REAL, IDS},
     .shapes = {"3,2 4,2", "3,4 2,3", "3 5", "3,1 1,1", "3,2 0,2"}, .bound = 3},
    {"tg_gather", "last", .call = call_gather_last, .inputs = {REAL, IDS},
     .shapes = {"2,3 2,4", "4,3 2,2", "3 5", "2,2,3 2,1,4", "2,3 2,0"}, .bound = 3},
    {"tg_index_select", "first", .call = call_index_select_first, .inputs = {REAL, IDS},
     .shapes = {"3,2 4", "3 5", "3,2,2 2", "3,1 1", "3,2 0"}, .bound = 3},
    {"tg_index_select", "last", .call = call_index_select_last, .inputs = {REAL, IDS},
     .shapes = {"2,3 4", "3 5", "2,2,3 2", "1,3 1", "2,3 0"}, .bound = 3},
    {.op = NULL},
};

const without_gradient without_gradients[] = {
    {"tg_full", "creates a constant"},
    {"tg_constant", "creates a constant"},
    {"tg_eq", "u8"},
    {"tg_ne", "u8"},
    {"tg_lt", "u8"},
    {"tg_le", "u8"},
    {"tg_gt", "u8"},
    {"tg_ge", "u8"},
    {"tg_one_hot", "of ids"},
    {"tg_logical_and", "u8"},
    {"tg_logical_or", "u8"},
    {"tg_logical_not", "u8"},
    {"tg_any", "u8"},
    {"tg_all", "u8"},
    {"tg_bernoulli", "draws"},
    {"tg_multinomial", "draws"},
    {"tg_argmin", "indices"},
    {"tg_argmax", "indices"},
    {"tg_detach", "that is its purpose"},
};
const int without_gradient_count = (int)(sizeof without_gradients / sizeof *without_gradients);

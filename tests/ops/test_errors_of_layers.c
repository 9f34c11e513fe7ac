/* What products, embeddings, attention, norms and losses refuse. */
#include "ops/refused.h"

#include <math.h>

/* Of a function that does not return a tensor: something for success. */

static const void *renorm(tg_tape *t, tg_tensor *table, tg_tensor *ids, double max_norm, double p)
{
    return tg_embedding_renorm(t, table, ids, max_norm, p) ? t : NULL;
}

static void test_products(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_matmul(t, f->x, f->x), SHAPE, "matmul: (2,3) x (2,3): inner sizes 3 and 2 differ");
    REFUSED(tg_matmul(t, f->x, f->four), SHAPE, "matmul: (2,3) x (4,1): inner sizes 3 and 4 differ");
    REFUSED(tg_matmul(t, f->scalar, f->x), SHAPE, "matmul: input 0 is a scalar; it must have rank 1 or more");
    REFUSED(tg_matmul(t, f->batches, f->three_batches), SHAPE,
            "matmul: (2,3,2) x (3,2,3): the batch axes do not broadcast");
    REFUSED(tg_matmul(t, f->x, f->doubles), DTYPE, MIXED("matmul", "f32", "f64"));
    REFUSED(tg_matmul(t, f->ids, f->vector), DTYPE, NOT_FLOAT("matmul", 0, "i32"));
    REFUSED(tg_matmul(t, f->x, NULL), STATE, NULL_INPUT("matmul", 1));
    REFUSED(tg_linear_map(t, f->four, f->x), SHAPE,
            "linear: x is (4,), the weight (2,3); they must be (..,in), (out,in)");
    REFUSED(tg_linear_map(t, f->x, f->vector), SHAPE,
            "linear: x is (2,3), the weight (3,); they must be (..,in), (out,in)");
    REFUSED(tg_linear_map(t, f->x, f->doubles), DTYPE, MIXED("linear", "f32", "f64"));
    REFUSED(tg_linear_map(t, f->ids, f->x), DTYPE, NOT_FLOAT("linear", 0, "i32"));
    REFUSED(tg_linear_map(t, f->x, NULL), STATE, NULL_INPUT("linear", 1));
    REFUSED(tg_linear_map_bias(t, f->x, f->x, f->four), SHAPE,
            "linear: x is (2,3), the weight (2,3), the bias (4,); they must be (..,in), (out,in) and (out)");
    REFUSED(tg_linear_map_bias(t, f->x, f->x, f->mask), DTYPE, NOT_FLOAT("linear", 2, "u8"));
    REFUSED(tg_linear_map_bias(t, f->x, f->x, NULL), STATE, NULL_INPUT("linear", 2));
}

static void test_embedding(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_embedding_lookup(t, f->x, f->ids), RANGE, "embedding: id 8 at [0,1] is outside [0,2)");
    REFUSED(tg_embedding_lookup(t, f->x, f->vector), DTYPE, NOT_IDS("embedding", 1, "f32"));
    REFUSED(tg_embedding_lookup(t, f->ids, f->ids), DTYPE, NOT_FLOAT("embedding", 0, "i32"));
    REFUSED(tg_embedding_lookup(t, f->vector, f->ids), SHAPE, "embedding: input 0 has shape (3,); it must have rank 2");
    REFUSED(tg_embedding_lookup(t, f->table, f->deep_ids), SHAPE,
            "embedding: ids of rank 8; at most 7, because the width is added");
    REFUSED(tg_embedding_lookup(t, NULL, f->ids), STATE, NULL_INPUT("embedding", 0));
    REFUSED(tg_embedding_lookup(t, f->x, NULL), STATE, NULL_INPUT("embedding", 1));
    REFUSED((tg_embedding_lookup_with(t, f->table, f->ids, &(tg_lookup_config){9, false})), RANGE,
            "embedding: padding index 9 is outside [-9,9)");
    REFUSED((tg_embedding_lookup_with(t, f->table, f->ids, &(tg_lookup_config){-10, false})), RANGE,
            "embedding: padding index -10 is outside [-9,9)");
    REFUSED((tg_embedding_lookup_with(t, NULL, f->ids, &(tg_lookup_config){0, true})), STATE,
            NULL_INPUT("embedding", 0));
    REFUSED(renorm(t, f->table, f->ids, 0, 2), VALUE, "embedding_renorm: max_norm 0 and p 2; both must be above 0");
    REFUSED(renorm(t, f->table, f->ids, 1, -1), VALUE, "embedding_renorm: max_norm 1 and p -1; both must be above 0");
    REFUSED(renorm(t, f->table, f->ids, NAN, 2), VALUE, "embedding_renorm: max_norm nan and p 2; both must be above 0");
    REFUSED(renorm(t, f->four_rows, f->ids, 1, 2), RANGE, "embedding_renorm: id 8 at [0,1] is outside [0,4)");
    REFUSED(renorm(t, f->kept, f->ids, 1, 2), STATE, "embedding_renorm: the table is the result of a recorded op");
    REFUSED(renorm(t, f->vector, f->ids, 1, 2), SHAPE, "embedding_renorm: the table must be a contiguous float matrix");
    REFUSED(renorm(t, f->table, f->vector, 1, 2), DTYPE, "embedding_renorm: the ids must be contiguous i32");
    REFUSED(renorm(t, NULL, f->ids, 1, 2), STATE, "embedding_renorm: the table is NULL");
    REFUSED(renorm(t, f->table, NULL, 1, 2), STATE, "embedding_renorm: the ids are NULL");
    REFUSED(tg_embedding_bag(t, f->x, f->ids, NULL), RANGE, "embedding_bag: id 8 at [0,1] is outside [0,2)");
    REFUSED(tg_embedding_bag(t, f->table, f->id_list, NULL), SHAPE,
            "embedding_bag: input 1 has shape (2,); it must have rank 2");
    REFUSED(tg_embedding_bag(t, f->vector, f->ids, NULL), SHAPE,
            "embedding_bag: input 0 has shape (3,); it must have rank 2");
    REFUSED(tg_embedding_bag(t, f->table, f->x, NULL), DTYPE, NOT_IDS("embedding_bag", 1, "f32"));
    REFUSED(
        (tg_embedding_bag(t, f->table, f->ids, &(tg_embedding_bag_config){TG_BAG_SUM, -10, NULL, NULL, false, false})),
        RANGE, "embedding_bag: padding index -10 is outside [-9,9)");
    REFUSED((tg_embedding_bag(t, f->table, f->ids,
                              &(tg_embedding_bag_config){(tg_bag_mode)3, TG_NO_PADDING, NULL, NULL, false, false})),
            VALUE, "embedding_bag: 3 is not a mode of bags");
    REFUSED((tg_embedding_bag(t, f->table, f->ids,
                              &(tg_embedding_bag_config){TG_BAG_MEAN, TG_NO_PADDING, NULL, f->x, false, false})),
            VALUE, "embedding_bag: weights go with TG_BAG_SUM alone, not with mode 1");
    REFUSED((tg_embedding_bag(t, f->table, f->ids,
                              &(tg_embedding_bag_config){TG_BAG_SUM, TG_NO_PADDING, NULL, f->four, false, false})),
            SHAPE, "embedding_bag: inputs 1 and 2 have shapes (2,3) and (4,); they must be equal");
    REFUSED((tg_embedding_bag(t, f->table, f->ids,
                              &(tg_embedding_bag_config){TG_BAG_SUM, TG_NO_PADDING, NULL, f->doubles, false, false})),
            DTYPE, MIXED("embedding_bag", "f32", "f64"));
    REFUSED((tg_embedding_bag(t, f->table, f->id_list,
                              &(tg_embedding_bag_config){TG_BAG_SUM, TG_NO_PADDING, f->id_list, NULL, false, false})),
            RANGE,
            "embedding_bag: offset 5 at [0]; the first is 0, none is below the one before (0) or beyond the 2 ids");
    REFUSED((tg_embedding_bag(t, f->table, f->ids,
                              &(tg_embedding_bag_config){TG_BAG_SUM, TG_NO_PADDING, f->id_list, NULL, false, false})),
            SHAPE, "embedding_bag: input 1 has shape (2,3); it must have rank 1");
    REFUSED((tg_embedding_bag(t, f->table, f->id_list,
                              &(tg_embedding_bag_config){TG_BAG_SUM, TG_NO_PADDING, f->vector, NULL, false, false})),
            DTYPE, NOT_IDS("embedding_bag", 2, "f32"));
    REFUSED(tg_embedding_bag(t, f->table, NULL, NULL), STATE, NULL_INPUT("embedding_bag", 1));
}

static void test_attention(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_attention(t, f->x, f->batches, f->batches, NULL), SHAPE,
            "attention: queries (2,3), keys (2,3,2) and values (2,3,2); they must be (..,T,D), (..,S,D) and (..,S,D) "
            "with S >= T");
    REFUSED(tg_attention(t, f->x, f->x, f->row, NULL), SHAPE,
            "attention: queries (2,3), keys (2,3) and values (1,3); they must be (..,T,D), (..,S,D) and (..,S,D) with "
            "S >= T");
    REFUSED(tg_attention(t, f->x, f->row, f->row, NULL), SHAPE,
            "attention: queries (2,3), keys (1,3) and values (1,3); they must be (..,T,D), (..,S,D) and (..,S,D) with "
            "S >= T");
    REFUSED((tg_attention(t, f->x, f->x, f->x, &(tg_attention_config){true, 0, f->x})), SHAPE,
            "attention: the bias is (2,3); for queries (2,3) and keys (2,3) it must be (..,T,S)");
    REFUSED((tg_attention(t, f->x, f->x, f->x, &(tg_attention_config){true, 1, NULL})), VALUE,
            "attention: dropout probability 1 is outside [0,1)");
    REFUSED((tg_attention(t, f->x, f->x, f->x, &(tg_attention_config){true, NAN, NULL})), VALUE,
            "attention: dropout probability nan is outside [0,1)");
    REFUSED(tg_attention(t, f->x, f->x, f->doubles, NULL), DTYPE, MIXED("attention", "f32", "f64"));
    REFUSED(tg_attention(t, f->ids, f->ids, f->ids, NULL), DTYPE, NOT_FLOAT("attention", 0, "i32"));
    REFUSED(tg_attention(t, f->x, NULL, f->x, NULL), STATE, NULL_INPUT("attention", 1));
    CHAIN_REFUSED(tg_attention_elementary(t, f->x, f->row, f->row, NULL), SHAPE);
    REFUSED((tg_attention_elementary(t, f->x, f->x, f->x, &(tg_attention_config){true, -0.1, NULL})), VALUE,
            "attention: dropout probability -0.1 is outside [0,1)");
    CHAIN_REFUSED(tg_attention_elementary(t, f->x, f->doubles, f->x, NULL), DTYPE);
    CHAIN_REFUSED(tg_attention_elementary(t, NULL, f->x, f->x, NULL), STATE);
    CHAIN_REFUSED(tg_attention_weights(t, f->x, f->row, NULL), SHAPE);
    CHAIN_REFUSED(tg_attention_weights(t, f->x, f->four_rows, NULL), SHAPE);
    CHAIN_REFUSED((tg_attention_weights(t, f->x, f->x, &(tg_attention_config){true, 0.5, f->vector})), SHAPE);
    REFUSED((tg_attention_weights(t, f->x, f->x, &(tg_attention_config){true, 1.5, NULL})), VALUE,
            "attention: dropout probability 1.5 is outside [0,1)");
    CHAIN_REFUSED(tg_attention_weights(t, f->x, f->doubles, NULL), DTYPE);
    CHAIN_REFUSED(tg_attention_weights(t, f->x, NULL, NULL), STATE);
    REFUSED(tg_relative_shift(t, f->x, 3, 4), SHAPE,
            "relative_shift: x is (2,3); for 3 queries it must be (..,3,L) or (..,1,L)");
    REFUSED(tg_relative_shift(t, f->vector, 1, 1), SHAPE,
            "relative_shift: x is (3,); for 1 queries it must be (..,1,L) or (..,1,L)");
    REFUSED(tg_relative_shift(t, f->x, 2, -1), SHAPE, "relative_shift: 2 queries and -1 keys; allowed are 0 or more");
    REFUSED(tg_relative_shift(t, f->ids, 2, 2), DTYPE, NOT_FLOAT("relative_shift", 0, "i32"));
    REFUSED(tg_relative_shift(t, NULL, 2, 2), STATE, NULL_INPUT("relative_shift", 0));
#define SCORES(distances, keys, rule)                                       \
    "relative_scores: queries (2,3), distances " distances " and S = " keys \
    " keys; they must be (..,T,D) and (..,L,D), " rule
    REFUSED(tg_relative_scores(t, f->x, f->x, 2, false), SHAPE, SCORES("(2,3)", "2", "T + S - 1 <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->x, 1, true), SHAPE, SCORES("(2,3)", "1", "T <= S <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->x, 3, true), SHAPE, SCORES("(2,3)", "3", "T <= S <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->x, -1, false), SHAPE, SCORES("(2,3)", "-1", "T + S - 1 <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->vector, 1, false), SHAPE, SCORES("(3,)", "1", "T + S - 1 <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->doubles, 2, true), DTYPE, MIXED("relative_scores", "f32", "f64"));
    REFUSED(tg_relative_scores(t, f->ids, f->x, 2, true), DTYPE, NOT_FLOAT("relative_scores", 0, "i32"));
    REFUSED(tg_relative_scores(t, f->x, NULL, 2, true), STATE, NULL_INPUT("relative_scores", 1));
    REFUSED(tg_relative_spread(t, f->four_rows, 2), SHAPE, "relative_spread: x is (4,2); it must be (..,T,2 clip + 1)");
    REFUSED(tg_relative_spread(t, f->vector, 2), SHAPE, "relative_spread: x is (3,); it must be (..,T,2 clip + 1)");
    REFUSED(tg_relative_spread(t, f->x, -1), SHAPE, "relative_spread: -1 keys; allowed are 0 or more");
    REFUSED(tg_relative_spread(t, f->ids, 2), DTYPE, NOT_FLOAT("relative_spread", 0, "i32"));
    REFUSED(tg_relative_spread(t, NULL, 2), STATE, NULL_INPUT("relative_spread", 0));
    REFUSED(tg_relative_collect(t, f->x, -1), VALUE, "relative_collect: a clip of -1; allowed are 0 to 2147483647");
    REFUSED(tg_relative_collect(t, f->vector, 1), SHAPE, "relative_collect: x is (3,); it must be (..,T,S)");
    REFUSED(tg_relative_collect(t, f->ids, 1), DTYPE, NOT_FLOAT("relative_collect", 0, "i32"));
    REFUSED(tg_relative_collect(t, NULL, 1), STATE, NULL_INPUT("relative_collect", 0));
    REFUSED(tg_rotary(t, f->x, 0, NULL), SHAPE, "rotary: x is (2,3); it must be (..,T,D) with an even D");
    REFUSED(tg_rotary(t, f->four, 0, NULL), SHAPE, "rotary: x is (4,); it must be (..,T,D) with an even D");
    REFUSED((tg_rotary(t, f->batches, 0, &(tg_rotary_config){1, TG_ROTARY_HALVES, 1, 1})), VALUE,
            "rotary: base 1, position scale 1, NTK factor 1, pairing 0; allowed are a base above 1, scales above 0, "
            "and the two pairings");
    REFUSED((tg_rotary(t, f->batches, 0, &(tg_rotary_config){10, TG_ROTARY_HALVES, 0, 1})), VALUE,
            "rotary: base 10, position scale 0, NTK factor 1, pairing 0; allowed are a base above 1, scales above 0, "
            "and the two pairings");
    REFUSED((tg_rotary(t, f->batches, 0, &(tg_rotary_config){10, TG_ROTARY_HALVES, 1, NAN})), VALUE,
            "rotary: base 10, position scale 1, NTK factor nan, pairing 0; allowed are a base above 1, scales above 0, "
            "and the two pairings");
    REFUSED((tg_rotary(t, f->batches, 0, &(tg_rotary_config){10, (tg_rotary_pairing)2, 1, 1})), VALUE,
            "rotary: base 10, position scale 1, NTK factor 1, pairing 2; allowed are a base above 1, scales above 0, "
            "and the two pairings");
    REFUSED(tg_rotary(t, f->ids, 0, NULL), DTYPE, NOT_FLOAT("rotary", 0, "i32"));
    REFUSED(tg_rotary(t, NULL, 0, NULL), STATE, NULL_INPUT("rotary", 0));
    CHAIN_REFUSED(tg_attention_elementary(t, f->x, f->x, NULL, NULL), STATE);
    CHAIN_REFUSED(tg_attention_elementary(t, f->x, f->x, f->four, NULL), SHAPE);
}

static void test_losses(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_softmax(t, f->x, 2), RANGE, NO_AXIS("softmax", 2));
    REFUSED(tg_softmax(t, f->ids, 0), DTYPE, NOT_FLOAT("softmax", 0, "i32"));
    REFUSED(tg_softmax(t, NULL, 0), STATE, NULL_INPUT("softmax", 0));
    REFUSED(tg_log_softmax(t, f->x, -3), RANGE, NO_AXIS("log_softmax", -3));
    REFUSED(tg_log_softmax(t, f->mask, 0), DTYPE, NOT_FLOAT("log_softmax", 0, "u8"));
    REFUSED(tg_log_softmax(t, NULL, 0), STATE, NULL_INPUT("log_softmax", 0));
    REFUSED(tg_layer_norm(t, f->x, f->four, f->vector, 1e-5), SHAPE,
            "layer_norm: x is (2,3), the weight (4,), the bias (3,); they must be (..,C), (C) and (C) with C >= 1");
    REFUSED(tg_layer_norm(t, f->x, f->vector, f->four, 1e-5), SHAPE,
            "layer_norm: x is (2,3), the weight (3,), the bias (4,); they must be (..,C), (C) and (C) with C >= 1");
    REFUSED(tg_layer_norm(t, f->scalar, f->vector, f->vector, 1e-5), SHAPE,
            "layer_norm: x is (), the weight (3,), the bias (3,); they must be (..,C), (C) and (C) with C >= 1");
    REFUSED(tg_layer_norm(t, f->x, f->vector, f->vector, 0), VALUE, "layer_norm: eps is 0; it must be above 0");
    REFUSED(tg_layer_norm(t, f->x, f->vector, f->vector, NAN), VALUE, "layer_norm: eps is nan; it must be above 0");
    REFUSED(tg_layer_norm(t, f->doubles, f->vector, f->vector, 1e-5), DTYPE, MIXED("layer_norm", "f64", "f32"));
    REFUSED(tg_layer_norm(t, f->x, f->id_list, f->vector, 1e-5), DTYPE, NOT_FLOAT("layer_norm", 1, "i32"));
    REFUSED(tg_layer_norm(t, f->x, f->vector, NULL, 1e-5), STATE, NULL_INPUT("layer_norm", 2));
    REFUSED(tg_rms_norm(t, f->x, f->four, 1e-5), SHAPE,
            "rms_norm: x is (2,3) and the weight (4,); they must be (..,C) and (C) with C >= 1");
    REFUSED(tg_rms_norm(t, f->scalar, f->vector, 1e-5), SHAPE,
            "rms_norm: x is () and the weight (3,); they must be (..,C) and (C) with C >= 1");
    REFUSED(tg_rms_norm(t, f->x, f->vector, -1), VALUE, "rms_norm: eps is -1; it must be above 0");
    REFUSED(tg_rms_norm(t, f->doubles, f->vector, 1e-5), DTYPE, MIXED("rms_norm", "f64", "f32"));
    REFUSED(tg_rms_norm(t, f->ids, f->vector, 1e-5), DTYPE, NOT_FLOAT("rms_norm", 0, "i32"));
    REFUSED(tg_rms_norm(t, f->x, NULL, 1e-5), STATE, NULL_INPUT("rms_norm", 1));
    REFUSED(tg_dropout(t, f->x, 1.5), VALUE, "dropout: probability 1.5 is outside [0,1]");
    REFUSED(tg_dropout(t, f->x, -0.1), VALUE, "dropout: probability -0.1 is outside [0,1]");
    REFUSED(tg_dropout(t, f->x, NAN), VALUE, "dropout: probability nan is outside [0,1]");
    REFUSED(tg_dropout(t, f->ids, 0.5), DTYPE, NOT_FLOAT("dropout", 0, "i32"));
    REFUSED(tg_dropout(t, NULL, 0.5), STATE, NULL_INPUT("dropout", 0));
    REFUSED(tg_cross_entropy(t, f->x, f->four_ids), SHAPE,
            "cross_entropy: logits (2,3) and targets (4,); they must be (S,V) and (S) with V >= 1");
    REFUSED(tg_cross_entropy(t, f->scalar, f->id_list), SHAPE,
            "cross_entropy: logits () and targets (2,); they must be (S,V) and (S) with V >= 1");
    REFUSED(tg_cross_entropy(t, f->batches, f->id_list), SHAPE,
            "cross_entropy: logits (2,3,2) and targets (2,); they must be (S,V) and (S) with V >= 1");
    REFUSED(tg_cross_entropy(t, f->x, f->id_list), RANGE,
            "cross_entropy: target 5 at [0] is outside [0,3), and -100 is what is ignored");
    REFUSED(tg_cross_entropy(t, f->x, f->mask), DTYPE, NOT_IDS("cross_entropy", 1, "u8"));
    REFUSED(tg_cross_entropy(t, f->ids, f->id_list), DTYPE, NOT_FLOAT("cross_entropy", 0, "i32"));
    REFUSED(tg_cross_entropy(t, f->x, NULL), STATE, NULL_INPUT("cross_entropy", 1));
    REFUSED((tg_cross_entropy_with(t, f->x, f->id_list, &(tg_cross_entropy_config){3, 1.5, TG_REDUCTION_MEAN})), VALUE,
            "cross_entropy: label smoothing 1.5 is outside [0,1]");
    REFUSED((tg_cross_entropy_with(t, f->x, f->id_list, &(tg_cross_entropy_config){3, NAN, TG_REDUCTION_MEAN})), VALUE,
            "cross_entropy: label smoothing nan is outside [0,1]");
    REFUSED((tg_cross_entropy_with(t, f->x, f->id_list, &(tg_cross_entropy_config){3, 0, (tg_reduction)3})), VALUE,
            "cross_entropy: 3 is not a reduction");
    REFUSED((tg_cross_entropy_with(t, f->x, f->id_list, &(tg_cross_entropy_config){-1, 0, TG_REDUCTION_NONE})), RANGE,
            "cross_entropy: target 5 at [0] is outside [0,3), and -1 is what is ignored");
    REFUSED(tg_cross_entropy_with(t, NULL, f->id_list, NULL), STATE, NULL_INPUT("cross_entropy", 0));
    REFUSED(tg_nll_loss(t, f->x, f->four_ids, -100, TG_REDUCTION_MEAN), SHAPE,
            "nll_loss: log-probabilities (2,3) and targets (4,); they must be (S,V) and (S) with V >= 1");
    REFUSED(tg_nll_loss(t, f->x, f->id_list, -100, TG_REDUCTION_MEAN), RANGE,
            "nll_loss: target 5 at [0] is outside [0,3), and -100 is what is ignored");
    REFUSED(tg_nll_loss(t, f->x, f->id_list, 3, (tg_reduction)-1), VALUE, "nll_loss: -1 is not a reduction");
    REFUSED(tg_nll_loss(t, f->x, f->vector, -100, TG_REDUCTION_MEAN), DTYPE, NOT_IDS("nll_loss", 1, "f32"));
    REFUSED(tg_nll_loss(t, f->x, NULL, -100, TG_REDUCTION_MEAN), STATE, NULL_INPUT("nll_loss", 1));
    REFUSED(tg_mse_loss(t, f->x, f->vector, TG_REDUCTION_MEAN), SHAPE,
            "mse_loss: inputs 0 and 1 have shapes (2,3) and (3,); they must be equal");
    REFUSED(tg_mse_loss(t, f->x, f->x, (tg_reduction)7), VALUE, "mse_loss: 7 is not a reduction");
    REFUSED(tg_mse_loss(t, f->x, f->doubles, TG_REDUCTION_MEAN), DTYPE, MIXED("mse_loss", "f32", "f64"));
    REFUSED(tg_mse_loss(t, f->ids, f->ids, TG_REDUCTION_MEAN), DTYPE, NOT_FLOAT("mse_loss", 0, "i32"));
    REFUSED(tg_mse_loss(t, NULL, f->x, TG_REDUCTION_MEAN), STATE, NULL_INPUT("mse_loss", 0));
}

static void test_no_generator(void **state)
{
    fixture *f = *state;
    tg_tape *t = tg_tape_new(NULL);
    assert_null(tg_dropout(t, f->x, 0.5));
    assert_string_equal(tg_tape_error(t), "dropout: the tape has no generator; give tg_tape_new one");
    assert_tape_error(t, TG_ERROR_STATE, "");
    tg_attention_config config = {.dropout = 0.5};
    assert_null(tg_attention(t, f->x, f->x, f->x, &config));
    assert_string_equal(tg_tape_error(t), "attention: the tape has no generator; give tg_tape_new one");
    assert_tape_error(t, TG_ERROR_STATE, "");
    tg_tape_set_training(t, false);
    assert_non_null(tg_dropout(t, f->x, 0.5));
    assert_non_null(tg_attention(t, f->x, f->x, f->x, &config));
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_products, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_embedding, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_attention, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_losses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_generator, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("errors of layers", tests, NULL, NULL);
}

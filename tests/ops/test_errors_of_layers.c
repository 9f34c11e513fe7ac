/* The errors of matrix products, embeddings, attention, norms and losses. */
#include "ops/attention/attention.h"
#include "ops/refused.h"
#include "ops/attention/relative.h"

#include <math.h>

/* A lookup that first scales rows down. */
static tg_tensor *limit(tg_tape *t, tg_tensor *table, tg_tensor *ids, double max_norm, double p)
{
    tg_embedding_config config = tg_embedding_config_default();
    config.max_norm = max_norm;
    config.norm_type = p;
    return tg_embedding(t, ids, table, &config);
}

static tg_tensor *limit_bags(tg_tape *t, tg_tensor *table, tg_tensor *ids, double max_norm, double p)
{
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.max_norm = max_norm;
    config.norm_type = p;
    return tg_embedding_bag(t, ids, table, &config);
}

static tg_tensor *bags(tg_tape *t, tg_tensor *ids, tg_tensor *table, tg_bag_mode mode, tg_tensor *offsets,
                       tg_tensor *weights)
{
    return embed_bags(t, ids, table, mode, TG_NO_PADDING, offsets, weights);
}

static tg_tensor *rotate(tg_tape *t, tg_tensor *x, double base, tg_rotary_pairing pairing, double position_scale,
                         double ntk_factor)
{
    tg_rotary_config config = tg_rotary_config_default();
    config.base = base;
    config.pairing = pairing;
    config.position_scale = position_scale;
    config.ntk_factor = ntk_factor;
    return tg_rotary(t, x, 0, &config);
}

#define FAR_RULE                                                                                         \
    "; llama3_factor must be at least 1, low_frequency_factor above 0 and below high_frequency_factor, " \
    "original_context above 0"

static tg_tensor *rotate_at(tg_tape *t, tg_tensor *x, int64_t start, tg_tensor *positions)
{
    tg_rotary_config config = tg_rotary_config_default();
    config.positions = positions;
    return tg_rotary(t, x, start, &config);
}

static tg_tensor *rotate_far(tg_tape *t, tg_tensor *x, double factor, double low, double high, int64_t context)
{
    tg_rotary_config config = tg_rotary_config_default();
    config.llama3_factor = factor;
    config.low_frequency_factor = low;
    config.high_frequency_factor = high;
    config.original_context = context;
    return tg_rotary(t, x, 0, &config);
}

static void test_products(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_matmul(t, f->x, f->x), SHAPE, "matmul: (2,3) x (2,3): inner sizes 3 and 2 differ");
    REFUSED(tg_matmul(t, f->x, f->four), SHAPE, "matmul: (2,3) x (4,1): inner sizes 3 and 4 differ");
    REFUSED(tg_matmul(t, f->scalar, f->x), SHAPE, "matmul: argument 'a' is a scalar; it must have rank 1 or more");
    REFUSED(tg_matmul(t, f->batches, f->three_batches), SHAPE,
            "matmul: (2,3,2) x (3,2,3): the batch axes do not broadcast; sizes must be equal or 1");
    REFUSED(tg_matmul(t, f->x, f->doubles), DTYPE, MIXED("matmul", "f32", "f64"));
    REFUSED(tg_matmul(t, f->ids, f->vector), DTYPE, NOT_FLOAT("matmul", "a", "i32"));
    REFUSED(tg_matmul(t, f->x, f->scalar), SHAPE, "matmul: argument 'b' is a scalar; it must have rank 1 or more");
    REFUSED(tg_matmul(t, f->x, NULL), STATE, NULL_ARGUMENT("matmul", "b"));
    REFUSED(tg_matmul(t, NULL, f->x), STATE, NULL_ARGUMENT("matmul", "a"));
    REFUSED(tg_linear(t, f->four, f->x, NULL), SHAPE,
            "linear: x is (4,), the weight (2,3); they must be (..,in), (out,in)");
    REFUSED(tg_linear(t, f->x, f->vector, NULL), SHAPE,
            "linear: x is (2,3), the weight (3,); they must be (..,in), (out,in)");
    REFUSED(tg_linear(t, f->x, f->doubles, NULL), DTYPE, MIXED("linear", "f32", "f64"));
    REFUSED(tg_linear(t, f->ids, f->x, NULL), DTYPE, NOT_FLOAT("linear", "x", "i32"));
    REFUSED(tg_linear(t, f->x, NULL, NULL), STATE, NULL_ARGUMENT("linear", "weight"));
    REFUSED(tg_linear(t, f->x, f->x, f->four), SHAPE,
            "linear: x is (2,3), the weight (2,3), the bias (4,); they must be (..,in), (out,in) and (out)");
    REFUSED(tg_linear(t, f->x, f->x, f->mask), DTYPE, NOT_FLOAT("linear", "bias", "u8"));
    REFUSED(tg_linear(t, NULL, f->x, f->vector), STATE, NULL_ARGUMENT("linear", "x"));
}

static void test_embedding(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_embedding(t, f->ids, f->x, NULL), RANGE, "embedding: id 8 at [0,1] is outside [0,2)");
    REFUSED(tg_embedding(t, f->vector, f->x, NULL), DTYPE, NOT_IDS("embedding", "ids", "f32"));
    REFUSED(tg_embedding(t, f->ids, f->ids, NULL), DTYPE, NOT_FLOAT("embedding", "table", "i32"));
    REFUSED(tg_embedding(t, f->ids, f->vector, NULL), SHAPE, "embedding: the table has shape (3,); it must be (V,C)");
    REFUSED(tg_embedding(t, f->deep_ids, f->table, NULL), SHAPE,
            "embedding: ids of rank 8; it must be at most 7, because the result has one more axis");
    REFUSED(tg_embedding(t, f->ids, NULL, NULL), STATE, NULL_ARGUMENT("embedding", "table"));
    REFUSED(tg_embedding(t, NULL, f->x, NULL), STATE, NULL_ARGUMENT("embedding", "ids"));
    REFUSED(embed(t, f->ids, f->table, 9, false), RANGE, "embedding: padding_index 9 is outside [-9,9)");
    REFUSED(embed(t, f->ids, f->table, -10, false), RANGE, "embedding: padding_index -10 is outside [-9,9)");
    REFUSED(embed(t, f->ids, NULL, 0, true), STATE, NULL_ARGUMENT("embedding", "table"));
    REFUSED((tg_embedding(t, f->ids, f->table, &(tg_embedding_config){.padding_index = TG_NO_PADDING})), VALUE,
            NO_CONFIG("embedding", "tg_embedding_config_default"));
#define LIMITS "; max_norm must be at least 0 (0: no limit), norm_type above 0"
    REFUSED(limit(t, f->table, f->ids, -1, 2), VALUE, "embedding: max_norm -1 and norm_type 2" LIMITS);
    REFUSED(limit(t, f->table, f->ids, 1, -1), VALUE, "embedding: max_norm 1 and norm_type -1" LIMITS);
    REFUSED(limit(t, f->table, f->ids, 1, 0), VALUE, "embedding: max_norm 1 and norm_type 0" LIMITS);
    REFUSED(limit(t, f->table, f->ids, NAN, 2), VALUE, "embedding: max_norm nan and norm_type 2" LIMITS);
    REFUSED(limit(t, f->four_rows, f->ids, 1, 2), RANGE, "embedding: id 8 at [0,1] is outside [0,4)");
    REFUSED(limit(t, f->kept, f->id_list, 1, 2), RANGE, "embedding: id 5 at [0] is outside [0,2)");
    REFUSED(limit(t, f->vector, f->ids, 1, 2), SHAPE, "embedding: the table has shape (3,); it must be (V,C)");
    REFUSED(limit(t, f->table, f->vector, 1, 2), DTYPE, NOT_IDS("embedding", "ids", "f32"));
    REFUSED(limit(t, NULL, f->ids, 1, 2), STATE, NULL_ARGUMENT("embedding", "table"));
    REFUSED(limit(t, f->table, NULL, 1, 2), STATE, NULL_ARGUMENT("embedding", "ids"));
    tg_tensor *zeros = tg_full(t, TG_I32, TG_SHAPE(2), 0);
    REFUSED(limit(t, f->kept, zeros, 1, 2), STATE,
            "embedding: max_norm changes the table in place, so the table must be a contiguous leaf");
    REFUSED(limit_bags(t, f->kept, tg_unsqueeze(t, zeros, 0), 1, 2), STATE,
            "embedding_bag: max_norm changes the table in place, so the table must be a contiguous leaf");
    REFUSED(limit_bags(t, f->table, f->ids, -1, 2), VALUE, "embedding_bag: max_norm -1 and norm_type 2" LIMITS);
    REFUSED(limit_bags(t, f->table, f->ids, 1, NAN), VALUE, "embedding_bag: max_norm 1 and norm_type nan" LIMITS);
    REFUSED(tg_embedding_bag(t, f->ids, f->x, NULL), RANGE, "embedding_bag: id 8 at [0,1] is outside [0,2)");
    REFUSED(tg_embedding_bag(t, f->id_list, f->table, NULL), SHAPE,
            "embedding_bag: argument 'ids' has shape (2,); it must have rank 2");
    REFUSED(tg_embedding_bag(t, f->ids, f->vector, NULL), SHAPE,
            "embedding_bag: the table has shape (3,); it must be (V,C)");
    REFUSED(tg_embedding_bag(t, f->x, f->table, NULL), DTYPE, NOT_IDS("embedding_bag", "ids", "f32"));
    REFUSED(embed_bags(t, f->ids, f->table, TG_BAG_SUM, -10, NULL, NULL), RANGE,
            "embedding_bag: padding_index -10 is outside [-9,9)");
    REFUSED(bags(t, f->ids, f->table, (tg_bag_mode)3, NULL, NULL), VALUE,
            "embedding_bag: mode 3 does not exist; it must be TG_BAG_SUM, TG_BAG_MEAN or TG_BAG_MAX");
    REFUSED(bags(t, f->ids, f->table, TG_BAG_MEAN, NULL, f->x), VALUE,
            "embedding_bag: weights need TG_BAG_SUM; the mode is TG_BAG_MEAN");
    REFUSED(bags(t, f->ids, f->table, TG_BAG_MAX, NULL, f->x), VALUE,
            "embedding_bag: weights need TG_BAG_SUM; the mode is TG_BAG_MAX");
    REFUSED(bags(t, f->ids, f->table, TG_BAG_SUM, NULL, f->four), SHAPE,
            "embedding_bag: the weights have shape (4,) and the ids (2,3); they must be equal");
    REFUSED(bags(t, f->ids, f->table, TG_BAG_SUM, NULL, f->doubles), DTYPE, MIXED("embedding_bag", "f32", "f64"));
    REFUSED(bags(t, f->ids, f->table, TG_BAG_SUM, NULL, f->mask), DTYPE, NOT_FLOAT("embedding_bag", "weights", "u8"));
    REFUSED(bags(t, f->id_list, f->table, TG_BAG_SUM, f->id_list, NULL), RANGE,
            "embedding_bag: offset 5 at [0]; the first must be 0, and each must be at least the one before (0) and at "
            "most 2, the number of ids");
    REFUSED(bags(t, f->ids, f->table, TG_BAG_SUM, f->id_list, NULL), SHAPE,
            "embedding_bag: argument 'ids' has shape (2,3); it must have rank 1");
    REFUSED(bags(t, f->id_list, f->table, TG_BAG_SUM, f->vector, NULL), DTYPE,
            NOT_IDS("embedding_bag", "offsets", "f32"));
    REFUSED(tg_embedding_bag(t, NULL, f->table, NULL), STATE, NULL_ARGUMENT("embedding_bag", "ids"));
    REFUSED(tg_embedding_bag(t, f->ids, NULL, NULL), STATE, NULL_ARGUMENT("embedding_bag", "table"));
    REFUSED((tg_embedding_bag(t, f->ids, f->table, &(tg_embedding_bag_config){.mode = TG_BAG_SUM})), VALUE,
            NO_CONFIG("embedding_bag", "tg_embedding_bag_config_default"));
}

static void test_attention(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
#define SDPA "scaled_dot_product_attention"
#define FUSED(q, k, v, config) attend(TG_ATTENTION_FUSED, t, q, k, v, config)
#define ELEMENTARY(q, k, v, config) attend(TG_ATTENTION_ELEMENTARY, t, q, k, v, config)
    const tg_scaled_dot_product_attention_config causal = attention_config(true, 0, NULL);
    REFUSED(FUSED(f->x, f->batches, f->batches, causal), SHAPE,
            SDPA ": queries (2,3), keys (2,3,2) and values (2,3,2); they must be (..,T,D), (..,S,D) and (..,S,D) with "
                 "S >= T");
    REFUSED(FUSED(f->x, f->x, f->row, causal), SHAPE,
            SDPA ": queries (2,3), keys (2,3) and values (1,3); they must be (..,T,D), (..,S,D) and (..,S,D) with "
                 "S >= T");
    REFUSED(tg_scaled_dot_product_attention(t, f->x, f->x, f->row, NULL), SHAPE,
            SDPA ": queries (2,3), keys (2,3) and values (1,3); they must be (..,T,D), (..,S,D) and (..,S,D)");
    REFUSED(FUSED(f->x, f->row, f->row, causal), SHAPE,
            SDPA ": queries (2,3), keys (1,3) and values (1,3); they must be (..,T,D), (..,S,D) and (..,S,D) with "
                 "S >= T");
    REFUSED(FUSED(f->x, f->x, f->x, attention_config(true, 0, f->x)), SHAPE,
            SDPA ": the bias is (2,3); for queries (2,3) and keys (2,3) it must be (..,T,S)");
#define IN_RANGE " is outside [0,1)"
    REFUSED(FUSED(f->x, f->x, f->x, attention_config(true, 1, NULL)), VALUE, SDPA ": dropout 1" IN_RANGE);
    REFUSED(FUSED(f->x, f->x, f->x, attention_config(true, NAN, NULL)), VALUE, SDPA ": dropout nan" IN_RANGE);
    REFUSED(attend((tg_attention_path)2, t, f->x, f->x, f->x, causal), VALUE,
            SDPA ": path 2 does not exist; it must be 0 (fused) or 1 (elementary)");
    REFUSED((tg_scaled_dot_product_attention(t, f->x, f->x, f->x,
                                             &(tg_scaled_dot_product_attention_config){.is_causal = true})),
            VALUE, NO_CONFIG(SDPA, "tg_scaled_dot_product_attention_config_default"));
    REFUSED(tg_scaled_dot_product_attention(t, f->x, f->x, f->doubles, NULL), DTYPE,
            SDPA ": argument 'values' is f64; all must be f32, or all f64 (tg_cast converts)");
    REFUSED(tg_scaled_dot_product_attention(t, f->ids, f->ids, f->ids, NULL), DTYPE,
            SDPA ": argument 'queries' is i32; all must be f32, or all f64 (tg_cast converts)");
    REFUSED(tg_scaled_dot_product_attention(t, f->x, NULL, f->x, NULL), STATE, NULL_ARGUMENT(SDPA, "keys"));
    REFUSED(ELEMENTARY(f->x, f->row, f->row, causal), SHAPE,
            SDPA ": queries (2,3), keys (1,3) and values (1,3); they must be (..,T,D), (..,S,D) and (..,S,D) with "
                 "S >= T");
    REFUSED(ELEMENTARY(f->x, f->x, f->x, attention_config(true, 0, f->vector)), SHAPE,
            SDPA ": the bias is (3,); for queries (2,3) and keys (2,3) it must be (..,T,S)");
    REFUSED(ELEMENTARY(f->x, f->x, f->x, attention_config(true, -0.1, NULL)), VALUE, SDPA ": dropout -0.1" IN_RANGE);
    REFUSED(ELEMENTARY(f->x, f->doubles, f->x, causal), DTYPE,
            SDPA ": argument 'keys' is f64; all must be f32, or all f64 (tg_cast converts)");
    REFUSED(ELEMENTARY(NULL, f->x, f->x, causal), STATE, NULL_ARGUMENT(SDPA, "queries"));
    tg_scaled_dot_product_attention_config given = attention_config(false, 0.5, NULL);
    given.scale = -2;
    REFUSED(FUSED(f->x, f->x, f->x, given), VALUE,
            SDPA ": scale -2; it must be finite and at least 0, or TG_SCALE_OF_WIDTH");
    given.scale = INFINITY;
    REFUSED(ELEMENTARY(f->x, f->x, f->x, given), VALUE,
            SDPA ": scale inf; it must be finite and at least 0, or TG_SCALE_OF_WIDTH");
    given.scale = 1;
    given.enable_gqa = true;
    REFUSED(FUSED(f->x, f->x, f->x, given), SHAPE,
            SDPA ": queries (2,3), keys (2,3) and values (2,3); they must be (..,T,D), (..,S,D) and (..,S,D), with a "
                 "number of heads that keys and values divide");
    REFUSED(FUSED(f->three_batches, tg_transpose(t, f->batches, 1, 2), tg_transpose(t, f->batches, 1, 2), given), SHAPE,
            SDPA ": queries (3,2,3), keys (2,2,3) and values (2,2,3); they must be (..,T,D), (..,S,D) and (..,S,D), "
                 "with a number of heads that keys and values divide");
    given.enable_gqa = false;
    REFUSED(FUSED(f->three_batches, tg_transpose(t, f->batches, 1, 2), tg_transpose(t, f->batches, 1, 2), given), SHAPE,
            SDPA ": queries (3,2,3), keys (2,2,3) and values (2,2,3); they must be (..,T,D), (..,S,D) and (..,S,D), "
                 "with axes before the last two that broadcast");
    REFUSED(FUSED(tg_repeat(t, f->three_batches, TG_SHAPE(2, 1, 1)), f->three_batches, f->three_batches, given), SHAPE,
            SDPA ": queries (6,2,3) have 6 heads, keys (3,2,3) and values (3,2,3) have 3; set enable_gqa, or give all "
                 "the same number of heads");
    given.key_mask = f->mask;
    REFUSED(FUSED(f->x, f->x, f->x, given), SHAPE,
            SDPA ": the key mask is u8 (2,3); for queries (2,3) and keys (2,3) it must be u8 (B,S)");
    REFUSED(ELEMENTARY(f->three_batches, f->three_batches, f->three_batches, given), SHAPE,
            SDPA ": the key mask is u8 (2,3); for queries (3,2,3) and keys (3,2,3) it must be u8 (B,S)");
    given.key_mask = f->ids;
    REFUSED(FUSED(f->batches, f->batches, f->batches, given), SHAPE,
            SDPA ": the key mask is i32 (2,3); for queries (2,3,2) and keys (2,3,2) it must be u8 (B,S)");
    given.lengths = f->id_list;
    REFUSED(FUSED(f->batches, f->batches, f->batches, given), VALUE,
            SDPA ": lengths and a key mask are given; one of them must be NULL");
    given.key_mask = NULL;
    REFUSED(FUSED(f->batches, f->batches, f->batches, given), RANGE,
            SDPA ": length 5 at [0] is outside [0,3], the number of keys");
    REFUSED(ELEMENTARY(f->batches, f->batches, f->batches, given), RANGE,
            SDPA ": length 5 at [0] is outside [0,3], the number of keys");
    REFUSED(FUSED(f->x, f->x, f->x, given), SHAPE,
            SDPA ": the lengths are i32 (2,); for queries (2,3) they must be i32 (B)");
    given.lengths = f->vector;
    REFUSED(FUSED(f->three_batches, f->three_batches, f->three_batches, given), SHAPE,
            SDPA ": the lengths are f32 (3,); for queries (3,2,3) they must be i32 (B)");
    given.lengths = f->ids;
    REFUSED(FUSED(f->batches, f->batches, f->batches, given), SHAPE,
            SDPA ": the lengths are i32 (2,3); for queries (2,3,2) they must be i32 (B)");
    given.lengths = NULL;
    given.window = 2;
    REFUSED(FUSED(f->x, f->x, f->x, given), VALUE,
            SDPA ": window 2 without is_causal; it must be at least 0, and 0 unless is_causal");
    given.is_causal = true;
    given.window = -1;
    REFUSED(ELEMENTARY(f->x, f->x, f->x, given), VALUE,
            SDPA ": window -1; it must be at least 0, and 0 unless is_causal");
    given.window = 0;
    given.first_keys = f->id_list;
    REFUSED(FUSED(f->batches, f->batches, f->batches, given), SHAPE,
            SDPA ": the first keys are i32 (2,); for queries (2,3,2) they must be i32 (T), or (B,T) for (B,..,T,D)");
    REFUSED(ELEMENTARY(f->x, f->x, f->x, given), RANGE,
            SDPA ": first key 5 at [0] is outside [0,2], the number of keys");
    given.first_keys = f->ids;
    REFUSED(FUSED(f->four_rows, f->four_rows, f->four_rows, given), SHAPE,
            SDPA ": the first keys are i32 (2,3); for queries (4,2) they must be i32 (T), or (B,T) for (B,..,T,D)");
    REFUSED(FUSED(f->batches, f->batches, f->batches, given), RANGE,
            SDPA ": first key 8 at [0,1] is outside [0,3], the number of keys");
    given.first_keys = f->deep_ids;
    REFUSED(ELEMENTARY(f->batches, f->batches, f->batches, given), SHAPE,
            SDPA ": the first keys are i32 (1,1,1,1,1,1,1,1); for queries (2,3,2) they must be i32 (T), or (B,T) for "
                 "(B,..,T,D)");
    given.first_keys = f->vector;
    REFUSED(FUSED(f->three_batches, f->three_batches, f->three_batches, given), SHAPE,
            SDPA ": the first keys are f32 (3,); for queries (3,2,3) they must be i32 (T), or (B,T) for (B,..,T,D)");
    REFUSED(tg_relative_shift(t, f->x, 3, 4), SHAPE,
            "relative_shift: x is (2,3); for 3 queries it must be (..,3,L) or (..,1,L)");
    REFUSED(tg_relative_shift(t, f->vector, 1, 1), SHAPE,
            "relative_shift: x is (3,); for 1 queries it must be (..,1,L) or (..,1,L)");
    REFUSED(tg_relative_shift(t, f->x, 2, -1), SHAPE, "relative_shift: 2 queries and -1 keys; they must be 0 or more");
    REFUSED(tg_relative_shift(t, f->ids, 2, 2), DTYPE, NOT_FLOAT("relative_shift", "x", "i32"));
    REFUSED(tg_relative_shift(t, NULL, 2, 2), STATE, NULL_ARGUMENT("relative_shift", "x"));
#define SCORES(distances, keys, rule)                                       \
    "relative_scores: queries (2,3), distances " distances " and S = " keys \
    " keys; they must be (..,T,D) and (..,L,D), " rule
    REFUSED(tg_relative_scores(t, f->x, f->x, 2, false), SHAPE, SCORES("(2,3)", "2", "T + S - 1 <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->x, 1, true), SHAPE, SCORES("(2,3)", "1", "T <= S <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->x, 3, true), SHAPE, SCORES("(2,3)", "3", "T <= S <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->x, -1, false), SHAPE, SCORES("(2,3)", "-1", "T + S - 1 <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->vector, 1, false), SHAPE, SCORES("(3,)", "1", "T + S - 1 <= L"));
    REFUSED(tg_relative_scores(t, f->x, f->doubles, 2, true), DTYPE, MIXED("relative_scores", "f32", "f64"));
    REFUSED(tg_relative_scores(t, f->ids, f->x, 2, true), DTYPE, NOT_FLOAT("relative_scores", "queries", "i32"));
    REFUSED(tg_relative_scores(t, f->x, NULL, 2, true), STATE, NULL_ARGUMENT("relative_scores", "distances"));
    REFUSED(tg_relative_spread(t, f->four_rows, 2), SHAPE,
            "relative_spread: x is (4,2), for a result of 2 columns; x must be (..,T,2 clip + 1), columns 0 or more");
    REFUSED(tg_relative_spread(t, f->vector, 2), SHAPE,
            "relative_spread: x is (3,), for a result of 2 columns; x must be (..,T,2 clip + 1), columns 0 or more");
    REFUSED(tg_relative_spread(t, f->x, -1), SHAPE,
            "relative_spread: x is (2,3), for a result of -1 columns; x must be (..,T,2 clip + 1), columns 0 or more");
    REFUSED(tg_relative_spread(t, f->ids, 2), DTYPE, NOT_FLOAT("relative_spread", "x", "i32"));
    REFUSED(tg_relative_spread(t, NULL, 2), STATE, NULL_ARGUMENT("relative_spread", "x"));
    REFUSED(tg_relative_collect(t, f->x, -1), VALUE, "relative_collect: clip -1; it must be 0 to 2147483647");
    REFUSED(tg_relative_collect(t, f->vector, 1), SHAPE,
            "relative_collect: x is (3,), for a result of 3 columns; x must be (..,T,S), columns 0 or more");
    REFUSED(tg_relative_collect(t, f->ids, 1), DTYPE, NOT_FLOAT("relative_collect", "x", "i32"));
    REFUSED(tg_relative_collect(t, NULL, 1), STATE, NULL_ARGUMENT("relative_collect", "x"));
    REFUSED(tg_rotary(t, f->x, 0, NULL), SHAPE, "rotary: x is (2,3); it must be (..,T,D) with an even D");
    REFUSED(tg_rotary(t, f->four, 0, NULL), SHAPE, "rotary: x is (4,); it must be (..,T,D) with an even D");
    REFUSED(rotate(t, f->batches, 1, TG_ROTARY_HALVES, 1, 1), VALUE,
            "rotary: base 1, position_scale 1, ntk_factor 1, pairing 0; base must be above 1, position_scale and "
            "ntk_factor above 0, pairing 0 or 1");
    REFUSED(rotate(t, f->batches, 10, TG_ROTARY_HALVES, 0, 1), VALUE,
            "rotary: base 10, position_scale 0, ntk_factor 1, pairing 0; base must be above 1, position_scale and "
            "ntk_factor above 0, pairing 0 or 1");
    REFUSED(rotate(t, f->batches, 10, TG_ROTARY_HALVES, 1, NAN), VALUE,
            "rotary: base 10, position_scale 1, ntk_factor nan, pairing 0; base must be above 1, position_scale and "
            "ntk_factor above 0, pairing 0 or 1");
    REFUSED(rotate(t, f->batches, 10, (tg_rotary_pairing)2, 1, 1), VALUE,
            "rotary: base 10, position_scale 1, ntk_factor 1, pairing 2; base must be above 1, position_scale and "
            "ntk_factor above 0, pairing 0 or 1");
    REFUSED(tg_rotary(t, f->ids, 0, NULL), DTYPE, NOT_FLOAT("rotary", "x", "i32"));
    REFUSED(tg_rotary(t, NULL, 0, NULL), STATE, NULL_ARGUMENT("rotary", "x"));
    REFUSED(tg_rotary(t, f->batches, -1, NULL), RANGE, "rotary: 3 positions from -1 on; they must be from 0 to 2^53");
    REFUSED((tg_rotary(t, f->batches, 0, &(tg_rotary_config){.base = 10, .position_scale = 1, .ntk_factor = 1})), VALUE,
            NO_CONFIG("rotary", "tg_rotary_config_default"));
    REFUSED(rotate_far(t, f->batches, 0.5, 1, 4, 8), VALUE,
            "rotary: llama3_factor 0.5, low_frequency_factor 1, high_frequency_factor 4, original_context 8" FAR_RULE);
    REFUSED(rotate_far(t, f->batches, INFINITY, 1, 4, 8), VALUE,
            "rotary: llama3_factor inf, low_frequency_factor 1, high_frequency_factor 4, original_context 8" FAR_RULE);
    REFUSED(rotate_far(t, f->batches, 8, 0, 4, 8), VALUE,
            "rotary: llama3_factor 8, low_frequency_factor 0, high_frequency_factor 4, original_context 8" FAR_RULE);
    REFUSED(rotate_far(t, f->batches, 8, 4, 4, 8), VALUE,
            "rotary: llama3_factor 8, low_frequency_factor 4, high_frequency_factor 4, original_context 8" FAR_RULE);
    REFUSED(rotate_far(t, f->batches, 8, 1, INFINITY, 8), VALUE,
            "rotary: llama3_factor 8, low_frequency_factor 1, high_frequency_factor inf, original_context 8" FAR_RULE);
    REFUSED(rotate_far(t, f->batches, 8, 1, 4, 0), VALUE,
            "rotary: llama3_factor 8, low_frequency_factor 1, high_frequency_factor 4, original_context 0" FAR_RULE);
    REFUSED(rotate_at(t, f->batches, 0, f->four_ids), SHAPE,
            "rotary: the positions are (4,); for x (2,3,2) they must be (T), or (B,T) for (B,..,T,D)");
    REFUSED(rotate_at(t, f->batches, 0, f->deep_ids), SHAPE,
            "rotary: the positions are (1,1,1,1,1,1,1,1); for x (2,3,2) they must be (T), or (B,T) for (B,..,T,D)");
    REFUSED(rotate_at(t, f->four_rows, 0, f->ids), SHAPE,
            "rotary: the positions are (2,3); for x (4,2) they must be (T), or (B,T) for (B,..,T,D)");
    REFUSED(rotate_at(t, f->batches, 0, f->x), DTYPE, NOT_IDS("rotary", "positions", "f32"));
    REFUSED(rotate_at(t, f->batches, -1, f->ids), RANGE,
            "rotary: 2147483648 positions from -1 on; they must be from 0 to 2^53");
    ((int32_t *)tg_tensor_data_mut(f->ids))[5] = -7;
    f->versions[2] = tg_storage_version(f->ids);
    REFUSED(rotate_at(t, f->batches, 0, f->ids), RANGE, "rotary: position -7 at [1,2]; it must be at least 0");
    REFUSED(ELEMENTARY(f->x, f->x, NULL, causal), STATE, NULL_ARGUMENT(SDPA, "values"));
    REFUSED(ELEMENTARY(f->x, f->x, f->four, causal), SHAPE,
            SDPA ": queries (2,3), keys (2,3) and values (4,); they must be (..,T,D), (..,S,D) and (..,S,D) with "
                 "S >= T");
}

static void test_losses(void **state)
{
    fixture *f = *state;
    tg_tape *t = f->tape;
    REFUSED(tg_softmax(t, f->x, 2), RANGE, NO_AXIS("softmax", 2));
    REFUSED(tg_softmax(t, f->ids, 0), DTYPE, NOT_FLOAT("softmax", "x", "i32"));
    REFUSED(tg_softmax(t, NULL, 0), STATE, NULL_ARGUMENT("softmax", "x"));
    REFUSED(tg_log_softmax(t, f->x, -3), RANGE, NO_AXIS("log_softmax", -3));
    REFUSED(tg_log_softmax(t, f->mask, 0), DTYPE, NOT_FLOAT("log_softmax", "x", "u8"));
    REFUSED(tg_log_softmax(t, NULL, 0), STATE, NULL_ARGUMENT("log_softmax", "x"));
    REFUSED(tg_layer_norm(t, f->x, f->four, f->vector, 1e-5), SHAPE,
            "layer_norm: x is (2,3), the weight (4,), the bias (3,); they must be (..,C), (C) and (C) with C >= 1");
    REFUSED(tg_layer_norm(t, f->x, f->vector, f->four, 1e-5), SHAPE,
            "layer_norm: x is (2,3), the weight (3,), the bias (4,); they must be (..,C), (C) and (C) with C >= 1");
    REFUSED(tg_layer_norm(t, f->scalar, f->vector, f->vector, 1e-5), SHAPE,
            "layer_norm: x is (), the weight (3,), the bias (3,); they must be (..,C), (C) and (C) with C >= 1");
    REFUSED(tg_layer_norm(t, f->x, f->vector, f->vector, 0), VALUE, "layer_norm: eps is 0; it must be above 0");
    REFUSED(tg_layer_norm(t, f->x, f->vector, f->vector, NAN), VALUE, "layer_norm: eps is nan; it must be above 0");
    REFUSED(tg_layer_norm(t, f->doubles, f->vector, f->vector, 1e-5), DTYPE, MIXED("layer_norm", "f64", "f32"));
    REFUSED(tg_layer_norm(t, f->x, f->id_list, f->vector, 1e-5), DTYPE, NOT_FLOAT("layer_norm", "weight", "i32"));
    REFUSED(tg_rms_norm(t, f->x, f->four, 1e-5), SHAPE,
            "rms_norm: x is (2,3) and the weight (4,); they must be (..,C) and (C) with C >= 1");
    REFUSED(tg_rms_norm(t, f->scalar, f->vector, 1e-5), SHAPE,
            "rms_norm: x is () and the weight (3,); they must be (..,C) and (C) with C >= 1");
    REFUSED(tg_rms_norm(t, f->x, f->vector, -1), VALUE, "rms_norm: eps is -1; it must be above 0");
    REFUSED(tg_rms_norm(t, f->doubles, f->vector, 1e-5), DTYPE, MIXED("rms_norm", "f64", "f32"));
    REFUSED(tg_rms_norm(t, f->ids, f->vector, 1e-5), DTYPE, NOT_FLOAT("rms_norm", "x", "i32"));
    REFUSED(tg_dropout(t, f->x, 1.5), VALUE, "dropout: probability 1.5 is outside [0,1]");
    REFUSED(tg_dropout(t, f->x, -0.1), VALUE, "dropout: probability -0.1 is outside [0,1]");
    REFUSED(tg_dropout(t, f->x, NAN), VALUE, "dropout: probability nan is outside [0,1]");
    REFUSED(tg_dropout(t, f->ids, 0.5), DTYPE, NOT_FLOAT("dropout", "x", "i32"));
    REFUSED(tg_dropout(t, NULL, 0.5), STATE, NULL_ARGUMENT("dropout", "x"));
    REFUSED(tg_cross_entropy(t, f->x, f->four_ids, NULL), SHAPE,
            "cross_entropy: logits (2,3) and targets (4,); they must be (..,V) and (..) with V >= 1");
    REFUSED(tg_cross_entropy(t, f->scalar, f->id_list, NULL), SHAPE,
            "cross_entropy: logits () and targets (2,); they must be (..,V) and (..) with V >= 1");
    REFUSED(tg_cross_entropy(t, f->batches, f->id_list, NULL), SHAPE,
            "cross_entropy: logits (2,3,2) and targets (2,); they must be (..,V) and (..) with V >= 1");
    REFUSED(
        tg_cross_entropy(t, f->x, f->id_list, NULL), RANGE,
        "cross_entropy: target 5 at [0] is outside [0,3), the classes of logits (2,3), and is not ignore_index, -100");
    REFUSED(tg_cross_entropy(t, f->x, f->mask, NULL), DTYPE, NOT_IDS("cross_entropy", "targets", "u8"));
    REFUSED(tg_cross_entropy(t, f->ids, f->id_list, NULL), DTYPE, NOT_FLOAT("cross_entropy", "logits", "i32"));
    REFUSED(tg_cross_entropy(t, f->x, NULL, NULL), STATE, NULL_ARGUMENT("cross_entropy", "targets"));
    REFUSED(cross_entropy(t, f->x, f->id_list, loss_config(3, 1.5, TG_REDUCTION_MEAN)), VALUE,
            "cross_entropy: label_smoothing 1.5 is outside [0,1]");
    REFUSED(cross_entropy(t, f->x, f->id_list, loss_config(3, NAN, TG_REDUCTION_MEAN)), VALUE,
            "cross_entropy: label_smoothing nan is outside [0,1]");
    REFUSED(cross_entropy(t, f->x, f->id_list, loss_config(3, 0, (tg_reduction)4)), VALUE,
            "cross_entropy: reduction 4 does not exist");
    REFUSED(
        cross_entropy(t, f->x, f->id_list, loss_config(-1, 0, TG_REDUCTION_NONE)), RANGE,
        "cross_entropy: target 5 at [0] is outside [0,3), the classes of logits (2,3), and is not ignore_index, -1");
    REFUSED(tg_cross_entropy(t, NULL, f->id_list, NULL), STATE, NULL_ARGUMENT("cross_entropy", "logits"));
    REFUSED((tg_cross_entropy(t, f->x, f->id_list, &(tg_cross_entropy_config){.ignore_index = 5})), VALUE,
            NO_CONFIG("cross_entropy", "tg_cross_entropy_config_default"));
    REFUSED(
        tg_linear_cross_entropy(t, f->x, f->x, f->four_ids, NULL), SHAPE,
        "linear_cross_entropy: x is (2,3), the weight (2,3), the targets (4,); they must be (..,C), (V,C) and (..), "
        "V and C >= 1");
    REFUSED(tg_linear_cross_entropy(t, f->x, f->vector, f->id_list, NULL), SHAPE,
            "linear_cross_entropy: x is (2,3), the weight (3,), the targets (2,); they must be (..,C), (V,C) and (..), "
            "V and C >= 1");
    REFUSED(tg_linear_cross_entropy(t, f->scalar, f->x, f->id_list, NULL), SHAPE,
            "linear_cross_entropy: x is (), the weight (2,3), the targets (2,); they must be (..,C), (V,C) and (..), "
            "V and C >= 1");
    REFUSED(tg_linear_cross_entropy(t, f->x, f->x, f->id_list, NULL), RANGE,
            "linear_cross_entropy: target 5 at [0] is outside [0,2), the classes of the weight (2,3), and is not "
            "ignore_index, -100");
    REFUSED(tg_linear_cross_entropy(t, f->x, f->x, f->mask, NULL), DTYPE,
            NOT_IDS("linear_cross_entropy", "targets", "u8"));
    REFUSED(tg_linear_cross_entropy(t, f->x, f->ids, f->id_list, NULL), DTYPE,
            NOT_FLOAT("linear_cross_entropy", "weight", "i32"));
    REFUSED(tg_linear_cross_entropy(t, f->x, NULL, f->id_list, NULL), STATE,
            NULL_ARGUMENT("linear_cross_entropy", "weight"));
    const tg_cross_entropy_config too_smooth = loss_config(5, 1.5, TG_REDUCTION_MEAN);
    REFUSED(tg_linear_cross_entropy(t, f->x, f->x, f->id_list, &too_smooth), VALUE,
            "linear_cross_entropy: label_smoothing 1.5 is outside [0,1]");
    tg_cross_entropy_config weighted = loss_config(5, 0, TG_REDUCTION_MEAN);
    weighted.weight = f->vector;
    REFUSED(tg_linear_cross_entropy(t, f->x, f->x, f->id_list, &weighted), SHAPE,
            "linear_cross_entropy: a weight of shape (3,) for 2 classes; it must be (V)");
    REFUSED((tg_linear_cross_entropy(t, f->x, f->x, f->id_list, &(tg_cross_entropy_config){.ignore_index = 5})), VALUE,
            NO_CONFIG("linear_cross_entropy", "tg_cross_entropy_config_default"));
    REFUSED(tg_nll_loss(t, f->x, f->four_ids, NULL), SHAPE,
            "nll_loss: log-probabilities (2,3) and targets (4,); they must be (..,V) and (..) with V >= 1");
    REFUSED(
        tg_nll_loss(t, f->x, f->id_list, NULL), RANGE,
        "nll_loss: target 5 at [0] is outside [0,3), the classes of log-probabilities (2,3), and is not ignore_index, "
        "-100");
    REFUSED(nll_loss(t, f->x, f->id_list, 3, (tg_reduction)-1), VALUE, "nll_loss: reduction -1 does not exist");
    const tg_cross_entropy_config smoothed = loss_config(-100, 0.1, TG_REDUCTION_MEAN);
    REFUSED(tg_nll_loss(t, f->x, f->id_list, &smoothed), VALUE, "nll_loss: label_smoothing 0.1 is outside [0,0]");
    REFUSED((tg_nll_loss(t, f->x, f->id_list, &(tg_cross_entropy_config){.ignore_index = 5})), VALUE,
            NO_CONFIG("nll_loss", "tg_cross_entropy_config_default"));
    REFUSED(tg_nll_loss(t, f->x, f->vector, NULL), DTYPE, NOT_IDS("nll_loss", "targets", "f32"));
    REFUSED(tg_nll_loss(t, f->x, NULL, NULL), STATE, NULL_ARGUMENT("nll_loss", "targets"));
    REFUSED(tg_mse_loss(t, f->x, f->vector, TG_REDUCTION_MEAN), SHAPE,
            "mse_loss: argument 'target' has shape (3,) and argument 'prediction' (2,3); they must be equal");
    REFUSED(tg_mse_loss(t, f->x, f->x, (tg_reduction)7), VALUE, "mse_loss: reduction 7 does not exist");
    REFUSED(tg_mse_loss(t, f->x, f->doubles, TG_REDUCTION_MEAN), DTYPE, MIXED("mse_loss", "f32", "f64"));
    REFUSED(tg_mse_loss(t, f->ids, f->ids, TG_REDUCTION_MEAN), DTYPE, NOT_FLOAT("mse_loss", "prediction", "i32"));
    REFUSED(tg_mse_loss(t, NULL, f->x, TG_REDUCTION_MEAN), STATE, NULL_ARGUMENT("mse_loss", "prediction"));
}

static void test_no_generator(void **state)
{
    fixture *f = *state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    assert_null(tg_dropout(t, f->x, 0.5));
    assert_string_equal(tg_tape_error(t)->text, "dropout: the tape has no generator; it needs a run (tg_run_new)");
    assert_tape_error(t, TG_ERROR_STATE, "");
    tg_scaled_dot_product_attention_config config = attention_config(false, 0.5, NULL);
    assert_null(tg_scaled_dot_product_attention(t, f->x, f->x, f->x, &config));
    assert_string_equal(tg_tape_error(t)->text, SDPA ": dropout needs a generator; the tape needs a run (tg_run_new)");
    assert_tape_error(t, TG_ERROR_STATE, "");
    tg_tape_set_training(t, false);
    assert_non_null(tg_dropout(t, f->x, 0.5));
    assert_non_null(tg_scaled_dot_product_attention(t, f->x, f->x, f->x, &config));
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

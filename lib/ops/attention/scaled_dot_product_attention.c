/* scaled_dot_product_attention: the public function of attention. It checks the arguments, and chooses between one op
 * (attention.c) and a chain of ops (attention_elementary.c), which a textbook explains. Both draw the same random
 * numbers in the same order, and the tests run both.
 */
#include <float.h>

#include "ops/attention/attention.h"
#include "ops/linear_algebra/matrices.h"
#include "tape/tape.h"

static const char call[] = "scaled_dot_product_attention";

/* ---- checks ---- */

static bool check_dtypes(tg_tape *t, const tg_tensor *q, const tg_tensor *k, const tg_tensor *v, const tg_tensor *bias)
{
    static const char *const names[] = {"queries", "keys", "values", "bias"};
    return tg_tape_expect_floats(t, call, names, (const tg_tensor *[]){q, k, v, bias}, bias ? 4 : 3);
}

/* Broadcasts the axes of x before the last two, and before the head's axis if it is grouped, to those of `shape`. */
static bool broadcast_batch(const tg_tensor *x, bool is_grouped, tg_shape *shape)
{
    tg_shape batch = tg_shape_of(x), queries = *shape;
    batch.size[x->rank - 2] = batch.size[x->rank - 1] = 1;
    if (is_grouped) {
        int64_t heads = batch.size[x->rank - 3];
        if (heads < 1 || shape->size[shape->rank - 3] % heads != 0) {
            return false;
        }
        batch.size[x->rank - 3] = 1;
    }
    return tg_shape_broadcast(&queries, &batch, shape);
}

/* Returns whether the shapes fit, apart from the batch axes. */
static bool matrices_fit(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v, bool is_grouped, bool is_causal)
{
    int least = is_grouped ? 3 : 2;
    if (q->rank < least || k->rank < least || v->rank < least) {
        return false;
    }
    int64_t width = q->shape[q->rank - 1], keys = k->shape[k->rank - 2];
    return k->shape[k->rank - 1] == width && v->shape[v->rank - 1] == width && v->shape[v->rank - 2] == keys &&
           (!is_causal || keys >= q->shape[q->rank - 2]) && keys <= TG_GEMM_LIMIT && width <= TG_GEMM_LIMIT;
}

/* Returns whether the batch axes fit, too, and computes the shape of the result. */
static bool batches_fit(const tg_tensor *q, const tg_tensor *k, const tg_tensor *v, bool is_grouped, tg_shape *shape)
{
    *shape = tg_shape_of(q);
    return (!is_grouped || k->shape[k->rank - 3] == v->shape[v->rank - 3]) && broadcast_batch(k, is_grouped, shape) &&
           broadcast_batch(v, is_grouped, shape);
}

/* Computes the shape of the result. */
static bool check_shapes(tg_tape *t, const tg_tensor *q, const tg_tensor *k, const tg_tensor *v,
                         const tg_scaled_dot_product_attention_config *config, tg_shape *shape)
{
    char q_text[TG_SHAPE_TEXT], k_text[TG_SHAPE_TEXT], v_text[TG_SHAPE_TEXT];
    bool is_grouped = config->enable_gqa;
    bool matrices = matrices_fit(q, k, v, is_grouped, config->is_causal);
    if (matrices && batches_fit(q, k, v, is_grouped, shape)) {
        return true;
    }
    tg_shape_format(tg_shape_of(q), q_text);
    tg_shape_format(tg_shape_of(k), k_text);
    tg_shape_format(tg_shape_of(v), v_text);
    if (!is_grouped && matrices_fit(q, k, v, true, config->is_causal) && batches_fit(q, k, v, true, shape)) {
        return tg_tape_fail(
            t, TG_ERROR_SHAPE, call,
            "queries %s have %lld heads, keys %s and values %s have %lld; set enable_gqa, or give all the "
            "same number of heads",
            q_text, (long long)q->shape[q->rank - 3], k_text, v_text, (long long)k->shape[k->rank - 3]);
    }
    return tg_tape_fail(t, TG_ERROR_SHAPE, call,
                        "queries %s, keys %s and values %s; they must be (..,T,D), (..,S,D) and (..,S,D)%s%s", q_text,
                        k_text, v_text, config->is_causal ? " with S >= T" : "",
                        is_grouped ? ", with a number of heads that keys and values divide"
                        : matrices ? ", with axes before the last two that broadcast"
                                   : "");
}

static bool check_options(tg_tape *t, const tg_scaled_dot_product_attention_config *config)
{
    if (!(config->dropout >= 0 && config->dropout < 1)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "dropout %g is outside [0,1)", config->dropout);
    }
    if ((unsigned)config->path > TG_ATTENTION_ELEMENTARY) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "path %d does not exist; it must be 0 (fused) or 1 (elementary)",
                            (int)config->path);
    }
    if (config->scale != TG_SCALE_OF_WIDTH && !(config->scale >= 0 && config->scale <= DBL_MAX)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "scale %g; it must be finite and at least 0, or TG_SCALE_OF_WIDTH",
                            config->scale);
    }
    if (config->window < 0 || (config->window > 0 && !config->is_causal)) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "window %lld%s; it must be at least 0, and 0 unless is_causal",
                            (long long)config->window, config->is_causal ? "" : " without is_causal");
    }
    if (config->weights && config->path == TG_ATTENTION_FUSED) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call,
                            "weights are asked for on the fused path; only TG_ATTENTION_ELEMENTARY has them");
    }
    if (config->lengths && config->key_mask) {
        return tg_tape_fail(t, TG_ERROR_VALUE, call, "lengths and a key mask are given; one of them must be NULL");
    }
    return config->dropout == 0 || !t->training || t->rng ||
           tg_tape_fail(t, TG_ERROR_STATE, call, "dropout needs a generator; the tape needs a run (tg_run_new)");
}

/* Checks the bias (..,T,S), the mask (B,S), the lengths (B) and the first keys (T) or (B,T), not yet their values, for
 * queries (B,..,T,D) and keys (..,S,D). */
static bool check_masks(tg_tape *t, tg_shape q, const tg_tensor *k,
                        const tg_scaled_dot_product_attention_config *config)
{
    const tg_tensor *bias = config->bias, *mask = config->key_mask, *lengths = config->lengths,
                    *first = config->first_keys;
    int64_t sequences = q.rank >= 3 ? q.size[0] : -1, keys = k->shape[k->rank - 2];
    if ((mask && !tg_tape_expect_values(t, call, "key_mask", mask)) ||
        (lengths && !tg_tape_expect_values(t, call, "lengths", lengths)) ||
        (first && !tg_tape_expect_values(t, call, "first_keys", first))) {
        return false;
    }
    if (bias && !tg_is_repeated_matrix(bias, q, q.size[q.rank - 2], keys)) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call, "the bias is %s; for queries %s and keys %s it must be (..,T,S)",
                            tg_shape_text_of(bias).text, tg_shape_text(q).text, tg_shape_text_of(k).text);
    }
    if (mask && (mask->dtype != TG_U8 || mask->rank != 2 || mask->shape[0] != sequences || mask->shape[1] != keys)) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call,
                            "the key mask is %s %s; for queries %s and keys %s it must be u8 (B,S)",
                            tg_dtype_name(tg_dtype_of(mask)), tg_shape_text_of(mask).text, tg_shape_text(q).text,
                            tg_shape_text_of(k).text);
    }
    if (lengths && (lengths->dtype != TG_I32 || lengths->rank != 1 || lengths->shape[0] != sequences)) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call, "the lengths are %s %s; for queries %s they must be i32 (B)",
                            tg_dtype_name(tg_dtype_of(lengths)), tg_shape_text_of(lengths).text, tg_shape_text(q).text);
    }
    if (first &&
        (first->dtype != TG_I32 || first->rank < 1 || first->rank > 2 ||
         (first->rank == 2 && first->shape[0] != sequences) || first->shape[first->rank - 1] != q.size[q.rank - 2])) {
        return tg_tape_fail(t, TG_ERROR_SHAPE, call,
                            "the first keys are %s %s; for queries %s they must be i32 (T), or (B,T) for (B,..,T,D)",
                            tg_dtype_name(tg_dtype_of(first)), tg_shape_text_of(first).text, tg_shape_text(q).text);
    }
    return true;
}

/* Returns the mask (B,S) of lengths (B): 1 for the first lengths[b] keys of sequence b. */
static tg_tensor *mask_of_lengths(tg_tape *t, const tg_tensor *lengths, int64_t keys)
{
    int64_t sequences = lengths->shape[0];
    tg_tensor *mask = tg_tape_new_tensor(t, call, TG_U8, tg_shape_make(2, (int64_t[]){sequences, keys}));
    uint8_t *values = mask ? tg_values(mask) : NULL;
    for (int64_t b = 0; values && b < sequences; b++) {
        int32_t length = ((const int32_t *)tg_values(lengths))[b * lengths->strides[0]];
        if (length < 0 || length > keys) {
            tg_tape_fail(t, TG_ERROR_RANGE, call, "length %d at [%lld] is outside [0,%lld], the number of keys", length,
                         (long long)b, (long long)keys);
            return NULL;
        }
        for (int64_t j = 0; j < keys; j++) {
            values[b * keys + j] = j < length;
        }
    }
    return mask;
}

/* Returns the first keys, contiguous; NULL after an error, such as one that is outside [0,keys]. */
static tg_tensor *check_first_keys(tg_tape *t, tg_tensor *given, int64_t keys)
{
    tg_tensor *first = tg_contiguous(t, given);
    for (int64_t i = 0; first && i < first->count; i++) {
        int32_t key = ((const int32_t *)tg_values(first))[i];
        if (key < 0 || key > keys) {
            const tg_shape shape = tg_shape_of(first);
            char text[TG_SHAPE_TEXT];
            tg_tape_fail(t, TG_ERROR_RANGE, call, "first key %d at %s is outside [0,%lld], the number of keys", key,
                         tg_index_format(&shape, i, text), (long long)keys);
            return NULL;
        }
    }
    return first;
}

/* Returns the shape of the queries without the axes that only the result has, because values have them: that of the
 * weights, except its last axis. */
static tg_shape shape_of_weights(const tg_tensor *q, const tg_tensor *k, tg_shape result,
                                 const tg_scaled_dot_product_attention_config *config)
{
    tg_shape shape = tg_shape_of(q);
    broadcast_batch(k, config->enable_gqa, &shape);
    if (config->bias) {
        broadcast_batch(config->bias, false, &shape);
    }
    if (config->lengths || config->key_mask || (config->first_keys && config->first_keys->rank == 2)) {
        tg_shape sequences = result;
        for (int axis = 1; axis < sequences.rank; axis++) {
            sequences.size[axis] = 1;
        }
        const tg_shape others = shape;
        tg_shape_broadcast(&others, &sequences, &shape);
    }
    return shape;
}

bool tg_attention_prepare(tg_tape *t, tg_tensor **queries, tg_tensor **keys, tg_tensor **values,
                          tg_scaled_dot_product_attention_config *config)
{
    tg_shape shape;
    if (!check_dtypes(t, *queries, *keys, *values, config->bias) ||
        !check_shapes(t, *queries, *keys, *values, config, &shape) || !check_options(t, config)) {
        return false;
    }
    if (!check_masks(t, shape, *keys, config)) {
        return false;
    }
    if (tg_shape_count(shape) == 0 && !config->weights) {
        config->dropout = 0;
    }
    shape = shape_of_weights(*queries, *keys, shape, config);
    if (!tg_shape_equal(shape, tg_shape_of(*queries)) && !(*queries = tg_expand(t, *queries, shape))) {
        return false;
    }
    if (config->lengths) {
        config->key_mask = mask_of_lengths(t, config->lengths, (*keys)->shape[(*keys)->rank - 2]);
        config->lengths = NULL;
        if (!config->key_mask) {
            return false;
        }
    }
    if (config->first_keys &&
        !(config->first_keys = check_first_keys(t, config->first_keys, (*keys)->shape[(*keys)->rank - 2]))) {
        return false;
    }
    const int rank = (*queries)->rank;
    return !config->key_mask || ((*keys = tg_attention_hide(t, *keys, config->key_mask, rank)) &&
                                 (*values = tg_attention_hide(t, *values, config->key_mask, rank)));
}

/* ---- the public function ---- */

TG_CONFIG(tg_scaled_dot_product_attention_config, tg_scaled_dot_product_attention_config_default, mark, .mark = mark,
          .scale = TG_SCALE_OF_WIDTH, .path = TG_ATTENTION_FUSED);

tg_tensor *tg_scaled_dot_product_attention(tg_tape *t, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                           const tg_scaled_dot_product_attention_config *given)
{
    if (!tg_tape_expect_config(t, call, given, mark)) {
        return NULL;
    }
    tg_scaled_dot_product_attention_config config = given ? *given : tg_scaled_dot_product_attention_config_default();
    if (config.weights) {
        *config.weights = NULL;
    }
    tg_tape_point point;
    tg_tape_save_point(t, config.dropout > 0, &point);
    tg_tensor *y = NULL;
    if (tg_attention_prepare(t, &queries, &keys, &values, &config)) {
        bool is_fused = config.path == TG_ATTENTION_FUSED;
        y = (is_fused ? tg_attention_fused : tg_attention_elementary)(t, queries, keys, values, &config);
    }
    if (!y && config.weights) {
        *config.weights = NULL;
    }
    return tg_tape_end(t, &point, y);
}

/* attention_hide: keys and values that a mask hides do not count, whatever they hold.
 *
 * Their weight is 0, but 0 * NaN is NaN: in the result, in the gradient of the weights, and in that of the queries. So
 * where padding is not finite, zeros take its place before any product. Only hidden rows are looked at, so attention
 * without padding pays nothing, and finite padding keeps its bits.
 */
#include <math.h>

#include "ops/attention/attention.h"
#include "tape/tape.h"

static const char call[] = "scaled_dot_product_attention";

/* Returns whether a row of x is finite: n values from number `at` of the storage on. */
static bool row_is_finite(const tg_tensor *x, int64_t at, int64_t n, int64_t stride)
{
    double sum = 0; /* of zeros, or NaN */
    for (int64_t i = 0; i < n; i++, at += stride) {
        sum +=
            0 * (x->dtype == TG_F32 ? (double)((const float *)tg_values(x))[at] : ((const double *)tg_values(x))[at]);
    }
    return sum == 0;
}

/* Returns whether the mask hides key j from a sequence, or, for -1, from any. */
static bool is_hidden(const tg_tensor *mask, int64_t sequence, int64_t j)
{
    const uint8_t *visible = (const uint8_t *)tg_values(mask) + j * mask->strides[1];
    for (int64_t b = sequence < 0 ? 0 : sequence; b < (sequence < 0 ? mask->shape[0] : sequence + 1); b++) {
        if (!visible[b * mask->strides[0]]) {
            return true;
        }
    }
    return false;
}

/* Returns whether every hidden row of x (..,S,D) is finite. Its first axis is that of the sequences, or else its
 * matrices belong to all of them. */
static bool hidden_rows_are_finite(const tg_tensor *x, const tg_tensor *mask, bool has_sequences)
{
    const int64_t keys = x->shape[x->rank - 2], width = x->shape[x->rank - 1];
    const int64_t matrices = x->count > 0 ? x->count / (keys * width) : 0;
    for (int64_t j = 0; matrices > 0 && j < keys; j++) {
        for (int64_t m = 0; m < matrices; m++) {
            int64_t at = j * x->strides[x->rank - 2], rest = m, sequence = -1;
            for (int axis = x->rank - 3; axis >= 0; axis--) {
                sequence = axis == 0 && has_sequences ? rest : -1;
                at += rest % x->shape[axis] * x->strides[axis];
                rest /= x->shape[axis];
            }
            if (is_hidden(mask, sequence, j) && !row_is_finite(x, at, width, x->strides[x->rank - 1])) {
                return false;
            }
        }
    }
    return true;
}

/* Returns the opposite of a mask (B,S), as (B,1..,S,1) of rank `rank`. */
static tg_tensor *opposite(tg_tape *t, const tg_tensor *mask, int rank)
{
    tg_shape shape = {rank, {0}};
    for (int axis = 0; axis < rank; axis++) {
        shape.size[axis] = axis == 0 ? mask->shape[0] : axis == rank - 2 ? mask->shape[1] : 1;
    }
    tg_tensor *hidden = tg_tape_new_tensor(t, call, TG_U8, shape);
    for (int64_t i = 0; hidden && i < hidden->count; i++) {
        ((uint8_t *)tg_values(hidden))[i] = is_hidden(mask, i / mask->shape[1], i % mask->shape[1]);
    }
    return hidden;
}

tg_tensor *tg_attention_hide(tg_tape *t, tg_tensor *x, const tg_tensor *mask, int rank)
{
    const int64_t sequences = mask->shape[0];
    bool has_sequences = x->rank == rank && x->shape[0] == sequences;
    if (hidden_rows_are_finite(x, mask, has_sequences)) {
        return x;
    }
    if (!has_sequences && x->rank == rank && x->shape[0] != 1) {
        x = tg_attention_repeat_heads(t, x, sequences); /* of rank 3: the heads are the sequences */
    } else if (!has_sequences) {
        tg_shape shape = {rank, {0}};
        for (int axis = 0; axis < rank; axis++) {
            int own = axis - (rank - x->rank);
            shape.size[axis] = axis == 0 ? sequences : own < 0 ? 1 : x->shape[own];
        }
        x = tg_expand(t, x, shape);
    }
    tg_tensor *hidden = opposite(t, mask, rank);
    return hidden ? tg_masked_fill(t, x, hidden, 0) : NULL;
}

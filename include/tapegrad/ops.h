/* ops: everything that computes on a tape.
 *
 * All of these take the tape first, check their inputs, and return a result that the tape owns (tg_retain keeps it), or
 * NULL with the error in the tape. They are recorded, and so differentiated by tg_backward, when recording is on and an
 * input requires a gradient. An input that is NULL is an error, never "left out". f32 and f64 are computed alike;
 * nothing is promoted: mixing them is an error that names tg_cast. Layouts: any strides are taken; only where it says
 * "view" does a result share its input's storage.
 *
 * Axes: 0 is the first, negative ones count from the end. Unless said otherwise an op follows the PyTorch function of
 * the same name. One difference is meant: the classes of losses are on the last axis (PyTorch has them on axis 1).
 *
 * Reduced axes: TG_AXES(0, -1) lists some, TG_ALL_AXES means all. With TG_KEEP_AXES a reduced axis stays as size 1.
 */
#ifndef TAPEGRAD_OPS_H
#define TAPEGRAD_OPS_H

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic: value by value, shapes broadcast as in NumPy (errors: SHAPE when they do not, DTYPE) ------------ */

TG_API tg_tensor *tg_add(tg_tape *tape, tg_tensor *a, tg_tensor *b);     /* a + b */
TG_API tg_tensor *tg_sub(tg_tape *tape, tg_tensor *a, tg_tensor *b);     /* a - b */
TG_API tg_tensor *tg_mul(tg_tape *tape, tg_tensor *a, tg_tensor *b);     /* a * b */
TG_API tg_tensor *tg_div(tg_tape *tape, tg_tensor *a, tg_tensor *b);     /* a / b */
TG_API tg_tensor *tg_pow(tg_tape *tape, tg_tensor *a, tg_tensor *b);     /* a to the power of b */
TG_API tg_tensor *tg_maximum(tg_tape *tape, tg_tensor *a, tg_tensor *b); /* a tie gives each half of the gradient */
TG_API tg_tensor *tg_minimum(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* A constant of x's dtype, shape (): broadcasting makes it an operand of anything. */
TG_API tg_tensor *tg_scalar_like(tg_tape *tape, const tg_tensor *x, double value);

/* The same with a number for the second operand. */
TG_API tg_tensor *tg_add_scalar(tg_tape *tape, tg_tensor *x, double value);
TG_API tg_tensor *tg_mul_scalar(tg_tape *tape, tg_tensor *x, double value);
TG_API tg_tensor *tg_div_scalar(tg_tape *tape, tg_tensor *x, double value);
TG_API tg_tensor *tg_pow_scalar(tg_tape *tape, tg_tensor *x, double value);

/* ---- functions: value by value, the shape stays ------------------------------------------------------------------ */

TG_API tg_tensor *tg_neg(tg_tape *tape, tg_tensor *x);
TG_API tg_tensor *tg_exp(tg_tape *tape, tg_tensor *x);
TG_API tg_tensor *tg_log(tg_tape *tape, tg_tensor *x); /* natural; log 0 is -inf, of less NaN */
TG_API tg_tensor *tg_sqrt(tg_tape *tape, tg_tensor *x);
TG_API tg_tensor *tg_tanh(tg_tape *tape, tg_tensor *x);
TG_API tg_tensor *tg_sigmoid(tg_tape *tape, tg_tensor *x);
TG_API tg_tensor *tg_relu(tg_tape *tape, tg_tensor *x);      /* gradient 0 at 0 */
TG_API tg_tensor *tg_gelu(tg_tape *tape, tg_tensor *x);      /* x Phi(x), with erf: torch's default */
TG_API tg_tensor *tg_gelu_tanh(tg_tape *tape, tg_tensor *x); /* approximate="tanh", as GPT-2 has it */
TG_API tg_tensor *tg_silu(tg_tape *tape, tg_tensor *x);      /* x sigmoid(x) */
TG_API tg_tensor *tg_abs(tg_tape *tape, tg_tensor *x);       /* gradient 0 at 0 */

/* Values below low become low, above high high; low <= high, infinities are fine. VALUE otherwise and for NaN bounds.
 * The gradient passes where low <= x <= high. */
TG_API tg_tensor *tg_clamp(tg_tape *tape, tg_tensor *x, double low, double high);

/* ---- comparisons and masks: u8 results, 1 for true; no gradient; shapes broadcast -------------------------------- */

/* Any dtypes; i32 and u8 are compared exactly. A u8 input counts as 0 or 1, as masks do. */
TG_API tg_tensor *tg_eq(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_ne(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_lt(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_le(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_gt(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_ge(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* mask ? a : b, value by value. mask is u8. */
TG_API tg_tensor *tg_where(tg_tape *tape, tg_tensor *mask, tg_tensor *a, tg_tensor *b);

/* x with `value` where the mask is true: no gradient flows there. mask broadcasts to x's shape. */
TG_API tg_tensor *tg_masked_fill(tg_tape *tape, tg_tensor *x, tg_tensor *mask, double value);

/* The last two axes' triangle: entries (i,j) with j - i <= diagonal (tril) or >= diagonal (triu) stay, the others
 * become 0. Rank 2 or more. */
TG_API tg_tensor *tg_tril(tg_tape *tape, tg_tensor *x, int64_t diagonal);
TG_API tg_tensor *tg_triu(tg_tape *tape, tg_tensor *x, int64_t diagonal);

/* ids (S) i32 -> (S,classes) of `dtype`, 1 at the id and 0 elsewhere. RANGE for an id outside of [0,classes). */
TG_API tg_tensor *tg_one_hot(tg_tape *tape, tg_tensor *ids, int64_t classes, tg_dtype dtype);

/* ---- reductions -------------------------------------------------------------------------------------------------- */

typedef struct tg_axes {
    int count; /* -1: all axes */
    int axis[TG_MAX_RANK];
} tg_axes;

typedef enum tg_keep_axes { TG_DROP_AXES, TG_KEEP_AXES } tg_keep_axes;

TG_API tg_axes tg_axes_make(int count, const int *axes);
#define TG_AXES(...) tg_axes_make((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__})
#define TG_ALL_AXES tg_axes_make(-1, NULL)

/* Sums are exact to a rounding of the result for up to some thousands of values: f32 is summed in double. Axes named
 * twice or not there are errors of RANGE. An empty sum is 0, an empty mean NaN; an empty maximum is an error of
 * SHAPE. */
TG_API tg_tensor *tg_sum(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);
TG_API tg_tensor *tg_mean(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);

/* torch.amax: values that tie for the maximum share the gradient evenly; NaN wins. */
TG_API tg_tensor *tg_max(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);

/* Divides by count - correction: 1 is torch's default, 0 the biased variance of layer norms. NaN when that is <= 0. */
TG_API tg_tensor *tg_var(tg_tape *tape, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep);

/* i32 positions of the first maximum along one axis; NaN counts as the largest. No gradient. */
TG_API tg_tensor *tg_argmax(tg_tape *tape, tg_tensor *x, int axis, tg_keep_axes keep);

/* The k largest along an axis, largest first, and their i32 positions (into *indices unless it is NULL). On ties the
 * lower position comes first; NaN counts as the largest. 0 <= k <= size, else RANGE. Gradients go to the chosen
 * values. */
TG_API tg_tensor *tg_topk(tg_tape *tape, tg_tensor *x, int64_t k, int axis, tg_tensor **indices);

/* ---- layout: views share storage and pass gradients -------------------------------------------------------------- */

/* Same count; one size may be -1 and is computed. A view when x is contiguous, else of a contiguous copy. */
TG_API tg_tensor *tg_reshape(tg_tape *tape, tg_tensor *x, tg_shape shape);
TG_API tg_tensor *tg_transpose(tg_tape *tape, tg_tensor *x, int axis, int other); /* view */
TG_API tg_tensor *tg_permute(tg_tape *tape, tg_tensor *x, tg_axes axes);          /* view; every axis once */
TG_API tg_tensor *tg_slice(tg_tape *tape, tg_tensor *x, int axis, int64_t begin, int64_t end, int64_t step); /* view; as
        Python's x[begin:end:step]: negative bounds count from the end, bounds are cut to the axis; step >= 1 */
TG_API tg_tensor *tg_select(tg_tape *tape, tg_tensor *x, int axis, int64_t index); /* view; drops the axis */
TG_API tg_tensor *tg_expand(tg_tape *tape, tg_tensor *x,
                            tg_shape shape);                           /* view; axes of size 1, and new ones in front,
                                                                             repeat without a copy; -1 keeps a size */
TG_API tg_tensor *tg_unsqueeze(tg_tape *tape, tg_tensor *x, int axis); /* view; a new axis of 1 */
TG_API tg_tensor *tg_squeeze(tg_tape *tape, tg_tensor *x, int axis);   /* view; drops an axis of 1 */
TG_API tg_tensor *tg_contiguous(tg_tape *tape, tg_tensor *x);          /* x itself when it is contiguous, else a copy */
TG_API tg_tensor *tg_detach(tg_tape *tape, tg_tensor *x); /* view; without history: no gradient flows through it */
TG_API tg_tensor *tg_cast(tg_tape *tape, tg_tensor *x,
                          tg_dtype dtype); /* x itself when it has the dtype; gradients pass
                                                                           between f32 and f64 */

/* Joins `count` tensors along an axis that exists (cat) or along a new one (stack). Other sizes must agree. */
TG_API tg_tensor *tg_cat(tg_tape *tape, tg_tensor *const *tensors, int count, int axis);
TG_API tg_tensor *tg_stack(tg_tape *tape, tg_tensor *const *tensors, int count, int axis);

/* Views of at most `size` along an axis, the last one maybe smaller; writes `parts`, which must have room for all of
 * them (capacity), and returns how many, or -1 after an error. */
TG_API int64_t tg_split(tg_tape *tape, tg_tensor *x, int64_t size, int axis, tg_tensor **parts, int64_t capacity);

/* torch.gather: y[i][j][k] = x[i][ids[i][j][k]][k] for axis 1, and so on; ids i32, of x's rank and nowhere larger
 * than x but along the axis. */
TG_API tg_tensor *tg_gather(tg_tape *tape, tg_tensor *x, int axis, tg_tensor *ids);

/* Slices of x along an axis, picked by ids of rank 1. */
TG_API tg_tensor *tg_index_select(tg_tape *tape, tg_tensor *x, int axis, tg_tensor *ids);

/* Copies src (broadcast to dst's shape, same dtype) into dst in place and returns dst. Not recorded: an error of
 * STATE when dst has a history, or requires a gradient while recording is on. Moves dst's version on. */
TG_API tg_tensor *tg_copy_into(tg_tape *tape, tg_tensor *dst, tg_tensor *src);

/* The value of a tensor with one value, in any dtype; NaN, with the tape's error set, otherwise. */
TG_API double tg_item(tg_tape *tape, const tg_tensor *x);

/* ---- linear algebra ---------------------------------------------------------------------------------------------- */

/* (..,M,K) x (..,K,N) -> (..,M,N): matrices on the last two axes, batches on the others, broadcast. A vector (K)
 * counts as a row on the left and as a column on the right, and its axis is dropped from the result. Transposed
 * operands cost no copy. OpenBLAS computes it: the same bits for the same number of threads. */
TG_API tg_tensor *tg_matmul(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* torch.nn.functional.linear: x (..,in), weight (out,in), bias (out) -> x weight^T, or x weight^T + bias, (..,out). */
TG_API tg_tensor *tg_linear_map(tg_tape *tape, tg_tensor *x, tg_tensor *weight);
TG_API tg_tensor *tg_linear_map_bias(tg_tape *tape, tg_tensor *x, tg_tensor *weight, tg_tensor *bias);

/* ---- embedding --------------------------------------------------------------------------------------------------- */

/* Rows of a table, picked by ids of any shape: table (V,C), ids (S) i32 -> (S,C). The gradient of a table that is a
 * leaf is kept by rows; duplicates are summed in order. RANGE for an id outside of [0,V), with its place. */
TG_API tg_tensor *tg_embedding_lookup(tg_tape *tape, tg_tensor *table, tg_tensor *ids);

#define TG_NO_PADDING INT64_MIN

typedef struct tg_lookup_config {
    int64_t padding_index;   /* this row gets no gradient from the lookup; negative: from the end; TG_NO_PADDING */
    bool scale_by_frequency; /* each row's gradient is divided by how often this call names it (torch's
                                scale_grad_by_freq); false */
} tg_lookup_config;

TG_API tg_lookup_config tg_lookup_config_default(void);

/* The same with torch.nn.functional.embedding's options. RANGE for a padding index outside of the table. */
TG_API tg_tensor *tg_embedding_lookup_with(tg_tape *tape, tg_tensor *table, tg_tensor *ids,
                                           const tg_lookup_config *config);

/* Before a lookup with a max_norm: each row that the ids name, and whose norm sum(|w|^p)^(1/p) is above max_norm, is
 * multiplied by max_norm / (norm + 1e-7), in place: torch.embedding_renorm_. Not recorded; moves the table's version
 * on, so that a backward which needs its old values is an error and not a wrong gradient. p may be INFINITY. VALUE
 * unless max_norm and p are above 0; STATE when the table is the result of a recorded op. */
TG_API bool tg_embedding_renorm(tg_tape *tape, tg_tensor *table, tg_tensor *ids, double max_norm, double p);

typedef enum tg_bag_mode { TG_BAG_SUM, TG_BAG_MEAN, TG_BAG_MAX } tg_bag_mode;

typedef struct tg_embedding_bag_config {
    tg_bag_mode mode;      /* TG_BAG_MEAN; an empty bag gives zeros in every mode */
    int64_t padding_index; /* entries that do not count, in sums, means and maxima; TG_NO_PADDING */
    tg_tensor *offsets; /* (bags) i32: where each bag begins in ids (n); the first is 0, none is below the one before.
                              NULL: ids are (bags,length) */
    tg_tensor *weights; /* of the entries, in the shape of ids: each row is multiplied by its own; TG_BAG_SUM alone.
                              NULL: none */
    bool last_offset;   /* there is one offset more than bags, where the last bag ends (include_last_offset): false */
    bool scale_by_frequency; /* as in a lookup; not with TG_BAG_MAX; false. torch 2.13's bags divide by the count of
                                another row on a CPU (pytorch issue 190063) */
} tg_embedding_bag_config;

TG_API tg_embedding_bag_config tg_embedding_bag_config_default(void);

/* Rows of a table (V,C) in bags: their sum, mean or maximum, (bags,C), without the rows in between.
 * torch.nn.functional. embedding_bag. The gradient of a table that is a leaf is kept by rows. `config` NULL: the
 * default. */
TG_API tg_tensor *tg_embedding_bag(tg_tape *tape, tg_tensor *table, tg_tensor *ids,
                                   const tg_embedding_bag_config *config);

/* ---- attention ---- */

typedef struct tg_attention_config {
    /* query t, which stands at position S - T + t, looks at keys up to its own position: true. False: at all of them */
    bool causal;
    /* in training each weight is dropped with this probability, in [0,1): 0 */
    double dropout;
    /* added to the scaled scores; NULL for none, the default. (..,T,S), where axes of 1 before the last two repeat;
     * of rank 2 up to the queries'. This is how positions that depend on two tokens come in: ALiBi, T5,
     * Transformer-XL */
    tg_tensor *bias;
} tg_attention_config;

TG_API tg_attention_config tg_attention_config_default(void);

/* softmax(q k^T / sqrt(D) + bias) v for queries (..,T,D), keys (..,S,D) and values (..,S,D) with equal batch axes; S
 * >= T when it is causal. `config` NULL: the default. Dropout's draws are those of torch.nn.functional.dropout over
 * the whole (..,T,S) matrix, masked weights included, from the tape's generator.
 *
 * The fused op computes this in blocks of rows and keeps no matrix but a bit for each dropped weight: Dao et al. 2022
 * without its tiling of keys. torch.nn.functional.scaled_dot_product_attention. SHAPE, VALUE, STATE when it must draw
 * and the tape has no generator. */
TG_API tg_tensor *tg_attention(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                               const tg_attention_config *config);

/* The same numbers from matmul, add, masked_fill, softmax, dropout and matmul, as the course's chapter 3 builds it. */
TG_API tg_tensor *tg_attention_elementary(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                          const tg_attention_config *config);

/* The weights of that alone, (..,T,S), after softmax and dropout. */
TG_API tg_tensor *tg_attention_weights(tg_tape *tape, tg_tensor *queries, tg_tensor *keys,
                                       const tg_attention_config *config);

/* Scores by distance, moved to where the keys are: place l of x means the distance S - 1 - l between a query and a key,
 * where query i of T stands at position S - T + i. x (..,T,L), or (..,1,L) for all queries alike -> (..,T,S), value
 * (i,j) of which is x[i][T - 1 - i + j]: a view of x, and of itself, when L >= T + S - 1; do not write to it. A smaller L, S when no key lies ahead, is
 * filled up with zeros. Dai et al. 2019, appendix B. */
TG_API tg_tensor *tg_relative_shift(tg_tape *tape, tg_tensor *x, int64_t queries, int64_t keys);

/* tg_relative_shift(queries distances^T, T, S), without the products that the shift would leave unused: queries
 * (..,T,D), distances (..,L,D) with the queries' batch axes, or axes of 1, or none -> (..,T,S). L >= T + S - 1, or,
 * with `causal`, L >= S >= T: scores of keys ahead are 0 then, for a mask to hide. Transformer-XL's position scores,
 * Dai et al. 2019, section 3.3. */
TG_API tg_tensor *tg_relative_scores(tg_tape *tape, tg_tensor *queries, tg_tensor *distances, int64_t keys,
                                     bool causal);

/* Scores by clipped distance, moved to where the keys are, as Shaw, Uszkoreit and Vaswani 2018 clip them: x (..,T,2 k
 * + 1) -> (..,T,S), value (i,j) of which is x[i][k + clip(a, -k, k)], where key j lies a = j - (S - T + i) positions
 * ahead. */
TG_API tg_tensor *tg_relative_spread(tg_tape *tape, tg_tensor *x, int64_t keys);

/* The way back: x (..,T,S) -> (..,T,2 clip + 1), the sums of the values with the same clipped distance. */
TG_API tg_tensor *tg_relative_collect(tg_tape *tape, tg_tensor *x, int64_t clip);

typedef enum tg_rotary_pairing {
    TG_ROTARY_HALVES,    /* channels i and i + D/2: GPT-NeoX, Llama */
    TG_ROTARY_NEIGHBOURS /* channels 2 i and 2 i + 1: the paper, GPT-J */
} tg_rotary_pairing;

typedef struct tg_rotary_config {
    double base;               /* above 1: 10000 */
    tg_rotary_pairing pairing; /* TG_ROTARY_HALVES */
    double position_scale;     /* positions are divided by it, above 0: 1. Position interpolation, Chen et al. 2023 */
    double ntk_factor;         /* the base grows by its power D / (D - 2), above 0: 1. NTK-aware scaling */
} tg_rotary_config;

TG_API tg_rotary_config tg_rotary_config_default(void);

/* Rotary positions, Su et al. 2021: x (..,T,D) with an even D, row t of which is at position start + t, turned pair
 * by pair. For queries and keys, before their product. `config` NULL: the default. SHAPE, VALUE. */
TG_API tg_tensor *tg_rotary(tg_tape *tape, tg_tensor *x, int64_t start, const tg_rotary_config *config);

/* ---- normalisation and losses ------------------------------------------------------------------------------------ */

TG_API tg_tensor *tg_softmax(tg_tape *tape, tg_tensor *x, int axis);
TG_API tg_tensor *tg_log_softmax(tg_tape *tape, tg_tensor *x, int axis);

/* Over the last axis: (x - mean) / sqrt(var + eps) * weight + bias, biased variance; weight and bias (C). eps > 0. */
TG_API tg_tensor *tg_layer_norm(tg_tape *tape, tg_tensor *x, tg_tensor *weight, tg_tensor *bias, double eps);

/* Over the last axis: x / sqrt(mean(x^2) + eps) * weight; weight (C). eps > 0. Zhang and Sennrich 2019; torch's
 * rms_norm. */
TG_API tg_tensor *tg_rms_norm(tg_tape *tape, tg_tensor *x, tg_tensor *weight, double eps);

/* In training each value becomes 0 with probability p and is divided by 1 - p otherwise; the draws are those of
 * torch.nn.functional.dropout, from the tape's generator. In evaluation, and for p = 0, x itself. VALUE unless
 * 0 <= p <= 1; STATE when the tape has no generator. */
TG_API tg_tensor *tg_dropout(tg_tape *tape, tg_tensor *x, double p);

typedef enum tg_reduction { TG_REDUCTION_MEAN, TG_REDUCTION_SUM, TG_REDUCTION_NONE } tg_reduction;

typedef struct tg_cross_entropy_config {
    int32_t ignore_index;   /* targets that do not count: -100 */
    double label_smoothing; /* in [0,1]: 0 */
    tg_reduction reduction; /* mean, over the targets that count */
} tg_cross_entropy_config;

TG_API tg_cross_entropy_config tg_cross_entropy_config_default(void);

/* logits (S,V), targets (S) i32 of any shape S -> a scalar, or (S) with TG_REDUCTION_NONE. The mean over no target at
 * all is NaN, as in PyTorch. RANGE for a target that is neither ignored nor in [0,V). */
TG_API tg_tensor *tg_cross_entropy(tg_tape *tape, tg_tensor *logits, tg_tensor *targets);
TG_API tg_tensor *tg_cross_entropy_with(tg_tape *tape, tg_tensor *logits, tg_tensor *targets,
                                        const tg_cross_entropy_config *config);

/* The same from log-probabilities (S,V): -log_probs[s, target[s]]. */
TG_API tg_tensor *tg_nll_loss(tg_tape *tape, tg_tensor *log_probs, tg_tensor *targets, int32_t ignore_index,
                              tg_reduction reduction);

/* (prediction - target)^2; equal shapes. */
TG_API tg_tensor *tg_mse_loss(tg_tape *tape, tg_tensor *prediction, tg_tensor *target, tg_reduction reduction);

#ifdef __cplusplus
}
#endif

#endif

/* ops: the functions that compute on a tape.
 *
 * Each function follows the PyTorch function of the same name, unless its comment names a difference. It takes the tape
 * first, and returns a result that the tape owns (tg_retain keeps it), or NULL with the error in the tape. A call is
 * recorded, and so differentiated by tg_backward, if recording is on and an input requires a gradient. A result is a
 * copy, unless the comment calls it a view: then it shares the storage of its input.
 *
 * Inputs. Any strides are accepted. Inputs are f32 or f64, and results have the same dtype, unless the comment names
 * other dtypes. The ops on shapes and layouts accept every dtype.
 *
 * Errors. DTYPE for another dtype, and for a mix of f32 and f64, because no dtype is promoted (tg_cast converts); SHAPE
 * for shapes that do not match; RANGE for axes and ids out of bounds; MEMORY; STATE for a NULL tensor, unless the
 * comment calls it optional, and for a result that another tape recorded (tg_detach drops its history). The comments do
 * not repeat these errors.
 *
 * Axes. 0 is the first axis, and negative axes count from the end. TG_AXES(0, -1) is a list of axes, and TG_ALL_AXES is
 * all of them. With TG_KEEP_AXES a reduced axis stays, with size 1. A scalar has no axis, but counts as a line of one
 * value along axis 0 in reductions, softmax, topk, sort and cumsum, as in torch.
 *
 * Losses are in tapegrad/losses.h.
 */
#ifndef TAPEGRAD_OPS_H
#define TAPEGRAD_OPS_H

#include <tapegrad/tape.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic: elementwise, with broadcasting ------------------------------------------------------------------ */
/* Shapes are aligned at the last axis. Two sizes match if they are equal, or if one of them is 1 or absent. */

/* a + b */
TG_API tg_tensor *tg_add(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* a - b */
TG_API tg_tensor *tg_sub(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* a * b */
TG_API tg_tensor *tg_mul(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* a / b */
TG_API tg_tensor *tg_div(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* a to the power of b */
TG_API tg_tensor *tg_pow(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* The larger, or the smaller, of two values; NaN if one is NaN. On a tie each input gets half of the gradient. */
TG_API tg_tensor *tg_maximum(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_minimum(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* a - b floor(a / b), with the sign of b: Python's %. */
TG_API tg_tensor *tg_remainder(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* min(max(x, low), high): torch.clamp with tensors. The gradient goes to x where low <= x <= high, and else to the
 * bound that is the result. One of the bounds may be NULL, for no bound (STATE if both are). */
TG_API tg_tensor *tg_clamp_tensor(tg_tape *tape, tg_tensor *x, tg_tensor *low, tg_tensor *high);

/* x + value, x * value, x / value, or x to the power of `value`. As in torch, the powers 0.5 and -0.5 are square roots:
 * for x = -inf, tg_pow_scalar gives NaN, where tg_pow gives inf and 0. The powers 2, 3 and -2 are products. */
TG_API tg_tensor *tg_add_scalar(tg_tape *tape, tg_tensor *x, double value);
TG_API tg_tensor *tg_mul_scalar(tg_tape *tape, tg_tensor *x, double value);
TG_API tg_tensor *tg_div_scalar(tg_tape *tape, tg_tensor *x, double value);
TG_API tg_tensor *tg_pow_scalar(tg_tape *tape, tg_tensor *x, double value);

/* For each value of p: 1 with this probability, else 0, in p's dtype and without a gradient: torch.bernoulli. The draws
 * are torch's, from the tape's generator (STATE without one), in row-major order. VALUE, with the index, for a
 * probability outside of [0,1]. */
TG_API tg_tensor *tg_bernoulli(tg_tape *tape, tg_tensor *p);

/* Draws `draws` categories for each row of weights (V) or (B,V), which need not sum to 1: (draws) or (B,draws) i32,
 * without a gradient: torch.multinomial. The draws are torch's, from the tape's generator (STATE without one). Without
 * replacement each row draws a category at most once. VALUE, and nothing is drawn, for a weight that is negative or not
 * finite, and for a row without a weight above 0. `draws` must be at least 1 and, without replacement, at most the
 * number of weights above 0 (VALUE). SHAPE for another rank, and for more than 2^24 categories. */
TG_API tg_tensor *tg_multinomial(tg_tape *tape, tg_tensor *weights, int64_t draws, bool replacement);

/* A constant tensor of any dtype in which every value is `value`: torch.full. With the shape TG_SCALAR it broadcasts to
 * every shape. */
TG_API tg_tensor *tg_full(tg_tape *tape, tg_dtype dtype, tg_shape shape, double value);

/* A constant tensor with a copy of `values`, a row-major array of the dtype's C type: torch.tensor. The next
 * tg_tape_reset frees it, so it suits a batch that changes in every step. */
TG_API tg_tensor *tg_constant(tg_tape *tape, tg_dtype dtype, tg_shape shape, const void *values);

/* The same for each dtype. The compiler checks the array. */
static inline tg_tensor *tg_constant_f32(tg_tape *tape, tg_shape shape, const float *values)
{
    return tg_constant(tape, TG_F32, shape, values);
}
static inline tg_tensor *tg_constant_f64(tg_tape *tape, tg_shape shape, const double *values)
{
    return tg_constant(tape, TG_F64, shape, values);
}
static inline tg_tensor *tg_constant_i32(tg_tape *tape, tg_shape shape, const int32_t *values)
{
    return tg_constant(tape, TG_I32, shape, values);
}
static inline tg_tensor *tg_constant_u8(tg_tape *tape, tg_shape shape, const uint8_t *values)
{
    return tg_constant(tape, TG_U8, shape, values);
}

/* ---- functions: elementwise -------------------------------------------------------------------------------------- */

/* -x */
TG_API tg_tensor *tg_neg(tg_tape *tape, tg_tensor *x);

/* e^x */
TG_API tg_tensor *tg_exp(tg_tape *tape, tg_tensor *x);

/* The natural logarithm: -inf for 0, NaN for a negative x. */
TG_API tg_tensor *tg_log(tg_tape *tape, tg_tensor *x);

/* The square root: NaN for a negative x. */
TG_API tg_tensor *tg_sqrt(tg_tape *tape, tg_tensor *x);

/* The hyperbolic tangent. */
TG_API tg_tensor *tg_tanh(tg_tape *tape, tg_tensor *x);

/* 1 / (1 + e^-x) */
TG_API tg_tensor *tg_sigmoid(tg_tape *tape, tg_tensor *x);

/* max(x, 0). The gradient at 0 is 0. */
TG_API tg_tensor *tg_relu(tg_tape *tape, tg_tensor *x);

/* x Phi(x), where Phi is the standard normal distribution function: torch's default, approximate="none". */
TG_API tg_tensor *tg_gelu(tg_tape *tape, tg_tensor *x);

/* The approximation of GELU with tanh, as in GPT-2: torch's approximate="tanh". */
TG_API tg_tensor *tg_gelu_tanh(tg_tape *tape, tg_tensor *x);

/* x sigmoid(x) */
TG_API tg_tensor *tg_silu(tg_tape *tape, tg_tensor *x);

/* |x|. The gradient at 0 is 0. */
TG_API tg_tensor *tg_abs(tg_tape *tape, tg_tensor *x);

/* The sine and the cosine of radians. */
TG_API tg_tensor *tg_sin(tg_tape *tape, tg_tensor *x);
TG_API tg_tensor *tg_cos(tg_tape *tape, tg_tensor *x);

/* The sign of x, which is 1, -1 or 0; x rounded to the nearest integer, ties to even; the largest integer that is at
 * most x. The gradients are 0. */
TG_API tg_tensor *tg_sign(tg_tape *tape, tg_tensor *x);
TG_API tg_tensor *tg_round(tg_tape *tape, tg_tensor *x);
TG_API tg_tensor *tg_floor(tg_tape *tape, tg_tensor *x);

/* x where x > 0, slope x elsewhere. torch's slope is 0.01. */
TG_API tg_tensor *tg_leaky_relu(tg_tape *tape, tg_tensor *x, double slope);

/* x where x > 0, alpha (e^x - 1) elsewhere (Clevert et al. 2016). torch's alpha is 1. At a NaN the gradient passes, as
 * in torch's scalar code; torch's vectorized code gives NaN. */
TG_API tg_tensor *tg_elu(tg_tape *tape, tg_tensor *x, double alpha);

/* log(1 + e^(beta x)) / beta, and x itself where beta x > threshold. torch's beta is 1 and its threshold 20. VALUE
 * unless beta > 0, and for a threshold that is NaN. */
TG_API tg_tensor *tg_softplus(tg_tape *tape, tg_tensor *x, double beta, double threshold);

/* log(sigmoid(x)), without overflow: torch's logsigmoid. */
TG_API tg_tensor *tg_log_sigmoid(tg_tape *tape, tg_tensor *x);

/* min(max(x, low), high). The gradient passes where low <= x <= high. The bounds may be infinite. VALUE
 * unless low <= high. */
TG_API tg_tensor *tg_clamp(tg_tape *tape, tg_tensor *x, double low, double high);

/* ---- comparisons and masks --------------------------------------------------------------------------------------- */
/* A mask is u8: 0 is false, any other value is true. */

/* a == b, a != b, a < b, a <= b, a > b, or a >= b, elementwise with broadcasting: a u8 mask of zeros and ones, without
 * a gradient. The inputs may have any dtypes, but not f32 together with f64. A u8 input counts as 0 or 1. Comparisons
 * are exact, except that i32 is rounded to f32 for a comparison with f32. */
TG_API tg_tensor *tg_eq(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_ne(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_lt(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_le(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_gt(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_ge(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* Whether a and b, a or b, or not x, where any value except 0 is true: a u8 mask, without a gradient. Inputs as for the
 * comparisons. */
TG_API tg_tensor *tg_logical_and(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_logical_or(tg_tape *tape, tg_tensor *a, tg_tensor *b);
TG_API tg_tensor *tg_logical_not(tg_tape *tape, tg_tensor *x);

/* a where the mask is true, b elsewhere, with broadcasting: torch.where. a and b have one dtype, any. */
TG_API tg_tensor *tg_where(tg_tape *tape, tg_tensor *mask, tg_tensor *a, tg_tensor *b);

/* `value` where the mask is true, x elsewhere. The mask is broadcast to x's shape. x may have any dtype; the value is
 * converted to it. */
TG_API tg_tensor *tg_masked_fill(tg_tape *tape, tg_tensor *x, tg_tensor *mask, double value);

/* The lower or the upper triangle of the matrices on the last two axes. tril keeps the entries (i,j) with
 * j - i <= diagonal, and triu those with j - i >= diagonal; all others become 0. */
TG_API tg_tensor *tg_tril(tg_tape *tape, tg_tensor *x, int64_t diagonal);
TG_API tg_tensor *tg_triu(tg_tape *tape, tg_tensor *x, int64_t diagonal);

/* ids (..) i32 -> (..,classes) of any dtype: 1 at the id, 0 elsewhere. RANGE for an id outside of [0,classes), VALUE
 * for fewer than 1 class. */
TG_API tg_tensor *tg_one_hot(tg_tape *tape, tg_tensor *ids, int64_t classes, tg_dtype dtype);

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* A list of axes. VALUE for a list without axes, except TG_ALL_AXES: torch takes an empty list as all axes. */
typedef struct tg_axes {
    int count;
    int axis[TG_MAX_RANK];
} tg_axes;

typedef enum tg_keep_axes { TG_DROP_AXES, TG_KEEP_AXES } tg_keep_axes;

/* Returns the list of these axes. More than TG_MAX_RANK axes, or NULL axes, give an invalid list, which every op
 * refuses: NULL axes with STATE. */
TG_API tg_axes tg_axes_make(int count, const int *axes);

/* TG_AXES(0, -1) is the first and the last axis. */
#ifdef __cplusplus
#define TG_AXES(...) tg_axes_of_list(__VA_ARGS__)
extern "C++" {
template <typename... integers> inline tg_axes tg_axes_of_list(integers... axes)
{
    const int list[] = {static_cast<int>(axes)...};
    return tg_axes_make(static_cast<int>(sizeof...(axes)), list);
}
}
#else
#define TG_AXES(...) tg_axes_make((int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (int[]){__VA_ARGS__})
#endif

/* All axes, the list with the count -1. */
#define TG_ALL_AXES tg_axes_make(-1, NULL)

/* The sum, or the mean, over a list of axes; RANGE if an axis is listed twice. Values are added in double, so an f32
 * sum of some thousands of values is exact except for the rounding of the result. An empty sum is 0, an empty mean is
 * NaN. The sum of i32 or u8 values is i32, without a gradient: a u8 value counts as 0 or 1, and a sum outside of i32's
 * range is clamped. */
TG_API tg_tensor *tg_sum(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);
TG_API tg_tensor *tg_mean(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);

/* The sum, or the mean, of all values, a scalar: torch.sum(x) and torch.mean(x). */
static inline tg_tensor *tg_sum_all(tg_tape *tape, tg_tensor *x)
{
    return tg_sum(tape, x, TG_ALL_AXES, TG_DROP_AXES);
}
static inline tg_tensor *tg_mean_all(tg_tape *tape, tg_tensor *x)
{
    return tg_mean(tape, x, TG_ALL_AXES, TG_DROP_AXES);
}

/* The maximum, or the minimum, over a list of axes; NaN if a value is NaN. Values that tie share the gradient evenly.
 * SHAPE for an axis of size 0. */
TG_API tg_tensor *tg_amax(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);
TG_API tg_tensor *tg_amin(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);

/* log(sum(e^x)) over a list of axes, without overflow. The gradient is torch's, e^(x - y). If |x| is so large that y =
 * x + log(count) is rounded to x, each gradient is 1; tg_softmax and the losses have no such rounding. */
TG_API tg_tensor *tg_logsumexp(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);

/* The p-norm (sum |x|^p)^(1/p) over a list of axes: torch.linalg.vector_norm. INFINITY gives the maximum of |x|, and
 * SHAPE for an axis of size 0. The gradient where the norm is 0 is 0. VALUE unless p > 0. */
TG_API tg_tensor *tg_norm(tg_tape *tape, tg_tensor *x, double p, tg_axes axes, tg_keep_axes keep);

/* Whether any value, or every value, is not 0, over a list of axes: a u8 mask, without a gradient. x has any dtype. */
TG_API tg_tensor *tg_any(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);
TG_API tg_tensor *tg_all(tg_tape *tape, tg_tensor *x, tg_axes axes, tg_keep_axes keep);

/* The variance over a list of axes: sum((x - mean)^2) / (count - correction). A correction of 1 is torch's default, and
 * 0 gives the biased variance of layer norms. With a correction of `count` or more the divisor is 0: inf, or NaN if all
 * values are equal. NaN for no values. */
TG_API tg_tensor *tg_var(tg_tape *tape, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep);

/* The standard deviation, the root of the variance. Its gradient is 0 where it is 0. */
TG_API tg_tensor *tg_std(tg_tape *tape, tg_tensor *x, tg_axes axes, int correction, tg_keep_axes keep);

/* The index of the first maximum, or of the first minimum, along an axis, i32, without a gradient. A NaN counts as the
 * largest and as the smallest value. x has any dtype. SHAPE for an axis of size 0. */
TG_API tg_tensor *tg_argmax(tg_tape *tape, tg_tensor *x, int axis, tg_keep_axes keep);
TG_API tg_tensor *tg_argmin(tg_tape *tape, tg_tensor *x, int axis, tg_keep_axes keep);

/* An order of values. NaN counts as the largest value. */
typedef enum tg_order { TG_LARGEST_FIRST, TG_SMALLEST_FIRST } tg_order;

/* The k largest or smallest values along an axis, in this order: tg_topk(t, x, 5, -1, TG_LARGEST_FIRST, &ids). Writes
 * their indices, i32, to *indices, which is optional. On ties the smaller index comes first. The gradient goes to the
 * selected values. RANGE unless 0 <= k <= the size of the axis. For a scalar the result is its value, a scalar, even
 * for k = 0. */
TG_API tg_tensor *tg_topk(tg_tape *tape, tg_tensor *x, int64_t k, int axis, tg_order order, tg_tensor **indices);

/* All values along an axis in this order, and their indices, as for tg_topk: torch.sort with stable=True. */
TG_API tg_tensor *tg_sort(tg_tape *tape, tg_tensor *x, int axis, tg_order order, tg_tensor **indices);

/* The running sum along an axis, y_i = x_0 + ... + x_i. Values are added in double. */
TG_API tg_tensor *tg_cumsum(tg_tape *tape, tg_tensor *x, int axis);

/* ---- shapes and layouts ------------------------------------------------------------------------------------------ */

/* The same values in another shape, in which one size may be -1: it is computed. A view of x if its values are equally
 * far apart, as in a contiguous tensor, else a view of a contiguous copy. */
TG_API tg_tensor *tg_reshape(tg_tape *tape, tg_tensor *x, tg_shape shape);

/* x with two axes exchanged. A view. */
TG_API tg_tensor *tg_transpose(tg_tape *tape, tg_tensor *x, int axis, int other);

/* x with its axes in this order; every axis is listed once. A view. */
TG_API tg_tensor *tg_permute(tg_tape *tape, tg_tensor *x, tg_axes axes);

/* x[begin:end:step] along an axis, as in Python: negative bounds count from the end, and bounds are clipped to the
 * axis, so INT64_MAX is its end. A view. VALUE unless step >= 1. */
TG_API tg_tensor *tg_slice(tg_tape *tape, tg_tensor *x, int axis, int64_t begin, int64_t end, int64_t step);

/* x with the order of its values reversed along a list of axes. A view, where torch.flip copies. */
TG_API tg_tensor *tg_flip(tg_tape *tape, tg_tensor *x, tg_axes axes);

/* x repeated along its axes: x.repeat(times). `times` has a count for each axis of x; more counts add axes in front.
 * SHAPE for fewer counts than axes, and for a negative count. */
TG_API tg_tensor *tg_repeat(tg_tape *tape, tg_tensor *x, tg_shape times);

/* x[index] along an axis, which is removed; a negative index counts from the end. A view. */
TG_API tg_tensor *tg_select(tg_tape *tape, tg_tensor *x, int axis, int64_t index);

/* x with its axes of size 1 repeated to these sizes, and with new axes in front; -1 keeps a size: x.expand(shape). A
 * view. */
TG_API tg_tensor *tg_expand(tg_tape *tape, tg_tensor *x, tg_shape shape);

/* x with a new axis of size 1 at this index. A view. */
TG_API tg_tensor *tg_unsqueeze(tg_tape *tape, tg_tensor *x, int axis);

/* x without this axis, whose size must be 1 (SHAPE). A view. */
TG_API tg_tensor *tg_squeeze(tg_tape *tape, tg_tensor *x, int axis);

/* x itself if it is contiguous, else a contiguous copy. */
TG_API tg_tensor *tg_contiguous(tg_tape *tape, tg_tensor *x);

/* x without its history, so that no gradient flows through it: x.detach(). A view. */
TG_API tg_tensor *tg_detach(tg_tape *tape, tg_tensor *x);

/* x in another dtype, converted as by tg_tensor_new_cast: x.to(dtype). x itself if it has the dtype. The gradient
 * passes between f32 and f64. */
TG_API tg_tensor *tg_cast(tg_tape *tape, tg_tensor *x, tg_dtype dtype);

/* `count` tensors of one dtype, joined along one of their axes (cat) or along a new axis (stack). All other sizes must
 * be equal (SHAPE). VALUE unless count >= 1. */
TG_API tg_tensor *tg_cat(tg_tape *tape, tg_tensor *const *tensors, int count, int axis);
TG_API tg_tensor *tg_stack(tg_tape *tape, tg_tensor *const *tensors, int count, int axis);

/* Splits x along an axis into views of this size; the last one may be smaller. Writes them to `parts`, an array of
 * `capacity` tensors, and returns their number. 0 after an error: VALUE unless size >= 1, RANGE if the capacity is too
 * small. */
TG_API int64_t tg_split(tg_tape *tape, tg_tensor *x, int64_t size, int axis, tg_tensor **parts, int64_t capacity);

/* Values of x selected by ids along an axis: for axis 1, y[i,j,k] = x[i,ids[i,j,k],k]. ids are i32, have x's rank,
 * and are no larger than x on every other axis. */
TG_API tg_tensor *tg_gather(tg_tape *tape, tg_tensor *x, int axis, tg_tensor *ids);

/* Slices of x selected by ids (N) i32 along an axis: for axis 1, y[i,n,k] = x[i,ids[n],k]. */
TG_API tg_tensor *tg_index_select(tg_tape *tape, tg_tensor *x, int axis, tg_tensor *ids);

/* x with values of a source added at ids along an axis: for axis 1, y[i,ids[i,j,k],k] += source[i,j,k]. x and the
 * source are f32 or f64. ids are i32, no larger than the source, and no larger than x on every other axis. Ids that
 * repeat add up, in order. */
TG_API tg_tensor *tg_scatter_add(tg_tape *tape, tg_tensor *x, int axis, tg_tensor *ids, tg_tensor *source);

/* x with slices of a source added at ids (N) i32 along an axis: for axis 1, y[i,ids[n],k] += source[i,n,k]. x and the
 * source are f32 or f64, and their sizes must be equal except on this axis. */
TG_API tg_tensor *tg_index_add(tg_tape *tape, tg_tensor *x, int axis, tg_tensor *ids, tg_tensor *source);

/* ---- linear algebra ---------------------------------------------------------------------------------------------- */

/* The matrix product (..,M,K) x (..,K,N) -> (..,M,N). The matrices are on the last two axes, and the axes before them
 * broadcast. A vector (K) is a row on the left and a column on the right, and its axis is removed from the result.
 * Transposed operands are not copied. BLAS computes the product (tg_get_blas). OpenBLAS gives the same bits only for
 * the same number of threads (tg_set_threads). */
TG_API tg_tensor *tg_matmul(tg_tape *tape, tg_tensor *a, tg_tensor *b);

/* x weight^T + bias: x (..,in), weight (out,in) and bias (out) -> (..,out). The bias is optional. */
TG_API tg_tensor *tg_linear(tg_tape *tape, tg_tensor *x, tg_tensor *weight, tg_tensor *bias);

/* ---- embedding --------------------------------------------------------------------------------------------------- */
/* A lookup copies the rows of a table that ids name. Its backward is a scatter-add: each place adds its gradient to the
 * row that it was copied from, so a row that is named twice gets both, and the other rows get none. */

/* The padding_index of a table without a padding row. */
#define TG_NO_PADDING INT64_MIN

typedef struct tg_embedding_config {
    /* private: tg_embedding_config_default() sets it */
    tg_config_mark mark;
    /* the row that gets no gradient from this call, counted from the end if negative; default TG_NO_PADDING */
    int64_t padding_index;
    /* the largest norm of a row, or 0 for no limit. Before the lookup, the rows that the ids name are scaled down to it
     * in place: torch's max_norm. A backward that needs their old values reports STATE. With recording off the result
     * has the scaled rows, but the table does not change, so that several threads may read it; torch changes it then,
     * too. Default 0 */
    double max_norm;
    /* the p of that norm, above 0 or INFINITY; default 2 */
    double norm_type;
    /* whether each row's gradient is divided by the number of ids that name the row: torch's scale_grad_by_freq;
     * default false */
    bool scale_by_frequency;
} tg_embedding_config;

TG_API tg_embedding_config tg_embedding_config_default(void);

/* Rows of a table selected by ids, y[..,:] = table[ids[..],:]: ids (..) i32, table (V,C) -> (..,C). Of a view only
 * these rows are read. A table that is a leaf gets a gradient by rows, with duplicates summed in order. RANGE, with the
 * index, for an id outside of [0,V), and for a padding index that does not exist; VALUE for an invalid max_norm or
 * norm_type; STATE if max_norm is set and the table is the result of an op. */
TG_API tg_tensor *tg_embedding(tg_tape *tape, tg_tensor *ids, tg_tensor *table, const tg_embedding_config *config);

/* How the rows of a bag are combined. */
typedef enum tg_bag_mode { TG_BAG_SUM, TG_BAG_MEAN, TG_BAG_MAX } tg_bag_mode;

typedef struct tg_embedding_bag_config {
    /* private: tg_embedding_bag_config_default() sets it */
    tg_config_mark mark;
    /* sum, mean or maximum; an empty bag gives zeros in every mode; default TG_BAG_MEAN */
    tg_bag_mode mode;
    /* the index in ids (N) at which each bag begins, (bags) i32: the first is 0, and none is smaller than the one
     * before. The last bag ends at N. With an empty list, (0), no id is in a bag. With NULL, ids are (bags,length), one
     * bag per row. Default NULL */
    tg_tensor *offsets;
    /* whether offsets has one more entry, the end of the last bag: torch's include_last_offset. Ids after it are left
     * out, in every mode; torch 2.13 leaves them out only of sums. They must still exist in the table, and max_norm
     * scales their rows. Default false */
    bool last_offset;
    /* the factor of each id, in the shape of ids, for TG_BAG_SUM only; default NULL, all 1 */
    tg_tensor *weights;
    /* the id that does not count in sums, means and maxima; counted from the end if negative; default TG_NO_PADDING */
    int64_t padding_index;
    /* as in tg_embedding_config; default 0 and 2 */
    double max_norm, norm_type;
    /* as in tg_embedding_config, but not with TG_BAG_MAX; default false. (On a CPU, torch 2.13 divides by the count of
     * another row: pytorch issue 190063.) */
    bool scale_by_frequency;
} tg_embedding_bag_config;

TG_API tg_embedding_bag_config tg_embedding_bag_config_default(void);

/* The sum, mean or maximum of the rows of each bag: ids (bags,length), or (N) with offsets, and table
 * (V,C) -> (bags,C). The selected rows are not stored. A table that is a leaf gets a gradient by rows. Errors as for
 * tg_embedding, RANGE for invalid offsets, and VALUE for options that exclude each other. */
TG_API tg_tensor *tg_embedding_bag(tg_tape *tape, tg_tensor *ids, tg_tensor *table,
                                   const tg_embedding_bag_config *config);

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Two ways to compute attention, with the same random numbers. TG_ATTENTION_FUSED is one op, which computes tiles (Dao
 * et al. 2022). For backward it keeps no (T,S) matrix, except one bit per weight with dropout. TG_ATTENTION_ELEMENTARY
 * is a chain of ops: matmul, add, masked_fill, softmax, dropout and matmul. It is for teaching (the book's chapter 3)
 * and for tests. */
typedef enum tg_attention_path { TG_ATTENTION_FUSED, TG_ATTENTION_ELEMENTARY } tg_attention_path;

/* The scale that means 1 / sqrt(D), as torch's None does. */
#define TG_SCALE_OF_WIDTH (-1.0)

typedef struct tg_scaled_dot_product_attention_config {
    /* private: tg_scaled_dot_product_attention_config_default() sets it */
    tg_config_mark mark;
    /* whether query t, at position S - T + t, attends only to keys up to its own position, which needs S >= T;
     * default false */
    bool is_causal;
    /* the probability that a weight is dropped in training, in [0,1); default 0 */
    double dropout;
    /* the factor of q k^T, finite and at least 0; default TG_SCALE_OF_WIDTH */
    double scale;
    /* what is added to the scaled scores, (..,T,S), where each axis before the last two has the size of the result's
     * axis, or 1, or is absent: a float attn_mask in torch. A query with -inf for every key counts as one without keys;
     * default NULL, none */
    tg_tensor *bias;
    /* the keys of each sequence: their number, (B) i32, from the first key on, or a mask, (B,S) u8, that is 0 for keys
     * that no query attends to, like a boolean attn_mask in torch. B is the first axis of the result, which then has at
     * least three axes. A query without keys gets zeros and no gradient, as in torch's function of this name. At most
     * one of the two may be set; default NULL, all keys.
     *
     * A hidden key does not count on either path, even if it or its value is NaN or infinite, as padding may be. (Torch
     * computes 0 * NaN.) is_causal, window, first_keys and a bias of -inf give weights of 0, and 0 * NaN is NaN: if a
     * key or a value that they exclude is not finite, the results and gradients of the queries that it is excluded from
     * may be NaN. */
    tg_tensor *lengths, *key_mask;
    /* the number of keys that a query attends to at most, the last ones up to its own position: the sliding_window of
     * transformers; it needs is_causal. The fused path computes only the tiles that its queries see; default 0, all */
    int64_t window;
    /* the first key that each query attends to, in [0,S]: (T) i32, or (B,T) i32, where B is the first axis of the
     * result. So packed texts do not see each other, and padding on the left is not seen. A query without keys gets
     * zeros; default NULL, key 0 */
    tg_tensor *first_keys;
    /* whether keys and values may have fewer heads than the queries, by an integer factor n: each then serves n
     * neighboring heads (Ainslie et al. 2023). Heads are on the third axis from the end; default false */
    bool enable_gqa;
    /* fused or elementary; default TG_ATTENTION_FUSED */
    tg_attention_path path;
    /* receives the weights, (..,T,S), after softmax and dropout; NULL after an error. VALUE on the fused path, which
     * never stores them. Default NULL */
    tg_tensor **weights;
} tg_scaled_dot_product_attention_config;

TG_API tg_scaled_dot_product_attention_config tg_scaled_dot_product_attention_config_default(void);

/* softmax(scale q k^T + bias) v: queries (..,T,D), keys (..,S,D) and values (..,S,D) -> (..,T,D). The axes before the
 * last two broadcast. Dropout draws from the tape's generator (STATE without one) what torch.nn.functional.dropout
 * draws for the whole (..,T,S) matrix, masked weights included. The batch axes of this matrix are those of queries,
 * keys, bias and mask; values with more batch axes share the weights. As in torch, nothing is drawn for an empty
 * result, unless the weights are asked for. D may be 0: then q k^T is 0, with any scale. VALUE for an invalid option;
 * RANGE, with the index, for a length or a first key outside of [0,S]. */
TG_API tg_tensor *tg_scaled_dot_product_attention(tg_tape *tape, tg_tensor *queries, tg_tensor *keys, tg_tensor *values,
                                                  const tg_scaled_dot_product_attention_config *config);

/* The channels that are rotated as one pair. */
typedef enum tg_rotary_pairing {
    /* channels i and i + D/2: GPT-NeoX, Llama */
    TG_ROTARY_HALVES,
    /* channels 2 i and 2 i + 1: the paper, GPT-J */
    TG_ROTARY_NEIGHBORS
} tg_rotary_pairing;

typedef struct tg_rotary_config {
    /* private: tg_rotary_config_default() sets it */
    tg_config_mark mark;
    /* the base of the wavelengths, above 1; default 10000 */
    double base;
    /* halves or neighbors; default TG_ROTARY_HALVES */
    tg_rotary_pairing pairing;
    /* the divisor of positions, above 0: position interpolation, Chen et al. 2023; default 1 */
    double position_scale;
    /* f > 0, which multiplies the base by f^(D / (D - 2)): NTK-aware scaling, bloc97 2023; default 1 */
    double ntk_factor;
    /* Llama 3's scaling, rope_type "llama3" in transformers, whose factor, low_freq_factor, high_freq_factor and
     * original_max_position_embeddings these are. A pair that turns at most low_frequency_factor times in
     * original_context positions is rotated by llama3_factor times less; one that turns at least high_frequency_factor
     * times, as without scaling. llama3_factor is at least 1, low_frequency_factor above 0 and below
     * high_frequency_factor, original_context above 0; default 1 (no scaling), 1, 4 and 8192 */
    double llama3_factor, low_frequency_factor, high_frequency_factor;
    int64_t original_context;
    /* whether frequencies and angles are rounded to float, in f64, too, as in transformers, with whose numbers
     * published models were trained: at position 8192 the angles differ by up to 4e-4 then. Default false: the angles
     * are doubles */
    bool float_angles;
    /* what is added to start in place of t: (T) i32, or (B,T) i32 for x (B,..,T,D), at least 0; for padding on the left
     * and for packed texts. Default NULL */
    tg_tensor *positions;
} tg_rotary_config;

TG_API tg_rotary_config tg_rotary_config_default(void);

/* Rotary position embedding (Su et al. 2021) of queries or keys x (..,T,D) with an even D. Row t is at position
 * start + t, or start + positions[t], and pair i of its channels is rotated by the angle
 * position / position_scale * base^(-2 i / D). RANGE unless start >= 0 and start + T <= 2^53, or, with positions,
 * start + 2^31 <= 2^53; RANGE, with the index, for a negative position; VALUE for an invalid option. */
TG_API tg_tensor *tg_rotary(tg_tape *tape, tg_tensor *x, int64_t start, const tg_rotary_config *config);

/* ---- normalization and dropout ----------------------------------------------------------------------------------- */

/* e^x / sum(e^x) along an axis. */
TG_API tg_tensor *tg_softmax(tg_tape *tape, tg_tensor *x, int axis);

/* x - log(sum(e^x)) along an axis. */
TG_API tg_tensor *tg_log_softmax(tg_tape *tape, tg_tensor *x, int axis);

/* (x - mean) / sqrt(var + eps) * weight + bias over the last axis (Ba, Kiros and Hinton 2016): x (..,C), weight (C) and
 * bias (C) -> (..,C). var is the biased variance. Weight and bias are optional: NULL is 1 or 0. VALUE unless
 * eps > 0. */
TG_API tg_tensor *tg_layer_norm(tg_tape *tape, tg_tensor *x, tg_tensor *weight, tg_tensor *bias, double eps);

/* x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang and Sennrich 2019): x (..,C), weight (C) -> (..,C).
 * The weight is optional: NULL is 1. VALUE unless eps > 0. */
TG_API tg_tensor *tg_rms_norm(tg_tape *tape, tg_tensor *x, tg_tensor *weight, double eps);

/* In training, each value becomes 0 with probability p, and is divided by 1 - p otherwise. In evaluation, and for p =
 * 0, the result is x itself. The draws are torch's, from the tape's generator (STATE without one), in the order of x's
 * memory, and the result has that order, too. One difference: other torch ops keep the memory order of a permuted
 * input, while here their results are row-major, so a dropout after such an op draws in another order. VALUE unless 0
 * <= p <= 1. */
TG_API tg_tensor *tg_dropout(tg_tape *tape, tg_tensor *x, double p);

#ifdef __cplusplus
}
#endif

#endif

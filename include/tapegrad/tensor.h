/* tensor: n-dimensional arrays with reference counts, and the gradients of leaves.
 *
 * A tensor is a shape and strides over a storage, the array of its values. Several tensors can share a storage: they
 * are views of the same values. Tensors are row-major as in NumPy and PyTorch: the last axis varies fastest. A tensor
 * of rank 0 is a scalar with one value. Sizes of 0 are allowed.
 *
 * Ownership. A tensor from tg_tensor_new or another constructor is yours: free it with tg_release. The result of an op
 * (tapegrad/ops.h) belongs to the tape and lives until the tape is reset; tg_retain keeps it longer.
 *
 * Errors. A call that fails returns NULL or false, changes nothing, and sets the tg_error, which is optional. Every
 * call reports STATE for a NULL tensor, generator or array (tapegrad/base.h); the comments do not repeat this.
 *
 * The letters in shapes, here and in all headers: B batch, T time (positions), C channels (width), V vocabulary (rows
 * of a table), H heads, D channels of one head, S positions of keys where they can differ from those of the queries.
 * (..,C) is any number of axes before C.
 */
#ifndef TAPEGRAD_TENSOR_H
#define TAPEGRAD_TENSOR_H

#include <stdio.h>

#include <tapegrad/base.h>
#include <tapegrad/random.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- dtypes and shapes --------------------------------------------------------------------------------------- */

typedef enum tg_dtype {
    /* float, for training */
    TG_F32,
    /* double, for gradient checks */
    TG_F64,
    /* int32_t, for ids and indices */
    TG_I32,
    /* uint8_t, for masks: 0 is false, any other value is true */
    TG_U8,
    /* bfloat16, the upper half of a float, as uint16_t: for the frozen weights of a large model, which take half of the
     * memory then. The table of tg_embedding and the weights of tg_linear and tg_linear_cross_entropy may have it, and
     * compute as if they had been converted to f32; every other op refuses it. It never requires a gradient. */
    TG_BF16
} tg_dtype;

/* Returns "f32", "f64", "i32", "u8" or "bf16"; "unknown" for a number that is not a dtype. */
TG_API const char *tg_dtype_name(tg_dtype dtype);

/* Returns the bytes of a value: 4, 8, 4, 1 or 2; 0 for a number that is not a dtype. torch's dtype.itemsize. */
TG_API size_t tg_dtype_size(tg_dtype dtype);

/* The largest rank. */
#define TG_MAX_RANK 8

/* A shape is a plain value. Only the first `rank` sizes are used. */
typedef struct tg_shape {
    int rank;
    int64_t size[TG_MAX_RANK];
} tg_shape;

/* Returns the shape with these sizes. A rank outside of [0,TG_MAX_RANK], or NULL sizes, give an invalid shape, which
 * every call refuses with SHAPE. */
TG_API tg_shape tg_shape_make(int rank, const int64_t *sizes);

/* TG_SHAPE(2, 3) is the shape (2,3). */
#ifdef __cplusplus
#define TG_SHAPE(...) tg_shape_of_sizes(__VA_ARGS__)
extern "C++" {
template <typename... integers> inline tg_shape tg_shape_of_sizes(integers... sizes)
{
    const int64_t list[] = {static_cast<int64_t>(sizes)...};
    return tg_shape_make(static_cast<int>(sizeof...(sizes)), list);
}
}
#else
#define TG_SHAPE(...) tg_shape_make((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#endif

/* The shape of a scalar, (). */
#define TG_SCALAR tg_shape_make(0, NULL)

/* Returns whether the ranks and the sizes are equal. */
TG_API bool tg_shape_equal(tg_shape a, tg_shape b);

/* The size of a shape's text in bytes, its NUL included. */
#define TG_SHAPE_TEXT 180

/* Writes a shape as text: "(8,4,256)", "(3,)" for rank 1, "()" for a scalar. Returns `text`. */
TG_API const char *tg_shape_format(tg_shape shape, char text[TG_SHAPE_TEXT]);

/* ---- constructors -------------------------------------------------------------------------------------------- */
/* Each returns a contiguous tensor that is yours (tg_release). Errors: SHAPE for an invalid shape, and for more values
 * than any memory can hold; DTYPE for a number that is not a dtype; MEMORY.
 *
 * Values are converted between dtypes as C does, except that a float outside of an integer's range is clamped, and NaN
 * becomes 0. */

typedef struct tg_tensor tg_tensor;

/* Returns a tensor of zeros: torch.zeros. */
TG_API tg_tensor *tg_tensor_new(tg_dtype dtype, tg_shape shape, tg_error *error);

/* Returns a tensor in which every value is `value`, converted to the dtype: torch.full. */
TG_API tg_tensor *tg_tensor_new_full(tg_dtype dtype, tg_shape shape, double value, tg_error *error);

/* Returns a copy of `values`, a row-major array: torch.tensor. Prefer tg_tensor_new_from_f32, _f64, _i32 and _u8 below:
 * the compiler checks their arrays. Use this one if the dtype is known only when the program runs. The array must have
 * the dtype's C type (float, double, int32_t, uint8_t). Nothing checks this: an array of double with TG_F32 gives wrong
 * numbers without an error. */
TG_API tg_tensor *tg_tensor_new_from(tg_dtype dtype, tg_shape shape, const void *values, tg_error *error);

/* The same for each dtype. The compiler checks the array: it does not take double for f32, or int64_t for i32. */
static inline tg_tensor *tg_tensor_new_from_f32(tg_shape shape, const float *values, tg_error *error)
{
    return tg_tensor_new_from(TG_F32, shape, values, error);
}
static inline tg_tensor *tg_tensor_new_from_f64(tg_shape shape, const double *values, tg_error *error)
{
    return tg_tensor_new_from(TG_F64, shape, values, error);
}
static inline tg_tensor *tg_tensor_new_from_i32(tg_shape shape, const int32_t *values, tg_error *error)
{
    return tg_tensor_new_from(TG_I32, shape, values, error);
}
static inline tg_tensor *tg_tensor_new_from_u8(tg_shape shape, const uint8_t *values, tg_error *error)
{
    return tg_tensor_new_from(TG_U8, shape, values, error);
}

/* Returns the values start, start + step, ... before `end`, of rank 1: torch.arange. VALUE if the step is 0 or points
 * away from `end`, or if an argument is not finite. */
TG_API tg_tensor *tg_tensor_new_arange(tg_dtype dtype, double start, double end, double step, tg_error *error);

/* Returns a copy of x without history and without a gradient: x.detach().clone(). */
TG_API tg_tensor *tg_tensor_new_copy(const tg_tensor *x, tg_error *error);

/* Returns a copy of x in another dtype, without history: x.detach().to(dtype). */
TG_API tg_tensor *tg_tensor_new_cast(const tg_tensor *x, tg_dtype dtype, tg_error *error);

/* Adds an owner, and returns x. Reference counts are atomic. */
TG_API tg_tensor *tg_retain(tg_tensor *x);

/* Removes an owner. The last owner frees the tensor. If the last owner is a tape, the call does nothing but report
 * STATE in the tape: the result was not retained, or was released twice. A release after the last owner's is undefined,
 * because it reads freed memory. AddressSanitizer reports it; a tape with detect_freed_results detects it for its own
 * results. */
TG_API void tg_release(tg_tensor *x);

/* ---- getters ------------------------------------------------------------------------------------------------- */

/* Return the dtype, the shape and the rank. For NULL: TG_F32, () and 0. */
TG_API tg_dtype tg_tensor_dtype(const tg_tensor *x);
TG_API tg_shape tg_tensor_shape(const tg_tensor *x);
TG_API int tg_tensor_rank(const tg_tensor *x);

/* Returns the size of an axis, or 0 for an axis that does not exist. A negative axis counts from the end. */
TG_API int64_t tg_tensor_size(const tg_tensor *x, int axis);

/* Returns the distance between neighbors on an axis, in values, not bytes; 0 for an axis that does not exist. A
 * negative axis counts from the end. */
TG_API int64_t tg_tensor_stride(const tg_tensor *x, int axis);

/* Returns the number of values: torch.numel. */
TG_API int64_t tg_tensor_count(const tg_tensor *x);

/* Returns whether the values are row-major without gaps. */
TG_API bool tg_tensor_is_contiguous(const tg_tensor *x);

/* Returns the address of the tensor's first value. The values have the dtype's C type and are laid out by the strides.
 * Valid until the tensor is freed, resized (tg_tensor_resize_rows) or loaded (tg_params_load). NULL, with STATE in the
 * optimizer, for a table with deferred steps (tapegrad/optim.h). */
TG_API const void *tg_tensor_data(const tg_tensor *x);

/* The same for writing. Marks the storage as modified: a backward that needs the old values then reports STATE instead
 * of computing a wrong gradient. The call sets the mark, not the write, so call it again before each later write. */
TG_API void *tg_tensor_data_mut(tg_tensor *x);

/* Returns the value at a flat row-major index, from any dtype and layout; NaN for an index out of bounds. Slow, with a
 * division per axis: for tests and printing. */
TG_API double tg_tensor_value_at(const tg_tensor *x, int64_t index);

/* Returns the value of a tensor with exactly one value: x.item(). NaN and SHAPE for any other tensor. Without a
 * tg_error the NaN is the only sign. */
TG_API double tg_tensor_item(const tg_tensor *x, tg_error *error);

/* ---- writing in place ---------------------------------------------------------------------------------------- */
/* Any layout is accepted. Writing to a view writes to the storage that it shares. The storage counts as modified (see
 * tg_tensor_data_mut). false after an error. STATE if values of x share memory (tg_expand), except for tg_tensor_fill.
 *
 * The random fills draw the numbers that the named PyTorch method draws. They accept f32 and f64 (DTYPE), unless the
 * comment names other dtypes. VALUE for invalid parameters of the distribution. As in PyTorch, values are drawn in the
 * order of the tensor's memory: the axis with the smallest stride varies fastest. For a tensor that is not contiguous
 * the call allocates a buffer (MEMORY). */

/* Sets all values to `value`, converted to the dtype: x.fill_(value). */
TG_API bool tg_tensor_fill(tg_tensor *x, double value, tg_error *error);

/* Copies tg_tensor_count(x) row-major values of the dtype's C type into x. They may lie in x's memory (MEMORY). */
TG_API bool tg_tensor_fill_from(tg_tensor *x, const void *values, tg_error *error);

/* Copies `from`, broadcast to x's shape, into x: x.copy_(from). If they share memory, the call copies `from` first
 * (MEMORY). DTYPE unless the dtypes are equal (tg_tensor_new_cast converts); SHAPE if `from` does not broadcast. */
TG_API bool tg_tensor_copy_from(tg_tensor *x, const tg_tensor *from, tg_error *error);

/* x.uniform_(low, high): values in [low,high). The bounds are finite, low <= high. */
TG_API bool tg_tensor_fill_uniform(tg_tensor *x, tg_rng *rng, double low, double high, tg_error *error);

/* x.normal_(mean, std). Both are finite, std >= 0. */
TG_API bool tg_tensor_fill_normal(tg_tensor *x, tg_rng *rng, double mean, double std, tg_error *error);

/* x.bernoulli_(p): 1 with probability p in [0,1], else 0. Any dtype. */
TG_API bool tg_tensor_fill_bernoulli(tg_tensor *x, tg_rng *rng, double p, tg_error *error);

/* torch.randint(low, high, x.shape): integers in [low,high), low < high. Any dtype that represents all of them exactly
 * (VALUE). */
TG_API bool tg_tensor_fill_randint(tg_tensor *x, tg_rng *rng, int64_t low, int64_t high, tg_error *error);

/* ---- gradients of leaves ------------------------------------------------------------------------------------- */
/* A leaf is a tensor that no recorded op computed. It owns its gradient, which is of one of three kinds: none, by rows,
 * or dense. An embedding gives its table a gradient by rows. This holds only the rows that an id names, each once, with
 * duplicates summed. If no id counts, it has no rows, and optimizers step as with zeros. The first contribution of
 * another op makes the gradient dense. tg_tensor_zero_grad sets the kind to none again. */

typedef enum tg_grad_kind { TG_GRAD_NONE, TG_GRAD_ROWS, TG_GRAD_DENSE } tg_grad_kind;

/* Starts or stops collecting a gradient: x.requires_grad_(). Stopping drops the gradient, and a backward through calls
 * that were recorded earlier adds nothing to x. STATE if x is the result of a recorded op, and for a stop while a
 * backward in progress adds to the gradient; DTYPE for i32 and u8. */
TG_API bool tg_tensor_set_requires_grad(tg_tensor *x, bool requires_grad, tg_error *error);

/* Returns whether x requires a gradient: a leaf for which it was set, or an f32 or f64 result of a recorded op. */
TG_API bool tg_tensor_requires_grad(const tg_tensor *x);

/* Returns the kind of the gradient; TG_GRAD_NONE for NULL. */
TG_API tg_grad_kind tg_tensor_grad_kind(const tg_tensor *x);

/* Returns the dense gradient of a leaf, or of a result after tg_retain_grad, of x's shape and dtype, contiguous:
 * x.grad. NULL unless the kind is TG_GRAD_DENSE. Borrowed from x; writing to it changes the gradient. An op may read
 * it. Any later change of the gradient counts as a modification (tg_tensor_data_mut). */
TG_API tg_tensor *tg_tensor_grad(const tg_tensor *x);

/* A gradient by rows: row ids[i] of x has the gradient values[i * width .. (i + 1) * width). The rows are in the order
 * in which ids first named them. */
typedef struct tg_grad_rows {
    /* the number of rows that have a gradient */
    int64_t count;
    /* the number of values per row */
    int64_t width;
    /* the indices of these rows, (count), all different */
    const int32_t *ids;
    /* the gradients of these rows, (count,width), of x's dtype; they may be written */
    void *values;
} tg_grad_rows;

/* Returns the gradient by rows; zeros and NULLs unless the kind is TG_GRAD_ROWS. Borrowed from x until the next
 * backward, tg_tensor_zero_grad, tg_tensor_reserve_grad, or a tg_tensor_add_grad_rows of new rows. */
TG_API tg_grad_rows tg_tensor_grad_rows(const tg_tensor *x);

/* Returns a dense copy of a gradient of any kind; rows without a gradient are zeros. Yours (tg_release). MEMORY. */
TG_API tg_tensor *tg_tensor_new_dense_grad(const tg_tensor *x, tg_error *error);

/* Sets the gradient to none: x.grad = None. It keeps the memory for the next gradient. */
TG_API void tg_tensor_zero_grad(tg_tensor *x);

/* The next three calls change a gradient outside of a backward, for example to the sum over several processes. x must
 * be a leaf that requires a gradient (STATE). */

/* Adds values[i * width .. (i + 1) * width) to the gradient of row ids[i], for 0 <= i < count. `values` has x's dtype.
 * Ids that repeat add up in the order of i. The kind becomes TG_GRAD_ROWS, even if count is 0, or stays TG_GRAD_DENSE.
 * Frozen rows get no gradient. SHAPE unless x has rank 2; RANGE for a negative count and, with the index, for an id
 * outside of x; MEMORY. The arrays are optional if the count is 0. `values` may be those of x's gradient. */
TG_API bool tg_tensor_add_grad_rows(tg_tensor *x, const int32_t *ids, const void *values, int64_t count,
                                    tg_error *error);

/* Converts the gradient to a dense one, which tg_tensor_grad then returns; values without a gradient become zeros.
 * MEMORY. */
TG_API bool tg_tensor_make_grad_dense(tg_tensor *x, tg_error *error);

/* Reserves memory for tg_tensor_make_grad_dense (TG_GRAD_DENSE), or for a tg_tensor_add_grad_rows of at most `rows` new
 * rows (TG_GRAD_ROWS). Until the next backward that call cannot report MEMORY. `rows` is ignored for a dense gradient.
 * SHAPE for rows of a tensor whose rank is not 2; VALUE for another kind or a negative number; MEMORY. */
TG_API bool tg_tensor_reserve_grad(tg_tensor *x, tg_grad_kind kind, int64_t rows, tg_error *error);

/* ---- printing ------------------------------------------------------------------------------------------------ */

typedef struct tg_tensor_print_config {
    /* private: tg_tensor_print_config_default() sets it */
    tg_config_mark mark;
    /* digits after the point, 0 to 1074; default 4 */
    int precision;
    /* the largest number of values that are printed in full; of a larger tensor the middle is left out; default 1000 */
    int64_t threshold;
    /* the number of values at each end of an axis whose middle is left out; default 3 */
    int edge_items;
    /* characters per line; default 80 */
    int line_width;
    /* whether exponents are avoided, 0.0000 instead of 1.0000e-08: torch's sci_mode=False; default false */
    bool plain;
} tg_tensor_print_config;

TG_API tg_tensor_print_config tg_tensor_print_config_default(void);

/* Writes x and a newline to `file` in PyTorch's format (torch/_tensor_str.py), so that values can be compared by eye:
 *
 *     tensor([[ 0.3374, -0.1778, -0.1690],
 *             [ 0.9178,  1.5810,  1.3010]])
 *
 * The dtype is not written: each dtype is printed as torch prints its default dtype. FILE if the file cannot be
 * written, VALUE for an option out of bounds, MEMORY. */
TG_API bool tg_tensor_print(const tg_tensor *x, FILE *file, const tg_tensor_print_config *config, tg_error *error);

#ifdef __cplusplus
}
#endif

#endif

/* tensor: n-dimensional arrays with reference counts, and the gradients of leaves.
 *
 * A tensor is a shape and strides over storage that it may share with other tensors (its views). Tensors are row-major
 * as in NumPy and PyTorch: the last axis is the fastest. Rank 0 is a scalar with one value; sizes of 0 are allowed.
 *
 * Ownership. tg_tensor_new... give you a tensor that you own: tg_release it. What an op returns (tapegrad/ops.h)
 * belongs to the tape: use it until the tape is reset, and tg_retain it to keep it longer.
 *
 * Errors. Constructors and fills take a tg_error (or NULL): on failure they return NULL or false and change nothing.
 *
 * Glossary of shapes, here and everywhere: B batch, T time (positions), C channels (width), V vocabulary (rows of a
 * table), H heads.
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
    TG_F32, /* float: what models are trained in */
    TG_F64, /* double: what gradients are checked in */
    TG_I32, /* ids and indices */
    TG_U8   /* masks: 0 is false, anything else true */
} tg_dtype;

TG_API const char *tg_dtype_name(tg_dtype dtype); /* "f32", "f64", "i32", "u8" */
TG_API size_t tg_dtype_size(tg_dtype dtype);      /* bytes of one value */

#define TG_MAX_RANK 8

/* A shape is a plain value. Only the first `rank` sizes count. */
typedef struct tg_shape {
    int rank;
    int64_t size[TG_MAX_RANK];
} tg_shape;

/* A rank above TG_MAX_RANK, or below 0, gives a shape that every constructor and op refuses. */
TG_API tg_shape tg_shape_make(int rank, const int64_t *sizes);

/* TG_SHAPE(2, 3): the shape (2,3). C only; in C++ call tg_shape_make. */
#define TG_SHAPE(...) tg_shape_make((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

#define TG_SCALAR tg_shape_make(0, NULL)

TG_API bool tg_shape_equal(tg_shape a, tg_shape b);

/* The number of values: the product of the sizes, 1 for a scalar; -1 when it does not fit or a size is negative. */
TG_API int64_t tg_shape_count(tg_shape shape);

/* "(8,4,256)", "(3,)" as Python writes it, "()" for a scalar. Returns `text`. */
#define TG_SHAPE_TEXT 180
TG_API const char *tg_shape_format(tg_shape shape, char text[TG_SHAPE_TEXT]);

/* ---- making tensors ------------------------------------------------------------------------------------------ */

typedef struct tg_tensor tg_tensor;

/* All zeros. Errors: SHAPE for a negative size, a bad rank or a count that does not fit; MEMORY. */
TG_API tg_tensor *tg_tensor_new(tg_dtype dtype, tg_shape shape, tg_error *error);

/* Every value `value`, converted to the dtype as C does. */
TG_API tg_tensor *tg_tensor_new_full(tg_dtype dtype, tg_shape shape, double value, tg_error *error);

/* A copy of the values at `values`: an array of the dtype's C type (float, double, int32_t, uint8_t), row-major. */
TG_API tg_tensor *tg_tensor_new_from(tg_dtype dtype, tg_shape shape, const void *values, tg_error *error);

/* torch.arange(start, end, step): start, start + step, ... up to but without `end`. VALUE when step is 0 or leads away
 * from `end`, or when an argument is not finite. */
TG_API tg_tensor *tg_tensor_new_arange(tg_dtype dtype, double start, double end, double step, tg_error *error);

/* A contiguous copy, without history and without gradient. */
TG_API tg_tensor *tg_tensor_new_copy(const tg_tensor *x, tg_error *error);

/* A copy in another dtype, converted as C does; floats that do not fit an integer are clamped, NaN becomes 0. */
TG_API tg_tensor *tg_tensor_new_cast(const tg_tensor *x, tg_dtype dtype, tg_error *error);

/* A second tensor over the same storage, without history and without gradient: what changes in one changes in both. */
TG_API tg_tensor *tg_tensor_new_detached(tg_tensor *x, tg_error *error);

/* One more, and one fewer, owner. Both take NULL. The last release frees. Counts are atomic. */
TG_API tg_tensor *tg_retain(tg_tensor *x); /* returns x */
TG_API void tg_release(tg_tensor *x);

/* ---- looking at tensors -------------------------------------------------------------------------------------- */

TG_API tg_dtype tg_dtype_of(const tg_tensor *x);
TG_API tg_shape tg_shape_of(const tg_tensor *x);
TG_API int tg_rank(const tg_tensor *x);
TG_API int64_t tg_size(const tg_tensor *x, int axis);   /* negative axes count from the end; -1 for no such axis */
TG_API int64_t tg_stride(const tg_tensor *x, int axis); /* in values, not bytes; 0 for no such axis */
TG_API int64_t tg_count(const tg_tensor *x);
TG_API bool tg_is_contiguous(const tg_tensor *x); /* row-major without gaps, from the first value on */

/* The numbers, at the tensor's first value: an array of the dtype's C type, laid out by the strides. tg_data_mut is for
 * writing and moves the storage's version on, so that a backward that needs the old values is refused instead of wrong.
 * Valid until the tensor is freed, or resized (tg_resize_rows). */
TG_API const void *tg_data(const tg_tensor *x);
TG_API void *tg_data_mut(tg_tensor *x);

/* The value at a flat row-major index, in any dtype and layout; NaN for an index outside. For tests and printing: it
 * costs a division per axis. */
TG_API double tg_value_at(const tg_tensor *x, int64_t index);

/* How often the storage was written to: by tg_data_mut, fills, optimizers and in-place ops. */
TG_API uint64_t tg_version_of(const tg_tensor *x);

/* ---- filling in place ---------------------------------------------------------------------------------------- */
/* All layouts are accepted; views are written through. Random fills need f32 or f64 unless they say otherwise, check
 * their arguments before they draw, and follow the PyTorch call that they name, call for call. A tensor that is not
 * contiguous is filled in row-major order of its own shape. */

TG_API bool tg_fill(tg_tensor *x, double value, tg_error *error);
TG_API bool tg_fill_from(tg_tensor *x, const void *values, tg_error *error);     /* tg_count(x) values of the dtype */
TG_API bool tg_fill_copy(tg_tensor *to, const tg_tensor *from, tg_error *error); /* same dtype, same shape; may overlap
                                                                                    only if they are the same view */
TG_API bool tg_fill_uniform(tg_tensor *x, tg_rng *rng, double low, double high, tg_error *error); /* x.uniform_ */
TG_API bool tg_fill_normal(tg_tensor *x, tg_rng *rng, double mean, double std, tg_error *error);  /* x.normal_ */
TG_API bool tg_fill_bernoulli(tg_tensor *x, tg_rng *rng, double p, tg_error *error); /* x.bernoulli_; u8 as well */
TG_API bool tg_fill_exponential(tg_tensor *x, tg_rng *rng, double lambda, tg_error *error);         /* x.exponential_ */
TG_API bool tg_fill_randint(tg_tensor *x, tg_rng *rng, int64_t low, int64_t high, tg_error *error); /* torch.randint;
                                                                                         any dtype, [low, high) */
TG_API bool tg_fill_randperm(tg_tensor *x, tg_rng *rng, tg_error *error); /* torch.randperm; i32 of rank 1 */

/* ---- gradients of leaves ------------------------------------------------------------------------------------- */
/* A leaf is a tensor that no recorded op made. It owns its gradient, which is one of three kinds and only rises until
 * it is zeroed: none, rows, dense. Rows is what an embedding leaves behind: only the rows named by an id exist, each
 * once, with duplicates summed; untouched rows cost nothing. A dense contribution turns rows into a dense gradient. */

typedef enum tg_gradient_kind { TG_GRADIENT_NONE, TG_GRADIENT_ROWS, TG_GRADIENT_DENSE } tg_gradient_kind;

/* STATE when x is the result of a recorded op; DTYPE unless f32 or f64. Switching off drops the gradient. */
TG_API bool tg_set_requires_grad(tg_tensor *x, bool requires_grad, tg_error *error);
TG_API bool tg_requires_grad(const tg_tensor *x); /* also true for results that were recorded */

TG_API tg_gradient_kind tg_gradient_kind_of(const tg_tensor *x);

/* The dense gradient, with x's shape and dtype, contiguous; NULL unless the kind is DENSE. Borrowed from x: writing to
 * it changes the gradient. */
TG_API tg_tensor *tg_grad(const tg_tensor *x);

/* A gradient by rows: row `ids[i]` of x has the gradient values[i * width .. (i + 1) * width). The order is that of the
 * first touch. Borrowed from x until the next backward or zero_grad. */
typedef struct tg_row_gradient {
    int64_t count;      /* rows that have a gradient */
    int64_t width;      /* values in a row */
    const int32_t *ids; /* (count) distinct */
    void *values;       /* (count, width), x's dtype; may be written, to clip for example */
} tg_row_gradient;

/* count 0 and NULLs unless the kind is ROWS. */
TG_API tg_row_gradient tg_grad_rows(const tg_tensor *x);

/* A copy of the gradient as a dense tensor of x's shape, zeros where there is none, whatever its kind; yours. */
TG_API tg_tensor *tg_grad_new_dense(const tg_tensor *x, tg_error *error);

/* Back to none. Costs nothing for a dense gradient and one write a row for rows. */
TG_API void tg_zero_grad(tg_tensor *x);

/* ---- printing ------------------------------------------------------------------------------------------------ */
/* PyTorch's format, so that tables can be compared by eye:
 *     tensor([[ 0.3374, -0.1778, -0.1690],
 *             [ 0.9178,  1.5810,  1.3010]])
 * Follows torch/_tensor_str.py: precision 4, threshold 1000, 3 items at each end of a summarised axis, lines of 80.
 * f64, i32 and u8 print as torch prints them when they are the default of their kind: without a dtype. */

typedef struct tg_print_options {
    int precision;     /* digits after the point: 4 */
    int64_t threshold; /* above this many values the middle is left out: 1000 */
    int edge_items;    /* values kept at each end then: 3 */
    int line_width;    /* characters a line: 80 */
    bool plain;        /* never 1.0000e-08 but 0.0000, torch's sci_mode=False: false */
} tg_print_options;

TG_API tg_print_options tg_print_options_default(void);

/* Writes at most size - 1 characters and a NUL, as snprintf does, and returns the length of the whole text; -1, and an
 * empty text, when x is NULL. Allocates nothing. `options` may be NULL for the default; a negative option counts as
 * 0. */
TG_API int64_t tg_format(const tg_tensor *x, const tg_print_options *options, char *text, size_t size);

/* Writes the text and a newline to your file, in one go. false when out of memory, when the file refuses, and for
 * NULL. */
TG_API bool tg_print(FILE *file, const tg_tensor *x);
TG_API bool tg_print_with(FILE *file, const tg_tensor *x, const tg_print_options *options); /* NULL: the default */

#ifdef __cplusplus
}
#endif

#endif

/* tensor (private): the parts of a tensor.
 *
 *   tg_tensor ---- storage ----> tg_storage { references, version } followed by the values
 *       |                             ^
 *       +--- gradient --> tg_gradient |          views of a tensor share its storage
 *       +--- rows ------> tg_row_state
 *
 * A tensor is one block of memory, and a storage is another (pool.h). The blocks go back where the last reference is
 * dropped: a tape returns them to its pool, and tg_release to the allocator. So pools need no
 * locks, and a tensor that a user keeps stays valid after its tape was freed.
 */
#ifndef TG_TENSOR_TENSOR_H
#define TG_TENSOR_TENSOR_H

#include <stdatomic.h>

#include <tapegrad/extend.h>
#include <tapegrad/rows.h>

#include "tensor/pool.h"
#include "tensor/value_guard.h"

typedef struct tg_storage {
    atomic_int references;
    atomic_ullong version;  /* incremented by each write, except by the op that computes the values */
    uint64_t first_version; /* the initial version: 0, or a higher one after a resize */
    tg_value_guard *guard;  /* NULL: the values exist, and are up to date */
} tg_storage;

/* The headers of the block and of the storage fill one cache line, and the values begin on the next one. With
 * AddressSanitizer a line between them is poisoned. */
#define TG_STORAGE_HEAD (TG_ALIGNMENT - TG_BLOCK_HEAD + (TG_HAS_POISON ? TG_ALIGNMENT : 0))
_Static_assert(sizeof(tg_storage) <= TG_STORAGE_HEAD, "the values must begin on a cache line");

/* The part of a table that this tensor is: row `first` and those after it, of `rows` rows. All zeros: the tensor is the
 * whole table. */
typedef struct tg_shard {
    int64_t first, rows;
} tg_shard;

/* The state of the rows of a leaf (rows.c). */
typedef struct tg_row_state {
    tg_shard shard;
    uint8_t *frozen; /* one byte per row; NULL: no row was ever frozen */
    int64_t frozen_count;
    tg_row_updates *updates; /* one per row; NULL: not watched */
    /* Followers are arrays with a row per row of this leaf, which their owners resize after it: the number of owners,
     * and of those that have not done so since the last resize. Until then another resize is refused, with the text. */
    int followers, followers_behind;
    const char *behind_text;
    /* if this leaf is itself a follower, the text that refuses a resize by others than its owner; else NULL */
    const char *follower_text;
} tg_row_state;

typedef struct tg_gradient tg_gradient; /* gradient.h */

/* Who frees results, and holds inputs: a tape. Errors of its results are those of its run. */
typedef struct tg_owner {
    tg_run *run;
} tg_owner;

/* The order of the members keeps what each op reads and writes in few cache lines: the header of the block and the
 * members up to `count` fill the first one, and with the shape and the strides of a matrix a tensor uses three. Those
 * behind the strides are needed for leaves and for freed results alone. */
struct tg_tensor {
    atomic_int references;
    uint8_t dtype; /* tg_dtype */
    uint8_t rank;
    bool contiguous;
    bool requires_grad; /* whether it is a leaf that collects a gradient, or a recorded float result */
    bool is_gradient;   /* whether it is the dense gradient of a tensor */
    bool is_freed;      /* whether nothing but this header is left, and its storage's guard */
    int32_t node;       /* the index of the record of its owner that computed the tensor, or -1 */
    int32_t last_use;   /* of a leaf: 1 + the lowest index of a record that a backward in progress adds from; else 0 */
    int64_t count;
    int64_t offset; /* of the first value in the storage, in values */
    tg_storage *storage;
    tg_owner *owner;       /* of this result; NULL for tensors of the user */
    tg_gradient *gradient; /* of a leaf, or of a result after tg_retain_grad; NULL until it is needed */
    void *adjoint;         /* the gradient of a recorded result during backward; else NULL */
    int64_t shape[TG_MAX_RANK];
    int64_t strides[TG_MAX_RANK];
    tg_row_state *rows; /* NULL until it is needed */
    /* the owner that holds this tensor (tg_tape.held), the last one that began to; NULL if none, or if that one was
     * reset */
    _Atomic(const tg_owner *) holder;
    /* of a freed result: the op that computed it, and its generation (no_values.h); NULL: the last owner released it */
    const char *freed_op;
    int64_t freed_generation;
};

/* ---- NULL and values that are not there ---- */

/* Sets the error of a call that needs the values of such a tensor, or that gets a freed one (value_guard.h). Returns
 * false. */
bool tg_tensor_refuse(const char *call, const char *name, const tg_tensor *x, tg_error *error);

/* The same for a getter, which has no error of its own. `call` may be NULL. */
bool tg_tensor_refuse_getter(const char *call, const tg_tensor *x);

/* Returns whether x is a tensor: neither NULL nor a freed result (tg_tape_config.detect_freed_results). */
static inline bool tg_is_tensor(const tg_tensor *x)
{
    return x && (!x->is_freed || tg_tensor_refuse_getter(NULL, x));
}

/* Returns whether the values of x may be read and written: x is a tensor, and nothing guards its values.
 * tg_tensor_check (extend.h) reports the error. The one check in front of all values: tests/lint/values lists the
 * functions that read or write them, and each of them comes after it. */
static inline bool tg_has_values(const tg_tensor *x)
{
    return x && !x->storage->guard;
}

/* tg_is_tensor for a call that reports an error, "<call>: the <name> is NULL". */
bool tg_tensor_check_handle(const char *call, const char *name, const tg_tensor *x, tg_error *error);

/* Checks contiguous ids, which are i32: RANGE, with the index, for one that is outside of [0,bound). */
bool tg_check_ids(const char *call, const tg_tensor *ids, int64_t bound, tg_error *error);

/* ---- constructors (if `pool` is NULL, memory comes from the allocator and goes back to it) ---- */

/* Returns storage with uninitialized values; NULL when memory is exhausted. */
tg_storage *tg_storage_new(tg_pool *pool, size_t bytes);

/* Sets the header of a new storage, in a block of TG_STORAGE_HEAD bytes and those of the values. */
void tg_storage_begin(tg_storage *storage);

void tg_storage_drop(tg_pool *pool, tg_storage *storage);

/* Returns a contiguous tensor with uninitialized values; NULL when memory is exhausted. `shape` must be valid
 * (tg_shape_bytes). */
tg_tensor *tg_tensor_make(tg_pool *pool, tg_dtype dtype, const tg_shape *shape);

/* Returns a view of base's storage, without history and gradient; NULL when memory is exhausted. The strides, and the
 * offset from base's first value, are in values. */
tg_tensor *tg_tensor_make_view(tg_pool *pool, tg_tensor *base, const tg_shape *shape, const int64_t *strides,
                               int64_t offset);

/* Removes a reference; the last one frees the tensor into the pool. */
void tg_tensor_drop(tg_pool *pool, tg_tensor *x);

int tg_tensor_references(const tg_tensor *x);

/* ---- shapes (shape.c) ---- */

/* Returns the number of values: the product of the sizes, 1 for a scalar; -1 if it overflows or a size is negative. */
int64_t tg_shape_count(tg_shape shape);

/* Computes the bytes of a contiguous tensor. Returns false for an invalid shape; the error begins with `call`. */
bool tg_shape_bytes(const char *call, tg_dtype dtype, const tg_shape *shape, size_t *bytes, tg_error *error);

/* Converts a negative axis, which counts from the end. Returns false for an axis that does not exist. */
static inline bool tg_axis_normalize(int rank, int *axis)
{
    if (*axis < 0) {
        *axis += rank;
    }
    return *axis >= 0 && *axis < rank;
}

void tg_contiguous_strides(const tg_shape *shape, int64_t strides[TG_MAX_RANK]);

/* Computes the shape to which a and b broadcast, by NumPy's rule: shapes are aligned at the last axis, and sizes are
 * equal or one of them is 1. Returns false for shapes that do not broadcast. */
bool tg_shape_broadcast(const tg_shape *a, const tg_shape *b, tg_shape *result);

/* tg_dtype_size of a valid dtype, in place. */
static inline size_t tg_size_of(int dtype)
{
    return dtype == TG_F64 ? 8 : dtype == TG_U8 ? 1 : dtype == TG_BF16 ? 2 : 4;
}

/* Returns the bytes of x's values without gaps. An expanded view may have more values than fit into memory; the result
 * is then PTRDIFF_MAX, which no pool can allocate. */
static inline size_t tg_bytes_of(const tg_tensor *x)
{
    return x->count > PTRDIFF_MAX / 8 ? PTRDIFF_MAX : (size_t)x->count * tg_size_of(x->dtype);
}

static inline bool tg_same_shape(const tg_tensor *a, const tg_tensor *b)
{
    if (a->rank != b->rank || a->count != b->count) {
        return false;
    }
    for (int axis = 0; axis < a->rank; axis++) {
        if (a->shape[axis] != b->shape[axis]) {
            return false;
        }
    }
    return true;
}

static inline tg_shape tg_shape_of(const tg_tensor *x)
{
    return tg_shape_make(x->rank, x->shape);
}

/* Return the text of a shape, such as "(2,3)", for the arguments of an error: tg_shape_text_of(x).text. */
typedef struct tg_shape_string {
    char text[TG_SHAPE_TEXT];
} tg_shape_string;

tg_shape_string tg_shape_text(tg_shape shape);
tg_shape_string tg_shape_text_of(const tg_tensor *x);

static inline tg_dtype tg_dtype_of(const tg_tensor *x)
{
    return (tg_dtype)x->dtype;
}

/* ---- values ---- */

static inline void *tg_storage_values(tg_storage *storage)
{
    return (char *)storage + TG_STORAGE_HEAD;
}

static inline void *tg_values(const tg_tensor *x)
{
    return (char *)tg_storage_values(x->storage) + (size_t)x->offset * tg_size_of(x->dtype);
}

/* tg_tensor_value_at without its checks; also reads values that are not up to date. */
double tg_value_at(const tg_tensor *x, int64_t index);

/* Returns value i of a contiguous f32 or f64 tensor. */
static inline double tg_get(const tg_tensor *x, int64_t i)
{
    return x->dtype == TG_F32 ? (double)((const float *)tg_values(x))[i] : ((const double *)tg_values(x))[i];
}

static inline void tg_put(tg_tensor *x, int64_t i, double value)
{
    if (x->dtype == TG_F32) {
        ((float *)tg_values(x))[i] = (float)value;
    } else {
        ((double *)tg_values(x))[i] = value;
    }
}

static inline uint64_t tg_storage_version(const tg_tensor *x)
{
    return atomic_load_explicit(&x->storage->version, memory_order_relaxed);
}

/* Returns the number of tensors that share x's storage. */
static inline int tg_storage_references(const tg_tensor *x)
{
    return atomic_load_explicit(&x->storage->references, memory_order_acquire);
}

static inline bool tg_dtype_is_float(int dtype)
{
    return dtype == TG_F32 || dtype == TG_F64;
}

/* Marks the storage as modified, so that a saved tensor that shares it is detected. */
static inline void tg_touch(tg_tensor *x)
{
    atomic_fetch_add_explicit(&x->storage->version, 1, memory_order_relaxed);
}

/* ---- copies between layouts and dtypes (copy.c) ---- */

/* Writes x's values to `out`, row-major and without gaps. */
void tg_copy_to_contiguous(const tg_tensor *x, void *out);

/* Writes row-major values into x. */
void tg_copy_from_contiguous(tg_tensor *x, const void *in);

/* Writes values into x in the order of its memory (tensor/walk.h). */
void tg_copy_in_memory_order(tg_tensor *x, const void *in);

/* Copies `from` into x. `from` must have x's dtype and broadcast to x's shape. */
void tg_copy_broadcast(tg_tensor *x, const tg_tensor *from);

/* Writes a number to all values of x. */
void tg_fill_values(tg_tensor *x, double value);

/* Converts `count` values. Floats outside of the range of an integer dtype are clamped, and NaN becomes 0. */
void tg_convert(void *out, tg_dtype to, const void *in, tg_dtype from, int64_t count);

/* Adds the text of tg_tensor_print, without the newline. */
void tg_tensor_format(tg_text_buffer *text, const tg_tensor *x, const tg_tensor_print_config *config);

/* ---- rows (rows.c, resize.c) ---- */

/* Begins to read a row of a table that is needed soon: its first 512 bytes. The processor cannot foresee which row an
 * id names, but reads ahead within a row. */
static inline void tg_prefetch_row(const void *row, size_t bytes)
{
    for (size_t i = 0; i < bytes && i < 512; i += 64) {
        __builtin_prefetch((const char *)row + i);
    }
}

static inline bool tg_has_frozen_rows(const tg_tensor *x)
{
    return x->rows && x->rows->frozen_count > 0;
}

static inline tg_shard tg_shard_of(const tg_tensor *x)
{
    return x->rows ? x->rows->shard : (tg_shard){0, 0};
}

/* Returns the shape of the whole table of which `own` is the shape of one shard. */
static inline tg_shape tg_whole_shape(tg_shape own, tg_shard shard)
{
    own.size[0] = shard.rows > 0 ? shard.rows : own.size[0];
    return own;
}

void tg_row_state_free(tg_tensor *x);

/* Creates the row state of x if it has none. False with MEMORY. */
bool tg_row_state_reserve(const char *call, tg_tensor *x, tg_error *error);

/* Adds a follower of x, whose owner refuses resizes with this text while it is behind. Returns false when memory is
 * exhausted. */
bool tg_follower_add(tg_tensor *x, const char *behind_text);

/* Removes a follower, which may be behind. */
void tg_follower_remove(tg_tensor *x, bool is_behind);

/* Checks that x is an f32 or f64 leaf of rank 1 or more. If not, sets an error that begins with `call`. */
bool tg_rows_check_leaf(const char *call, const tg_tensor *x, tg_error *error);

/* tg_tensor_row_norm for arguments that are valid. */
double tg_row_norm(const tg_tensor *x, int64_t row, double p);

/* Adds 1 to the update count of each row of a watched leaf that has a gradient. Their last step becomes `step`. */
void tg_rows_updated(tg_tensor *leaf, int64_t step);

/* Gives x another storage, whose values may be of another dtype, and frees the memory of its gradient. Its version is
 * higher than those of the old one. Cannot fail. */
void tg_tensor_replace_storage(tg_tensor *x, tg_storage *storage, tg_dtype dtype);

/* Checks that no other tensor shares the values of x. If one does, sets an error that begins with `call`. */
bool tg_tensor_check_unshared(const char *call, const tg_tensor *x, tg_error *error);

/* A prepared resize: everything is checked and allocated. */
typedef struct tg_resize {
    tg_tensor *table;
    int64_t rows;
    tg_storage *storage; /* NULL: the number of rows does not change */
    uint8_t *frozen;
    tg_row_updates *updates;
} tg_resize;

/* Prepares a resize as in tg_tensor_resize_rows, also of a follower, for its owner. Returns false with the error set.
 * After true, call commit, which cannot fail, or abandon. */
bool tg_resize_prepare(tg_resize *resize, tg_tensor *table, int64_t rows, tg_error *error);
void tg_resize_commit(tg_resize *resize);
void tg_resize_abandon(tg_resize *resize);

#endif

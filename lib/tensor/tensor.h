/* tensor (private): what a tensor, its storage and its gradient are made of.
 *
 *   tg_tensor ---- storage ----> tg_storage { references, version } followed by the values
 *       |                             ^
 *       +--- gradient --> tg_gradient |          views of a tensor share its storage
 *
 * Memory comes in blocks (pool.h): a block is what one allocation gave, and knows its size. A storage is one block, and
 * so is a tensor. Whoever drops the last reference decides where the blocks go: a tape puts them back into its pool,
 * tg_release gives them back to the allocator. So nothing a user keeps can point into a tape that is gone.
 */
#ifndef TG_TENSOR_TENSOR_H
#define TG_TENSOR_TENSOR_H

#include <stdatomic.h>

#include <tapegrad/rows.h>

#include "tensor/pool.h"

typedef struct tg_storage {
    atomic_int references;
    atomic_ullong version; /* moves on with each write from outside of an op that owns the storage */
    uint64_t born;         /* the version that it began with: 0, or that of a table after a resize */
} tg_storage;

/* The head of the block and the head of the storage fill one cache line; the values begin on the next. */
#define TG_STORAGE_HEAD (TG_ALIGNMENT - TG_BLOCK_HEAD)
_Static_assert(sizeof(tg_storage) <= TG_STORAGE_HEAD, "the values must begin on a cache line");

/* A table once had only `rows` rows: when its storage was `born`. */
typedef struct tg_past_size {
    uint64_t born;
    int64_t rows;
} tg_past_size;

/* What is said of a leaf's rows (rows.c, resize.c). */
typedef struct tg_row_facts {
    uint8_t *frozen; /* one a row; NULL while none was frozen */
    int64_t frozen_count;
    tg_row_updates *updates; /* one a row; NULL while not watched */
    tg_past_size *past;      /* rising in both; a size that was not below the next one is forgotten */
    size_t past_count, past_capacity;
} tg_row_facts;

typedef struct tg_gradient {
    tg_gradient_kind kind;
    tg_tensor *dense; /* made at the first dense contribution, then kept for the next step */
    /* rows: `count` of them, at most `capacity`; slot[id] is the place of row id in ids and values, or -1 */
    int64_t count, capacity;
    int64_t promised; /* rows that the backward being planned may add */
    int32_t *ids;
    void *values;
    int32_t *slot; /* one per row of the leaf */
    tg_row_facts rows;
} tg_gradient;

struct tg_tape;

struct tg_tensor {
    atomic_int references;
    uint8_t dtype; /* tg_dtype */
    uint8_t rank;
    bool contiguous;
    bool requires_grad; /* a leaf that collects a gradient, or a recorded result */
    bool adjoint_fresh; /* nothing was written to `adjoint` yet */
    int32_t node;       /* on `tape`: the number of the recorded op that made this, or -1 */
    int64_t count;
    int64_t offset; /* of the first value in the storage, in values */
    tg_storage *storage;
    struct tg_tape *tape;  /* who owns this result; NULL for the user's own tensors */
    tg_gradient *gradient; /* a leaf's, or one that tg_keep_grad asked for; NULL until there is one */
    void *adjoint;         /* a result's gradient while a backward runs: a block, or NULL */
    int64_t shape[TG_MAX_RANK];
    int64_t strides[TG_MAX_RANK];
};

/* ---- making (pool may be NULL: straight from the allocator) ---- */

tg_storage *tg_storage_new(tg_pool *pool, size_t bytes); /* values not initialised; NULL when out of memory */
void tg_storage_drop(tg_pool *pool, tg_storage *storage);

/* A contiguous tensor with values not initialised. `shape` must be valid (tg_shape_bytes). NULL when out of memory. */
tg_tensor *tg_tensor_make(tg_pool *pool, tg_dtype dtype, const tg_shape *shape);

/* The same with the shape of x. */
tg_tensor *tg_tensor_make_like(tg_pool *pool, tg_dtype dtype, const tg_tensor *x);

/* A view: shares base's storage. strides in values; `offset` from base's first value. No history, no gradient. */
tg_tensor *tg_tensor_make_view(tg_pool *pool, tg_tensor *base, const tg_shape *shape, const int64_t *strides,
                               int64_t offset);

/* Takes one reference away; the last one frees into the pool. */
void tg_tensor_drop(tg_pool *pool, tg_tensor *x);

int tg_tensor_references(const tg_tensor *x);

/* ---- shapes (shape.c multiplies sizes, and nobody else) ---- */

/* The bytes of a contiguous tensor; false, with an error that begins with `name`, for a shape that cannot be. */
bool tg_shape_bytes(const char *name, tg_dtype dtype, const tg_shape *shape, size_t *bytes, tg_error *error);

/* -1 counts from the end; false when there is no such axis. */
static inline bool tg_axis_normalize(int rank, int *axis)
{
    if (*axis < 0) {
        *axis += rank;
    }
    return *axis >= 0 && *axis < rank;
}

void tg_contiguous_strides(const tg_shape *shape, int64_t strides[TG_MAX_RANK]);

/* NumPy's rule: align at the last axis; sizes are equal or one of them is 1. */
bool tg_shape_broadcast(const tg_shape *a, const tg_shape *b, tg_shape *result);

/* The index of a flat row-major position: "[3,1]". Returns `text`. */
const char *tg_index_format(const tg_shape *shape, int64_t position, char text[TG_SHAPE_TEXT]);

/* tg_dtype_size for a dtype that is known to be one. */
static inline size_t tg_size_of(int dtype)
{
    return dtype == TG_F64 ? 8 : dtype == TG_U8 ? 1 : 4;
}

/* As much as nobody has (tg_pool_take refuses it) for a count that does not fit: an expanded view may have one. */
static inline size_t tg_bytes_of(const tg_tensor *x)
{
    return x->count > PTRDIFF_MAX / 16 ? PTRDIFF_MAX : (size_t)x->count * tg_size_of(x->dtype);
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

static inline void *tg_storage_values(tg_storage *storage)
{
    return (char *)storage + TG_STORAGE_HEAD;
}

static inline void *tg_values(const tg_tensor *x)
{
    return (char *)tg_storage_values(x->storage) + (size_t)x->offset * tg_size_of(x->dtype);
}

static inline uint64_t tg_storage_version(const tg_tensor *x)
{
    return atomic_load_explicit(&x->storage->version, memory_order_relaxed);
}

static inline bool tg_dtype_is_float(tg_dtype dtype)
{
    return dtype == TG_F32 || dtype == TG_F64;
}

/* Says that the values were written: a saved tensor that shares the storage notices. */
static inline void tg_touch(tg_tensor *x)
{
    atomic_fetch_add_explicit(&x->storage->version, 1, memory_order_relaxed);
}

/* ---- copying between layouts and dtypes (copy.c) ---- */

/* Writes x's values, row-major and without gaps, to `out`. */
void tg_copy_to_contiguous(const tg_tensor *x, void *out);

/* Reads row-major values and writes them through x's strides. */
void tg_copy_from_contiguous(tg_tensor *x, const void *in);

/* count values from one dtype to another; floats outside of an integer's range are clamped, NaN is 0. */
void tg_convert(void *out, tg_dtype to, const void *in, tg_dtype from, int64_t count);

/* ---- gradients (gradient.c) ---- */

/* All of these reserve before anybody writes; false when out of memory, and then nothing has changed. */
bool tg_gradient_reserve(tg_tensor *leaf);                    /* the gradient itself, kind none */
bool tg_gradient_reserve_dense(tg_tensor *leaf);              /* room for a dense gradient */
bool tg_gradient_reserve_rows(tg_tensor *leaf, int64_t more); /* room for `more` rows beyond those there are and those
                                                                 promised before */
void tg_gradient_end_promises(tg_tensor *leaf);

/* To dense, with rows folded in. *fresh goes in as "the caller can write everything" and comes out as "it has to": true
 * when there was no gradient at all; otherwise what was missing is zero. */
void tg_gradient_make_dense(tg_tensor *leaf, bool *fresh);

/* The place of row `id` among the rows; a row not seen before is listed and zeroed. Room was reserved. */
int64_t tg_gradient_row(tg_tensor *leaf, int32_t id);

/* Back to none, without memory; what is said of rows stays. */
void tg_gradient_release_buffers(tg_tensor *x);

void tg_gradient_free(tg_tensor *x);

/* ---- rows (rows.c) ---- */

static inline bool tg_has_frozen_rows(const tg_tensor *x)
{
    return x->gradient && x->gradient->rows.frozen_count > 0;
}

/* A leaf of f32 or f64 with rows; otherwise the error begins with `call`. */
bool tg_rows_check_leaf(const char *call, const tg_tensor *x, tg_error *error);

/* The smallest number of rows that x was given by resizes since its storage's version was `seen`; without any, what it
 * has. */
int64_t tg_least_rows_since(const tg_tensor *x, uint64_t seen);

/* Whether tg_resize_rows would refuse this, memory aside. */
bool tg_resize_check(const tg_tensor *x, int64_t rows, tg_error *error);

/* tg_resize_rows for up to TG_MAX_TABLES tables: all of them, or none. */
#define TG_MAX_TABLES 2
bool tg_resize_tables(tg_tensor *const *tables, int count, int64_t rows, tg_error *error);

/* Takes the gradient of frozen rows away: after whoever contributed to it. */
void tg_gradient_drop_frozen(tg_tensor *leaf);

/* Counts the rows that the gradient of a watched leaf moves in its step number `step`. */
void tg_rows_updated(tg_tensor *leaf, int64_t step);

#endif

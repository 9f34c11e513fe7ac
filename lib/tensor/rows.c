/* rows: the state of the rows of a tensor (frozen rows, counts of updates, shards), and row norms and neighbors.
 *
 * Frozen rows belong to the tensor, so no op and no module handles them: backward removes the gradient of frozen rows
 * after each record that may have written to it. A padding row is a frozen row, and stays zero under a tied head.
 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "math/power.h"
#include "tensor/getter.h"
#include "tensor/gradient.h"
#include "tensor/neighbors.h"

static int64_t rows_of(const tg_tensor *x)
{
    return x->rank > 0 ? x->shape[0] : 0;
}

static int64_t width_of(const tg_tensor *x)
{
    return x->shape[0] > 0 ? x->count / x->shape[0] : 0;
}

/* tg_tensor_value_at, faster for a contiguous tensor: it needs no division per axis. */
static double value_of(const tg_tensor *x, int64_t i)
{
    return x->contiguous && x->dtype == TG_F32   ? (double)((const float *)tg_values(x))[i]
           : x->contiguous && x->dtype == TG_F64 ? ((const double *)tg_values(x))[i]
                                                 : tg_tensor_value_at(x, i);
}

/* ---- checks ---- */

bool tg_rows_check_leaf(const char *call, const tg_tensor *x, tg_error *error)
{
    if (!tg_tensor_check(call, "tensor", x, error)) {
        return false;
    }
    if (x->rank < 1) {
        return tg_error_set(error, TG_ERROR_SHAPE, "%s: the tensor is a scalar, which has no rows", call);
    }
    if (x->owner || x->node >= 0) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the tensor is the result of an op; it must be a leaf", call);
    }
    return tg_dtype_is_float(x->dtype) ||
           tg_error_set(error, TG_ERROR_DTYPE, "%s: the tensor is %s; it must be f32 or f64", call,
                        tg_dtype_name(tg_dtype_of(x)));
}

static bool check_row(const char *call, const tg_tensor *x, int64_t row, tg_error *error)
{
    return tg_tensor_check(call, "tensor", x, error) &&
           ((row >= 0 && row < rows_of(x)) || tg_error_set(error, TG_ERROR_RANGE, "%s: row %lld is outside [0,%lld)",
                                                           call, (long long)row, (long long)rows_of(x)));
}

bool tg_row_state_reserve(const char *call, tg_tensor *x, tg_error *error)
{
    if (!x->rows) {
        x->rows = tg_alloc_zeroed(1, sizeof *x->rows);
    }
    return x->rows || tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory", call);
}

void tg_row_state_free(tg_tensor *x)
{
    if (x->rows) {
        tg_free(x->rows->frozen);
        tg_free(x->rows->updates);
        tg_free(x->rows);
        x->rows = NULL;
    }
}

/* ---- followers ---- */

bool tg_follower_add(tg_tensor *x, const char *behind_text)
{
    if (!tg_row_state_reserve("", x, NULL)) {
        return false;
    }
    x->rows->followers++;
    x->rows->behind_text = behind_text;
    return true;
}

void tg_follower_remove(tg_tensor *x, bool is_behind)
{
    tg_row_state *state = x->rows;
    state->followers--;
    state->followers_behind -= is_behind;
    if (state->followers == 0 && !state->follower_text && !state->frozen && !state->updates && state->shard.rows == 0) {
        tg_row_state_free(x); /* it has nothing any more */
    }
}

/* ---- frozen rows ---- */

bool tg_tensor_set_rows_frozen(tg_tensor *x, int64_t first, int64_t count, bool frozen, tg_error *error)
{
    static const char call[] = "tensor_set_rows_frozen";
    if (!tg_rows_check_leaf(call, x, error)) {
        return false;
    }
    int64_t rows = rows_of(x);
    if (first < 0 || count < 0 || first > rows || count > rows - first) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: %lld rows from row %lld; the tensor has %lld", call,
                            (long long)count, (long long)first, (long long)rows);
    }
    if (!tg_row_state_reserve(call, x, error)) {
        return false;
    }
    tg_row_state *state = x->rows;
    if (!state->frozen && frozen && count > 0 && !(state->frozen = tg_alloc_zeroed((uint64_t)rows, 1))) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld rows", call, (long long)rows);
    }
    for (int64_t row = first; state->frozen && row < first + count; row++) {
        state->frozen_count += frozen - state->frozen[row];
        state->frozen[row] = frozen;
    }
    tg_gradient_drop_frozen(x);
    return true;
}

bool tg_tensor_row_is_frozen(const tg_tensor *x, int64_t row)
{
    return tg_getter_has("tensor_row_is_frozen", x) && row >= 0 && row < rows_of(x) && tg_has_frozen_rows(x) &&
           x->rows->frozen[row];
}

/* Removes frozen rows from a gradient by rows. The remaining rows keep their order. */
static void drop_listed(tg_gradient *gradient, const uint8_t *frozen, size_t bytes)
{
    int64_t kept = 0;
    char *values = gradient->values;
    for (int64_t i = 0; i < gradient->count; i++) {
        int32_t id = gradient->ids[i];
        if (frozen[id]) {
            gradient->slot[id] = -1;
            continue;
        }
        if (kept < i) {
            memcpy(values + (size_t)kept * bytes, values + (size_t)i * bytes, bytes);
            gradient->ids[kept] = id;
            gradient->slot[id] = (int32_t)kept;
        }
        kept++;
    }
    gradient->count = kept;
}

void tg_gradient_drop_frozen(tg_tensor *leaf)
{
    if (!tg_has_frozen_rows(leaf) || !leaf->gradient) {
        return;
    }
    tg_gradient *gradient = leaf->gradient;
    const uint8_t *frozen = leaf->rows->frozen;
    size_t bytes = (size_t)width_of(leaf) * tg_size_of(leaf->dtype);
    if (gradient->kind == TG_GRAD_ROWS) {
        drop_listed(gradient, frozen, bytes);
    }
    char *dense = gradient->kind == TG_GRAD_DENSE ? tg_gradient_write(leaf, NULL) : NULL;
    for (int64_t row = 0; dense && row < rows_of(leaf); row++) {
        if (frozen[row]) {
            memset(dense + (size_t)row * bytes, 0, bytes);
        }
    }
}

/* ---- updates ---- */

bool tg_tensor_set_rows_watched(tg_tensor *x, bool watched, tg_error *error)
{
    static const char call[] = "tensor_set_rows_watched";
    if (!tg_rows_check_leaf(call, x, error) || !tg_row_state_reserve(call, x, error)) {
        return false;
    }
    tg_row_updates *updates = NULL;
    if (watched && !(updates = tg_alloc_zeroed((uint64_t)rows_of(x) + 1, sizeof *updates))) {
        return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld rows", call, (long long)rows_of(x));
    }
    tg_free(x->rows->updates);
    x->rows->updates = updates;
    return true;
}

static bool is_zero(const tg_tensor *x, int64_t row)
{
    int64_t width = width_of(x);
    for (int64_t c = 0; c < width; c++) {
        if (value_of(x, row * width + c) != 0) {
            return false;
        }
    }
    return true;
}

void tg_rows_updated(tg_tensor *leaf, int64_t step)
{
    const tg_gradient *gradient = leaf->gradient;
    tg_row_updates *updates = leaf->rows ? leaf->rows->updates : NULL;
    bool listed = gradient->kind == TG_GRAD_ROWS;
    for (int64_t i = 0; updates && i < (listed ? gradient->count : rows_of(leaf)); i++) {
        if (listed || !is_zero(gradient->dense, i)) {
            int64_t row = listed ? gradient->ids[i] : i;
            updates[row].count++;
            updates[row].last_step = step;
        }
    }
}

tg_row_updates tg_tensor_row_updates(const tg_tensor *x, int64_t row)
{
    bool counted =
        tg_getter_has("tensor_row_updates", x) && row >= 0 && row < rows_of(x) && x->rows && x->rows->updates;
    return counted ? x->rows->updates[row] : (tg_row_updates){0, 0};
}

int64_t tg_tensor_rows_never_updated(const tg_tensor *x, int32_t *ids, int64_t capacity, tg_error *error)
{
    static const char call[] = "tensor_rows_never_updated";
    if (!tg_tensor_check_handle(call, "tensor", x, error)) {
        return -1;
    }
    if (!x->rows || !x->rows->updates || (!ids && capacity > 0)) {
        tg_error_set(error, TG_ERROR_STATE, "%s: %s", call,
                     ids || capacity <= 0 ? "the tensor is not watched (tg_tensor_set_rows_watched)"
                                          : "the ids are NULL");
        return -1;
    }
    int64_t never = 0;
    for (int64_t row = 0; row < rows_of(x); row++) {
        if (x->rows->updates[row].count == 0) {
            if (never < capacity) {
                ids[never] = (int32_t)row;
            }
            never++;
        }
    }
    return never;
}

/* ---- shards ---- */

bool tg_tensor_set_shard(tg_tensor *x, int64_t first, int64_t rows, tg_error *error)
{
    static const char call[] = "tensor_set_shard";
    if (!tg_rows_check_leaf(call, x, error)) {
        return false;
    }
    if (first < 0 || rows < 1 || first > rows || rows_of(x) > rows - first) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: %lld rows from row %lld on, of a table of %lld rows", call,
                            (long long)rows_of(x), (long long)first, (long long)rows);
    }
    if (!tg_row_state_reserve(call, x, error)) {
        return false;
    }
    x->rows->shard = (tg_shard){first, rows};
    return true;
}

/* ---- norms and neighbors ---- */

double tg_row_norm(const tg_tensor *x, int64_t row, double p)
{
    double sum = 0;
    int64_t width = width_of(x);
    for (int64_t c = 0; c < width; c++) {
        double size = fabs(value_of(x, row * width + c));
        sum = isinf(p) ? (size > sum || isnan(size) ? size : sum) : sum + (p == 2 ? size * size : tg_pow_f64(size, p));
    }
    return isinf(p) ? sum : p == 2 ? sqrt(sum) : tg_pow_f64(sum, 1 / p);
}

double tg_tensor_row_norm(const tg_tensor *x, int64_t row, double p, tg_error *error)
{
    static const char call[] = "tensor_row_norm";
    if (!check_row(call, x, row, error)) {
        return (double)NAN;
    }
    if (!(p > 0)) {
        tg_error_set(error, TG_ERROR_VALUE, "%s: p is %g; it must be above 0", call, p);
        return (double)NAN;
    }
    return tg_row_norm(x, row, p);
}

double tg_row_similarity(tg_similarity similarity, const tg_tensor *x, int64_t a, double a_largest, const tg_tensor *y,
                         int64_t b)
{
    double product = 0, a_squares = 0, b_squares = 0, b_largest = tg_row_norm(y, b, (double)INFINITY);
    if (!isfinite(a_largest) || !isfinite(b_largest)) {
        return (double)NAN;
    }
    if (similarity == TG_SIMILARITY_DOT) {
        a_largest = b_largest = 1;
    } else if (a_largest == 0 || b_largest == 0) {
        return 0;
    }
    int64_t width = width_of(x);
    for (int64_t c = 0; c < width; c++) {
        double u = value_of(x, a * width + c) / a_largest, v = value_of(y, b * width + c) / b_largest;
        product += u * v;
        a_squares += u * u;
        b_squares += v * v;
    }
    return similarity == TG_SIMILARITY_DOT ? product : fmax(-1, fmin(product / (sqrt(a_squares) * sqrt(b_squares)), 1));
}

int64_t tg_tensor_row_neighbors(const tg_tensor *x, int64_t row, const uint8_t *among, tg_row_neighbor *neighbors,
                                int64_t count, tg_error *error)
{
    static const char call[] = "tensor_row_neighbors";
    if (!check_row(call, x, row, error)) {
        return -1;
    }
    if (count < 0 || (!neighbors && count > 0)) {
        tg_error_set(error, count < 0 ? TG_ERROR_RANGE : TG_ERROR_STATE, "%s: %lld neighbors%s", call, (long long)count,
                     count < 0 ? "; it must be 0 or more" : " into an array that is NULL");
        return -1;
    }
    int64_t found = 0, rows = rows_of(x);
    double largest = tg_row_norm(x, row, (double)INFINITY);
    if (x->count == 0 && !among && count < rows) {
        rows = count + 1; /* all rows are equally near, and there may be more than a loop can visit */
    }
    for (int64_t other = 0; count > 0 && other < rows; other++) {
        if (other == row || (among && !among[other])) {
            continue;
        }
        double near = tg_row_similarity(TG_SIMILARITY_COSINE, x, row, largest, x, other);
        if (isnan(near)) {
            continue;
        }
        int64_t rank = found;
        while (rank > 0 && near > neighbors[rank - 1].similarity) {
            rank--;
        }
        if (rank < count) {
            found += found < count;
            memmove(&neighbors[rank + 1], &neighbors[rank], (size_t)(found - rank - 1) * sizeof *neighbors);
            neighbors[rank] = (tg_row_neighbor){other, near};
        }
    }
    return found;
}

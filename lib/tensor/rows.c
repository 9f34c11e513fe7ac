/* rows: properties of a leaf's single rows. They live beside its gradient (tensor.h), because who asks about them is
 * who has a gradient in hand: backward, and a step of an optimizer.
 */
#include <tapegrad/rows.h>

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

static int64_t rows_of(const tg_tensor *x)
{
    return x && x->rank > 0 ? x->shape[0] : 0;
}

static int64_t width_of(const tg_tensor *x)
{
    return x->shape[0] > 0 ? x->count / x->shape[0] : 0;
}

/* tg_value_at, without a division an axis where that is possible. */
static double value_of(const tg_tensor *x, int64_t i)
{
    return x->contiguous && x->dtype == TG_F32   ? (double)((const float *)tg_values(x))[i]
           : x->contiguous && x->dtype == TG_F64 ? ((const double *)tg_values(x))[i]
                                                 : tg_value_at(x, i);
}

bool tg_rows_check_leaf(const char *call, const tg_tensor *x, tg_error *error)
{
    if (!x || x->rank < 1) {
        return tg_error_set(error, x ? TG_ERROR_SHAPE : TG_ERROR_STATE, "%s: the tensor %s", call,
                            x ? "is a scalar, which has no rows" : "is NULL");
    }
    if (x->tape || x->node >= 0) {
        return tg_error_set(error, TG_ERROR_STATE, "%s: the tensor is the result of an op; only leaves have such rows",
                            call);
    }
    return tg_dtype_is_float((tg_dtype)x->dtype) ||
           tg_error_set(error, TG_ERROR_DTYPE, "%s: the tensor is %s; it must be f32 or f64", call,
                        tg_dtype_name((tg_dtype)x->dtype));
}

static bool out_of_memory(const char *call, int64_t rows, tg_error *error)
{
    return tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld rows", call, (long long)rows);
}

/* ---- frozen rows ---- */

bool tg_set_rows_frozen(tg_tensor *x, int64_t first, int64_t count, bool frozen, tg_error *error)
{
    if (!tg_rows_check_leaf("set_rows_frozen", x, error)) {
        return false;
    }
    int64_t rows = rows_of(x);
    if (first < 0 || count < 0 || first > rows || count > rows - first) {
        return tg_error_set(error, TG_ERROR_RANGE, "set_rows_frozen: %lld rows from row %lld; the tensor has %lld",
                            (long long)count, (long long)first, (long long)rows);
    }
    if (!tg_gradient_reserve(x)) {
        return out_of_memory("set_rows_frozen", rows, error);
    }
    tg_gradient *gradient = x->gradient;
    if (!gradient->rows.frozen && frozen && count > 0 && !(gradient->rows.frozen = tg_alloc_zeroed((size_t)rows, 1))) {
        return out_of_memory("set_rows_frozen", rows, error);
    }
    for (int64_t row = first; gradient->rows.frozen && row < first + count; row++) {
        gradient->rows.frozen_count += frozen - gradient->rows.frozen[row];
        gradient->rows.frozen[row] = frozen;
    }
    tg_gradient_drop_frozen(x);
    return true;
}

bool tg_row_is_frozen(const tg_tensor *x, int64_t row)
{
    return row >= 0 && row < rows_of(x) && tg_has_frozen_rows(x) && x->gradient->rows.frozen[row];
}

/* Keeps the order of the rows that stay: it is that of the first touch. */
static void drop_frozen_from_list(tg_gradient *gradient, size_t bytes)
{
    int64_t kept = 0;
    char *values = gradient->values;
    for (int64_t i = 0; i < gradient->count; i++) {
        int32_t id = gradient->ids[i];
        if (gradient->rows.frozen[id]) {
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
    if (!tg_has_frozen_rows(leaf)) {
        return;
    }
    tg_gradient *gradient = leaf->gradient;
    size_t bytes = (size_t)width_of(leaf) * tg_size_of(leaf->dtype);
    if (gradient->kind == TG_GRADIENT_ROWS) {
        drop_frozen_from_list(gradient, bytes);
    }
    char *dense = gradient->kind == TG_GRADIENT_DENSE ? tg_values(gradient->dense) : NULL;
    for (int64_t row = 0; dense && row < rows_of(leaf); row++) {
        if (gradient->rows.frozen[row]) {
            memset(dense + (size_t)row * bytes, 0, bytes);
        }
    }
}

/* ---- what training did to each row ---- */

bool tg_watch_rows(tg_tensor *x, bool watch, tg_error *error)
{
    if (!tg_rows_check_leaf("watch_rows", x, error)) {
        return false;
    }
    if (watch && !tg_gradient_reserve(x)) {
        return out_of_memory("watch_rows", rows_of(x), error);
    }
    tg_row_updates *updates = NULL;
    if (watch && !(updates = tg_alloc_zeroed((size_t)rows_of(x) + 1, sizeof *updates))) {
        return out_of_memory("watch_rows", rows_of(x), error);
    }
    if (x->gradient) {
        tg_free(x->gradient->rows.updates);
        x->gradient->rows.updates = updates;
    }
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
    tg_row_updates *updates = gradient->rows.updates;
    if (!updates) {
        return;
    }
    if (gradient->kind == TG_GRADIENT_ROWS) {
        for (int64_t i = 0; i < gradient->count; i++) {
            updates[gradient->ids[i]].count++;
            updates[gradient->ids[i]].last_step = step;
        }
        return;
    }
    for (int64_t row = 0; row < rows_of(leaf); row++) {
        if (!is_zero(gradient->dense, row)) {
            updates[row].count++;
            updates[row].last_step = step;
        }
    }
}

tg_row_updates tg_row_updates_of(const tg_tensor *x, int64_t row)
{
    bool counted = row >= 0 && row < rows_of(x) && x->gradient && x->gradient->rows.updates;
    return counted ? x->gradient->rows.updates[row] : (tg_row_updates){0, 0};
}

int64_t tg_rows_never_updated(const tg_tensor *x, int32_t *ids, int64_t capacity)
{
    if (!x || !x->gradient || !x->gradient->rows.updates) {
        return -1;
    }
    int64_t never = 0;
    for (int64_t row = 0; row < rows_of(x); row++) {
        if (x->gradient->rows.updates[row].count == 0) {
            if (never < capacity) {
                ids[never] = (int32_t)row;
            }
            never++;
        }
    }
    return never;
}

/* ---- norms and neighbours ---- */

double tg_row_norm(const tg_tensor *x, int64_t row, double p)
{
    if (row < 0 || row >= rows_of(x) || !(p > 0)) {
        return NAN;
    }
    double sum = 0;
    int64_t width = width_of(x);
    for (int64_t c = 0; c < width; c++) {
        double size = fabs(value_of(x, row * width + c));
        sum = isinf(p) ? (size > sum || isnan(size) ? size : sum) : sum + (p == 2 ? size * size : pow(size, p));
    }
    return isinf(p) ? sum : p == 2 ? sqrt(sum) : pow(sum, 1 / p);
}

/* Rows are divided by their largest value before they are squared, which then neither overflows nor vanishes. NaN for a
 * row that is not finite. */
static double cosine(const tg_tensor *x, int64_t a, double a_largest, int64_t b)
{
    double product = 0, a_squares = 0, b_squares = 0, b_largest = tg_row_norm(x, b, (double)INFINITY);
    if (!isfinite(a_largest) || !isfinite(b_largest)) {
        return NAN;
    }
    if (a_largest == 0 || b_largest == 0) {
        return 0;
    }
    int64_t width = width_of(x);
    for (int64_t c = 0; c < width; c++) {
        double u = value_of(x, a * width + c) / a_largest, v = value_of(x, b * width + c) / b_largest;
        product += u * v;
        a_squares += u * u;
        b_squares += v * v;
    }
    return fmax(-1, fmin(product / (sqrt(a_squares) * sqrt(b_squares)), 1));
}

int64_t tg_row_neighbours(const tg_tensor *x, int64_t row, const uint8_t *among, tg_row_neighbour *neighbours,
                          int64_t count)
{
    if (row < 0 || row >= rows_of(x) || count < 0) {
        return -1;
    }
    int64_t found = 0;
    double largest = tg_row_norm(x, row, (double)INFINITY);
    for (int64_t other = 0; count > 0 && other < rows_of(x); other++) {
        if (other == row || (among && !among[other])) {
            continue;
        }
        double near = cosine(x, row, largest, other);
        if (isnan(near)) {
            continue;
        }
        int64_t place = found;
        while (place > 0 && near > neighbours[place - 1].cosine) {
            place--;
        }
        if (place < count) {
            found += found < count;
            memmove(&neighbours[place + 1], &neighbours[place], (size_t)(found - place - 1) * sizeof *neighbours);
            neighbours[place] = (tg_row_neighbour){other, near};
        }
    }
    return found;
}

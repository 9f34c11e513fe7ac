/* neighbors: the rows of a table that are nearest to each of many queries.
 *
 * A search takes the table in blocks of rows, and a block in strips, which threads divide: the products of a strip with
 * all queries are one matrix product, whose bits do not depend on the number of threads. For the cosine the queries are
 * divided by their norms, and the products by the norms of the rows, which are computed before the strip leaves the
 * cache. Then threads divide the queries: each has a heap of the nearest rows, the farthest of them first, and nearly
 * all products are below that one. At the end the similarities in the heaps are computed again in double, and sorted.
 *
 * A product that is not finite, or of a row with a very small or large norm, is computed in double at once.
 */
#include "tensor/neighbors.h"

#include <stdlib.h>

#include "base/least.h"
#include "base/parallel.h"
#include "base/real.h"
#include "products/gemm.h"

/* The lanes of a sum, the rows of a strip, and the queries of a pass over the table. */
enum { SEARCH_LANES = 16, STRIP = 512, QUERIES = 1024 };

static double norm_of(const real *x, int64_t n)
{
    double lane[SEARCH_LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + SEARCH_LANES <= n; i += SEARCH_LANES) {
        for (int k = 0; k < SEARCH_LANES; k++) {
            lane[k] += (double)x[i + k] * (double)x[i + k];
        }
    }
    for (int k = 0; k < SEARCH_LANES; k++) {
        sum += lane[k];
    }
    for (; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sqrt(sum);
}

/* Returns 1 / the norm of a vector: NaN if products would not be exact enough, and for doubles also if the squares may
 * have become 0. For a dot product, 1. */
static real factor_of(const tg_neighbor_search *s, const real *x)
{
    double norm = s->similarity == TG_SIMILARITY_DOT ? 1 : norm_of(x, s->width);
    bool is_zero = norm == 0 && IS_FLOAT;
    return (real)(norm >= 1e-30 && norm <= 1e30 ? 1 / norm : is_zero ? 0 : (double)NAN);
}

static void multiply(void *context, int64_t begin, int64_t end)
{
    const tg_neighbor_search *s = context;
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t first = strip * STRIP, n = least(STRIP, s->row_count - first);
        const real *rows = (const real *)s->rows + (s->row + first) * s->width;
        for (int64_t i = 0; i < n; i++) {
            ((real *)s->factors)[first + i] = factor_of(s, rows + i * s->width);
        }
        tg_gemm g = {
            s->query_count,   n, s->width, .b_layout = TG_TRANSPOSED, .lda = s->width, .ldb = s->width, .ldc = s->room,
            .in_thread = true};
        TYPED(tg_gemm)(&g, s->vectors, rows, (real *)s->products + first);
    }
}

static double similarity_of(const tg_neighbor_search *s, int64_t query, int64_t row)
{
    query += s->query;
    return tg_row_similarity(s->similarity, s->queries, query, tg_row_norm(s->queries, query, (double)INFINITY),
                             s->table, row);
}

/* Compares two neighbors: the nearest comes first, and on ties the smaller index. */
static int compare(const void *a, const void *b)
{
    const tg_row_neighbor *x = a, *y = b;
    return x->similarity != y->similarity ? (x->similarity < y->similarity ? 1 : -1)
                                          : (x->row > y->row) - (x->row < y->row);
}

static bool is_farther(const void *context, const void *a, const void *b)
{
    (void)context;
    return compare(a, b) > 0;
}

/* Offers a row to a heap. The similarity is NaN or infinite if a product does not have it. */
static void offer(const tg_neighbor_search *s, int64_t query, int64_t row, double similarity)
{
    tg_row_neighbor *heap = s->neighbors + query * s->count;
    if (similarity <= heap->similarity || (s->among && !s->among[row])) {
        return;
    }
    similarity = isfinite(similarity) ? similarity : similarity_of(s, query, row);
    if (similarity > heap->similarity) {
        *heap = (tg_row_neighbor){row, similarity};
        tg_heap_down(heap, sizeof *heap, (size_t)s->count, 0, is_farther, NULL);
    }
}

/* Returns whether one of the products may be above `farthest`: it is, or it is NaN. */
static bool has_near(const real *product, const real *factor, real farthest)
{
    int near = 0;
    for (int k = 0; k < SEARCH_LANES; k++) {
        near |= !(product[k] * factor[k] <= farthest);
    }
    return near;
}

static void select_nearest(void *context, int64_t begin, int64_t end)
{
    const tg_neighbor_search *s = context;
    const real *factor = s->factors;
    for (int64_t query = begin; query < end; query++) {
        const real *product = (const real *)s->products + query * s->room;
        const tg_row_neighbor *heap = s->neighbors + query * s->count;
        for (int64_t i = 0; i < s->row_count; i += SEARCH_LANES) {
            const int64_t stop = least(i + SEARCH_LANES, s->row_count);
            bool is_part = stop < i + SEARCH_LANES;
            if (is_part || has_near(product + i, factor + i, (real)heap->similarity)) {
                for (int64_t k = i; k < stop; k++) {
                    offer(s, query, s->row + k, (double)(product[k] * factor[k]));
                }
            }
        }
    }
}

/* Computes the similarities of a heap again, and sorts it. */
static void finish_lists(void *context, int64_t begin, int64_t end)
{
    const tg_neighbor_search *s = context;
    for (int64_t query = begin; query < end; query++) {
        tg_row_neighbor *list = s->neighbors + query * s->count;
        for (int64_t i = 0; i < s->count; i++) {
            list[i].similarity = list[i].row < 0 ? list[i].similarity : similarity_of(s, query, list[i].row);
        }
        qsort(list, (size_t)s->count, sizeof *list, compare);
    }
}

void KERNEL(tg_search)(tg_neighbor_search *s)
{
    s->products = (real *)s->factors + s->room;
    s->vectors = (real *)s->products + s->query_count * s->room;
    for (int64_t i = 0; i < s->query_count; i++) {
        real *x = (real *)s->vectors + i * s->width;
        for (int64_t c = 0; c < s->width; c++) {
            x[c] = (real)tg_tensor_value_at(s->queries, (s->query + i) * s->width + c);
        }
        const real factor = factor_of(s, x);
        for (int64_t c = 0; c < s->width; c++) {
            x[c] *= factor;
        }
    }
    for (int64_t i = 0; i < s->query_count * s->count; i++) {
        s->neighbors[i] = (tg_row_neighbor){-1, -(double)INFINITY};
    }
    for (s->row = 0; s->row < s->table->shape[0]; s->row += s->row_count) {
        s->row_count = least(s->room, s->table->shape[0] - s->row);
        tg_parallel_for((s->row_count + STRIP - 1) / STRIP, 1, multiply, s);
        tg_parallel_for(s->query_count, 1 + TG_GRAIN / s->row_count, select_nearest, s);
    }
    tg_parallel_for(s->query_count, 1 + TG_GRAIN / s->width, finish_lists, s);
}

#ifdef TG_ONCE

static const char call[] = "tensor_neighbors";

static bool check(const tg_tensor *table, const tg_tensor *queries, tg_similarity similarity, int64_t count,
                  const tg_row_neighbor *neighbors, tg_error *error)
{
    if (!tg_tensor_check(call, "table", table, error) || !tg_tensor_check(call, "queries tensor", queries, error)) {
        return false;
    }
    if (!tg_dtype_is_float(table->dtype) || queries->dtype != table->dtype) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: a table %s and queries %s; both must be f32, or both f64", call,
                            tg_dtype_name(tg_dtype_of(table)), tg_dtype_name(tg_dtype_of(queries)));
    }
    if (table->rank != 2 || queries->rank != 2 || table->shape[1] < 1 || queries->shape[1] != table->shape[1]) {
        return tg_error_set(error, TG_ERROR_SHAPE,
                            "%s: a table %s and queries %s; they must be (V,C) and (N,C), C >= 1", call,
                            tg_shape_text_of(table).text, tg_shape_text_of(queries).text);
    }
    if ((unsigned)similarity > TG_SIMILARITY_DOT) {
        return tg_error_set(error, TG_ERROR_VALUE, "%s: similarity %d does not exist; it must be 0 (cosine) or 1 (dot)",
                            call, (int)similarity);
    }
    if (count < 0 || count > table->shape[0]) {
        return tg_error_set(error, TG_ERROR_RANGE, "%s: %lld neighbors; the table has %lld rows", call,
                            (long long)count, (long long)table->shape[0]);
    }
    return neighbors || tg_error_set(error, TG_ERROR_STATE, "%s: the array of neighbors is NULL", call);
}

bool tg_tensor_neighbors(const tg_tensor *table, const tg_tensor *queries, tg_similarity similarity,
                         const uint8_t *among, int64_t count, tg_row_neighbor *neighbors, tg_error *error)
{
    static tg_search_kernel *const search[2][TG_LEVELS] = {{TG_EACH_LEVEL(avx2, tg_search_f32)},
                                                           {TG_EACH_LEVEL(avx2, tg_search_f64)}};
    if (!check(table, queries, similarity, count, neighbors, error)) {
        return false;
    }
    const int64_t all = queries->shape[0], width = table->shape[1], room = (int64_t)STRIP * tg_threads();
    const int64_t most = least(QUERIES, all);
    tg_tensor *copy = table->contiguous ? NULL : tg_tensor_new_copy(table, NULL);
    tg_neighbor_search s = {copy ? copy : table, queries, similarity, among, width, count, .room = room};
    s.rows = tg_values(s.table);
    if (s.table->contiguous) {
        s.factors = tg_alloc((uint64_t)(most * (width + room) + room), tg_size_of(table->dtype));
    }
    for (; s.factors && count > 0 && s.query < all; s.query += s.query_count) {
        s.query_count = least(most, all - s.query);
        s.neighbors = neighbors + s.query * count;
        search[table->dtype == TG_F64][tg_level()](&s);
    }
    const bool has_memory = s.factors;
    tg_free(s.factors);
    tg_release(copy);
    return has_memory ||
           tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld queries", call, (long long)all);
}

#endif

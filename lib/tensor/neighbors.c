/* neighbors: the rows of a table that are nearest to each of many queries.
 *
 * A search takes the table in blocks of rows, and a block in strips, which threads divide: the products of a strip with
 * all queries are one matrix product, whose bits do not depend on the number of threads. For the cosine the queries are
 * divided by their norms, and the products by the norms of the rows, which are computed before the strip leaves the
 * cache. Then threads divide the queries: each has a sorted list, and nearly all of its products are below the last one.
 * At the end the similarities in the lists are computed again in double, and sorted by these.
 *
 * A product that is not finite, or of a row with a very small or large norm, is computed in double at once.
 */
#include "tensor/neighbors.h"

#include "base/alloc.h"
#include "base/least.h"
#include "base/real.h"
#include "products/gemm.h"

enum { LANES = 16 };

static double norm_of(const real *x, int64_t n)
{
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            lane[k] += (double)x[i + k] * (double)x[i + k];
        }
    }
    for (int k = 0; k < LANES; k++) {
        sum += lane[k];
    }
    for (; i < n; i++) {
        sum += (double)x[i] * (double)x[i];
    }
    return sqrt(sum);
}

/* Returns the factor of a vector with this norm: NaN if a product would not be exact enough, and for doubles also if the
 * squares may have become 0. */
static double factor_of_norm(double norm, bool is_float)
{
    return norm >= 1e-30 && norm <= 1e30 ? 1 / norm : norm == 0 && is_float ? 0 : (double)NAN;
}

void KERNEL(tg_search_multiply)(void *context, int64_t begin, int64_t end)
{
    const tg_search *s = context;
    const int64_t width = s->table->shape[1];
    for (int64_t strip = begin; strip < end; strip++) {
        const int64_t first = strip * TG_SEARCH_STRIP, n = least(TG_SEARCH_STRIP, s->row_count - first);
        const real *rows = (const real *)s->rows + (s->row + first) * width;
        real *factor = (real *)s->factors + first;
        for (int64_t i = 0; i < n; i++) {
            double norm = s->similarity == TG_SIMILARITY_COSINE ? norm_of(rows + i * width, width) : 1;
            factor[i] = (real)factor_of_norm(norm, sizeof(real) == sizeof(float));
        }
        tg_gemm g = {s->query_count,   n, width, .b_layout = TG_TRANSPOSED, .lda = width, .ldb = width, .ldc = s->room,
                     .in_thread = true};
        TYPED(tg_gemm)(&g, s->vectors, rows, (real *)s->products + first);
    }
}

/* Returns whether one of the products may be above `last`: it is, or it is NaN. */
static bool has_near(const real *product, const real *factor, real last)
{
    int near = 0;
    for (int k = 0; k < LANES; k++) {
        near |= !(product[k] * factor[k] <= last);
    }
    return near;
}

void KERNEL(tg_search_select)(void *context, int64_t begin, int64_t end)
{
    const tg_search *s = context;
    const real *factor = s->factors;
    for (int64_t query = begin; query < end; query++) {
        const real *product = (const real *)s->products + query * s->room;
        const tg_row_neighbor *last = s->neighbors + (query + 1) * s->count - 1;
        for (int64_t i = 0; i < s->row_count; i += LANES) {
            const int64_t stop = least(i + LANES, s->row_count);
            if (stop < i + LANES || has_near(product + i, factor + i, (real)last->similarity)) {
                for (int64_t k = i; k < stop; k++) {
                    tg_search_offer(s, query, s->row + k, (double)(product[k] * factor[k]));
                }
            }
        }
    }
}

#ifdef TG_ONCE

static const char call[] = "tensor_neighbors";

static loop_body *const multiply[2][TG_LEVELS] = {{TG_EACH_LEVEL(avx2, tg_search_multiply_f32)},
                                                  {TG_EACH_LEVEL(avx2, tg_search_multiply_f64)}},
                        *const select_nearest[2][TG_LEVELS] = {{TG_EACH_LEVEL(avx2, tg_search_select_f32)},
                                                               {TG_EACH_LEVEL(avx2, tg_search_select_f64)}};

static double similarity_of(const tg_search *s, int64_t query, int64_t row)
{
    query += s->query;
    return tg_row_similarity(s->similarity, s->queries, query, tg_row_norm(s->queries, query, (double)INFINITY),
                             s->table, row);
}

void tg_search_offer(const tg_search *s, int64_t query, int64_t row, double similarity)
{
    tg_row_neighbor *list = s->neighbors + query * s->count;
    if (similarity <= list[s->count - 1].similarity || (s->among && !s->among[row])) {
        return;
    }
    similarity = isfinite(similarity) ? similarity : similarity_of(s, query, row);
    if (!isnan(similarity)) {
        tg_neighbors_insert(list, s->count, s->count, (tg_row_neighbor){row, similarity});
    }
}

/* Computes the similarities of a list again, and sorts it. */
static void finish_lists(void *context, int64_t begin, int64_t end)
{
    const tg_search *s = context;
    for (int64_t query = begin; query < end; query++) {
        tg_row_neighbor *list = s->neighbors + query * s->count;
        for (int64_t i = 0; i < s->count && list[i].row >= 0; i++) {
            int64_t row = list[i].row;
            tg_neighbors_insert(list, i, s->count, (tg_row_neighbor){row, similarity_of(s, query, row)});
        }
    }
}

/* Begins with the queries from this one on. */
static void begin_queries(tg_search *s, int64_t query, int64_t count)
{
    const int64_t width = s->table->shape[1];
    const bool is_float = s->table->dtype == TG_F32;
    s->query = query;
    s->query_count = count;
    for (int64_t i = 0; i < count; i++) {
        double norm = s->similarity == TG_SIMILARITY_COSINE ? tg_row_norm(s->queries, query + i, 2) : 1;
        const double factor = factor_of_norm(norm, is_float);
        for (int64_t c = 0; c < width; c++) {
            double value = factor * tg_tensor_value_at(s->queries, (query + i) * width + c);
            if (is_float) {
                ((float *)s->vectors)[i * width + c] = (float)value;
            } else {
                ((double *)s->vectors)[i * width + c] = value;
            }
        }
    }
    for (int64_t i = 0; i < count * s->count; i++) {
        s->neighbors[i] = (tg_row_neighbor){-1, -(double)INFINITY};
    }
}

static void search(tg_search *s)
{
    const int type = s->table->dtype == TG_F64, level = tg_level();
    for (s->row = 0; s->row < s->table->shape[0]; s->row += s->row_count) {
        s->row_count = least(s->room, s->table->shape[0] - s->row);
        tg_parallel_for((s->row_count + TG_SEARCH_STRIP - 1) / TG_SEARCH_STRIP, 1, multiply[type][level], s);
        tg_parallel_for(s->query_count, 1 + TG_GRAIN / s->row_count, select_nearest[type][level], s);
    }
    tg_parallel_for(s->query_count, 1 + TG_GRAIN / s->table->shape[1], finish_lists, s);
}

static bool check(const tg_tensor *table, const tg_tensor *queries, tg_similarity similarity, int64_t count,
                  const tg_row_neighbor *neighbors, tg_error *error)
{
    char table_text[TG_SHAPE_TEXT], text[TG_SHAPE_TEXT];
    if (!tg_tensor_check(call, "table", table, error) || !tg_tensor_check(call, "queries tensor", queries, error)) {
        return false;
    }
    if (!tg_dtype_is_float(table->dtype) || queries->dtype != table->dtype) {
        return tg_error_set(error, TG_ERROR_DTYPE, "%s: a table %s and queries %s; both must be f32, or both f64", call,
                            tg_dtype_name(tg_dtype_of(table)), tg_dtype_name(tg_dtype_of(queries)));
    }
    if (table->rank != 2 || queries->rank != 2 || table->shape[1] < 1 || queries->shape[1] != table->shape[1]) {
        return tg_error_set(
            error, TG_ERROR_SHAPE, "%s: a table %s and queries %s; they must be (V,C) and (N,C), C >= 1", call,
            tg_shape_format(tg_shape_of(table), table_text), tg_shape_format(tg_shape_of(queries), text));
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

enum { QUERIES = 1024 }; /* those of a pass over the table */

bool tg_tensor_neighbors(const tg_tensor *table, const tg_tensor *queries, tg_similarity similarity,
                         const uint8_t *among, int64_t count, tg_row_neighbor *neighbors, tg_error *error)
{
    if (!check(table, queries, similarity, count, neighbors, error)) {
        return false;
    }
    const int64_t most = least(QUERIES, queries->shape[0] + 1), room = (int64_t)TG_SEARCH_STRIP * tg_threads();
    const uint64_t size = tg_size_of(table->dtype), width = (uint64_t)table->shape[1];
    tg_tensor *copy = table->contiguous ? NULL : tg_tensor_new_copy(table, NULL);
    tg_search s = {.table = copy ? copy : table,
                   .queries = queries,
                   .similarity = similarity,
                   .among = among,
                   .count = count,
                   .room = room,
                   .vectors = tg_alloc((uint64_t)most * width, size),
                   .products = tg_alloc((uint64_t)(most * room), size),
                   .factors = tg_alloc((uint64_t)room, size),
                   .neighbors = neighbors};
    bool has_memory = s.vectors && s.products && s.factors && s.table->contiguous;
    s.rows = tg_values(s.table);
    for (int64_t query = 0; has_memory && count > 0 && query < queries->shape[0]; query += s.query_count) {
        s.neighbors = neighbors + query * count;
        begin_queries(&s, query, least(most, queries->shape[0] - query));
        search(&s);
    }
    tg_free(s.vectors);
    tg_free(s.products);
    tg_free(s.factors);
    tg_release(copy);
    return has_memory ||
           tg_error_set(error, TG_ERROR_MEMORY, "%s: out of memory for %lld queries", call, (long long)queries->shape[0]);
}

#endif

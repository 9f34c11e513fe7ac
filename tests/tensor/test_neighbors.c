/* tg_tensor_neighbors: beside a search of one pair at a time in double; ties, layouts, threads, what is not finite, and
 * errors. */
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tg_error error;

static int set_up(void **state)
{
    (void)state;
    tg_error_clear(&error);
    return 0;
}

static double product(const tg_tensor *x, int64_t a, const tg_tensor *y, int64_t b)
{
    double sum = 0;
    int64_t width = tg_tensor_size(x, 1);
    for (int64_t c = 0; c < width; c++) {
        sum += tg_tensor_value_at(x, a * width + c) * tg_tensor_value_at(y, b * width + c);
    }
    return sum;
}

static double similarity_of(const tg_tensor *x, int64_t a, const tg_tensor *y, int64_t b, tg_similarity similarity)
{
    double of = product(x, a, y, b), norms = sqrt(product(x, a, x, a)) * sqrt(product(y, b, y, b));
    return similarity == TG_SIMILARITY_DOT ? of : norms == 0 ? 0 : of / norms;
}

/* Checks the list of a query: each similarity is that of its row; they do not increase, and ties are by index; and no
 * row that is not in the list is nearer, but for a rounding of the dtype. */
static void check_list(const tg_tensor *table, const tg_tensor *queries, int64_t query, tg_similarity similarity,
                       const uint8_t *among, int64_t count, const tg_row_neighbor *list)
{
    int64_t rows = tg_tensor_size(table, 0), offered = 0;
    uint8_t *listed = calloc((size_t)rows + 1, 1);
    double rounding = tg_tensor_dtype(table) == TG_F32 ? 1e-5 : 1e-13, last = -(double)INFINITY;
    for (int64_t i = 0; i < count && list[i].row >= 0; i++) {
        int64_t row = list[i].row;
        assert_true(row < rows && !listed[row] && (!among || among[row]));
        listed[row] = 1;
        last = list[i].similarity;
        assert_float_equal(last, similarity_of(queries, query, table, row, similarity), 1e-13);
        assert_true(i == 0 || last < list[i - 1].similarity ||
                    (last == list[i - 1].similarity && row > list[i - 1].row));
        offered--;
    }
    for (int64_t row = 0; row < rows; row++) {
        offered += !among || among[row];
        if (count > 0 && !listed[row] && (!among || among[row])) {
            assert_true(similarity_of(queries, query, table, row, similarity) <= last + rounding);
        }
    }
    /* a list that is not full has all rows */
    assert_true(offered == 0 || count == 0 || list[count - 1].row >= 0);
    free(listed);
}

static void check_search(tg_dtype dtype, int64_t rows, int64_t width, int64_t count_of_queries, int64_t count)
{
    tg_rng *rng = tg_rng_new(9);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *table = tg_tensor_new(dtype, TG_SHAPE(rows, width), &error),
              *queries = tg_tensor_new(dtype, TG_SHAPE(width, count_of_queries), &error);
    assert_true(tg_tensor_fill_normal(table, rng, 0, 1, &error) && tg_tensor_fill_normal(queries, rng, 0, 1, &error));
    tg_tensor *turned = tg_transpose(t, queries, 0, 1), *strided = tg_flip(t, table, TG_AXES(0));
    uint8_t *among = malloc((size_t)rows + 1);
    for (int64_t row = 0; row < rows; row++) {
        among[row] = row % 3 != 1;
    }
    size_t bytes = (size_t)(count_of_queries * count) * sizeof(tg_row_neighbor);
    tg_row_neighbor *lists = malloc(bytes + 1), *others = malloc(bytes + 1);
    for (int k = 0; k < 4; k++) {
        tg_similarity similarity = k % 2 ? TG_SIMILARITY_DOT : TG_SIMILARITY_COSINE;
        const tg_tensor *searched = k < 2 ? table : strided;
        for (int threads = 1; threads <= 3; threads++) {
            assert_true(tg_set_threads(threads, &error));
            memset(others, 0, bytes);
            assert_true(tg_tensor_neighbors(searched, turned, similarity, k > 1 ? among : NULL, count, others, &error));
            assert_true(threads == 1 || memcmp(lists, others, bytes) == 0);
            memcpy(lists, others, bytes);
        }
        for (int64_t query = 0; query < count_of_queries; query += 1 + count_of_queries / 20) {
            check_list(searched, turned, query, similarity, k > 1 ? among : NULL, count, lists + query * count);
        }
    }
    tg_set_threads(1, &error);
    free(among);
    free(lists);
    free(others);
    tg_tape_free(t);
    tg_release(table);
    tg_release(queries);
    tg_rng_free(rng);
}

static void test_beside_all_pairs(void **state)
{
    (void)state;
    check_search(TG_F32, 1300, 7, 3, 10); /* several strips, and one that is not whole */
    check_search(TG_F64, 1300, 7, 40, 1);
    check_search(TG_F32, 600, 33, 1100, 3); /* more queries than a pass */
    check_search(TG_F32, 5, 4, 2, 5);       /* all rows */
    check_search(TG_F64, 3000, 5, 2, 3000);
    check_search(TG_F64, 17, 1, 1, 17); /* cosines of 1 and -1 */
    check_search(TG_F32, 5, 4, 2, 0);
    check_search(TG_F32, 5, 4, 0, 2);
    check_search(TG_F32, 0, 4, 2, 0);
}

static void test_ties(void **state)
{
    (void)state;
    tg_tensor *table = tg_tensor_new_full(TG_F32, TG_SHAPE(1200, 3), 0.3, &error),
              *query = tensor_f32(TG_SHAPE(1, 3), (float[]){1, 2, -1});
    float *values = tg_tensor_data_mut(table);
    values[3 * 700] = 0.4F; /* nearer */
    tg_row_neighbor near[6];
    assert_true(tg_tensor_neighbors(table, query, TG_SIMILARITY_DOT, NULL, 6, near, &error));
    assert_int_equal(near[0].row, 700);
    for (int i = 1; i < 6; i++) {
        assert_int_equal(near[i].row, i - 1);
    }
    tg_release(table);
    tg_release(query);
}

/* What is not finite is nobody's neighbor. What is small or large is, where squares or products do not fit, too. */
static void test_odd_values(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        const double big = k ? 3e200 : 3e38, small = k ? 1e-200 : 1e-40;
        tg_tensor *rows =
            tensor_f64(TG_SHAPE(7, 2), (double[]){1, 1, INFINITY, 0, big, big, -small, 0, NAN, 1, -7, -7, 0, 0});
        tg_tensor *wanted = tensor_f64(TG_SHAPE(4, 2), (double[]){big, big, small, small, 0, 0, NAN, 1});
        tg_tensor *table = tg_tensor_new_cast(rows, k ? TG_F64 : TG_F32, &error),
                  *queries = tg_tensor_new_cast(wanted, k ? TG_F64 : TG_F32, &error);
        tg_row_neighbor near[4][7];
        assert_true(tg_tensor_neighbors(table, queries, TG_SIMILARITY_COSINE, NULL, 7, near[0], &error));
        const int64_t order[] = {0, 2, 6, 3, 5, -1, -1}, of_zero[] = {0, 2, 3, 5, 6, -1, -1};
        const double cosine[] = {1, 1, 0, -sqrt(0.5), -1, -(double)INFINITY, -(double)INFINITY};
        for (int i = 0; i < 7; i++) {
            for (int query = 0; query < 2; query++) {
                assert_int_equal(near[query][i].row, order[i]);
                assert_true(near[query][i].similarity == cosine[i] ||
                            fabs(near[query][i].similarity - cosine[i]) < 1e-15);
            }
            assert_int_equal(near[2][i].row, of_zero[i]);
            assert_true(near[2][i].similarity == (i < 5 ? 0 : -(double)INFINITY));
            assert_int_equal(near[3][i].row, -1);
        }
        /* a product that overflows a float is one of doubles */
        assert_true(tg_tensor_neighbors(table, queries, TG_SIMILARITY_DOT, NULL, 2, near[0], &error));
        assert_int_equal(near[0][0].row, 2);
        assert_true(k ? isinf(near[0][0].similarity) : near[0][0].similarity > 1e77);
        assert_int_equal(near[0][1].row, 0);
        tg_tensor *all[] = {rows, wanted, table, queries};
        for (int i = 0; i < 4; i++) {
            tg_release(all[i]);
        }
    }
}

static void refuse(const tg_tensor *table, const tg_tensor *queries, int similarity, int64_t count, tg_code code,
                   const char *message)
{
    tg_row_neighbor near[4] = {{7, 8}};
    assert_false(tg_tensor_neighbors(table, queries, (tg_similarity)similarity, NULL, count, near, &error));
    assert_error(&error, code, message);
    assert_true(near[0].row == 7 && near[0].similarity == 8);
    tg_error_clear(&error);
}

static void test_errors(void **state)
{
    (void)state;
    tg_tensor *table = tg_tensor_new(TG_F32, TG_SHAPE(3, 2), &error),
              *queries = tg_tensor_new(TG_F32, TG_SHAPE(1, 2), &error),
              *wide = tg_tensor_new(TG_F32, TG_SHAPE(1, 3), &error),
              *vector = tg_tensor_new(TG_F32, TG_SHAPE(2), &error),
              *doubles = tg_tensor_new(TG_F64, TG_SHAPE(1, 2), &error),
              *ids = tg_tensor_new(TG_I32, TG_SHAPE(3, 2), &error),
              *thin = tg_tensor_new(TG_F32, TG_SHAPE(3, 0), &error);
#define BOTH(table, queries) "tensor_neighbors: a table " table " and queries " queries "; "
    refuse(table, queries, 0, 4, TG_ERROR_RANGE, "tensor_neighbors: 4 neighbors; the table has 3 rows");
    refuse(table, queries, 0, -1, TG_ERROR_RANGE, "tensor_neighbors: -1 neighbors; the table has 3 rows");
    refuse(table, queries, 2, 1, TG_ERROR_VALUE,
           "tensor_neighbors: similarity 2 does not exist; it must be 0 (cosine) or 1 (dot)");
    refuse(table, wide, 0, 1, TG_ERROR_SHAPE, BOTH("(3,2)", "(1,3)") "they must be (V,C) and (N,C), C >= 1");
    refuse(table, vector, 0, 1, TG_ERROR_SHAPE, BOTH("(3,2)", "(2,)"));
    refuse(vector, queries, 0, 1, TG_ERROR_SHAPE, BOTH("(2,)", "(1,2)"));
    refuse(thin, thin, 0, 1, TG_ERROR_SHAPE, BOTH("(3,0)", "(3,0)"));
    refuse(table, doubles, 0, 1, TG_ERROR_DTYPE, BOTH("f32", "f64") "both must be f32, or both f64");
    refuse(ids, ids, 0, 1, TG_ERROR_DTYPE, BOTH("i32", "i32"));
    refuse(NULL, queries, 0, 1, TG_ERROR_STATE, "tensor_neighbors: the table is NULL");
    refuse(table, NULL, 0, 1, TG_ERROR_STATE, "tensor_neighbors: the queries tensor is NULL");
    assert_false(tg_tensor_neighbors(table, queries, TG_SIMILARITY_DOT, NULL, 1, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "tensor_neighbors: the array of neighbors is NULL");
    tg_tensor *all[] = {table, queries, wide, vector, doubles, ids, thin};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tg_release(all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_beside_all_pairs, set_up),
        cmocka_unit_test_setup(test_ties, set_up),
        cmocka_unit_test_setup(test_odd_values, set_up),
        cmocka_unit_test_setup(test_errors, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

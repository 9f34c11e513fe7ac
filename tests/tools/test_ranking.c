/* tg_ranking_add and tg_spearman: tests/goldens/rankings.txt has the values of sentence-transformers and scipy
 * (make_rankings.py). Sums over queries, layouts, dtypes, and errors. */
#include "support.h"

#include <math.h>

enum { MOST = 700 };

static tg_error error;

static int set_up(void **state)
{
    (void)state;
    tg_error_clear(&error);
    return 0;
}

static void read_numbers(FILE *file, double *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(fscanf(file, "%lf", &numbers[i]), 1);
    }
}

/* Compares the line of a query, and adds it to the sums. */
static void check_query(FILE *file, tg_ranking *sums)
{
    double head[5], rows[MOST];
    read_numbers(file, head, 5);
    int64_t k = (int64_t)head[0], count = (int64_t)head[1], relevant[MOST];
    read_numbers(file, rows, k + count);
    tg_row_neighbor results[MOST];
    for (int64_t i = 0; i < k; i++) {
        results[i] = (tg_row_neighbor){(int64_t)rows[i], 0};
    }
    for (int64_t i = 0; i < count; i++) {
        relevant[i] = (int64_t)rows[k + i];
    }
    tg_ranking one = {0};
    assert_true(tg_ranking_add(&one, results, k, relevant, count, &error));
    assert_int_equal(one.count, 1);
    assert_float_equal(one.recall, head[2], 1e-15);
    assert_float_equal(one.reciprocal_rank, head[3], 1e-15);
    assert_float_equal(one.ndcg, head[4], 1e-15);
    tg_ranking before = *sums;
    assert_true(tg_ranking_add(sums, results, k, relevant, count, &error));
    assert_int_equal(sums->count, before.count + 1);
    assert_float_equal(sums->recall, before.recall + head[2], 1e-14);
    assert_float_equal(sums->reciprocal_rank, before.reciprocal_rank + head[3], 1e-14);
    assert_float_equal(sums->ndcg, before.ndcg + head[4], 1e-14);
}

static void check_pairs(FILE *file)
{
    double head[2], values[MOST];
    read_numbers(file, head, 2);
    int64_t count = (int64_t)head[0];
    read_numbers(file, values, 2 * count);
    tg_tensor *a = tensor_f64(TG_SHAPE(count), values), *b = tensor_f64(TG_SHAPE(count), values + count);
    assert_float_equal(tg_spearman(a, b, &error), head[1], 1e-14);
    assert_float_equal(tg_spearman(b, a, &error), head[1], 1e-14);
    /* of another layout and dtype */
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *turned = tg_neg(t, tg_flip(t, b, TG_AXES(0)));
    assert_float_equal(tg_spearman(tg_flip(t, a, TG_AXES(0)), turned, &error), -head[1], 1e-14);
    assert_int_equal(error.code, TG_OK);
    tg_tape_free(t);
    tg_release(a);
    tg_release(b);
}

static void test_goldens(void **state)
{
    (void)state;
    FILE *file = fopen(TG_TEST_GOLDENS "/rankings.txt", "r");
    assert_non_null(file);
    char kind[8];
    int queries = 0, pairs = 0;
    tg_ranking sums = {0};
    while (fscanf(file, "%7s", kind) == 1) {
        if (kind[0] == 'q') {
            check_query(file, &sums);
            queries++;
        } else {
            check_pairs(file);
            pairs++;
        }
    }
    fclose(file);
    assert_int_equal(queries, 38);
    assert_int_equal(pairs, 7);
}

static void refuse(const tg_row_neighbor *results, int64_t k, const int64_t *relevant, int64_t count,
                   const char *message)
{
    tg_ranking ranking = {1, 2, 3, 4};
    assert_false(tg_ranking_add(&ranking, results, k, relevant, count, &error));
    assert_error(&error, results && relevant ? TG_ERROR_VALUE : TG_ERROR_STATE, message);
    assert_true(ranking.count == 1 && ranking.recall == 2 && ranking.reciprocal_rank == 3 && ranking.ndcg == 4);
    tg_error_clear(&error);
}

static void refuse_pair(const tg_tensor *a, const tg_tensor *b, tg_code code, const char *message)
{
    assert_true(isnan(tg_spearman(a, b, &error)));
    assert_error(&error, code, message);
    tg_error_clear(&error);
}

static void test_errors(void **state)
{
    (void)state;
    const tg_row_neighbor results[] = {{3, 1}, {4, 0.5}};
    const int64_t relevant[] = {4};
    refuse(results, 0, relevant, 1, "ranking_add: 0 results and 1 relevant rows; both must be 1 or more");
    refuse(results, 2, relevant, 0, "ranking_add: 2 results and 0 relevant rows; both must be 1 or more");
    refuse(results, -2, relevant, 1, "ranking_add: -2 results and 1 relevant rows; both must be 1 or more");
    refuse(NULL, 2, relevant, 1, "ranking_add: the results are NULL");
    refuse(results, 2, NULL, 1, "ranking_add: the relevant rows are NULL");
    assert_false(tg_ranking_add(NULL, results, 2, relevant, 1, &error));
    assert_error(&error, TG_ERROR_STATE, "ranking_add: the ranking is NULL");
    tg_tensor *x = tensor_f64(TG_SHAPE(3), (double[]){1, 3, 2}), *same = tensor_f64(TG_SHAPE(3), (double[]){4, 4, 4}),
              *odd = tensor_f64(TG_SHAPE(3), (double[]){1, NAN, 2}),
              *other = tensor_f64(TG_SHAPE(1, 3), (double[]){1, 2, 3}), *one = tensor_f64(TG_SHAPE(1), (double[]){5}),
              *none = tg_tensor_new(TG_F32, TG_SHAPE(0), &error);
    refuse_pair(x, other, TG_ERROR_SHAPE, "spearman: tensors (3,) and (1,3); they must have one shape");
    refuse_pair(x, odd, TG_ERROR_VALUE, "spearman: a value is NaN; the ranks have no correlation");
    refuse_pair(odd, same, TG_ERROR_VALUE, "spearman: a value is NaN");
    refuse_pair(same, x, TG_ERROR_VALUE, "spearman: all values of a tensor are equal; the ranks have no correlation");
    refuse_pair(one, one, TG_ERROR_VALUE, "spearman: all values of a tensor are equal");
    refuse_pair(none, none, TG_ERROR_VALUE, "spearman: all values of a tensor are equal");
    refuse_pair(NULL, x, TG_ERROR_STATE, "spearman: the first tensor is NULL");
    refuse_pair(x, NULL, TG_ERROR_STATE, "spearman: the second tensor is NULL");
    tg_tensor *all[] = {x, same, odd, other, one, none};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        tg_release(all[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_goldens, set_up),
        cmocka_unit_test_setup(test_errors, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Embedding's options beyond the lookup: max_norm, bags, frozen and tied tables, and what is refused. */
#include "support.h"

#include <math.h>

static tg_tape *tape;
static tg_tensor *table;

static int set_up(void **state)
{
    (void)state;
    tape = tg_tape_new(NULL);
    table = leaf(tensor_f64(TG_SHAPE(4, 2), (double[]){3, 4, 0.3, 0.4, -6, 8, 1, 0}));
    return tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_release(table);
    tg_tape_free(tape);
    return 0;
}

/* torch.embedding_renorm_: rows 0 and 2 have norms 5 and 10. */
static void test_renorm(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){2, 1, 2, 3});
    uint64_t version = tg_version_of(table);
    assert_true(tg_embedding_renorm(tape, table, ids, 2, 2));
    double cut = 2 / (10 + 1e-7);
    assert_values(table, (double[]){3, 4, 0.3, 0.4, -6 * cut, 8 * cut, 1, 0}, 8, 1e-15, 0); /* row 0 was not named */
    assert_true(tg_version_of(table) > version);
    ((int32_t *)tg_data_mut(ids))[0] = 0;
    assert_true(tg_embedding_renorm(tape, table, ids, 3.5, 1)); /* norms of order 1: 7, 0.7, 2.8 and 1 */
    cut = 3.5 / (7 + 1e-7);
    assert_true(fabs(tg_value_at(table, 1) - 4 * cut) < 1e-15);
    assert_true(tg_embedding_renorm(tape, table, ids, 1, (double)INFINITY)); /* the largest value: 2 in row 0 */
    assert_true(fabs(tg_value_at(table, 1) - 1) < 1e-6);
    tg_release(ids);
}

/* A product that saved the table sees that it changed. */
static void test_renorm_moves_the_version(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(1), (int32_t[]){0});
    tg_tensor *square = tg_sum(tape, tg_mul(tape, table, table), TG_ALL_AXES, TG_DROP_AXES);
    assert_true(tg_embedding_renorm(tape, table, ids, 1, 2));
    assert_false(tg_backward(tape, square));
    assert_tape_error(tape, TG_ERROR_STATE, "input 0 of 'mul' was changed in place");
    tg_release(ids);
}

static void test_renorm_refuses(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 4});
    uint64_t version = tg_version_of(table);
    assert_false(tg_embedding_renorm(tape, table, ids, 1, 2));
    assert_tape_error(tape, TG_ERROR_RANGE, "embedding_renorm: id 4 at [1] is outside [0,4)");
    assert_false(tg_embedding_renorm(tape, table, ids, -1, 2));
    assert_tape_error(tape, TG_ERROR_VALUE, "embedding_renorm: max_norm -1 and p 2; both must be above 0");
    assert_false(tg_embedding_renorm(tape, table, ids, (double)NAN, 2));
    assert_tape_error(tape, TG_ERROR_VALUE, "max_norm nan");
    assert_false(tg_embedding_renorm(tape, table, ids, 1, 0));
    assert_tape_error(tape, TG_ERROR_VALUE, "p 0;");
    assert_false(tg_embedding_renorm(tape, tg_exp(tape, table), ids, 1, 2));
    assert_tape_error(tape, TG_ERROR_STATE, "the result of a recorded op");
    assert_false(tg_embedding_renorm(tape, table, NULL, 1, 2));
    assert_tape_error(tape, TG_ERROR_STATE, "the ids are NULL");
    assert_true(tg_version_of(table) == version && tg_value_at(table, 0) == 3);
    tg_release(ids);
}

/* Each row's share of a sum is 1, however often the call names it. */
static void test_by_frequency(void **state)
{
    (void)state;
    for (int32_t most = 1; most < 40; most += 3) {
        int32_t ids[100];
        bool named[100] = {false};
        for (int32_t i = 0; i < 100; i++) {
            ids[i] = (i * i * 7 + i * most) % (2 * most);
            named[ids[i]] = true;
        }
        tg_tensor *wide = leaf(tg_tensor_new(TG_F64, TG_SHAPE(100, 1), NULL)), *all = tensor_i32(TG_SHAPE(100), ids);
        tg_tensor *y = tg_embedding_lookup_with(tape, wide, all, &(tg_lookup_config){TG_NO_PADDING, true});
        assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES)));
        tg_tensor *gradient = tg_grad_new_dense(wide, NULL);
        for (int32_t row = 0; row < 100; row++) {
            assert_true(fabs(tg_value_at(gradient, row) - (named[row] ? 1 : 0)) < 1e-13);
        }
        tg_release(gradient);
        tg_release(wide);
        tg_release(all);
    }
}

static tg_tensor *bag(tg_bag_mode mode, int64_t padding, tg_tensor *ids, tg_tensor *offsets, tg_tensor *weights)
{
    tg_embedding_bag_config config = {mode, padding, offsets, weights, false, false};
    return tg_embedding_bag(tape, table, ids, &config);
}

static void test_bags_keep_rows(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){0, 2, 2, 0});
    tg_tensor *y = bag(TG_BAG_SUM, TG_NO_PADDING, ids, NULL, NULL);
    assert_values(y, (double[]){-3, 12, -3, 12}, 4, 0, 0);
    assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES)));
    assert_int_equal(tg_gradient_kind_of(table), TG_GRADIENT_ROWS);
    assert_int_equal(tg_grad_rows(table).count, 2);
    tg_release(ids);
}

/* Row 1 comes twice and row 3 once: each gives its gradient's mean. (torch 2.13's bags halve row 3's as well.) */
static void test_bags_by_frequency(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(1, 3), (int32_t[]){1, 1, 3}),
              *dy = tensor_f64(TG_SHAPE(1, 2), (double[]){6, 3});
    for (int mode = TG_BAG_SUM; mode <= TG_BAG_MEAN; mode++) {
        tg_embedding_bag_config config = {(tg_bag_mode)mode, TG_NO_PADDING, NULL, NULL, false, true};
        tg_zero_grad(table);
        assert_true(tg_backward_seed(tape, tg_embedding_bag(tape, table, ids, &config), dy));
        tg_tensor *gradient = tg_grad_new_dense(table, NULL);
        double n = mode == TG_BAG_MEAN ? 3 : 1;
        assert_values(gradient, (double[]){0, 0, 6 / n, 3 / n, 0, 0, 6 / n, 3 / n}, 8, 1e-15, 0);
        tg_release(gradient);
    }
    tg_release(ids);
    tg_release(dy);
}

static void test_bags_without_entries(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 1}),
              *offsets = tensor_i32(TG_SHAPE(3), (int32_t[]){0, 0, 2});
    for (int mode = 0; mode < 3; mode++) {
        tg_tensor *y = bag((tg_bag_mode)mode, 1, ids, offsets, NULL);
        assert_values(y, (double[]){0, 0, 0, 0, 0, 0}, 6, 0, 0);
        assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES)));
    }
    assert_int_equal(tg_grad_rows(table).count, 0);
    tg_release(ids);
    tg_release(offsets);
}

static void test_bags_refuse(void **state)
{
    (void)state;
    tg_tensor *flat = tensor_i32(TG_SHAPE(4), (int32_t[]){0, 1, 2, 3}),
              *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){0, 1, 2, 3});
    tg_tensor *falling = tensor_i32(TG_SHAPE(3), (int32_t[]){0, 3, 2}),
              *beyond = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 5});
    tg_tensor *late = tensor_i32(TG_SHAPE(1), (int32_t[]){1}),
              *weights = tensor_f64(TG_SHAPE(2, 2), (double[]){1, 2, 3, 4});
    bag(TG_BAG_SUM, TG_NO_PADDING, flat, falling, NULL);
    assert_tape_error(tape, TG_ERROR_RANGE,
                      "embedding_bag: offset 2 at [2]; the first is 0, none is below the one before (3)");
    bag(TG_BAG_SUM, TG_NO_PADDING, flat, beyond, NULL);
    assert_tape_error(tape, TG_ERROR_RANGE,
                      "offset 5 at [1]; the first is 0, none is below the one before (0) or beyond the 4 ids");
    bag(TG_BAG_SUM, TG_NO_PADDING, flat, late, NULL);
    assert_tape_error(tape, TG_ERROR_RANGE, "offset 1 at [0]; the first is 0");
    bag(TG_BAG_SUM, TG_NO_PADDING, flat, NULL, NULL);
    assert_tape_error(tape, TG_ERROR_SHAPE, "input 1 has shape (4,); it must have rank 2");
    bag(TG_BAG_SUM, TG_NO_PADDING, ids, late, NULL);
    assert_tape_error(tape, TG_ERROR_SHAPE, "input 1 has shape (2,2); it must have rank 1");
    bag(TG_BAG_MEAN, TG_NO_PADDING, ids, NULL, weights);
    assert_tape_error(tape, TG_ERROR_VALUE, "embedding_bag: weights go with TG_BAG_SUM alone");
    bag((tg_bag_mode)9, TG_NO_PADDING, ids, NULL, NULL);
    assert_tape_error(tape, TG_ERROR_VALUE, "9 is not a mode of bags");
    tg_embedding_bag_config ends = {TG_BAG_SUM, TG_NO_PADDING, late, NULL, true, false};
    ends.offsets = tg_slice(tape, falling, 0, 0, 2, 1); /* 0 3 */
    tg_embedding_bag(tape, table, flat, &ends);
    assert_tape_error(tape, TG_ERROR_RANGE, "the last of 2 offsets is where the last bag ends: it must be 4");
    ends.offsets = tg_slice(tape, falling, 0, 0, 0, 1);
    tg_embedding_bag(tape, table, flat, &ends);
    assert_tape_error(tape, TG_ERROR_RANGE, "the last of 0 offsets is where the last bag ends: it must be 4");
    tg_embedding_bag(tape, table, ids, &(tg_embedding_bag_config){TG_BAG_MAX, TG_NO_PADDING, NULL, NULL, false, true});
    assert_tape_error(tape, TG_ERROR_VALUE, "scaling by frequency goes with sums and means, not with maxima");
    bag(TG_BAG_SUM, 4, ids, NULL, NULL);
    assert_tape_error(tape, TG_ERROR_RANGE, "embedding_bag: padding index 4 is outside [-4,4)");
    tg_release(flat);
    tg_release(ids);
    tg_release(falling);
    tg_release(beyond);
    tg_release(late);
    tg_release(weights);
}

/* With the head tied to the table the padding row gets no gradient from the lookup, but its share from the product. */
static void test_padding_under_tying(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 1});
    tg_tensor *x = tg_embedding_lookup_with(tape, table, ids, &(tg_lookup_config){1, false});
    assert_true(tg_backward(tape, tg_sum(tape, tg_linear_map(tape, x, table), TG_ALL_AXES, TG_DROP_AXES)));
    tg_tensor *gradient = tg_grad(table);
    /* the product gives every row the sum of x, (3.3,4.4); the lookup gives row 0 the sum of the table, (-1.7,12.4) */
    assert_values(gradient, (double[]){3.3 - 1.7, 4.4 + 12.4, 3.3, 4.4, 3.3, 4.4, 3.3, 4.4}, 8, 1e-14, 0);
    tg_release(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_renorm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_renorm_moves_the_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_renorm_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_by_frequency, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_keep_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_by_frequency, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_without_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_refuse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_padding_under_tying, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

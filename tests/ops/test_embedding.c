/* Embedding: max_norm, bags, frozen and tied tables, and errors. */
#include "base/level.h"
#include "ops/calls.h"
#include "support.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

static tg_tape *tape;
static tg_tensor *table;

static int set_up(void **state)
{
    (void)state;
    tape = tg_tape_new(NULL, NULL);
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

/* A lookup that first scales the rows of the ids down. */
static tg_tensor *limited(tg_tensor *of, tg_tensor *ids, double max_norm, double p)
{
    tg_embedding_config config = tg_embedding_config_default();
    config.max_norm = max_norm;
    config.norm_type = p;
    return tg_embedding(tape, ids, of, &config);
}

/* torch.embedding_renorm_: rows 0 and 2 have norms 5 and 10. */
static void test_max_norm(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){2, 1, 2, 3});
    uint64_t version = tg_storage_version(table);
    tg_tensor *y = limited(table, ids, 2, 2);
    double cut = 2 / (10 + 1e-7);
    /* row 0 was not named */
    assert_values(table, (double[]){3, 4, 0.3, 0.4, -6 * cut, 8 * cut, 1, 0}, 8, 1e-15, 0);
    assert_values(y, (double[]){-6 * cut, 8 * cut, 0.3, 0.4, -6 * cut, 8 * cut, 1, 0}, 8, 1e-15, 0);
    assert_true(tg_storage_version(table) > version);
    ((int32_t *)tg_tensor_data_mut(ids))[0] = 0;
    /* norms of order 1: 7, 0.7, 2.8 and 1 */
    assert_non_null(limited(table, ids, 3.5, 1));
    cut = 3.5 / (7 + 1e-7);
    assert_true(fabs(tg_tensor_value_at(table, 1) - 4 * cut) < 1e-15);
    /* the largest value: 2 in row 0 */
    assert_non_null(limited(table, ids, 1, (double)INFINITY));
    assert_true(fabs(tg_tensor_value_at(table, 1) - 1) < 1e-6);
    /* 0 is no limit */
    version = tg_storage_version(table);
    assert_non_null(limited(table, ids, 0, 2));
    assert_true(tg_storage_version(table) == version);
    tg_release(ids);
}

/* A product that saved the table sees that it changed. */
static void test_max_norm_moves_the_version(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(1), (int32_t[]){0});
    tg_tensor *square = tg_sum(tape, tg_mul(tape, table, table), TG_ALL_AXES, TG_DROP_AXES);
    assert_non_null(limited(table, ids, 1, 2));
    assert_false(tg_backward(tape, square, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "input 0 of 'mul' was changed in place");
    tg_release(ids);
}

/* A bag's weights get the products with the rows as they are after the limit. */
static void test_max_norm_of_bags(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(1, 3), (int32_t[]){2, 1, 2});
    tg_tensor *weights = leaf(tensor_f64(TG_SHAPE(1, 3), (double[]){1, 2, 3}));
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.mode = TG_BAG_SUM;
    config.weights = weights;
    config.max_norm = 2;
    tg_tensor *y = tg_embedding_bag(tape, ids, table, &config);
    double cut = 2 / (10 + 1e-7);
    assert_values(table, (double[]){3, 4, 0.3, 0.4, -6 * cut, 8 * cut, 1, 0}, 8, 1e-15, 0);
    assert_values(y, (double[]){-24 * cut + 0.6, 32 * cut + 0.8}, 2, 1e-15, 0);
    assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_values(tg_tensor_grad(weights), (double[]){2 * cut, 0.7, 2 * cut}, 3, 1e-14, 0);
    tg_tensor *gradient = tg_tensor_new_dense_grad(table, NULL);
    assert_values(gradient, (double[]){0, 0, 2, 2, 4, 4, 0, 0}, 8, 0, 0);
    tg_release(gradient);
    tg_release(weights);
    tg_release(ids);
}

/* Without recording the results have the same bits, and the table does not change: other threads may read it. */
static void test_max_norm_without_recording(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 3), (int32_t[]){2, 1, 2, 3, 0, 0});
    tg_tensor *before = tg_tensor_new_copy(table, NULL);
    tg_tensor *weights = tensor_f64(TG_SHAPE(2, 3), (double[]){1, 2, 3, -1, 0.5, 4});
    uint64_t version = tg_storage_version(table);
    assert_true(tg_tensor_set_rows_frozen(table, 0, 1, true, NULL));
    for (int form = 0; form < 5; form++) { /* a lookup, and bags: three modes, and weights */
        tg_tensor *results[2];
        for (int recording = 0; recording < 2; recording++) {
            tg_tape_set_recording(tape, recording);
            tg_embedding_bag_config config = tg_embedding_bag_config_default();
            config.mode = form == 4 ? TG_BAG_SUM : (tg_bag_mode)(form - 1);
            config.weights = form == 4 ? weights : NULL;
            config.max_norm = 2;
            config.padding_index = 1;
            results[recording] = form == 0 ? limited(table, ids, 2, 2) : tg_embedding_bag(tape, ids, table, &config);
            assert_non_null(results[recording]);
            if (!recording) {
                assert_true(tg_storage_version(table) == version);
                assert_memory_equal(tg_tensor_data(table), tg_tensor_data(before), 8 * sizeof(double));
            }
        }
        assert_memory_equal(tg_tensor_data(results[0]), tg_tensor_data(results[1]),
                            (size_t)tg_tensor_count(results[0]) * sizeof(double));
        assert_true(tg_tensor_value_at(table, 5) == 8 * (2 / (10 + 1e-7)));
        assert_true(tg_tensor_value_at(table, 0) == 3); /* frozen */
        assert_true(tg_tensor_copy_from(table, before, NULL));
        version = tg_storage_version(table);
    }
    tg_tape_set_recording(tape, true);
    tg_release(before);
    tg_release(weights);
    tg_release(ids);
}

/* A table whose lookup names no row that counts has a gradient without rows, as torch's table has one of zeros. */
static void test_gradient_without_rows(void **state)
{
    (void)state;
    tg_tensor *none = tensor_i32(TG_SHAPE(0), NULL), *padding = tensor_i32(TG_SHAPE(1, 2), (int32_t[]){3, 3});
    tg_tensor *offsets = tensor_i32(TG_SHAPE(1), (int32_t[]){0});
    for (int form = 0; form < 5; form++) {
        tg_tensor_zero_grad(table);
        assert_true(form < 4 || tg_tensor_set_rows_frozen(table, 3, 1, true, NULL));
        tg_tensor *y = form == 0   ? embed(tape, none, table, TG_NO_PADDING, false)
                       : form == 1 ? embed(tape, padding, table, 3, false)
                       : form == 2 ? embed_bags(tape, padding, table, TG_BAG_SUM, 3, NULL, NULL)
                       : form == 3 ? embed_bags(tape, none, table, TG_BAG_MAX, TG_NO_PADDING, offsets, NULL)
                                   : embed(tape, padding, table, TG_NO_PADDING, false);
        assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
        assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_ROWS);
        assert_int_equal(tg_tensor_grad_rows(table).count, 0);
        tg_tensor *dense = tg_tensor_new_dense_grad(table, NULL);
        assert_values(dense, (double[]){0, 0, 0, 0, 0, 0, 0, 0}, 8, 0, 0);
        tg_release(dense);
        /* a dense contribution follows */
        assert_true(tg_backward(tape, tg_sum(tape, table, TG_ALL_AXES, TG_DROP_AXES), NULL));
        double last = form < 4;
        assert_values(tg_tensor_grad(table), (double[]){1, 1, 1, 1, 1, 1, last, last}, 8, 0, 0);
        tg_tape_reset(tape);
    }
    tg_release(none);
    tg_release(padding);
    tg_release(offsets);
}

static void test_max_norm_refuses(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 4});
    uint64_t version = tg_storage_version(table);
    assert_null(limited(table, ids, 1, 2));
    assert_tape_error(tape, TG_ERROR_RANGE, "embedding: id 4 at [1] is outside [0,4)");
    ((int32_t *)tg_tensor_data_mut(ids))[1] = 3;
    assert_null(limited(table, ids, -1, 2));
    assert_tape_error(tape, TG_ERROR_VALUE,
                      "embedding: max_norm -1 and norm_type 2; max_norm must be at least 0 (0: no limit)");
    assert_null(limited(table, ids, (double)NAN, 2));
    assert_tape_error(tape, TG_ERROR_VALUE, "max_norm nan");
    assert_null(limited(table, ids, 1, 0));
    assert_tape_error(tape, TG_ERROR_VALUE, "norm_type 0;");
    assert_null(limited(tg_exp(tape, table), ids, 1, 2));
    assert_tape_error(tape, TG_ERROR_STATE,
                      "max_norm changes the table in place, so the table must be a contiguous leaf");
    assert_null(limited(table, NULL, 1, 2));
    assert_tape_error(tape, TG_ERROR_STATE, "embedding: argument 'ids' is NULL");
    assert_true(tg_storage_version(table) == version && tg_tensor_value_at(table, 0) == 3);
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
        tg_tensor *y = embed(tape, all, wide, TG_NO_PADDING, true);
        assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
        tg_tensor *gradient = tg_tensor_new_dense_grad(wide, NULL);
        for (int32_t row = 0; row < 100; row++) {
            assert_true(fabs(tg_tensor_value_at(gradient, row) - (named[row] ? 1 : 0)) < 1e-13);
        }
        tg_release(gradient);
        tg_release(wide);
        tg_release(all);
    }
}

static tg_tensor *bag(tg_bag_mode mode, int64_t padding, tg_tensor *ids, tg_tensor *offsets, tg_tensor *weights)
{
    return embed_bags(tape, ids, table, mode, padding, offsets, weights);
}

static void test_bags_keep_rows(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){0, 2, 2, 0});
    tg_tensor *y = bag(TG_BAG_SUM, TG_NO_PADDING, ids, NULL, NULL);
    assert_values(y, (double[]){-3, 12, -3, 12}, 4, 0, 0);
    assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_ROWS);
    assert_int_equal(tg_tensor_grad_rows(table).count, 2);
    tg_release(ids);
}

/* Row 1 comes twice and row 3 once: each gives its gradient's mean. (torch 2.13's bags halve row 3's as well.) */
static void test_bags_by_frequency(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(1, 3), (int32_t[]){1, 1, 3}),
              *dy = tensor_f64(TG_SHAPE(1, 2), (double[]){6, 3});
    for (int mode = TG_BAG_SUM; mode <= TG_BAG_MEAN; mode++) {
        tg_embedding_bag_config config = tg_embedding_bag_config_default();
        config.mode = (tg_bag_mode)mode;
        config.scale_by_frequency = true;
        tg_tensor_zero_grad(table);
        assert_true(backward_from(tape, tg_embedding_bag(tape, ids, table, &config), dy));
        tg_tensor *gradient = tg_tensor_new_dense_grad(table, NULL);
        double n = mode == TG_BAG_MEAN ? 3 : 1;
        assert_values(gradient, (double[]){0, 0, 6 / n, 3 / n, 0, 0, 6 / n, 3 / n}, 8, 1e-15, 0);
        tg_release(gradient);
    }
    tg_release(ids);
    tg_release(dy);
}

/* One leaf is the table and the weights of its bags: it gets both gradients, torch's, which are dense. y is
 * sum_i w[i] T[0], so row 0 gets the sum of the weights, 10, and each weight the sum of row 0, 3. */
static void test_bags_weighted_by_their_table(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 2), (int32_t[]){0, 0, 0, 0});
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2, 2), (double[]){1, 2, 3, 4}));
    tg_embedding_bag_config config = tg_embedding_bag_config_default();
    config.mode = TG_BAG_SUM;
    config.weights = x;
    for (int pass = 1; pass <= 2; pass++) {
        tg_tensor *y = tg_embedding_bag(tape, ids, x, &config);
        assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
        assert_values(tg_tensor_grad(x), (double[]){13 * pass, 13 * pass, 3 * pass, 3 * pass}, 4, 1e-14, 0);
    }
    /* rows that a lookup has left before stay */
    tg_tensor_zero_grad(x);
    tg_tensor *last = tensor_i32(TG_SHAPE(1), (int32_t[]){1});
    assert_true(tg_backward(tape, tg_sum(tape, tg_embedding(tape, last, x, NULL), TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_int_equal(tg_tensor_grad_kind(x), TG_GRAD_ROWS);
    tg_tensor *y = tg_embedding_bag(tape, ids, x, &config);
    assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_values(tg_tensor_grad(x), (double[]){13, 13, 4, 4}, 4, 1e-14, 0);
    tg_release(last);
    tg_release(ids);
    tg_release(x);
}

static void test_bags_without_entries(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 1}),
              *offsets = tensor_i32(TG_SHAPE(3), (int32_t[]){0, 0, 2});
    for (int mode = 0; mode < 3; mode++) {
        tg_tensor *y = bag((tg_bag_mode)mode, 1, ids, offsets, NULL);
        assert_values(y, (double[]){0, 0, 0, 0, 0, 0}, 6, 0, 0);
        assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    }
    assert_int_equal(tg_tensor_grad_rows(table).count, 0);
    tg_release(ids);
    tg_release(offsets);
    /* no ids at all: as with padding alone, the table has a gradient without rows */
    tg_tensor_zero_grad(table);
    ids = tensor_i32(TG_SHAPE(0), (int32_t[]){0});
    offsets = tensor_i32(TG_SHAPE(2), (int32_t[]){0, 0});
    tg_tensor *y = bag(TG_BAG_SUM, TG_NO_PADDING, ids, offsets, NULL);
    assert_values(y, (double[]){0, 0, 0, 0}, 4, 0, 0);
    assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_ROWS);
    assert_int_equal(tg_tensor_grad_rows(table).count, 0);
    tg_release(ids);
    tg_release(offsets);
}

/* Bags of 0 to 11 entries, with the padding row 1 among them: some rows are added at once, in the order of the ids. */
static void test_order_of_bags(void **state)
{
    (void)state;
    enum { BAGS = 12, IDS = BAGS * (BAGS - 1) / 2, ROWS = 7, WIDTH = 37 };
    int32_t ids[IDS], offsets[BAGS];
    float values[ROWS * WIDTH], factors[IDS], expected[BAGS * WIDTH];
    const tg_cpu_level level = tg_get_cpu_level();
    for (int i = 0; i < ROWS * WIDTH; i++) {
        values[i] = i == 5 ? NAN : i == 6 ? INFINITY : i == 7 ? -0.0F : i == 8 ? 1e-42F : (float)(i % 101 - 50) / 7;
    }
    for (int i = 0; i < IDS; i++) {
        ids[i] = i * 5 % ROWS;
        factors[i] = (float)(i % 13) / 3;
    }
    for (int weighted = 0; weighted < 2; weighted++) {
        memset(expected, 0, sizeof expected);
        for (int b = 0, i = 0; b < BAGS; b++) {
            offsets[b] = i;
            for (int end = i + b; i < end; i++) {
                for (int c = 0; ids[i] != 1 && c < WIDTH; c++) {
                    expected[b * WIDTH + c] += (weighted ? factors[i] : 1) * values[ids[i] * WIDTH + c];
                }
            }
        }
        tg_tensor *w = tensor_f32(TG_SHAPE(ROWS, WIDTH), values), *x = tensor_i32(TG_SHAPE(IDS), ids);
        tg_tensor *starts = tensor_i32(TG_SHAPE(BAGS), offsets), *weights = tensor_f32(TG_SHAPE(IDS), factors);
        tg_embedding_bag_config config = tg_embedding_bag_config_default();
        config.mode = TG_BAG_SUM;
        config.offsets = starts;
        config.padding_index = 1;
        config.weights = weighted ? weights : NULL;
        for (int l = 0; l <= tg_level_highest(); l++) {
            assert_true(tg_set_cpu_level((tg_cpu_level)l, NULL));
            tg_tape *t = tg_tape_new(NULL, NULL);
            const float *y = tg_tensor_data(tg_embedding_bag(t, x, w, &config));
            for (int i = 0; i < BAGS * WIDTH; i++) {
                assert_true(isnan(expected[i]) ? isnan(y[i]) : memcmp(&y[i], &expected[i], sizeof *y) == 0);
            }
            tg_tape_free(t);
        }
        tg_release(w);
        tg_release(x);
        tg_release(starts);
        tg_release(weights);
    }
    assert_true(tg_set_cpu_level(level, NULL));
}

/* The bags are {0} and {0,2}, and the ids 3 and 0 behind them do not count: in no mode, and not in the number of times
 * that an id is named. Their rows and weights get no gradient. */
static void test_ids_behind_the_last_bag(void **state)
{
    (void)state;
    static const double results[][4] = {{3, 4, -3, 12}, {3, 4, -1.5, 6}, {3, 4, 3, 8}};
    static const double gradients[][8] = {
        {2, 2, 0, 0, 1, 1, 0, 0}, {1.5, 1.5, 0, 0, 0.5, 0.5, 0, 0}, {2, 1, 0, 0, 0, 1, 0, 0}};
    tg_tensor *ids = tensor_i32(TG_SHAPE(5), (int32_t[]){0, 0, 2, 3, 0}),
              *offsets = tensor_i32(TG_SHAPE(3), (int32_t[]){0, 1, 3}),
              *weights = leaf(tensor_f64(TG_SHAPE(5), (double[]){1, 1, 1, 1, 1}));
    for (int run = 0; run < 5; run++) {
        tg_embedding_bag_config config = tg_embedding_bag_config_default();
        config.mode = run < 3 ? (tg_bag_mode)run : TG_BAG_SUM;
        config.offsets = offsets;
        config.last_offset = true;
        config.weights = run == 3 ? weights : NULL;
        config.scale_by_frequency = run == 4; /* id 0 is named twice in the bags */
        tg_tensor *y = tg_embedding_bag(tape, ids, table, &config);
        assert_values(y, results[run % 3 * (run < 3)], 4, 1e-15, 0);
        assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
        assert_int_equal(tg_tensor_grad_rows(table).count, 2);
        tg_tensor *gradient = tg_tensor_new_dense_grad(table, NULL);
        const double by_frequency[] = {1, 1, 0, 0, 1, 1, 0, 0};
        assert_values(gradient, run == 4 ? by_frequency : gradients[run % 3], 8, 1e-15, 0);
        tg_release(gradient);
        tg_tensor_zero_grad(table);
        tg_tape_reset(tape);
    }
    assert_values(tg_tensor_grad(weights), (double[]){7, 7, 2, 0, 0}, 5, 1e-15, 0);
    tg_release(weights);
    tg_release(offsets);
    tg_release(ids);
}

/* Offsets without an entry, or with the end of no bag alone: no bag, and no gradient, whatever the ids are. */
static void test_ids_without_a_bag(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2), (int32_t[]){1, 2}), *zero = tensor_i32(TG_SHAPE(1), (int32_t[]){0});
    for (int run = 0; run < 6; run++) {
        tg_embedding_bag_config config = tg_embedding_bag_config_default();
        config.mode = (tg_bag_mode)(run % 3);
        config.last_offset = run / 3;
        config.offsets = run / 3 ? zero : tg_slice(tape, zero, 0, 0, 0, 1);
        tg_tensor *y = tg_embedding_bag(tape, ids, table, &config);
        assert_string_equal(tg_tape_error(tape)->text, "");
        assert_true(tg_shape_equal(tg_tensor_shape(y), TG_SHAPE(0, 2)));
        assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
        assert_int_equal(tg_tensor_grad_rows(table).count, 0);
        tg_tape_reset(tape);
    }
    tg_release(zero);
    tg_release(ids);
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
    assert_tape_error(
        tape, TG_ERROR_RANGE,
        "embedding_bag: offset 2 at [2]; the first must be 0, and each must be at least the one before (3)");
    bag(TG_BAG_SUM, TG_NO_PADDING, flat, beyond, NULL);
    assert_tape_error(
        tape, TG_ERROR_RANGE,
        "offset 5 at [1]; the first must be 0, and each must be at least the one before (0) and at most 4, "
        "the number of ids");
    bag(TG_BAG_SUM, TG_NO_PADDING, flat, late, NULL);
    assert_tape_error(tape, TG_ERROR_RANGE, "offset 1 at [0]; the first must be 0");
    bag(TG_BAG_SUM, TG_NO_PADDING, flat, NULL, NULL);
    assert_tape_error(tape, TG_ERROR_SHAPE, "argument 'ids' has shape (4,); it must have rank 2");
    bag(TG_BAG_SUM, TG_NO_PADDING, ids, late, NULL);
    assert_tape_error(tape, TG_ERROR_SHAPE, "argument 'ids' has shape (2,2); it must have rank 1");
    bag(TG_BAG_MEAN, TG_NO_PADDING, ids, NULL, weights);
    assert_tape_error(tape, TG_ERROR_VALUE, "embedding_bag: weights need TG_BAG_SUM; the mode is TG_BAG_MEAN");
    bag((tg_bag_mode)9, TG_NO_PADDING, ids, NULL, NULL);
    assert_tape_error(tape, TG_ERROR_VALUE, "mode 9 does not exist");
    tg_embedding_bag_config ends = tg_embedding_bag_config_default(), maxima = ends;
    ends.mode = TG_BAG_SUM;
    ends.last_offset = true;
    ends.offsets = beyond;
    tg_embedding_bag(tape, flat, table, &ends);
    assert_tape_error(tape, TG_ERROR_RANGE, "offset 5 at [1]; the first must be 0");
    ends.offsets = tg_slice(tape, falling, 0, 0, 0, 1);
    tg_embedding_bag(tape, flat, table, &ends);
    assert_tape_error(tape, TG_ERROR_RANGE,
                      "embedding_bag: the offsets are empty; with last_offset they must hold the end of the last bag");
    maxima.mode = TG_BAG_MAX;
    maxima.scale_by_frequency = true;
    tg_embedding_bag(tape, ids, table, &maxima);
    assert_tape_error(tape, TG_ERROR_VALUE, "scale_by_frequency is not allowed with TG_BAG_MAX");
    bag(TG_BAG_SUM, 4, ids, NULL, NULL);
    assert_tape_error(tape, TG_ERROR_RANGE, "embedding_bag: padding_index 4 is outside [-4,4)");
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
    tg_tensor *x = embed(tape, ids, table, 1, false);
    assert_true(tg_backward(tape, tg_sum(tape, tg_linear(tape, x, table, NULL), TG_ALL_AXES, TG_DROP_AXES), NULL));
    tg_tensor *gradient = tg_tensor_grad(table);
    /* the product gives every row the sum of x, (3.3,4.4); the lookup gives row 0 the sum of the table, (-1.7,12.4) */
    assert_values(gradient, (double[]){3.3 - 1.7, 4.4 + 12.4, 3.3, 4.4, 3.3, 4.4, 3.3, 4.4}, 8, 1e-14, 0);
    tg_release(ids);
}

/* ---- threads ---- */

enum { MANY = 6000, ROWS = 700, WIDTH = 200 };

/* Returns a new dense copy of the table's gradient after a lookup, or after a lookup of bags of 5. */
static tg_tensor *many_gradient(tg_tensor *ids, tg_tensor *dy, bool bags, tg_grad_kind kind, int threads)
{
    assert_true(tg_set_threads(threads, NULL));
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *many = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(ROWS, WIDTH), 1, NULL));
    assert_true(kind == TG_GRAD_ROWS || tg_tensor_make_grad_dense(many, NULL));
    tg_tensor *y = bags ? tg_embedding_bag(t, ids, many, NULL) : tg_embedding(t, ids, many, NULL);
    assert_true(backward_from(t, y, dy));
    assert_int_equal(tg_tensor_grad_kind(many), kind);
    assert_true(tg_tensor_make_grad_dense(many, NULL));
    tg_tensor *gradient = tg_tensor_new_copy(tg_tensor_grad(many), NULL);
    tg_release(many);
    tg_tape_free(t);
    return gradient;
}

/* Threads divide the columns, so the sum of a row has one order. Half of the ids are 0, 1 and 2. */
static void test_same_bits_for_any_thread_count(void **state)
{
    (void)state;
    int before = tg_threads();
    tg_rng *rng = tg_rng_new(1);
    tg_tensor *ids[] = {tg_tensor_new(TG_I32, TG_SHAPE(MANY), NULL),
                        tg_tensor_new(TG_I32, TG_SHAPE(MANY / 5, 5), NULL)};
    for (int bags = 0; bags < 2; bags++) {
        assert_true(tg_tensor_fill_randint(ids[bags], rng, 0, ROWS, NULL));
        for (int i = 0; i < MANY; i += 2) {
            ((int32_t *)tg_tensor_data_mut(ids[bags]))[i] = i % 3;
        }
        tg_tensor *dy = tg_tensor_new(TG_F32, TG_SHAPE(bags ? MANY / 5 : MANY, WIDTH), NULL);
        assert_true(tg_tensor_fill_normal(dy, rng, 0, 1, NULL));
        for (tg_grad_kind kind = TG_GRAD_ROWS; kind <= TG_GRAD_DENSE; kind++) {
            tg_tensor *one = many_gradient(ids[bags], dy, bags, kind, 1);
            for (int threads = 2; threads <= 4; threads++) {
                tg_tensor *more = many_gradient(ids[bags], dy, bags, kind, threads);
                if (memcmp(tg_values(one), tg_values(more), tg_bytes_of(one)) != 0) {
                    fail_msg("%s, kind %d: other bits with %d threads", bags ? "bags" : "ids", (int)kind, threads);
                }
                tg_release(more);
            }
            tg_release(one);
        }
        tg_release(dy);
        tg_release(ids[bags]);
    }
    tg_rng_free(rng);
    assert_true(tg_set_threads(before, NULL));
}

/* A row's first contribution is written as if it were added to zeros: -0 becomes 0, in embeddings and bags. */
static void test_negative_zeros(void **state)
{
    (void)state;
    tg_tensor *ids = tensor_i32(TG_SHAPE(2, 1), (int32_t[]){2, 1});
    tg_tensor *results[] = {tg_reshape(tape, tg_embedding(tape, ids, table, NULL), TG_SHAPE(2, 2)),
                            tg_embedding_bag(tape, ids, table, NULL)};
    for (int k = 0; k < 2; k++) {
        tg_tensor *dy = tensor_f64(TG_SHAPE(2, 2), (double[]){-0.0, -0.0, 1, -0.0});
        tg_tensor_zero_grad(table);
        assert_true(backward_from(tape, results[k], dy));
        const double *rows = tg_tensor_grad_rows(table).values;
        for (int i = 0; i < 4; i++) {
            assert_true(rows[i] == (i == 2) && !signbit(rows[i]));
        }
        tg_release(dy);
    }
    tg_release(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_max_norm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_negative_zeros, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_max_norm_of_bags, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_max_norm_moves_the_version, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_max_norm_without_recording, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gradient_without_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_max_norm_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_by_frequency, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_keep_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_by_frequency, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_weighted_by_their_table, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_without_entries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ids_behind_the_last_bag, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ids_without_a_bag, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bags_refuse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_padding_under_tying, set_up, tear_down),
        cmocka_unit_test(test_order_of_bags),
        cmocka_unit_test(test_same_bits_for_any_thread_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

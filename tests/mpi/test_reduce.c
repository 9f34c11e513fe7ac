/* The sum of gradients of every kind, in the order of the ranks, and errors that all ranks agree on. */
#include "ranks.h"

#include <math.h>

#define WIDTH 3
#define ROWS 40

static tg_error error;

/* ---- a model and its gradients ---- */

typedef struct fixture {
    tg_params *params;
    tg_tensor *table, *other, *bias;
    tg_mpi *mpi;
} fixture;

static fixture fixture_make(void)
{
    tg_error_clear(&error);
    fixture f = {.params = tg_params_new(NULL, TG_F32), .mpi = mpi_make(64)};
    f.table = tg_params_add(f.params, "table", TG_SHAPE(ROWS, WIDTH));
    f.bias = tg_params_add(f.params, "bias", TG_SHAPE(7));
    tg_params_add_buffer(f.params, "mask", TG_SHAPE(2));
    f.other = tg_params_add(f.params, "other", TG_SHAPE(ROWS, WIDTH));
    tg_params_add_alias(f.params, "head", "table");
    assert_true(tg_mpi_broadcast(f.mpi, f.params, &error));
    return f;
}

static void fixture_free(fixture *f)
{
    tg_mpi_free(f->mpi);
    tg_params_free(f->params);
}

/* Numbers whose sum depends on the order of the additions. */
static float number(int of_rank, int64_t index, int step)
{
    return (float)((of_rank % 2 ? 1e6 : 1) * sin((double)(index * 7 + of_rank * 13 + step + 1)));
}

/* The rows of a rank: its own, and two that all ranks have. */
static int rows_of(int of_rank, int32_t ids[4])
{
    ids[0] = 5;
    ids[1] = 10 + of_rank;
    ids[2] = 2;
    ids[3] = 20 + of_rank;
    return of_rank == 1 ? 3 : 4;
}

static void give_rows(tg_tensor *x, int step)
{
    int32_t ids[4];
    float values[4 * WIDTH];
    int count = rows_of(rank, ids);
    for (int i = 0; i < count * WIDTH; i++) {
        values[i] = number(rank, ids[i / WIDTH] * WIDTH + i % WIDTH, step);
    }
    assert_true(tg_tensor_add_grad_rows(x, ids, values, count, &error));
}

static void give_dense(tg_tensor *x, int step)
{
    assert_true(tg_tensor_make_grad_dense(x, &error));
    float *values = tg_tensor_data_mut(tg_tensor_grad(x));
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        values[i] = number(rank, i, step);
    }
}

/* The gradient kind of a rank, as in "rd-d": by rows on rank 0, dense on 1, none on 2, dense on 3. */
static char kind_of(const char *kinds, int of_rank)
{
    return kinds[of_rank % (int)strlen(kinds)];
}

static void give(tg_tensor *x, const char *kinds, int step)
{
    if (kind_of(kinds, rank) == 'r') {
        give_rows(x, step);
    } else if (kind_of(kinds, rank) == 'd') {
        give_dense(x, step);
    }
}

/* Asserts that x has the sum of share * gradient, added in the order of the ranks. */
static void assert_sum(const tg_tensor *x, const char *kinds, int step, double share, bool zeros_are_added)
{
    float expected[ROWS * WIDTH] = {0};
    bool present[ROWS] = {false};
    for (int r = 0; r < ranks; r++) {
        char kind = kind_of(kinds, r);
        int32_t ids[4];
        int count = kind == 'r' ? rows_of(r, ids) : 0;
        for (int i = 0; i < count; i++) {
            present[ids[i]] = true;
            for (int c = 0; c < WIDTH; c++) {
                int at = ids[i] * WIDTH + c;
                expected[at] += (float)share * number(r, at, step);
            }
        }
        for (int64_t i = 0; kind == 'd' && i < tg_tensor_count(x); i++) {
            expected[i] += (float)share * number(r, i, step);
        }
    }
    tg_tensor *dense = tg_tensor_new_dense_grad(x, &error);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        assert_true(tg_tensor_value_at(dense, i) == (double)expected[i]);
    }
    tg_release(dense);
    tg_grad_rows rows = tg_tensor_grad_rows(x);
    for (int64_t i = 0; i < rows.count && !zeros_are_added; i++) {
        assert_true(present[rows.ids[i]]);
    }
}

/* ---- sums ---- */

static void test_kinds(void **state)
{
    (void)state;
    static const char *const cases[] = {"d", "r", "-", "rd", "-r", "-d", "r-d", "dr", "r-"};
    static const tg_grad_kind expected[] = {TG_GRAD_DENSE, TG_GRAD_ROWS,  TG_GRAD_NONE,  TG_GRAD_DENSE, TG_GRAD_ROWS,
                                            TG_GRAD_DENSE, TG_GRAD_DENSE, TG_GRAD_DENSE, TG_GRAD_ROWS};
    fixture f = fixture_make();
    for (int i = 0; i < 9; i++) {
        /* the kind is the highest of the ranks that exist */
        tg_grad_kind kind = TG_GRAD_NONE;
        for (int r = 0; r < ranks; r++) {
            char k = kind_of(cases[i], r);
            tg_grad_kind of_rank = k == 'd' ? TG_GRAD_DENSE : k == 'r' ? TG_GRAD_ROWS : TG_GRAD_NONE;
            kind = of_rank > kind ? of_rank : kind;
        }
        assert_true(ranks < 3 || kind == expected[i]);
        give(f.table, cases[i], i);
        give(f.other, "r", i);
        give(f.bias, "d", i);
        assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        assert_int_equal(tg_tensor_grad_kind(f.table), kind);
        assert_sum(f.table, cases[i], i, 1.0 / ranks, false);
        assert_sum(f.other, "r", i, 1.0 / ranks, false);
        assert_sum(f.bias, "d", i, 1.0 / ranks, false);
        tg_tensor_zero_grad(f.table), tg_tensor_zero_grad(f.other), tg_tensor_zero_grad(f.bias);
    }
    fixture_free(&f);
}

/* The rows of the sum: those of rank 0 in their order, then the new ones of rank 1, and so on. */
static void test_order_of_rows(void **state)
{
    (void)state;
    fixture f = fixture_make();
    give(f.table, "r", 0);
    assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
    tg_grad_rows rows = tg_tensor_grad_rows(f.table);
    assert_int_equal(rows.count, 2 * ranks + 2 - (ranks > 1));
    const int32_t first[] = {5, 10, 2, 20, 11, 12, 22};
    for (int i = 0; i < rows.count && i < 7; i++) {
        assert_int_equal(rows.ids[i], first[i]);
    }
    fixture_free(&f);
}

static void test_shares(void **state)
{
    (void)state;
    fixture f = fixture_make();
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    config.share = 1;
    give(f.table, "r", 0);
    give(f.bias, "d", 0);
    assert_true(tg_mpi_reduce(f.mpi, f.params, &config, &error));
    assert_sum(f.table, "r", 0, 1, false);
    assert_sum(f.bias, "d", 0, 1, false);
    tg_tensor_zero_grad(f.table), tg_tensor_zero_grad(f.bias);
    /* an explicit 0 is a 0: only the last rank counts */
    config.share = rank == ranks - 1 ? 0.5 : 0;
    give(f.bias, "d", 0);
    assert_true(tg_mpi_reduce(f.mpi, f.params, &config, &error));
    for (int64_t i = 0; i < 7; i++) {
        assert_true(tg_tensor_value_at(tg_tensor_grad(f.bias), i) == (double)(0.5f * number(ranks - 1, i, 0)));
    }
    fixture_free(&f);
}

/* Early gradients, whose kinds in this step are others than in the last: the sums are right, and a gradient that no
 * rank has is none. */
static void test_early_kinds_change(void **state)
{
    (void)state;
    static const char *const kinds[] = {"d", "d", "-", "d", "r", "rd", "d", "d-r"};
    fixture f = fixture_make();
    for (int step = 0; step < 8; step++) {
        assert_true(tg_mpi_begin(f.mpi, f.params, NULL, &error));
        give(f.table, kinds[step], step);
        give(f.bias, "d", step);
        give(f.other, step % 2 ? "d" : "r", step);
        /* announced in another order than the reverse of the parameters, and one not at all */
        tg_mpi_on_gradient(f.mpi, f.bias);
        if (step != 3) {
            tg_mpi_on_gradient(f.mpi, f.table);
        }
        tg_mpi_on_gradient(f.mpi, f.other);
        assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        bool none = kinds[step][0] == '-';
        assert_int_equal(tg_tensor_grad_kind(f.table) == TG_GRAD_NONE, none);
        assert_sum(f.table, kinds[step], step, 1.0 / ranks, true);
        assert_sum(f.bias, "d", step, 1.0 / ranks, true);
        assert_sum(f.other, step % 2 ? "d" : "r", step, 1.0 / ranks, true);
        tg_tensor_zero_grad(f.table), tg_tensor_zero_grad(f.other), tg_tensor_zero_grad(f.bias);
    }
    fixture_free(&f);
}

static void test_sum_and_mean(void **state)
{
    (void)state;
    fixture f = fixture_make();
    double sum = 0, weighted = 0;
    for (int r = 0; r < ranks; r++) {
        sum += (double)number(r, 3, 0);
        weighted += (r + 1) * (double)number(r, 3, 0);
    }
    assert_true(tg_mpi_sum(f.mpi, (double)number(rank, 3, 0), &error) == sum);
    double mean = weighted / (ranks * (ranks + 1) / 2.0);
    assert_true(fabs(tg_mpi_mean(f.mpi, (double)number(rank, 3, 0), rank + 1, &error) - mean) < 1e-12 * fabs(mean));
    assert_true(tg_mpi_mean(f.mpi, rank == 0 ? 4 : NAN, rank == 0, &error) == 4);
    assert_true(isnan(tg_mpi_mean(f.mpi, 1, 0, &error)));
    assert_error(&error, TG_ERROR_VALUE, "mpi_mean: the weights of all ranks are 0");
    assert_true(isnan(tg_mpi_mean(f.mpi, 1, rank == ranks - 1 ? -1 : 1, &error)));
    assert_error(&error, TG_ERROR_VALUE, "the weight is -1; it must be finite and at least 0");
    fixture_free(&f);
}

static void test_seeds(void **state)
{
    (void)state;
    assert_true(tg_mpi_seed(123, 0) == 123);
    /* the generator uses the low 32 bits: 1000 streams of two seeds have different ones */
    uint32_t seeds[2000];
    for (uint32_t i = 0; i < 2000; i++) {
        seeds[i] = (uint32_t)tg_mpi_seed(i < 1000 ? 123 : 124, i % 1000);
        for (uint32_t k = 0; k < i; k++) {
            assert_true(seeds[k] != seeds[i]);
        }
    }
}

/* ---- errors on all ranks ---- */

static void test_cause(void **state)
{
    (void)state;
    fixture f = fixture_make();
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    tg_error mine = TG_NO_ERROR;
    for (int early = 0; early < 2; early++) {
        give(f.table, "r", 0);
        give(f.bias, "d", 0);
        assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        tg_tensor_zero_grad(f.table), tg_tensor_zero_grad(f.bias);
        assert_true(!early || tg_mpi_begin(f.mpi, f.params, NULL, &error));
        give(f.table, "r", 1);
        give(f.bias, "d", 1);
        if (rank == ranks - 1) {
            mine = (tg_error){TG_ERROR_RANGE, "embedding: id 50257 at [3,1] is outside [0,50257)", -1, -1};
        }
        config.cause = &mine;
        assert_false(tg_mpi_reduce(f.mpi, f.params, &config, &error));
        clear_params_error(f.params);
        char expected[120];
        snprintf(expected, sizeof expected, "mpi_reduce: step %d, rank %d: embedding: id 50257 at [3,1] is outside",
                 2 + early * 2, ranks - 1);
        assert_error(&error, TG_ERROR_RANGE, expected);
        /* nothing has changed, and the step can be repeated */
        if (!early) {
            assert_true(tg_tensor_value_at(tg_tensor_grad(f.bias), 3) == (double)number(rank, 3, 1));
            tg_error_clear(&mine);
            assert_true(tg_mpi_reduce(f.mpi, f.params, &config, &error));
            assert_sum(f.table, "r", 1, 1.0 / ranks, false);
            assert_sum(f.bias, "d", 1, 1.0 / ranks, false);
            tg_tensor_zero_grad(f.table), tg_tensor_zero_grad(f.bias);
        }
    }
    assert_true(tg_mpi_agree(f.mpi, NULL, &error));
    mine = (tg_error){TG_ERROR_FILE, "no such file", -1, -1};
    assert_false(tg_mpi_agree(f.mpi, rank == ranks / 2 ? &mine : NULL, &error));
    assert_int_equal(error.code, TG_ERROR_FILE);
    assert_non_null(strstr(error.text, "no such file"));
    fixture_free(&f);
}

static void test_invalid_calls(void **state)
{
    (void)state;
    fixture f = fixture_make();
    tg_mpi_reduce_config config = tg_mpi_reduce_config_default();
    /* on one rank only: all ranks report it */
    config.share = rank == 0 ? NAN : 1;
    assert_false(tg_mpi_reduce(f.mpi, f.params, &config, &error));
    clear_params_error(f.params);
    assert_error(
        &error, TG_ERROR_VALUE,
        "mpi_reduce: step 1, rank 0: the share is nan; it must be finite and at least 0, or TG_MPI_EQUAL_SHARE");
    tg_params *stranger = tg_params_new(NULL, TG_F32);
    assert_false(tg_mpi_reduce(f.mpi, rank == ranks - 1 ? stranger : f.params, NULL, &error));
    clear_params_error(f.params);
    clear_params_error(stranger);
    assert_error(&error, TG_ERROR_STATE, "the params are not those of the last tg_mpi_broadcast");
    assert_false(tg_mpi_check(f.mpi, rank == ranks - 1 ? stranger : f.params, &error));
    clear_params_error(f.params);
    clear_params_error(stranger);
    assert_error(&error, TG_ERROR_STATE, "mpi_check: ");
    tg_params_add(f.params, "late", TG_SHAPE(1));
    assert_false(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
    clear_params_error(f.params);
    assert_error(&error, TG_ERROR_STATE, "or have other entries since then");
    assert_true(tg_mpi_broadcast(f.mpi, f.params, &error));
    assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
    assert_true(tg_mpi_begin(f.mpi, f.params, NULL, &error));
    assert_false(tg_mpi_begin(f.mpi, f.params, NULL, &error));
    clear_params_error(f.params);
    assert_error(&error, TG_ERROR_STATE,
                 "mpi_begin: step 2, rank 0: a reduction has begun; finish it with tg_mpi_reduce");
    assert_false(tg_mpi_broadcast(f.mpi, f.params, &error));
    clear_params_error(f.params);
    assert_error(&error, TG_ERROR_STATE, "tg_mpi_begin has started a reduction");
    assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));

    tg_mpi *unused = mpi_make(64);
    assert_false(tg_mpi_reduce(unused, f.params, NULL, &error));
    clear_params_error(f.params);
    assert_error(&error, TG_ERROR_STATE, "mpi_reduce: step 1, rank 0: call tg_mpi_broadcast first");
    tg_mpi_free(unused);
    tg_mpi_reduce_config unmarked = {.share = 1};
    assert_false(tg_mpi_reduce(f.mpi, f.params, &unmarked, &error));
    clear_params_error(f.params);
    assert_error(&error, TG_ERROR_VALUE, "the config does not come from tg_mpi_reduce_config_default()");
    assert_false(tg_mpi_begin(f.mpi, f.params, &unmarked, &error));
    clear_params_error(f.params);
    assert_error(&error, TG_ERROR_VALUE, "rank 0: the config does not come from");
    tg_params_free(stranger);
    fixture_free(&f);
}

static void test_a_gradient_is_announced_twice(void **state)
{
    (void)state;
    fixture f = fixture_make();
    assert_true(tg_mpi_begin(f.mpi, f.params, NULL, &error));
    give(f.bias, "d", 0);
    tg_mpi_on_gradient(f.mpi, f.bias);
    if (rank == ranks - 1) {
        tg_mpi_on_gradient(f.mpi, f.bias);
    }
    assert_false(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
    clear_params_error(f.params);
    assert_error(&error, TG_ERROR_STATE, "a gradient was announced twice; set on_gradient only in the last backward");
    fixture_free(&f);
}

static void test_null(void **state)
{
    (void)state;
    fixture f = fixture_make();
    assert_null(tg_mpi_new(MPI_COMM_NULL, NULL, NULL));
    tg_mpi_free(NULL);
    assert_int_equal(tg_mpi_rank(NULL), 0);
    assert_int_equal(tg_mpi_size(NULL), 0);
    assert_false(tg_mpi_agree(NULL, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "mpi_agree: the tg_mpi is NULL");
    assert_true(isnan(tg_mpi_sum(NULL, 1, &error)));
    assert_error(&error, TG_ERROR_STATE, "mpi_sum: the tg_mpi is NULL");
    assert_true(isnan(tg_mpi_mean(NULL, 1, 1, &error)));
    assert_error(&error, TG_ERROR_STATE, "mpi_mean: the tg_mpi is NULL");
    for (int i = 0; i < 2; i++) {
        tg_mpi *mpi = i ? f.mpi : NULL;
        tg_params *params = i ? NULL : f.params;
        const char *name = i ? "the params is NULL" : "the tg_mpi is NULL";
        assert_false(tg_mpi_broadcast(mpi, params, &error));
        clear_params_error(params);
        assert_error(&error, TG_ERROR_STATE, name);
        assert_false(tg_mpi_check(mpi, params, &error));
        clear_params_error(params);
        assert_error(&error, TG_ERROR_STATE, name);
        assert_false(tg_mpi_reduce(mpi, params, NULL, &error));
        clear_params_error(params);
        assert_error(&error, TG_ERROR_STATE, name);
        assert_false(tg_mpi_begin(mpi, params, NULL, &error));
        clear_params_error(params);
        assert_error(&error, TG_ERROR_STATE, name);
    }
    tg_mpi_on_gradient(NULL, f.bias);
    tg_mpi_on_gradient(f.mpi, NULL);
    fixture_free(&f);
}

/* ---- models that differ ---- */

static void broadcast_fails(tg_params *params, const char *part)
{
    tg_mpi *mpi = mpi_make(64);
    assert_false(tg_mpi_broadcast(mpi, params, &error));
    clear_params_error(params);
    assert_error(&error, TG_ERROR_VALUE, part);
    tg_mpi_free(mpi);
    tg_params_free(params);
}

static void test_models_differ(void **state)
{
    (void)state;
    if (ranks == 1) {
        return;
    }
    bool last = rank == ranks - 1;
    char expected[300];
    tg_params *params = tg_params_new(NULL, TG_F32);
    tg_params_add(params, "a", TG_SHAPE(2));
    tg_params_add(params, last ? "c" : "b", TG_SHAPE(2));
    tg_params_add(params, "d", last ? TG_SHAPE(3) : TG_SHAPE(2));
    snprintf(expected, sizeof expected,
             "mpi_broadcast: entry 1 differs from rank 0's on rank %d: it is parameter 'b' (2,) f32 on rank 0, and "
             "parameter 'c' (2,) f32 on rank %d",
             ranks - 1, ranks - 1);
    broadcast_fails(params, expected);

    params = tg_params_new(NULL, TG_F32);
    tg_params_add(params, "a", rank ? TG_SHAPE(2, 1) : TG_SHAPE(2));
    broadcast_fails(params,
                    ranks > 2 ? "entry 0 differs from rank 0's on rank 1, 2" : "on rank 1: it is parameter 'a'");

    params = tg_params_new(NULL, last ? TG_F64 : TG_F32);
    tg_params_add(params, "a", TG_SHAPE(2));
    broadcast_fails(params, "parameter 'a' (2,) f32 on rank 0, and parameter 'a' (2,) f64");

    params = tg_params_new(NULL, TG_F32);
    tg_params_add(params, "a", TG_SHAPE(2));
    if (last) {
        tg_params_add(params, "more", TG_SHAPE(2));
    }
    broadcast_fails(params, "entry 1 differs from rank 0's");
    params = tg_params_new(NULL, TG_F32);
    if (!last) {
        tg_params_add(params, "a", TG_SHAPE(2));
    }
    broadcast_fails(params, "it is parameter 'a' (2,) f32 on rank 0, and absent on rank");

    params = tg_params_new(NULL, TG_F32);
    tg_params_add(params, "a", TG_SHAPE(2));
    tg_params_set_frozen(params, "a", last);
    broadcast_fails(params, "parameter 'a' (2,) f32, not trained on rank");
}

static void test_values_differ(void **state)
{
    (void)state;
    fixture f = fixture_make();
    assert_true(tg_mpi_check(f.mpi, f.params, &error));
    give(f.bias, "d", 0);
    assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
    if (ranks > 1) {
        for (int64_t i = 0; i < 7; i++) {
            float *values = tg_tensor_data_mut(f.bias);
            values[i] = rank == ranks - 1 ? 1e-30f : 0;
            assert_false(tg_mpi_check(f.mpi, f.params, &error));
            clear_params_error(f.params);
            char expected[100];
            snprintf(expected, sizeof expected,
                     "mpi_check: after step 1 the values of 'bias' differ from rank 0's on rank %d", ranks - 1);
            assert_error(&error, TG_ERROR_VALUE, expected);
            values[i] = 0;
        }
        assert_true(tg_mpi_check(f.mpi, f.params, &error));
    }
    fixture_free(&f);
}

static void test_broadcast_copies_values(void **state)
{
    (void)state;
    fixture f = fixture_make();
    tg_tensor *mask = tg_params_find(f.params, "mask");
    tg_tensor_fill(f.table, rank + 1, NULL);
    tg_tensor_fill(mask, rank + 5, NULL);
    assert_true(tg_mpi_broadcast(f.mpi, f.params, &error));
    assert_true(tg_tensor_value_at(f.table, ROWS * WIDTH - 1) == 1);
    assert_true(tg_tensor_value_at(mask, 1) == 5);
    fixture_free(&f);
}

/* A small model needs no pieces of the config's size, and may grow after the broadcast. */
static void test_pieces_of_a_small_model(void **state)
{
    (void)state;
    metered_allocator meter;
    allocator_measure(&meter);
    tg_error_clear(&error);
    fixture f = {.params = tg_params_new(NULL, TG_F32), .mpi = mpi_make(1 << 20)};
    f.table = tg_params_add(f.params, "table", TG_SHAPE(2, WIDTH));
    assert_true(tg_mpi_broadcast(f.mpi, f.params, &error));
    assert_true(meter.most < 1 << 16);
    assert_true(tg_tensor_resize_rows(f.table, ROWS, &error));
    for (int step = 0; step < 3; step++) {
        tg_tensor_zero_grad(f.table);
        give_dense(f.table, step);
        assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        assert_sum(f.table, "d", step, 1.0 / ranks, false);
    }
    fixture_free(&f);
    assert_int_equal(meter.now, 0);
    allocator_restore();
}

/* Memory is exhausted on one rank, at each of its allocations: all ranks report it, nothing has changed, and the call
 * can be repeated. */
static void test_out_of_memory(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    int failures = 0;
    bool finished = false;
    for (size_t k = 1; !finished; k++) {
        allocator_arm(&counting, 0, false);
        fixture f = fixture_make();
        give(f.table, "r-", 0);
        give(f.other, "rd", 0);
        give(f.bias, "d-", 0);
        allocator_arm(&counting, rank == 0 ? k : 0, true);
        finished = tg_mpi_reduce(f.mpi, f.params, NULL, &error);
        allocator_arm(&counting, 0, false);
        if (!finished) {
            failures++;
            assert_error(&error, TG_ERROR_MEMORY, "mpi_reduce: step 1, rank 0: ");
            clear_params_error(f.params);
            assert_true(tg_mpi_reduce(f.mpi, f.params, NULL, &error));
        }
        assert_sum(f.table, "r-", 0, 1.0 / ranks, false);
        assert_sum(f.other, "rd", 0, 1.0 / ranks, false);
        assert_sum(f.bias, "d-", 0, 1.0 / ranks, false);
        fixture_free(&f);
        assert_int_equal(counting.live, 0);
    }
    assert_true(failures >= 2);
    allocator_restore();
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_kinds),
    cmocka_unit_test(test_order_of_rows),
    cmocka_unit_test(test_shares),
    cmocka_unit_test(test_early_kinds_change),
    cmocka_unit_test(test_sum_and_mean),
    cmocka_unit_test(test_seeds),
    cmocka_unit_test(test_cause),
    cmocka_unit_test(test_invalid_calls),
    cmocka_unit_test(test_a_gradient_is_announced_twice),
    cmocka_unit_test(test_null),
    cmocka_unit_test(test_models_differ),
    cmocka_unit_test(test_values_differ),
    cmocka_unit_test(test_broadcast_copies_values),
    cmocka_unit_test(test_pieces_of_a_small_model),
    cmocka_unit_test(test_out_of_memory),
};

DEFINE_MAIN("reduce", tests)

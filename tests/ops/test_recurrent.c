/* A GRU and an LSTM over all positions of a sequence against a chain of ops, for columns that threads divide, and rows
 * that are no multiple of four: with the same bits at each level and for any number of threads, because the products
 * are reproducible. The samples of test_gradcheck_ops.c are narrower. */
#include "support.h"

#include <math.h>
#include <string.h>

#include "levels.h"
#include "ops/sequence/recurrent.h"
#include "tensor/tensor.h"

enum { T = 3, B = 22, H = 201, LEAVES = 4 };

/* Returns columns of a gate at a position: of the projected inputs, or with a state of its projection. */
static tg_tensor *gate_of(tg_tape *t, tg_tensor *const *x, int64_t position, int gate, tg_tensor *h)
{
    tg_tensor *all = h ? tg_linear(t, h, x[2], x[3]) : tg_select(t, x[0], 0, position);
    return tg_slice(t, all, 1, gate * H, (gate + 1) * H, 1);
}

static tg_tensor *gru_of_ops(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *h = x[1];
    for (int64_t i = 0; i < T; i++) {
        tg_tensor *a[3], *b[3];
        for (int gate = 0; gate < 3; gate++) {
            a[gate] = gate_of(t, x, i, gate, NULL);
            b[gate] = gate_of(t, x, i, gate, h);
        }
        tg_tensor *r = tg_sigmoid(t, tg_add(t, a[0], b[0])), *z = tg_sigmoid(t, tg_add(t, a[1], b[1]));
        tg_tensor *n = tg_tanh(t, tg_add(t, a[2], tg_mul(t, r, b[2])));
        h = tg_add(t, n, tg_mul(t, z, tg_sub(t, h, n)));
    }
    return h;
}

static tg_tensor *gru(tg_tape *t, tg_tensor *const *x)
{
    tg_recurrence recurrence = {.inputs = x[0], .state = x[1], .weight = x[2], .bias = x[3]};
    return tg_select(t, tg_gru(t, &recurrence), 0, -1);
}

/* The first cell is the first state. */
static tg_tensor *lstm_of_ops(tg_tape *t, tg_tensor *const *x)
{
    tg_tensor *h = x[1], *c = x[1];
    for (int64_t i = 0; i < T; i++) {
        tg_tensor *sum[4];
        for (int gate = 0; gate < 4; gate++) {
            sum[gate] = tg_add(t, gate_of(t, x, i, gate, NULL), gate_of(t, x, i, gate, h));
        }
        c = tg_add(t, tg_mul(t, tg_sigmoid(t, sum[1]), c), tg_mul(t, tg_sigmoid(t, sum[0]), tg_tanh(t, sum[2])));
        h = tg_mul(t, tg_sigmoid(t, sum[3]), tg_tanh(t, c));
    }
    return tg_add(t, h, c);
}

/* The bias is added to the inputs: without one the product with the state is not added to anything. */
static tg_tensor *lstm(tg_tape *t, tg_tensor *const *x)
{
    tg_recurrence recurrence = {.inputs = tg_add(t, x[0], x[3]), .state = x[1], .weight = x[2]};
    tg_tensor *cell, *h = tg_lstm(t, &recurrence, x[1], &cell);
    return tg_add(t, tg_select(t, h, 0, -1), cell);
}

static void assert_close(const tg_tensor *x, const tg_tensor *y, double tolerance)
{
    assert_int_equal(tg_tensor_count(x), tg_tensor_count(y));
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        assert_true(fabs(tg_tensor_value_at(x, i) - tg_tensor_value_at(y, i)) < tolerance);
    }
}

/* Computes the last state and the gradients of its sum of squares: copies, yours. */
static void run(tg_tape *t, tg_tensor *(*call)(tg_tape *t, tg_tensor *const *x), tg_tensor *const *x,
                tg_tensor *results[LEAVES + 1])
{
    tg_tensor *h = call(t, x);
    assert_true(tg_backward(t, tg_sum(t, tg_mul(t, h, h), TG_ALL_AXES, TG_DROP_AXES), NULL));
    results[LEAVES] = tg_tensor_new_copy(h, NULL);
    for (int i = 0; i < LEAVES; i++) {
        results[i] = tg_tensor_new_copy(tg_tensor_grad(x[i]), NULL);
        tg_tensor_zero_grad(x[i]);
    }
    tg_tape_reset(t);
}

/* The results of a call at each level, with some numbers of threads, beside those of ops. */
static void assert_recurrence(tg_dtype dtype, int gates, tg_tensor *(*call)(tg_tape *t, tg_tensor *const *x),
                              tg_tensor *(*of_ops)(tg_tape *t, tg_tensor *const *x))
{
    tg_run *shared_run = tg_run_new(3);
    const tg_shape shapes[LEAVES] = {TG_SHAPE(T, B, gates * H), TG_SHAPE(B, H), TG_SHAPE(gates * H, H),
                                     TG_SHAPE(gates * H)};
    tg_tensor *x[LEAVES], *expected[LEAVES + 1], *first[LEAVES + 1] = {NULL}, *results[LEAVES + 1];
    for (int i = 0; i < LEAVES; i++) {
        x[i] = leaf(tg_tensor_new(dtype, shapes[i], NULL));
        assert_true(tg_tensor_fill_normal(x[i], tg_run_rng(shared_run), 0, i < 2 ? 1 : 0.05, NULL));
    }
    const int threads = tg_threads();
    const tg_cpu_level level = tg_get_cpu_level();
    for (int lower = 0; lower <= tg_level_highest(); lower++) {
        assert_true(tg_set_cpu_level((tg_cpu_level)(tg_level_highest() - lower), NULL));
        tg_tape *t = tg_tape_new(shared_run, NULL);
        tg_tape_set_reproducible(t, true);
        run(t, of_ops, x, expected);
        for (int count = 1; count < 6; count += count) {
            assert_true(tg_set_threads(count, NULL));
            run(t, call, x, results);
            for (int i = 0; i <= LEAVES; i++) {
                assert_close(results[i], expected[i], dtype == TG_F64 ? 1e-13 : 1e-4);
                if (!first[i]) {
                    first[i] = tg_retain(results[i]);
                }
                assert_int_equal(memcmp(tg_values(results[i]), tg_values(first[i]), tg_bytes_of(first[i])), 0);
                tg_release(results[i]);
            }
        }
        assert_true(tg_set_threads(threads, NULL));
        for (int i = 0; i <= LEAVES; i++) {
            tg_release(expected[i]);
        }
        tg_tape_free(t);
    }
    assert_true(tg_set_cpu_level(level, NULL));
    for (int i = 0; i <= LEAVES; i++) {
        tg_release(first[i]);
    }
    for (int i = 0; i < LEAVES; i++) {
        tg_release(x[i]);
    }
    tg_run_free(shared_run);
}

static void test_wide_gru(void **state)
{
    (void)state;
    assert_recurrence(TG_F32, 3, gru, gru_of_ops);
    assert_recurrence(TG_F64, 3, gru, gru_of_ops);
}

static void test_wide_lstm(void **state)
{
    (void)state;
    assert_recurrence(TG_F32, 4, lstm, lstm_of_ops);
    assert_recurrence(TG_F64, 4, lstm, lstm_of_ops);
}

/* A call with inputs of these shapes is refused with this text. */
static void assert_refused(tg_tape *t, tg_recurrence r, const char *text)
{
    assert_null(tg_gru(t, &r));
    assert_tape_error(t, TG_ERROR_SHAPE, text);
}

/* Each message names the input that does not fit, its shape, and the shape that fits the others. */
static void test_shapes_are_named(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    const tg_recurrence good = {.inputs = tg_full(t, TG_F32, TG_SHAPE(4, 2, 9), 1),
                                .state = tg_full(t, TG_F32, TG_SHAPE(2, 3), 0),
                                .weight = tg_full(t, TG_F32, TG_SHAPE(9, 3), 1),
                                .bias = tg_full(t, TG_F32, TG_SHAPE(9), 1),
                                .mask = tg_full(t, TG_U8, TG_SHAPE(2, 4), 1)};
    assert_non_null(tg_gru(t, &good));
    tg_recurrence r = good;
    r.inputs = tg_full(t, TG_F32, TG_SHAPE(8, 9), 1);
    assert_refused(t, r, "gru: the projected inputs are (8,9) and the state (2,3); they must be (T,B,3 H) and (B,H)");
    r.inputs = tg_full(t, TG_F32, TG_SHAPE(0, 2, 9), 1);
    assert_refused(t, r, "gru: the projected inputs are (0,2,9) and the state (2,3);");
    r.inputs = tg_full(t, TG_F32, TG_SHAPE(4, 2, 12), 1);
    assert_refused(t, r, "gru: the projected inputs are (4,2,12) and the state (2,3);");
    r = good;
    r.state = tg_full(t, TG_F32, TG_SHAPE(1, 2, 3), 0);
    assert_refused(t, r, "gru: the projected inputs are (4,2,9) and the state (1,2,3);");
    r.state = tg_full(t, TG_F32, TG_SHAPE(4, 3), 0);
    assert_refused(t, r, "gru: the state is f32 (4,3); it must be f32 (2,3)");
    r.state = tg_full(t, TG_I32, TG_SHAPE(2, 3), 0);
    assert_refused(t, r, "gru: the state is i32 (2,3); it must be f32 (2,3)");
    r = good;
    r.weight = tg_full(t, TG_F32, TG_SHAPE(9, 4), 0);
    assert_refused(t, r, "gru: the weight is f32 (9,4); it must be f32 (9,3)");
    r = good;
    r.bias = tg_full(t, TG_F32, TG_SHAPE(3), 0);
    assert_refused(t, r, "gru: the bias is f32 (3,); it must be f32 (9,)");
    r = good;
    r.mask = tg_full(t, TG_U8, TG_SHAPE(4, 2), 0);
    assert_refused(t, r, "gru: the mask is u8 (4,2); it must be u8 (2,4)");
    r = good;
    r.inputs = tg_full(t, TG_F32, TG_SHAPE(4, 2, 12), 1);
    r.weight = tg_full(t, TG_F32, TG_SHAPE(12, 3), 1);
    r.bias = NULL;
    tg_tensor *last;
    assert_null(tg_lstm(t, &r, tg_full(t, TG_F32, TG_SHAPE(3, 2), 0), &last));
    assert_tape_error(t, TG_ERROR_SHAPE, "lstm: the cell is f32 (3,2); it must be f32 (2,3)");
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_wide_gru), cmocka_unit_test(test_wide_lstm),
                                       cmocka_unit_test(test_shapes_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

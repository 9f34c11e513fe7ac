/* Spans (tg_activation_checkpoint_begin): the memory that they free, the calls that need dropped values, and errors. */
#include "ops/calls.h"
#include "support.h"
#include "tape_stats.h"

#include <math.h>
#include <string.h>

#include <tapegrad/gradcheck.h>

static tg_tape *tape;
static tg_run *run;
static tg_tensor *x; /* f64 (2,3) */

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(1);
    tape = tg_tape_new(run, NULL);
    x = leaf(tensor_f64(TG_SHAPE(2, 3), (double[]){1, 2, 3, 4, 5, 6}));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_release(x);
    tg_run_free(run);
    return 0;
}

static tg_tensor *total(tg_tape *t, tg_tensor *y)
{
    return tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES);
}

/* Returns the result of a span; `hidden` receives one without values. */
static tg_tensor *span(tg_tensor **hidden)
{
    assert_true(tg_activation_checkpoint_begin(tape));
    *hidden = tg_tanh(tape, x);
    tg_tensor *y = tg_activation_checkpoint_end(tape, tg_mul(tape, *hidden, *hidden));
    assert_non_null(y);
    return y;
}

/* ---- memory ---- */

enum { SPANS = 8, CALLS = 4, COUNT = 1 << 15 };

/* The most memory after forward, and at any time, in values of COUNT floats. */
typedef struct usage {
    double forward, most;
} usage;

static usage measure(bool in_spans)
{
    metered_allocator meter;
    allocator_measure(&meter);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *y = leaf(tg_tensor_new(TG_F32, TG_SHAPE(COUNT), NULL)), *first = y;
    for (int i = 0; i < SPANS; i++) {
        assert_true(!in_spans || tg_activation_checkpoint_begin(t));
        for (int k = 0; k < CALLS; k++) {
            y = tg_tanh(t, y);
        }
        y = in_spans ? tg_activation_checkpoint_end(t, y) : y;
    }
    usage used;
    tg_pool_trim(t->pool);
    used.forward = (double)meter.now / (COUNT * sizeof(float));
    meter.most = meter.now;
    assert_true(tg_backward(t, total(t, y), NULL));
    used.most = (double)meter.most / (COUNT * sizeof(float));
    tg_tape_free(t);
    tg_release(first);
    assert_int_equal(meter.now, 0);
    allocator_restore();
    return used;
}

/* An upper bound: a block is at most an eighth larger than its values, and the tape itself needs some memory. */
static double bound(int values)
{
    return 1.125 * values + 0.3;
}

/* Without spans: the leaf and each result; in backward also the gradient of the leaf, and two adjoints. With spans: the
 * leaf and the results of the spans; in backward also the results of one span, except the last one, which it has. */
static void test_memory(void **state)
{
    (void)state;
    usage plain = measure(false), spans = measure(true);
    assert_true(plain.forward >= 1 + SPANS * CALLS);
    assert_true(spans.forward <= bound(1 + SPANS));
    assert_true(plain.most >= 1 + SPANS * CALLS + 3);
    assert_true(spans.most <= bound(1 + SPANS + CALLS - 1 + 3));
}

/* The block that dropout saves is freed, too: one bit per value. */
static void test_saved_bytes_are_freed(void **state)
{
    (void)state;
    size_t idle[2];
    for (int in_span = 0; in_span < 2; in_span++) {
        tg_tape_reset(tape);
        tg_pool_trim(tape->pool);
        tg_tensor *values = leaf(tg_tensor_new(TG_F32, TG_SHAPE(COUNT), NULL));
        assert_true(!in_span || tg_activation_checkpoint_begin(tape));
        tg_tensor *y = tg_retain(tg_dropout(tape, values, 0.5));
        assert_true(!in_span || tg_activation_checkpoint_end(tape, y));
        idle[in_span] = tape_stats_of(tape).idle_bytes;
        assert_true(backward_from(tape, y, values));
        tg_release(y);
        tg_release(values);
    }
    assert_true(idle[1] - idle[0] >= COUNT / 8);
}

/* ---- calls that need dropped values ---- */

/* A call with a result without values returns whether it succeeded. */
static bool read_op(tg_tensor *y, tg_error *error)
{
    (void)error;
    return tg_exp(tape, y);
}

static bool read_view(tg_tensor *y, tg_error *error)
{
    (void)error;
    return tg_reshape(tape, y, TG_SHAPE(-1));
}

static bool read_second_input(tg_tensor *y, tg_error *error)
{
    (void)error;
    return tg_matmul(tape, tg_transpose(tape, x, 0, 1), y);
}

static bool read_detached(tg_tensor *y, tg_error *error)
{
    (void)error;
    return tg_exp(tape, tg_detach(tape, y));
}

/* A shape rule that reads the values. */
static bool read_shape_rule(tg_tensor *y, tg_error *error)
{
    (void)error;
    return tg_bernoulli(tape, y);
}

static bool read_data(tg_tensor *y, tg_error *error)
{
    (void)error;
    return tg_tensor_data(y);
}

static bool read_data_mut(tg_tensor *y, tg_error *error)
{
    (void)error;
    return tg_tensor_data_mut(y);
}

static bool read_value(tg_tensor *y, tg_error *error)
{
    (void)error;
    return !isnan(tg_tensor_value_at(y, 0));
}

static bool read_gradient(tg_tensor *y, tg_error *error)
{
    (void)error;
    return backward_from(tape, tg_exp(tape, x), y);
}

static bool read_fill(tg_tensor *y, tg_error *error)
{
    return tg_tensor_fill(y, 1, error);
}

static bool read_source(tg_tensor *y, tg_error *error)
{
    return tg_tensor_copy_from(x, y, error);
}

static bool read_target(tg_tensor *y, tg_error *error)
{
    return tg_tensor_copy_from(y, x, error);
}

static bool read_copy(tg_tensor *y, tg_error *error)
{
    return tg_tensor_new_copy(y, error);
}

static bool read_cast(tg_tensor *y, tg_error *error)
{
    return tg_tensor_new_cast(y, TG_F32, error);
}

static bool read_print(tg_tensor *y, tg_error *error)
{
    return tg_tensor_print(y, stdout, NULL, error);
}

static bool read_file(tg_tensor *y, tg_error *error)
{
    return tg_tensor_save_npy(y, "dropped.npy", error);
}

static tg_tensor *first_input(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)t, (void)count, (void)context;
    return inputs[0];
}

static bool read_gradcheck(tg_tensor *y, tg_error *error)
{
    return tg_gradcheck(first_input, NULL, &y, 1, NULL, NULL, error);
}

static void test_reads(void **state)
{
    (void)state;
    const struct {
        const char *call;
        bool (*read)(tg_tensor *y, tg_error *error);
    } reads[] = {
        {"exp: argument 'x' is a result of 'tanh' whose values activation_checkpoint_end has dropped", read_op},
        {"reshape: argument 'x' is a result of 'tanh'", read_view},
        {"matmul: argument 'b' is a result of 'tanh'", read_second_input},
        {"exp: activation_checkpoint_end has dropped the values of this result of shape (2,3)", read_detached},
        {"bernoulli: activation_checkpoint_end has dropped the values", read_shape_rule},
        {"tensor_data: activation_checkpoint_end has dropped the values of this result of shape (2,3)", read_data},
        {"tensor_data_mut: activation_checkpoint_end", read_data_mut},
        {"tensor_value_at: activation_checkpoint_end", read_value},
        {"backward: activation_checkpoint_end", read_gradient},
        {"tensor_fill: activation_checkpoint_end", read_fill},
        {"tensor_copy_from: activation_checkpoint_end", read_source},
        {"tensor_copy_from: activation_checkpoint_end", read_target},
        {"tensor_new_copy: activation_checkpoint_end", read_copy},
        {"tensor_new_cast: activation_checkpoint_end", read_cast},
        {"tensor_print: activation_checkpoint_end", read_print},
        {"tensor_save_npy: activation_checkpoint_end", read_file},
        {"gradcheck: input 0 is a result whose values activation_checkpoint_end has dropped", read_gradcheck},
    };
    const int count = sizeof reads / sizeof *reads;
    for (int i = 0; i < count; i++) {
        tg_tensor *hidden;
        tg_tensor *y = span(&hidden);
        tg_error error = TG_NO_ERROR;
        if (reads[i].read(hidden, &error)) {
            fail_msg("a call has read the values: %s", reads[i].call);
        }
        if (error.code != TG_OK) {
            assert_error(&error, TG_ERROR_STATE, reads[i].call);
        } else {
            assert_tape_error(tape, TG_ERROR_STATE, reads[i].call);
        }
        /* nothing has changed */
        tg_tensor_zero_grad(x);
        assert_true(tg_backward(tape, total(tape, y), NULL));
        assert_int_equal(tg_tensor_grad_kind(x), TG_GRAD_DENSE);
        tg_tape_reset(tape);
    }
    assert_true(tg_tensor_value_at(x, 5) == 6);
}

/* The shape, and a gradient that backward keeps, need no values; nor does a backward from such a result. */
static void test_without_values(void **state)
{
    (void)state;
    tg_tensor *hidden;
    tg_tensor *y = span(&hidden);
    assert_int_equal(tg_tensor_count(hidden), 6);
    assert_true(tg_tensor_requires_grad(hidden));
    assert_true(tg_retain_grad(tape, hidden));
    assert_true(tg_backward(tape, total(tape, y), NULL));
    assert_non_null(tg_tensor_grad(hidden));
    assert_null(tg_tensor_data(hidden));
    clear_tape_error(tape);
    span(&hidden);
    tg_tensor_zero_grad(x);
    tg_tensor *ones = tg_tensor_new_full(TG_F64, TG_SHAPE(2, 3), 1, NULL);
    assert_true(backward_from(tape, hidden, ones));
    tg_tensor_zero_grad(ones);
    tg_tensor *gradient = tg_tensor_new_dense_grad(x, NULL);
    tg_tensor_zero_grad(x);
    tg_tape_reset(tape);
    assert_true(backward_from(tape, tg_tanh(tape, x), ones));
    assert_memory_equal(tg_tensor_data(gradient), tg_tensor_data(tg_tensor_grad(x)), 6 * sizeof(double));
    tg_release(gradient);
    tg_release(ones);
}

/* A backward from a result in the middle of a span replays the span up to it, and nothing behind it: neither the memory
 * nor the values of the calls behind it exist. */
static void test_result_in_the_middle(void **state)
{
    (void)state;
    tg_tensor *large = tg_tensor_new_full(TG_F64, TG_SHAPE(200000), 0.5, NULL), *gradients[2];
    for (int in_span = 0; in_span < 2; in_span++) {
        tg_tape_reset(tape);
        tg_tensor_zero_grad(x);
        assert_true(!in_span || tg_activation_checkpoint_begin(tape));
        tg_tensor *y = tg_mul(tape, tg_exp(tape, tg_add(tape, x, x)), x);
        tg_tensor *first = total(tape, y), *wide = tg_mul(tape, first, large);
        tg_tensor *behind = tg_mse_loss(tape, wide, large, TG_REDUCTION_MEAN);
        assert_true(!in_span || tg_activation_checkpoint_end(tape, first));
        assert_true(!in_span || tg_is_dropped(wide));
        assert_true(!in_span || tg_is_dropped(behind));
        assert_true(tg_backward(tape, first, NULL));
        gradients[in_span] = tg_tensor_new_dense_grad(x, NULL);
        assert_true(tg_tensor_value_at(large, 199999) == 0.5);
    }
    assert_memory_equal(tg_tensor_data(gradients[0]), tg_tensor_data(gradients[1]), 6 * sizeof(double));
    for (int i = 0; i < 6; i++) { /* of exp(2x) x */
        double at = i + 1, expected = exp(2 * at) * (2 * at + 1);
        assert_true(fabs(tg_tensor_value_at(gradients[1], i) - expected) < 1e-12 * expected);
    }
    tg_release(gradients[0]);
    tg_release(gradients[1]);
    tg_release(large);
}

/* What comes behind the result is not checked either: a change of its inputs does not matter. */
static void test_changed_input_behind_the_result(void **state)
{
    (void)state;
    tg_tensor *bias = tensor_f64(TG_SHAPE(3), (double[]){1, 2, 3});
    assert_true(tg_activation_checkpoint_begin(tape));
    tg_tensor *y = tg_tanh(tape, tg_exp(tape, x)), *behind = tg_dropout(tape, tg_exp(tape, tg_add(tape, y, bias)), 0.5);
    assert_non_null(tg_activation_checkpoint_end(tape, y));
    assert_true(tg_is_dropped(behind));
    assert_true(tg_tensor_fill(bias, 7, NULL));
    assert_true(tg_backward(tape, total(tape, y), NULL));
    tg_release(bias);
}

/* A reference that the caller takes after the end outlives the tape, without values. */
static void test_late_reference(void **state)
{
    (void)state;
    tg_tensor *hidden;
    span(&hidden);
    tg_retain(hidden);
    tg_tape_reset(tape);
    assert_null(tg_exp(tape, hidden));
    assert_tape_error(tape, TG_ERROR_STATE, "exp: activation_checkpoint_end has dropped the values");
    tg_tape_free(tape);
    tape = NULL;
    assert_null(tg_tensor_data(hidden));
    assert_int_equal(tg_tensor_count(hidden), 6);
    tg_release(hidden);
}

/* ---- errors of backward ---- */

/* A replay reads the inputs of a sum, though its backward does not; so do a view's and a kept result's readers. */
static void test_changed_inputs(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        tg_tensor *bias = tensor_f64(TG_SHAPE(3), (double[]){1, 2, 3});
        assert_true(tg_activation_checkpoint_begin(tape));
        tg_tensor *sum = tg_add(tape, x, bias), *kept = tg_exp(tape, sum), *twice = tg_add(tape, kept, kept);
        tg_tensor *y = tg_activation_checkpoint_end(tape, tg_tanh(tape, tg_mul_scalar(tape, twice, 0.5)));
        tg_tensor *changed = k == 0 ? bias : k == 1 ? x : y;
        tg_tensor_zero_grad(x);
        assert_true(tg_tensor_fill(changed, 7, NULL));
        assert_false(backward_from(tape, y, x));
        assert_int_equal(tg_tensor_grad_kind(x), TG_GRAD_NONE);
        assert_tape_error(tape, TG_ERROR_STATE,
                          k == 0   ? "backward: input 1 of 'add' was changed in place after it was recorded (version 0 "
                                     "then, 1 now), and activation_checkpoint_end lets backward compute the call again"
                          : k == 1 ? "backward: input 0 of 'add' was changed in place"
                                   : "backward: output 0 of 'tanh' was changed in place");
        tg_release(bias);
        tg_tape_reset(tape);
    }
}

/* The same for a value that a call of the span read before the program changed it. */
static void test_value_changed_between_calls(void **state)
{
    (void)state;
    assert_true(tg_activation_checkpoint_begin(tape));
    tg_tensor *sum = tg_add(tape, x, x), *y = tg_exp(tape, sum);
    assert_true(tg_tensor_fill(sum, 0.5, NULL));
    y = tg_activation_checkpoint_end(tape, tg_mul(tape, y, sum));
    assert_false(backward_from(tape, y, x));
    assert_tape_error(tape, TG_ERROR_STATE, "backward: input 0 of 'exp' was changed in place");
}

static void test_freed_span(void **state)
{
    (void)state;
    tg_tensor *hidden;
    tg_tensor *y = span(&hidden);
    assert_true(backward_from(tape, y, x));
    assert_false(backward_from(tape, y, x));
    assert_tape_error(tape, TG_ERROR_STATE, "an earlier backward has freed the record of 'mul'");
}

/* ---- begin and end ---- */

static void test_unmatched(void **state)
{
    (void)state;
    static const char none[] = "activation_checkpoint_end: no span is open on this tape";
    assert_null(tg_activation_checkpoint_end(tape, x));
    assert_tape_error(tape, TG_ERROR_STATE, none);
    assert_true(tg_scope_begin(tape));
    assert_null(tg_activation_checkpoint_end(tape, x));
    assert_tape_error(tape, TG_ERROR_STATE, "activation_checkpoint_end: a scope was begun last, and must end first");
    assert_true(tg_activation_checkpoint_begin(tape));
    assert_false(tg_scope_end(tape, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "scope_end: a span was begun last, and must end first");
    tg_tensor *hidden = tg_exp(tape, x), *y = tg_exp(tape, hidden);
    assert_ptr_equal(tg_activation_checkpoint_end(tape, y), y);
    assert_true(tg_is_dropped(hidden));
    assert_true(tg_scope_end(tape, NULL));
    /* a reset closes the spans */
    assert_true(tg_activation_checkpoint_begin(tape) && tg_activation_checkpoint_begin(tape));
    tg_tape_reset(tape);
    assert_null(tg_activation_checkpoint_end(tape, x));
    assert_tape_error(tape, TG_ERROR_STATE, none);
    span(&hidden);
    assert_true(tg_is_dropped(hidden));
}

/* The end closes the span after an error, and drops nothing. */
static void test_end_after_an_error(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        assert_true(tg_activation_checkpoint_begin(tape));
        tg_tensor *hidden = tg_dropout(tape, tg_exp(tape, x), 0.5), *y = tg_tanh(tape, hidden);
        if (k == 0) {
            assert_null(tg_activation_checkpoint_end(tape, tg_matmul(tape, y, y)));
            assert_tape_error(tape, TG_ERROR_SHAPE, "matmul");
        } else {
            assert_null(tg_activation_checkpoint_end(tape, NULL));
            assert_tape_error(tape, TG_ERROR_STATE, "activation_checkpoint_end: the result is NULL");
        }
        assert_false(tg_is_dropped(hidden));
        assert_null(tg_activation_checkpoint_end(tape, y));
        assert_tape_error(tape, TG_ERROR_STATE, "no span is open");
        assert_true(backward_from(tape, y, x));
        assert_null(tg_matmul(tape, y, y));
        assert_false(tg_activation_checkpoint_begin(tape));
        assert_tape_error(tape, TG_ERROR_SHAPE, "matmul");
    }
}

/* A module that fails in a span, and one that fails around it: its records are removed, and its draws are undone. */
static void test_failed_module(void **state)
{
    (void)state;
    tg_tensor *gradients[2], *noise = tensor_f64(TG_SHAPE(2, 3), (double[]){1, -1, 1, -1, 1, -1});
    for (int fails = 0; fails < 2; fails++) {
        tg_rng_seed(tg_run_rng(run), 9);
        tg_tape_reset(tape);
        tg_tensor_zero_grad(x);
        tg_tape_point point, around;
        tg_tape_save_point(tape, true, &around);
        if (fails) {
            tg_tensor *hidden;
            span(&hidden);
            tg_dropout(tape, x, 0.5);
            assert_true(tg_activation_checkpoint_begin(tape));
            tg_dropout(tape, x, 0.5);
            assert_non_null(tg_activation_checkpoint_end(tape, tg_exp(tape, tg_dropout(tape, x, 0.5))));
            assert_null(tg_tape_end(tape, &around, NULL));
        }
        assert_true(tg_activation_checkpoint_begin(tape));
        tg_tensor *y = tg_dropout(tape, tg_exp(tape, x), 0.5);
        tg_tape_save_point(tape, true, &point);
        if (fails) {
            tg_bernoulli(tape, tg_full(tape, TG_F64, TG_SHAPE(5), 0.5));
            tg_dropout(tape, tg_dropout(tape, y, 0.5), 0.5);
            assert_null(tg_tape_end(tape, &point, NULL));
        }
        y = tg_activation_checkpoint_end(tape, tg_exp(tape, tg_dropout(tape, tg_tanh(tape, y), 0.5)));
        assert_true(backward_from(tape, y, noise));
        gradients[fails] = tg_tensor_new_dense_grad(x, NULL);
    }
    assert_memory_equal(tg_tensor_data(gradients[0]), tg_tensor_data(gradients[1]), 6 * sizeof(double));
    tg_release(gradients[0]);
    tg_release(gradients[1]);
    tg_release(noise);
}

/* A module gives back results that no backward reads, but not those that a span reads: of a span that has ended in it,
 * and of one around its end. */
static void test_module_around_a_span(void **state)
{
    (void)state;
    for (int is_open = 0; is_open < 2; is_open++) {
        tg_tape_point point;
        tg_tape_save_point(tape, false, &point);
        tg_tensor *input = tg_add(tape, x, x), *unread = tg_add(tape, input, x);
        assert_true(tg_activation_checkpoint_begin(tape));
        tg_tensor *y = tg_tanh(tape, tg_add(tape, input, x));
        y = is_open ? tg_tape_end_module(tape, &point, y) : tg_tanh(tape, y);
        tg_tensor *result = tg_activation_checkpoint_end(tape, is_open ? tg_tanh(tape, y) : y);
        assert_non_null(is_open ? result : tg_tape_end_module(tape, &point, result));
        assert_false(tg_is_dropped(input));
        assert_true(tg_is_dropped(unread) && tg_is_dropped(y) == is_open);
        tg_tensor_zero_grad(x);
        assert_true(tg_backward(tape, total(tape, result), NULL));
        for (int i = 0; i < 6; i++) {
            double inner = tanh(3 * (i + 1)), outer = tanh(inner);
            assert_true(fabs(tg_tensor_value_at(tg_tensor_grad(x), i) - 3 * (1 - outer * outer) * (1 - inner * inner)) <
                        1e-12);
        }
        tg_tape_reset(tape);
    }
}

/* ---- out of memory ---- */

/* Two spans with a foreign draw, and a lookup by rows. */
static bool step(tg_tape *t, tg_tensor *table, tg_tensor *ids)
{
    tg_tensor *y = table;
    for (int i = 0; i < 2; i++) {
        if (!tg_activation_checkpoint_begin(t)) {
            return false;
        }
        tg_tensor *drawn = tg_dropout(t, y, 0.5);
        y = i == 0 ? tg_mul(t, tg_embedding(t, ids, table, NULL), tg_embedding(t, ids, drawn, NULL)) : drawn;
        tg_bernoulli(t, tg_full(t, TG_F64, TG_SHAPE(3), 0.5));
        y = tg_mul(t, tg_dropout(t, y, 0.5), tg_sigmoid(t, tg_tanh(t, y)));
        y = tg_activation_checkpoint_end(t, tg_layer_norm(t, y, NULL, NULL, 1e-5));
    }
    return tg_backward(t, y ? total(t, tg_mul(t, y, y)) : NULL, NULL);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    double expected[6];
    bool finished = false;
    size_t failures = 0;
    for (size_t k = 0; !finished; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        tg_tape_config config = tg_tape_config_default();
        config.recycle = k % 2;
        tg_run *draws = tg_run_new(4);
        tg_rng *saved = tg_rng_new(0);
        tg_tape *t = tg_tape_new(draws, &config);
        tg_tensor *table = leaf(tensor_f64(TG_SHAPE(2, 3), (double[]){1, 2, 4, -1, 0, 3}));
        tg_tensor *ids = tensor_i32(TG_SHAPE(3), (int32_t[]){1, 0, 1});
        tg_rng_copy(saved, tg_run_rng(draws));
        allocator_arm(&counting, k / 4 + 1, k / 2 % 2);
        bool done = step(t, table, ids);
        allocator_arm(&counting, 0, false);
        if (!done) {
            assert_int_equal(tg_tape_error(t)->code, TG_ERROR_MEMORY);
            assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_NONE);
            clear_tape_error(t);
            tg_tape_reset(t);
            tg_rng_copy(tg_run_rng(draws), saved);
            assert_true(step(t, table, ids));
        }
        failures += !done;
        finished = done && k % 4 == 3;
        tg_tensor *gradient = tg_tensor_new_dense_grad(table, NULL);
        if (k == 0) {
            memcpy(expected, tg_tensor_data(gradient), sizeof expected);
        }
        assert_memory_equal(tg_tensor_data(gradient), expected, sizeof expected);
        tg_release(gradient);
        tg_release(table);
        tg_release(ids);
        tg_tape_free(t);
        tg_run_free(draws);
        tg_rng_free(saved);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
    assert_true(failures > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory),
        cmocka_unit_test_setup_teardown(test_saved_bytes_are_freed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_without_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_result_in_the_middle, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_input_behind_the_result, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_reference, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_inputs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_value_changed_between_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_freed_span, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unmatched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_end_after_an_error, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failed_module, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_module_around_a_span, set_up, tear_down),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests_name("dropped_values", tests, NULL, NULL);
}

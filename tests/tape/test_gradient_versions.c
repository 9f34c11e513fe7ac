/* The gradient of a tensor as the input of a recorded op: each call that changes the gradient moves its version, so
 * that a backward that needs the old values is refused, as torch refuses it. */
#include "ops/calls.h"
#include "support.h"
#include "tape/tape.h"

static tg_tape *tape;
static tg_tensor *x, *w; /* f64 (2) */

static int set_up(void **state)
{
    (void)state;
    tape = tg_tape_new(NULL, NULL);
    x = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 2}));
    w = leaf(tensor_f64(TG_SHAPE(2), (double[]){3, 5}));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_release(x);
    tg_release(w);
    return 0;
}

static tg_tensor *total(tg_tensor *y)
{
    return tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES);
}

/* Gives x the gradient 2x = (2,4). */
static void square_backward(tg_tensor *of)
{
    assert_true(tg_backward(tape, total(tg_mul(tape, of, of)), NULL));
}

/* ---- what changes a gradient ---- */

static void by_backward(void)
{
    square_backward(x);
}

static void by_backward_of_a_leaf(void)
{
    assert_true(backward_from(tape, x, w));
}

static void by_first_backward_after_zero_grad(void)
{
    tg_tensor_zero_grad(x);
    square_backward(x);
}

static void by_clip(void)
{
    tg_params *params = tg_params_new(NULL, TG_F64);
    assert_non_null(tg_params_add_existing(params, "x", x));
    assert_true(tg_clip_grad_norm(params, 1) > 4);
    tg_params_free(params);
}

static void by_scaling(void)
{
    tg_params *params = tg_params_new(NULL, TG_F64);
    assert_non_null(tg_params_add_existing(params, "x", x));
    assert_true(tg_scale_grad(params, 2));
    tg_params_free(params);
}

static void by_freezing(void)
{
    assert_true(tg_tensor_set_rows_frozen(x, 1, 1, true, NULL));
}

static void by_writing(void)
{
    assert_true(tg_tensor_fill(tg_tensor_grad(x), 7, NULL));
}

static void test_changes_are_detected(void **state)
{
    (void)state;
    void (*const changes[])(void) = {
        by_backward, by_backward_of_a_leaf, by_first_backward_after_zero_grad, by_clip, by_scaling, by_freezing,
        by_writing};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        tg_tape_reset(tape);
        tg_tensor_zero_grad(x);
        tg_tensor_zero_grad(w);
        square_backward(x);
        tg_tensor *penalty = total(tg_mul(tape, tg_tensor_grad(x), w));
        changes[i]();
        if (tg_backward(tape, penalty, NULL)) {
            fail_msg("change %zu of the gradient is not detected", i);
        }
        assert_tape_error(tape, TG_ERROR_STATE, "backward: input 0 of 'mul' was changed in place");
        assert_int_equal(tg_tensor_grad_kind(w), TG_GRAD_NONE);
    }
}

/* Calls that only read it, and a backward through other leaves, are allowed. */
static void test_reads_are_allowed(void **state)
{
    (void)state;
    square_backward(x);
    tg_tensor *penalty = total(tg_mul(tape, tg_tensor_grad(x), w));
    tg_params *params = tg_params_new(NULL, TG_F64);
    assert_non_null(tg_params_add_existing(params, "x", x));
    assert_true(tg_clip_grad_norm(params, 100) > 4);
    assert_true(tg_tensor_make_grad_dense(x, NULL));
    square_backward(w);
    tg_tensor_zero_grad(w);
    assert_true(tg_backward(tape, penalty, NULL));
    assert_values(tg_tensor_grad(w), (double[]){2, 4}, 2, 0, 0);
    tg_params_free(params);
}

static void test_rows_added_to_a_dense_gradient(void **state)
{
    (void)state;
    tg_tensor *table = leaf(tensor_f64(TG_SHAPE(2, 1), (double[]){1, 2}));
    assert_true(tg_tensor_make_grad_dense(table, NULL));
    tg_tensor *y = total(tg_mul(tape, tg_tensor_grad(table), w));
    assert_true(tg_tensor_add_grad_rows(table, (int32_t[]){1}, (double[]){4}, 1, NULL));
    assert_false(tg_backward(tape, y, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "backward: input 0 of 'mul' was changed in place");
    tg_release(table);
}

/* One pass adds to the gradient of x before it reads it. */
static void test_within_one_pass(void **state)
{
    (void)state;
    square_backward(x);
    tg_tensor *penalty = tg_mul(tape, tg_tensor_grad(x), w), *loss = tg_mul(tape, x, x);
    assert_false(tg_backward(tape, total(tg_add(tape, penalty, loss)), NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "backward: input 0 of 'mul' was changed in place");
    /* nothing has changed, the version included: without the loss of x, the penalty can be differentiated */
    assert_values(tg_tensor_grad(x), (double[]){2, 4}, 2, 0, 0);
    assert_true(tg_backward(tape, total(penalty), NULL));
    assert_values(tg_tensor_grad(w), (double[]){2, 4}, 2, 0, 0);
}

/* The same record reads the gradient of x, and adds to it. */
static void test_within_one_record(void **state)
{
    (void)state;
    square_backward(x);
    assert_false(tg_backward(tape, total(tg_mul(tape, tg_tensor_grad(x), x)), NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "backward: input 0 of 'mul' was changed in place");
    assert_values(tg_tensor_grad(x), (double[]){2, 4}, 2, 0, 0);
}

/* A replay reads the gradient after the pass has added to it. */
static void test_within_a_span(void **state)
{
    (void)state;
    square_backward(x);
    assert_true(tg_activation_checkpoint_begin(tape));
    tg_tensor *sum = tg_add(tape, tg_tensor_grad(x), w);
    tg_tensor *y = tg_activation_checkpoint_end(tape, tg_tanh(tape, tg_mul(tape, sum, sum)));
    assert_false(tg_backward(tape, total(tg_mul(tape, y, x)), NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "backward: input 0 of 'add' was changed in place");
    assert_true(tg_backward(tape, total(y), NULL));
}

/* The gradient that tg_retain_grad keeps. */
static void test_gradient_of_a_result(void **state)
{
    (void)state;
    tg_backward_config config = tg_backward_config_default();
    config.retain_graph = true;
    tg_tensor *y = tg_mul(tape, x, x), *loss;
    assert_true(tg_retain_grad(tape, y));
    loss = total(tg_mul(tape, y, y));
    assert_true(tg_backward(tape, loss, &config));
    tg_tensor *penalty = total(tg_mul(tape, tg_tensor_grad(y), w));
    assert_true(tg_backward(tape, loss, &config));
    assert_false(tg_backward(tape, penalty, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "backward: input 0 of 'mul' was changed in place");
}

/* Each allocation of tg_retain_grad fails in turn: the result stays as it is, and a later backward does not write to a
 * gradient that does not exist. */
static void test_retain_grad_out_of_memory(void **state)
{
    (void)state;
    int failures = 0;
    for (size_t k = 1;; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *a = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 2}));
        tg_tensor *y = tg_mul(t, a, a), *loss = tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES);
        allocator_arm(&counting, k, false);
        bool retained = tg_retain_grad(t, y);
        allocator_arm(&counting, 0, false);
        if (!retained) {
            assert_tape_error(t, TG_ERROR_MEMORY, "retain_grad: out of memory");
        }
        assert_true(tg_backward(t, loss, NULL));
        assert_values(tg_tensor_grad(a), (double[]){2, 4}, 2, 0, 0);
        assert_true(!tg_tensor_grad(y) == !retained);
        tg_release(a);
        tg_tape_free(t);
        assert_int_equal(counting.live, 0);
        allocator_restore();
        failures += !retained;
        if (retained) {
            break;
        }
    }
    assert_true(failures >= 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_changes_are_detected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads_are_allowed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rows_added_to_a_dense_gradient, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_within_one_pass, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_within_one_record, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_within_a_span, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gradient_of_a_result, set_up, tear_down),
        cmocka_unit_test(test_retain_grad_out_of_memory),
    };
    return cmocka_run_group_tests_name("gradient_versions", tests, NULL, NULL);
}

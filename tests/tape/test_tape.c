/* The tape: ownership of results, records, reset, and backward through the records. */
#include "support.h"

#include <string.h>

#include "tape_stats.h"

static tg_tape *tape;
static tg_run *run;

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(1);
    tape = tg_tape_new(run, NULL);
    return tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_run_free(run);
    return 0;
}

static bool backward_retained(tg_tensor *result)
{
    tg_backward_config config = tg_backward_config_default();
    config.retain_graph = true;
    return tg_backward(tape, result, &config);
}

static bool backward_from(tg_tape *t, tg_tensor *result, const tg_tensor *gradient)
{
    tg_backward_config config = tg_backward_config_default();
    config.gradient = gradient;
    return tg_backward(t, result, &config);
}

static tg_tensor *number(double value)
{
    return leaf(tensor_f64(TG_SHAPE(1), &value));
}

static double gradient(const tg_tensor *x)
{
    return tg_tensor_grad(x) ? tg_tensor_value_at(tg_tensor_grad(x), 0) : 0;
}

/* f = (a b + a) b with a = 3, b = 4: df/da = (b + 1) b = 20, df/db = 2 a b + a = 27 */
static void test_product_rule(void **state)
{
    (void)state;
    tg_tensor *a = number(3), *b = number(4);
    tg_tensor *f = tg_mul(tape, tg_add(tape, tg_mul(tape, a, b), a), b);
    assert_true(tg_tensor_value_at(f, 0) == 60);
    assert_true(tg_backward(tape, f, NULL));
    assert_true(gradient(a) == 20);
    assert_true(gradient(b) == 27);
    tg_release(a);
    tg_release(b);
}

/* An intermediate that is used more than once collects from all its users before it passes anything on. */
static void test_reused_intermediate(void **state)
{
    (void)state;
    tg_tensor *a = number(2);
    /* 4 */
    tg_tensor *b = tg_mul(tape, a, a);
    /* a^4 + a^3 */
    tg_tensor *f = tg_add(tape, tg_mul(tape, b, b), tg_mul(tape, b, a));
    assert_true(tg_backward(tape, f, NULL));
    assert_true(gradient(a) == 4 * 8 + 3 * 4);
    tg_release(a);
}

/* x - x: the same gradient is written through two inputs. */
static void test_same_tensor_twice(void **state)
{
    (void)state;
    tg_tensor *a = number(5);
    assert_true(tg_backward(tape, tg_sub(tape, a, a), NULL));
    assert_true(gradient(a) == 0);
    tg_tape_reset(tape);
    tg_tensor_zero_grad(a);
    tg_tensor *b = tg_add(tape, a, a);
    /* 4 a^2 */
    assert_true(tg_backward(tape, tg_mul(tape, b, b), NULL));
    assert_true(gradient(a) == 40);
    tg_release(a);
}

static void test_gradients_accumulate_until_zeroed(void **state)
{
    (void)state;
    tg_tensor *a = number(5);
    for (int step = 1; step <= 3; step++) {
        tg_tape_reset(tape);
        assert_true(tg_backward(tape, tg_mul(tape, a, a), NULL));
        assert_true(gradient(a) == 10 * step);
    }
    tg_tensor_zero_grad(a);
    assert_int_equal(tg_tensor_grad_kind(a), TG_GRAD_NONE);
    assert_null(tg_tensor_grad(a));
    tg_release(a);
}

static void test_second_backward_is_refused_unless_retained(void **state)
{
    (void)state;
    tg_tensor *a = number(5);
    tg_tensor *f = tg_mul(tape, a, a);
    assert_true(backward_retained(f));
    assert_true(tg_backward(tape, f, NULL));
    assert_true(gradient(a) == 20);
    assert_false(tg_backward(tape, f, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "an earlier backward has freed the record of 'mul'; set retain_graph");
    assert_true(gradient(a) == 20);
    tg_release(a);
}

static void test_changed_saved_tensor_is_refused(void **state)
{
    (void)state;
    tg_tensor *a = number(5), *b = number(6);
    tg_tensor *f = tg_mul(tape, a, b);
    ((double *)tg_tensor_data_mut(b))[0] = 7;
    assert_false(tg_backward(tape, f, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "input 1 of 'mul' was changed in place");
    assert_int_equal(tg_tensor_grad_kind(a), TG_GRAD_NONE);
    tg_tape_reset(tape);
    /* add reads nothing back */
    f = tg_add(tape, a, b);
    ((double *)tg_tensor_data_mut(b))[0] = 8;
    assert_true(tg_backward(tape, f, NULL));
    tg_release(a);
    tg_release(b);
}

static void test_gradient_to_start_from(void **state)
{
    (void)state;
    tg_tensor *a = leaf(tensor_f64(TG_SHAPE(3), (double[]){1, 2, 3}));
    tg_tensor *first = tensor_f64(TG_SHAPE(3), (double[]){10, 100, 1000}),
              *wrong = tensor_f64(TG_SHAPE(2), (double[]){1, 2}),
              *single = tensor_f32(TG_SHAPE(3), (float[]){10, 100, 1000});
    tg_tensor *y = tg_mul(tape, a, a);
    assert_false(tg_backward(tape, y, NULL));
    assert_tape_error(tape, TG_ERROR_SHAPE, "shape (3,)");
    assert_false(backward_from(tape, y, wrong));
    assert_tape_error(tape, TG_ERROR_SHAPE, "the gradient has shape (2,), and the result (3,)");
    assert_false(backward_from(tape, y, single));
    assert_tape_error(tape, TG_ERROR_DTYPE, "the gradient is f32, and the result f64");
    assert_true(backward_from(tape, y, first));
    assert_values(tg_tensor_grad(a), (double[]){20, 400, 6000}, 3, 0, 0);
    /* in any layout */
    tg_tensor *line = tensor_f64(TG_SHAPE(3, 2), (double[]){1000, 0, 100, 0, 10, 0});
    tg_tensor_zero_grad(a);
    assert_true(backward_from(tape, tg_mul(tape, a, a), tg_select(tape, line, 1, 0)));
    assert_values(tg_tensor_grad(a), (double[]){2000, 400, 60}, 3, 0, 0);
    tg_release(line);
    tg_release(a);
    tg_release(first);
    tg_release(wrong);
    tg_release(single);
}

/* An op that has nothing to do returns its input, which may be a loss: its gradient is 1. */
static void test_input_as_result(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        tg_tensor *a = leaf(tg_tensor_new_full(TG_F64, TG_SCALAR, 3, NULL));
        tg_tensor *loss = i == 0 ? tg_dropout(tape, a, 0) : i == 1 ? tg_contiguous(tape, a) : tg_cast(tape, a, TG_F64);
        assert_ptr_equal(loss, a);
        assert_true(tg_backward(tape, loss, NULL));
        assert_true(gradient(a) == 1);
        tg_release(a);
    }
}

/* A result that is a leaf gets the gradient that the pass starts from, on top of what it has. */
static void test_leaf_as_result(void **state)
{
    (void)state;
    tg_tensor *a = number(3), *wide = leaf(tensor_f64(TG_SHAPE(2), (double[]){1, 2})),
              *first = tensor_f64(TG_SHAPE(2), (double[]){5, 7});
    assert_true(tg_backward(tape, a, NULL));
    assert_true(tg_backward(tape, a, NULL));
    assert_true(gradient(a) == 2);
    assert_true(backward_from(tape, wide, first));
    assert_values(tg_tensor_grad(wide), (double[]){5, 7}, 2, 0, 0);
    assert_false(tg_backward(tape, first, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "the result does not require a gradient");
    assert_false(tg_backward(tape, NULL, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "backward: the result is NULL");
    tg_release(a);
    tg_release(wide);
    tg_release(first);
}

/* Leaves in the order of their announcement, and the gradients that they had then. */
typedef struct announced {
    int count;
    tg_tensor *leaves[8];
    double gradients[8];
} announced;

static void announce(void *context, tg_tensor *leaf)
{
    announced *a = context;
    assert_true(a->count < 8);
    a->leaves[a->count] = leaf;
    a->gradients[a->count++] = gradient(leaf);
}

/* f = (a b + a) b c c: c is announced first, once, then b, whose last contribution is from a b, and a with it. A frozen
 * leaf is not announced. */
static void test_finished_gradients_are_announced(void **state)
{
    (void)state;
    tg_tensor *a = number(3), *b = number(4), *c = number(2), *frozen = number(1);
    for (int pass = 0; pass < 2; pass++) {
        tg_tensor *product = tg_mul(tape, tg_add(tape, tg_mul(tape, a, b), a), b);
        tg_tensor *f = tg_mul(tape, tg_mul(tape, product, frozen), tg_mul(tape, c, c));
        assert_true(tg_tensor_set_requires_grad(frozen, false, NULL));
        announced found = {0};
        tg_backward_config config = tg_backward_config_default();
        config.on_gradient = announce;
        config.context = &found;
        assert_true(tg_backward(tape, f, &config));
        assert_int_equal(found.count, 3);
        assert_ptr_equal(found.leaves[0], c);
        assert_ptr_equal(found.leaves[1], a);
        assert_ptr_equal(found.leaves[2], b);
        /* the gradient is complete, and includes that of an earlier pass */
        assert_true(found.gradients[0] == 60 * 4 * (pass + 1));
        assert_true(found.gradients[1] == 20 * 4 * (pass + 1));
        assert_true(found.gradients[2] == 27 * 4 * (pass + 1));
        tg_tape_reset(tape);
    }
    announced found = {0};
    tg_backward_config config = tg_backward_config_default();
    config.on_gradient = announce;
    config.context = &found;
    assert_true(tg_backward(tape, a, &config));
    assert_int_equal(found.count, 1);
    assert_ptr_equal(found.leaves[0], a);
    /* after an error nothing has changed, and nothing is announced */
    assert_false(tg_backward(tape, frozen, &config));
    assert_int_equal(found.count, 1);
    clear_tape_error(tape);
    tg_release(a), tg_release(b), tg_release(c), tg_release(frozen);
}

static void test_retain_grad(void **state)
{
    (void)state;
    tg_tensor *a = number(3);
    tg_tensor *b = tg_mul(tape, a, a);
    assert_true(tg_retain_grad(tape, b));
    tg_tensor *f = tg_mul(tape, b, b);
    assert_true(backward_retained(f));
    assert_true(tg_tensor_value_at(tg_tensor_grad(b), 0) == 18);
    assert_true(tg_backward(tape, f, NULL));
    assert_true(tg_tensor_value_at(tg_tensor_grad(b), 0) == 36);
    assert_true(gradient(a) == 2 * 108);
    assert_false(tg_retain_grad(tape, a));
    assert_tape_error(tape, TG_ERROR_STATE, "retain_grad");
    tg_release(a);
}

static void test_recording_off_records_nothing(void **state)
{
    (void)state;
    tg_tensor *a = number(3);
    tg_tape_set_recording(tape, false);
    tg_tensor *f = tg_mul(tape, a, a);
    assert_false(tg_tensor_requires_grad(f));
    assert_int_equal(tape_stats_of(tape).records, 0);
    assert_false(tg_backward(tape, f, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "the result does not require a gradient: recording was off");
    tg_tape_set_recording(tape, true);
    tg_release(a);
}

/* An evaluation restores what it found, nested, across a reset, and while the tape holds an error. */
static void test_evaluations_nest(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool recording = i & 1, training = i & 2;
        tg_tape_set_recording(tape, recording);
        tg_tape_set_training(tape, training);
        tg_evaluation before = tg_evaluation_begin(tape);
        assert_false(tg_tape_is_recording(tape) || tg_tape_is_training(tape));
        tg_tape_set_recording(tape, true);
        tg_evaluation inner = tg_evaluation_begin(tape);
        tg_tape_reset(tape);
        assert_false(tg_tape_is_recording(tape) || tg_tape_is_training(tape));
        assert_null(tg_exp(tape, NULL));
        tg_evaluation_end(tape, inner);
        assert_true(tg_tape_is_recording(tape));
        assert_false(tg_tape_is_training(tape));
        tg_evaluation_end(tape, before);
        assert_true(tg_tape_is_recording(tape) == recording && tg_tape_is_training(tape) == training);
        clear_tape_error(tape);
    }
    tg_evaluation none = tg_evaluation_begin(NULL);
    assert_false(none.recording || none.training);
    tg_evaluation_end(NULL, none);
}

/* A training that never resets its tape gets an error, before its memory grows without an end. */
static void test_a_forgotten_reset_is_reported(void **state)
{
    (void)state;
    tg_tape_config config = tg_tape_config_default();
    assert_int_equal(config.max_backwards, 1000);
    config.max_backwards = 3;
    tg_tape *t = tg_tape_new(NULL, &config);
    tg_tensor *a = number(3);
    tg_backward_config retain = tg_backward_config_default();
    retain.retain_graph = true;
    for (int round = 0; round < 2; round++) {
        tg_tensor_zero_grad(a);
        tg_tensor *kept = tg_mul(t, a, a);
        for (int i = 0; i < 3; i++) {
            assert_true(tg_backward(t, kept, &retain)); /* retains the graph, and does not count */
            assert_true(tg_backward(t, tg_mul(t, a, a), NULL));
        }
        assert_false(tg_backward(t, tg_mul(t, a, a), NULL));
        assert_tape_error(t, TG_ERROR_STATE,
                          "backward: 3 backwards since the last reset, and the tape keeps the records of all; begin "
                          "each step with tg_tape_reset (tg_tape_config.max_backwards)");
        assert_true(gradient(a) == 6 * 6);
        tg_tape_reset(t);
    }
    tg_tape_free(t);
    config.max_backwards = 0;
    t = tg_tape_new(NULL, &config);
    for (int i = 0; i < 1100; i++) {
        assert_true(tg_backward(t, tg_mul(t, a, a), NULL));
    }
    tg_tape_free(t);
    config.max_backwards = -1;
    t = tg_tape_new(NULL, &config);
    assert_tape_error(t, TG_ERROR_VALUE, "tape_new: max_backwards is -1; it must be at least 0");
    tg_tape_free(t);
    tg_release(a);
}

/* What the tape owns is not freed by a release too many, which is reported. */
static void test_release_of_a_result_is_reported(void **state)
{
    (void)state;
    static const char text[] =
        "release: this result of shape (2,3) belongs to its tape, which frees it at the reset; release what you have "
        "created or retained, once";
    tg_tensor *x = leaf(tensor_f64(TG_SHAPE(2, 3), (double[6]){1, 2})), *y = tg_mul(tape, x, x);
    tg_release(y);
    assert_tape_error(tape, TG_ERROR_STATE, text);
    assert_true(tg_tensor_value_at(y, 1) == 4);
    tg_retain(y);
    tg_release(y);
    assert_int_equal(tg_tape_error(tape)->code, TG_OK);
    tg_release(y); /* the second release of what was retained once */
    assert_tape_error(tape, TG_ERROR_STATE, text);
    tg_tensor *constant = tg_constant_f64(tape, TG_SHAPE(2, 3), (double[6]){0}), *kept = tg_retain(tg_exp(tape, x));
    tg_release(constant);
    assert_tape_error(tape, TG_ERROR_STATE, text);
    tg_tape_reset(tape);
    tg_release(kept); /* the reset has left it to the program */
    assert_int_equal(tg_tape_error(tape)->code, TG_OK);
    tg_release(x);
}

static void test_first_error_stays(void **state)
{
    (void)state;
    tg_tensor *a = number(3), *wide = tensor_f64(TG_SHAPE(2, 3), (double[6]){0}),
              *other = tensor_f64(TG_SHAPE(4), (double[4]){0});
    tg_tensor *single = tensor_f32(TG_SHAPE(1), (float[]){1});
    assert_null(tg_add(tape, wide, other));
    assert_null(tg_add(tape, a, single));
    assert_null(tg_add(tape, a, a));
    assert_false(tg_backward(tape, a, NULL));
    assert_tape_error(tape, TG_ERROR_SHAPE, "add: shapes (2,3) and (4,) do not broadcast");
    assert_null(tg_add(tape, a, single));
    assert_tape_error(tape, TG_ERROR_DTYPE, "tg_cast");
    assert_null(tg_add(tape, NULL, a));
    assert_tape_error(tape, TG_ERROR_STATE, "argument 'a' is NULL");
    assert_non_null(tg_add(tape, a, a));
    assert_null(tg_add(NULL, a, a));
    tg_release(a);
    tg_release(wide);
    tg_release(other);
    tg_release(single);
}

static void test_retained_result_outlives_reset_and_tape(void **state)
{
    (void)state;
    tg_tape *short_lived = tg_tape_new(NULL, NULL);
    tg_tensor *a = number(3);
    tg_tensor *kept = tg_retain(tg_mul(short_lived, a, a));
    tg_tape_reset(short_lived);
    assert_false(tg_tensor_requires_grad(kept));
    tg_tensor *again = tg_retain(tg_mul(short_lived, kept, a));
    tg_tape_free(short_lived);
    assert_true(tg_tensor_value_at(kept, 0) == 9);
    assert_true(tg_tensor_value_at(again, 0) == 27);
    tg_release(kept);
    tg_release(again);
    tg_release(a);
}

static void test_result_of_another_tape_is_refused(void **state)
{
    (void)state;
    tg_tape *other = tg_tape_new(NULL, NULL);
    tg_tensor *a = number(3);
    tg_tensor *foreign = tg_mul(other, a, a);
    assert_null(tg_mul(tape, a, foreign));
    assert_tape_error(tape, TG_ERROR_STATE, "argument 'b' was recorded on another tape");
    tg_tape_free(other);
    tg_release(a);
}

static void test_scope_frees_what_was_not_recorded(void **state)
{
    (void)state;
    tg_tensor *a = number(3), *constant = tensor_f64(TG_SHAPE(1), (double[]){2});
    assert_true(tg_scope_begin(tape));
    tg_tensor *recorded = tg_mul(tape, a, constant);
    tg_tensor *kept = tg_mul(tape, constant, constant);
    tg_mul(tape, kept, constant);
    assert_int_equal(tape_stats_of(tape).results, 3);
    assert_true(tg_scope_end(tape, kept));
    assert_int_equal(tape_stats_of(tape).results, 2);
    assert_true(tg_tensor_value_at(kept, 0) == 4);
    assert_true(tg_backward(tape, recorded, NULL));
    assert_true(gradient(a) == 2);
    assert_false(tg_scope_end(tape, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "no scope is open");
    tg_release(a);
    tg_release(constant);
}

/* A scope ends even after an error, and a reset closes all scopes. */
static void test_scopes_end(void **state)
{
    (void)state;
    tg_tensor *constant = tensor_f64(TG_SHAPE(1), (double[]){2});
    assert_true(tg_scope_begin(tape) && tg_scope_begin(tape));
    tg_tensor *kept = tg_mul(tape, constant, constant);
    tg_mul(tape, kept, constant);
    assert_null(tg_add(tape, NULL, constant));
    assert_false(tg_scope_begin(tape));
    assert_int_equal(tape_stats_of(tape).results, 2);
    assert_false(tg_scope_end(tape, kept));
    assert_int_equal(tape_stats_of(tape).results, 1);
    assert_tape_error(tape, TG_ERROR_STATE, "add: argument 'a' is NULL");
    /* what the inner scope kept belongs to the outer one */
    assert_true(tg_tensor_value_at(kept, 0) == 4);
    assert_true(tg_scope_end(tape, NULL));
    assert_int_equal(tape_stats_of(tape).results, 0);
    assert_true(tg_scope_begin(tape));
    tg_tape_reset(tape);
    assert_false(tg_scope_end(tape, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "no scope is open");
    tg_release(constant);
}

/* A record keeps the unrecorded results that it needs, whatever happens to their scope. */
static void test_scope_end_before_backward(void **state)
{
    (void)state;
    tg_tensor *a = number(3), *constant = tensor_f64(TG_SHAPE(1), (double[]){2});
    assert_true(tg_scope_begin(tape));
    /* 4, not recorded */
    tg_tensor *factor = tg_mul(tape, constant, constant);
    tg_tensor *f = tg_mul(tape, a, factor);
    assert_true(tg_scope_end(tape, NULL));
    /* might take over freed memory */
    tg_mul(tape, constant, constant);
    assert_true(tg_backward(tape, f, NULL));
    assert_true(gradient(a) == 4);
    tg_release(a);
    tg_release(constant);
}

/* Rows: duplicates add up, untouched rows have no gradient, zeroing forgets them, dense contributions fold them in. */
static void test_row_gradients(void **state)
{
    (void)state;
    tg_tensor *table = leaf(tensor_f64(TG_SHAPE(5, 2), (double[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    tg_tensor *ids = tensor_i32(TG_SHAPE(3), (int32_t[]){4, 1, 4}),
              *first = tensor_f64(TG_SHAPE(3, 2), (double[]){1, 2, 3, 4, 5, 6});
    tg_tensor *y = tg_embedding(tape, ids, table, NULL);
    assert_values(y, (double[]){8, 9, 2, 3, 8, 9}, 6, 0, 0);
    assert_true(backward_from(tape, y, first));
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_ROWS);
    tg_grad_rows rows = tg_tensor_grad_rows(table);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.ids[0], 4);
    assert_int_equal(rows.ids[1], 1);
    assert_memory_equal(rows.values, ((double[]){6, 8, 3, 4}), 4 * sizeof(double));

    tg_tensor *twice = tg_add(tape, table, table);
    tg_tensor *ones = tg_tensor_new_full(TG_F64, TG_SHAPE(5, 2), 1, NULL);
    assert_true(backward_from(tape, twice, ones));
    assert_int_equal(tg_tensor_grad_kind(table), TG_GRAD_DENSE);
    assert_values(tg_tensor_grad(table), (double[]){2, 2, 5, 6, 2, 2, 2, 2, 8, 10}, 10, 0, 0);

    tg_tensor_zero_grad(table);
    tg_embedding_config config = tg_embedding_config_default();
    config.padding_index = -1;
    y = tg_embedding(tape, ids, table, &config);
    assert_true(backward_from(tape, y, first));
    rows = tg_tensor_grad_rows(table);
    assert_int_equal(rows.count, 1);
    assert_int_equal(rows.ids[0], 1);
    tg_release(table);
    tg_release(ids);
    tg_release(first);
    tg_release(ones);
}

static void test_bad_ids_change_nothing(void **state)
{
    (void)state;
    tg_tensor *table = leaf(tensor_f64(TG_SHAPE(5, 2), (double[10]){0}));
    const struct {
        int32_t id;
        const char *message;
    } bad[] = {{5, "embedding: id 5 at [1,0] is outside [0,5)"},
               {-1, "embedding: id -1 at [1,0] is outside [0,5)"},
               {INT32_MIN, "id -2147483648 at [1,0]"}};
    for (size_t i = 0; i < 3; i++) {
        tg_tensor *ids = tensor_i32(TG_SHAPE(2, 1), (int32_t[]){0, bad[i].id});
        assert_null(tg_embedding(tape, ids, table, NULL));
        assert_tape_error(tape, TG_ERROR_RANGE, bad[i].message);
        tg_release(ids);
    }
    assert_int_equal(tape_stats_of(tape).results, 0);
    tg_release(table);
}

/* One step on tables of known shape, with ids that vary. */
static bool step(tg_tape *t, tg_tensor *table, tg_tensor *weight, tg_tensor *ids)
{
    tg_tape_reset(t);
    tg_tensor_zero_grad(table);
    tg_tensor_zero_grad(weight);
    tg_tensor *x = tg_embedding(t, ids, table, NULL);
    tg_tensor *y = tg_softmax(t, tg_matmul(t, x, weight), -1);
    return backward_from(t, y, x);
}

static void test_steps_of_known_shape_allocate_nothing(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *table = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(50, 8), 0.5, NULL));
    tg_tensor *weight = leaf(tg_tensor_new_full(TG_F32, TG_SHAPE(8, 8), 0.25, NULL));
    tg_tensor *ids = tg_tensor_new(TG_I32, TG_SHAPE(6), NULL);
    for (int i = 0; i < 20; i++) {
        if (i == 3) {
            allocator_arm(&counting, 0, false);
        }
        for (int k = 0; k < 6; k++) {
            ((int32_t *)tg_tensor_data_mut(ids))[k] = (7 * i + k * (i % 3)) % 50;
        }
        assert_true(step(t, table, weight, ids));
    }
    assert_int_equal(counting.calls, 0);
    tg_release(table);
    tg_release(weight);
    tg_release(ids);
    tg_tape_free(t);
    assert_int_equal(counting.live, 0);
    allocator_restore();
}

/* The same step without recycling: a reset gives all memory back at once, and the numbers are the same. */
static void test_without_recycling(void **state)
{
    (void)state;
    counting_allocator counting;
    allocator_install(&counting);
    double sums[2];
    for (int recycle = 0; recycle < 2; recycle++) {
        tg_tape_config config = tg_tape_config_default();
        assert_true(config.recycle);
        assert_false(config.detect_freed_results);
        config.recycle = recycle;
        tg_tape *t = tg_tape_new(NULL, &config);
        tg_tensor *table = leaf(tg_tensor_new_arange(TG_F32, 0, 1, 0.125, NULL)),
                  *x = tg_reshape(t, table, TG_SHAPE(4, 2));
        assert_true(backward_from(t, tg_softmax(t, tg_mul(t, x, x), -1), x));
        sums[recycle] = tg_tensor_value_at(tg_tensor_grad(table), 3);
        size_t during = counting.live;
        tg_tape_reset(t);
        if (recycle) {
            assert_int_equal(counting.live, during);
            assert_true(tape_stats_of(t).idle_bytes > 0);
            tg_pool_trim(t->pool);
        }
        assert_true(counting.live < during);
        assert_int_equal(tape_stats_of(t).idle_bytes, 0);
        tg_tape_free(t);
        tg_release(table);
        assert_int_equal(counting.live, 0);
    }
    assert_true(sums[0] == sums[1]);
    assert_true(sums[0] != 0);
    allocator_restore();
}

static void test_configs_without_a_mark(void **state)
{
    (void)state;
    tg_tape_config no_mark = {.recycle = true};
    tg_tape *t = tg_tape_new(NULL, &no_mark);
    assert_non_null(t);
    tg_tensor *a = number(3);
    assert_null(tg_add(t, a, a));
    assert_tape_error(t, TG_ERROR_VALUE, "tape_new: the config does not come from tg_tape_config_default()");
    tg_tape_free(t);
    t = tg_tape_new(NULL, NULL);
    tg_tensor *f = tg_mul(t, a, a);
    tg_backward_config zeroed = {.retain_graph = false};
    assert_false(tg_backward(t, f, &zeroed));
    assert_tape_error(t, TG_ERROR_VALUE, "backward: the config does not come from tg_backward_config_default()");
    assert_int_equal(tg_tensor_grad_kind(a), TG_GRAD_NONE);
    tg_backward_config config = tg_backward_config_default();
    assert_null(config.gradient);
    assert_false(config.retain_graph);
    assert_true(tg_backward(t, f, &config));
    assert_true(gradient(a) == 6);
    tg_release(a);
    tg_tape_free(t);
}

static void test_no_tape(void **state)
{
    (void)state;
    assert_int_equal(tg_tape_error(NULL)->code, TG_ERROR_MEMORY);
    assert_non_null(strstr(tg_tape_error(NULL)->text, "the tape is NULL"));
    assert_false(tg_backward(NULL, NULL, NULL));
    assert_false(tg_retain_grad(NULL, NULL));
    assert_false(tg_scope_begin(NULL));
    assert_false(tg_scope_end(NULL, NULL));
    assert_false(tg_tape_is_recording(NULL));
    assert_false(tg_tape_is_training(NULL));
    tg_tape_reset(NULL);
    clear_tape_error(NULL);
    tg_tape_set_recording(NULL, true);
    tg_tape_set_training(NULL, true);
    tg_tape_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_product_rule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reused_intermediate, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_tensor_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gradients_accumulate_until_zeroed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_backward_is_refused_unless_retained, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_saved_tensor_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gradient_to_start_from, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_input_as_result, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_leaf_as_result, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_finished_gradients_are_announced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_retain_grad, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_recording_off_records_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_evaluations_nest, set_up, tear_down),
        cmocka_unit_test(test_a_forgotten_reset_is_reported),
        cmocka_unit_test_setup_teardown(test_release_of_a_result_is_reported, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_first_error_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_retained_result_outlives_reset_and_tape, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_result_of_another_tape_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scope_frees_what_was_not_recorded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scopes_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_scope_end_before_backward, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_row_gradients, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_ids_change_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_steps_of_known_shape_allocate_nothing, set_up, tear_down),
        cmocka_unit_test(test_without_recycling),
        cmocka_unit_test_setup_teardown(test_configs_without_a_mark, set_up, tear_down),
        cmocka_unit_test(test_no_tape),
    };
    return cmocka_run_group_tests_name("tape", tests, NULL, NULL);
}

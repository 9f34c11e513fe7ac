/* The guard of a storage, with a guard of the test: who may read, and what a refusal reports. And followers of a table,
 * which its resizes wait for. */
#include "support.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include <tapegrad.h>

/* A guard that notes its calls. */
typedef struct noting_guard {
    tg_value_guard guard; /* must be the first */
    int64_t prepared;
    int32_t last_id;
} noting_guard;

static tg_error error;
static tg_tensor *table, *ids;
static tg_tape *tape;

static bool refuse(const tg_value_guard *guard, const char *call, const char *name, const tg_tensor *x, tg_error *set)
{
    (void)guard;
    assert_ptr_equal(x->storage, table->storage);
    return tg_error_set(set, TG_ERROR_STATE, "%s: %s: closed", call, name ? name : "(none)");
}

static bool prepare(tg_value_guard *guard, const tg_tensor *x, const int32_t *rows, int64_t count)
{
    noting_guard *g = (noting_guard *)guard;
    g->prepared += count;
    g->last_id = count > 0 ? rows[count - 1] : g->last_id;
    return x == table;
}

static int set_up(void **state)
{
    (void)state;
    table = leaf(tensor_f64(TG_SHAPE(3, 2), (double[]){0, 1, 2, 3, 4, 5}));
    ids = tg_tensor_new(TG_I32, TG_SHAPE(2), NULL);
    tg_tensor_fill_from(ids, (int32_t[]){2, 1}, NULL);
    tape = tg_tape_new(NULL, NULL);
    tg_error_clear(&error);
    return !table || !ids || !tape;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_release(table);
    tg_release(ids);
    return 0;
}

/* Getters set the error of the guard, and other calls their own. */
static void test_refuses(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    noting_guard g = {.guard = {.refuse = refuse, .run = run}};
    table->storage->guard = &g.guard;
    assert_null(tg_tensor_data(table));
    assert_string_equal(tg_run_error(run)->text, "tensor_data: (none): closed");
    tg_run_clear_error(run);
    assert_false(tg_tensor_fill(table, 1, &error));
    assert_string_equal(error.text, "tensor_fill: tensor: closed");
    assert_null(tg_exp(tape, table));
    assert_tape_error(tape, TG_ERROR_STATE, "exp: (none): closed");
    assert_int_equal(tg_run_error(run)->code, TG_OK);
    tg_value_guard_end(&g.guard);
    tg_run_free(run);
    assert_true(isnan(tg_tensor_value_at(table, 0)));
    /* the shape and the gradient are not guarded */
    assert_int_equal(tg_tensor_count(table), 6);
    assert_true(tg_tensor_requires_grad(table));
    table->storage->guard = NULL;
    assert_true(tg_tensor_value_at(table, 5) == 5);
}

/* Only a recorded lookup has rows prepared, and only if the guard can do that. */
static void test_prepares(void **state)
{
    (void)state;
    noting_guard g = {.guard = {.refuse = refuse, .prepare = prepare}, .last_id = -1};
    table->storage->guard = &g.guard;
    tg_tensor *y = tg_embedding(tape, ids, table, NULL);
    assert_non_null(y);
    assert_values(y, (double[]){4, 5, 2, 3}, 4, 0, 0);
    assert_int_equal(g.prepared, 2);
    assert_int_equal(g.last_id, 1);
    tg_tape_set_recording(tape, false);
    assert_null(tg_embedding(tape, ids, table, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "embedding: (none): closed");
    tg_tape_set_recording(tape, true);
    g.guard.prepare = NULL;
    assert_null(tg_embedding(tape, ids, table, NULL));
    assert_tape_error(tape, TG_ERROR_STATE, "embedding: (none): closed");
    assert_int_equal(g.prepared, 2);
    table->storage->guard = NULL;
}

/* A second resize waits until all followers have followed the first, or are gone. */
static void test_followers(void **state)
{
    (void)state;
    assert_true(tg_follower_add(table, "a follower is late") && tg_follower_add(table, "a follower is late"));
    assert_true(tg_tensor_resize_rows(table, 4, &error));
    assert_false(tg_tensor_resize_rows(table, 5, &error));
    assert_string_equal(error.text, "tensor_resize_rows: a follower is late");
    table->rows->followers_behind--;
    tg_error_clear(&error);
    assert_false(tg_tensor_resize_rows(table, 5, &error));
    tg_follower_remove(table, true);
    assert_true(tg_tensor_resize_rows(table, 5, NULL));
    assert_int_equal(table->rows->followers_behind, 1);
    /* a state of rows without content is freed, one with frozen rows stays */
    tg_follower_remove(table, true);
    assert_null(table->rows);
    assert_true(tg_follower_add(table, "") && tg_tensor_set_rows_frozen(table, 0, 1, true, NULL));
    tg_follower_remove(table, false);
    assert_true(tg_tensor_row_is_frozen(table, 0));
    /* a follower itself is resized by its owner alone */
    table->rows->follower_text = "resize what it follows";
    tg_error_clear(&error);
    assert_false(tg_tensor_resize_rows(table, 6, &error));
    assert_string_equal(error.text, "tensor_resize_rows: resize what it follows");
    tg_resize resize;
    assert_true(tg_resize_prepare(&resize, table, 6, NULL));
    tg_resize_commit(&resize);
    assert_int_equal(tg_tensor_size(table, 0), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_prepares, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_followers, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("value_guard", tests, NULL, NULL);
}

/* Profiles of a step. */
#include <stdio.h>
#include <string.h>

#include "support.h"

static tg_run *run;
static tg_params *params;
static tg_tape *tape;
static tg_nn_linear linear;

static int set_up(void **state)
{
    (void)state;
    run = tg_run_new(1);
    params = tg_params_new(run, TG_F32);
    tape = tg_tape_new(run, NULL);
    linear = tg_nn_linear_make(params, "linear", 3, 2, TG_BIAS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_params_free(params);
    tg_run_free(run);
    return 0;
}

/* Two linear calls, and two views. */
static void step(void)
{
    tg_tape_reset(tape);
    tg_tensor *x = tg_full(tape, TG_F32, TG_SHAPE(4, 3), 1);
    tg_tensor *y = tg_add(tape, tg_nn_linear_forward(tape, &linear, x), tg_nn_linear_forward(tape, &linear, x));
    tg_tensor *turned = tg_transpose(tape, tg_unsqueeze(tape, y, 0), 1, 2);
    assert_true(tg_backward(tape, tg_sum(tape, turned, TG_ALL_AXES, TG_DROP_AXES), NULL));
}

static tg_profile_row row_of(const tg_profile *profile, const char *op)
{
    for (int64_t i = 0; i < tg_profile_count(profile); i++) {
        if (strcmp(tg_profile_at(profile, i).op, op) == 0) {
            return tg_profile_at(profile, i);
        }
    }
    fail_msg("no row for %s", op);
    return tg_profile_at(NULL, 0);
}

static void test_profile(void **state)
{
    (void)state;
    tg_profile *profile = tg_profile_new(tape);
    step();
    step();
    tg_profile_row found = row_of(profile, "linear"), view = row_of(profile, "transpose");
    assert_int_equal(found.calls, 4);
    assert_int_equal(found.bytes, 4 * 4 * 2 * 4);
    assert_true(found.forward_seconds > 0 && found.backward_seconds > 0);
    assert_int_equal(view.calls, 2);
    assert_int_equal(view.bytes, 0);
    double shares = 0;
    for (int64_t i = 0; i < tg_profile_count(profile); i++) {
        shares += tg_profile_at(profile, i).share;
    }
    assert_true(shares > 1 - 1e-12 && shares < 1 + 1e-12);
    assert_string_equal(tg_profile_at(profile, 0).op, "full");
    assert_null(tg_profile_at(profile, -1).op);
    assert_null(tg_profile_at(profile, tg_profile_count(profile)).op);
    tg_profile_reset(profile);
    assert_int_equal(tg_profile_count(profile), 0);
    step();
    assert_int_equal(row_of(profile, "linear").calls, 2);
    FILE *file = tmpfile();
    tg_error error = TG_NO_ERROR;
    assert_true(tg_profile_write(profile, file, &error));
    rewind(file);
    char line[200];
    int lines = 0;
    for (; fgets(line, sizeof line, file); lines++) {
        assert_true(lines > 0 || strncmp(line, "op ", 3) == 0);
    }
    assert_int_equal(lines, 1 + tg_profile_count(profile));
    fclose(file);
    assert_false(tg_profile_write(NULL, stdout, &error));
    assert_error(&error, TG_ERROR_STATE, "profile_write: the profile is NULL");
    tg_profile_free(profile);
    step(); /* not measured any more */
}

/* The last profile of a tape measures. */
static void test_a_later_profile_replaces(void **state)
{
    (void)state;
    tg_profile *first = tg_profile_new(tape), *second = tg_profile_new(tape);
    step();
    tg_profile_free(first);
    step();
    assert_int_equal(row_of(second, "linear").calls, 4);
    tg_profile_free(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_profile, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_later_profile_replaces, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("profile", tests, NULL, NULL);
}

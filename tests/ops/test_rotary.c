/* rotary: scaling, float angles and tensors of positions. Values and gradients are torch's, frequencies of float angles
 * those of transformers. */
#include "ops/goldens.h"

#include "support.h"

/* The options of make_rotary.py. */
static tg_tensor *call_rotary(tg_tape *t, tg_tensor **x, const double *options)
{
    tg_rotary_config config = tg_rotary_config_default();
    config.pairing = options[1] != 0 ? TG_ROTARY_NEIGHBORS : TG_ROTARY_HALVES;
    config.base = options[2];
    config.position_scale = options[3];
    config.ntk_factor = options[4];
    config.llama3_factor = options[5];
    config.low_frequency_factor = options[6];
    config.high_frequency_factor = options[7];
    config.original_context = (int64_t)options[8];
    config.float_angles = options[9] != 0;
    config.positions = options[10] != 0 ? x[1] : NULL;
    return tg_rotary(t, x[0], (int64_t)options[0], &config);
}

static void test_against_torch(void **state)
{
    (void)state;
    const golden_call call = {"rotary", call_rotary};
    assert_int_equal(check_goldens_with_options(TG_TEST_GOLDENS "/rotary.txt", &call, 1, 1e-13, 1e-6), 13);
}

/* Positions that are those of start give its bits, and the tensor is an input of the op: a change is found. */
static void test_positions_are_an_input(void **state)
{
    (void)state;
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x = leaf(tg_tensor_new_arange(TG_F32, 0, 24, 1, NULL));
    tg_tensor *positions = tensor_i32(TG_SHAPE(2, 3), (int32_t[]){7, 8, 9, 7, 8, 9});
    tg_rotary_config config = tg_rotary_config_default();
    config.positions = positions;
    tg_tensor *rows = tg_reshape(t, x, TG_SHAPE(2, 3, 4));
    tg_tensor *y = tg_rotary(t, rows, 0, &config), *expected = tg_rotary(t, rows, 7, NULL);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_memory_equal(tg_tensor_data(y), tg_tensor_data(expected), 24 * sizeof(float));
    config.positions = NULL;
    tg_tensor *loss = tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES);
    ((int32_t *)tg_tensor_data_mut(positions))[0] = 1;
    assert_false(tg_backward(t, loss, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "rotary");
    tg_release(x);
    tg_release(positions);
    tg_tape_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),
        cmocka_unit_test(test_positions_are_an_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

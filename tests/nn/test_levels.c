/* A model trains to the same bits at each level of the processor; and the calls that choose a level. */
#include <stdlib.h>
#include <string.h>

#include "levels.h"
#include "support.h"
#include "tensor/tensor.h"

#include <tapegrad/gpt.h>

enum { B = 2, T = 40, V = 61, STEPS = 3 };

typedef tg_optim *make_optim(tg_params *params);

static tg_optim *make_adamw(tg_params *params)
{
    return tg_adamw_new(params, NULL);
}

static tg_optim *make_sgd(tg_params *params)
{
    tg_sgd_config config = tg_sgd_config_default();
    config.lr = 0.1;
    config.momentum = 0.9;
    config.nesterov = true;
    config.weight_decay = 0.01;
    return tg_sgd_new(params, &config);
}

static tg_optim *make_adagrad(tg_params *params)
{
    tg_adagrad_config config = tg_adagrad_config_default();
    config.weight_decay = 0.01;
    return tg_adagrad_new(params, &config);
}

static tg_optim *make_rmsprop(tg_params *params)
{
    tg_rmsprop_config config = tg_rmsprop_config_default();
    config.centered = true;
    config.momentum = 0.9;
    return tg_rmsprop_new(params, &config);
}

static tg_optim *make_lion(tg_params *params)
{
    return tg_lion_new(params, NULL);
}

/* Returns the parameters after a few steps of a small GPT with dropout. */
static tg_params *train(tg_dtype dtype, int layers, make_optim *make, bool reproducible)
{
    tg_run *run = tg_run_new(7);
    tg_params *params = tg_params_new(run, dtype);
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = T;
    config.width = 48;
    config.heads = 3;
    config.layers = layers;
    config.dropout = 0.1;
    tg_gpt *model = tg_gpt_new(params, &config);
    tg_optim *optim = make(params);
    tg_tape *tape = tg_tape_new(run, NULL);
    tg_tape_set_reproducible(tape, reproducible);
    tg_tensor *inputs = tg_tensor_new(TG_I32, TG_SHAPE(B, T), NULL),
              *targets = tg_tensor_new(TG_I32, TG_SHAPE(B, T), NULL);
    for (int step = 0; step < STEPS; step++) {
        assert_true(tg_tensor_fill_randint(inputs, tg_run_rng(run), 0, V, NULL) &&
                    tg_tensor_fill_randint(targets, tg_run_rng(run), 0, V, NULL));
        tg_tape_reset(tape);
        tg_tensor *loss = tg_cross_entropy(tape, tg_gpt_forward(tape, model, inputs, NULL), targets, NULL);
        tg_optim_zero_grad(optim);
        if (!tg_backward(tape, loss, NULL)) {
            fail_msg("%s", tg_tape_error(tape)->text);
        }
        assert_true(tg_optim_step(optim));
    }
    tg_release(inputs);
    tg_release(targets);
    tg_tape_free(tape);
    tg_optim_free(optim);
    tg_gpt_free(model);
    tg_run_free(run);
    return params;
}

/* Asserts that the parameters have the same bits after training at each level. */
static void assert_levels_agree(tg_dtype dtype, int layers, make_optim *make, bool reproducible)
{
    tg_cpu_level first = tg_get_cpu_level();
    const int lowest = reproducible ? TG_CPU_BASELINE : lowest_fused_level();
    assert_true(tg_set_cpu_level((tg_cpu_level)lowest, NULL));
    tg_params *base = train(dtype, layers, make, reproducible);
    for (int level = lowest + 1; level <= tg_level_highest(); level++) {
        assert_true(tg_set_cpu_level((tg_cpu_level)level, NULL));
        assert_int_equal(tg_get_cpu_level(), level);
        tg_params *other = train(dtype, layers, make, reproducible);
        for (int64_t i = 0; i < tg_params_count(base); i++) {
            tg_tensor *a = tg_params_at(base, i).tensor, *b = tg_params_at(other, i).tensor;
            if (memcmp(tg_values(a), tg_values(b), tg_bytes_of(a)) != 0) {
                fail_msg("'%s' differs between levels %d and %d", tg_params_at(base, i).name, lowest, level);
            }
        }
        tg_params_free(other);
    }
    tg_params_free(base);
    assert_true(tg_set_cpu_level(first, NULL));
}

static void test_training_agrees(void **state)
{
    (void)state;
    assert_levels_agree(TG_F32, 2, make_adamw, false);
}

/* With reproducible products the lowest level agrees, too, whatever BLAS there is. */
static void test_reproducible_training_agrees(void **state)
{
    (void)state;
    assert_levels_agree(TG_F32, 2, make_adamw, true);
    assert_levels_agree(TG_F64, 1, make_adamw, true);
}

static void test_optimizers_agree(void **state)
{
    (void)state;
    static make_optim *const makers[] = {make_sgd, make_adagrad, make_rmsprop, make_lion};
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        assert_levels_agree(TG_F32, 1, makers[i], false);
        assert_levels_agree(TG_F64, 1, makers[i], false);
    }
}

/* .ci/run prints this line. */
static void print_levels(void)
{
    print_message("levels run:");
    for (int level = 0; level <= TG_CPU_AVX512; level++) {
        print_message("%s %s", level == tg_level_highest() + 1 ? "; not in this processor or build:" : "",
                      tg_cpu_level_name((tg_cpu_level)level));
    }
    print_message("\n");
}

static void test_bad_levels(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_cpu_level first = tg_get_cpu_level();
    assert_false(tg_set_cpu_level((tg_cpu_level)3, &error));
    assert_error(&error, TG_ERROR_VALUE, "set_cpu_level: 3 is not a level; it must be 0 to 2");
    assert_false(tg_set_cpu_level((tg_cpu_level)-1, &error));
    assert_error(&error, TG_ERROR_VALUE, "set_cpu_level: -1 is not a level; it must be 0 to 2");
    assert_string_equal(tg_cpu_level_name(TG_CPU_BASELINE), "baseline");
    assert_string_equal(tg_cpu_level_name(TG_CPU_AVX2), "avx2");
    assert_string_equal(tg_cpu_level_name(TG_CPU_AVX512), "avx512");
    assert_string_equal(tg_cpu_level_name((tg_cpu_level)3), "unknown");
    assert_string_equal(tg_cpu_level_name((tg_cpu_level)-1), "unknown");
    if (tg_level_highest() < TG_CPU_AVX512) {
        assert_false(tg_set_cpu_level(TG_CPU_AVX512, &error));
        assert_error(&error, TG_ERROR_VALUE,
                     "set_cpu_level: the level is avx512; the highest of this processor and build is ");
    }
    tg_tape *one = tg_tape_new(NULL, NULL), *two = tg_tape_new(NULL, NULL);
    assert_false(tg_set_cpu_level(TG_CPU_BASELINE, &error));
    assert_error(&error, TG_ERROR_STATE, "set_cpu_level: 2 tapes exist; free them before the change");
    tg_tape_free(two);
    assert_false(tg_set_cpu_level(TG_CPU_BASELINE, &error));
    assert_error(&error, TG_ERROR_STATE, "set_cpu_level: 1 tape exists; free them before the change");
    tg_tape_free(one);
    assert_int_equal(tg_get_cpu_level(), first);
    assert_true(tg_set_cpu_level(first, &error));
}

/* Runs first, because a call that sets the level replaces TG_CPU_LEVEL. */
static void test_environment(void **state)
{
    (void)state;
    assert_int_equal(setenv("TG_CPU_LEVEL", "sse9", 1), 0);
    tg_tape *tape = tg_tape_new(NULL, NULL);
    assert_tape_error(tape, TG_ERROR_VALUE, "TG_CPU_LEVEL is 'sse9'; it must be baseline, avx2 or avx512");
    tg_tape_free(tape);
    assert_int_equal(setenv("TG_CPU_LEVEL", "baseline", 1), 0);
    tape = tg_tape_new(NULL, NULL);
    assert_int_equal(tg_tape_error(tape)->code, TG_OK);
    assert_int_equal(tg_get_cpu_level(), TG_CPU_BASELINE);
    tg_tape_free(tape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_training_agrees),
        cmocka_unit_test(test_reproducible_training_agrees),
        cmocka_unit_test(test_optimizers_agree),
        cmocka_unit_test(test_bad_levels),
    };
    print_levels();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Modules: PyTorch's names and draws, what they compute, what they refuse, and a whole training step without memory. */
#include "support.h"

#include <string.h>

static tg_rng *rng;
static tg_params *params;
static tg_tape *tape;

static int set_up(void **state)
{
    (void)state;
    rng = tg_rng_new(123);
    params = tg_params_new(TG_F64, rng);
    tape = tg_tape_new(rng);
    return params && tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    tg_tape_free(tape);
    tg_params_free(params);
    tg_rng_free(rng);
    return 0;
}

static void assert_params_error(tg_code code, const char *part)
{
    if (tg_params_error_code(params) != code || !strstr(tg_params_error(params), part)) {
        fail_msg("expected %s with \"%s\", found \"%s\"", tg_code_name(code), part, tg_params_error(params));
    }
    tg_params_clear_error(params);
}

/* The course prints these weights: seed 123, Linear(4, 5) without a bias. */
static void test_linear_is_torchs(void **state)
{
    (void)state;
    tg_params *single = tg_params_new(TG_F32, rng);
    tg_rng_seed(rng, 123);
    tg_linear linear = tg_linear_make(single, "linear", 4, 5, TG_NO_BIAS);
    assert_values(linear.weight,
                  (double[]){-0.2039, 0.0166, -0.2483, 0.1886,  -0.4260, 0.3665,  -0.3634, -0.3975, -0.3159, 0.2264,
                             -0.1847, 0.1871, -0.4244, -0.3034, -0.1836, -0.0983, -0.3814, 0.3274,  -0.1179, 0.1605},
                  20, 0, 0.5e-4);
    assert_string_equal(tg_params_at(single, 0).name, "linear.weight");
    tg_params_free(single);
}

static void test_linear_computes_a_product_and_a_sum(void **state)
{
    (void)state;
    tg_linear linear = tg_linear_make(params, "l", 2, 3, TG_BIAS);
    tg_fill_from(linear.weight, (double[]){1, 2, 3, 4, 5, 6}, NULL);
    tg_fill_from(linear.bias, (double[]){10, 20, 30}, NULL);
    tg_tensor *x = tensor_f64(TG_SHAPE(1, 2), (double[]){1, -1});
    assert_values(tg_linear_forward(tape, &linear, x), (double[]){9, 19, 29}, 3, 0, 0);
    tg_release(x);
}

static void test_embedding_options(void **state)
{
    (void)state;
    tg_embedding_config config = tg_embedding_config_default();
    config.padding_index = -1;
    tg_embedding padded = tg_embedding_make(params, "padded", 4, 2, &config);
    assert_true(tg_value_at(padded.weight, 6) == 0 && tg_value_at(padded.weight, 7) == 0);
    assert_true(tg_value_at(padded.weight, 5) != 0);
    tg_tensor *ids = tensor_i32(TG_SHAPE(3), (int32_t[]){3, 0, 3});
    tg_tensor *y = tg_embedding_forward(tape, &padded, ids);
    assert_true(tg_backward(tape, tg_sum(tape, tg_mul(tape, y, y), TG_ALL_AXES, TG_DROP_AXES)));
    assert_int_equal(tg_grad_rows(padded.weight).count, 1);
    assert_int_equal(tg_grad_rows(padded.weight).ids[0], 0);

    tg_tensor *table = tensor_f64(TG_SHAPE(4, 2), (double[]){1, 2, 3, 4, 5, 6, 7, 8});
    config = tg_embedding_config_default();
    config.from = table;
    config.frozen = true;
    uint64_t position = tg_rng_position(rng);
    tg_embedding given = tg_embedding_make(params, "given", 4, 2, &config);
    assert_ptr_equal(given.weight, table);
    assert_false(tg_requires_grad(given.weight));
    assert_int_equal(tg_rng_position(rng), position);

    config.padding_index = 4;
    assert_null(tg_embedding_make(params, "wrong", 4, 2, &config).weight);
    assert_params_error(TG_ERROR_RANGE, "padding index 4 is outside [-4,4)");
    config.padding_index = TG_NO_PADDING;
    assert_null(tg_embedding_make(params, "wrong", 5, 2, &config).weight);
    assert_params_error(TG_ERROR_SHAPE, "shape (4,2), not (5,2)");
    tg_embedding broken = tg_embedding_make(params, "wrong", 0, 2, NULL);
    assert_int_equal(tg_params_error_code(params), TG_ERROR_SHAPE);
    assert_null(tg_embedding_forward(tape, &broken, ids));
    assert_tape_error(tape, TG_ERROR_SHAPE, "a table of 0 x 2");
    assert_params_error(TG_ERROR_SHAPE, "a table of 0 x 2");
    assert_null(tg_embedding_make(params, "given", 4, 2, NULL).weight);
    assert_params_error(TG_ERROR_VALUE, "'given.weight' is taken");
    tg_release(ids);
    tg_release(table);
}

static void test_positions(void **state)
{
    (void)state;
    tg_positional learned = tg_positional_make(params, "learned", TG_POSITION_LEARNED, 5, 2);
    tg_positional waves = tg_positional_make(params, "waves", TG_POSITION_SINUSOIDAL, 5, 4);
    /* sin and cos of p and of p / 100: Vaswani et al. 2017 */
    assert_values(waves.weight,
                  (double[]){0,
                             1,
                             0,
                             1,
                             0.8414709848078965,
                             0.5403023058681398,
                             0.009999833334166664,
                             0.9999500004166653,
                             0.9092974268256817,
                             -0.4161468365471424,
                             0.01999866669333308,
                             0.9998000066665778,
                             0.1411200080598672,
                             -0.9899924966004454,
                             0.02999550020249566,
                             0.9995500337489875,
                             -0.7568024953079282,
                             -0.6536436208636119,
                             0.03998933418663416,
                             0.9992001066609779},
                  20, 1e-15, 1e-15);
    assert_false(tg_requires_grad(waves.weight));

    tg_tensor *x = leaf(tg_tensor_new(TG_F64, TG_SHAPE(3, 2, 2), NULL));
    tg_tensor *y = tg_positional_forward_at(tape, &learned, x, 3);
    for (int i = 0; i < 12; i++) {
        assert_true(tg_value_at(y, i) == tg_value_at(learned.weight, 6 + i % 4));
    }
    assert_true(tg_backward(tape, tg_sum(tape, y, TG_ALL_AXES, TG_DROP_AXES)));
    tg_tensor *gradient = tg_grad_new_dense(learned.weight, NULL);
    assert_values(gradient, (double[]){0, 0, 0, 0, 0, 0, 3, 3, 3, 3}, 10, 0, 0); /* summed over the batch of 3 */
    tg_release(gradient);

    assert_null(tg_positional_forward_at(tape, &learned, x, 4));
    assert_tape_error(tape, TG_ERROR_RANGE, "2 positions from 4 on; the table has 5 (the context length)");
    assert_null(tg_positional_forward_at(tape, &learned, x, -1));
    assert_tape_error(tape, TG_ERROR_RANGE, "from -1 on");
    assert_null(tg_positional_forward(tape, &waves, x));
    assert_tape_error(tape, TG_ERROR_SHAPE, "(3,2,2); it must be (..,T,4)");
    tg_positional_make(params, "unknown", (tg_position)77, 5, 2);
    assert_params_error(TG_ERROR_VALUE, "77 is not a kind of position");
    tg_release(x);
}

static void test_layernorm(void **state)
{
    (void)state;
    tg_layernorm norm = tg_layernorm_make(params, "norm", 2, 1e-5);
    tg_tensor *x = tensor_f64(TG_SHAPE(1, 2), (double[]){1, 3});
    double n = 1 / 1.0000049999875001; /* 1 / sqrt(1 + 1e-5) */
    assert_values(tg_layernorm_forward(tape, &norm, x), (double[]){-n, n}, 2, 1e-12, 0);
    assert_string_equal(tg_params_at(params, 1).name, "norm.bias");
    tg_layernorm_make(params, "bad", 2, 0);
    assert_params_error(TG_ERROR_VALUE, "an eps of 0");
    tg_release(x);
}

/* ---- a whole training step, with allocation k failing ---- */

typedef struct training {
    tg_rng *rng, *saved;
    tg_params *params;
    tg_tape *tape;
    tg_embedding token;
    tg_positional position;
    tg_linear head;
    tg_layernorm norm;
    tg_optim *adam;
    tg_tensor *ids, *targets;
} training;

static void training_make(training *m)
{
    m->rng = tg_rng_new(5);
    m->saved = tg_rng_new(5);
    m->params = tg_params_new(TG_F32, m->rng);
    m->token = tg_embedding_make(m->params, "tok_emb", 20, 6, NULL);
    m->position = tg_positional_make(m->params, "pos_emb", TG_POSITION_LEARNED, 4, 6);
    m->norm = tg_layernorm_make(m->params, "norm", 6, 1e-5);
    m->head = tg_linear_make(m->params, "head", 6, 20, TG_BIAS);
    m->adam = tg_adamw_new(m->params, NULL);
    m->tape = tg_tape_new(m->rng);
    m->ids = tensor_i32(TG_SHAPE(2, 4), (int32_t[]){1, 2, 3, 1, 7, 7, 0, 19});
    m->targets = tensor_i32(TG_SHAPE(2, 4), (int32_t[]){2, 3, 1, 7, 7, 0, 19, 4});
    tg_rng_copy(m->saved, m->rng);
}

static void training_free(training *m)
{
    tg_release(m->ids);
    tg_release(m->targets);
    tg_tape_free(m->tape);
    tg_optim_free(m->adam);
    tg_params_free(m->params);
    tg_rng_free(m->rng);
    tg_rng_free(m->saved);
}

static bool training_step(training *m)
{
    tg_tape_reset(m->tape);
    tg_optim_zero_grad(m->adam);
    tg_tensor *x = tg_positional_forward(m->tape, &m->position, tg_embedding_forward(m->tape, &m->token, m->ids));
    x = tg_dropout(m->tape, tg_layernorm_forward(m->tape, &m->norm, x), 0.2);
    tg_tensor *loss = tg_cross_entropy(m->tape, tg_linear_forward(m->tape, &m->head, tg_gelu(m->tape, x)), m->targets);
    return tg_backward(m->tape, loss) && tg_optim_step(m->adam);
}

static void copy_values(const training *m, float *out)
{
    for (int64_t i = 0; i < tg_params_count(m->params); i++) {
        tg_tensor *x = tg_params_at(m->params, i).tensor;
        memcpy(out, tg_data(x), (size_t)tg_count(x) * sizeof *out);
        out += tg_count(x);
    }
}

static void test_step_without_memory(void **state)
{
    (void)state;
    training m;
    float before[400], expected[400], values[400];
    training_make(&m);
    assert_true(tg_params_values(m.params) == 296);
    copy_values(&m, before);
    assert_true(training_step(&m));
    copy_values(&m, expected);
    training_free(&m);
    assert_memory_not_equal(before, expected, 296 * sizeof(float));

    for (int on = 0; on < 2; on++) { /* one allocation fails, or all from the k-th on */
        bool finished = false;
        for (size_t k = 1; !finished; k++) {
            counting_allocator counting;
            allocator_install(&counting);
            training_make(&m);
            allocator_arm(&counting, k, on);
            finished = training_step(&m);
            allocator_arm(&counting, 0, false);
            if (!finished) {
                assert_int_equal(tg_tape_error_code(m.tape), TG_ERROR_MEMORY);
                copy_values(&m, values);
                assert_memory_equal(values, before, 296 * sizeof(float));
                tg_tape_clear_error(m.tape);
                tg_rng_copy(m.rng, m.saved);
                assert_true(training_step(&m));
            }
            copy_values(&m, values);
            assert_memory_equal(values, expected, 296 * sizeof(float));
            training_free(&m);
            assert_int_equal(counting.live, 0);
            allocator_restore();
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_linear_is_torchs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_linear_computes_a_product_and_a_sum, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_embedding_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_positions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_layernorm, set_up, tear_down),
        cmocka_unit_test(test_step_without_memory),
    };
    return cmocka_run_group_tests_name("modules", tests, NULL, NULL);
}

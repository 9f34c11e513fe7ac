/* Positions: every relative kind against the papers' formulas written out pair by pair
 * (tests/goldens/make_positions.py), values and gradients; their properties; caches; and what is refused. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, T = 7, M = 3, C = 12, H = 3 };

static tg_rng *rng;
static tg_params *params;
static tg_tape *tape;

static void make_all(tg_dtype dtype)
{
    rng = tg_rng_new(4);
    params = tg_params_new(dtype, rng);
    tape = tg_tape_new(rng);
}

static void free_all(void)
{
    tg_tape_free(tape);
    tg_params_free(params);
    tg_rng_free(rng);
}

static int set_up(void **state)
{
    (void)state;
    make_all(TG_F64);
    return params && tape ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    free_all();
    return 0;
}

/* make_positions.py's fill. */
static void fill(tg_tensor *x, double salt)
{
    for (int64_t i = 0; i < tg_count(x); i++) {
        double value = sin((double)i * 0.7 + salt) * 0.5;
        if (tg_dtype_of(x) == TG_F32) {
            ((float *)tg_data_mut(x))[i] = (float)value;
        } else {
            ((double *)tg_data_mut(x))[i] = value;
        }
    }
}

/* ---- against the formulas ---- */

typedef struct golden_case {
    const char *name;
    tg_position kind;
    bool both;
    int64_t memory;
    tg_positional_config config;
} golden_case;

/* The line of a case and a name, as values; how many there are. */
static int read_golden(const char *name, const char *what, double *values, int most)
{
    static char line[200000];
    FILE *file = fopen(TG_TEST_GOLDENS "/positions.txt", "r");
    assert_non_null(file);
    int count = -1;
    while (count < 0 && fgets(line, sizeof line, file)) {
        char *first = strtok(line, " "), *second = strtok(NULL, " ");
        if (strcmp(first, name) == 0 && strcmp(second, what) == 0) {
            for (char *word = strtok(NULL, " \n"); word; word = strtok(NULL, " \n")) {
                count = count < 0 ? 0 : count;
                assert_true(count < most);
                values[count++] = strtod(word, NULL);
            }
        }
    }
    fclose(file);
    if (count < 0) {
        fail_msg("no %s %s among the goldens", name, what);
    }
    return count;
}

static void compare(const char *name, const char *what, const tg_tensor *x)
{
    static double expected[4096];
    double largest = 0, worst = 0, allowed = tg_dtype_of(x) == TG_F64 ? 1e-10 : 1e-5;
    int count = read_golden(name, what, expected, 4096);
    assert_int_equal(tg_count(x), count);
    for (int i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
        worst = fmax(worst, fabs(tg_value_at(x, i) - expected[i]));
    }
    if (!(worst <= allowed * largest)) {
        fail_msg("%s, %s in %s: %g of the largest entry", name, what, tg_dtype_name(tg_dtype_of(x)), worst / largest);
    }
}

static void compare_gradient(const char *name, const char *what, const tg_tensor *x)
{
    tg_tensor *gradient = tg_grad_new_dense(x, NULL);
    compare(name, what, gradient);
    tg_release(gradient);
}

static void check_case(const golden_case *g, tg_attention_path path, tg_dtype dtype)
{
    make_all(dtype);
    tg_positional_config positions = g->config;
    positions.heads = H;
    tg_positional position = tg_positional_make_with(params, "position", g->kind, 64, C, &positions);
    tg_multi_head_attention_config config = {.path = path, .both_directions = g->both, .position = &position};
    tg_multi_head_attention a = tg_multi_head_attention_make(params, "att", C, C, H, &config);
    assert_string_equal(tg_params_error(params), "");
    tg_tensor *own[] = {position.weight, g->kind == TG_POSITION_SHAW ? position.values : position.content_bias,
                        position.position_bias};
    for (int i = 0; i < 3 && own[i]; i++) {
        fill(own[i], 9 + i);
    }
    tg_tensor *weights[] = {a.query.weight, a.key.weight, a.value.weight, a.out.weight, a.out.bias};
    for (int i = 0; i < 5; i++) {
        fill(weights[i], 3 + i);
    }
    tg_tensor *x = leaf(tg_tensor_new(dtype, TG_SHAPE(B, T, C), NULL));
    tg_tensor *direction = tg_tensor_new(dtype, TG_SHAPE(B, T, C), NULL);
    tg_tensor *memory = tg_tensor_new(dtype, TG_SHAPE(B, g->memory, C), NULL);
    fill(x, 1);
    fill(direction, 2);
    fill(memory, 8);
    tg_tensor *y = g->memory > 0 ? tg_multi_head_attention_forward_memory(tape, &a, x, memory)
                                 : tg_multi_head_attention_forward(tape, &a, x);
    assert_string_equal(tg_tape_error(tape), "");
    compare(g->name, "y", y);
    assert_true(tg_backward_seed(tape, y, direction));
    compare_gradient(g->name, "dx", x);
    compare_gradient(g->name, "dq", a.query.weight);
    for (int i = 0; i < 3 && own[i]; i++) {
        compare_gradient(g->name, i == 0 ? "dp0" : i == 1 ? "dp1" : "dp2", own[i]);
    }
    tg_release(x);
    tg_release(direction);
    tg_release(memory);
    free_all();
}

static void test_every_kind(void **state)
{
    (void)state;
    tg_positional_config usual = tg_positional_config_default(), neighbours = usual, t5 = usual, shaw = usual;
    neighbours.rotary = (tg_rotary_config){100, TG_ROTARY_NEIGHBOURS, 3, 2};
    t5.buckets = 8;
    t5.max_distance = 6;
    shaw.clip = 2;
    const golden_case cases[] = {
        {"none", TG_POSITION_NONE, false, 0, usual},
        {"none_both", TG_POSITION_NONE, true, 0, usual},
        {"rotary_halves", TG_POSITION_ROTARY, false, 0, usual},
        {"rotary_neighbours", TG_POSITION_ROTARY, false, 0, neighbours},
        {"rotary_both", TG_POSITION_ROTARY, true, 0, usual},
        {"alibi", TG_POSITION_ALIBI, false, 0, usual},
        {"alibi_both", TG_POSITION_ALIBI, true, 0, usual},
        {"t5", TG_POSITION_T5, false, 0, t5},
        {"t5_both", TG_POSITION_T5, true, 0, t5},
        {"shaw", TG_POSITION_SHAW, false, 0, shaw},
        {"shaw_both", TG_POSITION_SHAW, true, 0, shaw},
        {"xl", TG_POSITION_TRANSFORMER_XL, false, 0, usual},
        {"xl_both", TG_POSITION_TRANSFORMER_XL, true, 0, usual},
        {"xl_memory", TG_POSITION_TRANSFORMER_XL, false, M, usual},
        {"rotary_memory", TG_POSITION_ROTARY, false, M, usual},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int path = 0; path < 2; path++) {
            check_case(&cases[i], (tg_attention_path)path, TG_F64);
            check_case(&cases[i], (tg_attention_path)path, TG_F32);
        }
    }
}

static void test_t5_buckets(void **state)
{
    (void)state;
    static double expected[2049];
    for (int both = 0; both < 2; both++) {
        assert_int_equal(read_golden(both ? "buckets1" : "buckets0", "t5", expected, 2049), 2049);
        for (int64_t ahead = -1024; ahead <= 1024; ahead++) {
            assert_int_equal(tg_t5_bucket(-ahead, 32, 128, both), (int64_t)expected[ahead + 1024]);
        }
    }
}

/* ---- properties ---- */

/* The product of a turned query and a turned key depends on their distance alone. */
static void test_rotary_sees_distance_alone(void **state)
{
    (void)state;
    tg_tensor *q = tg_tensor_new(TG_F64, TG_SHAPE(1, 6), NULL), *k = tg_tensor_new(TG_F64, TG_SHAPE(1, 6), NULL);
    fill(q, 1);
    fill(k, 2);
    for (int pairing = 0; pairing < 2; pairing++) {
        tg_rotary_config config = tg_rotary_config_default();
        config.pairing = (tg_rotary_pairing)pairing;
        for (int64_t distance = 0; distance < 20; distance += 3) {
            double first = 0;
            for (int64_t start = 0; start < 1000; start += 77) {
                tg_tensor *a = tg_rotary(tape, q, start + distance, &config), *b = tg_rotary(tape, k, start, &config);
                double product = tg_item(tape, tg_matmul(tape, a, tg_transpose(tape, b, 0, 1)));
                first = start == 0 ? product : first;
                assert_true(fabs(product - first) < 1e-12);
            }
        }
    }
    tg_release(q);
    tg_release(k);
}

/* Moving on by k positions turns every pair of a sinusoidal row by the same angles: a fixed matrix. */
static void test_sinusoidal_turns(void **state)
{
    (void)state;
    tg_positional p = tg_positional_make(params, "p", TG_POSITION_SINUSOIDAL, 50, 8);
    const double *w = tg_data(p.weight);
    for (int64_t at = 0; at + 5 < 50; at++) {
        for (int64_t c = 0; c < 8; c += 2) {
            double u = 5 * pow(10000, -(double)c / 8), sine = w[at * 8 + c], cosine = w[at * 8 + c + 1];
            assert_true(fabs(w[(at + 5) * 8 + c] - (sine * cos(u) + cosine * sin(u))) < 1e-12);
            assert_true(fabs(w[(at + 5) * 8 + c + 1] - (cosine * cos(u) - sine * sin(u))) < 1e-12);
        }
    }
}

/* Rows are made from rows, but far out they are still sines. */
static void test_sinusoidal_far_out(void **state)
{
    (void)state;
    tg_positional p = tg_positional_make(params, "p", TG_POSITION_SINUSOIDAL, 5000, 5); /* an odd width */
    const double *w = tg_data(p.weight);
    for (int at = 0; at < 5000; at++) {
        for (int c = 0; c < 5; c++) {
            double angle = at * pow(10000, -(double)(c - c % 2) / 5);
            double value = c % 2 ? cos(angle) : sin(angle);
            assert_float_equal(w[at * 5 + c], value, 2e-14);
        }
    }
}

/* The slopes of 8 heads are the paper's; of 12 heads its code's. */
static void test_alibi_slopes(void **state)
{
    (void)state;
    for (int h = 0; h < 8; h++) {
        assert_true(fabs(tg_alibi_slope(8, h) - 1.0 / (double)(2 << h)) < 1e-15);
    }
    for (int h = 0; h < 4; h++) {
        assert_true(fabs(tg_alibi_slope(12, 8 + h) - pow(2, -0.5 * (2 * h + 1))) < 1e-15);
    }
    assert_true(fabs(tg_alibi_slope(1, 0) - pow(2, -8)) < 1e-15);
}

/* Without positions and masks, attention sees a bag of words: the order of the input is the order of the output. */
static void test_none_is_a_bag_of_words(void **state)
{
    (void)state;
    tg_multi_head_attention_config config = {.both_directions = true};
    tg_multi_head_attention a = tg_multi_head_attention_make(params, "att", C, C, H, &config);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, T, C), NULL);
    tg_tensor *order = tensor_i32(TG_SHAPE(T), (int32_t[]){4, 2, 6, 0, 1, 5, 3});
    fill(x, 1);
    tg_tensor *y = tg_index_select(tape, tg_multi_head_attention_forward(tape, &a, x), 1, order);
    tg_tensor *z = tg_multi_head_attention_forward(tape, &a, tg_index_select(tape, x, 1, order));
    assert_values(z, tg_data(y), T * C, 0, 1e-14);
    tg_release(x);
    tg_release(order);
}

static void test_interpolation(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    tg_tensor *table = tensor_f64(TG_SHAPE(3, 2), (double[]){0, 10, 1, 20, 4, 0});
    tg_tensor *longer = tg_positional_interpolate(table, 5, &error),
              *same = tg_positional_interpolate(table, 3, &error);
    assert_values(longer, (double[]){0, 10, 0.5, 15, 1, 20, 2.5, 10, 4, 0}, 10, 0, 1e-15);
    assert_values(same, tg_data(table), 6, 0, 0);
    assert_null(tg_positional_interpolate(table, 1, &error));
    assert_error(&error, TG_ERROR_SHAPE,
                 "positional_interpolate: a float table (rows,width) with a row at least, to 1 positions");
    assert_null(tg_positional_interpolate(NULL, 4, NULL));
    tg_release(table);
    tg_release(longer);
    tg_release(same);
}

static void test_learned_can_start_sinusoidal(void **state)
{
    (void)state;
    tg_positional_config config = tg_positional_config_default();
    config.sinusoidal_start = true;
    uint64_t position = tg_rng_position(rng);
    tg_positional learned = tg_positional_make_with(params, "learned", TG_POSITION_LEARNED, 9, 6, &config);
    tg_positional fixed = tg_positional_make(params, "fixed", TG_POSITION_SINUSOIDAL, 9, 6);
    assert_true(tg_rng_position(rng) == position);
    assert_memory_equal(tg_data(learned.weight), tg_data(fixed.weight), 54 * sizeof(double));
    assert_true(tg_requires_grad(learned.weight) && !tg_requires_grad(fixed.weight));
}

/* ---- a whole model ---- */

/* With each kind: cached positions are those of the whole, and gradients reach what the kind trains. */
static void test_in_a_gpt(void **state)
{
    (void)state;
    for (int kind = 0; kind <= TG_POSITION_NONE; kind++) {
        make_all(TG_F64);
        tg_gpt_config config = {20, 16, C, H, 2, 0, TG_NO_BIAS, false, TG_ATTENTION_FUSED, (tg_position)kind};
        tg_gpt *model = tg_gpt_new(params, &config);
        assert_non_null(model);
        tg_tensor *ids = tensor_i32(TG_SHAPE(1, 9), (int32_t[]){3, 1, 4, 1, 5, 9, 2, 6, 5});
        tg_tensor *loss = tg_cross_entropy(tape, tg_gpt_forward(tape, model, ids), ids);
        assert_true(tg_backward(tape, loss));
        for (int64_t i = 0; i < tg_params_count(params); i++) {
            tg_entry entry = tg_params_at(params, i);
            if (entry.kind == TG_ENTRY_PARAMETER && tg_gradient_kind_of(entry.tensor) == TG_GRADIENT_NONE) {
                fail_msg("%s: %s gets no gradient", tg_position_name((tg_position)kind), entry.name);
            }
        }
        tg_tape_set_recording(tape, false);
        tg_tensor *whole = tg_gpt_features(tape, model, ids, NULL);
        tg_kv_cache *cache = tg_kv_cache_new(TG_F64, 2, 1, H, 16, C, NULL);
        for (int64_t at = 0; at < 9; at += 4) {
            tg_tensor *part = tg_gpt_features(tape, model, tg_slice(tape, ids, 1, at, at + 4, 1), cache);
            tg_tensor *expected = tg_contiguous(tape, tg_slice(tape, whole, 1, at, at + 4, 1));
            assert_string_equal(tg_tape_error(tape), "");
            assert_values(part, tg_data(expected), tg_count(expected), 0, 1e-12);
        }
        tg_kv_cache_free(cache);
        tg_release(ids);
        tg_gpt_free(model);
        free_all();
    }
}

/* ---- what is refused ---- */

static void test_refuses(void **state)
{
    (void)state;
    tg_positional_config usual = tg_positional_config_default();
    struct {
        tg_position kind;
        int64_t heads, buckets, max_distance, clip, width;
        const char *text;
    } cases[] = {
        {(tg_position)99, 1, 32, 128, 16, 8, "positional p: 99 is not a kind of position"},
        {TG_POSITION_ROTARY, 3, 32, 128, 16, 9, "positional p: rotary heads are 3 wide; an even width is wanted"},
        {TG_POSITION_ALIBI, 3, 32, 128, 16, 8, "positional p: 3 heads do not divide a width of 8"},
        {TG_POSITION_ALIBI, 0, 32, 128, 16, 8, "positional p: 0 heads do not divide a width of 8"},
        {TG_POSITION_T5, 2, 0, 128, 16, 8, "positional p: 0 buckets up to distance 128;"},
        {TG_POSITION_T5, 2, 6, 128, 16, 8, "positional p: 6 buckets up to distance 128;"},
        {TG_POSITION_T5, 2, 32, 16, 16, 8, "positional p: 32 buckets up to distance 16;"},
        {TG_POSITION_SHAW, 2, 32, 128, 0, 8, "positional p: distances clipped at 0; at least 1 is wanted"},
        {TG_POSITION_LEARNED, 2, 32, 128, 16, 0, "positional p: a context of 4 and a width of 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        usual.heads = cases[i].heads;
        usual.buckets = cases[i].buckets;
        usual.max_distance = cases[i].max_distance;
        usual.clip = cases[i].clip;
        tg_positional p = tg_positional_make_with(params, "p", cases[i].kind, 4, cases[i].width, &usual);
        if (p.made || !strstr(tg_params_error(params), cases[i].text)) {
            fail_msg("expected \"%s\", found \"%s\"", cases[i].text, tg_params_error(params));
        }
        assert_int_equal(tg_params_count(params), 0);
        tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 2, 8), NULL);
        assert_null(tg_positional_forward(tape, &p, x));
        assert_tape_error(tape, tg_params_error_code(params), cases[i].text);
        tg_release(x);
        tg_params_clear_error(params);
    }
    tg_position kind;
    for (int i = 0; i <= TG_POSITION_NONE; i++) {
        assert_true(tg_position_named(tg_position_name((tg_position)i), &kind) && kind == (tg_position)i);
    }
    assert_false(tg_position_named("absolute", &kind));
    assert_null(tg_position_name((tg_position)8));
    tg_tensor *odd = tg_tensor_new(TG_F64, TG_SHAPE(2, 3), NULL);
    tg_rotary(tape, odd, 0, NULL);
    assert_tape_error(tape, TG_ERROR_SHAPE, "rotary: x is (2,3); it must be (..,T,D) with an even D");
    tg_relative_shift(tape, odd, 5, 3);
    assert_tape_error(tape, TG_ERROR_SHAPE,
                      "relative_shift: x is (2,3); for 5 queries it must be (..,5,L) or (..,1,L)");
    tg_release(odd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_t5_buckets),
        cmocka_unit_test_setup_teardown(test_rotary_sees_distance_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sinusoidal_turns, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sinusoidal_far_out, set_up, tear_down),
        cmocka_unit_test(test_alibi_slopes),
        cmocka_unit_test_setup_teardown(test_none_is_a_bag_of_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_interpolation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_learned_can_start_sinusoidal, set_up, tear_down),
        cmocka_unit_test(test_in_a_gpt),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Positions: values and gradients of every relative kind against the formulas of the papers, computed pair by pair
 * (tests/goldens/make_positions.py); properties; caches; errors. */
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nn/positions/positions.h"
#include "ops/attention/relative.h"
#include "with_cache.h"

enum { B = 2, T = 7, M = 3, C = 12, H = 3 };

static tg_run *run;
static tg_params *params;
static tg_tape *tape;

static void make_all(tg_dtype dtype)
{
    run = tg_run_new(4);
    params = tg_params_new(run, dtype);
    tape = tg_tape_new(run, NULL);
}

static void free_all(void)
{
    tg_tape_free(tape);
    tg_params_free(params);
    tg_run_free(run);
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
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double value = sin((double)i * 0.7 + salt) * 0.5;
        if (tg_tensor_dtype(x) == TG_F32) {
            ((float *)tg_tensor_data_mut(x))[i] = (float)value;
        } else {
            ((double *)tg_tensor_data_mut(x))[i] = value;
        }
    }
}

/* ---- against the formulas ---- */

typedef struct golden_case {
    const char *name;
    tg_position kind;
    bool both;
    int64_t memory;
    tg_nn_positional_config config;
} golden_case;

/* The line of a case and a name, as values; returns their number. */
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
        fail_msg("the goldens have no %s %s", name, what);
    }
    return count;
}

static void compare(const char *name, const char *what, const tg_tensor *x)
{
    static double expected[4096];
    double largest = 0, worst = 0, allowed = tg_tensor_dtype(x) == TG_F64 ? 1e-10 : 1e-5;
    int count = read_golden(name, what, expected, 4096);
    assert_int_equal(tg_tensor_count(x), count);
    for (int i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
        worst = fmax(worst, fabs(tg_tensor_value_at(x, i) - expected[i]));
    }
    /* a gradient that is 0 except for roundings: that of a summand of all scores of a query */
    largest = largest < 1e-14 ? 1 : largest;
    if (!(worst <= allowed * largest)) {
        fail_msg("%s, %s in %s: %g of the largest entry", name, what, tg_dtype_name(tg_tensor_dtype(x)),
                 worst / largest);
    }
}

static void compare_gradient(const char *name, const char *what, const tg_tensor *x)
{
    tg_tensor *gradient = tg_tensor_new_dense_grad(x, NULL);
    compare(name, what, gradient);
    tg_release(gradient);
}

/* The course's attention. */
static tg_nn_multihead_attention_config separate(void)
{
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.layout = TG_ATTENTION_SEPARATE;
    config.bias = false;
    config.is_causal = true;
    return config;
}

static void check_case(const golden_case *g, tg_attention_path path, tg_dtype dtype)
{
    make_all(dtype);
    tg_nn_positional_config positions = g->config;
    positions.heads = H;
    tg_nn_positional position = tg_nn_positional_make(params, "position", g->kind, 64, C, &positions);
    int64_t own = tg_params_count(params);
    tg_nn_multihead_attention_config config = separate();
    config.path = path;
    config.is_causal = !g->both;
    config.positional = &position;
    tg_nn_multihead_attention a = tg_nn_multihead_attention_make(params, "att", C, C, H, &config);
    assert_string_equal(tg_params_error(params)->text, "");
    for (int64_t i = 0; i < own; i++) {
        fill(tg_params_at(params, i).tensor, (double)(9 + i));
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
    tg_nn_multihead_attention_forward_config forward = tg_nn_multihead_attention_forward_config_default();
    forward.memory = memory;
    tg_tensor *y = tg_nn_multihead_attention_forward(tape, &a, x, g->memory > 0 ? &forward : NULL);
    assert_string_equal(tg_tape_error(tape)->text, "");
    compare(g->name, "y", y);
    tg_backward_config backward = tg_backward_config_default();
    backward.gradient = direction;
    assert_true(tg_backward(tape, y, &backward));
    compare_gradient(g->name, "dx", x);
    compare_gradient(g->name, "dq", a.query.weight);
    for (int64_t i = 0; i < own; i++) {
        char what[8];
        snprintf(what, sizeof what, "dp%d", (int)i);
        compare_gradient(g->name, what, tg_params_at(params, i).tensor);
    }
    tg_release(x);
    tg_release(direction);
    tg_release(memory);
    free_all();
}

static void test_every_kind(void **state)
{
    (void)state;
    tg_nn_positional_config usual = tg_nn_positional_config_default(), neighbors = usual, t5 = usual, shaw = usual;
    neighbors.rotary.base = 100;
    neighbors.rotary.pairing = TG_ROTARY_NEIGHBORS;
    neighbors.rotary.position_scale = 3;
    neighbors.rotary.ntk_factor = 2;
    t5.buckets = 8;
    t5.max_distance = 6;
    shaw.clip = 2;
    tg_nn_positional_config deberta = usual, clipped = usual, c2p = usual, p2c = usual, shared = usual, buckets = usual,
                            both = usual;
    deberta.max_relative_positions = 12;
    clipped.max_relative_positions = 3;
    c2p.max_relative_positions = p2c.max_relative_positions = 5;
    c2p.position_to_content = p2c.content_to_position = false;
    shared.shared_projections = buckets.shared_projections = true;
    shared.max_relative_positions = both.max_relative_positions = 6;
    buckets.position_buckets = 4;
    buckets.max_relative_positions = 8;
    both.position_buckets = 5;
    const golden_case cases[] = {
        {"none", TG_POSITION_NONE, false, 0, usual},
        {"none_both", TG_POSITION_NONE, true, 0, usual},
        {"rotary_halves", TG_POSITION_ROTARY, false, 0, usual},
        {"rotary_neighbours", TG_POSITION_ROTARY, false, 0, neighbors},
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
        {"relative-key", TG_POSITION_RELATIVE_KEY, false, 0, usual},
        {"relative-key_both", TG_POSITION_RELATIVE_KEY, true, 0, usual},
        {"relative-key_memory", TG_POSITION_RELATIVE_KEY, false, M, usual},
        {"relative-key-query", TG_POSITION_RELATIVE_KEY_QUERY, false, 0, usual},
        {"relative-key-query_both", TG_POSITION_RELATIVE_KEY_QUERY, true, 0, usual},
        {"relative-key-query_memory", TG_POSITION_RELATIVE_KEY_QUERY, false, M, usual},
        {"deberta_both", TG_POSITION_DEBERTA, true, 0, deberta},
        {"deberta_memory", TG_POSITION_DEBERTA, false, M, deberta},
        {"deberta_clipped", TG_POSITION_DEBERTA, true, 0, clipped},
        {"deberta_c2p", TG_POSITION_DEBERTA, false, M, c2p},
        {"deberta_p2c", TG_POSITION_DEBERTA, true, 0, p2c},
        {"deberta_shared", TG_POSITION_DEBERTA, true, 0, shared},
        {"deberta_buckets", TG_POSITION_DEBERTA, false, M, buckets},
        {"deberta_buckets_both", TG_POSITION_DEBERTA, true, M, both},
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
            assert_int_equal(tg_t5_bucket(-ahead, 32, 128, !both), (int64_t)expected[ahead + 1024]);
        }
    }
}

/* ---- properties ---- */

/* The product of a rotated query and a rotated key depends on their distance alone. */
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
                double product = tg_tensor_item(tg_matmul(tape, a, tg_transpose(tape, b, 0, 1)), NULL);
                first = start == 0 ? product : first;
                assert_true(fabs(product - first) < 1e-12);
            }
        }
    }
    tg_release(q);
    tg_release(k);
}

/* A shift by k positions rotates every pair of a sinusoidal row by the same angles: a fixed matrix. */
static void test_sinusoidal_rotates(void **state)
{
    (void)state;
    tg_nn_positional p = tg_nn_positional_make(params, "p", TG_POSITION_SINUSOIDAL, 50, 8, NULL);
    const double *w = tg_tensor_data(p.weight);
    for (int64_t at = 0; at + 5 < 50; at++) {
        for (int64_t c = 0; c < 8; c += 2) {
            double u = 5 * pow(10000, -(double)c / 8), sine = w[at * 8 + c], cosine = w[at * 8 + c + 1];
            assert_true(fabs(w[(at + 5) * 8 + c] - (sine * cos(u) + cosine * sin(u))) < 1e-12);
            assert_true(fabs(w[(at + 5) * 8 + c + 1] - (cosine * cos(u) - sine * sin(u))) < 1e-12);
        }
    }
}

/* Rows are computed from rows, but far out they are still sines. */
static void test_sinusoidal_far_out(void **state)
{
    (void)state;
    /* an odd width */
    tg_nn_positional p = tg_nn_positional_make(params, "p", TG_POSITION_SINUSOIDAL, 5000, 5, NULL);
    const double *w = tg_tensor_data(p.weight);
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
    tg_nn_multihead_attention_config config = separate();
    config.is_causal = false;
    tg_nn_multihead_attention a = tg_nn_multihead_attention_make(params, "att", C, C, H, &config);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, T, C), NULL);
    tg_tensor *order = tensor_i32(TG_SHAPE(T), (int32_t[]){4, 2, 6, 0, 1, 5, 3});
    fill(x, 1);
    tg_tensor *y = tg_index_select(tape, tg_nn_multihead_attention_forward(tape, &a, x, NULL), 1, order);
    tg_tensor *z = tg_nn_multihead_attention_forward(tape, &a, tg_index_select(tape, x, 1, order), NULL);
    assert_values(z, tg_tensor_data(y), T * C, 0, 1e-14);
    tg_release(x);
    tg_release(order);
}

/* ---- a longer context ---- */

static void test_interpolation(void **state)
{
    (void)state;
    tg_error error = TG_NO_ERROR;
    const double table[] = {0, 10, 1, 20, 4, 0};
    tg_nn_positional p = tg_nn_positional_make(params, "p", TG_POSITION_LEARNED, 3, 2, NULL);
    tg_tensor *handle = p.weight;
    assert_true(tg_tensor_fill_from(p.weight, table, NULL));
    uint64_t position = tg_rng_position(tg_run_rng(run));
    assert_true(tg_nn_positional_extend(&p, 3));
    assert_values(p.weight, table, 6, 0, 0);
    assert_false(tg_nn_positional_extend(&p, 1));
    assert_params_error(params, TG_ERROR_RANGE,
                        "nn_positional_extend: 1 positions; the context is 3 and cannot shrink");
    assert_values(p.weight, table, 6, 0, 0);
    assert_true(tg_nn_positional_extend(&p, 5));
    assert_ptr_equal(p.weight, handle);
    assert_values(p.weight, (double[]){0, 10, 0.5, 15, 1, 20, 2.5, 10, 4, 0}, 10, 0, 1e-15);
    assert_true(tg_rng_position(tg_run_rng(run)) == position);
    assert_true(tg_tensor_requires_grad(p.weight));
    assert_true(tg_tensor_set_rows_frozen(p.weight, 0, 1, true, &error));
    assert_false(tg_nn_positional_extend(&p, 6));
    assert_params_error(params, TG_ERROR_STATE, "nn_positional_extend: rows of the table are frozen");
    assert_int_equal(tg_tensor_size(p.weight, 0), 5);
    assert_false(tg_nn_positional_extend(NULL, 4));
    assert_false(tg_nn_positional_extend(NULL, 4));
}

/* A fixed table continues as one that was longer from the beginning; kinds without a table reach any context. */
static void test_extension_of_other_kinds(void **state)
{
    (void)state;
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = H;
    tg_nn_positional fixed = tg_nn_positional_make(params, "fixed", TG_POSITION_SINUSOIDAL, 9, C, NULL);
    tg_nn_positional longer = tg_nn_positional_make(params, "longer", TG_POSITION_SINUSOIDAL, 100, C, NULL);
    assert_true(tg_nn_positional_extend(&fixed, 100));
    assert_int_equal(tg_tensor_size(fixed.weight, 0), 100);
    assert_memory_equal(tg_tensor_data(fixed.weight), tg_tensor_data(longer.weight), 100 * C * sizeof(double));
    for (tg_position kind = TG_POSITION_ROTARY; kind <= TG_POSITION_NONE; kind++) {
        tg_nn_positional p = tg_nn_positional_make(params, tg_position_name(kind), kind, 9, C, &config);
        tg_tensor *before = p.weight ? tg_tensor_new_copy(p.weight, NULL) : NULL;
        bool is_fixed = kind == TG_POSITION_RELATIVE_KEY || kind == TG_POSITION_RELATIVE_KEY_QUERY;
        assert_true(tg_nn_positional_extend(&p, 1000000) != is_fixed);
        assert_int_equal(tg_params_error(params)->code, is_fixed ? TG_ERROR_VALUE : TG_OK);
        clear_params_error(params);
        assert_true(tg_nn_positional_extend(&p, 9));
        if (before) {
            assert_values(p.weight, tg_tensor_data(before), tg_tensor_count(before), 0, 0);
        }
        tg_release(before);
    }
}

static void test_learned_can_start_sinusoidal(void **state)
{
    (void)state;
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.sinusoidal_start = true;
    uint64_t position = tg_rng_position(tg_run_rng(run));
    tg_nn_positional learned = tg_nn_positional_make(params, "learned", TG_POSITION_LEARNED, 9, 6, &config);
    tg_nn_positional fixed = tg_nn_positional_make(params, "fixed", TG_POSITION_SINUSOIDAL, 9, 6, NULL);
    assert_true(tg_rng_position(tg_run_rng(run)) == position);
    assert_memory_equal(tg_tensor_data(learned.weight), tg_tensor_data(fixed.weight), 54 * sizeof(double));
    assert_true(tg_tensor_requires_grad(learned.weight) && !tg_tensor_requires_grad(fixed.weight));
}

/* ---- a whole model ---- */

static tg_gpt_config small_gpt(tg_position kind)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = 20;
    config.context = 16;
    config.width = C;
    config.heads = H;
    config.layers = 2;
    config.position = kind;
    return config;
}

/* With each kind: cached positions are those of the whole, and gradients reach what the kind trains. */
static void test_in_a_gpt(void **state)
{
    (void)state;
    for (int kind = 0; kind <= TG_POSITION_NONE; kind++) {
        make_all(TG_F64);
        const tg_gpt_config config = small_gpt((tg_position)kind);
        tg_gpt *model = tg_gpt_new(params, &config);
        assert_non_null(model);
        tg_tensor *ids = tensor_i32(TG_SHAPE(1, 9), (int32_t[]){3, 1, 4, 1, 5, 9, 2, 6, 5});
        tg_tensor *loss = tg_cross_entropy(tape, tg_gpt_forward(tape, model, ids, NULL), ids, NULL);
        assert_true(tg_backward(tape, loss, NULL));
        for (int64_t i = 0; i < tg_params_count(params); i++) {
            tg_entry entry = tg_params_at(params, i);
            if (entry.kind == TG_ENTRY_PARAMETER && tg_tensor_grad_kind(entry.tensor) == TG_GRAD_NONE) {
                fail_msg("%s: %s gets no gradient", tg_position_name((tg_position)kind), entry.name);
            }
        }
        tg_tape_set_recording(tape, false);
        tg_tensor *whole = tg_gpt_forward(tape, model, ids, NULL);
        tg_kv_cache *cache = tg_kv_cache_new(TG_F64, 2, 1, H, 16, C, NULL, NULL);
        for (int64_t at = 0; at < 9; at += 4) {
            tg_tensor *part = tg_gpt_forward(tape, model, tg_slice(tape, ids, 1, at, at + 4, 1), with_cache(cache));
            tg_tensor *expected = tg_contiguous(tape, tg_slice(tape, whole, 1, at, at + 4, 1));
            assert_string_equal(tg_tape_error(tape)->text, "");
            assert_values(part, tg_tensor_data(expected), tg_tensor_count(expected), 0, 1e-12);
        }
        tg_kv_cache_free(cache);
        tg_release(ids);
        tg_gpt_free(model);
        free_all();
    }
}

/* A window, and a cache that keeps no more: passes of any length equal the whole, with each relative kind. Kinds that
 * do not multiply heads serve one head of keys. */
static void test_windows(void **state)
{
    (void)state;
    enum { STEPS = 14, WINDOW = 3 };
    for (int kind = TG_POSITION_ROTARY; kind <= TG_POSITION_NONE; kind++) {
        make_all(TG_F64);
        tg_nn_positional_config positions = tg_nn_positional_config_default();
        positions.heads = H;
        tg_nn_positional p = tg_nn_positional_make(params, "p", (tg_position)kind, STEPS, C, &positions);
        for (int64_t i = 0; i < tg_params_count(params); i++) {
            fill(tg_params_at(params, i).tensor, (double)i);
        }
        tg_nn_multihead_attention_config config = separate();
        config.is_causal = true;
        config.window = WINDOW;
        config.positional = &p;
        int64_t key_heads = tg_position_kind_of((tg_position)kind)->multiplies_heads ? H : 1;
        config.key_heads = key_heads;
        tg_nn_multihead_attention a = tg_nn_multihead_attention_make(params, "a", C, C, H, &config);
        assert_string_equal(tg_params_error(params)->text, "");
        tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(B, STEPS, C), NULL);
        fill(x, 0.5);
        tg_tape_set_recording(tape, false);
        tg_tensor *whole = tg_nn_multihead_attention_forward(tape, &a, x, NULL);
        tg_kv_cache_config windows = tg_kv_cache_config_default();
        windows.windows = &config.window;
        windows.window_count = 1;
        tg_nn_multihead_attention_forward_config forward = tg_nn_multihead_attention_forward_config_default();
        forward.cache = tg_kv_cache_new(TG_F64, 1, B, key_heads, STEPS, key_heads * C / H, &windows, NULL);
        for (int64_t at = 0, count = 1; at < STEPS; at += count, count = at == 1 ? 3 : at == 4 ? 8 : 1) {
            tg_tensor *part = tg_contiguous(tape, tg_slice(tape, x, 1, at, at + count, 1));
            tg_tensor *y = tg_nn_multihead_attention_forward(tape, &a, part, &forward);
            tg_tensor *expected = tg_contiguous(tape, tg_slice(tape, whole, 1, at, at + count, 1));
            assert_string_equal(tg_tape_error(tape)->text, "");
            assert_values(y, tg_tensor_data(expected), tg_tensor_count(expected), 0, 1e-12);
            assert_true(tg_kv_cache_commit(forward.cache, NULL));
        }
        tg_kv_cache_free(forward.cache);
        /* a query does not see the key before its window, but the first one in it */
        for (int64_t change = 0; change < 2; change++) {
            tg_tensor *other = tg_tensor_new_copy(x, NULL);
            memset((double *)tg_tensor_data_mut(other) + (STEPS - WINDOW - 1 + change) * C, 0, C * sizeof(double));
            tg_tensor *y = tg_nn_multihead_attention_forward(tape, &a, other, NULL);
            const double *last = (const double *)tg_tensor_data(y) + (STEPS - 1) * C;
            const double *before = (const double *)tg_tensor_data(whole) + (STEPS - 1) * C;
            assert_true((memcmp(last, before, C * sizeof(double)) == 0) == (change == 0));
            tg_release(other);
        }
        tg_release(x);
        free_all();
    }
}

/* Kinds that multiply vectors with heads need as many heads of keys as of queries, and the usual scale. */
static void test_refuses_groups(void **state)
{
    (void)state;
    for (int kind = TG_POSITION_ROTARY; kind <= TG_POSITION_NONE; kind++) {
        char name[40];
        bool multiplies = tg_position_kind_of((tg_position)kind)->multiplies_heads;
        assert_int_equal(multiplies, kind > TG_POSITION_T5 && kind < TG_POSITION_NONE);
        tg_nn_positional_config positions = tg_nn_positional_config_default();
        positions.heads = H;
        snprintf(name, sizeof name, "p%d", kind);
        tg_nn_positional p = tg_nn_positional_make(params, name, (tg_position)kind, T, C, &positions);
        for (int other = 0; other < 2; other++) {
            tg_nn_multihead_attention_config config = separate();
            config.positional = &p;
            config.key_heads = other ? H : 1;
            config.scale = other ? 0.5 : TG_SCALE_OF_WIDTH;
            int64_t count = tg_params_count(params);
            snprintf(name, sizeof name, "a%d%d", kind, other);
            assert_int_equal(tg_nn_multihead_attention_make(params, name, C, C, H, &config).module.is_made,
                             !multiplies);
            if (multiplies) {
                assert_params_error(params, TG_ERROR_VALUE,
                                    other ? " has 3 heads, 3 key heads and scale 0.5; with "
                                          : " has 3 heads, 1 key heads and scale -1; with ");
                assert_int_equal(tg_params_count(params), count);
            }
        }
    }
}

/* The blocks of a GPT share DeBERTa's vectors of distances, and each projects them. */
static void test_shared_distances(void **state)
{
    (void)state;
    const tg_gpt_config config = small_gpt(TG_POSITION_DEBERTA);
    tg_gpt *model = tg_gpt_new(params, &config);
    assert_non_null(tg_params_find(params, "trf_blocks.0.att.position.rel_embeddings.weight"));
    assert_null(tg_params_find(params, "trf_blocks.1.att.position.rel_embeddings.weight"));
    assert_non_null(tg_params_find(params, "trf_blocks.0.att.position.pos_key_proj.weight"));
    assert_non_null(tg_params_find(params, "trf_blocks.1.att.position.pos_key_proj.weight"));
    tg_gpt_free(model);
}

/* ---- what is refused ---- */

static void test_refuses(void **state)
{
    (void)state;
    tg_nn_positional_config usual = tg_nn_positional_config_default();
    struct {
        tg_position kind;
        int64_t heads, buckets, max_distance, clip, width;
        const char *text;
    } cases[] = {
        {(tg_position)99, 1, 32, 128, 16, 8, "'p' has kind 99, which does not exist"},
        {TG_POSITION_ROTARY, 3, 32, 128, 16, 9, "'p' has rotary heads of width 3; it must be even"},
        {TG_POSITION_ALIBI, 3, 32, 128, 16, 8,
         "'p' has heads 3; it must be set to the attention's number of heads, "
         "which divides the width 8"},
        {TG_POSITION_ALIBI, 0, 32, 128, 16, 8, "'p' has heads 0; it must be set"},
        {TG_POSITION_T5, 2, 0, 128, 16, 8, "'p' has buckets 0 and max_distance 128;"},
        {TG_POSITION_T5, 2, 6, 128, 16, 8, "'p' has buckets 6 and max_distance 128;"},
        {TG_POSITION_T5, 2, 32, 16, 16, 8, "'p' has buckets 32 and max_distance 16;"},
        {TG_POSITION_SHAW, 2, 32, 128, 0, 8, "'p' has clip 0; it must be 1 to 1073741823"},
        {TG_POSITION_LEARNED, 2, 32, 128, 16, 0, "'p' has context 4 and width 0;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        usual.heads = cases[i].heads;
        usual.buckets = cases[i].buckets;
        usual.max_distance = cases[i].max_distance;
        usual.clip = cases[i].clip;
        tg_nn_positional p = tg_nn_positional_make(params, "p", cases[i].kind, 4, cases[i].width, &usual);
        char text[200];
        snprintf(text, sizeof text, "nn_positional_make: %s", cases[i].text);
        tg_code code = cases[i].width == 0 ? TG_ERROR_SHAPE : TG_ERROR_VALUE;
        assert_true(!p.module.is_made && !p.weight);
        assert_int_equal(tg_params_count(params), 0);
        assert_true(tg_rng_position(tg_run_rng(run)) == 0);
        tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(1, 2, 8), NULL);
        assert_null(tg_nn_positional_forward(tape, &p, x, 0));
        assert_string_equal(tg_params_error(params)->text, tg_tape_error(tape)->text);
        assert_tape_error(tape, code, text);
        tg_release(x);
    }
    tg_nn_positional_config bare = {.heads = 2, .buckets = 32, .max_distance = 128};
    tg_nn_positional_make(params, "p", TG_POSITION_T5, 4, 8, &bare);
    assert_params_error(params, TG_ERROR_VALUE, "does not come from tg_nn_positional_config_default()");
    tg_nn_positional_config inner = tg_nn_positional_config_default();
    inner.heads = 2;
    inner.rotary = (tg_rotary_config){.base = 100, .position_scale = 1, .ntk_factor = 1};
    tg_nn_positional_make(params, "p", TG_POSITION_ROTARY, 4, 8, &inner);
    assert_params_error(params, TG_ERROR_VALUE, "does not come from tg_rotary_config_default()");
    tg_nn_positional_make(params, "p", TG_POSITION_T5, 4, 8, NULL);
    assert_params_error(params, TG_ERROR_VALUE, "'p' has heads 0; it must be set");
    tg_position kind = TG_POSITION_T5;
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i <= TG_POSITION_NONE; i++) {
        assert_true(tg_position_from_name(tg_position_name((tg_position)i), &kind, &error) && kind == (tg_position)i);
    }
    kind = TG_POSITION_T5;
    assert_false(tg_position_from_name("absolute", &kind, &error));
    for (int i = 0; i <= TG_POSITION_NONE; i++) {
        /* the message lists the names */
        assert_non_null(strstr(error.text, tg_position_name((tg_position)i)));
    }
    assert_error(&error, TG_ERROR_VALUE,
                 "position_from_name: 'absolute'; it must be learned, sinusoidal, rotary, alibi, t5, shaw, "
                 "transformer-xl, relative-key, relative-key-query, deberta or none");
    assert_false(tg_position_from_name(NULL, &kind, &error));
    assert_error(&error, TG_ERROR_STATE, "position_from_name: the name is NULL");
    assert_false(tg_position_from_name("t5", NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "position_from_name: the kind is NULL");
    assert_int_equal(kind, TG_POSITION_T5);
    assert_string_equal(tg_position_name((tg_position)(TG_POSITION_NONE + 1)), "unknown");
    tg_tensor *odd = tg_tensor_new(TG_F64, TG_SHAPE(2, 3), NULL);
    tg_rotary(tape, odd, 0, NULL);
    assert_tape_error(tape, TG_ERROR_SHAPE, "rotary: x is (2,3); it must be (..,T,D) with an even D");
    tg_relative_shift(tape, odd, 5, 3);
    assert_tape_error(tape, TG_ERROR_SHAPE,
                      "relative_shift: x is (2,3); for 5 queries it must be (..,5,L) or (..,1,L)");
    tg_release(odd);
}

static void refuse_deberta(const tg_nn_positional_config *config, tg_code code, const char *text)
{
    char full[300];
    int64_t count = tg_params_count(params);
    uint64_t position = tg_rng_position(tg_run_rng(run));
    snprintf(full, sizeof full, "nn_positional_make: %s", text);
    assert_false(tg_nn_positional_make(params, "p", TG_POSITION_DEBERTA, 9, C, config).module.is_made);
    assert_params_error(params, code, full);
    assert_int_equal(tg_params_count(params), count);
    assert_true(tg_rng_position(tg_run_rng(run)) == position);
}

static void test_refuses_deberta(void **state)
{
    (void)state;
    const struct {
        int64_t buckets, most;
    } sizes[] = {{0, 9},
                 {1, 9},
                 {-2, 9},
                 {16, -1},
                 {4, 3},
                 {-1, 0},
                 {-1, -2},
                 {INT32_MAX / 2 + 1, INT32_MAX / 2},
                 {-1, INT32_MAX / 2 + 1}};
    tg_nn_positional_config usual = tg_nn_positional_config_default();
    usual.heads = H;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char text[300];
        tg_nn_positional_config config = usual;
        config.position_buckets = sizes[i].buckets;
        config.max_relative_positions = sizes[i].most;
        snprintf(text, sizeof text,
                 "'p' has position_buckets %lld and max_relative_positions %lld; position_buckets must be -1 or 2 to "
                 "%d, max_relative_positions 1 to %d, and with buckets above half of them plus 1",
                 (long long)sizes[i].buckets, (long long)(sizes[i].most == -1 ? 9 : sizes[i].most), INT32_MAX / 2,
                 INT32_MAX / 2);
        refuse_deberta(&config, TG_ERROR_VALUE, text);
    }
    tg_nn_positional_config config = usual;
    config.content_to_position = config.position_to_content = false;
    refuse_deberta(&config, TG_ERROR_VALUE,
                   "'p' has neither content_to_position nor position_to_content; at least one");
    config = usual;
    config.distances = tg_tensor_new(TG_F64, TG_SHAPE(17, C), NULL);
    refuse_deberta(&config, TG_ERROR_SHAPE, "'p' has distances of shape (17,12); it must be (18,12)");
    config.position_buckets = 4;
    refuse_deberta(&config, TG_ERROR_SHAPE, "'p' has distances of shape (17,12); it must be (8,12)");
    tg_release(config.distances);
    config.distances = tg_tensor_new(TG_F32, TG_SHAPE(8, C), NULL);
    refuse_deberta(&config, TG_ERROR_DTYPE, "'p' has distances in f32; the params have f64");
    tg_release(config.distances);
    config = usual;
    tg_nn_layer_norm norm = {.weight = NULL};
    config.distances_norm = &norm;
    refuse_deberta(&config, TG_ERROR_STATE, "the distances_norm of 'p' was not made");
    norm = tg_nn_layer_norm_make(params, "norm", C - 1, NULL);
    refuse_deberta(&config, TG_ERROR_SHAPE, "'p' has width 12, but its distances_norm was made for width 11");
    /* the smallest sizes, and projections that fit no attention from another width */
    config = usual;
    config.shared_projections = true;
    config.position_buckets = 2;
    config.max_relative_positions = 3;
    tg_nn_positional p = tg_nn_positional_make(params, "p", TG_POSITION_DEBERTA, 9, C, &config);
    assert_true(p.module.is_made && tg_tensor_size(p.weight, 0) == 4 && !p.position_key.weight);
    tg_nn_multihead_attention_config attention = separate();
    attention.positional = &p;
    assert_true(tg_nn_multihead_attention_make(params, "a", C, C, H, &attention).module.is_made);
    assert_false(tg_nn_multihead_attention_make(params, "b", 5, C, H, &attention).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE,
                        "nn_multihead_attention_make: 'b' goes from width 5 to 12; both must be equal, because its "
                        "deberta positions share the projections");
    config.max_relative_positions = -1;
    config.position_buckets = -1;
    config.position_to_content = config.shared_projections = false;
    p = tg_nn_positional_make(params, "q", TG_POSITION_DEBERTA, 9, C, &config);
    assert_true(p.position_key.weight && !p.position_query.weight && tg_tensor_size(p.weight, 0) == 18);
    /* other kinds project nothing */
    config.shared_projections = true;
    p = tg_nn_positional_make(params, "r", TG_POSITION_ALIBI, 9, C, &config);
    assert_true(tg_nn_multihead_attention_make(params, "c", 5, C, H, &attention).module.is_made);
}

/* tapegrad/nn.h: the fields of a config are checked by _make. */
static void test_rotary_options(void **state)
{
    (void)state;
    const struct {
        double base, position_scale, ntk_factor;
        int pairing;
    } cases[] = {{1, 1, 1, 0}, {(double)NAN, 1, 1, 0}, {10, 0, 1, 0}, {10, 1, -1, 0}, {10, 1, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tg_nn_positional_config config = tg_nn_positional_config_default();
        config.heads = 2;
        config.rotary.base = cases[i].base;
        config.rotary.position_scale = cases[i].position_scale;
        config.rotary.ntk_factor = cases[i].ntk_factor;
        config.rotary.pairing = (tg_rotary_pairing)cases[i].pairing;
        assert_false(tg_nn_positional_make(params, "p", TG_POSITION_ROTARY, 4, 8, &config).module.is_made);
        assert_params_error(params, TG_ERROR_VALUE, "nn_positional_make: ");
    }
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.rotary.positions = tensor_i32(TG_SHAPE(1), (int32_t[]){0});
    assert_false(tg_nn_positional_make(params, "p", TG_POSITION_ROTARY, 4, 8, &config).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "nn_positional_make: 'p' has rotary.positions; they belong to a call");
    tg_release(config.rotary.positions);
}

/* Relative key has vectors for the distances of its context only. */
static void test_context_of_relative_key(void **state)
{
    (void)state;
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = H;
    for (tg_position kind = TG_POSITION_RELATIVE_KEY; kind <= TG_POSITION_RELATIVE_KEY_QUERY; kind++) {
        tg_nn_positional p = tg_nn_positional_make(params, tg_position_name(kind), kind, T, C, &positions);
        assert_true(tg_shape_equal(tg_tensor_shape(p.weight), TG_SHAPE(2 * T - 1, C / H)));
        tg_nn_multihead_attention_config config = separate();
        config.positional = &p;
        tg_nn_multihead_attention a = tg_nn_multihead_attention_make(params, kind % 2 ? "a" : "b", C, C, H, &config);
        tg_tensor *x = tg_tensor_new_full(TG_F64, TG_SHAPE(B, T + 1, C), 1, NULL);
        char text[200];
        assert_non_null(tg_nn_multihead_attention_forward(tape, &a, tg_slice(tape, x, 1, 0, T, 1), NULL));
        assert_null(tg_nn_multihead_attention_forward(tape, &a, x, NULL));
        snprintf(text, sizeof text,
                 "nn_multihead_attention_forward: 8 queries and 8 keys; the %s positions were made for a context of 7",
                 tg_position_name(kind));
        assert_tape_error(tape, TG_ERROR_RANGE, text);
        assert_false(tg_nn_positional_extend(&p, T - 1));
        assert_int_equal(tg_params_error(params)->code, TG_ERROR_RANGE);
        clear_params_error(params);
        assert_false(tg_nn_positional_make(params, "long", kind, INT32_MAX, C, &positions).module.is_made);
        assert_params_error(params, TG_ERROR_SHAPE, "'long' has context 2147483647");
        tg_release(x);
    }
}

/* An attention takes relative positions with its own heads and width, or none. */
static void test_positions_of_another_attention(void **state)
{
    (void)state;
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    tg_nn_multihead_attention_config config = separate();
    tg_nn_transformer_block_config block = tg_nn_transformer_block_config_default();
    const tg_position relative[] = {TG_POSITION_ROTARY, TG_POSITION_ALIBI,          TG_POSITION_T5,
                                    TG_POSITION_SHAW,   TG_POSITION_TRANSFORMER_XL, TG_POSITION_RELATIVE_KEY,
                                    TG_POSITION_DEBERTA};
    for (int layout = 0; layout < 2; layout++) {
        config.layout = (tg_attention_layout)layout;
        for (size_t i = 0; i < sizeof relative / sizeof *relative; i++) {
            const char *name = tg_position_name(relative[i]);
            char full[64], text[200];
            for (int other = 0; other < 2; other++) {
                /* 3 heads of width 12 are asked for; first the heads differ, then the width */
                positions.heads = other ? H : 2;
                int64_t width = other ? 2 * C : C;
                snprintf(full, sizeof full, "%s.%d.%d", name, layout, other);
                tg_nn_positional p = tg_nn_positional_make(params, full, relative[i], 9, width, &positions);
                assert_true(p.module.is_made);
                int64_t count = tg_params_count(params);
                uint64_t position = tg_rng_position(tg_run_rng(run));
                config.positional = &p;
                snprintf(
                    text, sizeof text,
                    "nn_multihead_attention_make: 'a' has 3 heads and width 12, but its %s positions were made for "
                    "%d heads and width %d",
                    name, (int)positions.heads, (int)width);
                assert_false(tg_nn_multihead_attention_make(params, "a", C, C, H, &config).module.is_made);
                assert_params_error(params, TG_ERROR_VALUE, text);
                block.attention.positional = &p;
                assert_false(tg_nn_transformer_block_make(params, "b", C, H, &block).module.is_made);
                assert_params_error(params, TG_ERROR_VALUE, "'b.att' has 3 heads and width 12, but its");
                assert_int_equal(tg_params_count(params), count);
                assert_true(tg_rng_position(tg_run_rng(run)) == position);
            }
        }
        for (int kind = TG_POSITION_LEARNED; kind <= TG_POSITION_SINUSOIDAL; kind++) {
            char full[64], text[200];
            snprintf(full, sizeof full, "absolute.%d.%d", layout, kind);
            /* even with the heads set */
            positions.heads = H;
            tg_nn_positional p = tg_nn_positional_make(params, full, (tg_position)kind, 9, C, &positions);
            assert_true(p.module.is_made);
            int64_t count = tg_params_count(params);
            uint64_t position = tg_rng_position(tg_run_rng(run));
            config.positional = &p;
            snprintf(text, sizeof text,
                     "nn_multihead_attention_make: 'a' has %s positions, which tg_nn_positional_forward",
                     tg_position_name((tg_position)kind));
            assert_false(tg_nn_multihead_attention_make(params, "a", C, C, H, &config).module.is_made);
            assert_params_error(params, TG_ERROR_VALUE, text);
            assert_int_equal(tg_params_count(params), count);
            assert_true(tg_rng_position(tg_run_rng(run)) == position);
        }
    }
    positions.heads = 5;
    tg_nn_positional unmade = tg_nn_positional_make(params, "u", TG_POSITION_ALIBI, 9, C, &positions);
    assert_params_error(params, TG_ERROR_VALUE, "'u' has heads 5;");
    config.positional = &unmade;
    assert_false(tg_nn_multihead_attention_make(params, "a", C, C, H, &config).module.is_made);
    assert_params_error(params, TG_ERROR_STATE, "nn_multihead_attention_make: the positions of 'a' were not made");
    /* no positions: nothing that could differ */
    tg_nn_positional none = tg_nn_positional_make(params, "none", TG_POSITION_NONE, 9, 2 * C, NULL);
    config.positional = &none;
    assert_true(tg_nn_multihead_attention_make(params, "a", C, C, H, &config).module.is_made);
}

/* The formulas of relative positions, for more heads, buckets and positions than a model has. */
static void test_extreme_positions(void **state)
{
    (void)state;
    const int64_t many = (int64_t)1 << 62;
    alarm(60); /* a loop without an end ends the test */
    assert_true(tg_alibi_slope(many, 0) == 1 && tg_alibi_slope(INT64_MAX, many) == 1);
    assert_true(tg_alibi_slope(many, many - 1) == 1.0 / 256);
    assert_true(tg_alibi_slope(INT64_MAX, INT64_MAX - 1) < 1.0 / 128);
    alarm(0);
    assert_int_equal(tg_t5_bucket(INT64_MIN, 32, 128, false), 31);
    assert_int_equal(tg_t5_bucket(INT64_MAX, 32, 128, false), 15);
    assert_int_equal(tg_t5_bucket(INT64_MIN, 32, 128, true), 0);
    /* logarithms of nearly equal numbers: the quotient is beyond 2^63 */
    assert_int_equal(tg_t5_bucket(INT64_MAX, INT32_MAX - 3, INT32_MAX / 2 + 1, true), INT32_MAX - 4);
    assert_int_equal(tg_t5_bucket(INT64_MAX, 4, INT64_MAX, true), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extreme_positions),
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_t5_buckets),
        cmocka_unit_test_setup_teardown(test_rotary_sees_distance_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sinusoidal_rotates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sinusoidal_far_out, set_up, tear_down),
        cmocka_unit_test(test_alibi_slopes),
        cmocka_unit_test_setup_teardown(test_none_is_a_bag_of_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_interpolation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_extension_of_other_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_learned_can_start_sinusoidal, set_up, tear_down),
        cmocka_unit_test(test_in_a_gpt),
        cmocka_unit_test(test_windows),
        cmocka_unit_test_setup_teardown(test_refuses_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shared_distances, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses_deberta, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rotary_options, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_context_of_relative_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_positions_of_another_attention, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

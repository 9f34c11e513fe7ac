/* Multi-head attention in PyTorch's layout against torch.nn.MultiheadAttention: initial values, results and gradients.
 * The goldens are from tests/goldens/make_multihead_attention.py.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "base/random.h"

enum { B = 2, T = 5, C = 6, H = 3, M = 4, OTHER = 7 };

/* The other sequences and the padding of a case of make_multihead_attention.py. */
typedef struct others {
    bool key, value, padded;
} others;

static tg_tensor *wave(tg_shape shape, double phase)
{
    tg_tensor *x = tg_tensor_new(TG_F64, shape, NULL);
    double *values = tg_tensor_data_mut(x);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        values[i] = sin(0.7 * (double)i + phase);
    }
    return x;
}

/* Compares x with the line "<case>.<name> value..". */
static void assert_golden(const char *name, const char *part, const tg_tensor *x, double tolerance)
{
    char key[80], *line = NULL;
    size_t size = 0;
    FILE *file = fopen(TG_TEST_GOLDENS "/multihead_attention.txt", "r");
    assert_non_null(file);
    snprintf(key, sizeof key, "%s.%s ", name, part);
    while (getline(&line, &size, file) > 0 && strncmp(line, key, strlen(key)) != 0) {
    }
    if (feof(file)) {
        fail_msg("no golden %s", key);
    }
    char *next = line + strlen(key);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double expected = strtod(next, &next), value = tg_tensor_value_at(x, i);
        if (!(fabs(value - expected) <= tolerance * (1 + fabs(expected)))) {
            fail_msg("%s[%lld] is %.17g, expected %.17g", key, (long long)i, value, expected);
        }
    }
    assert_true(*next == '\n');
    free(line);
    fclose(file);
}

/* Padding given as lengths or, with `masked`, as a mask. */
static void check_others(const char *name, tg_attention_path path, bool bias, bool causal, bool with_memory,
                         others other, bool masked)
{
    tg_run *run = tg_run_new(123);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.bias = bias;
    config.is_causal = causal;
    config.path = path;
    tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "attn", C, C, H, &config);
    assert_int_equal(tg_params_error(params)->code, TG_OK);
    const char *parts[] = {"in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"};
    int64_t entries = tg_params_count(params), entry = 0;
    assert_int_equal(entries, bias ? 4 : 2);
    for (int i = 0; i < 4; i++) {
        char full[64];
        snprintf(full, sizeof full, "attn.%s", parts[i]);
        if (bias || !strstr(parts[i], "bias")) {
            assert_string_equal(tg_params_at(params, entry++).name, full); /* the order of torch's state_dict */
            assert_golden(name, parts[i], tg_params_find(params, full), 0);
        }
    }
    double next;
    tg_rng_uniform_f64(tg_run_rng(run), &next, 1, 0, 1);
    tg_tensor *draw = tensor_f64(TG_SHAPE(1), &next);
    assert_golden(name, "next_draw", draw, 0);

    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *x = leaf(wave(TG_SHAPE(B, T, C), 0)), *start = wave(TG_SHAPE(B, T, C), 1);
    tg_tensor *memory = leaf(wave(TG_SHAPE(B, M, C), 2));
    tg_nn_multihead_attention_forward_config forward = tg_nn_multihead_attention_forward_config_default();
    forward.memory = with_memory ? memory : NULL;
    tg_tensor *key = leaf(wave(TG_SHAPE(B, OTHER, C), 3)), *value = leaf(wave(TG_SHAPE(B, OTHER, C), 4));
    forward.key = other.key ? key : NULL;
    forward.value = other.value ? value : NULL;
    int32_t keys = other.key ? OTHER : T;
    tg_tensor *lengths = tensor_i32(TG_SHAPE(B), (int32_t[]){keys, keys - 2});
    tg_tensor *mask = tg_tensor_new_full(TG_U8, TG_SHAPE(B, keys), 1, NULL);
    memset((uint8_t *)tg_tensor_data_mut(mask) + 2 * keys - 2, 0, 2);
    forward.lengths = other.padded && !masked ? lengths : NULL;
    forward.key_mask = other.padded && masked ? mask : NULL;
    tg_backward_config backward = tg_backward_config_default();
    backward.gradient = start;
    tg_tensor *y = tg_nn_multihead_attention_forward(t, &attention, x, &forward);
    assert_golden(name, "y", y, 1e-12);
    tg_tensor *weights = NULL;
    forward.weights = &weights;
    assert_golden(name, "y", tg_nn_multihead_attention_forward(t, &attention, x, &forward), 1e-12);
    assert_true(tg_shape_equal(tg_tensor_shape(weights), TG_SHAPE(B, H, T, keys + (with_memory ? M : 0))));
    assert_golden(name, "weights", weights, 1e-12);
    assert_true(tg_backward(t, y, &backward));
    assert_golden(name, "dx", tg_tensor_grad(x), 1e-12);
    if (other.key) {
        assert_golden(name, "dkey", tg_tensor_grad(key), 1e-12);
    }
    if (other.value) {
        assert_golden(name, "dvalue", tg_tensor_grad(value), 1e-12);
    }
    assert_int_equal(tg_tensor_grad_kind(memory), TG_GRAD_NONE); /* a memory gets no gradient */
    for (int64_t i = 0; i < entries; i++) {
        char part[64];
        tg_entry e = tg_params_at(params, i);
        snprintf(part, sizeof part, "d_%s", e.name + strlen("attn."));
        assert_golden(name, part, tg_tensor_grad(e.tensor), 1e-12);
    }
    tg_tape_free(t);
    tg_params_free(params);
    tg_release(x);
    tg_release(start);
    tg_release(memory);
    tg_release(key);
    tg_release(value);
    tg_release(lengths);
    tg_release(mask);
    tg_release(draw);
    tg_run_free(run);
}

static void check(const char *name, tg_attention_path path, bool bias, bool causal, bool with_memory)
{
    check_others(name, path, bias, causal, with_memory, (others){false, false, false}, false);
}

static void test_numbers_of_torch(void **state)
{
    (void)state;
    for (int path = TG_ATTENTION_FUSED; path <= TG_ATTENTION_ELEMENTARY; path++) {
        check("plain", (tg_attention_path)path, true, false, false);
        check("causal", (tg_attention_path)path, true, true, false);
        check("no_bias", (tg_attention_path)path, false, false, false);
        check("memory", (tg_attention_path)path, true, true, true);
    }
}

static void test_other_sequences_and_padding(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        tg_attention_path path = (tg_attention_path)(i % 2);
        bool masked = i / 2;
        check_others("padded", path, true, false, false, (others){.padded = true}, masked);
        check_others("padded_causal", path, true, true, false, (others){.padded = true}, masked);
        check_others("cross", path, true, false, false, (others){.key = true}, masked);
        check_others("cross_padded", path, false, false, false, (others){.key = true, .padded = true}, masked);
        check_others("key_and_value", path, true, false, false, (others){true, true, true}, masked);
    }
}

/* Both layouts compute the same, from the same weights, also with a cache. */
static void test_layouts_agree(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    config.is_causal = true;
    tg_nn_multihead_attention packed = tg_nn_multihead_attention_make(params, "packed", C, C, H, &config);
    config.layout = TG_ATTENTION_SEPARATE;
    tg_nn_multihead_attention separate = tg_nn_multihead_attention_make(params, "separate", C, C, H, &config);
    const double *weight = tg_tensor_data(packed.in_proj_weight), *bias = tg_tensor_data(packed.in_proj_bias);
    tg_nn_linear *parts[] = {&separate.query, &separate.key, &separate.value};
    tg_tensor_fill_normal(packed.in_proj_bias, tg_run_rng(run), 0, 1, NULL);
    for (int i = 0; i < 3; i++) {
        tg_tensor_fill_from(parts[i]->weight, weight + i * C * C, NULL);
        tg_tensor_fill_from(parts[i]->bias, bias + i * C, NULL);
    }
    tg_tensor_copy_from(separate.out.weight, packed.out.weight, NULL);
    tg_tensor_copy_from(separate.out.bias, packed.out.bias, NULL);

    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tape_set_recording(t, false);
    tg_tensor *x = wave(TG_SHAPE(B, T, C), 0);
    tg_kv_cache *cache = tg_kv_cache_new(TG_F64, 1, B, H, T, C, NULL, NULL);
    tg_nn_multihead_attention_forward_config forward = tg_nn_multihead_attention_forward_config_default();
    forward.cache = cache;
    tg_tensor *expected = tg_nn_multihead_attention_forward(t, &separate, x, NULL);
    tg_tensor *whole = tg_nn_multihead_attention_forward(t, &packed, x, NULL);
    tg_tensor *other = wave(TG_SHAPE(B, OTHER, C), 3);
    tg_nn_multihead_attention_forward_config cross = tg_nn_multihead_attention_forward_config_default();
    cross.key = other;
    tg_tensor *of_separate = tg_nn_multihead_attention_forward(t, &separate, x, &cross);
    tg_tensor *of_packed = tg_nn_multihead_attention_forward(t, &packed, x, &cross);
    for (int64_t i = 0; i < B * T * C; i++) {
        assert_true(fabs(tg_tensor_value_at(of_separate, i) - tg_tensor_value_at(of_packed, i)) < 1e-13);
    }
    tg_release(other);
    for (int64_t i = 0; i < B * T * C; i++) {
        assert_true(fabs(tg_tensor_value_at(whole, i) - tg_tensor_value_at(expected, i)) < 1e-13);
    }
    for (int64_t step = 0; step < T; step++) {
        tg_tensor *y = tg_nn_multihead_attention_forward(t, &packed, tg_slice(t, x, 1, step, step + 1, 1), &forward);
        assert_true(tg_kv_cache_commit(cache, NULL));
        for (int64_t b = 0; b < B; b++) {
            for (int64_t c = 0; c < C; c++) {
                double found = tg_tensor_value_at(y, b * C + c);
                assert_true(fabs(found - tg_tensor_value_at(expected, (b * T + step) * C + c)) < 1e-13);
            }
        }
    }
    tg_kv_cache_free(cache);
    tg_tape_free(t);
    tg_release(x);
    tg_params_free(params);
    tg_run_free(run);
}

static void test_refused(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    assert_false(tg_nn_multihead_attention_make(params, "a", 4, 6, 2, &config).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "from width 4 to 6");
    config.layout = (tg_attention_layout)7;
    assert_false(tg_nn_multihead_attention_make(params, "a", 6, 6, 2, &config).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "layout 7");
    tg_params_free(params);
    params = tg_params_new(NULL, TG_F32);
    assert_false(tg_nn_multihead_attention_make(params, "a", 6, 6, 2, NULL).module.is_made);
    assert_params_error(params, TG_ERROR_STATE, "generator");
    assert_int_equal(tg_params_count(params), 0);
    tg_params_free(params);
    tg_run_free(run);
}

static void test_refused_forwards(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_nn_positional_config positions = tg_nn_positional_config_default();
    positions.heads = H;
    tg_nn_positional alibi = tg_nn_positional_make(params, "pos", TG_POSITION_ALIBI, T, C, &positions);
    tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
    tg_nn_multihead_attention plain = tg_nn_multihead_attention_make(params, "a", C, C, H, &config);
    config.positional = &alibi;
    tg_nn_multihead_attention relative = tg_nn_multihead_attention_make(params, "b", C, C, H, &config);
    tg_tensor *x = wave(TG_SHAPE(B, T, C), 0), *flat = wave(TG_SHAPE(T, C), 0), *three = wave(TG_SHAPE(3, T, C), 0);
    tg_tensor *lengths = tensor_i32(TG_SHAPE(B), (int32_t[]){1, T + 1});
    tg_kv_cache *cache = tg_kv_cache_new(TG_F64, 1, B, H, T, C, NULL, NULL);
    typedef tg_nn_multihead_attention_forward_config forward_config;
    const struct {
        const tg_nn_multihead_attention *module;
        forward_config config;
        tg_code code;
        const char *text;
    } cases[] = {
        {&plain, {.key = flat}, TG_ERROR_SHAPE, "the key has shape (5,6); it must be (B,T,C)"},
        {&plain, {.value = flat}, TG_ERROR_SHAPE, "the value has shape (5,6); it must be (B,T,C)"},
        {&plain, {.key = three}, TG_ERROR_SHAPE, "the key has 3 sequences, and the input 2"},
        {&plain, {.value = three}, TG_ERROR_SHAPE, "the value has 3 sequences, and the input 2"},
        {&plain, {.key = x, .memory = x}, TG_ERROR_VALUE, "a key is given with a memory; one of them must be NULL"},
        {&plain, {.value = x, .cache = cache}, TG_ERROR_VALUE, "a value is given with a cache; one of them"},
        {&plain, {.memory = x, .cache = cache}, TG_ERROR_VALUE, "a memory and a cache are given; one of them"},
        {&relative,
         {.key = x},
         TG_ERROR_VALUE,
         "a key is given, but the module has alibi positions, which are distances"},
        {&plain, {.lengths = lengths}, TG_ERROR_RANGE, "length 6 at [1] is outside [0,5], the number of keys"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        forward_config given = cases[i].config;
        given.mark = tg_nn_multihead_attention_forward_config_default().mark;
        assert_null(tg_nn_multihead_attention_forward(t, cases[i].module, x, &given));
        assert_tape_error(t, cases[i].code, cases[i].text);
    }
    tg_kv_cache_free(cache);
    tg_release(lengths);
    tg_release(x);
    tg_release(flat);
    tg_release(three);
    tg_tape_free(t);
    tg_params_free(params);
    tg_run_free(run);
}

/* A model is often a struct that a function returns: the positions with which the attention was made are gone. */
static void test_modules_survive_a_copy(void **state)
{
    (void)state;
    for (int kind = TG_POSITION_ROTARY; kind < TG_POSITION_NONE; kind++) {
        tg_run *run = tg_run_new(1);
        tg_params *params = tg_params_new(run, TG_F64);
        tg_tape *t = tg_tape_new(run, NULL);
        tg_nn_layer_norm norm = tg_nn_layer_norm_make(params, "norm", C, NULL);
        tg_nn_positional_config positions = tg_nn_positional_config_default();
        positions.heads = H;
        positions.distances_norm = kind == TG_POSITION_DEBERTA ? &norm : NULL;
        tg_nn_positional position = tg_nn_positional_make(params, "positions", (tg_position)kind, T, C, &positions);
        memset(&norm, 0, sizeof norm);
        tg_nn_multihead_attention_config config = tg_nn_multihead_attention_config_default();
        config.positional = &position;
        tg_nn_multihead_attention attention = tg_nn_multihead_attention_make(params, "attention", C, C, H, &config);
        assert_int_equal(tg_params_error(params)->code, TG_OK);
        tg_tensor *x = wave(TG_SHAPE(B, T, C), 0);
        tg_tensor *before = tg_retain(tg_nn_multihead_attention_forward(t, &attention, x, NULL));
        tg_nn_multihead_attention copy = attention;
        memset(&position, 0, sizeof position);
        memset(&attention, 0, sizeof attention);
        tg_tensor *after = tg_nn_multihead_attention_forward(t, &copy, x, NULL);
        assert_non_null(after);
        assert_memory_equal(tg_tensor_data(before), tg_tensor_data(after), B * T * C * sizeof(double));
        /* and the positions change the result at all */
        copy.positional.module.is_made = false;
        tg_tensor *without = tg_nn_multihead_attention_forward(t, &copy, x, NULL);
        assert_memory_not_equal(tg_tensor_data(before), tg_tensor_data(without), B * T * C * sizeof(double));
        tg_release(before);
        tg_release(x);
        tg_tape_free(t);
        tg_params_free(params);
        tg_run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_torch), cmocka_unit_test(test_other_sequences_and_padding),
        cmocka_unit_test(test_layouts_agree),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_forwards), cmocka_unit_test(test_modules_survive_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The layers of an encoder and of a decoder against torch.nn: initial values, results, gradients and draws. The goldens
 * are from tests/goldens/make_transformer.py.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "base/random.h"
#include "tape_stats.h"

enum { B = 2, T = 5, C = 6, H = 3, HIDDEN = 7, M = 4 };

static tg_tensor *wave(tg_dtype dtype, tg_shape shape, double phase)
{
    tg_tensor *x = tg_tensor_new(TG_F64, shape, NULL);
    double *values = tg_tensor_data_mut(x);
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        values[i] = sin(0.7 * (double)i + phase);
    }
    tg_tensor *y = tg_tensor_new_cast(x, dtype, NULL);
    tg_release(x);
    return y;
}

/* Returns the line "<case>.<part> value..", which is the caller's to free. */
static char *golden_line(const char *name, const char *part)
{
    char key[80], *line = NULL;
    size_t size = 0;
    FILE *file = fopen(TG_TEST_GOLDENS "/transformer.txt", "r");
    assert_non_null(file);
    snprintf(key, sizeof key, "%s.%s ", name, part);
    while (getline(&line, &size, file) > 0 && strncmp(line, key, strlen(key)) != 0) {
    }
    if (feof(file)) {
        fail_msg("no golden %s", key);
    }
    fclose(file);
    return line;
}

/* Compares x with a golden: each value, in parts of the largest. */
static void assert_golden(const char *name, const char *part, const tg_tensor *x, double tolerance)
{
    char *line = golden_line(name, part), *next = strchr(line, ' '), *end = next;
    double largest = 0;
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        largest = fmax(largest, fabs(strtod(end, &end)));
    }
    assert_true(*end == '\n');
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double expected = strtod(next, &next), value = tg_tensor_value_at(x, i);
        if (!(fabs(value - expected) <= tolerance * largest)) {
            fail_msg("%s.%s[%lld] is %.17g, expected %.17g", name, part, (long long)i, value, expected);
        }
    }
    free(line);
}

typedef struct layer_case {
    const char *name;
    bool is_decoder, norm_first, gelu, causal, padded;
    double dropout;
} layer_case;

static const layer_case cases[] = {
    {"encoder", false, false, false, false, false, 0},
    {"encoder_padded", false, false, true, false, true, 0},
    {"encoder_norm_first", false, true, true, true, true, 0},
    {"encoder_dropout", false, false, false, false, true, 0.3},
    {"encoder_dropout_norm_first", false, true, true, true, false, 0.2},
    {"decoder", true, false, false, true, false, 0},
    {"decoder_padded", true, false, true, true, true, 0},
    {"decoder_norm_first", true, true, false, false, true, 0},
    {"decoder_dropout", true, false, false, true, true, 0.3},
    {"decoder_dropout_norm_first", true, true, true, true, false, 0.2},
};

/* A layer of either kind, and its tensors. */
typedef struct fixture {
    tg_run *run;
    tg_params *params;
    tg_tape *tape;
    bool is_decoder;
    tg_nn_transformer_encoder_layer encoder;
    tg_nn_transformer_decoder_layer decoder;
    tg_tensor *x, *memory, *lengths, *mask, *memory_lengths, *memory_mask;
} fixture;

static tg_tensor *mask_of(const int32_t lengths[B], int64_t positions)
{
    tg_tensor *mask = tg_tensor_new(TG_U8, TG_SHAPE(B, positions), NULL);
    uint8_t *values = tg_tensor_data_mut(mask);
    for (int64_t i = 0; i < B * positions; i++) {
        values[i] = i % positions < lengths[i / positions];
    }
    return mask;
}

static fixture fixture_make(const layer_case *c, tg_dtype dtype, tg_attention_path path)
{
    const int32_t lengths[B] = {T, T - 2}, memory_lengths[B] = {M, M - 3};
    fixture f = {.run = tg_run_new(123), .is_decoder = c->is_decoder};
    f.params = tg_params_new(f.run, dtype);
    f.tape = tg_tape_new(f.run, NULL);
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    config.hidden = HIDDEN;
    config.dropout = c->dropout;
    config.activation = c->gelu ? TG_ACTIVATION_GELU : TG_ACTIVATION_RELU;
    config.norm_first = c->norm_first;
    config.is_causal = c->causal;
    config.path = path;
    if (c->is_decoder) {
        f.decoder = tg_nn_transformer_decoder_layer_make(f.params, "layer", C, H, &config);
    } else {
        f.encoder = tg_nn_transformer_encoder_layer_make(f.params, "layer", C, H, &config);
    }
    assert_string_equal(tg_params_error(f.params)->text, "");
    f.x = leaf(wave(dtype, TG_SHAPE(B, T, C), 0));
    f.memory = leaf(wave(dtype, TG_SHAPE(B, M, C), 2));
    f.lengths = tensor_i32(TG_SHAPE(B), lengths);
    f.memory_lengths = tensor_i32(TG_SHAPE(B), memory_lengths);
    f.mask = mask_of(lengths, T);
    f.memory_mask = mask_of(memory_lengths, M);
    return f;
}

static void fixture_free(fixture *f)
{
    tg_release(f->x);
    tg_release(f->memory);
    tg_release(f->lengths);
    tg_release(f->memory_lengths);
    tg_release(f->mask);
    tg_release(f->memory_mask);
    tg_tape_free(f->tape);
    tg_params_free(f->params);
    tg_run_free(f->run);
}

/* Padding is given as lengths or as masks. */
static tg_tensor *forward(fixture *f, bool padded, bool masked)
{
    tg_nn_multihead_attention_forward_config encoder = tg_nn_multihead_attention_forward_config_default();
    tg_nn_transformer_decoder_layer_forward_config decoder = tg_nn_transformer_decoder_layer_forward_config_default();
    encoder.lengths = decoder.lengths = padded && !masked ? f->lengths : NULL;
    encoder.key_mask = decoder.key_mask = padded && masked ? f->mask : NULL;
    decoder.memory_lengths = padded && !masked ? f->memory_lengths : NULL;
    decoder.memory_key_mask = padded && masked ? f->memory_mask : NULL;
    return f->is_decoder ? tg_nn_transformer_decoder_layer_forward(f->tape, &f->decoder, f->x, f->memory, &decoder)
                         : tg_nn_transformer_encoder_layer_forward(f->tape, &f->encoder, f->x, &encoder);
}

/* The names and the order of torch's state_dict; in f64 the same initial values, which are copied in f32. */
static void check_parameters(const layer_case *c, fixture *f, tg_dtype dtype)
{
    assert_int_equal(tg_params_count(f->params), c->is_decoder ? 18 : 12);
    for (int64_t i = 0; i < tg_params_count(f->params); i++) {
        tg_entry entry = tg_params_at(f->params, i);
        const char *part = entry.name + strlen("layer.");
        tg_tensor *values = NULL;
        if (dtype == TG_F64) {
            assert_golden(c->name, part, entry.tensor, 0);
        } else {
            char *line = golden_line(c->name, part), *next = strchr(line, ' ');
            float *copy = tg_tensor_data_mut(entry.tensor);
            for (int64_t k = 0; k < tg_tensor_count(entry.tensor); k++) {
                copy[k] = (float)strtod(next, &next);
            }
            free(line);
        }
        if (strncmp(part, "norm", 4) == 0) {
            values = wave(dtype, tg_tensor_shape(entry.tensor), part[4] - '0');
            assert_true(tg_tensor_copy_from(entry.tensor, tg_add_scalar(f->tape, values, 2), NULL));
        }
        tg_release(values);
    }
    if (dtype == TG_F64) {
        double next;
        tg_rng_uniform_f64(tg_run_rng(f->run), &next, 1, 0, 1);
        tg_tensor *draw = tensor_f64(TG_SHAPE(1), &next);
        assert_golden(c->name, "next_draw", draw, 0);
        tg_release(draw);
    }
}

static void check(const layer_case *c, tg_dtype dtype, tg_attention_path path, bool masked)
{
    double tolerance = dtype == TG_F64 ? 1e-12 : 1e-5;
    fixture f = fixture_make(c, dtype, path);
    check_parameters(c, &f, dtype);
    tg_rng_seed(tg_run_rng(f.run), 7);
    tg_tensor *y = forward(&f, c->padded, masked);
    assert_string_equal(tg_tape_error(f.tape)->text, "");
    assert_golden(c->name, "y", y, tolerance);
    double next;
    tg_rng_uniform_f64(tg_run_rng(f.run), &next, 1, 0, 1);
    tg_tensor *draw = tensor_f64(TG_SHAPE(1), &next), *start = wave(dtype, TG_SHAPE(B, T, C), 1);
    assert_golden(c->name, "draw_after", draw, 0);
    tg_backward_config backward = tg_backward_config_default();
    backward.gradient = start;
    assert_true(tg_backward(f.tape, y, &backward));
    assert_golden(c->name, "dx", tg_tensor_grad(f.x), tolerance);
    if (c->is_decoder) {
        assert_golden(c->name, "dmemory", tg_tensor_grad(f.memory), tolerance);
    }
    for (int64_t i = 0; i < tg_params_count(f.params); i++) {
        char part[64];
        tg_entry entry = tg_params_at(f.params, i);
        snprintf(part, sizeof part, "d_%s", entry.name + strlen("layer."));
        assert_golden(c->name, part, tg_tensor_grad(entry.tensor), tolerance);
    }
    tg_release(draw);
    tg_release(start);
    fixture_free(&f);
}

static void test_numbers_of_torch(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int way = 0; way < 8; way++) {
            check(&cases[i], way & 1 ? TG_F32 : TG_F64, (tg_attention_path)(way >> 1 & 1), way >> 2);
        }
    }
}

/* In evaluation nothing is dropped: the result is that of a layer without dropout. */
static void test_evaluation(void **state)
{
    (void)state;
    for (int i = 3; i < 9; i += 5) { /* encoder_dropout and decoder_dropout */
        layer_case plain = cases[i];
        plain.dropout = 0;
        fixture f = fixture_make(&cases[i], TG_F64, TG_ATTENTION_FUSED);
        fixture g = fixture_make(&plain, TG_F64, TG_ATTENTION_FUSED);
        tg_tape_set_training(f.tape, false);
        const tg_tensor *y = forward(&f, true, false), *expected = forward(&g, true, false);
        assert_memory_equal(tg_tensor_data(y), tg_tensor_data(expected), B * T * C * sizeof(double));
        fixture_free(&f);
        fixture_free(&g);
    }
}

/* A step of a known shape allocates nothing. */
static void test_no_allocations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = fixture_make(&cases[i], TG_F32, TG_ATTENTION_FUSED);
        counting_allocator counting;
        for (int step = 0; step < 4; step++) {
            if (step == 2) {
                allocator_install(&counting);
            }
            tg_tape_reset(f.tape);
            tg_tensor *loss = tg_sum(f.tape, forward(&f, true, false), TG_ALL_AXES, TG_DROP_AXES);
            assert_true(tg_backward(f.tape, loss, NULL));
            for (int64_t k = 0; k < tg_params_count(f.params); k++) {
                tg_tensor_zero_grad(tg_params_at(f.params, k).tensor);
            }
            tg_tensor_zero_grad(f.x);
            tg_tensor_zero_grad(f.memory);
        }
        assert_int_equal(counting.calls, 0);
        allocator_restore();
        fixture_free(&f);
    }
}

/* With allocation k failing, a forward pass leaves no record, result or draw, and a retry gives the bits. */
static void test_failed_forwards(void **state)
{
    (void)state;
    for (int i = 3; i < 9; i += 5) { /* encoder_dropout and decoder_dropout */
        fixture g = fixture_make(&cases[i], TG_F32, TG_ATTENTION_FUSED);
        const tg_tensor *expected = forward(&g, true, false);
        size_t k = 1;
        for (bool failed = true; failed; k++) {
            counting_allocator counting;
            allocator_install(&counting);
            fixture f = fixture_make(&cases[i], TG_F32, TG_ATTENTION_FUSED);
            tape_stats before = tape_stats_of(f.tape);
            uint64_t position = tg_rng_position(tg_run_rng(f.run));
            allocator_arm(&counting, k, false);
            const tg_tensor *y = forward(&f, true, false);
            failed = !y;
            allocator_arm(&counting, 0, false);
            if (failed) {
                tape_stats after = tape_stats_of(f.tape);
                assert_int_equal(tg_tape_error(f.tape)->code, TG_ERROR_MEMORY);
                assert_true(after.records == before.records && after.results == before.results);
                assert_true(tg_rng_position(tg_run_rng(f.run)) == position);
                clear_tape_error(f.tape);
                y = forward(&f, true, false);
            }
            assert_memory_equal(tg_tensor_data(y), tg_tensor_data(expected), B * T * C * sizeof(float));
            fixture_free(&f);
            assert_int_equal(counting.live, 0);
            allocator_restore();
        }
        assert_true(k > 20);
        fixture_free(&g);
    }
}

static void test_refused(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(1);
    tg_params *params = tg_params_new(run, TG_F32);
    tg_nn_transformer_layer_config config = tg_nn_transformer_layer_config_default();
    const char *errors[] = {"has dropout 1, outside [0,1)",
                            "has activation 2, which does not exist; it must be 0 (relu) or 1 (gelu)",
                            "has 6 inputs and 0 outputs", "has width 6 and eps 0"};
    const tg_code codes[] = {TG_ERROR_VALUE, TG_ERROR_VALUE, TG_ERROR_SHAPE, TG_ERROR_VALUE};
    for (int i = 0; i < 4; i++) {
        config = tg_nn_transformer_layer_config_default();
        config.dropout = i == 0 ? 1 : 0;
        config.activation = i == 1 ? (tg_activation)2 : TG_ACTIVATION_RELU;
        config.hidden = i == 2 ? 0 : 8;
        config.eps = i == 3 ? 0 : 1e-5;
        assert_false(tg_nn_transformer_encoder_layer_make(params, "a", C, H, &config).module.is_made);
        assert_params_error(params, codes[i], errors[i]);
        assert_false(tg_nn_transformer_decoder_layer_make(params, "a", C, H, &config).module.is_made);
        assert_params_error(params, codes[i], errors[i]);
        assert_int_equal(tg_params_count(params), 0);
        assert_true(tg_rng_position(tg_run_rng(run)) == 0);
    }
    assert_false(tg_nn_transformer_encoder_layer_make(params, "a", C, 4, NULL).module.is_made);
    assert_params_error(params, TG_ERROR_VALUE, "'a.self_attn' has 4 heads, which do not divide width 6");
    tg_params_free(params);

    fixture f = fixture_make(&cases[5], TG_F64, TG_ATTENTION_FUSED);
    tg_tensor *flat = wave(TG_F64, TG_SHAPE(T, C), 0), *three = wave(TG_F64, TG_SHAPE(3, T, C), 0);
    tg_tensor *no = NULL;
    assert_null(tg_nn_transformer_decoder_layer_forward(f.tape, &f.decoder, f.x, no, NULL));
    assert_tape_error(f.tape, TG_ERROR_STATE, "nn_transformer_decoder_layer_forward: argument 'memory' is NULL");
    assert_null(tg_nn_transformer_decoder_layer_forward(f.tape, &f.decoder, f.x, three, NULL));
    assert_tape_error(f.tape, TG_ERROR_SHAPE, "the key has 3 sequences, and the input 2");
    assert_null(tg_nn_transformer_decoder_layer_forward(f.tape, &f.decoder, flat, f.memory, NULL));
    assert_tape_error(f.tape, TG_ERROR_SHAPE, "the input has shape (5,6); it must be (B,T,C)");
    assert_null(tg_nn_transformer_encoder_layer_forward(f.tape, &f.encoder, f.x, NULL));
    assert_tape_error(f.tape, TG_ERROR_STATE,
                      "nn_transformer_encoder_layer_forward: the module is NULL, or was not made");
    assert_int_equal(tape_stats_of(f.tape).records, 0);
    tg_release(flat);
    tg_release(three);
    fixture_free(&f);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_of_torch), cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_no_allocations),   cmocka_unit_test(test_failed_forwards),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

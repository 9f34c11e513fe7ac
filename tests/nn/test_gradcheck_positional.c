/* The gradients of attention with every kind of positions, on both paths, causal and not, with keys of an earlier
 * segment: in f64 against finite differences, with respect to queries, keys, values and each parameter of the
 * positions. */
#include <stdio.h>
#include <string.h>

#include "support.h"

#include "nn/positions/positions.h"

enum { B = 2, H = 2, T = 4, S = 7, D = 4 };

typedef struct job {
    tg_nn_positional positional;
    tg_attention_path path;
    bool is_causal;
} job;

/* Returns whether the loss does not depend on a parameter: DeBERTa's bias of the keys of distances is a summand of all
 * scores of a query, which softmax ignores. */
static bool has_no_effect(tg_entry entry)
{
    return strcmp(entry.name, "p.pos_key_proj.bias") == 0;
}

/* Replaces the parameters of the positions by gradcheck's copies, in the order in which they were added. */
static tg_nn_positional with_parameters(tg_nn_positional p, tg_tensor *const *parameters)
{
    tg_tensor **slots[] = {&p.weight,
                           &p.values,
                           &p.content_bias,
                           &p.position_bias,
                           &p.position_key.weight,
                           &p.position_query.weight,
                           &p.position_query.bias};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        if (*slots[i]) {
            *slots[i] = *parameters++;
        }
    }
    return p;
}

static tg_tensor *attend(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    const job *j = context;
    tg_nn_positional p = with_parameters(j->positional, in + 3);
    tg_tensor *queries = in[0], *keys = in[1];
    if (p.kind == TG_POSITION_ROTARY) {
        queries = tg_rotary(t, queries, S - T, &p.config.rotary);
        keys = tg_rotary(t, keys, 0, &p.config.rotary);
    }
    tg_scaled_dot_product_attention_config config = tg_scaled_dot_product_attention_config_default();
    config.is_causal = j->is_causal;
    config.dropout = 0.2;
    config.path = j->path;
    return tg_positional_attention(t, &p, queries, keys, in[2], &config);
}

static tg_tensor *add_positions(tg_tape *t, tg_tensor *const *in, int count, void *context)
{
    (void)count;
    const job *j = context;
    tg_nn_positional p = with_parameters(j->positional, in + 1);
    return tg_nn_positional_forward(t, &p, in[0], S - T);
}

static void check(job *j, bool absolute, const char *what)
{
    tg_run *run = tg_run_new(7);
    tg_params *params = tg_params_new(run, TG_F64);
    tg_nn_positional_config config = tg_nn_positional_config_default();
    config.heads = H;
    config.buckets = 8;
    config.max_distance = 6;
    config.clip = 2;
    config.position_buckets = j->is_causal ? 4 : -1;
    config.max_relative_positions = j->is_causal ? 8 : 3;
    config.rotary.pairing = j->is_causal ? TG_ROTARY_HALVES : TG_ROTARY_NEIGHBORS;
    config.rotary.position_scale = 1.5;
    config.rotary.ntk_factor = 2;
    j->positional = tg_nn_positional_make(params, "p", j->positional.kind, S, H * D, &config);
    assert_string_equal(tg_params_error(params)->text, "");
    tg_tensor *inputs[8];
    int count = 0;
    for (; count < (absolute ? 1 : 3); count++) {
        inputs[count] = absolute ? leaf(tg_tensor_new(TG_F64, TG_SHAPE(B, T, H * D), NULL))
                                 : leaf(tg_tensor_new(TG_F64, TG_SHAPE(B, H, count == 0 ? T : S, D), NULL));
        tg_tensor_fill_normal(inputs[count], tg_run_rng(run), 0, 1, NULL);
    }
    int own = count;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        if (!has_no_effect(tg_params_at(params, i))) {
            inputs[count++] = tg_params_at(params, i).tensor;
        }
    }
    tg_gradcheck_config checks = tg_gradcheck_config_default();
    checks.rng = tg_run_rng(run);
    tg_gradcheck_report report;
    bool passed = tg_gradcheck(absolute ? add_positions : attend, j, inputs, count, &checks, &report, NULL);
    if (!passed || report.max_relative_error > 1e-7) {
        fail_msg("%s, %s: %s (largest relative error %.2g)", tg_position_name(j->positional.kind), what, report.text,
                 report.max_relative_error);
    }
    if (!absolute) {
        assert_resizes_are_seen(params, attend, j, inputs, count, "");
    }
    for (int i = 0; i < own; i++) {
        tg_release(inputs[i]);
    }
    tg_params_free(params);
    tg_run_free(run);
}

static void test_through_attention(void **state)
{
    (void)state;
    for (tg_position kind = TG_POSITION_ROTARY; kind <= TG_POSITION_NONE; kind++) {
        for (int variant = 0; variant < 4; variant++) {
            job j = {.positional = {.kind = kind},
                     .path = variant % 2 ? TG_ATTENTION_FUSED : TG_ATTENTION_ELEMENTARY,
                     .is_causal = variant / 2};
            char what[64];
            snprintf(what, sizeof what, "%s, %s", variant % 2 ? "fused" : "elementary",
                     variant / 2 ? "causal" : "both directions");
            check(&j, false, what);
        }
    }
}

static void test_added(void **state)
{
    (void)state;
    job learned = {.positional = {.kind = TG_POSITION_LEARNED}},
        fixed = {.positional = {.kind = TG_POSITION_SINUSOIDAL}};
    check(&learned, true, "added");
    check(&fixed, true, "added");
}

/* No queries and no keys: nothing, and no error. */
static void test_empty_sequences(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(7);
    tg_tape *t = tg_tape_new(run, NULL);
    for (int variant = 0; variant < 4; variant++) {
        for (tg_position kind = TG_POSITION_ROTARY; kind <= TG_POSITION_NONE; kind++) {
            tg_params *params = tg_params_new(run, TG_F64);
            tg_nn_positional_config config = tg_nn_positional_config_default();
            config.heads = H;
            tg_nn_positional p = tg_nn_positional_make(params, "p", kind, S, H * D, &config);
            tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(B, H, 0, D), NULL);
            tg_scaled_dot_product_attention_config attention = tg_scaled_dot_product_attention_config_default();
            attention.path = variant % 2 ? TG_ATTENTION_FUSED : TG_ATTENTION_ELEMENTARY;
            attention.is_causal = variant / 2;
            tg_tensor *y = tg_positional_attention(t, &p, x, x, x, &attention);
            assert_string_equal(tg_tape_error(t)->text, "");
            assert_true(tg_shape_equal(tg_tensor_shape(y), TG_SHAPE(B, H, 0, D)));
            tg_tape_reset(t);
            tg_release(x);
            tg_params_free(params);
        }
    }
    tg_tape_free(t);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_through_attention),
        cmocka_unit_test(test_added),
        cmocka_unit_test(test_empty_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every op's values and gradients against torch's, in f64 and in f32. Gradient checks cannot see a wrong forward whose
 * gradient is right for it; this can. */
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 4

typedef tg_tensor *call(tg_tape *t, tg_tensor **in);

/* The calls of tests/goldens/make_ops.py. */
#define CALL(name, expression)                                \
    static tg_tensor *call_##name(tg_tape *t, tg_tensor **in) \
    {                                                         \
        return expression;                                    \
    }

CALL(add, tg_add(t, in[0], in[1]))
CALL(sub, tg_sub(t, in[0], in[1]))
CALL(mul, tg_mul(t, in[0], in[1]))
CALL(div, tg_div(t, in[0], in[1]))
CALL(pow, tg_pow(t, in[0], in[1]))
CALL(maximum, tg_maximum(t, in[0], in[1]))
CALL(minimum, tg_minimum(t, in[0], in[1]))
CALL(add_scalar, tg_add_scalar(t, in[0], 1.5))
CALL(mul_scalar, tg_mul_scalar(t, in[0], 1.5))
CALL(div_scalar, tg_div_scalar(t, in[0], 1.5))
CALL(pow_scalar, tg_pow_scalar(t, in[0], 1.5))
CALL(neg, tg_neg(t, in[0]))
CALL(exp, tg_exp(t, in[0]))
CALL(log, tg_log(t, in[0]))
CALL(sqrt, tg_sqrt(t, in[0]))
CALL(tanh, tg_tanh(t, in[0]))
CALL(sigmoid, tg_sigmoid(t, in[0]))
CALL(relu, tg_relu(t, in[0]))
CALL(gelu, tg_gelu(t, in[0]))
CALL(gelu_tanh, tg_gelu_tanh(t, in[0]))
CALL(silu, tg_silu(t, in[0]))
CALL(abs, tg_abs(t, in[0]))
CALL(clamp, tg_clamp(t, in[0], -0.5, 0.75))
CALL(where, tg_where(t, in[0], in[1], in[2]))
CALL(masked_fill, tg_masked_fill(t, in[0], in[1], -7))
CALL(tril, tg_tril(t, in[0], 1))
CALL(triu, tg_triu(t, in[0], -1))
CALL(sum, tg_sum(t, in[0], TG_AXES(0, 2), TG_DROP_AXES))
CALL(mean, tg_mean(t, in[0], TG_AXES(1), TG_KEEP_AXES))
CALL(max, tg_max(t, in[0], TG_AXES(-1), TG_DROP_AXES))
CALL(var, tg_var(t, in[0], TG_AXES(0, 2), 1, TG_DROP_AXES))
CALL(topk, tg_topk(t, in[0], 3, 1, NULL))
CALL(reshape, tg_reshape(t, in[0], TG_SHAPE(3, -1)))
CALL(transpose, tg_transpose(t, in[0], 0, 2))
CALL(permute, tg_permute(t, in[0], TG_AXES(2, 0, 1)))
CALL(slice, tg_slice(t, in[0], 1, 1, 6, 2))
CALL(select, tg_select(t, in[0], 1, -1))
CALL(expand, tg_expand(t, in[0], TG_SHAPE(4, 2, 5, -1)))
CALL(cat, tg_cat(t, in, 2, 1))
CALL(stack, tg_stack(t, in, 2, 1))
CALL(gather, tg_gather(t, in[0], 1, in[1]))
CALL(index_select, tg_index_select(t, in[0], 1, in[1]))
CALL(matmul, tg_matmul(t, in[0], in[1]))
CALL(embedding, tg_embedding_lookup(t, in[0], in[1]))
CALL(embedding_by_frequency, tg_embedding_lookup_with(t, in[0], in[1], &(tg_lookup_config){TG_NO_PADDING, true}))
#define BAG(mode, padding, offsets, weights) \
    tg_embedding_bag(t, in[0], in[1], &(tg_embedding_bag_config){mode, padding, offsets, weights})
CALL(bag_mean, BAG(TG_BAG_MEAN, TG_NO_PADDING, NULL, NULL))
CALL(bag_max, BAG(TG_BAG_MAX, TG_NO_PADDING, NULL, NULL))
CALL(bag_padded, BAG(TG_BAG_MEAN, -1, NULL, NULL))
CALL(bag_padded_max, BAG(TG_BAG_MAX, 4, NULL, NULL))
CALL(bag_weighted, BAG(TG_BAG_SUM, TG_NO_PADDING, NULL, in[2]))
CALL(bag_offsets, BAG(TG_BAG_MEAN, TG_NO_PADDING, in[2], NULL))
CALL(bag_offsets_sum, BAG(TG_BAG_SUM, TG_NO_PADDING, in[2], in[3]))
CALL(embedding_padded, tg_embedding_lookup_with(t, in[0], in[1], &(tg_lookup_config){-1, false}))
CALL(softmax, tg_softmax(t, in[0], 1))
CALL(log_softmax, tg_log_softmax(t, in[0], -1))
CALL(layer_norm, tg_layer_norm(t, in[0], in[1], in[2], 1e-5))
CALL(rms_norm, tg_rms_norm(t, in[0], in[1], 1e-5))
CALL(cross_entropy, tg_cross_entropy(t, in[0], in[1]))
CALL(cross_entropy_smooth,
     tg_cross_entropy_with(t, in[0], in[1], &(tg_cross_entropy_config){-100, 0.1, TG_REDUCTION_SUM}))
CALL(cross_entropy_none, tg_cross_entropy_with(t, in[0], in[1], &(tg_cross_entropy_config){-100, 0, TG_REDUCTION_NONE}))
CALL(nll_loss, tg_nll_loss(t, in[0], in[1], -100, TG_REDUCTION_MEAN))
CALL(mse_loss, tg_mse_loss(t, in[0], in[1], TG_REDUCTION_MEAN))
CALL(attention, tg_attention(t, in[0], in[1], in[2], NULL))
CALL(attention_elementary, tg_attention_elementary(t, in[0], in[1], in[2], NULL))
CALL(attention_cross, tg_attention(t, in[0], in[1], in[2], &(tg_attention_config){false, 0, in[3]}))

static const struct {
    const char *name;
    call *run;
} calls[] = {
#define ENTRY(name)        \
    {                      \
#name, call_##name \
    }
    ENTRY(add),
    ENTRY(sub),
    ENTRY(mul),
    ENTRY(div),
    ENTRY(pow),
    ENTRY(maximum),
    ENTRY(minimum),
    ENTRY(add_scalar),
    ENTRY(mul_scalar),
    ENTRY(div_scalar),
    ENTRY(pow_scalar),
    ENTRY(neg),
    ENTRY(exp),
    ENTRY(log),
    ENTRY(sqrt),
    ENTRY(tanh),
    ENTRY(sigmoid),
    ENTRY(relu),
    ENTRY(gelu),
    ENTRY(gelu_tanh),
    ENTRY(silu),
    ENTRY(abs),
    ENTRY(clamp),
    ENTRY(where),
    ENTRY(masked_fill),
    ENTRY(tril),
    ENTRY(triu),
    ENTRY(sum),
    ENTRY(mean),
    ENTRY(max),
    ENTRY(var),
    ENTRY(topk),
    ENTRY(reshape),
    ENTRY(transpose),
    ENTRY(permute),
    ENTRY(slice),
    ENTRY(select),
    ENTRY(expand),
    ENTRY(cat),
    ENTRY(stack),
    ENTRY(gather),
    ENTRY(index_select),
    ENTRY(matmul),
    ENTRY(embedding),
    ENTRY(embedding_by_frequency),
    ENTRY(bag_mean),
    ENTRY(bag_max),
    ENTRY(bag_padded),
    ENTRY(bag_padded_max),
    ENTRY(bag_weighted),
    ENTRY(bag_offsets),
    ENTRY(bag_offsets_sum),
    ENTRY(embedding_padded),
    ENTRY(softmax),
    ENTRY(log_softmax),
    ENTRY(layer_norm),
    ENTRY(rms_norm),
    ENTRY(cross_entropy),
    ENTRY(cross_entropy_smooth),
    ENTRY(cross_entropy_none),
    ENTRY(nll_loss),
    ENTRY(mse_loss),
    ENTRY(attention),
    ENTRY(attention_elementary),
    ENTRY(attention_cross),
};

static char line[1 << 16];

/* The next line's tensor; floats become `dtype`. */
static tg_tensor *read_tensor(FILE *goldens, tg_dtype dtype)
{
    int rank, used;
    char name[4];
    assert_non_null(fgets(line, sizeof line, goldens));
    assert_int_equal(sscanf(line, "%3s %d%n", name, &rank, &used), 2);
    char *at = line + used;
    tg_shape shape = {.rank = rank};
    for (int axis = 0; axis < rank; axis++) {
        shape.size[axis] = strtoll(at, &at, 10);
    }
    tg_tensor *values = tg_tensor_new(TG_F64, shape, NULL);
    assert_non_null(values);
    for (int64_t i = 0; i < tg_count(values); i++) {
        ((double *)tg_data_mut(values))[i] = strtod(at, &at);
    }
    tg_dtype own = strcmp(name, "i32") == 0 ? TG_I32 : strcmp(name, "u8") == 0 ? TG_U8 : dtype;
    tg_tensor *x = tg_tensor_new_cast(values, own, NULL);
    tg_release(values);
    return x;
}

static bool is_float(const tg_tensor *x)
{
    return tg_dtype_of(x) == TG_F32 || tg_dtype_of(x) == TG_F64;
}

static void assert_same(const char *name, const char *what, const tg_tensor *x, const tg_tensor *expected,
                        double tolerance)
{
    assert_non_null(x);
    if (!tg_shape_equal(tg_shape_of(x), tg_shape_of(expected))) {
        char a[TG_SHAPE_TEXT], b[TG_SHAPE_TEXT];
        fail_msg("%s: the %s has shape %s, torch's %s", name, what, tg_shape_format(tg_shape_of(x), a),
                 tg_shape_format(tg_shape_of(expected), b));
    }
    for (int64_t i = 0; i < tg_count(x); i++) {
        double difference = tg_value_at(x, i) - tg_value_at(expected, i);
        if (!(difference * difference <=
              tolerance * tolerance * (1 + tg_value_at(expected, i) * tg_value_at(expected, i)))) {
            fail_msg("%s: the %s is %.17g at %lld, torch's %.17g", name, what, tg_value_at(x, i), (long long)i,
                     tg_value_at(expected, i));
        }
    }
}

static void check_case(FILE *goldens, const char *name, int count, tg_dtype dtype)
{
    size_t k = 0;
    while (k < sizeof calls / sizeof *calls && strcmp(calls[k].name, name)) {
        k++;
    }
    if (k == sizeof calls / sizeof *calls) {
        fail_msg("no call for %s", name);
    }
    double tolerance = dtype == TG_F64 ? 1e-13 : 2e-6;
    tg_tape *t = tg_tape_new(NULL);
    assert_in_range(count, 1, MAX_INPUTS);
    tg_tensor *in[MAX_INPUTS];
    for (int i = 0; i < count; i++) {
        in[i] = read_tensor(goldens, dtype);
        if (is_float(in[i])) {
            leaf(in[i]);
        }
    }
    tg_tensor *seed = read_tensor(goldens, dtype), *expected = read_tensor(goldens, dtype);
    tg_tensor *y = calls[k].run(t, in);
    assert_string_equal(tg_tape_error(t), "");
    assert_same(name, "result", y, expected, tolerance);
    assert_true(tg_backward_seed(t, y, seed));
    tg_release(seed);
    tg_release(expected);
    for (int i = 0; i < count; i++) {
        if (is_float(in[i])) {
            tg_tensor *gradient = tg_grad_new_dense(in[i], NULL);
            expected = read_tensor(goldens, dtype);
            assert_same(name, "gradient", gradient, expected, tolerance);
            tg_release(gradient);
            tg_release(expected);
        }
        tg_release(in[i]);
    }
    tg_tape_free(t);
}

static void check_all(tg_dtype dtype)
{
    FILE *goldens = fopen(TG_TEST_GOLDENS "/ops.txt", "r");
    assert_non_null(goldens);
    int cases = 0;
    for (; fgets(line, sizeof line, goldens); cases++) {
        char name[32];
        int count;
        assert_int_equal(sscanf(line, "op %31s %d", name, &count), 2);
        check_case(goldens, name, count, dtype);
    }
    fclose(goldens);
    assert_int_equal(cases, 72);
}

static void test_f64(void **state)
{
    (void)state;
    check_all(TG_F64);
}

static void test_f32(void **state)
{
    (void)state;
    check_all(TG_F32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f64),
        cmocka_unit_test(test_f32),
    };
    return cmocka_run_group_tests_name("against torch", tests, NULL, NULL);
}

/* attention: scale, lengths, masks of keys, broadcast batches and grouped heads. Values and gradients are torch's, and
 * both paths agree where sequences end within tiles. */
#include "ops/goldens.h"

#include "ops/calls.h"
#include "support.h"

#include <math.h>

enum { NOTHING, LENGTHS, MASK, BIAS };

/* The options of make_attention.py. */
static tg_scaled_dot_product_attention_config config_of(const double *options, tg_tensor **x)
{
    tg_scaled_dot_product_attention_config config = attention_config(options[0] != 0, 0, NULL);
    config.scale = options[1];
    config.enable_gqa = options[2] != 0;
    tg_tensor **fields[] = {NULL, &config.lengths, &config.key_mask, &config.bias};
    if (options[3] != NOTHING) {
        *fields[(int)options[3]] = *x++;
    }
    config.window = (int64_t)options[4];
    config.first_keys = options[5] != 0 ? *x : NULL;
    return config;
}

static tg_tensor *call_fused(tg_tape *t, tg_tensor **x, const double *options)
{
    return attend(TG_ATTENTION_FUSED, t, x[0], x[1], x[2], config_of(options, x + 3));
}

static tg_tensor *call_elementary(tg_tape *t, tg_tensor **x, const double *options)
{
    return attend(TG_ATTENTION_ELEMENTARY, t, x[0], x[1], x[2], config_of(options, x + 3));
}

static void test_against_torch(void **state)
{
    (void)state;
    const golden_call fused = {"attention", call_fused}, elementary = {"attention", call_elementary};
    assert_int_equal(check_goldens_with_options(TG_TEST_GOLDENS "/attention.txt", &fused, 1, 1e-13, 1e-6), 37);
    assert_int_equal(check_goldens_with_options(TG_TEST_GOLDENS "/attention.txt", &elementary, 1, 1e-13, 1e-6), 37);
}

/* ---- both paths ---- */

typedef struct sizes {
    int64_t batch, heads, key_heads, queries, keys, width;
    int32_t lengths[3];
    bool causal, dropped;
    int64_t window;
    int32_t text; /* packed texts of this length, shifted by one in each sequence; 0: no first keys */
} sizes;

typedef struct run {
    tg_tensor *y, *gradients[4]; /* of queries, keys, values and bias */
} run;

static void run_free(run *r)
{
    tg_release(r->y);
    for (int i = 0; i < 4; i++) {
        tg_release(r->gradients[i]);
    }
}

/* Keys begin two after the begin of a sequence and end at its length; every seventh key is missing. The bias is shared
 * by all sequences. */
static run run_once(tg_attention_path path, const sizes *n)
{
    tg_run *shared_run = tg_run_new(5);
    tg_tape *t = tg_tape_new(shared_run, NULL);
    tg_tensor *leaves[4];
    const tg_shape shapes[] = {
        TG_SHAPE(n->batch, n->heads, n->queries, n->width), TG_SHAPE(n->batch, n->key_heads, n->keys, n->width),
        TG_SHAPE(n->batch, n->key_heads, n->keys, n->width), TG_SHAPE(n->heads, n->queries, n->keys)};
    for (int i = 0; i < 4; i++) {
        leaves[i] = leaf(tg_tensor_new(TG_F64, shapes[i], NULL));
        assert_true(tg_tensor_fill_normal(leaves[i], tg_run_rng(shared_run), 0, 1, NULL));
    }
    tg_tensor *mask = tg_tensor_new(TG_U8, TG_SHAPE(n->batch, n->keys), NULL);
    tg_tensor *dy = tg_tensor_new(TG_F64, shapes[0], NULL);
    assert_true(tg_tensor_fill_normal(dy, tg_run_rng(shared_run), 0, 1, NULL));
    uint8_t *kept = tg_tensor_data_mut(mask);
    for (int64_t i = 0; i < n->batch * n->keys; i++) {
        int64_t key = i % n->keys;
        kept[i] = key >= 2 && key < n->lengths[i / n->keys] && key % 7 != 6;
    }
    tg_scaled_dot_product_attention_config config = attention_config(n->causal, n->dropped ? 0.3 : 0, leaves[3]);
    config.key_mask = mask;
    config.window = n->window;
    if (n->text > 0) {
        config.first_keys = tg_full(t, TG_I32, TG_SHAPE(n->batch, n->queries), 0);
        int32_t *first = tg_tensor_data_mut(config.first_keys);
        for (int32_t i = 0; i < (int32_t)(n->batch * n->queries); i++) {
            int32_t shift = i / (int32_t)n->queries, row = i % (int32_t)n->queries;
            first[i] = row < shift ? 0 : (row - shift) / n->text * n->text + shift;
        }
    }
    config.enable_gqa = n->heads != n->key_heads;
    config.scale = 0.6;
    tg_tensor *y = attend(path, t, leaves[0], leaves[1], leaves[2], config);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_true(backward_from(t, y, dy));
    run r = {.y = tg_tensor_new_copy(y, NULL)};
    for (int i = 0; i < 4; i++) {
        r.gradients[i] = tg_tensor_new_dense_grad(leaves[i], NULL);
        tg_release(leaves[i]);
    }
    tg_release(mask);
    tg_release(dy);
    tg_tape_free(t);
    tg_run_free(shared_run);
    return r;
}

static void assert_near(const tg_tensor *x, const tg_tensor *expected, double tolerance)
{
    for (int64_t i = 0; i < tg_tensor_count(x); i++) {
        double want = tg_tensor_value_at(expected, i);
        assert_true(fabs(tg_tensor_value_at(x, i) - want) <= tolerance * (1 + fabs(want)));
    }
}

static const sizes cases[] = {{1, 2, 2, 1, 1, 3, {1}, false, false, 0, 0},
                              {3, 2, 2, 63, 63, 2, {63, 3, 0}, true, false, 0, 0},
                              {3, 4, 2, 65, 65, 3, {65, 64, 2}, true, true, 0, 0},
                              {2, 2, 1, 70, 200, 64, {129, 200}, true, false, 0, 0},
                              {2, 6, 3, 129, 130, 5, {60, 130}, false, true, 0, 0},
                              {3, 2, 2, 1, 300, 64, {300, 65, 64}, false, true, 0, 0},
                              {2, 2, 1, 150, 300, 3, {300, 190}, true, true, 70, 0},
                              {2, 2, 2, 200, 200, 3, {200, 180}, true, true, 0, 60},
                              {3, 4, 2, 140, 200, 2, {200, 50, 0}, true, false, 1, 9},
                              {2, 2, 2, 130, 130, 2, {130, 100}, false, true, 0, 50}};

static void test_fused_equals_elementary(void **state)
{
    (void)state;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        run fused = run_once(TG_ATTENTION_FUSED, &cases[i]), chain = run_once(TG_ATTENTION_ELEMENTARY, &cases[i]);
        assert_near(fused.y, chain.y, 1e-13);
        for (int k = 0; k < 4; k++) {
            assert_near(fused.gradients[k], chain.gradients[k], 1e-12);
        }
        run_free(&fused);
        run_free(&chain);
    }
}

/* Both paths take grouped heads of any rank, the largest included. The keys are a view, whose heads are not
 * neighbors. */
static void test_grouped_heads_of_any_rank(void **state)
{
    (void)state;
    enum { HEADS = 4, GROUPS = 2, T = 3, S = 5, D = 2, PATHS = 2 };
    for (int rank = 3; rank <= TG_MAX_RANK; rank++) {
        tg_tensor *found[PATHS][4];
        for (int way = 0; way < PATHS; way++) {
            tg_run *shared_run = tg_run_new(5);
            tg_tape *t = tg_tape_new(shared_run, NULL);
            tg_shape q = {rank, {2, 1, 3, 1, 1, 1, 1, 1}}, k = q, v = q;
            q.size[rank - 3] = HEADS, q.size[rank - 2] = T, q.size[rank - 1] = D;
            k.size[rank - 3] = S, k.size[rank - 2] = GROUPS, k.size[rank - 1] = D;
            v.size[rank - 3] = GROUPS, v.size[rank - 2] = S, v.size[rank - 1] = D;
            const tg_shape shapes[] = {q, k, v};
            tg_tensor *in[3];
            for (int i = 0; i < 3; i++) {
                in[i] = leaf(tg_tensor_new(TG_F64, shapes[i], NULL));
                assert_true(tg_tensor_fill_normal(in[i], tg_run_rng(shared_run), 0, 1, NULL));
            }
            tg_scaled_dot_product_attention_config config = attention_config(false, 0.3, NULL);
            config.enable_gqa = true;
            tg_tensor *y = attend(way == 0 ? TG_ATTENTION_FUSED : TG_ATTENTION_ELEMENTARY, t, in[0],
                                  tg_transpose(t, in[1], -3, -2), in[2], config);
            assert_string_equal(tg_tape_error(t)->text, "");
            assert_true(tg_backward(t, tg_sum(t, tg_mul(t, y, y), TG_ALL_AXES, TG_DROP_AXES), NULL));
            found[way][3] = tg_tensor_new_copy(y, NULL);
            for (int i = 0; i < 3; i++) {
                found[way][i] = tg_tensor_new_dense_grad(in[i], NULL);
                tg_release(in[i]);
            }
            tg_tape_free(t);
            tg_run_free(shared_run);
        }
        for (int i = 0; i < 4; i++) {
            assert_true(tg_shape_equal(tg_tensor_shape(found[0][i]), tg_tensor_shape(found[1][i])));
            assert_near(found[0][i], found[1][i], 1e-13);
            tg_release(found[0][i]);
            tg_release(found[1][i]);
        }
    }
}

/* The bias that masks the keys of padded rows is so large that it hides the logarithm of the sum: weights are even, and
 * the gradient of every value is dy / keys. Rows of -inf, also those of a mask without any key, give zeros, whatever
 * the values are. */
static void test_rows_that_are_masked_everywhere(void **state)
{
    (void)state;
    static const double far[] = {-1e9, -1e30, -INFINITY};
    enum { KEYS = 96 };
    for (int number = 0; number < 16; number++) {
        tg_dtype dtype = number % 2 ? TG_F64 : TG_F32;
        double bias_value = number / 4 < 3 ? far[number / 4] : 0;
        tg_tape *t = tg_tape_new(NULL, NULL);
        tg_tensor *q = leaf(tg_tensor_new_full(dtype, TG_SHAPE(1, 2, 1), 0, NULL));
        tg_tensor *k = leaf(tg_tensor_new_arange(dtype, 0, KEYS, 1, NULL)), *v = leaf(tg_tensor_new_copy(k, NULL));
        tg_tensor *bias = leaf(tg_tensor_new_full(dtype, TG_SHAPE(2, KEYS), bias_value, NULL));
        tg_tensor *mask = tg_tensor_new_full(TG_U8, TG_SHAPE(1, KEYS), 0, NULL);
        tg_scaled_dot_product_attention_config config = attention_config(false, 0, bias);
        config.key_mask = number / 4 == 3 ? mask : NULL;
        const tg_shape shape = TG_SHAPE(1, KEYS, 1);
        tg_tensor *y = attend(number / 2 % 2 ? TG_ATTENTION_FUSED : TG_ATTENTION_ELEMENTARY, t, q,
                              tg_reshape(t, k, shape), tg_reshape(t, v, shape), config);
        assert_string_equal(tg_tape_error(t)->text, "");
        assert_true(tg_backward(t, tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES), NULL));
        bool is_empty = number / 4 >= 2;
        double mean = (KEYS - 1) / 2.0, variance = (KEYS * KEYS - 1) / 12.0;
        double rows[2] = {is_empty ? 0 : mean, is_empty ? 0 : mean}, dq[2], dk[KEYS], dv[KEYS], dbias[2 * KEYS];
        for (int i = 0; i < 2; i++) {
            dq[i] = is_empty ? 0 : variance;
        }
        for (int j = 0; j < KEYS; j++) {
            dk[j] = 0; /* the queries are 0 */
            dv[j] = is_empty ? 0 : 2.0 / KEYS;
            dbias[j] = dbias[KEYS + j] = is_empty ? 0 : (j - mean) / KEYS;
        }
        assert_values(y, rows, 2, 1e-5, 0);
        assert_values(tg_tensor_grad(q), dq, 2, 1e-5, 0);
        assert_values(tg_tensor_grad(k), dk, KEYS, 0, 0);
        assert_values(tg_tensor_grad(v), dv, KEYS, 1e-5, 0);
        assert_values(tg_tensor_grad(bias), dbias, 2 * KEYS, 1e-5, 0);
        tg_tensor *leaves[] = {q, k, v, bias, mask};
        for (int i = 0; i < 5; i++) {
            tg_release(leaves[i]);
        }
        tg_tape_free(t);
    }
}

/* Values with more batches than queries and keys: all of them have the same weights, and so the same dropout, as in
 * torch, which multiplies one dropped matrix with each. A bias or a mask may separate the weights. */
static void test_dropout_with_more_batches_of_values(void **state)
{
    (void)state;
    enum { T = 3, S = 70, D = 2 };
    for (int number = 0; number < 6; number++) {
        tg_run *shared_run = tg_run_new(5);
        tg_tape *t = tg_tape_new(shared_run, NULL);
        const tg_shape shapes[] = {TG_SHAPE(2, T, D), TG_SHAPE(1, S, D), TG_SHAPE(4, 3, 2, S, D), TG_SHAPE(3, 1, T, S)};
        tg_tensor *in[4];
        for (int i = 0; i < 4; i++) {
            in[i] = leaf(tg_tensor_new(TG_F64, shapes[i], NULL));
            assert_true(tg_tensor_fill_normal(in[i], tg_run_rng(shared_run), 0, 1, NULL));
        }
        tg_tensor *mask = tg_tensor_new_full(TG_U8, TG_SHAPE(4, S), 1, NULL);
        tg_scaled_dot_product_attention_config config = attention_config(false, 0.4, number / 2 == 1 ? in[3] : NULL);
        config.key_mask = number / 2 == 2 ? mask : NULL;
        tg_rng_seed(tg_run_rng(shared_run), 3);
        tg_tensor *scores = tg_div_scalar(t, tg_matmul(t, in[0], tg_transpose(t, in[1], -2, -1)), sqrt(D));
        scores = config.bias ? tg_add(t, scores, config.bias) : scores;
        scores = config.key_mask ? tg_expand(t, scores, TG_SHAPE(4, 1, 2, T, S)) : scores;
        tg_tensor *y = tg_matmul(t, tg_dropout(t, tg_contiguous(t, tg_softmax(t, scores, -1)), 0.4), in[2]);
        uint64_t position = tg_rng_position(tg_run_rng(shared_run));
        assert_true(tg_backward(t, tg_sum(t, tg_mul(t, y, y), TG_ALL_AXES, TG_DROP_AXES), NULL));
        tg_tensor *expected[4];
        for (int i = 0; i < 4; i++) {
            expected[i] = tg_tensor_new_dense_grad(in[i], NULL);
            tg_tensor_zero_grad(in[i]);
        }
        tg_rng_seed(tg_run_rng(shared_run), 3);
        tg_tensor *found =
            attend(number % 2 ? TG_ATTENTION_FUSED : TG_ATTENTION_ELEMENTARY, t, in[0], in[1], in[2], config);
        assert_string_equal(tg_tape_error(t)->text, "");
        assert_true(tg_rng_position(tg_run_rng(shared_run)) == position);
        assert_int_equal(position, 2 * 2 * T * S * (number / 2 == 0 ? 1 : number / 2 == 1 ? 3 : 4));
        assert_true(tg_shape_equal(tg_tensor_shape(found), TG_SHAPE(4, 3, 2, T, D)));
        assert_near(found, y, 1e-13);
        assert_true(tg_backward(t, tg_sum(t, tg_mul(t, found, found), TG_ALL_AXES, TG_DROP_AXES), NULL));
        for (int i = 0; i < 4; i++) {
            tg_tensor *gradient = tg_tensor_new_dense_grad(in[i], NULL);
            assert_near(gradient, expected[i], 1e-12);
            tg_release(gradient);
            tg_release(expected[i]);
            tg_release(in[i]);
        }
        tg_release(mask);
        tg_tape_free(t);
        tg_run_free(shared_run);
    }
}

static void test_same_bits_for_any_thread_count(void **state)
{
    (void)state;
    int before = tg_threads();
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        assert_true(tg_set_threads(1, NULL));
        run one = run_once(TG_ATTENTION_FUSED, &cases[i]);
        assert_true(tg_set_threads(3, NULL));
        run many = run_once(TG_ATTENTION_FUSED, &cases[i]);
        assert_near(many.y, one.y, 0);
        for (int k = 0; k < 4; k++) {
            assert_near(many.gradients[k], one.gradients[k], 0);
        }
        run_free(&one);
        run_free(&many);
    }
    assert_true(tg_set_threads(before, NULL));
}

/* Lengths give the bits of the mask that they stand for, and keys beyond a length may hold anything, also NaN. */
static void test_lengths(void **state)
{
    (void)state;
    tg_run *shared_run = tg_run_new(3);
    tg_tape *t = tg_tape_new(shared_run, NULL);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(3, 70, 4), NULL);
    assert_true(tg_tensor_fill_normal(x, tg_run_rng(shared_run), 0, 1, NULL));
    tg_tensor *mask = tg_tensor_new(TG_U8, TG_SHAPE(3, 70), NULL), *padded = tg_tensor_new_copy(x, NULL);
    tg_tensor *every_other = tensor_i32(TG_SHAPE(6), (int32_t[]){70, -1, 0, -1, 65, -1});
    uint8_t *kept = tg_tensor_data_mut(mask);
    float *values = tg_tensor_data_mut(padded);
    for (int64_t i = 0; i < 3 * 70; i++) {
        kept[i] = i < 70 || (i >= 140 && i < 140 + 65);
        for (int64_t c = 0; c < 4 && !kept[i]; c++) {
            values[4 * i + c] = NAN;
        }
    }
    tg_scaled_dot_product_attention_config masked = attention_config(true, 0, NULL), given = masked;
    masked.key_mask = mask;
    given.lengths = tg_slice(t, every_other, 0, 0, 6, 2);
    tg_tensor *expected = tg_scaled_dot_product_attention(t, x, x, x, &masked);
    tg_tensor *y = tg_scaled_dot_product_attention(t, x, padded, padded, &given);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_memory_equal(tg_tensor_data(y), tg_tensor_data(expected), (size_t)tg_tensor_count(x) * sizeof(float));
    for (int64_t i = 0; i < 70 * 4; i++) {
        assert_true(tg_tensor_value_at(y, 70 * 4 + i) == 0); /* the second sequence has no keys */
    }
    tg_release(x);
    tg_release(padded);
    tg_release(mask);
    tg_release(every_other);
    tg_tape_free(t);
    tg_run_free(shared_run);
}

/* First keys are an input of the fused op: a change before backward is found. A window of all keys changes no bit. */
static void test_first_keys_are_an_input(void **state)
{
    (void)state;
    tg_run *shared_run = tg_run_new(3);
    tg_tape *t = tg_tape_new(shared_run, NULL);
    tg_tensor *x = leaf(tg_tensor_new(TG_F32, TG_SHAPE(2, 70, 4), NULL));
    assert_true(tg_tensor_fill_normal(x, tg_run_rng(shared_run), 0, 1, NULL));
    tg_tensor *first = tg_tensor_new_full(TG_I32, TG_SHAPE(2, 70), 0, NULL);
    tg_scaled_dot_product_attention_config config = attention_config(true, 0, NULL);
    tg_tensor *expected = tg_scaled_dot_product_attention(t, x, x, x, &config);
    config.window = 70;
    config.first_keys = first;
    tg_tensor *y = tg_scaled_dot_product_attention(t, x, x, x, &config);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_memory_equal(tg_tensor_data(y), tg_tensor_data(expected), 2 * 70 * 4 * sizeof(float));
    tg_tensor *loss = tg_sum(t, y, TG_ALL_AXES, TG_DROP_AXES);
    ((int32_t *)tg_tensor_data_mut(first))[0] = 1;
    assert_false(tg_backward(t, loss, NULL));
    assert_tape_error(t, TG_ERROR_STATE, "scaled_dot_product_attention");
    tg_release(x);
    tg_release(first);
    tg_tape_free(t);
    tg_run_free(shared_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_torch),
        cmocka_unit_test(test_fused_equals_elementary),
        cmocka_unit_test(test_grouped_heads_of_any_rank),
        cmocka_unit_test(test_rows_that_are_masked_everywhere),
        cmocka_unit_test(test_dropout_with_more_batches_of_values),
        cmocka_unit_test(test_same_bits_for_any_thread_count),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_first_keys_are_an_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

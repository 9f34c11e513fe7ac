/* attention: the fused op and the chain of elementary ops give the same numbers, gradients and draws. */
#include "ops/calls.h"
#include "support.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const tg_attention_path both[] = {TG_ATTENTION_FUSED, TG_ATTENTION_ELEMENTARY};

typedef struct sizes {
    int64_t batch, heads, queries, keys, width;
    bool causal, bias; /* a bias of (H,T,S) */
} sizes;

typedef struct run {
    tg_tensor *y, *gradients[4]; /* of queries, keys, values and bias */
    uint64_t position;
} run;

static void run_free(run *r)
{
    tg_release(r->y);
    for (int i = 0; i < 4; i++) {
        tg_release(r->gradients[i]);
    }
}

/* Inputs (B,T,H,D), viewed as (B,H,T,D); the loss is the product of y with a fixed random direction. */
static run run_once(tg_attention_path path, const sizes *n, tg_dtype dtype, double p)
{
    tg_run *shared_run = tg_run_new(5);
    tg_tape *t = tg_tape_new(shared_run, NULL);
    tg_tensor *leaves[4], *views[3];
    for (int i = 0; i < 3; i++) {
        int64_t length = i == 0 ? n->queries : n->keys;
        leaves[i] = tg_tensor_new(dtype, TG_SHAPE(n->batch, length, n->heads, n->width), NULL);
        tg_tensor_fill_normal(leaves[i], tg_run_rng(shared_run), 0, 1, NULL);
        views[i] = tg_transpose(t, leaf(leaves[i]), 1, 2);
    }
    leaves[3] = tg_tensor_new(dtype, TG_SHAPE(n->heads, n->queries, n->keys), NULL);
    tg_tensor_fill_normal(leaves[3], tg_run_rng(shared_run), 0, 1, NULL);
    tg_tensor *direction = tg_tensor_new(dtype, TG_SHAPE(n->batch, n->heads, n->queries, n->width), NULL);
    tg_tensor_fill_normal(direction, tg_run_rng(shared_run), 0, 1, NULL);
    tg_rng_seed(tg_run_rng(shared_run), 11);
    tg_tensor *bias = n->bias ? leaf(leaves[3]) : NULL;
    tg_tensor *y = attend(path, t, views[0], views[1], views[2], attention_config(n->causal, p, bias));
    assert_string_equal(tg_tape_error(t)->text, "");
    run r = {.position = tg_rng_position(tg_run_rng(shared_run))};
    assert_true(backward_from(t, y, direction));
    r.y = tg_tensor_new_copy(y, NULL);
    for (int i = 0; i < 4; i++) {
        r.gradients[i] = i < 3 || n->bias ? tg_tensor_new_dense_grad(leaves[i], NULL) : NULL;
        tg_release(leaves[i]);
    }
    tg_release(direction);
    tg_tape_free(t);
    tg_run_free(shared_run);
    return r;
}

/* The largest difference in parts of the largest value (of 1 at least: gradients of one key alone are zero). */
static double distance(const tg_tensor *a, const tg_tensor *b)
{
    double largest = 1, worst = 0;
    assert_true(tg_shape_equal(tg_tensor_shape(a), tg_tensor_shape(b)));
    for (int64_t i = 0; i < tg_tensor_count(a); i++) {
        largest = fmax(largest, fabs(tg_tensor_value_at(b, i)));
        worst = fmax(worst, fabs(tg_tensor_value_at(a, i) - tg_tensor_value_at(b, i)));
    }
    return worst / largest;
}

static void compare(const sizes *n, tg_dtype dtype, double p)
{
    double allowed = dtype == TG_F64 ? 1e-13 : 3e-6;
    run fused = run_once(TG_ATTENTION_FUSED, n, dtype, p), steps = run_once(TG_ATTENTION_ELEMENTARY, n, dtype, p);
    assert_true(fused.position == steps.position);
    assert_int_equal(fused.position, p > 0 ? 2 * n->batch * n->heads * n->queries * n->keys : 0);
    for (int i = -1; i < (n->bias ? 4 : 3); i++) {
        double found = i < 0 ? distance(fused.y, steps.y) : distance(fused.gradients[i], steps.gradients[i]);
        if (!(found < allowed)) {
            fail_msg("T %d, S %d, D %d, p %g, %s: %s differs by %g", (int)n->queries, (int)n->keys, (int)n->width, p,
                     tg_dtype_name(dtype),
                     i < 0    ? "y"
                     : i == 0 ? "dq"
                     : i == 1 ? "dk"
                              : "dv",
                     found);
        }
    }
    run_free(&fused);
    run_free(&steps);
}

static void test_fused_equals_elementary(void **state)
{
    (void)state;
    const int64_t lengths[] = {1, 2, 63, 64, 65, 127, 128, 129, 255}, widths[] = {1, 3, 64, 130};
    for (int l = 0; l < 9; l++) {
        for (int w = 0; w < 4; w++) {
            sizes n = {1 + l % 2, 1 + w, lengths[l], lengths[l], widths[w], l % 3 != 0, (l + w) % 2};
            compare(&n, TG_F64, 0);
            compare(&n, TG_F64, 0.3);
            compare(&n, TG_F32, l % 2 ? 0.3 : 0);
        }
    }
}

/* Queries at the end of a longer row of keys, as with a cache. */
static void test_more_keys_than_queries(void **state)
{
    (void)state;
    const sizes cases[] = {{1, 2, 1, 7, 4, true, false},      {2, 1, 3, 130, 5, true, true},
                           {1, 2, 129, 131, 8, true, true},   {2, 2, 9, 4, 3, false, true},
                           {1, 1, 1, 5000, 64, true, false}, /* a tile of one row is wider */
                           {1, 2, 70, 90, 320, true, true},  /* the products of a tile are cut */
                           {2, 1, 65, 65, 700, false, false}, {1, 1, 3, 20, 70000, true, false}};
    for (int i = 0; i < 8; i++) {
        compare(&cases[i], TG_F64, 0);
        compare(&cases[i], TG_F64, 0.3);
    }
}

/* The past does not see the future: changing the last key and value changes the last row alone; all rows by default. */
static void test_is_causal(void **state)
{
    (void)state;
    tg_run *shared_run = tg_run_new(3);
    tg_tape *t = tg_tape_new(shared_run, NULL);
    tg_tensor *x = tg_tensor_new(TG_F64, TG_SHAPE(130, 4), NULL);
    tg_tensor_fill_normal(x, tg_run_rng(shared_run), 0, 1, NULL);
    const tg_scaled_dot_product_attention_config causal = attention_config(true, 0, NULL);
    tg_tensor *before = tg_scaled_dot_product_attention(t, x, x, x, &causal), *changed = tg_tensor_new_copy(x, NULL);
    ((double *)tg_tensor_data_mut(changed))[129 * 4] += 1;
    tg_tensor *after = tg_scaled_dot_product_attention(t, x, changed, changed, &causal);
    assert_memory_equal(tg_tensor_data(before), tg_tensor_data(after), 129 * 4 * sizeof(double));
    assert_memory_not_equal((const double *)tg_tensor_data(before) + 516, (const double *)tg_tensor_data(after) + 516,
                            32);
    tg_tensor *all_before = tg_scaled_dot_product_attention(t, x, x, x, NULL);
    tg_tensor *all_after = tg_scaled_dot_product_attention(t, x, changed, changed, NULL);
    for (int64_t row = 0; row < 130; row++) {
        assert_memory_not_equal((const double *)tg_tensor_data(all_before) + 4 * row,
                                (const double *)tg_tensor_data(all_after) + 4 * row, 32);
    }
    tg_release(changed);
    tg_release(x);
    tg_tape_free(t);
    tg_run_free(shared_run);
}

static void assert_same_bits(const tg_tensor *a, const tg_tensor *b)
{
    assert_true(tg_shape_equal(tg_tensor_shape(a), tg_tensor_shape(b)));
    assert_memory_equal(tg_tensor_data(a), tg_tensor_data(b),
                        (size_t)tg_tensor_count(a) * tg_dtype_size(tg_tensor_dtype(a)));
}

/* Asserts that 1 and more threads compute the same bits. */
static void assert_threads_change_no_bit(tg_attention_path path, const sizes *n, tg_dtype dtype, double p)
{
    int before = tg_threads();
    assert_true(tg_set_threads(1, NULL));
    run one = run_once(path, n, dtype, p);
    for (int threads = 2; threads <= 5; threads++) {
        assert_true(tg_set_threads(threads, NULL));
        run many = run_once(path, n, dtype, p);
        assert_true(many.position == one.position);
        assert_same_bits(many.y, one.y);
        for (int k = 0; k < (n->bias ? 4 : 3); k++) {
            assert_same_bits(many.gradients[k], one.gradients[k]);
        }
        run_free(&many);
    }
    run_free(&one);
    assert_true(tg_set_threads(before, NULL));
}

/* Rows are divided among the threads: not a bit may depend on where. Products of this size are one thread's in any case
 * (OpenBLAS divides those of more than some 250,000 multiplications). */
static void test_same_bits_for_any_thread_count(void **state)
{
    (void)state;
    const sizes n = {2, 2, 255, 255, 3, true, true};
    for (int i = 0; i < 4; i++) {
        assert_threads_change_no_bit(both[i % 2], &n, i < 2 ? TG_F32 : TG_F64, 0.3);
    }
}

/* The same for heads so wide that the fused op cuts the products of a tile (tests/meson.build runs it with the kernels
 * of Haswell, too, which divide larger products among threads). */
static void test_same_bits_for_wide_heads(void **state)
{
    (void)state;
    const int64_t widths[] = {256, 257, 320, 700};
    for (int i = 0; i < 16; i++) {
        const sizes n = {1, 2, 130, 130, widths[i / 4], i % 2, i % 2};
        assert_threads_change_no_bit(TG_ATTENTION_FUSED, &n, i % 4 < 2 ? TG_F32 : TG_F64, 0);
    }
}

/* A bias of -inf takes keys away: as if they did not exist, in values and in gradients, along both paths. */
static void test_keys_taken_away(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(8);
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *leaves[3], *fewer[3]; /* keys and values 0, 3 and 4 of 5 */
    const int64_t kept[] = {0, 3, 4};
    tg_tensor *bias = tg_tensor_new(TG_F64, TG_SHAPE(4, 5), NULL), *ids = tensor_i32(TG_SHAPE(3), (int32_t[]){0, 3, 4});
    for (int64_t i = 0; i < 20; i++) {
        ((double *)tg_tensor_data_mut(bias))[i] = i % 5 == 1 || i % 5 == 2 ? -INFINITY : 0;
    }
    for (int i = 0; i < 3; i++) {
        leaves[i] = leaf(tg_tensor_new(TG_F64, TG_SHAPE(i == 0 ? 4 : 5, 3), NULL));
        tg_tensor_fill_normal(leaves[i], rng, 0, 1, NULL);
        tg_tensor *rows = i == 0 ? leaves[0] : tg_index_select(t, leaves[i], 0, ids);
        fewer[i] = leaf(tg_tensor_new_copy(rows, NULL));
    }
    for (int i = 0; i < 2; i++) {
        tg_tensor *y = attend(both[i], t, leaves[0], leaves[1], leaves[2], attention_config(false, 0, bias));
        tg_tensor *expected =
            attend(TG_ATTENTION_ELEMENTARY, t, fewer[0], fewer[1], fewer[2], attention_config(false, 0, NULL));
        assert_string_equal(tg_tape_error(t)->text, "");
        assert_values(y, tg_tensor_data(expected), 12, 0, 1e-15);
        assert_true(tg_backward(t, tg_sum(t, tg_mul(t, y, y), TG_ALL_AXES, TG_DROP_AXES), NULL));
        assert_true(tg_backward(t, tg_sum(t, tg_mul(t, expected, expected), TG_ALL_AXES, TG_DROP_AXES), NULL));
        for (int k = 0; k < 3; k++) {
            tg_tensor *gradient = tg_tensor_new_dense_grad(leaves[k], NULL),
                      *few = tg_tensor_new_dense_grad(fewer[k], NULL);
            const double *wanted = tg_tensor_data(few), *found = tg_tensor_data(gradient);
            for (int64_t row = 0, next = 0; row < (k == 0 ? 4 : 5); row++) {
                bool there = k == 0 || (next < 3 && row == kept[next]);
                for (int64_t c = 0; c < 3; c++) {
                    double want = there ? wanted[next * 3 + c] : 0;
                    assert_true(fabs(found[row * 3 + c] - want) < 1e-14);
                }
                next += there;
            }
            tg_release(gradient);
            tg_release(few);
            tg_tensor_zero_grad(leaves[k]);
            tg_tensor_zero_grad(fewer[k]);
        }
        tg_tape_reset(t);
    }
    for (int i = 0; i < 3; i++) {
        tg_release(leaves[i]);
        tg_release(fewer[i]);
    }
    tg_release(bias);
    tg_release(ids);
    tg_tape_free(t);
    tg_rng_free(rng);
}

static tg_tensor *checked_call(tg_tape *t, tg_tensor *const *inputs, int count, void *context)
{
    (void)count;
    const tg_scaled_dot_product_attention_config config = attention_config(true, *(double *)context, NULL);
    return tg_scaled_dot_product_attention(t, inputs[0], inputs[1], inputs[2], &config);
}

static void test_gradients(void **state)
{
    (void)state;
    const int64_t lengths[] = {1, 2, 3, 63, 65, 255}, widths[] = {3, 1, 2, 3, 2, 1};
    for (int l = 0; l < 6; l++) {
        for (int dropped = 0; dropped < 2; dropped++) {
            double p = dropped ? 0.2 : 0;
            tg_rng *rng = tg_rng_new(9);
            tg_tensor *inputs[3];
            for (int i = 0; i < 3; i++) {
                inputs[i] = tg_tensor_new(TG_F64, TG_SHAPE(2, lengths[l], widths[l]), NULL);
                tg_tensor_fill_normal(inputs[i], rng, 0, 1, NULL);
                leaf(inputs[i]);
            }
            tg_gradcheck_config config = tg_gradcheck_config_default();
            config.mode = lengths[l] > 3 ? TG_GRADCHECK_FAST : TG_GRADCHECK_SLOW;
            config.rng = rng;
            tg_gradcheck_report report;
            if (!tg_gradcheck(checked_call, &p, inputs, 3, &config, &report, NULL) ||
                report.max_relative_error > 1e-6) {
                fail_msg("T %d, p %g: %s", (int)lengths[l], p, report.text);
            }
            for (int i = 0; i < 3; i++) {
                tg_release(inputs[i]);
            }
            tg_rng_free(rng);
        }
    }
}

static void put(tg_tensor *x, int64_t i, double value)
{
    void *values = tg_tensor_data_mut(x);
    if (tg_tensor_dtype(x) == TG_F32) {
        ((float *)values)[i] = (float)value;
    } else {
        ((double *)values)[i] = value;
    }
}

/* What stands in padding: 0, and what is not finite. In a visible key and in the values it counts. */
static void attend_padding(tg_attention_path path, tg_dtype dtype, int shared, double padding, bool visible, run *r)
{
    enum { B = 2, H = 2, T = 3, S = 5, D = 4 };
    static const int32_t lengths[B] = {3, 5};
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *leaves[3];
    for (int i = 0; i < 3; i++) {
        tg_shape of_keys = shared ? TG_SHAPE(S, D) : TG_SHAPE(B, H, S, D);
        leaves[i] = leaf(tg_tensor_new(dtype, i == 0 ? TG_SHAPE(B, H, T, D) : of_keys, NULL));
        for (int64_t j = 0; j < tg_tensor_count(leaves[i]); j++) {
            bool is_padding = i > 0 && j / D % S == (visible ? 1 : 4) && (shared || visible || j < H * S * D);
            double value = is_padding && j % 3 == 0 ? padding : sin(3. * (double)j + i);
            put(leaves[i], j, value);
        }
    }
    tg_scaled_dot_product_attention_config config = attention_config(false, 0, NULL);
    config.path = path;
    config.lengths = tg_constant_i32(t, TG_SHAPE(B), lengths);
    tg_tensor *y = tg_scaled_dot_product_attention(t, leaves[0], leaves[1], leaves[2], &config);
    assert_string_equal(tg_tape_error(t)->text, "");
    assert_true(tg_backward(t, tg_sum(t, tg_mul(t, y, y), TG_ALL_AXES, TG_DROP_AXES), NULL));
    r->y = tg_tensor_new_copy(y, NULL);
    for (int i = 0; i < 3; i++) {
        r->gradients[i] = tg_tensor_new_dense_grad(leaves[i], NULL);
        tg_release(leaves[i]);
    }
    tg_tape_free(t);
}

static void test_padding_does_not_count(void **state)
{
    (void)state;
    const double paddings[] = {NAN, INFINITY, -INFINITY, 1e30};
    for (int i = 0; i < 2 * 2 * 4; i++) {
        tg_attention_path path = both[i & 1];
        tg_dtype dtype = i & 2 ? TG_F64 : TG_F32;
        run zeros = {0}, r = {0}, seen = {0};
        attend_padding(path, dtype, false, 0, false, &zeros);
        attend_padding(path, dtype, false, paddings[i / 4], false, &r);
        assert_same_bits(r.y, zeros.y);
        for (int k = 0; k < 3; k++) {
            assert_same_bits(r.gradients[k], zeros.gradients[k]);
        }
        if (isnan(paddings[i / 4])) {
            attend_padding(path, dtype, false, NAN, true, &seen);
            assert_true(isnan(tg_tensor_value_at(seen.y, 0)));
            run_free(&seen);
        }
        run_free(&r);
        attend_padding(path, dtype, true, paddings[i / 4], false, &r); /* the other sequence sees it */
        assert_true(isfinite(tg_tensor_value_at(r.y, 0)));
        assert_true(isfinite(tg_tensor_value_at(r.y, tg_tensor_count(r.y) - 2)) == isfinite(paddings[i / 4]));
        run_free(&r);
        run_free(&zeros);
    }
}

static void test_errors(void **state)
{
    (void)state;
    tg_run *shared_run = tg_run_new(3);
    tg_tape *t = tg_tape_new(shared_run, NULL), *silent = tg_tape_new(NULL, NULL);
    tg_tensor *x = tg_tensor_new(TG_F32, TG_SHAPE(2, 3, 4), NULL), *y = tg_tensor_new(TG_F32, TG_SHAPE(2, 2, 4), NULL);
    tg_tensor *wide = tg_tensor_new(TG_F64, TG_SHAPE(2, 3, 4), NULL), *flat = tg_tensor_new(TG_F32, TG_SHAPE(4), NULL);
    const tg_scaled_dot_product_attention_config causal = attention_config(true, 0, NULL);
    const tg_scaled_dot_product_attention_config half = attention_config(true, 0.5, NULL);
#define FUSED(q, k, v, config) assert_null(attend(TG_ATTENTION_FUSED, t, q, k, v, config))
#define ELEMENTARY(q, k, v, config) assert_null(attend(TG_ATTENTION_ELEMENTARY, t, q, k, v, config))
#define SDPA "scaled_dot_product_attention"
    FUSED(x, x, x, attention_config(true, 0, y));
    assert_tape_error(t, TG_ERROR_SHAPE,
                      SDPA ": the bias is (2,2,4); for queries (2,3,4) and keys (2,3,4) it must be (..,T,S)");
    FUSED(x, y, y, causal);
    assert_tape_error(t, TG_ERROR_SHAPE,
                      SDPA ": queries (2,3,4), keys (2,2,4) and values (2,2,4); they must be (..,T,D), (..,S,D) and "
                           "(..,S,D) with S >= T");
    FUSED(x, x, y, causal);
    assert_tape_error(t, TG_ERROR_SHAPE, "values (2,2,4)");
    FUSED(flat, flat, flat, causal);
    assert_tape_error(t, TG_ERROR_SHAPE, "queries (4,), keys");
    FUSED(x, x, wide, causal);
    assert_tape_error(t, TG_ERROR_DTYPE, "tg_cast");
    FUSED(x, NULL, x, causal);
    assert_tape_error(t, TG_ERROR_STATE, SDPA ": argument 'keys' is NULL");
    FUSED(x, x, x, attention_config(true, 1, NULL));
    assert_tape_error(t, TG_ERROR_VALUE, SDPA ": dropout 1 is outside [0,1)");
    FUSED(x, x, x, attention_config(true, (double)NAN, NULL));
    assert_tape_error(t, TG_ERROR_VALUE, SDPA ": dropout nan");
    ELEMENTARY(x, x, x, attention_config(true, -0.5, NULL));
    assert_tape_error(t, TG_ERROR_VALUE, SDPA ": dropout -0.5 is outside [0,1)");
    ELEMENTARY(x, y, y, causal);
    assert_tape_error(t, TG_ERROR_SHAPE, SDPA ": queries (2,3,4), keys (2,2,4) and");
    ELEMENTARY(x, NULL, x, causal);
    assert_tape_error(t, TG_ERROR_STATE, SDPA ": argument 'keys' is NULL");
    ELEMENTARY(x, flat, flat, causal);
    assert_tape_error(t, TG_ERROR_SHAPE, SDPA ": queries (2,3,4), keys (4,) and values (4,)");
    /* nothing is drawn for these */
    ELEMENTARY(x, x, y, half);
    assert_tape_error(t, TG_ERROR_SHAPE, SDPA ": queries (2,3,4), keys (2,3,4) and values (2,2,4)");
    ELEMENTARY(x, x, NULL, half);
    assert_tape_error(t, TG_ERROR_STATE, SDPA ": argument 'values' is NULL");
    ELEMENTARY(x, x, wide, half);
    assert_tape_error(t, TG_ERROR_DTYPE, SDPA ": argument 'values' is f64");
    assert_null(tg_scaled_dot_product_attention(silent, x, x, x, &half));
    assert_tape_error(silent, TG_ERROR_STATE, SDPA ": dropout needs a generator");
    tg_tape_set_training(silent, false);
    assert_non_null(tg_scaled_dot_product_attention(silent, x, x, x, &half));
    assert_true(tg_rng_position(tg_run_rng(shared_run)) == 0);
    tg_release(x);
    tg_release(y);
    tg_release(wide);
    tg_release(flat);
    tg_tape_free(t);
    tg_tape_free(silent);
    tg_run_free(shared_run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fused_equals_elementary),
        cmocka_unit_test(test_more_keys_than_queries),
        cmocka_unit_test(test_is_causal),
        cmocka_unit_test(test_same_bits_for_any_thread_count),
        cmocka_unit_test(test_same_bits_for_wide_heads),
        cmocka_unit_test(test_keys_taken_away),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_padding_does_not_count),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

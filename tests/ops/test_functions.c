/* Functions of floats at every binade and at special values: each level of the processor gives the same bits, results
 * and gradients, and those of f32 are near those of f64. tests/math tests the error bounds of the functions. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/level.h"
#include "support.h"
#include "tensor/tensor.h"

enum { COUNT = 4 * 512 + 37 }; /* whole chunks and a part of one, whole vectors and a part of one */

typedef tg_tensor *function(tg_tape *t, tg_tensor *a, tg_tensor *b);

static tg_tensor *elu(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    (void)b;
    return tg_elu(t, a, 0.75);
}

static tg_tensor *softplus(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    (void)b;
    return tg_softplus(t, a, 2, 20);
}

static tg_tensor *log_sigmoid(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    (void)b;
    return tg_log_sigmoid(t, a);
}

static tg_tensor *sin_of(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    (void)b;
    return tg_sin(t, a);
}

static tg_tensor *cos_of(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    (void)b;
    return tg_cos(t, a);
}

/* The powers that are computed in ways of their own, and two others. */
static tg_tensor *powers(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    static const double exponents[] = {0, 0.5, -0.5, 1, -1, 2, 3, -3, 1.75};
    tg_tensor *parts[sizeof exponents / sizeof *exponents];
    (void)b;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        parts[i] = tg_pow_scalar(t, a, exponents[i]);
    }
    return tg_cat(t, parts, sizeof parts / sizeof *parts, 0);
}

static tg_tensor *binary_cross_entropy(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    tg_binary_cross_entropy_with_logits_config config = tg_binary_cross_entropy_with_logits_config_default();
    config.reduction = TG_REDUCTION_NONE;
    return tg_binary_cross_entropy_with_logits(t, a, b, &config);
}

static const struct {
    const char *name;
    function *call;
} functions[] = {
    {"elu", elu},
    {"softplus", softplus},
    {"log_sigmoid", log_sigmoid},
    {"sin", sin_of},
    {"cos", cos_of},
    {"powers", powers},
    {"pow", tg_pow},
    {"remainder", tg_remainder},
    {"binary_cross_entropy", binary_cross_entropy},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state;
}

/* Returns a leaf with special values, floats of all exponents and both signs, and numbers between -8 and 8. */
static tg_tensor *values_of(uint32_t seed, tg_dtype dtype)
{
    static const float special[] = {
        0,      -0.0F,   1,        -1,      0.5F,   2,       -3,      INFINITY,       -INFINITY,
        NAN,    FLT_MAX, -FLT_MAX, FLT_MIN, 1e-45F, -1e-45F, 0x1p20F, 0x1.000002p20F, 88.8F,
        -88.8F, -87.3F,  -18.1F,   103.9F,  3e6F,   -1e30F,  0.35F};
    enum { SPECIAL = sizeof special / sizeof *special };
    tg_tensor *x = leaf(tg_tensor_new(dtype, TG_SHAPE(COUNT), NULL));
    for (int i = 0; i < COUNT; i++) {
        uint32_t word = next_random(&seed);
        word = next_random(&seed) >> 16 | (word & 0xffff0000U);
        float value;
        memcpy(&value, &word, sizeof value);
        value = i % 3 == 0 ? value : i % 3 == 1 ? (float)(int32_t)word * 0x1p-28F : special[word % SPECIAL];
        tg_put(x, i, (double)value);
    }
    return x;
}

/* A result and the gradients of both inputs; NULL for an input without one. */
typedef struct outcome {
    tg_tensor *values[3];
} outcome;

static outcome compute(function *call, tg_dtype dtype, int level)
{
    tg_error error = TG_NO_ERROR;
    if (!tg_set_cpu_level((tg_cpu_level)level, &error)) {
        fail_msg("%s", error.text);
    }
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *a = values_of(1, dtype), *b = values_of(2, dtype), *y = call(t, a, b);
    if (!y) {
        fail_msg("%s", tg_tape_error(t)->text);
    }
    tg_tensor *dy = tg_tensor_new_full(dtype, tg_tensor_shape(y), 0.75, NULL);
    tg_backward_config config = tg_backward_config_default();
    config.gradient = dy;
    assert_true(tg_backward(t, y, &config));
    outcome out = {{tg_tensor_new_copy(y, NULL), tg_tensor_new_dense_grad(a, NULL), NULL}};
    out.values[2] = tg_tensor_grad(b) ? tg_tensor_new_dense_grad(b, NULL) : NULL;
    tg_release(dy);
    tg_tape_free(t);
    tg_release(a);
    tg_release(b);
    return out;
}

static void release(outcome *out)
{
    for (int v = 0; v < 3; v++) {
        tg_release(out->values[v]);
    }
}

/* The bits are those of the lowest level; a NaN may be any. */
static void test_levels_agree(void **state)
{
    (void)state;
    int first = (int)tg_get_cpu_level();
    for (int k = 0; k < FUNCTIONS * 2; k++) {
        tg_dtype dtype = k % 2 ? TG_F64 : TG_F32;
        outcome base = compute(functions[k / 2].call, dtype, 0);
        for (int level = 1; level <= tg_level_highest(); level++) {
            outcome other = compute(functions[k / 2].call, dtype, level);
            for (int v = 0; v < 3; v++) {
                for (int64_t i = 0; base.values[v] && i < tg_tensor_count(base.values[v]); i++) {
                    double x = tg_tensor_value_at(base.values[v], i), y = tg_tensor_value_at(other.values[v], i);
                    if (isnan(x) ? !isnan(y) : x != y || !signbit(x) != !signbit(y)) {
                        fail_msg("%s: value %d of %s is %a at level 0, and %a at level %d", functions[k / 2].name,
                                 (int)i, v ? "a gradient" : "the result", x, y, level);
                    }
                }
            }
            release(&other);
        }
        release(&base);
    }
    assert_true(tg_set_cpu_level((tg_cpu_level)first, NULL));
}

/* Results of floats are near those of doubles, where these are normal floats. The sum of a cross-entropy may cancel. */
static void test_floats_agree_with_doubles(void **state)
{
    (void)state;
    int first = (int)tg_get_cpu_level();
    for (int k = 0; functions[k].call != binary_cross_entropy; k++) {
        outcome d = compute(functions[k].call, TG_F64, first);
        for (int level = 0; level <= tg_level_highest(); level++) {
            outcome f = compute(functions[k].call, TG_F32, level);
            for (int64_t i = 0; i < tg_tensor_count(f.values[0]); i++) {
                double x = tg_tensor_value_at(f.values[0], i), y = tg_tensor_value_at(d.values[0], i);
                bool is_normal = fabs(y) <= (double)FLT_MAX && fabs(y) >= (double)FLT_MIN;
                if (!isnan(x) != !isnan(y) || (is_normal && !(fabs(x - y) <= 3e-7 * fabs(y)))) {
                    fail_msg("%s: value %d is %.9g, and %.9g in double", functions[k].name, (int)i, x, y);
                }
            }
            release(&f);
        }
        release(&d);
    }
    assert_true(tg_set_cpu_level((tg_cpu_level)first, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_agree),
        cmocka_unit_test(test_floats_agree_with_doubles),
    };
    return cmocka_run_group_tests_name("functions", tests, NULL, NULL);
}

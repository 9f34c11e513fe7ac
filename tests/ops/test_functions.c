/* Functions of floats at every binade and at special values: each level of the processor gives the same bits, results
 * and gradients, and those of f32 are near those of f64. tests/math tests the error bounds of the functions. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/level.h"
#include "rows/rows.h"
#include "support.h"
#include "tensor/tensor.h"

enum { COUNT = 4 * 512 + 37 }; /* whole chunks and a part of one, whole vectors and a part of one */

static tg_tensor *binary_cross_entropy(tg_tape *t, tg_tensor *a, tg_tensor *b)
{
    tg_binary_cross_entropy_with_logits_config config = tg_binary_cross_entropy_with_logits_config_default();
    config.reduction = TG_REDUCTION_NONE;
    return tg_binary_cross_entropy_with_logits(t, a, b, &config);
}

static const test_row loss = {.op = "tg_binary_cross_entropy_with_logits", .of_two = binary_cross_entropy};

/* A call of a function with one list of its options. */
typedef struct subject {
    const test_row *row;
    const char *options;
    double number[FORMULA_NUMBERS];
} subject;

/* Runs a check for the functions of tests/rows with all their options, and for the loss. */
static void each_function(void (*check)(const subject *s))
{
    int first = (int)tg_get_cpu_level(), count = 0;
    for (int i = 0; i < row_count(); i++) {
        subject s = {.row = row_at(i)};
        for (int edges = 0; s.row->formula && s.row->torch && edges < 2; edges++) {
            for (int k = 0; (s.options = row_options(s.row, edges, k, s.number)) != NULL; k++, count++) {
                check(&s);
            }
        }
    }
    check(&(subject){&loss, "", {0}});
    assert_true(tg_set_cpu_level((tg_cpu_level)first, NULL));
    assert_true(count > 50);
}

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
    tg_tensor *values[3], *inputs[2];
} outcome;

static outcome compute(const subject *s, tg_dtype dtype, int level)
{
    tg_error error = TG_NO_ERROR;
    if (!tg_set_cpu_level((tg_cpu_level)level, &error)) {
        fail_msg("%s", error.text);
    }
    tg_tape *t = tg_tape_new(NULL, NULL);
    tg_tensor *x[] = {values_of(1, dtype), values_of(2, dtype)}, *y = row_call(s->row, t, x, s->number);
    if (!y) {
        fail_msg("%s", tg_tape_error(t)->text);
    }
    tg_tensor *dy = tg_tensor_new_full(dtype, tg_tensor_shape(y), 0.75, NULL);
    tg_backward_config config = tg_backward_config_default();
    config.gradient = dy;
    assert_true(tg_backward(t, y, &config));
    outcome out = {{tg_tensor_new_copy(y, NULL), NULL, NULL}, {x[0], x[1]}};
    for (int k = 0; k < 2; k++) {
        out.values[1 + k] = tg_tensor_grad(x[k]) ? tg_tensor_new_dense_grad(x[k], NULL) : NULL;
    }
    tg_release(dy);
    tg_tape_free(t);
    return out;
}

static void release(outcome *out)
{
    for (int v = 0; v < 3; v++) {
        tg_release(out->values[v]);
    }
    tg_release(out->inputs[0]);
    tg_release(out->inputs[1]);
}

/* The bits are those of the lowest level; a NaN may be any. */
static void check_levels(const subject *s)
{
    for (int k = 0; k < 2; k++) {
        tg_dtype dtype = k ? TG_F64 : TG_F32;
        outcome base = compute(s, dtype, 0);
        for (int level = 1; level <= tg_level_highest(); level++) {
            outcome other = compute(s, dtype, level);
            for (int v = 0; v < 3; v++) {
                for (int64_t i = 0; base.values[v] && i < tg_tensor_count(base.values[v]); i++) {
                    double x = tg_tensor_value_at(base.values[v], i), y = tg_tensor_value_at(other.values[v], i);
                    if (isnan(x) ? !isnan(y) : x != y || !signbit(x) != !signbit(y)) {
                        fail_msg("%s %s: value %d of %s is %a at level 0, and %a at level %d", s->row->op, s->options,
                                 (int)i, v ? "a gradient" : "the result", x, y, level);
                    }
                }
            }
            release(&other);
        }
        release(&base);
    }
}

static void test_levels_agree(void **state)
{
    (void)state;
    each_function(check_levels);
}

/* Results of floats are near those of doubles with the same options, where these are normal floats. The sum of a
 * cross-entropy may cancel. */
static void check_floats(const subject *given)
{
    subject same = *given, *s = &same;
    for (int k = 0; k < FORMULA_NUMBERS; k++) {
        volatile float rounded = (float)given->number[k]; /* gcc 12 leaves the rounding of neighbors out */
        same.number[k] = (double)rounded;
    }
    outcome d = compute(s, TG_F64, tg_level_highest());
    for (int level = 0; level <= tg_level_highest() && s->row != &loss; level++) {
        outcome f = compute(s, TG_F32, level);
        for (int64_t i = 0; i < tg_tensor_count(f.values[0]); i++) {
            double x = tg_tensor_value_at(f.values[0], i), y = tg_tensor_value_at(d.values[0], i);
            bool is_normal = fabs(y) <= (double)FLT_MAX && fabs(y) >= (double)FLT_MIN;
            double in[FORMULA_INPUTS] = {tg_tensor_value_at(d.inputs[0], i), tg_tensor_value_at(d.inputs[1], i)};
            double error = !s->row->loses_digits
                               ? 3e-7 * fabs(y)
                               : 8 * (double)FLT_EPSILON * s->row->formula->value(in, s->number).terms;
            if (!isnan(x) != !isnan(y) || (is_normal && !(fabs(x - y) <= error))) {
                fail_msg("%s %s: value %d is %.9g, and %.9g in double", s->row->op, s->options, (int)i, x, y);
            }
        }
        release(&f);
    }
    release(&d);
}

static void test_floats_agree_with_doubles(void **state)
{
    (void)state;
    each_function(check_floats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels_agree),
        cmocka_unit_test(test_floats_agree_with_doubles),
    };
    return cmocka_run_group_tests_name("functions", tests, NULL, NULL);
}

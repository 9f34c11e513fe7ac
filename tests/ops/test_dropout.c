/* Dropout against torch's, call after call on one generator: see make_dropout.py. */
#include "base/random.h"
#include "ops/calls.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST 5000
#define SHOWN 9 /* the most values that a line shows */

/* x and the result's gradient, as make_dropout.py has them. */
static tg_tensor *ramp(tg_dtype dtype, int64_t count, int period, double middle, double divisor)
{
    float single[MOST + 1];
    double both[MOST + 1];
    for (int64_t i = 0; i < count; i++) {
        both[i] = ((double)(i % period) - middle) / divisor;
        single[i] = ((float)(i % period) - (float)middle) / (float)divisor;
    }
    return dtype == TG_F32 ? tensor_f32(TG_SHAPE(count), single) : tensor_f64(TG_SHAPE(count), both);
}

static bool same(double a, double b)
{
    return a == b && signbit(a) == signbit(b);
}

static void check_values(FILE *goldens, const tg_tensor *x, const char *what, int line)
{
    for (int64_t i = 0; i < tg_tensor_count(x) && i < SHOWN; i++) {
        double expected;
        assert_int_equal(fscanf(goldens, "%lf", &expected), 1);
        if (!same(tg_tensor_value_at(x, i), expected)) {
            fail_msg("line %d: the %s is %.17g at %lld, torch's %.17g", line, what, tg_tensor_value_at(x, i),
                     (long long)i, expected);
        }
    }
}

/* Bit i of hexadecimal digits, the last of which has the lowest bits. */
static bool bit(const char *digits, int64_t i)
{
    int64_t from_end = (int64_t)strlen(digits) - 1 - i / 4;
    if (from_end < 0) {
        return false;
    }
    int digit = digits[from_end] <= '9' ? digits[from_end] - '0' : digits[from_end] - 'a' + 10;
    return digit >> i % 4 & 1;
}

static void check_call(FILE *goldens, tg_tape *t, const char *dtype_name, int line)
{
    int training;
    double p;
    long long count;
    char mask[MOST / 4 + 2];
    assert_int_equal(fscanf(goldens, "%d %lf %lld %1251s", &training, &p, &count, mask), 4);
    assert_in_range(count, 0, MOST);
    tg_dtype dtype = strcmp(dtype_name, "f32") == 0 ? TG_F32 : TG_F64;
    tg_tensor *x = leaf(ramp(dtype, count, 13, 6.5, 3)), *dy = ramp(dtype, count, 5, 2.5, 7);
    tg_tape_reset(t);
    tg_tape_set_training(t, training);
    tg_tensor *y = tg_dropout(t, x, p);
    assert_non_null(y);
    if (p == 0 || !training) {
        assert_ptr_equal(y, x);
        y = tg_add_scalar(t, x, 0); /* x has no backward of its own */
    }
    assert_true(backward_from(t, y, dy));
    for (int64_t i = 0; i < count; i++) {
        bool kept = bit(mask, i);
        if ((tg_tensor_value_at(y, i) != 0) != kept || (tg_tensor_value_at(tg_tensor_grad(x), i) != 0) != kept) {
            fail_msg("line %d: value %lld should be %s", line, (long long)i, kept ? "kept" : "dropped");
        }
    }
    check_values(goldens, y, "result", line);
    check_values(goldens, tg_tensor_grad(x), "gradient", line);
    tg_release(x);
    tg_release(dy);
}

static void test_draws_of_torch(void **state)
{
    (void)state;
    FILE *goldens = fopen(TG_TEST_GOLDENS "/dropout.txt", "r");
    assert_non_null(goldens);
    tg_run *run = tg_run_new(123);
    tg_tape *t = tg_tape_new(run, NULL);
    char word[24];
    int line = 1;
    for (; fscanf(goldens, "%23s", word) == 1 && word[0] == 'f'; line++) {
        check_call(goldens, t, word, line);
    }
    assert_int_equal(line, 61);
    char next[24];
    snprintf(next, sizeof next, "%llu", (unsigned long long)tg_rng_int64(tg_run_rng(run)));
    assert_string_equal(next, word);
    fclose(goldens);
    tg_tape_free(t);
    tg_run_free(run);
}

/* A dropped value is multiplied by 0, as in torch: a NaN, and what was infinite, is NaN and is not hidden. */
static void test_dropped_nan_stays(void **state)
{
    (void)state;
    tg_run *run = tg_run_new(0);
    tg_tape *t = tg_tape_new(run, NULL);
    tg_tensor *x = tensor_f32(TG_SHAPE(3), (float[]){NAN, INFINITY, 1});
    assert_values(tg_dropout(t, x, 1), (double[]){NAN, NAN, 0}, 3, 0, 0);
    assert_int_equal(tg_rng_position(tg_run_rng(run)), 0);
    tg_release(x);
    tg_tape_free(t);
    tg_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_of_torch),
        cmocka_unit_test(test_dropped_nan_stays),
    };
    return cmocka_run_group_tests_name("dropout", tests, NULL, NULL);
}

/* multinomial.c against PyTorch 2.13 (make_random.py has the same calls in the same order), and its errors. */
#include "streams.h"

static bool multinomial(tg_rng *rng, stream *s, bool f64, int64_t draws, int64_t categories, bool replacement)
{
    static float floats[50257];
    static double doubles[50257];
    for (int64_t i = 0; i < categories; i++) {
        /* some are 0 */
        doubles[i] = (double)(i * 7919 % 1009);
        floats[i] = (float)doubles[i];
    }
    int64_t *out = stream_extend(s, draws);
    tg_error error = TG_NO_ERROR;
    return f64 ? tg_rng_multinomial_f64(rng, out, draws, doubles, categories, replacement, &error)
               : tg_rng_multinomial_f32(rng, out, draws, floats, categories, replacement, &error);
}

static void test_multinomial(void **state)
{
    (void)state;
    static const struct {
        int64_t draws, categories;
        bool replacement;
    } calls[] = {{1, 50257, false},   {1, 50257, true}, {2, 50257, false},     {700, 50257, false},
                 {900, 50257, false}, {39, 40, false},  {100000, 50257, true}, {10000, 3, true}};
    tg_rng *rng = tg_rng_new(0);
    for (int f64 = 0; f64 < 2; f64++) {
        stream s = stream_of(8);
        tg_rng_seed(rng, 123);
        for (int i = 0; i < 10000; i++) {
            assert_true(multinomial(rng, &s, f64, 7, 40, false));
        }
        for (int64_t i = 0; i < COUNT(calls); i++) {
            assert_true(multinomial(rng, &s, f64, calls[i].draws, calls[i].categories, calls[i].replacement));
        }
        check_stream(s, f64 ? "multinomial_f64" : "multinomial_f32", false, 0, 0);
    }
    tg_rng_free(rng);
}

/* The weights of several rows are added side by side; the draws are those of one row after the other. */
static void test_rows_draw_as_alone(void **state)
{
    (void)state;
    enum { ROWS = 11, CATEGORIES = 301, DRAWS = 150 };
    static float floats[ROWS * CATEGORIES];
    static double doubles[ROWS * CATEGORIES];
    static int64_t together[ROWS * DRAWS], alone[DRAWS];
    tg_rng *rng = tg_rng_new(5), *same = tg_rng_new(5);
    for (int i = 0; i < ROWS * CATEGORIES; i++) {
        doubles[i] = (double)(i * 7919 % 1009) / 64;
        floats[i] = (float)doubles[i];
    }
    for (int call = 0; call < 4 * ROWS; call++) {
        const bool single = call % 2, replacement = call % 4 < 2;
        const int64_t rows = call / 4, draws = call % 3 == 0 ? DRAWS : 2;
        const void *weights = single ? (const void *)floats : (const void *)doubles;
        assert_true(
            tg_rng_multinomial_rows(rng, together, draws, weights, single, rows, CATEGORIES, replacement, NULL));
        for (int64_t row = 0; row < rows; row++) {
            const int64_t at = row * CATEGORIES;
            assert_true(single
                            ? tg_rng_multinomial_f32(same, alone, draws, floats + at, CATEGORIES, replacement, NULL)
                            : tg_rng_multinomial_f64(same, alone, draws, doubles + at, CATEGORIES, replacement, NULL));
            assert_memory_equal(together + row * draws, alone, (size_t)draws * sizeof *alone);
        }
    }
    tg_rng_free(rng);
    tg_rng_free(same);
}

/* Without replacement they are behind all others, those too whose weight / exponential underflows to 0. */
static void test_multinomial_never_draws_weight_zero(void **state)
{
    (void)state;
    static const float weights[] = {0, 0x1p-149F, 0, 3, 0x1p-149F, 0};
    tg_rng *rng = tg_rng_new(1);
    for (int i = 0; i < 2000; i++) {
        int64_t out[3];
        assert_true(tg_rng_multinomial_f32(rng, out, 3, weights, 6, false, NULL));
        assert_int_equal(out[0], 3);
        assert_true((out[1] == 1 && out[2] == 4) || (out[1] == 4 && out[2] == 1));
    }
    tg_rng_free(rng);
}

/* All of many float categories, against the exponentials that were drawn: PyTorch's quotients from large to small, and
 * of equal ones, which PyTorch leaves to its sorting, the smaller category first. */
static void test_order_of_all_draws(void **state)
{
    (void)state;
    enum { CATEGORIES = 50257 };
    static float weights[CATEGORIES];
    static double exponentials[CATEGORIES];
    static int64_t out[CATEGORIES];
    tg_rng *rng = tg_rng_new(123), *same = tg_rng_new(123);
    for (int i = 0; i < CATEGORIES; i++) {
        weights[i] = (float)(1 + i * 7919 % 1009);
    }
    assert_true(tg_rng_multinomial_f32(rng, out, CATEGORIES, weights, CATEGORIES, false, NULL));
    tg_rng_exponential_f64(same, exponentials, CATEGORIES, 1);
    int ties = 0;
    for (int i = 1; i < CATEGORIES; i++) {
        float before = weights[out[i - 1]] / (float)exponentials[out[i - 1]];
        float here = weights[out[i]] / (float)exponentials[out[i]];
        /* so no category comes twice */
        assert_true(before > here || (before == here && out[i - 1] < out[i]));
        ties += before == here;
    }
    assert_true(ties > 0);
    tg_rng_free(rng);
    tg_rng_free(same);
}

static void test_multinomial_refusals(void **state)
{
    (void)state;
    static const struct {
        double weights[4];
        int64_t categories, draws;
        /* the error's text, NULL where the call is right */
        const char *without, *with;
    } calls[] = {
        {{1, 2, -0.5, 3}, 4, 1, "weight -0.5 at [2]", "weight -0.5 at [2]"},
        {{1, NAN, 1, 3}, 4, 2, "nan at [1]", "nan at [1]"},
        {{INFINITY, 1, 1, 3}, 4, 2, "weight inf at [0]", "weight inf at [0]"},
        {{1, 1, 1, -INFINITY}, 4, 2, "weight -inf at [3]", "weight -inf at [3]"},
        {{0, 0, -0.0}, 3, 1, "none of the 3 weights is above 0", "none of the 3 weights is above 0"},
        {{1}, 0, 1, "none of the 0 weights", "none of the 0 weights"},
        {{1, 2, 3}, 3, 0, "0 draws without replacement", "0 draws with replacement"},
        {{1, 2, 3}, 3, -4, "-4 draws", "-4 draws with replacement from 3 weights above 0; it must be at least 1"},
        {{1, 0, 3, 0},
         4,
         3,
         "3 draws without replacement from 2 weights above 0; it must be at least 1 and at most one per weight",
         NULL},
        {{3e38, 3e38, 1}, 3, 2, NULL, "the sum of the 3 weights overflows"},
        {{1, 2, -0.0, 4}, 4, 3, NULL, NULL},
    };
    tg_rng *rng = tg_rng_new(1), *before = tg_rng_new(2);
    for (int64_t i = 0; i < COUNT(calls); i++) {
        float floats[4];
        double doubles[4];
        for (int k = 0; k < 4; k++) {
            floats[k] = (float)calls[i].weights[k];
            doubles[k] = calls[i].weights[k] == 3e38 ? 1e308 : calls[i].weights[k];
        }
        for (int f64 = 0; f64 < 2; f64++) {
            for (int replacement = 0; replacement < 2; replacement++) {
                const char *text = replacement ? calls[i].with : calls[i].without;
                int64_t out[4] = {-1, -1, -1, -1}, draws = calls[i].draws, categories = calls[i].categories;
                tg_error error = TG_NO_ERROR;
                tg_rng_copy(before, rng);
                bool good = f64 ? tg_rng_multinomial_f64(rng, out, draws, doubles, categories, replacement, &error)
                                : tg_rng_multinomial_f32(rng, out, draws, floats, categories, replacement, &error);
                assert_int_equal(good, text == NULL);
                if (text) {
                    assert_error(&error, TG_ERROR_VALUE, text);
                    assert_same_state(rng, before);
                    assert_int_equal(out[0], -1);
                } else {
                    assert_int_equal(error.code, TG_OK);
                    assert_true(tg_rng_position(rng) > tg_rng_position(before));
                }
            }
        }
    }
    tg_rng_free(rng);
    tg_rng_free(before);
}

static void *allocate_nothing(void *context, size_t bytes, size_t alignment)
{
    (void)context;
    (void)bytes;
    (void)alignment;
    return NULL;
}

static void release_nothing(void *context, void *block)
{
    (void)context;
    (void)block;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    static const tg_allocator empty = {allocate_nothing, release_nothing, NULL};
    static const float weights[3] = {1, 2, 3};
    tg_rng *rng = tg_rng_new(1), *before = tg_rng_new(2);
    tg_rng_copy(before, rng);
    tg_set_allocator(&empty);
    for (int replacement = 0; replacement < 2; replacement++) {
        int64_t out[2];
        tg_error error = TG_NO_ERROR;
        assert_false(tg_rng_multinomial_f32(rng, out, 2, weights, 3, replacement, &error));
        assert_error(&error, TG_ERROR_MEMORY, "out of memory for 3 categories");
        assert_same_state(rng, before);
    }
    tg_set_allocator(NULL);
    tg_rng_free(rng);
    tg_rng_free(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multinomial),        cmocka_unit_test(test_multinomial_never_draws_weight_zero),
        cmocka_unit_test(test_order_of_all_draws), cmocka_unit_test(test_multinomial_refusals),
        cmocka_unit_test(test_rows_draw_as_alone), cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

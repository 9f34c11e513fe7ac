/* The random generator: its engine against NumPy and PyTorch; copies, saved states, positions and errors. */
#include "streams.h"

static void test_raw_outputs(void **state)
{
    (void)state;
    stream one = stream_of(4), two = stream_of(8), sixty_three = stream_of(8);
    tg_rng *a = tg_rng_new(123), *b = tg_rng_new(123), *c = tg_rng_new(123);
    for (int i = 0; i < 100003; i++) {
        uint32_t output = tg_rng_u32(a);
        memcpy(stream_extend(&one, 1), &output, 4);
        uint64_t masked = tg_rng_u64(b) & INT64_MAX, seed = tg_rng_int64(c);
        memcpy(stream_extend(&two, 1), &masked, 8);
        memcpy(stream_extend(&sixty_three, 1), &seed, 8);
    }
    check_stream(one, "u32", false, 0, 0);
    check_stream(two, "int64", false, 0, 0);
    check_stream(sixty_three, "int64", false, 0, 0);
    tg_rng_copy(a, b);
    uint64_t high = tg_rng_u32(a), low = tg_rng_u32(a);
    /* all 64 bits */
    assert_true(tg_rng_u64(b) == (high << 32 | low));
    tg_rng_free(a);
    tg_rng_free(b);
    tg_rng_free(c);
    tg_rng_free(NULL);
}

static void test_seeds(void **state)
{
    (void)state;
    static const int64_t seeds[] = {0, 1, 123, -1, -5, 4294967303, INT64_MAX, 67280421310721};
    stream s = stream_of(4);
    tg_rng *reseeded = tg_rng_new(9);
    for (int64_t i = 0; i < COUNT(seeds); i++) {
        tg_rng *rng = tg_rng_new((uint64_t)seeds[i]);
        float *values = stream_extend(&s, 700);
        tg_rng_uniform_f32(rng, values, 700, 0, 1);
        tg_rng_free(rng);

        float again[700];
        double normal;
        /* leaves one waiting */
        tg_rng_normal_f64(reseeded, &normal, 1, 0, 1);
        tg_rng_seed(reseeded, (uint64_t)seeds[i] ^ (uint64_t)i << 40);
        tg_rng_uniform_f32(reseeded, again, 700, 0, 1);
        assert_memory_equal(again, values, sizeof again);
    }
    tg_rng_free(reseeded);
    check_stream(s, "seeds", false, 0, 0);
}

static void test_torch_state(void **state)
{
    (void)state;
    static const int64_t counts[] = {1, 2, 621, 1, 623, 1000};
    stream s = stream_of(1);
    tg_rng *rng = tg_rng_new((uint64_t)-1), *loaded = tg_rng_new(0);
    float values[1000], after[40], expected[40];
    for (int64_t i = 0; i < 1 + COUNT(counts) + 2; i++) {
        if (i > COUNT(counts)) {
            tg_rng_normal_f32(rng, values, 3, 0, 1);
        } else if (i > 0) {
            tg_rng_uniform_f32(rng, values, counts[i - 1], 0, 1);
        }
        uint8_t *saved = stream_extend(&s, TG_RNG_TORCH_STATE_SIZE);
        assert_true(tg_rng_save_torch_state(rng, saved, NULL));

        tg_error error = TG_NO_ERROR;
        tg_rng *copy = tg_rng_new(0);
        tg_rng_copy(copy, rng);
        tg_rng_set_profile(loaded, TG_RNG_GENERIC);
        tg_rng_set_profile(copy, TG_RNG_GENERIC);
        assert_true(tg_rng_load_torch_state(loaded, saved, &error));
        assert_int_equal(loaded->profile, TG_RNG_GENERIC);
        uint8_t again[TG_RNG_TORCH_STATE_SIZE];
        assert_true(tg_rng_save_torch_state(loaded, again, NULL));
        assert_memory_equal(again, saved, sizeof again);
        for (int call = 0; call < 20; call++) {
            tg_rng_normal_f32(loaded, after + 2 * call, 2 - call % 2, 1, 2);
            tg_rng_normal_f32(copy, expected + 2 * call, 2 - call % 2, 1, 2);
            assert_memory_equal(after + 2 * call, expected + 2 * call, (size_t)(2 - call % 2) * sizeof(float));
        }
        tg_rng_free(copy);
    }
    check_stream(s, "torch_state", false, 0, 0);
    tg_rng_free(rng);
    tg_rng_free(loaded);
}

static void test_torch_state_refusals(void **state)
{
    (void)state;
    static const struct {
        int at, bytes;
        uint64_t value;
        const char *text;
    } faults[] = {
        {12, 4, 0, "seeded is 0 at byte 12"},
        {12, 4, 2, "seeded is 2 at byte 12"},
        {8, 4, 0, "left 0 and next 4"},
        {8, 4, 1, "left 1 and next 4"},
        {8, 4, 0xffffffff, "left 4294967295 and next 4"},
        {16, 8, 0, "left 621 and next 0"},
        {16, 8, 5, "left 621 and next 5"},
        {16, 8, 0x100000004, "left 621 and next 4294967300"},
        {24 + 8 * 5, 8, 0x100000000, "word 0x100000000 at byte 64 has more than 32 bits"},
        {24 + 8 * 623, 8, UINT64_MAX, "word 0xffffffffffffffff at byte 5008"},
        {5040, 4, 2, "flag 2"},
        {5024, 8, 0x7ff0000000000000, "cached normal inf"},
        {5024, 8, 0x7ff8000000000000, "cached normal nan"},
    };
    tg_rng *rng = tg_rng_new(7), *before = tg_rng_new(0);
    uint8_t good[TG_RNG_TORCH_STATE_SIZE], bad[TG_RNG_TORCH_STATE_SIZE];
    double normal;
    tg_rng_normal_f64(rng, &normal, 1, 0, 1);
    assert_true(tg_rng_save_torch_state(rng, good, NULL));
    tg_rng_u32(rng);
    tg_rng_copy(before, rng);
    for (int64_t i = 0; i < COUNT(faults); i++) {
        memcpy(bad, good, sizeof bad);
        for (int b = 0; b < faults[i].bytes; b++) {
            bad[faults[i].at + b] = (uint8_t)(faults[i].value >> 8 * b);
        }
        tg_error error = TG_NO_ERROR;
        assert_false(tg_rng_load_torch_state(rng, bad, &error));
        assert_error(&error, TG_ERROR_FORMAT, faults[i].text);
        assert_same_state(rng, before);
    }
    memcpy(bad, good, sizeof bad);
    bad[8] = bad[9] = 0;
    bad[16] = 625 % 256;
    bad[17] = 625 / 256;
    tg_error error = TG_NO_ERROR;
    /* adds up to 625, and is past the end */
    assert_false(tg_rng_load_torch_state(rng, bad, &error));
    assert_error(&error, TG_ERROR_FORMAT, "left 0 and next 625");
    assert_same_state(rng, before);

    assert_true(tg_rng_load_torch_state(rng, good, NULL));
    assert_int_equal(tg_rng_position(rng), 0);
    tg_rng_free(rng);
    tg_rng_free(before);
}

static void test_null_state(void **state)
{
    (void)state;
    uint8_t saved[TG_RNG_TORCH_STATE_SIZE];
    tg_rng *rng = tg_rng_new(7), *before = tg_rng_new(7);
    tg_error error = TG_NO_ERROR;
    assert_false(tg_rng_save_torch_state(NULL, saved, &error));
    assert_error(&error, TG_ERROR_STATE, "rng_save_torch_state: the generator is NULL");
    tg_error_clear(&error);
    assert_false(tg_rng_save_torch_state(rng, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "rng_save_torch_state: the state is NULL");
    tg_error_clear(&error);
    assert_true(tg_rng_save_torch_state(rng, saved, &error));
    assert_false(tg_rng_load_torch_state(NULL, saved, &error));
    assert_error(&error, TG_ERROR_STATE, "rng_load_torch_state: the generator is NULL");
    tg_error_clear(&error);
    assert_false(tg_rng_load_torch_state(rng, NULL, &error));
    assert_error(&error, TG_ERROR_STATE, "rng_load_torch_state: the state is NULL");
    assert_same_state(rng, before);
    tg_rng_free(rng);
    tg_rng_free(before);
}

static void test_copy_while_a_normal_waits(void **state)
{
    (void)state;
    tg_rng *rng = tg_rng_new(5), *saved = tg_rng_new(6);
    float first[3], a[50], b[50], again[3];
    /* the fourth waits */
    tg_rng_normal_f32(rng, first, 3, 0, 1);
    tg_rng_set_profile(rng, TG_RNG_GENERIC);
    tg_rng_copy(saved, rng);
    assert_same_state(saved, rng);
    for (int round = 0; round < 3; round++) {
        float *out = round == 0 ? a : b;
        tg_rng_normal_f32(rng, out, 6, 0.5, 2);
        tg_rng_normal_f32(rng, out + 6, 30, 0.5, 2);
        tg_rng_normal_f32(rng, out + 36, 14, 0.5, 2);
        assert_int_equal(tg_rng_position(rng), 8 + 12 + 30 + 16 + 28);
        if (round > 0) {
            assert_memory_equal(b, a, sizeof a);
        }
        tg_rng_copy(rng, saved);
    }
    /* forgets what waits, keeps the profile */
    tg_rng_seed(rng, 5);
    assert_int_equal(rng->profile, TG_RNG_GENERIC);
    tg_rng_normal_f32(rng, again, 3, 0, 1);
    assert_memory_equal(again, first, sizeof first);
    tg_rng_free(rng);
    tg_rng_free(saved);
}

static uint64_t drawn(tg_rng *rng)
{
    static uint64_t before;
    uint64_t now = tg_rng_position(rng), difference = now - before;
    before = now;
    return difference;
}

static void test_position(void **state)
{
    (void)state;
    static float floats[2000];
    static double doubles[2000];
    static int64_t integers[2000];
    static uint8_t bytes[2000];
    for (int i = 0; i < 2000; i++) {
        floats[i] = 1;
    }
    static const float weights[5] = {1, 2, 3, 4, 5};
    tg_rng *rng = tg_rng_new(1), *fresh = tg_rng_new(1);
    assert_int_equal(drawn(rng), 0);
    tg_rng_uniform_f32(rng, floats, 0, 0, 1);
    tg_rng_uniform_f64(rng, doubles, 0, 0, 1);
    tg_rng_normal_f32(rng, floats, 0, 0, 1);
    tg_rng_normal_f64(rng, doubles, 0, 0, 1);
    tg_rng_integers(rng, integers, 0, 0, 9);
    tg_rng_randperm(rng, integers, 0);
    tg_rng_randperm(rng, integers, 1);
    tg_rng_bernoulli(rng, bytes, 0, 0.5);
    tg_rng_exponential_f64(rng, doubles, 0, 1);
    assert_same_state(rng, fresh);
    assert_int_equal((tg_rng_u32(rng), drawn(rng)), 1);
    assert_int_equal((tg_rng_u64(rng), drawn(rng)), 2);
    assert_int_equal((tg_rng_int64(rng), drawn(rng)), 2);
    assert_int_equal((tg_rng_uniform_f32(rng, floats, 2000, 0, 1), drawn(rng)), 2000);
    assert_int_equal((tg_rng_uniform_f64(rng, doubles, 2000, 0, 1), drawn(rng)), 4000);
    assert_int_equal((tg_rng_normal_f32(rng, floats, 3, 0, 1), drawn(rng)), 8);
    /* one was waiting, one waits */
    assert_int_equal((tg_rng_normal_f64(rng, doubles, 2, 0, 1), drawn(rng)), 4);
    assert_int_equal((tg_rng_normal_f32(rng, floats, 32, 0, 1), drawn(rng)), 32);
    assert_int_equal((tg_rng_normal_f64(rng, doubles, 33, 0, 1), drawn(rng)), 2 * (33 + 16));
    assert_int_equal((tg_rng_normal_f64(rng, doubles, 1, 0, 1), drawn(rng)), 0);
    assert_int_equal((tg_rng_integers(rng, integers, 10, 0, (1 << 28) - 1), drawn(rng)), 10);
    assert_int_equal((tg_rng_integers(rng, integers, 10, 0, 1 << 28), drawn(rng)), 20);
    assert_int_equal((tg_rng_randperm(rng, integers, 10), drawn(rng)), 9);
    assert_int_equal((tg_rng_bernoulli(rng, bytes, 2000, 0.5), drawn(rng)), 4000);
    assert_int_equal((tg_rng_exponential_f64(rng, doubles, 2000, 1), drawn(rng)), 4000);
    assert_true(tg_rng_multinomial_f32(rng, integers, 2, weights, 5, false, NULL));
    assert_int_equal(drawn(rng), 10);
    assert_true(tg_rng_multinomial_f32(rng, integers, 2, weights, 5, true, NULL));
    assert_int_equal(drawn(rng), 4);
    tg_rng_free(rng);
    tg_rng_free(fresh);
}

static void refused(tg_error *error, tg_code code, const char *part)
{
    assert_error(error, code, part);
    tg_error_clear(error);
}

/* torch.manual_seed(5), then three times torch.empty(1).uniform_(-2, 3), torch.empty(1).normal_(1, 2),
 * torch.randint(-3, 1000, (1,)) and torch.randint(0, 1 << 40, (1,)). */
static void test_single_numbers(void **state)
{
    (void)state;
    static const double uniform[] = {0x1.135c780000000p+1, -0x1.d56bd80000000p+0, -0x1.a34ff80000000p+0};
    static const double normal[] = {0x1.c742940000000p+1, 0x1.2496a60000000p+0, 0x1.1f494a0000000p-1};
    static const int64_t small[] = {372, 529, 52}, large[] = {622681974857, 993841416126, 617651866737};
    tg_rng *rng = tg_rng_new(5), *before = tg_rng_new(0);
    tg_error error = TG_NO_ERROR;
    for (int i = 0; i < 3; i++) {
        assert_true(tg_rng_uniform(rng, -2, 3, &error) == uniform[i]);
        assert_true(fabs(tg_rng_normal(rng, 1, 2, &error) - normal[i]) <= 0x1p-23 * fabs(normal[i]));
        assert_int_equal(tg_rng_randint(rng, -3, 1000, &error), small[i]);
        assert_int_equal(tg_rng_randint(rng, 0, (int64_t)1 << 40, &error), large[i]);
    }
    assert_int_equal(error.code, TG_OK);
    tg_rng_copy(before, rng);
    assert_true(isnan(tg_rng_uniform(rng, 1, 0, &error)));
    refused(&error, TG_ERROR_VALUE, "rng_uniform: from 1 to 0; the bounds must be finite, and low <= high");
    assert_true(isnan(tg_rng_normal(rng, 0, -1, &error)));
    refused(&error, TG_ERROR_VALUE,
            "rng_normal: mean 0 and standard deviation -1; both must be finite, and the deviation at least 0");
    assert_int_equal(tg_rng_randint(rng, 4, 4, &error), 0);
    refused(&error, TG_ERROR_VALUE, "rng_randint: [4,4) is empty; low must be below high");
    assert_true(isnan(tg_rng_uniform(NULL, 0, 1, &error)));
    refused(&error, TG_ERROR_STATE, "rng_uniform: the generator is NULL");
    assert_same_state(rng, before);
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
    tg_set_allocator(&empty);
    assert_null(tg_rng_new(1));
    tg_set_allocator(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_raw_outputs),   cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_torch_state),   cmocka_unit_test(test_torch_state_refusals),
        cmocka_unit_test(test_null_state),    cmocka_unit_test(test_copy_while_a_normal_waits),
        cmocka_unit_test(test_position),      cmocka_unit_test(test_single_numbers),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

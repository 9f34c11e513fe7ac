/* GPT and memory: creation and a training step with each allocation failing in turn; steps that allocate nothing. */
#include "support.h"

#include <string.h>

#include <tapegrad/extend.h>

#include "tape/tape.h"

#define V 31
#define LENGTH 9

static tg_gpt_config small(void)
{
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = 12;
    config.width = 16;
    config.heads = 2;
    config.layers = 1;
    config.dropout = 0.1;
    config.qkv_bias = true;
    config.tied_head = true;
    return config;
}

typedef struct training {
    tg_run *run;
    tg_rng *saved;
    tg_params *params;
    tg_gpt *model;
    tg_optim *adam;
    tg_tape *tape;
    tg_tensor *ids, *targets;
} training;

static training training_make(tg_attention_path path)
{
    int32_t ids[2 * LENGTH], targets[2 * LENGTH];
    for (int i = 0; i < 2 * LENGTH; i++) {
        ids[i] = (i * i * 7 + 3) % V;
        targets[i] = (i * i * i * 5 + 1) % V;
    }
    tg_gpt_config config = small();
    config.path = path;
    training m = {.run = tg_run_new(123), .saved = tg_rng_new(0)};
    m.params = tg_params_new(m.run, TG_F32);
    m.model = tg_gpt_new(m.params, &config);
    m.adam = tg_adamw_new(m.params, NULL);
    m.tape = tg_tape_new(m.run, NULL);
    m.ids = tensor_i32(TG_SHAPE(2, LENGTH), ids);
    m.targets = tensor_i32(TG_SHAPE(2, LENGTH), targets);
    tg_rng_copy(m.saved, tg_run_rng(m.run));
    return m;
}

static void training_free(training *m)
{
    tg_release(m->ids);
    tg_release(m->targets);
    tg_tape_free(m->tape);
    tg_optim_free(m->adam);
    tg_gpt_free(m->model);
    tg_params_free(m->params);
    tg_run_free(m->run);
    tg_rng_free(m->saved);
}

static bool step(training *m)
{
    tg_tape_reset(m->tape);
    tg_optim_zero_grad(m->adam);
    tg_tensor *logits = tg_gpt_forward(m->tape, m->model, m->ids, NULL);
    tg_tensor *loss = tg_cross_entropy(m->tape, logits, m->targets, NULL);
    return tg_backward(m->tape, loss, NULL) && tg_optim_step(m->adam);
}

static uint64_t checksum(const tg_params *params)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < tg_params_count(params); i++) {
        const tg_tensor *x = tg_params_at(params, i).tensor;
        const uint32_t *bits = tg_tensor_data(x);
        for (int64_t k = 0; k < tg_tensor_count(x); k++) {
            sum = sum * 31 + bits[k];
        }
    }
    return sum;
}

/* Allocation k of a step fails, or all from the k-th on: an error, no weight changed, nothing leaked, and a retry gives
 * the bits. */
static void check_step(tg_attention_path path, bool on)
{
    uint64_t expected = 0;
    bool finished = false;
    for (size_t k = 0; !finished; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        training m = training_make(path);
        uint64_t before = checksum(m.params);
        allocator_arm(&counting, k, on);
        bool good = step(&m);
        allocator_arm(&counting, 0, false);
        if (k == 0) {
            assert_true(good);
            expected = checksum(m.params);
            assert_true(expected != before);
        } else if (good) {
            finished = true;
            /* from the embedding to the optimizer's state, all were among what failed */
            assert_true(k > 50);
        } else {
            assert_true(tg_tape_error(m.tape)->code == TG_ERROR_MEMORY || optim_error(m.adam)->code == TG_ERROR_MEMORY);
            assert_true(checksum(m.params) == before);
            clear_tape_error(m.tape);
            clear_optim_error(m.adam);
            tg_rng_copy(tg_run_rng(m.run), m.saved);
            assert_true(step(&m));
        }
        assert_true(checksum(m.params) == expected);
        training_free(&m);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
}

static void test_step_without_memory(void **state)
{
    (void)state;
    check_step(TG_ATTENTION_FUSED, false);
    check_step(TG_ATTENTION_FUSED, true);
    check_step(TG_ATTENTION_ELEMENTARY, false);
}

/* After a first step with the same shapes, on both paths: the mask of the elementary path is in the tape's memory,
 * too. */
static void test_later_steps_allocate_nothing(void **state)
{
    (void)state;
    for (int chain = 0; chain < 2; chain++) {
        training m = training_make(chain ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED);
        counting_allocator counting;
        assert_true(step(&m) && step(&m));
        allocator_install(&counting);
        for (int i = 0; i < 3; i++) {
            /* other rows are touched */
            ((int32_t *)tg_tensor_data_mut(m.ids))[i] = i;
            assert_true(step(&m));
        }
        assert_int_equal(counting.calls, 0);
        allocator_restore();
        training_free(&m);
    }
}

/* The sums of the blocks and the results of dropout are read by no backward, so a pass gives back their memory: of each
 * of the two branches the projection and its dropout, and of the embedding the rows, their sum with the positions and
 * the dropout without the first block's input. A watch may ask for all results, so then they keep it. The gradients
 * are the same. */
static void test_results_that_no_backward_reads(void **state)
{
    (void)state;
    const size_t bytes = 2 * LENGTH * 16 * sizeof(float);
    size_t after[2];
    uint64_t sums[2];
    for (int observed = 0; observed < 2; observed++) {
        metered_allocator meter;
        allocator_measure(&meter);
        training m = training_make(TG_ATTENTION_FUSED);
        tg_kernel_watch watch = {.keeps_results = true};
        tg_tape_add_watch(m.tape, observed ? &watch : NULL);
        tg_tensor *logits = tg_gpt_forward(m.tape, m.model, m.ids, NULL);
        assert_non_null(logits);
        tg_pool_trim(m.tape->pool);
        after[observed] = meter.now;
        assert_true(tg_backward(m.tape, tg_cross_entropy(m.tape, logits, m.targets, NULL), NULL));
        assert_true(tg_optim_step(m.adam));
        sums[observed] = checksum(m.params);
        training_free(&m);
        allocator_restore();
    }
    assert_true(after[1] - after[0] > 6 * bytes);
    assert_true(after[1] - after[0] < 7 * (bytes + 256));
    assert_true(sums[0] == sums[1]);
}

/* Allocation k of tg_gpt_new fails, or all from the k-th on: an error of the params, nothing added, drawn or
 * leaked. Without the error the same call gives the model that the seed gives. */
static void check_made(tg_position position, bool on)
{
    tg_gpt_config config = small();
    config.position = position;
    tg_run *fresh = tg_run_new(123);
    tg_params *usual = tg_params_new(fresh, TG_F32);
    tg_gpt *expected = tg_gpt_new(usual, &config);
    assert_non_null(expected);
    uint64_t sum = checksum(usual), position_after = tg_rng_position(tg_run_rng(fresh));
    int64_t count = tg_params_count(usual);
    tg_gpt_free(expected);
    tg_params_free(usual);
    tg_run_free(fresh);
    bool finished = false;
    for (size_t k = 1; !finished; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        tg_run *run = tg_run_new(123);
        tg_params *params = tg_params_new(run, TG_F32);
        allocator_arm(&counting, k, on);
        tg_gpt *model = tg_gpt_new(params, &config);
        allocator_arm(&counting, 0, false);
        finished = model;
        if (!model) {
            assert_int_equal(tg_params_error(params)->code, TG_ERROR_MEMORY);
            assert_int_equal(tg_params_count(params), 0);
            assert_true(tg_rng_position(tg_run_rng(run)) == 0);
            /* the error stays */
            assert_null(tg_gpt_new(params, &config));
            assert_int_equal(tg_params_error(params)->code, TG_ERROR_MEMORY);
            assert_int_equal(tg_params_count(params), 0);
            clear_params_error(params);
            model = tg_gpt_new(params, &config);
        } else {
            /* each parameter took more than one allocation, and all were among what failed */
            assert_true(k > 2 * (size_t)count);
        }
        assert_string_equal(tg_params_error(params)->text, "");
        assert_int_equal(tg_params_count(params), count);
        assert_true(tg_rng_position(tg_run_rng(run)) == position_after);
        assert_true(checksum(params) == sum);
        tg_gpt_free(model);
        tg_params_free(params);
        tg_run_free(run);
        assert_int_equal(counting.live, 0);
        allocator_restore();
    }
}

static void test_made_without_memory(void **state)
{
    (void)state;
    for (int on = 0; on < 2; on++) {
        check_made(TG_POSITION_LEARNED, on);
        check_made(TG_POSITION_T5, on);
        /* each block has positions of its own */
        check_made(TG_POSITION_SHAW, on);
        check_made(TG_POSITION_TRANSFORMER_XL, on);
        check_made(TG_POSITION_DEBERTA, on);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_without_memory),
        cmocka_unit_test(test_later_steps_allocate_nothing),
        cmocka_unit_test(test_results_that_no_backward_reads),
        cmocka_unit_test(test_made_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

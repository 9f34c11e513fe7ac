/* A GPT with activation checkpointing (tg_gpt_config.activation_checkpointing) trains to the same bits, in less
 * memory. */
#include "support.h"
#include "tape_stats.h"
#include "with_cache.h"

#include <string.h>

enum { B = 2, T = 24, V = 61, WIDTH = 48, STEPS = 2 };

typedef struct training {
    tg_run *run;
    tg_params *params;
    tg_gpt *model;
    tg_optim *optim;
    tg_tape *tape;
    tg_tensor *inputs, *targets;
} training;

static training training_make(tg_position position, tg_attention_path path, int64_t layers, bool in_spans)
{
    training m = {.run = tg_run_new(7)};
    tg_gpt_config config = tg_gpt_config_default();
    config.vocabulary = V;
    config.context = T;
    config.width = WIDTH;
    config.heads = 3;
    config.layers = layers;
    config.dropout = 0.1;
    config.tied_head = true;
    config.position = position;
    config.path = path;
    config.activation_checkpointing = in_spans;
    m.params = tg_params_new(m.run, TG_F32);
    m.model = tg_gpt_new(m.params, &config);
    m.optim = tg_adamw_new(m.params, NULL);
    m.tape = tg_tape_new(m.run, NULL);
    m.inputs = tg_tensor_new(TG_I32, TG_SHAPE(B, T), NULL);
    m.targets = tg_tensor_new(TG_I32, TG_SHAPE(B, T), NULL);
    return m;
}

static void training_free(training *m)
{
    tg_release(m->inputs);
    tg_release(m->targets);
    tg_tape_free(m->tape);
    tg_optim_free(m->optim);
    tg_gpt_free(m->model);
    tg_params_free(m->params);
    tg_run_free(m->run);
}

static bool step(training *m)
{
    tg_tape_reset(m->tape);
    tg_optim_zero_grad(m->optim);
    return tg_tensor_fill_randint(m->inputs, tg_run_rng(m->run), 0, V, NULL) &&
           tg_tensor_fill_randint(m->targets, tg_run_rng(m->run), 0, V, NULL) &&
           tg_backward(m->tape, tg_gpt_loss(m->tape, m->model, m->inputs, m->targets, NULL), NULL) &&
           tg_optim_step(m->optim);
}

static void compare(const tg_params *a, const tg_params *b, const char *what)
{
    for (int64_t i = 0; i < tg_params_count(a); i++) {
        const tg_tensor *x = tg_params_at(a, i).tensor, *y = tg_params_at(b, i).tensor;
        if (memcmp(tg_values(x), tg_values(y), tg_bytes_of(x)) != 0) {
            fail_msg("%s: '%s' differs with checkpointing", what, tg_params_at(a, i).name);
        }
    }
}

/* With each kind of positions, on both paths of attention, with reproducible products and without. */
static void test_training(void **state)
{
    (void)state;
    for (int k = 0; k < (TG_POSITION_NONE + 1) * 4; k++) {
        training m[2];
        for (int in_spans = 0; in_spans < 2; in_spans++) {
            m[in_spans] =
                training_make((tg_position)(k / 4), k % 2 ? TG_ATTENTION_ELEMENTARY : TG_ATTENTION_FUSED, 3, in_spans);
            tg_tape_set_reproducible(m[in_spans].tape, k / 2 % 2);
            for (int i = 0; i < STEPS; i++) {
                if (!step(&m[in_spans])) {
                    fail_msg("%s", tg_tape_error(m[in_spans].tape)->text);
                }
            }
        }
        compare(m[0].params, m[1].params, tg_position_name((tg_position)(k / 4)));
        assert_true(tg_rng_position(tg_run_rng(m[0].run)) == tg_rng_position(tg_run_rng(m[1].run)));
        training_free(&m[0]);
        training_free(&m[1]);
    }
}

/* Returns the bytes that a step takes beyond the model, its gradients and the optimizer. */
static double activations(int64_t layers, bool in_spans)
{
    metered_allocator meter;
    allocator_measure(&meter);
    training m = training_make(TG_POSITION_LEARNED, TG_ATTENTION_FUSED, layers, in_spans);
    assert_true(step(&m));
    tg_tape_reset(m.tape);
    tg_tape_free(m.tape);
    m.tape = tg_tape_new(m.run, NULL);
    size_t before = meter.now;
    meter.most = meter.now;
    assert_true(step(&m));
    double bytes = (double)(meter.most - before);
    training_free(&m);
    allocator_restore();
    return bytes;
}

/* Another block takes no more than its result, beside a few kilobytes for its records and the state of the generator;
 * without checkpointing it takes more than twenty results. */
static void test_memory(void **state)
{
    (void)state;
    const double result = B * T * WIDTH * sizeof(float);
    double plain = (activations(22, false) - activations(2, false)) / 20;
    double spans = (activations(22, true) - activations(2, true)) / 20;
    printf("bytes per block: %g, with checkpointing %g; its result has %g\n", plain, spans, result);
    assert_true(plain > 20 * result);
    assert_true(spans < 1.125 * result + 24e3);
}

/* Spans drop values only while the tape trains and records. A pass with a cache does not record. */
static void test_passes_without_spans(void **state)
{
    (void)state;
    training m[] = {training_make(TG_POSITION_LEARNED, TG_ATTENTION_FUSED, 2, false),
                    training_make(TG_POSITION_LEARNED, TG_ATTENTION_FUSED, 2, true)};
    for (int k = 0; k < 4; k++) {
        bool trains = k % 2, records = k / 2;
        tg_tensor *logits[2];
        size_t idle[2];
        for (int i = 0; i < 2; i++) {
            tg_tape *t = m[i].tape;
            tg_tape_reset(t);
            tg_pool_trim(t->pool);
            tg_tape_set_training(t, trains);
            tg_tape_set_recording(t, records);
            tg_kv_cache *cache = records ? NULL : tg_kv_cache_new(TG_F32, 2, B, 3, T, WIDTH, NULL, NULL);
            logits[i] = tg_gpt_forward(t, m[i].model, m[i].inputs, with_cache(cache));
            assert_non_null(logits[i]);
            idle[i] = tape_stats_of(t).idle_bytes;
            tg_kv_cache_free(cache);
        }
        assert_memory_equal(tg_tensor_data(logits[0]), tg_tensor_data(logits[1]), B * T * V * sizeof(float));
        assert_int_equal(idle[0] < idle[1], trains && records);
    }
    training_free(&m[0]);
    training_free(&m[1]);
}

/* Each allocation of a step fails in turn: the error is MEMORY, no span stays open, and the step that is repeated has
 * the bits of one without a failure. */
static void test_out_of_memory(void **state)
{
    (void)state;
    training expected = training_make(TG_POSITION_ROTARY, TG_ATTENTION_FUSED, 2, true);
    tg_rng *saved = tg_rng_new(0);
    assert_true(step(&expected));
    bool finished = false;
    for (size_t k = 1; !finished; k++) {
        counting_allocator counting;
        allocator_install(&counting);
        training m = training_make(TG_POSITION_ROTARY, TG_ATTENTION_FUSED, 2, true);
        tg_rng_copy(saved, tg_run_rng(m.run));
        allocator_arm(&counting, k, false);
        finished = step(&m);
        allocator_arm(&counting, 0, false);
        if (!finished) {
            assert_true(tg_tape_error(m.tape)->code == TG_ERROR_MEMORY ||
                        optim_error(m.optim)->code == TG_ERROR_MEMORY);
            clear_tape_error(m.tape);
            clear_optim_error(m.optim);
            assert_null(tg_activation_checkpoint_end(m.tape, m.inputs));
            assert_tape_error(m.tape, TG_ERROR_STATE, "no span is open");
            tg_rng_copy(tg_run_rng(m.run), saved);
            assert_true(step(&m));
        }
        compare(expected.params, m.params, "after a failure");
        training_free(&m);
        assert_int_equal(counting.live, 0);
        allocator_restore();
        assert_true(k < 1000);
    }
    training_free(&expected);
    tg_rng_free(saved);
}

static void test_later_steps_allocate_nothing(void **state)
{
    (void)state;
    counting_allocator counting;
    training m = training_make(TG_POSITION_LEARNED, TG_ATTENTION_FUSED, 3, true);
    assert_true(step(&m) && step(&m));
    allocator_install(&counting);
    assert_true(step(&m) && step(&m));
    assert_int_equal(counting.calls, 0);
    allocator_restore();
    training_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_passes_without_spans),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_later_steps_allocate_nothing),
    };
    return cmocka_run_group_tests_name("gpt_checkpointing", tests, NULL, NULL);
}
